"""longtail recipes: combinations of parts that are worth trying, and when."""

from __future__ import annotations

from typing import Annotated

import typer

from longtail.cli.console import LIST_WIDTH, listing, print_json, stdout_console
from longtail.cli.options import Json

#: Recipes that a newcomer does well to try: those that suit most corpora, see longtail/choose.py.
FIRST = ("label-text", "gandalf", "bonsai")


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
    console = stdout_console(LIST_WIDTH)
    first = [each for name in FIRST for each in found if each["recipe"] == name]
    for heading, some in (
        ("Try these first: longtail train chooses one of them", first),
        ("More", [each for each in found if each not in first]),
    ):
        rows = [(each["recipe"], f"{each['title']}. {each['when']}") for each in some]
        console.print(f"[bold]{heading}[/bold]", listing(*rows), "", sep="\n")
    console.print(
        "longtail train DATA -o MODEL --recipe RECIPE trains with one;\n"
        "longtail recipes RECIPE > own.toml gives a file to start from."
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
