"""What `Tagger.predict` gives: labels with their texts and scores, per document, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from longtail.errors import UsageError


class Prediction(NamedTuple):
    """One label of one document.

    label  the label's name, as in the training data
    text   what people call it: the label's text, or its name where it has none
    score  between 0 and 1; what it means depends on the learner, see docs/python.md
    """

    label: str
    text: str
    score: float


class PredictionLists(list[list[Prediction]]):
    """The labels of each document, best first: a list of lists, which can be turned into a table.

    ids  of the documents, as they were given; their numbers from 0 where they have none
    """

    # set by `of` alone: a list of one document is to be made in no time
    _ids: ClassVar[Sequence[Any] | None] = None

    @classmethod
    def of(cls, documents: Iterable[list[Prediction]], ids: Sequence[Any] | None) -> PredictionLists:
        made = cls(documents)
        vars(made)["_ids"] = ids
        return made

    @property
    def ids(self) -> Sequence[Any]:
        return range(len(self)) if self._ids is None else self._ids

    def to_columns(self) -> dict[str, list[Any]]:
        """One row per document and label, as lists: id, rank (from 1), label, text, score."""
        rows = [
            (ident, rank, *found)
            for ident, labels in zip(self.ids, self, strict=True)
            for rank, found in enumerate(labels, 1)
        ]
        columns = zip(*rows, strict=True) if rows else [()] * 5
        return {name: list(column) for name, column in zip(_COLUMNS, columns, strict=True)}

    def to_frame(self) -> Any:
        """The same as a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError:
            raise UsageError(
                "to_frame makes a pandas DataFrame, and pandas is not installed: pip install pandas, "
                "or take the lists that to_columns gives"
            ) from None
        columns = self.to_columns()
        # a table without rows has the same kinds of columns as any other
        kinds = {"rank": "int64", "score": "float64"} | ({} if len(self) else {"id": "object"})
        return pd.DataFrame(columns).astype(kinds)


_COLUMNS = ("id", "rank", *Prediction._fields)
