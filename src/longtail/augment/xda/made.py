"""What XDA made of a corpus: texts, where they come from, what the learner thought of them, and what is masked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.corpus import Corpus

#: Texts that are compared with their sources, word by word, to tell how much of these is left.
COMPARED = 2000


@dataclass(frozen=True, eq=False)
class Made:
    """Generated texts, those of one document after the other.

    rows         int64 (n,), the rows of the corpus that they were made from
    copy         int64 (n,), which copy of its document each is, from 1
    corpus       the same n rows of the corpus: labels, weights and ids
    pair_weight  of their pairs; 0 where a label counts neither way; None for 1 everywhere
    diversity    float64 (n,), and consistency and score, as in `filtering`; None where nothing was filtered
    """

    rows: NDArray[np.int64]
    copy: NDArray[np.int64]
    corpus: Corpus
    texts: list[str]
    pair_weight: NDArray[np.float32] | None = None
    diversity: NDArray[np.float64] | None = None
    consistency: NDArray[np.float64] | None = None
    score: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def taken(self, kept: NDArray[np.bool_]) -> Made:
        """Some of them; weights are to be set afterwards."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        own |= {name: array[kept] for name, array in own.items() if isinstance(array, np.ndarray)}
        own |= {"corpus": self.corpus.rows(np.flatnonzero(kept)), "pair_weight": None}
        own["texts"] = [text for text, keep in zip(self.texts, kept, strict=True) if keep]
        return Made(**own)

    def added_to(self, corpus: Corpus) -> Corpus:
        """The corpus with these texts as rows of their own, whose features are still to be made."""
        return corpus.with_rows(
            texts=self.texts,
            Y=self.corpus.Y,
            ids=self.corpus.ids or [],
            pair_weight=self.pair_weight,
            reciprocal=self.corpus.reciprocal,
            origin=corpus.origins()[self.rows],
        )

    def with_weights(self, pair_weight: NDArray[np.float32] | None) -> Made:
        return replace(self, pair_weight=pair_weight)

    def records(self) -> Iterator[dict[str, Any]]:
        """Lines for a person to read and edit, which `longtail train` reads again."""
        Y, names = self.corpus.Y, self.corpus.labels.names
        for place, text in enumerate(self.texts):
            start, stop = Y.indptr[place : place + 2]
            labels = [names[column] for column in Y.indices[start:stop]]
            source = str(self.rows[place]) if self.corpus.ids is None else self.corpus.ids[place]
            soft = Y.data[start:stop]
            record: dict[str, Any] = {
                "id": f"{source}+{self.copy[place]}",
                "augmented_from": source,
                "text": text,
                "labels": labels if (soft == 1).all() else dict(zip(labels, soft.tolist(), strict=True)),
            }
            if self.pair_weight is not None:
                weight = self.pair_weight[start:stop]
                record["masked"] = [label for label, own in zip(labels, weight, strict=True) if own == 0]
            for name in ("diversity", "consistency", "score"):
                values = getattr(self, name)
                if values is not None:
                    record[name] = round(float(values[place]), 4)
            yield record

    def statistics(self, corpus: Corpus, generated: int) -> dict[str, Any]:
        """What was done, in numbers."""
        assert corpus.texts is not None
        some: list[int] = np.unique(np.linspace(0, len(self) - 1, min(COMPARED, len(self))).astype(int)).tolist()
        overlaps = [word_overlap(corpus.texts[self.rows[at]], self.texts[at]) for at in some]
        pairs = int(self.corpus.Y.nnz)
        masked = 0 if self.pair_weight is None else int((self.pair_weight == 0).sum())
        return {
            "documents": len(np.unique(self.rows)),
            "generated": generated,
            "kept": len(self),
            "pairs": pairs,
            "masked_pairs": masked,
            "word_overlap": round(float(np.mean(overlaps)), 4) if overlaps else None,
        }


def word_overlap(first: str, second: str) -> float:
    """Words that two texts have in common, as a share of the longer one's; 1 for copies, 0 for unrelated texts."""
    one, other = first.split(), second.split()
    common = sum((Counter(one) & Counter(other)).values())
    return common / max(len(one), len(other), 1)


def empty(corpus: Corpus) -> Made:
    """Nothing made of a corpus."""
    none: Sequence[int] = []
    rows = np.array(none, dtype=np.int64)
    return Made(rows, rows, corpus.rows(rows), [])
