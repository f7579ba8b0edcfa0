"""longtail train: from texts with labels to a tagger."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from longtail.cli import options
from longtail.cli.console import (
    allowed_memory,
    follow,
    note,
    peak_memory_megabytes,
    print_json,
    start_run,
    stdout_console,
)
from longtail.cli.data import DataOptions, check_reading
from longtail.errors import LongtailError, StoppedError, UsageError

if TYPE_CHECKING:
    from longtail.corpus import Corpus
    from longtail.keep.shard_folders import Shard
    from longtail.plan import Plan
    from longtail.run import Hardware, Run
    from longtail.tagger import Tagger

#: The stages every training reports, whether or not its parts have them.
STAGES = ("read", "features", "cluster", "train", "save")


def train(
    data: options.LabelledData,
    output: options.PlannedOutput = None,
    recipe: options.Recipe = None,
    learner: options.Learner = None,
    augment: options.Augment = None,
    rerank: options.Rerank = None,
    language: options.Language = None,
    settings: options.Settings = None,
    valid: options.Valid = None,
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
    engine: options.Engine = options.EngineName.local,
    address: options.Address = None,
    shard: options.ShardOption = None,
    memory: options.Memory = None,
    dry_run: options.DryRun = False,
    devices: options.Devices = 1,
    nodes: options.Nodes = 1,
    precision: options.PrecisionOption = options.Precision.full,
    logs: options.Logs = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a tagger on texts with labels."""
    share, folder = _destination(output, shard, overwrite=overwrite, needed=not dry_run)
    from longtail import engines
    from longtail.run import Hardware

    run = start_run(seed=seed, threads=threads, quiet=quiet)
    run.hardware = Hardware(devices, nodes, precision.value, None if logs is None else str(logs))
    asked = {"learner": learner, "augment": augment or (), "rerank": rerank or (), "settings": settings or ()}
    wanted = _Wanted(asked, language, run, engine, share)
    tagger = wanted.tagger(recipe)
    run.engine = engines.chosen(engine, address=address, workers=threads)
    run.checkpoints = _unfinished(folder)
    run.memory = allowed_memory(memory, run)
    how = DataOptions(labels, text_field, labels_field, separator, split, skip_bad, encoding=encoding, force=force)
    check_reading(data, run)
    corpus, held_out = how.read(data, run), None if valid is None else how.read(valid, run, split="valid")
    if recipe is None and wanted.left_open:
        tagger = wanted.tagger(recipe := wanted.chosen(corpus, quiet=quiet))
    planned = tagger.plan(corpus, run=run)
    if dry_run or output is None or folder is None:
        _show_plan(planned, recipe or tagger, json=json)
        return
    follow(run, planned)
    _fit(tagger, corpus, held_out, run, lambda: tagger.save(output, overwrite=overwrite), share)
    summary = {"recipe": recipe} | summarise(tagger, corpus, run.seconds, folder)
    _show(summary | {"planned_memory_mb": round(planned.peak / 1e6, 1)}, folder, json=json, quiet=quiet)


def _destination(
    output: Path | None, shard: str | None, *, overwrite: bool, needed: bool
) -> tuple[Shard | None, Path | None]:
    """The shard that is asked for and the model directory to write, refused before any work if it cannot be."""
    from longtail.keep.model import check_model_output
    from longtail.keep.shard_folders import Shard, shard_folder, shard_folders

    share = None if shard is None else Shard.parse(shard)
    if output is None:
        if needed:
            raise UsageError("--output is needed: the model directory to write, for example -o model")
        return share, None
    if share is None and shard_folders(output):
        raise UsageError(f"{output} holds a model in shards; choose another folder")
    folder = output if share is None else shard_folder(output, share)
    check_model_output(folder, overwrite=overwrite)
    return share, folder


def _unfinished(folder: Path | None) -> Path:
    """What long fits keep on the way lies here: the same command goes on from there after it was killed. Without an
    output there is only a plan, and nothing is kept."""
    target = (folder or Path("model")).absolute()
    return target.parent / f".{target.name}.unfinished"


class _Wanted(NamedTuple):
    """What to train, as the command line has it."""

    parts: dict[str, Any]
    language: str | None
    run: Run
    engine: str
    share: Shard | None

    @property
    def left_open(self) -> bool:
        """Whether the recipe is for the corpus to decide."""
        parts, hardware = self.parts, self.run.hardware
        named = parts["learner"] or parts["augment"] or parts["settings"]
        elsewhere = self.engine != "local" or hardware.devices > 1 or hardware.nodes > 1 or hardware.logs or self.share
        return not (named or elsewhere)

    def tagger(self, recipe: str | None) -> Tagger:
        """The tagger of a recipe, refused before anything is read where options do not go with it."""
        from longtail.recipe import Recipe
        from longtail.shards import check_shard

        language = [] if self.language is None else [f"tfidf.language={self.language}"]
        parts = self.parts | {"settings": [*language, *self.parts["settings"]]}
        found = (Recipe() if recipe is None else Recipe.find(recipe)).override(**parts)
        tagger = found.tagger(seed=self.run.seed, threads=self.run.threads)
        _check_hardware(tagger, self.run.hardware)
        _check_engine(tagger, self.engine)
        check_shard(tagger.pipeline, self.share)
        return tagger

    def chosen(self, corpus: Corpus, *, quiet: bool) -> str:
        """The recipe that suits the corpus, which is said with the reason."""
        from longtail.choose import choose

        choice = choose(corpus, fits=lambda name: self.tagger(name).plan(corpus, run=self.run).fits)
        if not quiet:
            note(choice.line)
        return choice.recipe


