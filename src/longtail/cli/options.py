"""Options that several verbs share, each defined once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from longtail.read.splits import SPLITS

Models = Annotated[list[Path], typer.Argument(metavar="MODEL", help="Model directories.", show_default=False)]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.", show_default=False)]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Same seed, same model, whatever the number of threads.")]
Threads = Annotated[int, typer.Option("--threads", min=0, help="Number of threads; 0 for all cores.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]

Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory limit, for example 500MB or 4GB (default: 80 % of what is free); never changes the model.",
        show_default=False,
    ),
]

Propensity = Annotated[
    str, typer.Option("--propensity", help="Preset of A and B: default, wikipedia, amazon.", rich_help_panel="Metrics")
]
Png = Annotated[Path | None, typer.Option("--png", help="Draw the figures into this file.", show_default=False)]
TestData = Annotated[Path, typer.Option("--data", help="Documents with labels to measure on.", show_default=False)]

Rare = Annotated[
    float | None,
    typer.Option(
        "--rare",
        metavar="STRENGTH",
        min=0,
        max=10,
        help="Move rare labels up: 0 is the learner's own order, 1 what PSP@k asks for; 0.2 is a good start. "
        "Works on any model, and takes the place of its own re-ranking.",
        show_default=False,
    ),
]

_DATA = "Data"
LabelsFile = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        help="A file with label names and texts, or a SKOS vocabulary.",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
TextField = Annotated[
    list[str] | None,
    typer.Option(
        "--text-field",
        help="Field with the text; give it twice to join fields such as title and text "
        "(default: text, or fields with usual names).",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
LabelsField = Annotated[
    list[str] | None,
    typer.Option(
        "--labels-field",
        help="Field with the labels; give it twice to join fields (default: labels, or one with a usual name).",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator",
        help="What separates labels that stand in one text (default: found).",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        help="Encoding of text files, as in cp1252 or utf-16 (default: found).",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Go on though nearly every label is unique, or holds what looks like a separator.",
        rich_help_panel=_DATA,
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        "--split",
        help=f"Which part of a folder: {', '.join(SPLITS)}.",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out lines that cannot be read, and count them.", rich_help_panel=_DATA)
]

# training
LabelledData = Annotated[
    list[Path],
    typer.Argument(
        metavar="DATA",
        help="Files or folders with texts and labels; FILE.xlsx::SHEET and FILE.sqlite::TABLE choose within a file.",
        show_default=False,
    ),
]
ModelOutput = Annotated[Path, typer.Option("--output", "-o", help="The model directory to write.", show_default=False)]
PlannedOutput = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="The model directory to write; not needed for --dry-run.", show_default=False),
]
Valid = Annotated[
    Path | None, typer.Option("--valid", help="Validation data, for methods that use it.", show_default=False)
]

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only estimate how long training will take and how much memory it needs.")
]

_METHOD = "Method"
Recipe = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        help="One of longtail recipes, FILE.toml or FILE.toml#ROW (default: chosen to suit the corpus).",
        rich_help_panel=_METHOD,
        show_default=False,
    ),
]
Learner = Annotated[
    str | None,
    typer.Option(
        "--learner", help="A learner in place of the recipe's: see longtail methods.", rich_help_panel=_METHOD
    ),
]
Augment = Annotated[
    list[str] | None,
    typer.Option("--augment", help="Augmenter; may be given several times.", rich_help_panel=_METHOD),
]
Rerank = Annotated[
    list[str] | None,
    typer.Option("--rerank", help="Re-ranker; may be given several times.", rich_help_panel=_METHOD),
]
Language = Annotated[
    str | None,
    typer.Option(
        "--language",
        metavar="CODE",
        help="Language of the texts, for stems of their words: de, en, ..., auto (found per document) or none.",
        rich_help_panel=_METHOD,
        show_default=False,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="An option of a part, for example learner.trees=1 or parabel.trees=1; may be given several times.",
        rich_help_panel=_METHOD,
    ),
]

_HARDWARE = "Hardware"


class EngineName(StrEnum):
    local = "local"
    ray = "ray"


Engine = Annotated[
    EngineName,
    typer.Option(
        "--engine",
        help="Where the work is done: threads of this process, or processes of a Ray cluster. Same results.",
        rich_help_panel=_HARDWARE,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="The Ray cluster, as HOST:PORT or auto; without it one is started on this machine.",
        rich_help_panel=_HARDWARE,
        show_default=False,
    ),
]


class Precision(StrEnum):
    full = "32-true"
    bfloat = "bf16-mixed"
    half = "16-mixed"


ShardOption = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="N/COUNT",
        help="Train one of several parts of the model, each with a share of the labels, for example 1/2.",
        rich_help_panel=_HARDWARE,
        show_default=False,
    ),
]
Devices = Annotated[
    int,
    typer.Option(
        "--devices",
        min=1,
        max=1024,
        help="Processors that train a network together: GPUs, or processes on a CPU.",
        rich_help_panel=_HARDWARE,
    ),
]
Nodes = Annotated[
    int,
    typer.Option("--nodes", min=1, max=1024, help="Machines that train a network together.", rich_help_panel=_HARDWARE),
]
PrecisionOption = Annotated[
    Precision,
    typer.Option(
        "--precision",
        metavar="FORMAT",
        help=f"Number format of a network's arithmetic: {', '.join(Precision)}.",
        rich_help_panel=_HARDWARE,
    ),
]
Logs = Annotated[
    Path | None,
    typer.Option(
        "--logs",
        help="Folder for CSV and TensorBoard logs of networks.",
        rich_help_panel=_HARDWARE,
        show_default=False,
    ),
]
