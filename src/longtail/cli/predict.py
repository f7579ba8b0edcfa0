"""longtail predict: label names for new texts, one JSON line per document."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli import options
from longtail.cli.console import start_run
from longtail.cli.data import DataOptions
from longtail.cli.label_texts import opened
from longtail.errors import UsageError

if TYPE_CHECKING:
    from longtail.corpus import Corpus
    from longtail.predictions import Prediction
    from longtail.run import Run
    from longtail.tagger import Tagger

#: Documents read and scored at a time: enough for every thread, few enough that memory stays flat.
BATCH = 4096


def predict(
    model: options.Model,
    data: Annotated[
        list[str],
        typer.Argument(metavar="INPUT", help="Files with texts, or - for one text per line on standard input."),
    ],
    k: Annotated[int, typer.Option("-k", help="How many labels per document.")] = 5,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="JSONL file to write; standard output without it.", show_default=False),
    ] = None,
    threshold: Annotated[float, typer.Option("--threshold", help="Leave out labels that score less.")] = 0.0,
    rare: options.Rare = None,
    labels: options.LabelsFile = None,
    text_field: options.TextField = None,
    split: options.Split = None,
    skip_bad: options.SkipBad = False,
    encoding: options.Encoding = None,
    threads: options.Threads = 0,
    engine: options.Engine = options.EngineName.local,
    address: options.Address = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
) -> None:
    """Tag new texts: one line per document, in input order, with label names and scores."""
    if k < 1:
        raise UsageError(f"-k must be at least 1, not {k}")
    if not 0 <= threshold <= 1:
        raise UsageError(f"--threshold must lie between 0 and 1, not {threshold:g}")
    if output is not None:
        from longtail.keep.files import check_output

        check_output(output, overwrite=overwrite)
    from longtail import engines

    run = start_run(threads=threads, quiet=quiet)
    run.engine = engines.chosen(engine, address=address, workers=threads)
    [tagger] = opened([model], threads, labels=labels, rare=rare)
    how = DataOptions(text_field=text_field, split=split, skip_bad=skip_bad, encoding=encoding)
    with _destination(output, overwrite) as handle:
        size = BATCH * (run.engine.at_once(run.workers) if run.engine.remote else 1)
        for batch in how.read_in_batches(data, size, run, title="Predicting"):
            for line in lines(tagger, batch, k, threshold, run):
                handle.write(line)
        handle.flush()


def lines(tagger: Tagger, batch: Corpus, k: int, threshold: float, run: Run) -> Iterator[bytes]:
    """One JSON line per document of a batch."""
    import orjson

    assert batch.ids is not None
    # bars of the parts would flicker with every batch: that of the file takes their place
    predicted = tagger.predict(batch, k, threshold=threshold, run=run.silent())
    for ident, found in zip(batch.ids, predicted, strict=True):
        record: dict[str, Any] = {
            "id": ident,
            "labels": [_entry(each) for each in found],
        }
        yield orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _entry(found: Prediction) -> dict[str, Any]:
    """A label as an object; its text only where it tells more than the name."""
    text = {} if found.text == found.label else {"text": found.text}
    return {"label": found.label, **text, "score": round(found.score, 6)}


@contextmanager
def _destination(output: Path | None, overwrite: bool) -> Iterator[IO[bytes]]:
    """Standard output, or a file that appears when all of it is written."""
    if output is None:
        yield sys.stdout.buffer
        return
    from longtail.keep.files import atomic_file

    with atomic_file(output, overwrite=overwrite) as handle:
        yield handle
