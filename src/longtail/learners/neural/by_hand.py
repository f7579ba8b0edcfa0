"""DECAF's network trained without autograd, without Lightning and without torch: in three fifths of the time or less.

Where a document is a weighted bag of words, a label's vector is made of its text and one of its own, and a batch shares
its labels, all gradients are three matrix products and a few sums over rows. Written down by hand they need no graph,
no copies and no targets for pairs that are not there, and nothing that would have to be imported for seconds. Whatever
else is asked for (hooks, validation, averages, several devices, logs, another network) goes the general way,
`trainer`; both draw the same numbers, and differ by rounding.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Floats, Ints, Longs, njit
from longtail.blas import blas_threads
from longtail.fit import Fit
from longtail.keep.files import atomic_file
from longtail.keep.safetensors import read_kept, write_arrays
from longtail.learners.neural.bags import Bags, SummedWords, one_of
from longtail.learners.neural.memory import goes_by_hand
from longtail.learners.neural.training import checkpoints
from longtail.learners.neural.training.adam import Pace, Tables, update_rows
from longtail.learners.neural.training.batches import Batches, Share, dropout_seed
from longtail.learners.neural.training.data import Schedule
from longtail.learners.neural.training.draws import Draws
from longtail.learners.neural.training.task import Task, texts_of
from longtail.part import Arrays
from longtail.run import Hardware

if TYPE_CHECKING:
    from longtail.engines.local import Crew
    from longtail.features.tokens import Tokens
    from longtail.learners.neural.short_text import ShortTextLearner

#: Numbers that a thread works on at a time, at least, and pieces of a step, at most.
PIECE, MOST_PIECES = 1 << 17, 16
#: Where Linux shows devices that torch may know: those of Nvidia, AMD and Intel, and Windows' beneath it.
DEVICES = ("nvidiactl", "nvidia0", "kfd", "dri", "accel", "dxg")


def suits(learner: ShortTextLearner, fit: Fit) -> bool:
    """Whether a training can go this way."""
    asked = fit.hooks or fit.valid is not None or fit.run.hardware != Hardware()
    return not asked and goes_by_hand(learner) and not _accelerator()


def _accelerator() -> bool:
    """Whether there is something quicker than the processor; torch is asked where there may be."""
    if sys.platform == "linux" and not any(Path("/dev", name).exists() for name in DEVICES):
        return False
    if find_spec("torch") is None:
        return False
    import torch

    return torch.accelerator.is_available()


def train(learner: ShortTextLearner, task: Task) -> SummedWords:
    """What is kept of the trained network; a run that was cut goes on from its last checkpoint."""
    run = task.fit.run
    key = learner.key_of(task)
    tokens = learner.encoder.tokens(texts_of(task.corpus), run, keep=True)
    with blas_threads(1), run.crew() as crew, contextlib.ExitStack() as stack:
        steps = _Steps(learner, task, tokens, crew)
        kept = _Kept(run.checkpoints / key if run.checkpoints is not None and key else None, steps)
        schedule, share = steps.schedule, Share(start=steps.done)
        batches = Batches(tokens, steps.choice, schedule.batch, seed=schedule.seed, share=share)
        bar = stack.enter_context(run.bar(task.title, schedule.steps))
        with run.earlier() if steps.done else contextlib.nullcontext():
            bar.advance(steps.done)
        while steps.done < schedule.steps:
            for rows, rng in batches.rows():
                steps.take(rows, rng)
                bar.advance(1)
                if steps.done == schedule.steps:
                    break
                kept.keep()
        made = steps.folded()
    kept.forget()
    return made


class Weights(NamedTuple):
    """What is trained: words (V, D), labels' own vectors (L, D), their bias (L, 1), gates (2, D). All float32."""

    words: NDArray[np.float32]
    own: NDArray[np.float32]
    bias: NDArray[np.float32]
    gates: NDArray[np.float32]


def _begun(learner: ShortTextLearner, task: Task, labels: Bags) -> Weights:
    """Weights before training, drawn as a network of torch's draws them: its word vectors first for nothing."""
    encoder, index = learner.encoder, task.corpus.labels
    shape = (encoder.tokeniser_.size, encoder.size)
    draws = Draws(task.fit.run.seed_of("network"))
    draws.skip_normal(shape)
    words = draws.normal(shape, encoder.size**-0.5)
    encoder.tell_words(words)
    own = np.zeros((len(index), encoder.size), dtype=np.float32)
    if learner.head.start == "text":
        labels.sums(np.arange(len(index)), words, own)
    bias = np.full((len(index), 1), learner.head.bias, dtype=np.float32)
    bias += learner.prior_odds(index)[:, None]
    return Weights(words, own, bias, np.zeros((2, encoder.size), dtype=np.float32))


