"""The formats that can be read: a module each, and one line in the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from longtail.errors import InputError, UsageError
from longtail.keep.streams import Stream, bare_name, open_stream
from longtail.read import skos
from longtail.read.annif import is_full_texts, is_short_texts, read_full_texts, read_short_texts
from longtail.read.csv import is_csv, read_csv
from longtail.read.excel import ENDINGS as EXCEL
from longtail.read.excel import is_excel, read_excel
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
from longtail.read.place import INSIDE, Place, is_folder, matching, place_of
from longtail.read.reading import Reading
from longtail.read.several import read_several
from longtail.read.sqlite import ENDINGS as SQLITE
from longtail.read.sqlite import is_sqlite, read_sqlite
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
    parts    what a file holds several of, which file::part tells apart
    """

    name: str
    looks: str
    takes: Literal["stream", "path", "folder", "object"]
    read: Callable[[Any, Reading], Iterator[Corpus]]
    endings: tuple[str, ...] = ()
    certain: Callable[[Any, ReadOptions], bool] | None = None
    likely: Callable[[Any, ReadOptions], bool] | None = None
    parts: str = ""


#: Asked from top to bottom. A folder's file is chosen in this order too, so that texts come before features.
FORMATS = (
    Format("huggingface", "a Hugging Face dataset", "object", read_dataset, certain=is_dataset),
    Format("huggingface", "a folder of save_to_disk", "folder", read_saved, certain=is_saved_dataset),
    Format("xmc", "a folder of the XMC repository", "folder", read_xmc_folder, certain=is_xmc_folder),
    Format("annif", "a folder of .txt files with .key or .tsv", "folder", read_full_texts, certain=is_full_texts),
    Format("annif", "lines 'text, tab, <uri> <uri>'", "stream", read_short_texts, certain=is_short_texts),
    Format("xmc", "JSONL with target_ind", "stream", read_xmc_json, certain=is_xmc_json),
    Format("jsonl", "JSONL", "stream", read_jsonl, (".jsonl", ".ndjson", ".json"), likely=is_jsonl),
    Format("fasttext", "fastText lines '__label__a some text'", "stream", read_fasttext, likely=is_fasttext),
    Format("csv", "CSV or TSV with a header", "stream", read_csv, (".csv", ".tsv", ".tab"), likely=is_csv),
    Format("excel", "an Excel file", "path", read_excel, EXCEL, certain=is_excel, parts="sheet"),
    Format("sqlite", "an SQLite database", "path", read_sqlite, SQLITE, certain=is_sqlite, parts="table"),
    Format("parquet", "Parquet", "path", read_parquet, (".parquet",), certain=is_parquet),
    Format("arrow", "Arrow", "path", read_arrow_file, (".arrow",), certain=is_arrow),
    Format("xmc", "the XMC header 'N D L'", "stream", read_xmc, (".svm", ".libsvm"), likely=is_xmc),
    Format("text", "plain text (for prediction only)", "stream", read_text_lines, likely=is_text),
)

_FILES = [form for form in FORMATS if form.takes in ("stream", "path")]

#: Endings of data files in folders. Files called .txt hold any format of lines, so their content decides.
ENDINGS = (*(ending for form in _FILES for ending in form.endings), ".txt")


def read_source(source: Any, reading: Reading) -> Iterator[Corpus]:
    """A path, several, a pattern, "-" for standard input, or an object, by whichever format it has; in batches if the
    reading says so."""
    if isinstance(source, list | tuple) and source and all(isinstance(one, str | Path) for one in source):
        paths = [path for one in source for path in matching(one) or [one]]
        return _read_paths(paths, reading)
    if isinstance(source, str | Path):
        return _read_paths(matching(source) or [source], reading)
    form = _certain("object", source, reading.options)
    if form is None:
        raise UsageError(
            f"cannot read a {type(source).__name__}; give a path, a list of paths, or a Hugging Face dataset; "
            "fit and as_corpus take tables and lists as they are"
        )
    _refuse_encoding(form, "this", reading)
    reading.report.format = form.name
    return form.read(source, reading)


def _read_paths(paths: Sequence[str | Path], reading: Reading) -> Iterator[Corpus]:
    if len(paths) == 1:
        return _read_path(paths[0], reading)
    return read_several(paths, reading, _read_path)


def _read_path(source: str | Path, reading: Reading) -> Iterator[Corpus]:
    """One file or folder."""
    place = Place(Path(source)) if str(source) == "-" else place_of(source)
    if str(source) == "-" or not is_folder(place.path):
        if reading.options.split is not None:
            raise UsageError(f"{source} is a single file, so there is no split to choose")
        return _read_file(place, reading)
    if place.inside is not None:
        raise UsageError(f"{source}: a folder has splits, which --split chooses, not {INSIDE}")
    form = _certain("folder", place.path, reading.options)
    if form is not None:
        reading.report.format = form.name
        return form.read(place.path, reading)
    paths, reading = find_split(place.path, reading, ENDINGS)
    return _read_paths(paths, reading)


def _read_file(place: Place, reading: Reading) -> Iterator[Corpus]:
    path = place.path
    with open_stream(path, reading.options.encoding) as stream:
        reading.report.source = stream.name
        form = format_of(stream, reading.options)
        reading.report.format = form.name
        if place.inside is not None and not form.parts:
            raise UsageError(f"{path}{INSIDE}{place.inside}: {form.looks} has no sheets or tables to choose from")
        if form.takes == "stream":
            with reading.run.bar(reading.title, stream.length) as stream.bar:
                yield from form.read(stream, reading)
            if stream.encoding.remark:
                reading.report.notes.insert(0, stream.encoding.remark)
            return
        if stream.size is None:
            raise InputError(stream.name, f"{form.looks} is read from a file, not from a pipe")
    _refuse_encoding(form, str(path), reading)
    yield from form.read(path, replace(reading, inside=place.inside))


def format_of(stream: Stream, options: ReadOptions) -> Format:
    """The format of a file, by certain content, then by name, then by likely content."""
    if stream.empty:
        raise InputError(stream.name, "the file is empty")
    ending = Path(bare_name(stream.name)).suffix
    form = next((form for form in _FILES if form.certain and form.certain(stream, options)), None)
    if form is not None:
        return form
    stream.require_text()
    form = next((form for form in _FILES if ending in form.endings), None) or next(
        (form for form in _FILES if form.likely and form.likely(stream, options)), None
    )
    if form is None:
        if skos.format_of(stream) is not None:
            raise InputError(stream.name, "this is a vocabulary: --labels takes it, beside a file of documents")
        expected = ", ".join(dict.fromkeys(form.looks for form in _FILES))
        raise InputError(stream.name, f"cannot tell the format; expected one of: {expected}")
    return form


def _certain(takes: str, source: Any, options: ReadOptions) -> Format | None:
    known = (form for form in FORMATS if form.takes == takes and form.certain and form.certain(source, options))
    return next(known, None)


def _refuse_encoding(form: Format, source: str, reading: Reading) -> None:
    if reading.options.encoding is not None:
        raise UsageError(f"{source} is {form.looks}, which says itself how its text is encoded; leave out --encoding")
