"""The formats that can be read: a module each, and one line in the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from longtail.errors import InputError, UsageError
from longtail.keep.streams import Stream, bare_name, open_stream
from longtail.read.csv import is_csv, read_csv
from longtail.read.fasttext import is_fasttext, read_fasttext
from longtail.read.folder import find_split
from longtail.read.huggingface import (
    is_arrow,
    is_dataset,
    is_saved_dataset,
    read_arrow_file,
    read_dataset,
    read_saved,
)
from longtail.read.jsonl import is_jsonl, read_jsonl
from longtail.read.options import ReadOptions
from longtail.read.parquet import is_parquet, read_parquet
from longtail.read.reading import Reading
from longtail.read.text import is_text, read_text_lines
from longtail.read.xmc import is_xmc, read_xmc
from longtail.read.xmc_folder import is_xmc_folder, is_xmc_json, read_xmc_folder, read_xmc_json

if TYPE_CHECKING:
    from longtail.corpus import Corpus


@dataclass(frozen=True)
class Format:
    """One format.

    name     as reports give it
    looks    what it looks like, for messages
    takes    what its reader is given: the stream or the path of a file, the path of a folder, or an object
    read     makes the corpus, or one corpus per batch
    endings  file names that belong to it, compression endings aside
    certain  whether the content leaves no doubt; asked first, whatever the name says
    likely   whether the content looks like it; asked of files whose name says nothing
    """

    name: str
    looks: str
    takes: Literal["stream", "path", "folder", "object"]
    read: Callable[[Any, Reading], Iterator[Corpus]]
    endings: tuple[str, ...] = ()
    certain: Callable[[Any, ReadOptions], bool] | None = None
    likely: Callable[[Any, ReadOptions], bool] | None = None


#: Asked from top to bottom. A folder's file is chosen in this order too, so that texts come before features.
FORMATS = (
    Format("huggingface", "a Hugging Face dataset", "object", read_dataset, certain=is_dataset),
    Format("huggingface", "a folder of save_to_disk", "folder", read_saved, certain=is_saved_dataset),
    Format("xmc", "a folder of the XMC repository", "folder", read_xmc_folder, certain=is_xmc_folder),
    Format("xmc", "JSONL with target_ind", "stream", read_xmc_json, certain=is_xmc_json),
    Format("jsonl", "JSONL", "stream", read_jsonl, (".jsonl", ".ndjson", ".json"), likely=is_jsonl),
    Format("fasttext", "fastText lines '__label__a some text'", "stream", read_fasttext, likely=is_fasttext),
    Format("csv", "CSV or TSV with a header", "stream", read_csv, (".csv", ".tsv", ".tab"), likely=is_csv),
    Format("parquet", "Parquet", "path", read_parquet, (".parquet",), certain=is_parquet),
    Format("arrow", "Arrow", "path", read_arrow_file, (".arrow",), certain=is_arrow),
    Format("xmc", "the XMC header 'N D L'", "stream", read_xmc, (".svm", ".libsvm"), likely=is_xmc),
    Format("text", "plain text (for prediction only)", "stream", read_text_lines, likely=is_text),
)

_FILES = [form for form in FORMATS if form.takes in ("stream", "path")]

#: Endings of data files in folders. Files called .txt hold any format of lines, so their content decides.
ENDINGS = (*(ending for form in _FILES for ending in form.endings), ".txt")


def read_source(source: Any, reading: Reading) -> Iterator[Corpus]:
    """A path, "-" for standard input, or an object, by whichever format it has; in batches if the reading says so."""
    if not isinstance(source, str | Path):
        form = _certain("object", source, reading.options)
        if form is None:
            raise UsageError(f"cannot read a {type(source).__name__}; give a path or a Hugging Face dataset")
        reading.report.format = form.name
        return form.read(source, reading)
    path = Path(source)
    if str(source) != "-" and _is_folder(path):
        form = _certain("folder", path, reading.options)
        if form is not None:
            reading.report.format = form.name
            return form.read(path, reading)
        path, reading = find_split(path, reading, ENDINGS)
    if reading.options.split is not None:
        raise UsageError(f"{source} is a single file, so there is no split to choose")
    return _read_file(path, reading)


def _read_file(path: Path, reading: Reading) -> Iterator[Corpus]:
    with open_stream(path) as stream:
        reading.report.source = stream.name
        form = format_of(stream, reading.options)
        reading.report.format = form.name
        if form.takes == "stream":
            with reading.run.bar(reading.title, stream.size) as stream.bar:
                yield from form.read(stream, reading)
            return
        if stream.size is None:
            raise InputError(stream.name, f"{form.looks} is read from a file, not from a pipe")
    yield from form.read(path, reading)


def format_of(stream: Stream, options: ReadOptions) -> Format:
    """The format of a file, by certain content, then by name, then by likely content."""
    if stream.empty:
        raise InputError(stream.name, "the file is empty")
    ending = Path(bare_name(stream.name)).suffix
    form = (
        next((form for form in _FILES if form.certain and form.certain(stream, options)), None)
        or next((form for form in _FILES if ending in form.endings), None)
        or next((form for form in _FILES if form.likely and form.likely(stream, options)), None)
    )
    if form is None:
        expected = ", ".join(dict.fromkeys(form.looks for form in _FILES))
        raise InputError(stream.name, f"cannot tell the format; expected one of: {expected}")
    return form


def _certain(takes: str, source: Any, options: ReadOptions) -> Format | None:
    known = (form for form in FORMATS if form.takes == takes and form.certain and form.certain(source, options))
    return next(known, None)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
