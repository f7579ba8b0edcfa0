"""The profile of training that stands on docs/benchmarks.md."""

from __future__ import annotations

from typing import Any


def solver_section(results: dict[str, Any]) -> str:
    """Shares of training, passes, and the solver's speed beside a matrix product."""
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
        f"Made by `{results['command']}`."
    )
    return "\n".join([*lines, "", text])
