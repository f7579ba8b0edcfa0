"""The table of benchmarks/memory.py; `render.py` puts it in its place."""

from __future__ import annotations

from typing import Any

Results = dict[str, Any]


def memory_section(results: Results) -> str:
    lines = [
        "| corpus | learner | documents | labels | expected MB | held MB | held / expected |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in results["rows"]:
        expected, held = (row["estimate"] - row["base"]) / 1e6, (row["peak"] - row["baseline"]) / 1e6
        numbers = f"{row['documents']:,} | {row['labels']:,} | {expected:,.0f} | {held:,.0f} | {held / expected:.2f}"
        lines.append(f"| {row['corpus']} | {row['learner']} | {numbers} |")
    apart = [row["base"] / row["baseline"] for row in results["rows"]]
    return "\n".join([
        *lines,
        "",
        f"Interpreter and libraries come on top; estimates for them are {min(apart):.2f} to {max(apart):.2f} times "
        "the actual memory. Networks see 3,000 documents, with all labels, and take 8 steps. *gandalf* is bonsai "
        "with gandalf, *ensemble* is bonsai and parabel, *label-text* is bonsai with gandalf and decaf; *taug* and "
        "*ranknet* use bonsai with one tree.",
        "",
        f"`{results['command']}`, then `python benchmarks/render.py`. Two threads.",
    ])  # fmt: skip
