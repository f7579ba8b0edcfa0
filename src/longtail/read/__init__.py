"""Reading corpora: one module a format, found by content and name.

>>> from longtail.read import read, read_texts
>>> train = read("articles.jsonl")                    # doctest: +SKIP
>>> new = read_texts("new.txt")                       # doctest: +SKIP
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longtail.corpus import Corpus
    from longtail.keep.streams import Stream
    from longtail.read.builder import LabelTable, Options, ReadReport
    from longtail.run import Run

__all__ = ["read", "read_texts", "read_with_report"]

_EXTENSIONS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".svm": "xmc",
    ".libsvm": "xmc",
}


def read(
    source: Any,
    *,
    labels: str | Path | None = None,
    text_field: str | Sequence[str] = ("text",),
    labels_field: str | Sequence[str] = ("labels",),
    separator: str | None = None,
    split: str | None = None,
    skip_bad: bool = False,
    need_labels: bool = True,
    run: Run | None = None,
) -> Corpus:
    """A corpus from a file, a folder, or a Hugging Face dataset; label counts are those of what was read.

    source        path of a JSONL, CSV, TSV, Parquet, Arrow or XMC-repository file (gzip and zstd are unpacked on the
                  way), a folder, "-" for standard input, or a Dataset or DatasetDict
    labels        labels file with label texts; for numbered columns its lines name the columns
    text_field    field with the text; several are joined by a space
    labels_field  field with the list of labels; those of several are put together
    separator     cuts labels given as one text; "|" in CSV files unless given
    split         which part of a folder or DatasetDict; "train" unless given
    skip_bad      leave out bad lines instead of stopping at the first
    need_labels   False where labels are welcome but not required, as for prediction
    """
    return read_with_report(
        source,
        labels=labels,
        text_field=text_field,
        labels_field=labels_field,
        separator=separator,
        split=split,
        skip_bad=skip_bad,
        need_labels=need_labels,
        run=run,
    )[0]


def read_with_report(
    source: Any,
    *,
    labels: str | Path | None = None,
    text_field: str | Sequence[str] = ("text",),
    labels_field: str | Sequence[str] = ("labels",),
    separator: str | None = None,
    split: str | None = None,
    skip_bad: bool = False,
    need_labels: bool = True,
    run: Run | None = None,
) -> tuple[Corpus, ReadReport]:
    """As `read`, with an account of what was skipped, empty, unlabelled or odd."""
    from longtail.errors import UsageError
    from longtail.read.builder import Options, ReadReport
    from longtail.run import Run

    text_fields, labels_fields = _names("text_field", text_field), _names("labels_field", labels_field)
    if separator == "":
        raise UsageError("the separator of labels must not be empty")
    options = Options(
        text_fields=text_fields,
        labels_fields=labels_fields,
        separator=separator,
        skip_bad=skip_bad,
        need_labels=need_labels,
        labels=None if labels is None else Path(labels),
        split=split,
        run=run or Run(),
    )
    if not isinstance(source, str | Path):
        from longtail.read.huggingface import is_dataset, read_dataset

        if not is_dataset(source):
            raise UsageError(f"cannot read a {type(source).__name__}; give a path or a Hugging Face dataset")
        report = ReadReport("dataset", "huggingface")
        return read_dataset(source, options, report, _table(options)), report
    report = ReadReport(str(source))
    return _read_path(str(source), options, report), report


def _names(what: str, given: str | Sequence[str]) -> tuple[str, ...]:
    from longtail.errors import UsageError

    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or not all(isinstance(name, str) for name in names):
        raise UsageError(f"{what} needs the name of at least one field")
    return tuple(dict.fromkeys(names))


def read_texts(
    source: str | Path | Iterable[str],
    *,
    text_field: str | Sequence[str] = ("text",),
    labels_field: str | Sequence[str] = ("labels",),
    separator: str | None = None,
    split: str | None = None,
    skip_bad: bool = False,
    run: Run | None = None,
) -> Corpus:
    """Documents to predict: any file `read` takes, a .txt file or "-" with one text a line, or texts themselves.

    Labels are kept where there are any; otherwise Y has no columns.
    """
    if isinstance(source, str | Path):
        return read(
            source,
            text_field=text_field,
            labels_field=labels_field,
            separator=separator,
            split=split,
            skip_bad=skip_bad,
            need_labels=False,
            run=run,
        )
    import scipy.sparse as sp

    from longtail.corpus import Corpus
    from longtail.labels import LabelIndex

    texts = list(source)
    ids = [str(row) for row in range(len(texts))]
    return Corpus(labels=LabelIndex([]), Y=sp.csr_matrix((len(texts), 0)), texts=texts, ids=ids, name="texts")


def _read_path(source: str, options: Options, report: ReadReport) -> Corpus:
    from dataclasses import replace

    from longtail.errors import UsageError
    from longtail.keep.streams import open_stream

    path = Path(source)
    if source != "-" and _is_folder(path):
        from longtail.read.huggingface import is_saved_dataset, read_saved
        from longtail.read.xmc_folder import is_xmc_folder, read_xmc_folder

        if is_saved_dataset(path):
            report.format = "huggingface"
            return read_saved(path, options, report, _table(options))
        if is_xmc_folder(path):
            report.format = "xmc"
            return read_xmc_folder(path, options, report)
        from longtail.read.folder import find_split

        path, options, report.notes = find_split(path, options)
        report.source = str(path)
    if options.split is not None:
        raise UsageError(f"{source} is a single file, so there is no split to choose")
    with open_stream(path if source != "-" else "-") as stream:
        report.source = stream.name
        report.format = format_of(stream, options)
        if report.format in ("parquet", "arrow"):
            stream.close()
            return _read_columns(path, options, report)
        with options.run.bar("Reading", stream.size) as stream.bar:
            return _read_stream(stream, replace(options, split=None), report)


def _read_stream(stream: Stream, options: Options, report: ReadReport) -> Corpus:
    if report.format == "jsonl":
        from longtail.read.jsonl import read_jsonl
        from longtail.read.xmc_folder import is_xmc_json, read_xmc_json

        if is_xmc_json(stream) and options.labels_fields == ("labels",):
            report.format = "xmc"
            return read_xmc_json(stream, options, report)
        return read_jsonl(stream, options, report, _table(options))
    if report.format == "csv":
        from longtail.read.csv import read_csv

        return read_csv(stream, options, report, _table(options))
    if report.format == "xmc":
        from longtail.read.xmc import read_xmc

        return read_xmc(stream, options, report, _table(options))
    from longtail.read.text import read_text_lines

    return read_text_lines(stream, options, report)


def _read_columns(path: Path, options: Options, report: ReadReport) -> Corpus:
    if report.format == "parquet":
        from longtail.read.parquet import read_parquet

        return read_parquet(path, options, report, _table(options))
    from longtail.read.huggingface import read_arrow_file

    return read_arrow_file(path, options, report, _table(options))


def format_of(stream: Stream, options: Options) -> str:
    """jsonl, csv, xmc, parquet, arrow or text, by the first bytes and then by the name."""
    from longtail.errors import InputError
    from longtail.keep.streams import bare_name
    from longtail.read.xmc import header_of

    if stream.empty:
        raise InputError(stream.name, "the file is empty")
    name = bare_name(stream.name)
    ending = Path(name).suffix
    if stream.head.startswith(b"PAR1") or ending == ".parquet":
        return "parquet"
    if stream.head.startswith(b"ARROW1") or ending == ".arrow":
        return "arrow"
    if ending in _EXTENSIONS:
        return _EXTENSIONS[ending]
    first = stream.head.split(b"\n", 1)[0]
    header = header_of(first)
    if header is not None and len(header) == 3:
        return "xmc"
    if first.lstrip().startswith(b"{"):
        return "jsonl"
    wanted = set(options.required)
    cells = {
        cell.strip('" \r') for cell in first.decode(errors="replace").replace("\t", ",").replace(";", ",").split(",")
    }
    if len(cells) > 1 and wanted <= cells:
        return "csv"
    if not options.need_labels:
        return "text"
    raise InputError(
        stream.name,
        "cannot tell the format: expected JSONL, CSV or TSV with a header, Parquet, or the XMC header 'N D L'",
    )


def _table(options: Options) -> LabelTable | None:
    if options.labels is None:
        return None
    from longtail.read.label_file import read_labels

    return read_labels(options.labels)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


class _Callable(ModuleType):
    """`longtail.read` names this module and the function in it; the module answers to both, whoever imports first."""

    __call__ = staticmethod(read)


sys.modules[__name__].__class__ = _Callable
