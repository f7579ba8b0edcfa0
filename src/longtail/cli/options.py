"""Options that several verbs share, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.read.splits import SPLITS

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.", show_default=False)]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Same seed, same model, whatever the number of threads.")]
Threads = Annotated[int, typer.Option("--threads", min=0, help="Number of threads; 0 for all cores.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars and no summary.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]

_DATA = "Data"
LabelsFile = Annotated[
    Path | None,
    typer.Option("--labels", help="A file with label names and texts.", rich_help_panel=_DATA, show_default=False),
]
TextField = Annotated[
    list[str] | None,
    typer.Option(
        "--text-field",
        help="Field with the text; give it twice to join fields such as title and text (default: text).",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
LabelsField = Annotated[
    list[str] | None,
    typer.Option(
        "--labels-field",
        help="Field with the labels; give it twice to join fields (default: labels).",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator", help="What separates labels in one column of a table.", rich_help_panel=_DATA, show_default=False
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
