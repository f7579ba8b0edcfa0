"""What all readers share: one reading under way, and the report on what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from longtail.errors import InputError, counted
from longtail.read.label_table import LabelTable
from longtail.read.options import ID_FIELDS, ReadOptions
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
    repeated_ids      documents with the id of one before them
    notes             what looks odd but is no error
    made_from         row of each line that an augmenter made -> id of the document it was made from
    """

    source: str
    format: str = ""
    documents: int = 0
    skipped: int = 0
    problems: list[str] = field(default_factory=list)
    empty_texts: int = 0
    unlabelled: int = 0
    duplicate_labels: int = 0
    repeated_ids: int = 0
    notes: list[str] = field(default_factory=list)
    made_from: dict[int, str] = field(default_factory=dict)

    def summary(self) -> list[str]:
        """Lines for a person; none when there is nothing to say."""
        said = []
        if self.skipped:
            said.append(f"{self.source}: {counted(self.skipped, 'bad line')} skipped, the first: {self.problems[0]}")
        counts = [
            (self.empty_texts, "document", "without text"),
            (self.unlabelled, "document", "without labels"),
            (self.duplicate_labels, "label", "given twice to one document"),
            (self.repeated_ids, "document", "with the id of another one"),
        ]
        found = ", ".join(counted(*each) for each in counts if each[0])
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
class Reading:
    """One reading under way: how the data is to be understood, what was found so far, and whom to show progress.

    read_labels  what reads a labels file, which is read when a reader first asks for it
    batch        documents at a time, for readers that go on from where they were; None for all at once
    title        of the progress bar
    inside       the sheet or table of a file that holds several, if one is asked for
    id_fields    fields that may hold a document's id; the first that is filled counts
    shared       whether this is one of several sources: what concerns all of them is looked at by whoever joins them
    rows_before  records of the sources before this one, from which row numbers go on
    """

    options: ReadOptions
    report: ReadReport
    read_labels: Callable[..., LabelTable]
    run: Run = field(default_factory=Run)
    batch: int | None = None
    title: str = "Reading"
    inside: str | None = None
    id_fields: tuple[str, ...] = ID_FIELDS
    shared: bool = False
    rows_before: int = 0

    def changed(self, **options: Any) -> Reading:
        """The same reading with other options in some places."""
        return replace(self, options=self.options.changed(**options))

    @cached_property
    def table(self) -> LabelTable | None:
        """The labels file that was asked for or found."""
        options = self.options
        if options.labels is None:
            return None
        return self.read_labels(options.labels, run=self.run, encoding=options.encoding)
