"""Reading corpora: one module per format, found by content and name.

>>> from longtail.read import read, read_texts
>>> train = read("articles.jsonl")                    # doctest: +SKIP
>>> new = read_texts("new.txt")                       # doctest: +SKIP
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from longtail.errors import UsageError
from longtail.read.options import ReadOptions

if TYPE_CHECKING:
    from longtail.corpus import Corpus
    from longtail.read.reading import ReadReport
    from longtail.run import Run

__all__ = ["ReadOptions", "read", "read_in_batches", "read_texts", "read_with_report"]


def read(source: Any, *, options: ReadOptions | None = None, run: Run | None = None, **given: Any) -> Corpus:
    """A corpus from files, folders, or a Hugging Face dataset; label counts are those of what was read.

    What was found out about a file by itself (fields, separator, encoding) is logged by the logger `longtail.read`.

    source   path of a file in one of the formats of `longtail.read.formats` (gzip and zstd are unpacked on the way) or
             of a folder, a pattern, a list of these, "-" for standard input, or a Dataset or DatasetDict.
             file.xlsx::Sheet and file.sqlite::table name what is meant inside a file
    options  how it is to be understood
    given    single options by name, as in text_field="body": see `ReadOptions`
    """
    corpus, report = read_with_report(source, options=options, run=run, **given)
    for note in report.notes:
        logging.getLogger(__name__).warning("%s: %s", report.source, note)
    return corpus


def read_with_report(
    source: Any, *, options: ReadOptions | None = None, run: Run | None = None, **given: Any
) -> tuple[Corpus, ReadReport]:
    """As `read`, with an account of what was skipped, empty, unlabelled or odd."""
    chosen = (options or ReadOptions()).changed(**given)
    from longtail.read.formats import read_source
    from longtail.read.label_file import read_labels
    from longtail.read.reading import Reading, ReadReport
    from longtail.run import Run

    report = ReadReport(_called(source))
    (corpus,) = read_source(source, Reading(chosen, report, read_labels, run or Run()))
    return corpus, report


def read_in_batches(
    source: Any,
    documents: int,
    *,
    options: ReadOptions | None = None,
    run: Run | None = None,
    title: str = "Reading",
    **given: Any,
) -> tuple[Iterator[Corpus], ReadReport]:
    """Documents to predict, read when they are asked for, and an account that is complete once all were.

    Memory does not grow with the file, but for folders of sparse files (trn_X_Xf.txt), JSON lists, and the texts that
    an Excel file shares among its cells, which are read whole. Texts that are long come in smaller batches. Every batch
    has columns of its own: labels are checked and then of no use.

    documents  per batch, about
    title      of the progress bar over the whole source
    """
    from longtail.read.formats import read_source
    from longtail.read.label_file import read_labels
    from longtail.read.reading import Reading, ReadReport
    from longtail.run import Run

    if documents < 1:
        raise UsageError(f"a batch needs at least 1 document, not {documents}")
    chosen = (options or ReadOptions()).changed(**{**given, "need_labels": False})
    report = ReadReport(_called(source))
    reading = Reading(chosen, report, read_labels, run or Run(), documents, title)

    def batches() -> Iterator[Corpus]:
        labelled = False
        for corpus in read_source(source, reading):
            labelled = labelled or corpus.Y.nnz > 0
            yield corpus
        if not labelled:
            report.unlabelled = 0  # nobody asked for labels, so nobody misses them

    return batches(), report


def read_texts(
    source: str | Path | Iterable[str], *, options: ReadOptions | None = None, run: Run | None = None, **given: Any
) -> Corpus:
    """Documents to predict: anything `read` takes, a .txt file or "-" with one text per line, or texts themselves.

    Labels are kept where there are any; otherwise Y has no columns.
    """
    if isinstance(source, str | Path):
        return read(source, options=options, run=run, **{**given, "need_labels": False})
    import scipy.sparse as sp

    from longtail.corpus import Corpus
    from longtail.labels import LabelIndex

    texts = list(source)
    ids = [str(row) for row in range(len(texts))]
    return Corpus(labels=LabelIndex([]), Y=sp.csr_matrix((len(texts), 0)), texts=texts, ids=ids, name="texts")


def _called(source: Any) -> str:
    """What a source is called until more is known of it."""
    one = source[0] if isinstance(source, list | tuple) and source else source
    return str(one) if isinstance(one, str | Path) else "dataset"


class _Callable(ModuleType):
    """`longtail.read` names this module and the function in it; the module answers to both, whoever imports first."""

    __call__ = staticmethod(read)


sys.modules[__name__].__class__ = _Callable
