"""The table of benchmarks/decision_rule.py; `render.py` puts it in its place."""

from __future__ import annotations

from statistics import mean
from typing import Any

Results = dict[str, Any]

COLUMNS = ("chosen", "0.1", "0.2", "0.5", "best 1", "best 2", "best 3", "best 5")


def decision_rule_section(results: Results) -> str:
    groups: dict[tuple[str, str], list[dict[str, float]]] = {}
    for row in results["rows"]:
        groups.setdefault((row["corpus"], row["learner"]), []).append(row["figures"])
    lines = [
        f"| corpus | learner | threshold chosen | {' | '.join(COLUMNS)} |",
        f"|---|---|--:|{'--:|' * len(COLUMNS)}",
    ]
    for (corpus, learner), found in groups.items():
        cells = " | ".join(f"{100 * mean(each[name] for each in found):.1f}" for name in COLUMNS)
        lines.append(f"| {corpus} | {learner} | {mean(each['threshold'] for each in found):.2f} | {cells} |")
    seeds = max(len(found) for found in groups.values())
    return "\n".join([
        *lines,
        "",
        f"Micro-averaged F1 in per cent, mean of {seeds} seeds, on a fifth of 12,000 training documents that took no "
        "part in fitting: of the threshold that `\"auto\"` chose, of fixed ones, and of the k best labels whatever "
        f"they score. Made by `{results['command']}`.",
    ])  # fmt: skip
