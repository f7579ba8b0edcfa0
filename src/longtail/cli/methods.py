"""longtail methods: what can be combined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli.console import LIST_WIDTH, listing, print_json, stdout_console
from longtail.cli.options import Json

if TYPE_CHECKING:
    from longtail.capabilities import Capabilities
    from longtail.registry import Entry


#: What a newcomer does well to try, as options of longtail train, and why.
FIRST = (
    ("--recipe label-text", "labels have texts or descriptive names, and most are rare"),
    ("--recipe gandalf", "the same, and most labels are frequent"),
    ("--recipe bonsai", "labels have no texts"),
)
#: Kinds of parts in the order they are listed, and what each is for.
KINDS = {
    "learner": "Learners: from documents to labels (--learner)",
    "wrapper": "Learners made of learners (--learner)",
    "augmenter": "Augmenters: more or other training documents (--augment)",
    "re-ranker": "Re-rankers: another order of what a learner finds (--rerank)",
    "features": "Features: from texts to numbers ([features] of a recipe)",
    "encoder": "Encoders: what networks read texts with ([learner.encoder])",
    "head": "Heads: what networks score labels with ([learner.head])",
    "shortlist": "Shortlists: labels that networks learn from ([learner.shortlist])",
    "generator": "Generators: what xda writes texts with (--set xda.generator=NAME)",
}


def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="PART", help="Show this part and its options.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """List every part that can be combined, or the options of one."""
    from longtail.registry import entries, find

    if name is not None:
        _show_one(find(name), json)
        return
    if json:
        print_json([_facts(entry) for entry in entries()])
        return
    _show_all(entries())


def _show_all(entries: Sequence[Entry]) -> None:
    """What to try first, then every part by kind; no line is wider than 80 characters where no terminal says."""
    from rich.markup import escape

    console = stdout_console(LIST_WIDTH)
    console.print("[bold]Try these first: longtail train chooses one of them[/bold]", listing(*FIRST), sep="\n")
    for kind, heading in KINDS.items():
        rows = [(entry.name, _described(entry)) for entry in entries if entry.kind == kind]
        console.print(f"\n[bold]{escape(heading)}[/bold]", listing(*rows), sep="\n")
    console.print(
        "\nlongtail methods PART shows the options of a part, longtail recipes combinations\n"
        "that were measured. \\[neural] needs: pip install 'longtail\\[neural]'; decaf alone,\n"
        "as in the recipe label-text, trains and predicts without it."
    )


def _described(entry: Entry) -> str:
    paper = "" if entry.paper == "-" else f" ({entry.paper})"
    return f"{entry.summary}{paper}" + (f" [{entry.extra}]" if entry.extra else "")


def _facts(entry: Entry) -> dict[str, Any]:
    return {
        "part": entry.name,
        "kind": entry.kind,
        "space": entry.space,
        "paper": entry.paper,
        "summary": entry.summary,
        "extra": entry.extra,
    }


def _abilities(kind: str, can: Capabilities) -> list[str]:
    """What a part can do with its default options, in words."""
    spaces = ", ".join(can.spaces)
    if kind == "augmenter":
        return [f"works in the space {spaces}" + (", in a second stage" if can.judge else "")]
    if kind == "re-ranker":
        return ["learns from documents that the learner did not see" if can.learns else "learns nothing"]
    if kind == "encoder":
        gives = f"gives one vector per {'token' if can.per_token else 'text'}"
        return [gives, *([f"opens {spaces} to augmenters"] if spaces else [])]
    if kind == "head":
        return ["looks at single tokens"] if can.reads_tokens else []
    if kind not in ("learner", "wrapper"):
        return []
    does = {
        "masked pairs": can.masks,
        "soft targets": can.soft_targets,
        "noise drawn while it learns": can.noise,
        "a second stage": can.retunes,
    }
    reads = ", ".join(need.replace("X", "features") for need in can.needs)
    takes = [name for name, able in does.items() if able]
    return [f"reads {reads}; opens {spaces} to augmenters", *([f"takes {', '.join(takes)}"] if takes else [])]


def _show_one(entry: Entry, json: bool) -> None:
    from dataclasses import asdict, fields

    from longtail.part import default_of
    from longtail.registry import plain_value

    part = entry.load()()
    options = [
        {"option": f.name, "default": plain_value(default_of(f)), "meaning": str(f.metadata.get("help", ""))}
        for f in fields(part)
    ]
    if json:
        print_json({**_facts(entry), "capabilities": asdict(part.capabilities), "options": options})
        return
    from rich.markup import escape
    from rich.table import Table

    console = stdout_console(LIST_WIDTH)
    console.print(f"[bold]{entry.name}[/bold]  {escape(_described(entry))}")
    for line in _abilities(entry.kind, part.capabilities):
        console.print(f"  {line}")
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("option", no_wrap=True)
    table.add_column("default", overflow="fold", max_width=24)
    table.add_column("meaning", overflow="fold")
    for row in options:
        default = row["default"]
        shown = "none" if default is None else str(default).lower() if isinstance(default, bool) else str(default)
        table.add_row(str(row["option"]), escape(shown), escape(str(row["meaning"])))
    console.print(table)
    console.print(f"\n[dim]as in --set {entry.name}.option=value[/dim]")
