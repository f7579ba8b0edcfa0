"""Votes of the most similar training documents, by the cosine of sparse rows.

With N(x) the m documents of the largest cosine above 0, a label's share of the votes is

    sum over i in N(x) of cos(x, x_i)^power y_il   /   sum over i in N(x) of cos(x, x_i)^power

Documents whose pair with the label has weight 0 vote neither way: they are missing in both sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.arrays import Floats, Ints, Longs, keep_best, njit
from longtail.corpus import Corpus
from longtail.part import Arrays
from longtail.run import Run
from longtail.scores import Scores, top_k
from longtail.sparse import unit_rows

#: Documents whose votes are counted in one task.
CHUNK = 512


class Voters(NamedTuple):
    """Training documents as the kernel reads them: for each feature the documents that have it, for each document its
    labels, with target times weight, or -1 for a pair of weight 0."""

    start: Longs
    document: Ints
    value: Floats
    label_start: Longs
    label: Ints
    strength: Floats


@dataclass(frozen=True, eq=False)
class SimilarDocuments:
    """The training documents that vote."""

    voters: Voters
    n_features: int
    n_labels: int

    @classmethod
    def of(cls, corpus: Corpus) -> SimilarDocuments:
        columns = unit_rows(corpus.features).tocsc()
        strength = np.where(corpus.weighted_targets() > 0, corpus.weighted_targets(), np.float32(-1)).astype(np.float32)
        voters = Voters(
            columns.indptr.astype(np.int64),
            columns.indices.astype(np.int32),
            columns.data.astype(np.float32),
            corpus.Y.indptr.astype(np.int64),
            corpus.Y.indices.astype(np.int32),
            strength,
        )
        return cls(voters, corpus.features.shape[1], corpus.n_labels)

    def votes(self, X: sp.csr_matrix, neighbours: int, power: float, k: int, run: Run) -> Scores:
        """The k labels with the largest shares of the votes, for each row of X; fewer where fewer have any."""
        rows = unit_rows(X)
        indptr, indices, values = rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data
        n = rows.shape[0]
        ids, shares = np.full((n, k), -1, dtype=np.int32), np.zeros((n, k), dtype=np.float32)

        def one(first: int) -> None:
            last = min(first + CHUNK, n)
            found = _count_votes(
                indptr[first : last + 1], indices, values, self.voters, self.n_labels, neighbours, power
            )
            ids[first:last], shares[first:last] = top_k(*found, k)

        run.map(one, range(0, n, CHUNK), title="Scoring")
        return Scores(ids, shares)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {**self.voters._asdict(), "size": np.array([self.n_features, self.n_labels])}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> SimilarDocuments:
        """The documents of a model file; every index is checked, since the kernel trusts them."""
        types = {"start": np.int64, "document": np.int32, "value": np.float32,
                 "label_start": np.int64, "label": np.int32, "strength": np.float32, "size": np.int64}  # fmt: skip
        if set(arrays) != set(types) or any(arrays[n].dtype != t or arrays[n].ndim != 1 for n, t in types.items()):
            raise ValueError(f"{sorted(types)} are needed, each a row of its type")
        if arrays["size"].shape != (2,) or (arrays["size"] < 0).any():
            raise ValueError("'size' must hold features and labels")
        n_features, n_labels = (int(v) for v in arrays["size"])
        voters = Voters(**{name: np.asarray(arrays[name]) for name in Voters._fields})
        documents = len(voters.label_start) - 1
        _require_rows(voters.start, len(voters.document), n_features)
        _require_rows(voters.label_start, len(voters.label), documents)
        _require_below(voters.document, documents)
        _require_below(voters.label, n_labels)
        if len(voters.value) != len(voters.document) or len(voters.strength) != len(voters.label):
            raise ValueError("values or strengths differ in number from what they belong to")
        return cls(voters, n_features, n_labels)


def _require_rows(start: Longs, total: int, count: int) -> None:
    if len(start) != count + 1 or start[0] != 0 or start[-1] != total or (np.diff(start) < 0).any():
        raise ValueError(f"starts do not rise from 0 to {total}")


def _require_below(numbers: Ints, bound: int) -> None:
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= bound):
        raise ValueError("a document or label number is out of range")


@njit(nogil=True, cache=True)
def _count_votes(
    indptr: Longs, indices: Ints, values: Floats, voters: Voters, n_labels: int, neighbours: int, power: float
) -> tuple[Longs, Ints, Floats]:
    """Labels with votes and their shares, row by row, as starts, labels and shares."""
    cosine = np.zeros(len(voters.label_start) - 1, dtype=np.float32)
    seen = np.zeros(len(cosine), dtype=np.bool_)
    for_label = np.zeros(n_labels, dtype=np.float32)
    masked = np.zeros(n_labels, dtype=np.float32)
    touched = np.zeros(len(cosine), dtype=np.int32)
    near, near_cosine = np.zeros(neighbours, dtype=np.int32), np.zeros(neighbours, dtype=np.float32)
    n = len(indptr) - 1
    out_start = np.zeros(n + 1, dtype=np.int64)
    out_label, out_share = [np.int32(0) for _ in range(0)], [np.float32(0) for _ in range(0)]
    for d in range(n):
        count = 0
        for p in range(indptr[d], indptr[d + 1]):
            feature = indices[p]
            for q in range(voters.start[feature], voters.start[feature + 1]):
                document = voters.document[q]
                if not seen[document]:
                    seen[document] = True
                    touched[count] = document
                    count += 1
                cosine[document] += values[p] * voters.value[q]
        found = 0
        for t in range(count):
            if cosine[touched[t]] > 0:
                found = keep_best(cosine[touched[t]], touched[t], near, near_cosine, found)
        total = np.float32(0)
        for document in near[:found]:
            vote = np.float32(cosine[document] ** power)
            total += vote
            for q in range(voters.label_start[document], voters.label_start[document + 1]):
                if voters.strength[q] < 0:
                    masked[voters.label[q]] += vote
                else:
                    for_label[voters.label[q]] += vote * voters.strength[q]
        for document in near[:found]:
            for q in range(voters.label_start[document], voters.label_start[document + 1]):
                label = voters.label[q]
                if for_label[label] > 0:
                    rest = max(total - masked[label], for_label[label])
                    out_label.append(label)
                    out_share.append(min(np.float32(1), for_label[label] / rest))
                for_label[label] = 0
        for document in near[:found]:
            for q in range(voters.label_start[document], voters.label_start[document + 1]):
                masked[voters.label[q]] = 0
        for t in range(count):
            cosine[touched[t]] = 0
            seen[touched[t]] = False
        out_start[d + 1] = len(out_label)
    return out_start, np.array(out_label), np.array(out_share)
