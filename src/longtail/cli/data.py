"""Reading a corpus with the options every verb that reads one shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from longtail.cli.console import note
from longtail.errors import UsageError
from longtail.read.options import ReadOptions
from longtail.read.splits import DEFAULT

if TYPE_CHECKING:
    from longtail.corpus import Corpus
    from longtail.run import Run


#: A file, a folder, a pattern, or several of them.
Source = Path | str | Sequence[Path] | Sequence[str]


def check_reading(source: Source, run: Run) -> None:
    """Refuses files whose documents alone would not fit into the run's memory, before they are read."""
    from longtail.plan import CORE, shown_size
    from longtail.read.estimate import corpus_bytes

    needed = CORE + corpus_bytes(source)
    if run.memory is not None and needed > run.memory:
        shown = ", ".join(map(str, source)) if isinstance(source, Sequence) and not isinstance(source, str) else source
        raise UsageError(
            f"{shown}: reading it takes about {shown_size(needed)}, and {shown_size(run.memory)} are allowed: "
            f"give --memory {-(-needed // 10**8) / 10:g}GB, or train on fewer documents"
        )


class DataOptions(ReadOptions):
    """How a data file is to be understood, as given on the command line."""

    def read(self, source: Source, run: Run, *, split: str | None = None, need_labels: bool = True) -> Corpus:
        """The corpus of files or folders; what was found and what was left out is said on stderr.

        split  the part of a folder to take if the command line names none; documents of a part to test on may have
               labels of their own, each of them once
        """
        from longtail.read import read_with_report

        with run.stage("read"):
            corpus, report = read_with_report(
                source,
                options=self,
                run=run,
                usual_split=split or DEFAULT,
                need_labels=need_labels,
                force=self.force or split is not None,
            )
        for remark in report.summary():
            note(remark)
        return corpus

    def read_in_batches(self, source: Source, documents: int, run: Run, *, title: str) -> Iterator[Corpus]:
        """Documents to predict, batch by batch, from the test part of a folder if the command line names none."""
        from longtail.read import read_in_batches

        batches, report = read_in_batches(source, documents, options=self, run=run, title=title, usual_split="test")
        yield from batches
        for remark in report.summary():
            note(remark)
