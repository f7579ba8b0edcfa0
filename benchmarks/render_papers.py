"""Pages docs/papers/*.md: every table and figure of the five papers, what makes ours, and ours beside the published.

Published figures are those of benchmarks/published/*.toml, ours those of benchmarks/results/*.json; `render.py` writes
the pages. What is not measured says so, beside the command that would measure it.
"""

from __future__ import annotations

import fnmatch
import importlib
import statistics
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import papers

Results = dict[str, Any]

FOLDER = Path(__file__).resolve().parent / "published"
#: Keys of a row that are no corpus.
NO_CORPUS = ("row", "recipe", "ours", "path", "command", "result")
#: Modules behind commands that make rows.
RUNNERS = {
    "python benchmarks/tradeoff.py": "tradeoff",
    "python benchmarks/neural_tail.py": "neural_tail",
    "python benchmarks/tailmix.py": "tailmix",
    "python benchmarks/tail.py": "tail",
    "python benchmarks/tail_rivals.py": "tail_rivals",
    "python benchmarks/label_text.py": "label_text",
    "python benchmarks/glas.py": "glas",
    "python benchmarks/papers.py xda": "xda",
    "python benchmarks/papers.py lsfa": "lsfa",
}
#: Points that a difference must have to count as one: between means of several seeds, and where one side has one seed.
DIFFERENCE, SINGLE = 0.25, 0.5
NOT_MEASURED = "not measured"


