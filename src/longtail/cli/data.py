"""Reading a corpus with the options every verb that reads one shares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from longtail.cli.console import note

if TYPE_CHECKING:
    from longtail.corpus import Corpus
    from longtail.run import Run


@dataclass
class DataOptions:
    """How a data file is to be understood, as given on the command line."""

    labels: Path | None = None
    text_field: list[str] | None = None
    labels_field: list[str] | None = None
    separator: str | None = None
    split: str | None = None
    skip_bad: bool = False

    def read(self, path: Path | str, run: Run, *, split: str | None = None, need_labels: bool = True) -> Corpus:
        """The corpus of a file or folder; what was left out is said on stderr.

        split  the part of a folder to take if the command line names none
        """
        from longtail.read import read_with_report

        if self.split is not None or not Path(path).is_dir():
            split = self.split
        with run.stage("read"):
            corpus, report = read_with_report(
                path,
                labels=self.labels,
                text_field=tuple(self.text_field or ("text",)),
                labels_field=tuple(self.labels_field or ("labels",)),
                separator=self.separator,
                split=split,
                skip_bad=self.skip_bad,
                need_labels=need_labels,
                run=run,
            )
        for remark in report.summary():
            note(remark)
        return corpus
