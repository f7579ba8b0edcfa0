"""DECAF's network trained without autograd and without Lightning: the same steps in three fifths of the time or less.

Where a document is a weighted bag of words, a label's vector is made of its text and one of its own, and a batch shares
its labels, all gradients are three matrix products and a few sums over rows. Written down by hand they need no graph,
no copies and no targets for pairs that are not there. Whatever else is asked for (hooks, validation, averages, several
devices, logs, another network) goes the general way, `trainer`; both draw the same numbers, and differ by rounding.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longtail.arrays import Floats, Ints, Longs, njit
from longtail.augment.hooks import Hook
from longtail.features.pretrained import torch_threads
from longtail.features.tokens import Tokens
from longtail.keep.files import atomic_file
from longtail.learners.neural.encoders.short import WeightedBagNetwork
from longtail.learners.neural.heads.label_text import LabelTextNetwork
from longtail.learners.neural.shortlists.base import SharedLabels
from longtail.learners.neural.training import checkpoints
from longtail.learners.neural.training.batches import Batches, Share, seed_dropout
from longtail.learners.neural.training.blocks import drop
from longtail.learners.neural.training.data import Course, Schedule, TrainingData
from longtail.learners.neural.training.network import Network
from longtail.learners.neural.training.optimiser import Pace, update_rows
from longtail.run import Hardware, Run


def suits(network: Network, data: TrainingData, course: Course, hooks: Sequence[Hook], run: Run) -> bool:
    """Whether a training can go this way."""
    encoder, head = network.encoder, network.head
    plain = not (hooks or data.valid or course.average_from is not None or network.encoder_stands_still)
    return (
        plain
        and run.hardware == Hardware()
        and not torch.accelerator.is_available()
        and isinstance(data.choice, SharedLabels)
        and data.hidden is None
        and type(encoder) is WeightedBagNetwork
        and encoder.sums_only
        and type(head) is LabelTextNetwork
        and head.options.text_and_own
    )


def train(network: Network, data: TrainingData, course: Course, run: Run) -> None:
    """The network trained in place; a run that was cut goes on from its last checkpoint."""
    schedule = course.schedule
    with torch_threads(run.workers), torch.no_grad(), contextlib.ExitStack() as stack:
        steps = _Steps(network.train(), data, schedule)
        kept = _Kept(course.checkpoints, steps)
        share = Share(start=steps.done)
        batches = Batches(data.tokens, data.choice, schedule.batch, seed=schedule.seed, share=share)
        bar = stack.enter_context(run.bar(course.title, schedule.steps))
        with run.earlier() if steps.done else contextlib.nullcontext():
            bar.advance(steps.done)
        while steps.done < schedule.steps:
            for rows, rng in batches.rows():
                steps.take(rows, rng)
                bar.advance(1)
                if steps.done == schedule.steps:
                    break
                kept.keep()
    network.eval()
    kept.forget()


class _Kept:
    """Checkpoints: weights, moments, and how many steps are done."""

    def __init__(self, folder: Path | None, steps: _Steps) -> None:
        self.folder, self.steps, self.last = folder, steps, time.monotonic()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            found = checkpoints.latest(folder)
            if found is not None:
                steps.restore(torch.load(found, map_location="cpu", weights_only=True))

    def keep(self) -> None:
        if self.folder is None or time.monotonic() - self.last < checkpoints.CHECKPOINT_SECONDS:
            return
        new = self.folder / f"{self.steps.done}.ckpt"
        with atomic_file(new, overwrite=True) as handle:
            torch.save(self.steps.state(), handle)
        checkpoints.only(new)
        self.last = time.monotonic()

    def forget(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


class Bags(NamedTuple):
    """Weighted words of texts: those of row i are word[start[i] : start[i + 1]], and so their weights."""

    start: Longs
    word: Longs
    weight: Floats


class _Steps:
    """Steps of the optimiser, one after the other."""

    def __init__(self, network: Network, data: TrainingData, schedule: Schedule) -> None:
        encoder: Any = network.encoder
        head: Any = network.head
        self.network, self.schedule, self.done = network, schedule, 0
        self.choice: Any = data.choice
        self.words, self.own, self.bias, self.gates = (
            each.detach() for each in (encoder.words.weight, head.vectors.weight, head.bias.weight, head.gates)
        )
        self.dropout: float = encoder.dropout
        self.documents = _weighted(data.tokens, encoder.idf.numpy())
        self.labels = Bags(head.texts.start, head.texts.word, head.texts.weight)
        self.weights = [self.words, self.own, self.bias, self.gates]
        self.rates = [schedule.word_rate, schedule.label_rate, schedule.label_rate, schedule.rate]
        # no optimiser of torch's: making one imports its compiler, which takes seconds
        self.moments = [(torch.zeros_like(each), torch.zeros_like(each)) for each in self.weights]
        self.places = np.full(len(self.words), -1, dtype=np.int32)
        self.rooms: dict[str, Tensor] = {}

    def state(self) -> dict[str, Any]:
        return {"done": self.done, "network": self.network.state_dict(), "moments": self.moments}

    def restore(self, kept: dict[str, Any]) -> None:
        self.network.load_state_dict(kept["network"])
        self.moments = [(mean, square) for mean, square in kept["moments"]]
        self.done = int(kept["done"])

    def take(self, rows: NDArray[np.int64], rng: np.random.Generator) -> None:
        """One step on some documents."""
        labels, pairs, weights = self.choice.pairs(rows, rng)
        seed_dropout(self.schedule.seed, self.done)
        gates = self.gates.sigmoid()
        documents = self._sums("documents", self.documents, rows)
        kept = drop(torch.ones_like(documents), self.dropout, training=True)
        documents.mul_(kept)
        texts = self._sums("texts", self.labels, labels)
        vectors = self._room("vectors", texts.shape)
        _join(texts.numpy(), self.own.numpy(), labels, gates.numpy(), vectors.numpy())
        wrong = torch.mm(documents, vectors.T, out=self._room("wrong", (len(rows), len(labels))))
        wrong.add_(self.bias[torch.from_numpy(labels), 0]).sigmoid_()
        _compare(wrong.numpy(), *pairs, weights)
        of_documents = torch.mm(wrong, vectors, out=self._room("of documents", documents.shape))
        of_documents.mul_(kept.div_(len(rows)))
        of_bias = wrong.sum(dim=0).div_(len(rows))
        of_vectors = torch.mm(wrong.T, documents.div_(len(rows)), out=vectors)
        of_own, of_gates = self._room("of own", texts.shape), torch.zeros_like(gates)
        # what is of vectors becomes what is of texts
        _part(
            of_vectors.numpy(), texts.numpy(), self.own.numpy(), labels, gates.numpy(), of_own.numpy(), of_gates.numpy()
        )
        found, of_words = self._of_words(rows, labels, of_documents, of_vectors)
        own, both = torch.from_numpy(labels), torch.arange(len(gates))
        of_gates.mul_(gates * (1 - gates))
        self._update([(found, of_words), (own, of_own), (own, of_bias[:, None]), (both, of_gates)])

    def _sums(self, name: str, bags: Bags, rows: NDArray[np.int64]) -> Tensor:
        """(len(rows), D): the sums of the word vectors of some texts."""
        made = self._room(name, (len(rows), self.words.shape[1]))
        _add_up(bags, rows, self.words.numpy(), made.numpy())
        return made

    def _of_words(self, rows: Any, labels: Any, of_documents: Tensor, of_texts: Tensor) -> tuple[Tensor, Tensor]:
        """The words of some documents and labels, each once, and their gradients."""
        most = _count(self.documents, rows) + _count(self.labels, labels)
        found = np.empty(min(most, len(self.words)), dtype=np.int64)
        count = _number(self.documents, rows, self.places, found, 0)
        count = _number(self.labels, labels, self.places, found, count)
        made = self._room("of words", (count, self.words.shape[1])).zero_()
        _hand_on(self.documents, rows, self.places, of_documents.numpy(), made.numpy())
        _hand_on(self.labels, labels, self.places, of_texts.numpy(), made.numpy())
        self.places[found[:count]] = -1
        return torch.from_numpy(found[:count]), made

    def _update(self, gradients: list[tuple[Tensor, Tensor]]) -> None:
        """A step of Adam on the rows that have a gradient, all held to the largest norm together."""
        clip, self.done = self.schedule.clip, self.done + 1
        norm = math.sqrt(sum(float(torch.linalg.vector_norm(values)) ** 2 for _, values in gradients))
        factor = self.schedule.factor(self.done - 1)
        for weights, moments, gradient, rate in zip(self.weights, self.moments, gradients, self.rates, strict=True):
            if clip and norm + 1e-6 > clip:
                gradient[1].mul_(clip / (norm + 1e-6))
            decay = self.schedule.decay if weights is self.gates else 0.0
            update_rows(weights, moments, gradient, Pace(self.done, rate * factor, decay))

    def _room(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Room for numbers, the same one at every step."""
        size = math.prod(shape)
        if name not in self.rooms or len(self.rooms[name]) < size:
            self.rooms[name] = torch.empty(size + size // 8)
        return self.rooms[name][:size].view(shape)


def _weighted(tokens: Tokens, idf: NDArray[np.float32]) -> Bags:
    """Documents whose words count as much as they are rare; the squares of a document's weights sum to 1."""
    weight = idf[tokens.ids]
    norm = np.sqrt(np.add.reduceat(weight * weight, tokens.indptr[:-1]))
    weight /= np.repeat(np.maximum(norm, np.float32(1e-9)), tokens.lengths)
    return Bags(tokens.indptr.astype(np.int64), tokens.ids.astype(np.int64), weight)


@njit(nogil=True, cache=True, fastmath=True)
def _add_up(bags: Bags, rows: Longs, words: Floats, out: Floats) -> None:
    start, word, weight = bags.start, bags.word, bags.weight
    for i in range(len(rows)):
        o = out[i]
        o[:] = 0
        for e in range(start[rows[i]], start[rows[i] + 1]):
            w, by = words[word[e]], weight[e]
            for j in range(len(o)):
                o[j] += by * w[j]


@njit(nogil=True, cache=True)
def _count(bags: Bags, rows: Longs) -> int:
    """Words of some texts, as often as they are there."""
    start, total = bags.start, 0
    for row in rows:
        total += start[row + 1] - start[row]
    return total


@njit(nogil=True, cache=True)
def _number(bags: Bags, rows: Longs, places: Ints, found: Longs, count: int) -> int:
    """Numbers the words of some texts that have no place yet, from `count` on; how many there are now."""
    start, word = bags.start, bags.word
    for row in rows:
        for e in range(start[row], start[row + 1]):
            if places[word[e]] < 0:
                places[word[e]] = count
                found[count] = word[e]
                count += 1
    return count


@njit(nogil=True, cache=True, fastmath=True)
def _hand_on(bags: Bags, rows: Longs, places: Ints, gradient: Floats, out: Floats) -> None:
    """Adds to each word's gradient that of the texts it is in."""
    start, word, weight = bags.start, bags.word, bags.weight
    for i in range(len(rows)):
        g = gradient[i]
        for e in range(start[rows[i]], start[rows[i] + 1]):
            o, by = out[places[word[e]]], weight[e]
            for j in range(len(g)):
                o[j] += by * g[j]


@njit(nogil=True, cache=True, fastmath=True)
def _join(texts: Floats, own: Floats, labels: Longs, gates: Floats, out: Floats) -> None:
    """Label vectors: what their texts say and what is their own, through gates."""
    first, second = gates[0], gates[1]
    for i in range(len(labels)):
        t, u, o = texts[i], own[labels[i]], out[i]
        for j in range(len(o)):
            o[j] = first[j] * t[j] + second[j] * u[j]


@njit(nogil=True, cache=True)
def _compare(found: Floats, document: Longs, column: Longs, target: Floats, weights: Floats | None) -> None:
    """Probabilities become what is wrong with them: targets are taken off where there are any, masked pairs are 0."""
    for e in range(len(document)):
        wrong = found[document[e], column[e]] - target[e]
        found[document[e], column[e]] = wrong if weights is None else wrong * weights[e]


@njit(nogil=True, cache=True, fastmath=True)
def _part(
    gradient: Floats, texts: Floats, own: Floats, labels: Longs, gates: Floats, of_own: Floats, of_gates: Floats
) -> None:
    """From the gradient of label vectors those of what they are made of: of texts, in its place, of own, and gates.

    Loops over few arrays each, which are short enough to stay in the nearest cache: these run on vectors.
    """
    first, second, of_first, of_second = gates[0], gates[1], of_gates[0], of_gates[1]
    for i in range(len(labels)):
        g, t, u, o = gradient[i], texts[i], own[labels[i]], of_own[i]
        for j in range(len(g)):
            of_first[j] += g[j] * t[j]
        for j in range(len(g)):
            of_second[j] += g[j] * u[j]
        for j in range(len(g)):
            o[j] = g[j] * second[j]
        for j in range(len(g)):
            g[j] *= first[j]
