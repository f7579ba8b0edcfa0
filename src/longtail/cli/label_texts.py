"""Texts of labels from a file, for models that were trained without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longtail.tagger import Tagger


def texts_of(labels: Path) -> dict[str, str]:
    """The texts of a labels file by any name of the label; names without a text are left out."""
    from longtail.errors import InputError
    from longtail.read.label_file import read_labels

    found = read_labels(labels).by_any_name()
    if not found:
        raise InputError(labels, "no label has a text")
    return found


def give_texts(taggers: Sequence[Tagger], labels: Path | None) -> None:
    """Gives every tagger the texts of a labels file, if there is one; what it was trained with stays as it is."""
    if labels is None:
        return
    texts = texts_of(labels)
    for tagger in taggers:
        tagger.labels_ = tagger.labels_.with_texts(texts)
