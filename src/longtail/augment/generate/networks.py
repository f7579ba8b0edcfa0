"""Encoder-decoders as generators: pre-trained, or small and trained on the corpus itself; with a soft prompt or not.

A document goes through window by window, its labels in front of each, some words masked. The network fills them.
"""

from __future__ import annotations

import hashlib
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from longtail.augment.generate.base import Generator, Writer
from longtail.augment.generate.filler import Filler, endless, torch_seed
from longtail.augment.generate.kept import keep_arrays, kept_arrays
from longtail.augment.generate.prompt import DeepPrompt
from longtail.augment.generate.spans import LABEL_SHARE, Window, cut, label_words, window_of
from longtail.corpus import Corpus
from longtail.fit import Fit
from longtail.part import Arrays, option
from longtail.plan import Sizes, Stage
from longtail.registry import config_of
from longtail.run import Run

#: What torch and transformers hold, and how many texts per second a small network writes on one core.
LIBRARIES, TEXTS_PER_SECOND = 420 << 20, 8.0
#: Options that say nothing of the network below the soft vectors.
OF_PROMPT = ("prompt", "prompt_length", "rate")


@dataclass(kw_only=True)
class SpanGenerator(Generator):
    """What both have in common."""

    batch: ClassVar[int] = 16
    libraries: ClassVar[int] = LIBRARIES
    #: Share of the minutes that goes to soft vectors.
    prompt_share: ClassVar[float] = 1.0

    share: float = option(0.15, "share of the words that is masked (released code: 0.15)", low=0.01, high=0.9)
    labels: str = option("kept", "labels in front of the text: kept whole, masked like any word (as printed), or none "
                         "(released code)", choices=("kept", "masked", "none"))  # fmt: skip
    window: int = option(64, "words of a document, labels included, that are read at once", low=8, high=1000)
    sample: bool = option(False, "draw words; if not, take the likeliest (released code)")
    temperature: float = option(1.0, "of the draw: below 1 likely words are preferred", low=0.05, high=10,
                                only={"sample": True})  # fmt: skip
    prompt: bool = option(True, "train soft vectors at every layer of the encoder; if not, none (paper's ablation)")
    prompt_length: int = option(
        5, "soft vectors per layer, k (released code: 5)", low=1, high=200, only={"prompt": True}
    )
    rate: float = option(0.3, "learning rate of the soft vectors (released code: 0.3)", low=1e-6, high=10,
                         only={"prompt": True})  # fmt: skip
    steps: int = option(3000, "optimiser steps of the soft vectors, at most", low=0, only={"prompt": True})
    minutes: float = option(20.0, "minutes of training, at most", low=0, high=1e6, only={"prompt": True})

    @abstractmethod
    def base(self, documents: Documents, fit: Fit, until: float) -> tuple[Filler, dict[str, NDArray[Any]]]:
        """The network without soft vectors, and what is to be kept of it."""

    @abstractmethod
    def restored(self, arrays: Arrays) -> Filler:
        """The network from what `base` kept."""

    @abstractmethod
    def origin(self) -> str:
        """All that the network depends on beside options and documents."""

    def plan_writing(self, sizes: Sizes, texts: int, run: Run) -> list[Stage]:
        length = sizes.texts_bytes // max(1, sizes.documents)
        windows = max(1.0, length / 6 / self.window)
        training = Stage("generator", 60 * self.minutes, self.network_bytes(), self.network_bytes() // 4)
        made = texts * length
        writing = Stage("generate", texts * windows / TEXTS_PER_SECOND, made + (64 << 20), made - training.kept)
        return [training, writing]

    @property
    def most_tokens(self) -> int:
        """Tokens of a window: words of usual length have one to four."""
        return 4 * self.window + 16

    def network_bytes(self) -> int:
        """What training the network holds at most."""
        return 400 << 20

    def opened(self, corpus: Corpus, fit: Fit) -> Writer:
        documents = Documents(corpus, self)
        with fit.run.stage("generator"), torch_seed(fit.run.seed_of("generator") % (1 << 63), fit.run):
            filler = self._network(documents, fit)
            if self.prompt:
                self._add_prompt(filler, documents, fit)
        return SpanWriter(documents, filler, fit.run)

    def _network(self, documents: Documents, fit: Fit) -> Filler:
        """Without soft vectors: with a prompt or not, it is the same network."""
        key = self._key(documents.corpus, fit.run, without=OF_PROMPT)
        found = kept_arrays(key, fit.run)
        if found is not None:
            with suppress(KeyError, ValueError, RuntimeError), fit.run.earlier():  # else damaged: learnt again
                return self.restored(found)
        filler, kept = self.base(documents, fit, self._late(1 - self.prompt_share))
        if kept:
            keep_arrays(key, kept, fit.run)
        return filler

    def _add_prompt(self, filler: Filler, documents: Documents, fit: Fit) -> None:
        prompt = filler.prompt = DeepPrompt(filler.model, self.prompt_length)
        filler.model.requires_grad_(False)
        key = self._key(documents.corpus, fit.run)
        found = kept_arrays(key, fit.run)
        if found is not None:
            with suppress(KeyError, ValueError, RuntimeError), fit.run.earlier(), torch.no_grad():
                prompt.vectors.copy_(torch.from_numpy(np.array(found["prompt"])))
                return
        optimiser = torch.optim.AdamW(prompt.parameters(), lr=self.rate, weight_decay=1e-5)
        batches = endless(lambda rng: documents.drawn(filler, rng), fit.run.rng("soft prompt"))
        with fit.run.bar("Soft prompt", 100) as bar:
            filler.train(batches, optimiser, self.steps, self._late(self.prompt_share), bar)
        keep_arrays(key, {"prompt": prompt.vectors.detach().numpy()}, fit.run)

    def _late(self, share: float) -> float:
        return time.monotonic() + 60 * self.minutes * share

    def _key(self, corpus: Corpus, run: Run, without: tuple[str, ...] = ()) -> str:
        """A name that only a network with the same options, trained on the same documents, has."""
        own = corpus.documents_only()
        documents = Corpus(labels=own.labels, Y=own.positives(), texts=own.texts).fingerprint
        options = {name: value for name, value in config_of(self).items() if name not in without}
        what = [options, self.origin(), documents, run.seed_of("generator"), run.workers, torch.__version__]
        return hashlib.sha256(repr(what).encode("utf-8", "surrogatepass")).hexdigest()


class Documents:
    """Documents as windows with their labels in front."""

    def __init__(self, corpus: Corpus, options: SpanGenerator) -> None:
        assert corpus.texts is not None
        self.corpus, self.options = corpus, options
        self.texts = corpus.texts
        self.rows = corpus.documents

    def labels_of(self, row: int) -> list[str]:
        """Words of a document's labels, rare labels first, as many as there is room for."""
        if self.options.labels == "none":
            return []
        corpus = self.corpus
        own = slice(corpus.Y.indptr[row], corpus.Y.indptr[row + 1])
        found = corpus.Y.indices[own][corpus.weighted_targets()[own] > 0]
        order = found[np.argsort(corpus.labels.frequency[found], kind="stable")]
        return label_words([corpus.labels.title(label) for label in order], int(LABEL_SHARE * self.options.window))

    def pieces(self, row: int, filler: Filler) -> tuple[list[str], list[tuple[str, ...]]]:
        """The words of a document's labels, and its text in pieces that the encoder can read with them."""
        labels = self.labels_of(row)
        waiting = cut(self.texts[row].split(), self.options.window - len(labels))
        found: list[tuple[str, ...]] = []
        while waiting:
            words = waiting.pop(0)
            if len(words) > 1 and not filler.fits(Window(tuple(labels), words, ())):
                waiting[:0] = cut(words, -(-len(words) // 2))
            else:
                found.append(words)
        return labels, found

    def masked(self, labels: list[str], words: tuple[str, ...], filler: Filler, rng: np.random.Generator) -> Window:
        masked = self.options.labels == "masked"
        return window_of(labels, words, self.options.share, filler.most_gaps, rng, mask_labels=masked)

    def drawn(self, filler: Filler, rng: np.random.Generator) -> Window:
        """A window of any document, to train on."""
        for _ in range(100):  # documents without words have nothing to teach
            labels, pieces = self.pieces(int(rng.choice(self.rows)), filler)
            window = self.masked(labels, pieces[rng.integers(len(pieces))], filler, rng)
            if window.gaps and filler.fits(window):
                break
        return window


class SpanWriter:
    """Fills gaps in every window of a document, and puts the windows together again."""

    def __init__(self, documents: Documents, filler: Filler, run: Run) -> None:
        self.documents, self.filler, self.run = documents, filler, run
        filler.model.eval()
        digest = hashlib.sha256(repr(config_of(documents.options)).encode())
        own = {} if filler.prompt is None else filler.prompt.state_dict()
        for weight in (*filler.model.state_dict().values(), *own.values()):
            digest.update(np.ascontiguousarray(weight.detach().numpy()).tobytes())
        self.identity = digest.hexdigest()

    def write(self, rows: NDArray[np.int64], seed: int) -> list[str]:
        rng = np.random.default_rng(seed)
        windows: list[Window] = []
        owners: list[int] = []
        for number, row in enumerate(rows):
            labels, pieces = self.documents.pieces(int(row), self.filler)
            windows += [self.documents.masked(labels, words, self.filler, rng) for words in pieces]
            owners += [number] * len(pieces)
        options = self.documents.options
        with torch_seed(seed, self.run), _plain_generation(self.filler.model):
            filled = self.filler.fill(windows, temperature=options.temperature if options.sample else None)
        texts: list[list[str]] = [[] for _ in rows]
        for owner, text in zip(owners, filled, strict=True):
            texts[owner].append(text)
        return [" ".join(piece for piece in pieces if piece) for pieces in texts]


@contextmanager
def _plain_generation(model: Any) -> Iterator[None]:
    """Without what a folder says of generation (beams, lengths, penalties), and without the library's advice."""
    from transformers import GenerationConfig, logging

    before, level = model.generation_config, logging.get_verbosity()
    config = model.config
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
        bos_token_id=getattr(config, "bos_token_id", None),
    )
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        model.generation_config = before
        logging.set_verbosity(level)
