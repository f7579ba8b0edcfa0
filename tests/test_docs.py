"""The documentation follows the code: option tables, commands and links."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main

from longtail.cli import app
from longtail.errors import UsageError
from longtail.recipe import Recipe, named, summaries
from longtail.registry import Entry, build, entries
from longtail.tagger import Tagger

DOCS = Path(__file__).parent.parent / "docs"
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
COMMANDS: Any = typer.main.get_command(app)


def tables(script: str = "options") -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{script}_tables", DOCS / "_build" / f"{script}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", sorted((DOCS / "methods").glob("*.md")), ids=lambda page: page.stem)
def test_option_tables_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert tables().rewritten(text) == text, "run: python docs/_build/options.py"


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in entries()])
def test_every_part_has_its_options_on_a_page(entry: Entry) -> None:
    pages = [page.read_text(encoding="utf-8") for page in (DOCS / "methods").glob("*.md")]
    assert sum(f"<!-- options:{entry.name} -->" in page for page in pages) == 1


def test_a_table_is_made_from_the_fields() -> None:
    made = tables().rewritten("before\n<!-- options:bonsai --> old <!-- /options -->\nafter")
    assert made.startswith(
        "before\n<!-- options:bonsai -->\n\n| option | default | values | meaning |\n|---|---|---|---|\n"
    )
    assert "| `trees` | `3` | 1 to 1,000 | trees, which differ by their random seed (Parabel, Bonsai) |" in made
    assert "| `depth` | none | 1 to 20, or none |" in made
    assert "old" not in made
    pooled = '`{ part = "pooled", bias = -8.0, strength = 3.0 }`'
    assert f"| `head` | {pooled} | a part |" in tables().rewritten("<!-- options:astec --><!-- /options -->")
    assert made.endswith("<!-- /options -->\nafter")


def test_what_goes_with_what_is_up_to_date() -> None:
    page = (DOCS / "goes-with.md").read_text(encoding="utf-8")
    assert tables("goes_with").rewritten(page) == page, "run: python docs/_build/goes_with.py"
    assert {name for name in tables("goes_with").TABLES if f"<!-- goes-with:{name} -->" in page} == set(
        tables("goes_with").TABLES
    )


def test_tables_of_what_goes_together_say_what_a_tagger_takes() -> None:
    made = tables("goes_with").augmenters().splitlines()
    learners = re.findall(r"`([\w-]+)`", made[0])
    for line in made[2:]:
        augmenter, _, *marks = (cell.strip() for cell in line.strip("|").split("|"))
        for learner, mark in zip(learners, marks, strict=True):
            try:
                Tagger(learner, augment=[augmenter.strip("`")])
            except UsageError as refused:
                assert mark == "·", f"{augmenter} and {learner}: {refused}"
            else:
                assert mark == "✓", f"{augmenter} and {learner} go together"


def test_tables_of_encoders_and_heads_say_what_a_learner_takes() -> None:
    made = tables("goes_with").encoders().splitlines()
    heads = re.findall(r"`([\w-]+)`", made[0])
    for line in made[2:]:
        encoder, _, _, *marks = (cell.strip() for cell in line.strip("|").split("|"))
        for head, mark in zip(heads, marks, strict=True):
            # DECAF tells heads of label texts but takes short-text encoders only; AttentionXML is the other way round
            refused, learners = 0, ("decaf", "attentionxml", "lsan")
            for learner in learners:
                try:
                    build({"part": learner, "encoder": encoder.strip("`"), "head": head})
                except UsageError:
                    refused += 1
            if mark == "·":
                assert refused == len(learners), f"{encoder} and {head} go together"
            elif head != "label-text":
                assert refused < len(learners), f"{encoder} and {head} do not go together"


def test_the_registry_says_what_capabilities_say() -> None:
    """A listing of all parts reads the registry, which needs no torch; one part is told of from its capabilities."""
    for entry in entries():
        can = entry.load()().capabilities
        if entry.kind == "learner":
            assert entry.space == {"X": "features", "texts": "texts"}[can.needs[0]], entry.name
        elif entry.kind == "augmenter":
            assert entry.space == can.space, entry.name


def test_every_recipe_is_listed_with_its_own_words() -> None:
    page = (DOCS / "recipes.md").read_text(encoding="utf-8")
    for each in summaries():
        assert f"| `{each['recipe']}` | {each['title']}. {each['when']} |\n" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_lines_are_short_enough_to_read_anywhere(page: Path) -> None:
    """Tables, what programs print, headings and pictures are as wide as they are."""
    inside, long = False, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        inside ^= line.lstrip().startswith("```")
        if len(line) > 120 and not inside and not line.lstrip().startswith(("|", "#", "![")):
            long.append(number)
    assert not long


#: Files that a page names though they are gone, and folders and files named within another folder.
GONE = {"rerank/neighbour_votes.py"}


def test_every_file_that_the_architecture_names_is_there() -> None:
    text, source = (DOCS / "architecture.md").read_text(encoding="utf-8"), DOCS.parent / "src" / "longtail"
    named = set(re.findall(r"`([\w./-]+(?:\.py|\.md|\.toml|/))`", text)) - GONE
    there = [DOCS.parent, source, *(folder for folder in source.rglob("*") if folder.is_dir())]
    assert [name for name in sorted(named) if not any((folder / name).exists() for folder in there)] == []
    rooms = {path.name for path in source.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    unnamed = {room for room in rooms if not room.startswith("__") and not re.search(rf"`{room}/?[`(]", text)}
    assert unnamed == set()


def commands() -> list[tuple[str, str]]:
    """(page, command) of every longtail call in a block of code."""
    found = []
    for page in PAGES:
        inside = False
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.lstrip().startswith("```"):
                inside = not inside
            call = re.match(r"(?:\$ )?(?:echo [^|]*\| )?(longtail .*)", line)
            if inside and call:
                found.append((page.name, call[1]))
    return found


@pytest.mark.parametrize(("page", "command"), commands())
def test_commands_in_the_pages_exist(page: str, command: str) -> None:
    """Verbs and options as the command line has them: a page must not promise what is not there."""
    words = shlex.split(command.partition("  #")[0].replace("...", "rest"))
    verb, words = COMMANDS.commands[words[1]], words[2:]
    if hasattr(verb, "commands"):  # a group, such as longtail analyse norms
        verb, words = verb.commands[words[0]], words[1:]
    known = {name for parameter in verb.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        if re.match(r"--?[A-Za-z]", word):
            assert word in known, f"{page}: {command} has no {word}"


@pytest.mark.parametrize(("page", "command"), [each for each in commands() if "--recipe" in each[1]])
def test_recipes_in_the_pages_exist(page: str, command: str) -> None:
    words = shlex.split(command.partition("  #")[0])
    name = words[words.index("--recipe") + 1]
    if "#" in name:
        assert Recipe.find(str(DOCS.parent / name)).title
    elif not name.endswith(".toml"):  # files that the page itself shows are the reader's own
        assert name in named(), page


def shown_recipes() -> list[tuple[str, str, str]]:
    """(page, file name or nothing, TOML) of every recipe that a page shows."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            if re.search(r"^(\[learner\]|learner = )", block, re.MULTILINE):
                name = re.match(r"# ([\w-]+\.toml)\b", block)
                found.append((page.name, name[1] if name else "", block))
    return found


