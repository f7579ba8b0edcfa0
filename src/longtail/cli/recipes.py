"""longtail recipes: combinations of parts that are worth a try, and when."""

from __future__ import annotations

from typing import Annotated

import typer

from longtail.cli.console import print_json, stdout_console
from longtail.cli.options import Json


def recipes(
    name: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="Print this recipe as TOML.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """List the recipes that come with the package, or print one."""
    from longtail.recipe import summaries

    if name is not None:
        _show_one(name, json)
        return
    found = summaries()
    if json:
        print_json(found)
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("recipe", no_wrap=True)
    table.add_column("when to take it")
    for each in found:
        table.add_row(each["recipe"], escape(f"{each['title']}. {each['when']}"))
    console = stdout_console()
    console.print(table)
    console.print(
        "\n[dim]longtail train DATA -o MODEL --recipe RECIPE; longtail recipes RECIPE > own.toml is a start for one's "
        "own[/dim]"
    )


def _show_one(name: str, json: bool) -> None:
    from longtail.errors import UsageError, nearest
    from longtail.recipe import Recipe, named, text_of

    if name not in named():
        raise UsageError(f"unknown recipe '{name}'; {nearest(name, named())}")
    if json:
        print_json({"recipe": name, **vars(Recipe.find(name))})
    else:
        typer.echo(text_of(name), nl=False)
