"""longtail methods: what can be combined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli.console import print_json, stdout_console
from longtail.cli.options import Json

if TYPE_CHECKING:
    from longtail.registry import Entry


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
    from longtail.analyse.drawing import plain_table

    table = plain_table("part", "kind", "space", "paper", "what it does", left=5)
    for entry in entries():
        needs = f" \\[{entry.extra}]" if entry.extra else ""
        table.add_row(entry.name, entry.kind, entry.space, entry.paper, entry.summary + needs)
    console = stdout_console()
    console.print(table)
    console.print("\n[dim]longtail methods PART shows its options; \\[neural]: pip install 'longtail\\[neural]'[/dim]")


def _facts(entry: Entry) -> dict[str, Any]:
    return {
        "part": entry.name,
        "kind": entry.kind,
        "space": entry.space,
        "paper": entry.paper,
        "summary": entry.summary,
        "extra": entry.extra,
    }


def _show_one(entry: Entry, json: bool) -> None:
    from dataclasses import fields

    from longtail.part import default_of
    from longtail.registry import _plain

    options = [
        {"option": f.name, "default": _plain(default_of(f)), "meaning": str(f.metadata.get("help", ""))}
        for f in fields(entry.load())
    ]
    if json:
        print_json({**_facts(entry), "options": options})
        return
    from rich.markup import escape
    from rich.table import Table

    console = stdout_console()
    console.print(f"[bold]{entry.name}[/bold]  {entry.summary} ({entry.paper})\n")
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("option", "default", "meaning"):
        table.add_column(heading, no_wrap=heading != "meaning")
    for row in options:
        default = row["default"]
        shown = "none" if default is None else str(default).lower() if isinstance(default, bool) else str(default)
        table.add_row(str(row["option"]), escape(shown), escape(str(row["meaning"])))
    console.print(table)
    console.print(f"\n[dim]as in --set {entry.name}.option=value[/dim]")
