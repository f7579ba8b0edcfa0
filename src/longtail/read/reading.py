"""What all readers share: one reading under way, and the report on what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from longtail.errors import InputError
from longtail.read.options import ReadOptions
from longtail.run import Run

#: Messages about bad lines kept in the report.
PROBLEMS_KEPT = 5


@dataclass
class ReadReport:
    """What was found in a file.

    documents         kept
    skipped           bad records left out (only with `skip_bad`)
    problems          the first few of their messages
    empty_texts       documents kept although they have no text, or no features where the file gives features
    unlabelled        documents kept although they have no label
    duplicate_labels  labels given once more to a document that has them already
    notes             what looks odd but is no error
    """

    source: str
    format: str = ""
    documents: int = 0
    skipped: int = 0
    problems: list[str] = field(default_factory=list)
    empty_texts: int = 0
    unlabelled: int = 0
    duplicate_labels: int = 0
    notes: list[str] = field(default_factory=list)

    def summary(self) -> list[str]:
        """Lines for a person; none when there is nothing to say."""
        said = []
        if self.skipped:
            said.append(f"{self.source}: {self.skipped} bad lines skipped, the first: {self.problems[0]}")
        counts = {
            "documents without text": self.empty_texts,
            "documents without labels": self.unlabelled,
            "labels given twice to one document": self.duplicate_labels,
        }
        found = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        if found:
            said.append(f"{self.source}: {found}")
        return [*said, *(f"{self.source}: {note}" for note in self.notes)]

    def problem(self, message: str, line: int | None, skip: bool) -> None:
        """Raises, or counts, a problem with one record."""
        error = InputError(self.source, message, line)
        if not skip:
            raise error
        self.skipped += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(str(error))

    def require_documents(self) -> None:
        if self.documents:
            return
        if self.skipped:
            raise InputError(self.source, f"all {self.skipped} documents are bad, the first: {self.problems[0]}")
        raise InputError(self.source, "no documents in the file")


@dataclass(frozen=True)
class LabelTable:
    """The lines of a labels file: names and texts in file order."""

    path: str
    names: Sequence[str]
    texts: Sequence[str]

    def texts_of(self, names: Sequence[str], report: ReadReport) -> list[str]:
        """Text of each name, "" for those the file does not list."""
        known = dict(zip(self.names, self.texts, strict=True))
        missing = sum(name not in known for name in names)
        if missing:
            which = "none" if missing == len(names) else f"{len(names) - missing}"
            report.notes.append(f"{which} of {len(names)} labels are listed in {self.path}; the others have no text")
        return [known.get(name, "") for name in names]


@dataclass(frozen=True)
class Reading:
    """One reading under way: how the data is to be understood, what was found so far, and whom to show progress.

    read_labels  what reads a labels file, which is read when a reader first asks for it
    batch        documents at a time, for readers that go on from where they were; None for all at once
    title        of the progress bar
    """

    options: ReadOptions
    report: ReadReport
    read_labels: Callable[[Any], LabelTable]
    run: Run = field(default_factory=Run)
    batch: int | None = None
    title: str = "Reading"

    def changed(self, **options: Any) -> Reading:
        """The same reading with other options in some places."""
        return replace(self, options=self.options.changed(**options))

    @cached_property
    def table(self) -> LabelTable | None:
        """The labels file that was asked for or found."""
        return None if self.options.labels is None else self.read_labels(self.options.labels)
