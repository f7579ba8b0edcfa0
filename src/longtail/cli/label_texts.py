"""Opening models for a verb, with the texts of a labels file for those that were trained without."""

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


def opened(
    models: Sequence[Path], threads: int, *, labels: Path | None = None, rare: float | None = None
) -> list[Tagger]:
    """All models before any work: arrays are mapped, not copied, and the last one may be the one that is missing.

    labels  a file with texts of labels; what a model was trained with stays as it is
    rare    as of `Tagger.favouring_rare`
    """
    from longtail.tagger import Tagger

    taggers = [Tagger.load(path, threads=threads) for path in models]
    if labels is not None:
        texts = texts_of(labels)
        taggers = [tagger.with_label_texts(texts) for tagger in taggers]
    return taggers if rare is None else [tagger.favouring_rare(rare) for tagger in taggers]