def sources() -> dict[str, dict[str, Any]]:
    """What is known of each paper, by the name of its page."""
    return {file.stem: tomllib.loads(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.toml"))}


def pages(all_results: dict[str, Results]) -> dict[str, str]:
    """The pages by name, and the one that lists them."""
    known = sources()
    made = {f"{name}.md": page(source, all_results) for name, source in known.items()}
    return {"index.md": index(known, all_results), **made}


def index(known: dict[str, dict[str, Any]], all_results: dict[str, Results]) -> str:
    parts = [
        "# Five papers, table by table",
        "Every table and figure of five papers on labels with few documents: the command that makes our version, ours "
        "beside the published, and what came out. Published figures are of other corpora and do not compare with ours; "
        "what compares is the direction of a change. Written by `python benchmarks/render.py` from "
        "`benchmarks/results/*.json` and `benchmarks/published/*.toml`.",
    ]
    for name, source in known.items():
        lines = ["| | what it shows | ours |", "|---|---|---|"]
        for item in source["items"]:
            word = verdict(item, all_results)[0] if item.get("gains") else "a command"
            if item.get("result") == "gandalf-figures":
                word = "measured" if "gandalf-figures" in all_results else NOT_MEASURED
            lines.append(f"| {item['item']} | {item['title']} | {word} |")
        parts += [f"## [{source['title']}]({name}.md)", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def page(source: dict[str, Any], all_results: dict[str, Results]) -> str:
    parts = [
        f"# {source['title']}",
        f"{source['about']} Rows are recipes in `{source['recipes']}`.",
        "Published figures are of other corpora: they do not compare with ours. Ours are means over as many seeds as "
        "stand in brackets, on test documents unless a corpus is named held-out.",
    ]
    for item in source["items"]:
        parts.append(f"## {item['item']}: {item['title']}")
        if "shown" in item:
            parts.append(f"Published: {item['shown']}")
        if "commands" in item:
            parts.append("```\n" + "\n".join(item["commands"]) + "\n```")
        if item.get("result") == "gandalf-figures":
            parts.append(gandalf_figures(item, all_results))
            continue
        if "rows" in item:
            parts.append(table(item, all_results))
        if "missing" in item:
            parts.append(item["missing"])
        said = verdict(item, all_results) if item.get("gains") else ()
        parts.append(" ".join([*(f"**{word}**" if n == 0 else word for n, word in enumerate(said)), item["why"]]))
    return "\n\n".join(parts) + "\n"


# tables
def table(item: dict[str, Any], all_results: dict[str, Results]) -> str:
    published = list(dict.fromkeys(name for row in item["rows"] for name in row if name not in NO_CORPUS))
    ours = shown_corpora(item, all_results)
    heads = [*(f"published: {name}" for name in published), *(f"ours: {name}" for name in ours)]
    lines = [
        "Figures: " + " · ".join(grouped_names(item["figures"])) + ".",
        "",
        "| row | " + " | ".join(heads) + " | command |",
        "|---|" + "---|" * (len(heads) + 1),
    ]
    for row in item["rows"]:
        cells = [printed(row.get(name), item["figures"]) for name in published]
        cells += [measured(row, item, name, all_results) for name in ours]
        lines.append(f"| {row['row']} | " + " | ".join(cells) + f" | `{command_of(row, item)}` |")
    return "\n".join(lines)


def shown_corpora(item: dict[str, Any], all_results: dict[str, Results]) -> list[str]:
    """Corpora that some row was measured on; the first of those that are meant to be, where there are none."""
    found = [name for name in item["corpora"] if any(figures_of(row, item, name, all_results) for row in item["rows"])]
    return found or item["corpora"][:1]


def groups(names: list[str]) -> Iterator[list[int]]:
    """Places of figures that stand in one group: the same metric at several k."""
    metric = ""
    group: list[int] = []
    for place, name in enumerate(names):
        own = name.partition("@")[0]
        if group and own != metric:
            yield group
            group = []
        metric = own
        group.append(place)
    yield group


def grouped_names(names: list[str]) -> list[str]:
    return [
        names[g[0]].partition("@")[0] + "@" + "/".join(names[p].partition("@")[2] for p in g) for g in groups(names)
    ]


def grouped(values: list[str], names: list[str]) -> str:
    return " · ".join("/".join(values[place] for place in group) for group in groups(names))


def printed(values: list[float | str] | None, names: list[str]) -> str:
    if values is None:
        return "-"
    return grouped([value if isinstance(value, str) else f"{value:.2f}" for value in values], names)


def rows_of(row: dict[str, Any], item: dict[str, Any], corpus: str, all_results: dict[str, Results]) -> list[Results]:
    """Rows of results that are a row's on a corpus, seed by seed."""
    results = all_results.get(row.get("result", item.get("result", "")))
    if results is None or "ours" not in row:
        return []
    return [
        each for each in results["rows"]
        if f"{each['learner']}/{each['setting']}" == row["ours"] and each["corpus"] == corpus
    ]  # fmt: skip


def figures_of(
    row: dict[str, Any], item: dict[str, Any], corpus: str, all_results: dict[str, Results]
) -> list[Results]:
    """What was measured of a row on a corpus, seed by seed."""
    found = []
    for each in rows_of(row, item, corpus, all_results):
        own: Any = each if "path" in row else each["figures"]
        for step in row["path"].split("/") if "path" in row else ():
            own = own.get(step, {}) if isinstance(own, dict) else {}
        if own:
            found.append(own)
    return found


def idle(row: dict[str, Any], item: dict[str, Any], corpus: str, all_results: dict[str, Results]) -> bool:
    """Whether RankNet's blocks were kept with no seed: whatever such a row gains is not their doing."""
    kept = [
        each["acted"]["ranknet"]["blocks kept"]
        for each in rows_of(row, item, corpus, all_results)
        if "ranknet" in each.get("acted", {})
    ]
    return bool(kept) and not any(kept)


def measured(row: dict[str, Any], item: dict[str, Any], corpus: str, all_results: dict[str, Results]) -> str:
    figures = figures_of(row, item, corpus, all_results)
    if not figures:
        return NOT_MEASURED
    # a runner may not keep all that is printed
    values = [
        f"{statistics.fmean(each[name] for each in figures):.2f}" if all(name in each for each in figures) else "-"
        for name in item["figures"]
    ]
    return f"{grouped(values, item['figures'])} ({len(figures)})"


# commands
@cache
def runner_rows(command: str) -> tuple[str, ...]:
    """Names of the rows that a runner makes."""
    return tuple(row["row"] for row in importlib.import_module(RUNNERS[command]).rows())


def command_of(row: dict[str, Any], item: dict[str, Any]) -> str:
    """What makes our version of a row: its runner, else a training by its recipe, else what the row says."""
    runner = row.get("command", item.get("command", ""))
    if runner in RUNNERS and "ours" in row:
        wanted = f"*/{row['ours']}/*"
        if any(fnmatch.fnmatch(name, wanted) for name in runner_rows(runner)):
            return f'{runner} --rows "{wanted}"'
    if "recipe" in row:
        return f"longtail train DATA -o MODEL --recipe {recipe_place(row['recipe'])}"
    return str(row["command"])


def recipe_place(recipe: str) -> str:
    papers.find(recipe)
    file = papers._places()[recipe]
    return f"benchmarks/papers/{file.name}#{recipe}"


# what came out
def verdict(item: dict[str, Any], all_results: dict[str, Results]) -> tuple[str, str]:
    """A word, and the changes it rests on: published and ours, of the item's leading figure."""
    name = item.get("gain", item["figures"][-1])
    place = item["figures"].index(name)
    by_name = {row["row"]: row for row in item["rows"]}
    outcomes: list[bool] = []
    unknown = False
    said = []
    for low, high in item["gains"]:
        theirs = {
            corpus: by_name[high][corpus][place] - by_name[low][corpus][place]
            for corpus in by_name[high]
            if corpus not in NO_CORPUS
            and corpus in by_name[low]
            and not any(isinstance(by_name[each][corpus][place], str) for each in (low, high))
        }
        own, least = {}, {}
        for corpus in item["corpora"]:
            means = [
                [each[name] for each in figures_of(by_name[row], item, corpus, all_results)] for row in (low, high)
            ]
            if all(means):
                own[corpus] = statistics.fmean(means[1]) - statistics.fmean(means[0])
                least[corpus] = SINGLE if min(map(len, means)) == 1 else DIFFERENCE
        sign = 1 if not theirs or statistics.fmean(theirs.values()) > 0 else -1
        outcomes += [
            sign * change > least[corpus] and not idle(by_name[high], item, corpus, all_results)
            for corpus, change in own.items()
        ]
        unknown = unknown or not own
        said.append(f"{low} → {high}: published {changes(theirs)}; ours {changes(own)}")
    word = "Not measured." if not outcomes else (
        "Reproduced." if all(outcomes) and not unknown else "Reproduced in part." if any(outcomes)
        else "Did not reproduce."
    )  # fmt: skip
    return word, f"Change of {name}. " + ". ".join(said) + "."


def changes(found: dict[str, float]) -> str:
    return ", ".join(f"{value:+.2f} ({corpus})" for corpus, value in found.items()) or "no figures"


# Gandalf's figures
def gandalf_figures(item: dict[str, Any], all_results: dict[str, Results]) -> str:
    results = all_results.get("gandalf-figures")
    if results is None:
        return f"Ours: {NOT_MEASURED}; `python benchmarks/gandalf_figures.py` would measure it on Gutenberg's titles."
    rows = results["rows"]
    if item["item"] == "Figure 2":
        kinds = list(rows[0]["cosines"])
        lines = ["| median cosine of titles with | " + " | ".join(row["setting"] for row in rows) + " |"]
        lines.append("|---|" + "--:|" * len(rows))
        for kind in kinds:
            cells = [row["cosines"][kind]["quartiles"] for row in rows]
            lines.append(f"| {kind} | " + " | ".join("-" if c is None else f"{c[1]:.2f}" for c in cells) + " |")
    else:
        epochs = [point["epoch"] for point in rows[0]["points"]]
        lines = ["| train / test P@1 after epoch | " + " | ".join(map(str, epochs)) + " | steps |"]
        lines.append("|---|" + "--:|" * (len(epochs) + 1))
        for row in rows:
            cells = [f"{point['train_P@1']:.1f} / {point['test_P@1']:.1f}" for point in row["points"]]
            lines.append(f"| {row['setting']} | " + " | ".join(cells) + f" | {row['steps']:,} |")
    tail = f"{rows[0]['corpus']}, {rows[0]['learner']}, one seed. Made by `{results['command']}`."
    return "\n".join([*lines, "", f"{tail} {item['why']}".strip()])