class _Kept:
    """Checkpoints: weights, moments, and how many steps are done."""

    def __init__(self, folder: Path | None, steps: _Steps) -> None:
        self.folder, self.steps, self.last = folder, steps, time.monotonic()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            found = next((kept for file in checkpoints.newest_first(folder) if (kept := read_kept(file))), None)
            if found is not None:
                steps.restore(found)

    def keep(self) -> None:
        if self.folder is None or time.monotonic() - self.last < checkpoints.CHECKPOINT_SECONDS:
            return
        new = self.folder / f"{self.steps.done}.ckpt"
        with atomic_file(new, overwrite=True) as handle:
            write_arrays(handle, self.steps.state())
        checkpoints.only(new)
        self.last = time.monotonic()

    def forget(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


class _Steps:
    """Steps of the optimiser, one after the other."""

    def __init__(self, learner: ShortTextLearner, task: Task, tokens: Tokens, crew: Crew) -> None:
        assert task.facts is not None
        texts, self.idf, self.crew = task.facts.texts, learner.encoder.idf_, crew
        self.schedule: Schedule = learner.schedule_of(task)
        self.done, self.choice = 0, learner.shortlist.choice(task.corpus)
        self.dropout: float = learner.encoder.dropout
        self.documents = Bags.of(tokens, self.idf)
        self.labels = Bags(texts.indptr.astype(np.int64), texts.indices.astype(np.int64), texts.data.astype(np.float32))
        self.weights = _begun(learner, task, self.labels)
        layers, words, labels = self.schedule.rate, self.schedule.word_rate, self.schedule.label_rate
        self.rates = (words, labels, labels, layers)
        self.tables = [Tables(each, np.zeros_like(each), np.zeros_like(each)) for each in self.weights]
        self.places = np.full(len(self.weights.words), -1, dtype=np.int32)
        self.rooms: dict[str, NDArray[np.float32]] = {}

    def state(self) -> dict[str, NDArray[Any]]:
        made = {f"{name}.{number}": array for number, table in enumerate(self.tables)
                for name, array in table._asdict().items()}  # fmt: skip
        return {"done": np.array([self.done]), **made}

    def restore(self, kept: Arrays) -> None:
        for number, table in enumerate(self.tables):
            for name, array in table._asdict().items():
                array[:] = kept[f"{name}.{number}"]
        self.done = int(kept["done"][0])

    def folded(self) -> SummedWords:
        """What documents are scored with."""
        words, own, bias, gates = self.weights
        vectors, every = np.empty_like(own), np.arange(len(own))
        self.labels.sums(every, words, vectors)
        _join(vectors, own, every, _open(gates), vectors)
        return SummedWords(words, self.idf, vectors, bias)

    def take(self, rows: NDArray[np.int64], rng: np.random.Generator) -> None:
        """One step on some documents."""
        labels, pairs, weights = self.choice.pairs(rows, rng)
        gates, own, bias = _open(self.weights.gates), self.weights.own, self.weights.bias[labels, 0]
        documents, texts, vectors = self._vectors(rows, labels, gates)
        kept = self._dropped(documents)
        wrong = self._room("wrong", (len(rows), len(labels)))
        of_vectors, of_own = self._room("of vectors", texts.shape), self._room("of own", texts.shape)
        of_documents, of_bias = self._room("of documents", documents.shape), self._room("of bias", (len(labels), 1))
        of_labels, of_rows = self._pieces(wrong.size, len(labels)), self._pieces(wrong.size, len(rows))
        of_gates = np.zeros((len(of_labels), *gates.shape), dtype=np.float32)

        def expect(at: slice) -> None:
            np.matmul(documents[at], vectors.T, out=wrong[at])
            one_of(np.subtract(-bias, wrong[at], out=wrong[at]))

        def learn_rows(at: slice) -> None:
            np.matmul(wrong[at], vectors, out=of_documents[at])
            of_documents[at] *= 1 if kept is None else kept[at]
            of_documents[at] /= np.float32(len(rows))

        def learn_labels(at: slice, of_gates: NDArray[np.float32]) -> None:
            np.matmul(wrong[:, at].T, documents, out=of_vectors[at])
            np.divide(wrong[:, at].sum(axis=0), np.float32(len(rows)), out=of_bias[at, 0])
            _part(of_vectors[at], texts[at], own, labels[at], gates, of_own[at], of_gates)  # becomes that of texts

        self.crew.do([partial(expect, at) for at in of_rows])
        _compare(wrong, *pairs, weights)
        documents /= np.float32(len(rows))
        self.crew.do([*(partial(learn_labels, *each) for each in zip(of_labels, of_gates, strict=True)),
                      *(partial(learn_rows, at) for at in of_rows)])  # fmt: skip
        found, of_words = self._of_words(rows, labels, of_documents, of_vectors)
        together = of_gates.sum(axis=0) * gates * (1 - gates)
        self._update([(found, of_words), (labels, of_own), (labels, of_bias), (np.arange(2), together)])

    def _dropped(self, values: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Dropout, as `blocks.drop`, in place: what the values were multiplied by."""
        if not self.dropout:
            return None
        stays = max(1, round(256 * (1 - self.dropout)))
        drawn = Draws(dropout_seed(self.schedule.seed, self.done)).bytes(values.size).reshape(values.shape)
        kept = np.multiply(drawn < stays, np.float32(256 / stays), out=self._room("kept", values.shape))
        values *= kept
        return kept

    def _pieces(self, size: int, rows: int) -> list[slice]:
        """Rows in pieces for threads, which follow from the size of the work alone: matrix products round by shape."""
        count = min(rows, MOST_PIECES, -(-size // PIECE))
        return [slice(rows * i // count, rows * (i + 1) // count) for i in range(count)]

    def _vectors(self, rows: Longs, labels: Longs, gates: Floats) -> tuple[NDArray[np.float32], ...]:
        """(len(rows), D) of documents and (len(labels), D) of labels' texts, sums of word vectors; labels' vectors."""
        words, own = self.weights.words, self.weights.own
        documents = self._room("documents", (len(rows), words.shape[1]))
        texts, vectors = (self._room(name, (len(labels), words.shape[1])) for name in ("texts", "vectors"))

        def read_labels(at: slice) -> None:
            self.labels.sums(labels[at], words, texts[at])
            _join(texts[at], own, labels[at], gates, vectors[at])

        def read_documents(at: slice) -> None:
            self.documents.sums(rows[at], words, documents[at])

        # documents are longer than labels' texts
        tasks = [partial(read_documents, at) for at in self._pieces(4 * documents.size, len(rows))]
        self.crew.do(tasks + [partial(read_labels, at) for at in self._pieces(texts.size, len(labels))])
        return documents, texts, vectors

    def _of_words(self, rows: Longs, labels: Longs, of_documents: Floats, of_texts: Floats) -> tuple[Longs, Floats]:
        """The words of some documents and labels, each once, and their gradients."""
        most = _count(self.documents, rows) + _count(self.labels, labels)
        found = np.empty(min(most, len(self.places)), dtype=np.int64)
        count = _number(self.documents, rows, self.places, found, 0)
        count = _number(self.labels, labels, self.places, found, count)
        made = self._room("of words", (count, self.weights.words.shape[1]))
        pieces = min(4, self.crew.workers)  # each word's sum is one thread's, in the same order

        def hand_on(piece: int) -> None:
            _hand_on(self.documents, rows, self.places, of_documents, made, piece, pieces)
            _hand_on(self.labels, labels, self.places, of_texts, made, piece, pieces)

        made.fill(0)
        self.crew.do([partial(hand_on, piece) for piece in range(pieces)])
        self.places[found[:count]] = -1
        return found[:count], made

    def _update(self, gradients: list[tuple[Longs, Floats]]) -> None:
        """A step of Adam on the rows that have a gradient, all held to the largest norm together."""
        clip, self.done = self.schedule.clip, self.done + 1
        norm = math.sqrt(sum(_square(values) for _, values in gradients)) if clip else 0.0
        factor, tasks = self.schedule.factor(self.done - 1), []
        for number, (rows, values) in enumerate(gradients):
            if clip and norm + 1e-6 > clip:
                np.multiply(values, np.float32(clip / (norm + 1e-6)), out=values)
            decay = self.schedule.decay if number == 3 else 0.0  # of the gates
            pace = Pace(self.done, self.rates[number] * factor, decay)
            tasks += [partial(update_rows, self.tables[number], rows[at], values[at], pace)
                      for at in self._pieces(values.size, len(rows))]  # fmt: skip
        self.crew.do(tasks)

    def _room(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Room for numbers, the same one at every step."""
        size = math.prod(shape)
        if name not in self.rooms or len(self.rooms[name]) < size:
            self.rooms[name] = np.empty(size + size // 8, dtype=np.float32)
        return self.rooms[name][:size].reshape(shape)


def _open(gates: NDArray[np.float32]) -> NDArray[np.float32]:
    """How far gates are open, from 0 to 1."""
    made = -gates
    one_of(made)
    return made


def _square(values: Floats) -> float:
    """The sum of squares, however many threads there are."""
    return float(np.einsum("ij,ij->i", values, values).sum(dtype=np.float64))


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
def _hand_on(bags: Bags, rows: Longs, places: Ints, gradient: Floats, out: Floats, piece: int, pieces: int) -> None:
    """Adds to each word's gradient that of the texts it is in, for every so many words."""
    start, word, weight = bags.start, bags.word, bags.weight
    for i in range(len(rows)):
        g = gradient[i]
        for e in range(start[rows[i]], start[rows[i] + 1]):
            place = places[word[e]]
            if place % pieces != piece:
                continue
            o, by = out[place], weight[e]
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
