"""Networks in which a document is the weighted sum of its words, and each label has a separator: as arrays, no torch.

That is what is kept of DECAF, and all that it takes to score documents.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from longtail.arrays import Floats, Ints, Longs, keep_best, njit
from longtail.features.tokens import Tokens
from longtail.part import Arrays
from longtail.scores import Scores

#: What a network calls its weights, in the order of `SummedWords`.
NAMES = ("encoder.words.weight", "encoder.idf", "head.vectors.weight", "head.bias.weight")
#: Documents scored at once.
SCORED = 64


class Bags(NamedTuple):
    """Weighted words of texts: those of row i are word[start[i] : start[i + 1]], and so their weights."""

    start: Longs
    word: Longs
    weight: Floats

    @classmethod
    def of(cls, tokens: Tokens, idf: NDArray[np.float32]) -> Self:
        """Documents whose words count as much as they are rare; the squares of a document's weights sum to 1."""
        weight = idf[tokens.ids]
        norm = np.sqrt(np.add.reduceat(weight * weight, tokens.indptr[:-1]))
        weight /= np.repeat(np.maximum(norm, np.float32(1e-9)), tokens.lengths)
        return cls(tokens.indptr.astype(np.int64), tokens.ids.astype(np.int64), weight)

    def sums(self, rows: NDArray[np.int64], words: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        """Writes (len(rows), D): the sums of the word vectors (V, D) of some texts."""
        add_up(self, rows, read_only(words), out)


class SummedWords(NamedTuple):
    """words (V, D) and how rare they are (V,); separators (L, D) and bias (L, 1) of labels. All float32."""

    words: NDArray[np.float32]
    idf: NDArray[np.float32]
    vectors: NDArray[np.float32]
    bias: NDArray[np.float32]

    @classmethod
    def of(cls, arrays: Arrays) -> Self:
        return cls(*(arrays[name] for name in NAMES))

    @classmethod
    def restored(cls, arrays: Arrays, words: int, size: int, n_labels: int) -> Self:
        """From a file, which nobody vouches for."""
        if set(arrays) != set(NAMES):
            raise ValueError(f"weights {sorted(set(NAMES) ^ set(arrays))[:3]} are missing or too many")
        shapes = ((words, size), (words,), (n_labels, size), (n_labels, 1))
        for name, shape in zip(NAMES, shapes, strict=True):
            given = arrays[name]
            if given.shape != shape or given.dtype != np.float32:
                raise ValueError(f"'{name}' is {given.dtype} {given.shape}, not float32 {shape}")
        return cls(*(np.require(arrays[name], requirements=["C", "A"]) for name in NAMES))

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        return dict(zip(NAMES, self, strict=True))

    def best(self, tokens: Tokens, k: int) -> Scores:
        """The k best labels of each document, with their probabilities."""
        bags, n_labels = Bags.of(tokens, self.idf), len(self.vectors)
        ids = np.full((len(tokens), k), -1, dtype=np.int32)
        values = np.zeros((len(tokens), k), dtype=np.float32)
        sums = np.empty((SCORED, self.words.shape[1]), dtype=np.float32)
        logits = np.empty((SCORED, n_labels), dtype=np.float32)
        for start in range(0, len(tokens), SCORED):
            end = min(start + SCORED, len(tokens))
            some, found = sums[: end - start], logits[: end - start]
            bags.sums(np.arange(start, end), self.words, some)
            np.matmul(some, self.vectors.T, out=found)
            found += self.bias[:, 0]
            _best(found, ids[start:end], values[start:end])
        probabilities(values)
        return Scores(ids, np.maximum(values, np.float32(1e-30), out=values)).sorted()


def probabilities(logits: NDArray[np.float32]) -> None:
    """Logits become probabilities, in place."""
    np.negative(logits, out=logits)
    one_of(logits)


def one_of(odds: NDArray[np.float32]) -> None:
    """1 / (1 + e^x) of each x, in place."""
    with np.errstate(over="ignore"):
        np.exp(odds, out=odds)
    odds += np.float32(1)
    np.reciprocal(odds, out=odds)


def read_only(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """A view of it that kernels see as they see weights of a file: what they are compiled for."""
    seen = array.view()
    seen.flags.writeable = False
    return seen


@njit(nogil=True, cache=True, fastmath=True)
def add_up(bags: Bags, rows: Longs, words: Floats, out: Floats) -> None:
    """Sums of word vectors of some texts, one row each."""
    start, word, weight = bags.start, bags.word, bags.weight
    for i in range(len(rows)):
        o = out[i]
        o[:] = 0
        for e in range(start[rows[i]], start[rows[i] + 1]):
            w, by = words[word[e]], weight[e]
            for j in range(len(o)):
                o[j] += by * w[j]


@njit(nogil=True, cache=True)
def _best(logits: Floats, ids: Ints, values: Floats) -> None:
    """The best labels of some documents."""
    for row in range(len(ids)):
        of_labels, best, best_values, filled = logits[row], ids[row], values[row], 0
        for label in range(len(of_labels)):
            if filled < len(best) or of_labels[label] > best_values[filled - 1]:
                filled = keep_best(of_labels[label], label, best, best_values, filled)
