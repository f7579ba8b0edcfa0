"""A small T5 of one's own: tokeniser and network are trained on the corpus itself, within a time budget."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from longtail.augment.generate.filler import Filler, endless
from longtail.augment.generate.networks import Documents, SpanGenerator
from longtail.fit import Fit
from longtail.part import Arrays, option
from longtail.texts import without_half_surrogates

#: Gaps a text may have, and characters of texts that the tokeniser learns from.
SENTINELS, TOKENISER_CHARACTERS = 32, 10_000_000
PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"


@dataclass(kw_only=True)
class Local(SpanGenerator):
    """Fills gaps with a small network that has seen nothing but the corpus."""

    prompt_share: ClassVar[float] = 0.2

    rate: float = option(0.05, "learning rate of the soft vectors", low=1e-6, high=10, only={"prompt": True})
    minutes: float = option(20.0, "minutes of training, at most; a fifth of them for the prompt", low=0, high=1e6)
    steps: int = option(20_000, "optimiser steps of the network, and of the prompt, at most", low=0)
    width: int = option(128, "width of the network", low=16, high=4096)
    layers: int = option(2, "layers of the encoder, and of the decoder", low=1, high=48)
    vocabulary: int = option(8000, "word pieces", low=300, high=1_000_000)
    network_rate: float = option(0.02, "learning rate of the network, relative to the size of its weights (nanoT5)",
                                 low=1e-6, high=1)  # fmt: skip

    def network_bytes(self) -> int:
        parameters = self.vocabulary * self.width + 2 * self.layers * 14 * self.width**2
        return 16 * parameters + (300 << 20)

    def origin(self) -> str:
        return ""

    def base(self, documents: Documents, fit: Fit, until: float) -> tuple[Filler, dict[str, NDArray[Any]]]:
        with fit.run.bar("Tokeniser", None):
            tokeniser = trained_tokeniser(documents, self.vocabulary)
        filler = self._filler(tokeniser)
        optimiser = torch.optim.Adafactor(filler.model.parameters(), lr=self.network_rate)
        batches = endless(lambda rng: documents.drawn(filler, rng), fit.run.rng("local"))
        with fit.run.bar("Generator", 100) as bar:
            filler.train(batches, optimiser, self.steps, until, bar)
        arrays: dict[str, NDArray[Any]] = {
            f"weight.{name}": tensor.detach().numpy().copy() for name, tensor in filler.model.named_parameters()
        }
        arrays["tokeniser"] = np.frombuffer(tokeniser.to_str().encode(), dtype=np.uint8)
        return filler, arrays

    def restored(self, arrays: Arrays) -> Filler:
        from tokenizers import Tokenizer

        filler = self._filler(Tokenizer.from_str(arrays["tokeniser"].tobytes().decode()))
        with torch.no_grad():
            for name, parameter in filler.model.named_parameters():
                parameter.copy_(torch.from_numpy(np.array(arrays[f"weight.{name}"])))
        return filler

    def _filler(self, tokeniser: Any) -> Filler:
        from transformers import T5Config, T5ForConditionalGeneration

        heads = max(1, self.width // 32)
        options: dict[str, Any] = {
            "vocab_size": tokeniser.get_vocab_size(), "d_model": self.width, "d_kv": max(1, self.width // heads),
            "d_ff": 4 * self.width, "num_layers": self.layers, "num_decoder_layers": self.layers, "num_heads": heads,
            "dropout_rate": 0.0, "tie_word_embeddings": True, "pad_token_id": tokeniser.token_to_id(PAD),
            "eos_token_id": tokeniser.token_to_id(END), "decoder_start_token_id": tokeniser.token_to_id(PAD),
        }  # fmt: skip
        return Filler.of(tokeniser, T5ForConditionalGeneration(T5Config(**options)), "local", self.most_tokens)


def trained_tokeniser(documents: Documents, vocabulary: int) -> Any:
    """Byte pairs, so that every text can be written; the texts' and the labels' own."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    texts: list[str] = []
    room = TOKENISER_CHARACTERS
    # documents from all over the corpus, as many as there is room for
    for row in documents.rows[np.argsort(np.arange(len(documents.rows)) * 7919 % 104_729, kind="stable")]:
        texts.append(" ".join([*documents.labels_of(int(row)), documents.texts[row]]))
        room -= len(texts[-1])
        if room < 0:
            break
    tokeniser = Tokenizer(models.BPE())
    tokeniser.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokeniser.decoder = decoders.ByteLevel()
    signs = [PAD, END, UNKNOWN, *(f"<extra_id_{number}>" for number in range(SENTINELS))]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=signs, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokeniser.train_from_iterator(map(without_half_surrogates, texts), trainer)
    tokeniser.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", special_tokens=[(END, tokeniser.token_to_id(END))]
    )
    return Tokenizer.from_str(json.dumps(json.loads(tokeniser.to_str()), sort_keys=False))
