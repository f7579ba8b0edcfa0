"""How data is to be understood: the options of reading, for Python and the command line alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from longtail.errors import UsageError, nearest
from longtail.read.splits import DEFAULT

#: Fields that may hold a document's id; the first that is there counts.
ID_FIELDS = ("id", "uid", "_id")

#: Fields of the text and the labels unless others are asked for.
TEXT_FIELD, LABELS_FIELD = "text", "labels"


@dataclass(frozen=True)
class ReadOptions:
    """How a file, folder or dataset is to be read.

    labels        labels file with label texts; for numbered columns its lines name the columns
    text_field    field with the text; several are joined by a space. Unless given: "text", or fields with usual names
    labels_field  field with the labels; those of several are put together. Unless given: "labels", or one with a
                  usual name
    separator     splits labels given as one text; found unless given
    split         which part of a folder or DatasetDict; `usual_split` unless given
    skip_bad      leave out bad lines instead of stopping at the first
    need_labels   False where labels are welcome but not required, as for prediction
    encoding      of text files; found unless given
    force         read a corpus whose labels do not look like labels, with a note instead of an error
    usual_split   the part of a folder or DatasetDict to take if it has parts and none is asked for
    """

    labels: str | Path | None = None
    text_field: str | Sequence[str] | None = None
    labels_field: str | Sequence[str] | None = None
    separator: str | None = None
    split: str | None = None
    skip_bad: bool = False
    need_labels: bool = True
    encoding: str | None = None
    force: bool = False
    usual_split: str = DEFAULT

    def __post_init__(self) -> None:
        _ = self.text_fields, self.labels_fields  # names that are no names are refused here, not while reading
        if self.separator == "":
            raise UsageError("the separator of labels must not be empty")
        if self.encoding is not None:
            from longtail.keep.encodings import is_encoding

            if not is_encoding(self.encoding):
                raise UsageError(f"there is no encoding '{self.encoding}'; usual ones are utf-8, cp1252 and utf-16")

    @cached_property
    def text_fields(self) -> tuple[str, ...]:
        return _names("text_field", self.text_field, (TEXT_FIELD,))

    @cached_property
    def labels_fields(self) -> tuple[str, ...]:
        return _names("labels_field", self.labels_field, (LABELS_FIELD,))

    @property
    def default_text(self) -> bool:
        """Whether no other field than the usual one is asked for, so that a format may use its own."""
        return self.text_fields == (TEXT_FIELD,)

    @property
    def default_labels(self) -> bool:
        return self.labels_fields == (LABELS_FIELD,)

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
