"""The profile of training that stands on docs/benchmarks.md, and what it says of targets that training misses."""

from __future__ import annotations

from typing import Any

from peers_checks import checks

#: Processes that wanted a core, above which processor seconds are longer than on a machine with nothing else to do.
BUSY = 3.0

BOUND = """\
What stops it: the solver takes half to seven tenths of Parabel's time, and by its speed beside a matrix product it \
waits for memory, most likely (no counters of the processor were read). A visit to a document of few words does \
little arithmetic with what it reads from many places: the document, its dual variables, and a row of weights per \
word. With a million labels there are as many documents as labels, and the upper levels of the tree hold all of them: \
neither they nor the weights fit the cache, so a pass runs at a lower share of a matrix product than on any other \
corpus. What remains, finding the documents of many small nodes and packing their weights, is spread over many steps \
of which none takes a tenth of the time (seen with a quarter of these documents), so even without it the target of a \
million labels would be missed. A matched tolerance means more passes over the same data: what longtail gains by \
stopping earlier, at equal P@1, is not counted there. Visiting documents in the order of memory would be faster, but \
stops 1 to 5 % from the optimum, and loses precision."""

TURNS = """\
P@1 of one tree differs by up to half a point between seeds, and rows of a million labels and of a matched tolerance \
may come from a single seed: where Parabel is named last, another seed may bring it within the 0.2 points."""


def solver_section(results: dict[str, Any], race: dict[str, Any] | None = None) -> str:
    """Shares of training, passes, and the solver's speed beside a matrix product; targets that the race missed."""
    lines = [
        "| corpus | learner | s, one thread | clustering | solver | rest | one pass, s | passes' worth "
        "| one pass, GFLOP/s | share of a matrix product |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in results["rows"]:
        total, solve = row["seconds"], row["solve_s"]
        speed = row["one_pass_gflop"] / row["one_pass_s"]
        lines.append(
            f"| {row['corpus']} | {row['learner']} | {total:.2f} | {row['cluster_s'] / total:.0%} "
            f"| {solve / total:.0%} | {1 - (solve + row['cluster_s']) / total:.0%} | {row['one_pass_s']:.2f} "
            f"| {solve / row['one_pass_s']:.1f} | {speed:.1f} | {speed / row['matrix_product_gflops']:.0%} |"
        )
    text = (
        "One tree on one thread, processor seconds. *one pass*: every problem's documents visited once, in which "
        "nearly every visit still changes weights; later passes visit fewer documents and change less. A dense "
        "product of float32 matrices does "
        f"{max(row['matrix_product_gflops'] for row in results['rows']):.0f} GFLOP/s on the same core: the solver "
        "gathers rows of 16 or 32 weights by the numbers of features, and waits for them. "
        f"{_busy(results['rows'])}Made by `{results['command']}`."
    )
    return "\n".join([*lines, "", text, *_missed(race)])


def _busy(rows: list[dict[str, Any]]) -> str:
    names = [f"{row['corpus']}/{row['learner']}" for row in rows if (row.get("load") or 0) > BUSY]
    if not names:
        return ""
    return (
        f"The machine had much other work during {', '.join(names)}: shares count there, seconds are too long and "
        "the speed is too low. "
    )


def _missed(race: dict[str, Any] | None) -> list[str]:
    """Targets of training that the race missed: how near, and what stops it."""
    found = [check for check in checks(race) if check.target.startswith("training, ")] if race else []
    missed = [check for check in found if check.verdict == "FAIL"]
    if not missed:
        return []
    lines = [f"- {check.corpus}, {check.target.removeprefix('training, ')}: {check.value:.3g}, must be "
             f"{check.need} (seconds: {check.how})" for check in missed]  # fmt: skip
    return ["", "Targets of training that the race missed, and how near it came:", "", *lines, "", TURNS, "", BOUND]
