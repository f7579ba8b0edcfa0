"""longtail augment: the texts that a method makes of a corpus, written for a person to read, edit and train on."""

from __future__ import annotations

import json as jsonlib
import shutil
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli import options
from longtail.cli.console import note, print_json, start_run, stdout_console
from longtail.cli.data import DataOptions
from longtail.errors import StoppedError, UsageError

if TYPE_CHECKING:
    from longtail.augment.xda.made import Made
    from longtail.augment.xda.part import Xda
    from longtail.corpus import Corpus

app = typer.Typer(no_args_is_help=True, help="Write the texts that an augmenter makes of a corpus.")


@app.callback()
def _methods() -> None:
    """Keeps the name of the method a word of its own while there is only one."""


@app.command()
def xda(
    data: options.LabelledData,
    output: Annotated[Path, typer.Option("--output", "-o", help="The JSONL file to write.", show_default=False)],
    model: Annotated[
        Path | None,
        typer.Option("--model", help="The model that filters: trained on the same documents.", show_default=False),
    ] = None,
    settings: options.Settings = None,
    labels: options.LabelsFile = None,
    text_field: options.TextField = None,
    labels_field: options.LabelsField = None,
    separator: options.Separator = None,
    split: options.Split = None,
    skip_bad: options.SkipBad = False,
    encoding: options.Encoding = None,
    force: options.Force = False,
    seed: options.Seed = 0,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write documents with rare labels anew: one JSON line per text, with its source, labels, scores and mask.

    Edit the lines as you like, and train on both files: longtail train DATA augmented.jsonl -o MODEL.
    A run that was killed goes on where it was.
    """
    from longtail.fit import Fit
    from longtail.keep.files import check_output
    from longtail.tagger import Tagger

    check_output(output, overwrite=overwrite)
    part = _part(settings or [])
    if part.filter and model is None:
        raise UsageError("--model is needed: the model that filters the texts; or keep all, --set xda.filter=false")
    if model is not None and not part.filter:
        raise UsageError("--model filters texts, and xda.filter is false; leave it out")
    run = start_run(seed=seed, threads=threads, quiet=quiet)
    run.checkpoints = output.absolute().parent / f".{output.name}.unfinished"
    tagger = None if model is None else Tagger.load(model, threads=threads)
    how = DataOptions(labels, text_field, labels_field, separator, split, skip_bad, encoding=encoding, force=force)
    corpus = how.read(data, run)
    if tagger is not None:
        corpus = corpus.aligned(tagger.labels_, keep_unknown=True).counted()
        unknown = int((corpus.labels.frequency[len(tagger.labels_) :] > 0).sum())
        if unknown:
            note(f"{model} does not know {unknown:,} of the labels; was it trained on other documents?")
    try:
        made = part.made(corpus, tagger, Fit(run).child("xda"))  # the texts that training with xda makes
    except KeyboardInterrupt:
        raise StoppedError("interrupted: repeat the command to go on") from None
    if not len(made):
        raise UsageError(part.nothing_to_do(corpus))
    _write(made, output, overwrite=overwrite)
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    found = _facts(part, made, corpus)
    if json:
        print_json(found)
    elif not quiet:
        _show(found, output)


def _part(settings: list[str]) -> Xda:
    """The augmenter with its settings, written as for longtail train."""
    from longtail.augment.xda.part import Xda
    from longtail.recipe import Recipe
    from longtail.registry import build

    part = build(Recipe().override(augment=["xda"], settings=settings).augment[0])
    assert isinstance(part, Xda)
    return part


def _write(made: Made, output: Path, *, overwrite: bool) -> None:
    from longtail.keep.files import atomic_file

    with atomic_file(output, overwrite=overwrite) as handle:
        for record in made.records():
            handle.write(jsonlib.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n")


def _facts(part: Xda, made: Made, corpus: Corpus) -> dict[str, Any]:
    from longtail.augment.xda.facts import top_words_kept

    return {**part.statistics_, "top_words_kept": top_words_kept(corpus, made)}


def _show(found: dict[str, Any], output: Path) -> None:
    console = stdout_console()
    head = f"{found['kept']:,} texts of {found['documents']:,} documents, in {output}"
    console.print(head, soft_wrap=True, markup=False)
    console.print(f"  {found['generated']:,} made; {found['masked_pairs']:,} of {found['pairs']:,} labels masked")
    shares = [f"{100 * found['word_overlap']:.0f} % of the words are those of the document"]
    if found["top_words_kept"] is not None:
        shares.append(f"{100 * found['top_words_kept']:.0f} % of its labels' top words are kept")
    console.print(f"  {', '.join(shares)}")
    lines = ("next:", f"  longtail train DATA {quote(str(output))} -o MODEL")
    console.print(*lines, sep="\n", soft_wrap=True, markup=False)
