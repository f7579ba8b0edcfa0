"""Annif's corpora: folders of texts with their subjects beside them, and lines of a text and its subjects.

doc.txt is a text; doc.key has one label per line, doc.tsv lines of `<uri>`, a tab and the label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.keep.streams import LONGEST_LINE, Stream, open_stream
from longtail.labels import LabelIndex
from longtail.read.builder import Builder
from longtail.read.checks import with_sensible_labels
from longtail.read.flaws import RecordError
from longtail.read.options import ReadOptions
from longtail.read.reading import Reading
from longtail.read.splits import SPLITS

_TEXT, _SUBJECTS = ".txt", (".key", ".tsv")
_URI = re.compile(r"<([^<>]*)>")
_SHORT = re.compile(rb"[^\t]*\t[ ]*(?:<[^<>\s]+>\s*)+")


def is_full_texts(folder: Path, options: ReadOptions) -> bool:
    """Whether a text has subjects beside it; texts alone will do where no labels are needed."""
    splits = {name for names in SPLITS.values() for name in names}
    alone = True
    texts = False
    for path in folder.iterdir():
        if path.name.split(".")[0] in splits:
            alone = False
        elif path.suffix == _TEXT and path.is_file():
            texts = True
            if any(path.with_suffix(ending).is_file() for ending in _SUBJECTS):
                return True
    return texts and alone and not options.need_labels


def read_full_texts(folder: Path, reading: Reading) -> Iterator[Corpus]:
    """One document per .txt file, in the order of their names, which are the ids."""
    options, report = reading.options, reading.report
    if options.split is not None:
        raise UsageError(f"{folder} is one folder of texts, so there is no split to choose")
    paths = sorted(path for path in folder.iterdir() if path.suffix == _TEXT and path.is_file())
    builder = Builder(reading)
    folder_texts = _Folder(reading)
    with reading.run.bar(reading.title, len(paths)) as bar:
        for path in paths:
            bar.advance()
            try:
                text, labels = folder_texts.document(path)
            except RecordError as problem:
                builder.bad(str(problem), folder_texts.line)
                continue
            builder.add_document(text, dict.fromkeys(labels, 1.0), len(labels), path.stem)
            if builder.full:
                yield builder.taken()
    report.source = str(folder)
    report.notes.extend(f"{count} of the files {remark}" for remark, count in folder_texts.remarks.items())
    for corpus in builder.rest():
        yield with_sensible_labels(folder_texts.named(corpus), reading)


class _Folder:
    """Reads the files of a folder; the report always names the one under way.

    line     where reading stopped
    remarks  how many files there is something to say about
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._named: dict[str, str] = {}  # label texts, as they come
        self.line: int | None = None
        self.remarks: dict[str, int] = {}

    def document(self, path: Path) -> tuple[str, list[str]]:
        """The text and the labels of one document."""
        text = "\n".join(self._lines(path))
        subjects = next((beside for end in _SUBJECTS if (beside := path.with_suffix(end)).is_file()), None)
        labels = []
        for line in [] if subjects is None else self._lines(subjects):
            name, _, said = line.partition("\t")
            match = _URI.fullmatch(name.strip())
            name = match[1].strip() if match else name.strip()
            if said and name:
                self._named.setdefault(name, said.split("\t")[0].strip())
            if name:
                labels.append(name)
        return text, labels

    def _lines(self, path: Path) -> list[str]:
        self._reading.report.source, self.line = str(path), None
        if path.stat().st_size > LONGEST_LINE:
            raise RecordError(f"a text of more than {LONGEST_LINE >> 20} MB")
        lines, length = [], 0
        with open_stream(path, self._reading.options.encoding) as stream:
            for self.line, line in stream.lines():
                try:
                    lines.append(stream.decode(line.removesuffix(b"\r")))
                except ValueError as wrong:
                    raise RecordError(str(wrong)) from None
                length += len(line)
                if length > LONGEST_LINE:
                    raise RecordError(f"a text of more than {LONGEST_LINE >> 20} MB")
            remark = re.sub(r", as in '.*?'", "", stream.encoding.remark)
        if remark:
            self.remarks[remark] = self.remarks.get(remark, 0) + 1
        return lines

    def named(self, corpus: Corpus) -> Corpus:
        """The corpus with the label texts that stand beside its documents, unless others were asked for."""
        labels = corpus.labels
        if labels.texts is not None or not self._named:
            return corpus
        texts = [self._named.get(name, "") for name in labels.names]
        return replace(corpus, labels=LabelIndex(labels.names, texts, labels.counts, labels.documents))


def is_short_texts(stream: Stream, _: ReadOptions) -> bool:
    """Whether the first line is a text, a tab, and uris in angle brackets."""
    return _SHORT.fullmatch(stream.first_line) is not None


def read_short_texts(stream: Stream, reading: Reading) -> Iterator[Corpus]:
    """One document per line: the text, a tab, and its labels in angle brackets."""
    builder = Builder(reading)
    for number, line in stream.lines():
        if not line.strip():
            continue
        try:
            text, tab, subjects = stream.decode(line).rpartition("\t")
        except ValueError as wrong:
            builder.bad(str(wrong), number)
            continue
        labels = [name for found in _URI.findall(subjects) if (name := found.strip())]
        if not tab or _URI.sub("", subjects).strip():
            builder.bad("expected a text, a tab, and labels in angle brackets", number)
            continue
        builder.add_document(text, dict.fromkeys(labels, 1.0), len(labels))
        if builder.full:
            yield builder.taken()
    for corpus in builder.rest():
        yield with_sensible_labels(corpus, reading)
