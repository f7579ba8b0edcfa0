"""How data is to be understood: the options of reading, for Python and the command line alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from longtail.errors import UsageError, nearest

#: Fields that may hold a document's id; the first that is there counts.
ID_FIELDS = ("id", "uid", "_id")

_TEXT, _LABELS = ("text",), ("labels",)


@dataclass(frozen=True)
class ReadOptions:
    """How a file, folder or dataset is to be read.

    labels        labels file with label texts; for numbered columns its lines name the columns
    text_field    field with the text, "text" unless given; several are joined by a space
    labels_field  field with the list of labels, "labels" unless given; those of several are put together
    separator     splits labels given as one text; "|" in CSV files unless given
    split         which part of a folder or DatasetDict; "train" unless given
    skip_bad      leave out bad lines instead of stopping at the first
    need_labels   False where labels are welcome but not required, as for prediction
    """

    labels: str | Path | None = None
    text_field: str | Sequence[str] | None = None
    labels_field: str | Sequence[str] | None = None
    separator: str | None = None
    split: str | None = None
    skip_bad: bool = False
    need_labels: bool = True

    def __post_init__(self) -> None:
        _ = self.text_fields, self.labels_fields  # names that are no names are refused here, not while reading
        if self.separator == "":
            raise UsageError("the separator of labels must not be empty")

    @cached_property
    def text_fields(self) -> tuple[str, ...]:
        return _names("text_field", self.text_field, _TEXT)

    @cached_property
    def labels_fields(self) -> tuple[str, ...]:
        return _names("labels_field", self.labels_field, _LABELS)

    @property
    def default_text(self) -> bool:
        """Whether no other field than the usual one is asked for, so that a format may use its own."""
        return self.text_fields == _TEXT

    @property
    def default_labels(self) -> bool:
        return self.labels_fields == _LABELS

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields that are looked at, for formats that read column by column."""
        return tuple(dict.fromkeys((*self.text_fields, *self.labels_fields, *ID_FIELDS)))

    @property
    def required(self) -> tuple[str, ...]:
        """Fields that must be there."""
        return (*self.text_fields, *(self.labels_fields if self.need_labels else ()))

    def changed(self, **given: Any) -> ReadOptions:
        """These options with others in some places."""
        known = [field.name for field in fields(ReadOptions)]
        for name in given:
            if name not in known:
                raise UsageError(f"there is no option '{name}' of reading; {nearest(name, known)}")
        return replace(self, **given)


def _names(what: str, given: str | Sequence[str] | None, usual: tuple[str, ...]) -> tuple[str, ...]:
    if given is None:
        return usual
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or not all(isinstance(name, str) for name in names):
        raise UsageError(f"{what} needs the name of at least one field")
    return tuple(dict.fromkeys(names))
