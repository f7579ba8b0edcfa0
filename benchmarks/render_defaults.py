"""The table of benchmarks/defaults.py; `render.py` puts it in its place."""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any

Results = dict[str, Any]
FIGURES = ("P@1", "PSP@5", "F1@5")


def defaults_section(results: Results) -> str:
    """Each setting's gain over the recipe it starts from, with the spread of that gain over seeds."""
    found: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
    for row in results["rows"]:
        found.setdefault((row["setting"], row["corpus"]), {})[row["seed"]] = row["figures"]
    corpora = list(dict.fromkeys(corpus for _, corpus in found))
    settings = list(dict.fromkeys(setting for setting, _ in found))
    lines = [f"| setting | {' | '.join(corpora)} |", "|---|" + "--:|" * len(corpora)]
    for setting in settings:
        base = setting.partition(",")[0]
        cells = [_cell(found.get((setting, corpus), {}), found.get((base, corpus), {}), setting == base)
                 for corpus in corpora]  # fmt: skip
        lines.append(f"| {setting} | {' | '.join(cells)} |")
    seeds = max(len(rows) for rows in found.values())
    return "\n".join([
        *lines,
        "",
        f"{', '.join(FIGURES)} on training documents held out, in per cent; for a change to a recipe, its gain with "
        f"the gain's standard deviation over up to {seeds} seeds. 6,000 training documents, or four fifths of the "
        f"corpus. Made by `{results['command']}`.",
    ])  # fmt: skip


def _cell(rows: dict[int, dict[str, float]], base: dict[int, dict[str, float]], whole: bool) -> str:
    seeds = sorted(rows.keys() & base.keys())
    if not seeds:
        return ""
    cells = []
    for name in FIGURES:
        values = [rows[seed][name] - (0 if whole else base[seed][name]) for seed in seeds]
        spread = f" ({stdev(values):.1f})" if len(values) > 1 and not whole else ""
        cells.append(f"{mean(values):.1f}" if whole else f"{mean(values):+.1f}{spread}")
    return "<br>".join(cells)