@pytest.mark.parametrize(("page", "name", "block"), shown_recipes())
def test_recipes_that_pages_show_can_be_built(page: str, name: str, block: str) -> None:
    assert Recipe.from_dict(tomllib.loads(block)).tagger().learner is not None


#: Commands that show what a mistake looks like.
MISTAKES = ("--learner bonzai", "--set learner.tres=1")


@pytest.mark.parametrize(
    ("page", "command"),
    [each for each in commands() if each[1].startswith("longtail train") and not each[1].endswith(MISTAKES)],
)
def test_options_of_parts_in_the_pages_are_taken(page: str, command: str) -> None:
    """Names, paths and values after --set are those of parts that are there, as far as a tagger says before it fits."""
    words = shlex.split(command.partition("  #")[0])

    def given(option: str) -> list[str]:
        return [value for word, value in pairwise(words) if word == option]

    plan = Recipe()
    for recipe in given("--recipe"):
        if "#" in recipe:
            plan = Recipe.find(str(DOCS.parent / recipe))
        elif recipe in named():
            plan = Recipe.find(recipe)
        elif recipe != "my-recipe.toml":  # any recipe of the reader's
            plan = Recipe.from_dict(tomllib.loads(next(block for _, name, block in shown_recipes() if name == recipe)))
    learner = next(iter(given("--learner")), None)
    plan.override(
        learner=learner, augment=given("--augment"), rerank=given("--rerank"), settings=given("--set")
    ).tagger()


def test_there_are_commands_to_check() -> None:
    assert {command.split()[1] for _, command in commands()} == set(COMMANDS.commands)


def test_pages_name_no_place_of_one_machine() -> None:
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(home|root|work|tmp|Users)/", page.read_text(encoding="utf-8")), page.name
