"""Reading a corpus with the options every verb that reads one shares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from longtail.cli.console import note
from longtail.errors import UsageError
from longtail.read.options import ReadOptions

if TYPE_CHECKING:
    from longtail.corpus import Corpus
    from longtail.run import Run


def check_reading(path: Path, run: Run) -> None:
    """Refuses files whose documents alone would not fit into the run's memory, before they are read."""
    from longtail.plan import CORE, shown_size
    from longtail.read.estimate import corpus_bytes

    needed = CORE + corpus_bytes(path)
    if run.memory is not None and needed > run.memory:
        raise UsageError(
            f"{path}: reading it takes about {shown_size(needed)}, and {shown_size(run.memory)} are allowed: "
            f"give --memory {-(-needed // 10**8) / 10:g}GB, or train on fewer documents"
        )


class DataOptions(ReadOptions):
    """How a data file is to be understood, as given on the command line."""

    def read(self, path: Path | str, run: Run, *, split: str | None = None, need_labels: bool = True) -> Corpus:
        """The corpus of a file or folder; what was left out is said on stderr.

        split  the part of a folder to take if the command line names none
        """
        from longtail.read import read_with_report

        if self.split is not None or not Path(path).is_dir():
            split = self.split
        with run.stage("read"):
            corpus, report = read_with_report(path, options=self, run=run, split=split, need_labels=need_labels)
        for remark in report.summary():
            note(remark)
        return corpus

    def read_in_batches(self, path: Path | str, documents: int, run: Run, *, title: str) -> Iterator[Corpus]:
        """Documents to predict, batch by batch, from the test part of a folder if the command line names none."""
        from longtail.read import read_in_batches

        split = self.split if self.split is not None or not Path(path).is_dir() else "test"
        batches, report = read_in_batches(path, documents, options=self, run=run, title=title, split=split)
        yield from batches
        for remark in report.summary():
            note(remark)
