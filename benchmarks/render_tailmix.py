"""Tables of benchmarks/tailmix.py and benchmarks/glas.py; `render.py` puts them in their places."""

from __future__ import annotations

import importlib
from typing import Any

from common import HELD_OUT
from render_quality import machine_line, mean_and_spread, tail_groups, triple

Results = dict[str, Any]
#: What is compared with the plain network.
MEASURES = ("P@1", "PSP@1", "PSP@3", "PSP@5")


def tailmix_search_section(results: Results) -> str:
    """What was searched on held-out documents, one seed each."""
    parts = [_searched(results, corpus) for corpus in _corpora(results) if corpus.endswith(HELD_OUT)]
    made = _made(results, "15 % of the training documents, held out; one seed")
    return "\n\n".join([*parts, made, *_missing(results)])


def _missing(results: Results) -> list[str]:
    """Which of the rows that are to be searched nobody has run, by corpus and network."""
    runner = importlib.import_module(results["command"].rpartition("/")[2].removesuffix(".py"))
    done = {row["row"] for row in results["rows"]}
    wanted: dict[str, list[bool]] = {}
    for row in runner.rows():
        if row["corpus"].endswith(HELD_OUT) and row["learner"] != "one-vs-all":
            name = f"{row['corpus'].removesuffix(HELD_OUT)}, {row['learner']}"
            wanted.setdefault(name, []).append(row["row"] in done)
    said = [f"{name}: {len(each) - sum(each)} of {len(each)} rows" for name, each in wanted.items() if not all(each)]
    return [f"Not measured: {'; '.join(said)}. `{results['command']}` goes on with them."] if said else []


def tailmix_test_section(results: Results) -> str:
    """Finalists on test documents, with their differences to the plain network of the same seed."""
    parts = [_tested(results, corpus) for corpus in _corpora(results) if not corpus.endswith(HELD_OUT)]
    return "\n\n".join([*parts, _made(results, "Test split; ± is the standard deviation over seeds")])


def _corpora(results: Results) -> list[str]:
    return list(dict.fromkeys(row["corpus"] for row in results["rows"]))


def _searched(results: Results, corpus: str) -> str:
    lines = [
        f"**{corpus.removesuffix(HELD_OUT)}**, held out",
        "",
        "| network, setting | P@1/3/5 | PSP@1/3/5 | against plain: P@1, PSP@3, PSP@5 | idle draws |",
        "|---|---|---|---|--:|",
    ]
    groups = {key[1:]: rows for key, rows in tail_groups(results).items() if key[0] == corpus}
    for (learner, setting), rows in groups.items():
        figures = [row["figures"] for row in rows]
        plain = groups.get((learner, "plain"))
        against, idle = "", ""
        if plain and setting != "plain":
            against = ", ".join(f"{_differences(rows, plain, m)[0]:+.2f}" for m in ("P@1", "PSP@3", "PSP@5"))
        if "statistics" in rows[0] and "without_neighbour" in rows[0]["statistics"]:
            idle = f"{100 * rows[0]['statistics']['without_neighbour']:.0f} %"
        lines.append(
            f"| {learner}: {setting} | {triple(figures, 'P')} | {triple(figures, 'PSP')} | {against} | {idle} |"
        )
    return "\n".join(lines)


def _tested(results: Results, corpus: str) -> str:
    lines = [
        f"**{corpus}**, test",
        "",
        "| network, setting | seeds | P@1/3/5 | PSP@1/3/5 | against plain: P@1, PSP@1, PSP@3, PSP@5 |",
        "|---|--:|---|---|---|",
    ]
    groups = {key[1:]: rows for key, rows in tail_groups(results).items() if key[0] == corpus}
    for (learner, setting), rows in groups.items():
        figures = [row["figures"] for row in rows]
        plain, against = groups.get((learner, "plain")), ""
        if plain and setting != "plain":
            found = (_differences(rows, plain, measure) for measure in MEASURES)
            against = ", ".join(f"{mean:+.2f} ± {spread:.2f}" for mean, spread in found)
        lines.append(
            f"| {learner}: {setting} | {len(rows)} | {triple(figures, 'P')} | {triple(figures, 'PSP')} | {against} |"
        )
    return "\n".join(lines)


def _differences(rows: list[Results], plain: list[Results], measure: str) -> tuple[float, float]:
    """Mean and spread over the seeds that both have."""
    base = {row["seed"]: row["figures"][measure] for row in plain}
    return mean_and_spread(row["figures"][measure] - base[row["seed"]] for row in rows if row["seed"] in base)


def _made(results: Results, how: str) -> str:
    return f"{how}; equal optimiser steps, one core per row. {machine_line(results)} Made by `{results['command']}`."