def _fit(
    tagger: Tagger, corpus: Corpus, held_out: Corpus | None, run: Run, save: Callable[[], None], share: Shard | None
) -> None:
    from longtail.registry import name_of

    if held_out is not None and not tagger.pipeline.capabilities.validation:
        note(f"--valid has no effect: '{name_of(tagger.learner)}' does not use validation data")
    with resumable(run):
        tagger.fit(corpus, valid=held_out, run=run, shard=share)
        with run.stage("save"):
            save()
    if run.checkpoints is not None:
        shutil.rmtree(run.checkpoints, ignore_errors=True)


@contextmanager
def resumable(run: Run) -> Iterator[None]:
    """Tells whoever interrupts a training that it can go on, where anything of it was kept."""
    folder = run.checkpoints

    def anything_kept() -> bool:
        return folder is not None and any(path.suffix in (".finished", ".ckpt") for path in folder.rglob("*"))

    try:
        yield
    except KeyboardInterrupt:
        if anything_kept():
            raise StoppedError("interrupted: repeat the command to go on") from None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise StoppedError("interrupted: too early for anything to be kept") from None
    except LongtailError:
        if folder is not None and not anything_kept():
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _check_hardware(tagger: Tagger, hardware: Hardware) -> None:
    """Refuses hardware options that nothing here is trained on."""
    from longtail.registry import name_of
    from longtail.run import Hardware

    given = [field for field in ("devices", "nodes", "precision", "logs")
             if getattr(hardware, field) != getattr(Hardware(), field)]  # fmt: skip
    if given and not tagger.pipeline.capabilities.hardware:
        raise UsageError(f"--{given[0]} is for networks, which '{name_of(tagger.learner)}' is not; leave it out")


def _check_engine(tagger: Tagger, engine: str) -> None:
    """Refuses a cluster for what would be trained on this machine all the same."""
    from longtail.registry import name_of

    can = tagger.pipeline.capabilities
    if engine != "local" and not can.spreads:
        instead = "it takes --devices and --nodes" if can.hardware else "leave it out"
        raise UsageError(f"--engine {engine} trains label trees, and '{name_of(tagger.learner)}' has none; {instead}")


def summarise(tagger: Tagger, corpus: Corpus, seconds: dict[str, float], output: Path) -> dict[str, Any]:
    from longtail.describe.model import directory_megabytes
    from longtail.registry import name_of

    peak = peak_memory_megabytes()
    return {
        "learner": name_of(tagger.learner),
        "documents": len(corpus),
        "labels": len(tagger.labels_),
        "tail_share": round(tagger.labels_.tail_share, 4),
        "features": tagger.n_features_,
        "seconds": {name: round(seconds.get(name, 0.0), 3) for name in (*STAGES, *sorted(set(seconds) - {*STAGES}))},
        "peak_memory_mb": None if peak is None else round(peak, 1),
        "model_mb": round(directory_megabytes(output), 4),
        "acted": tagger.pipeline.acted(),
    }


def _show_plan(planned: Plan, what: str | Tagger, *, json: bool) -> None:
    if json:
        print_json(planned.to_dict())
        return
    from longtail.cli.tables import show_plan
    from longtail.registry import name_of

    show_plan(planned, what if isinstance(what, str) else name_of(what.learner), stdout_console())


def _show(summary: dict[str, Any], output: Path, *, json: bool, quiet: bool) -> None:
    if json:
        print_json(summary)
    if json or quiet:
        return
    from rich.markup import escape

    from longtail.cli.tables import tail_words
    from longtail.describe.model import said_by

    console = stdout_console()
    what, where = escape(summary["recipe"] or summary["learner"]), escape(str(output))
    console.print(f"[bold]{what}[/bold] trained, saved in {where}", soft_wrap=True)
    console.print(
        f"  {summary['documents']:,} documents, {summary['labels']:,} labels, {tail_words(summary['tail_share'])}"
    )
    spent = [f"{name} {seconds:.1f} s" for name, seconds in summary["seconds"].items() if seconds >= 0.05]
    if spent:
        console.print(f"  {', '.join(spent)}")
    peak = f", peak memory {summary['peak_memory_mb']:,.0f} MB" if summary["peak_memory_mb"] else ""
    planned = f" ({summary['planned_memory_mb']:,.0f} MB expected)" if peak else ""
    console.print(f"  model {summary['model_mb']:,.1f} MB{peak}{planned}")
    for name, acted in summary["acted"].items():
        console.print(f"  {name}: {said_by(acted)}", markup=False)
    console.print("next:")
    model = quote(str(output))
    console.print(f"  longtail evaluate {model} TEST-FILE", soft_wrap=True, markup=False)
    console.print(f'  echo "some text" | longtail predict {model} -', soft_wrap=True, markup=False)
