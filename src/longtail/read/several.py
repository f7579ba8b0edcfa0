"""Several files or folders as one corpus, each in its own format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.errors import InputError
from longtail.labels import LabelIndex
from longtail.read.builder import complete
from longtail.read.checks import with_sensible_labels
from longtail.read.reading import PROBLEMS_KEPT, Reading, ReadReport
from longtail.texts import PackedTexts

#: Reads one source.
ReadOne = Callable[[str | Path, Reading], Iterator[Corpus]]


def read_several(paths: Sequence[str | Path], reading: Reading, read_one: ReadOne) -> Iterator[Corpus]:
    """The documents of all sources in their order: in batches as they come, or as one corpus.

    Labels with the same name are one label, and labels files are looked at once.
    """
    report = reading.report
    report.source = f"{paths[0]} and {len(paths) - 1} more" if len(paths) > 1 else str(paths[0])
    parts: list[Corpus] = []
    found: list[ReadReport] = []
    rows = 0
    for path in paths:
        own = replace(reading, report=ReadReport(str(path)), shared=True, rows_before=rows)
        for corpus in read_one(path, own):
            if reading.batch is not None:
                yield corpus
            elif len(corpus):
                before = sum(map(len, parts))
                report.made_from |= {before + row: source for row, source in own.report.made_from.items()}
                parts.append(corpus)
        found.append(own.report)
        rows += own.report.documents + own.report.skipped
    _add_up(report, found)
    report.require_documents()
    if reading.batch is None:
        yield with_sensible_labels(complete(_joined(parts, reading), reading), reading)


def _add_up(report: ReadReport, found: list[ReadReport]) -> None:
    """What was found in all of them; what is said of several is said once."""
    report.format = "+".join(dict.fromkeys(own.format for own in found))
    for own in found:
        report.documents += own.documents
        report.skipped += own.skipped
        report.problems += own.problems[: PROBLEMS_KEPT - len(report.problems)]
        report.empty_texts += own.empty_texts
        report.unlabelled += own.unlabelled
        report.duplicate_labels += own.duplicate_labels
    sources: dict[str, list[str]] = {}
    for own in found:
        for note in own.notes:
            sources.setdefault(note, []).append(own.source)
    for note, named in sources.items():
        where = "" if len(named) == len(found) else f"{Path(named[0]).name}: "
        report.notes.append(f"{where}{note}" if len(named) in (1, len(found)) else f"{len(named)} files: {note}")


def _joined(parts: list[Corpus], reading: Reading) -> Corpus:
    """One corpus of several; their columns are the same, or become the sorted names of all labels."""
    first = parts[0]
    for part in parts[1:]:
        if (part.texts is None) != (first.texts is None) or (part.X is None) != (first.X is None):
            raise InputError(part.name, f"has {_kind(part)}, but {first.name} has {_kind(first)}")
        if part.X is not None and first.X is not None and part.X.shape[1] != first.X.shape[1]:
            raise InputError(part.name, f"has {part.X.shape[1]} features, but {first.name} has {first.X.shape[1]}")
    same = all(list(part.labels.names) == list(first.labels.names) for part in parts[1:])
    labels = first.labels if same and first.X is not None else _all_labels(parts, reading)
    aligned = [part.aligned(labels) for part in parts]
    return Corpus(
        labels=labels,
        Y=sp.csr_matrix(sp.vstack([part.Y for part in aligned], format="csr")),
        texts=None if first.texts is None else [text for part in parts for text in part.texts or ()],
        X=None if first.X is None else sp.csr_matrix(sp.vstack([part.features for part in parts], format="csr")),
        label_X=first.label_X if same else None,
        ids=PackedTexts.of(ident for part in parts for ident in part.ids or ()),
        reciprocal=_reciprocal(aligned),
        pair_weight=_weights(aligned),
        made=_made(parts),
        name=reading.report.source,
    )


def _reciprocal(parts: list[Corpus]) -> sp.csr_matrix | None:
    """The marked pairs of all of them, if any has some."""
    if all(part.reciprocal is None for part in parts):
        return None
    marked = [sp.csr_matrix(part.Y.shape) if part.reciprocal is None else part.reciprocal for part in parts]
    return sp.csr_matrix(sp.vstack(marked, format="csr"), dtype=bool)


def _weights(parts: list[Corpus]) -> NDArray[np.float32] | None:
    """The pair weights of all of them, if any has some."""
    if all(part.pair_weight is None for part in parts):
        return None
    given = [np.ones(part.Y.nnz, np.float32) if part.pair_weight is None else part.pair_weight for part in parts]
    return np.concatenate(given)


def _made(parts: list[Corpus]) -> NDArray[np.bool_] | None:
    """Rows that an augmenter made, if there are any."""
    if all(part.made is None for part in parts):
        return None
    return np.concatenate([np.zeros(len(part), bool) if part.made is None else part.made for part in parts])


def _all_labels(parts: list[Corpus], reading: Reading) -> LabelIndex:
    names = sorted({name for part in parts for name in part.labels.names})
    table = reading.table
    if table is not None:
        sample = [text for part in parts for text in (part.texts or ())[:200]]
        return LabelIndex(names, table.texts_of(names, reading.report, sample))
    said: dict[str, str] = {}
    for part in parts:
        for name, text in zip(part.labels.names, part.labels.texts or (), strict=False):
            if text:
                said.setdefault(name, text)
    return LabelIndex(names, [said.get(name, "") for name in names] if said else None)


def _kind(corpus: Corpus) -> str:
    return "features" if corpus.texts is None else "texts"
