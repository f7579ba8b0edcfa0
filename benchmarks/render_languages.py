"""The tables of benchmarks/languages.py; `render.py` puts them in their places."""

from __future__ import annotations

import statistics
from typing import Any

Results = dict[str, Any]
FIGURES = ("P@1", "P@5", "nDCG@5", "PSP@1", "PSP@5")


def _table(results: Results, learner: str) -> list[str]:
    groups: dict[tuple[str, str], list[Results]] = {}
    for row in results["rows"]:
        if row["learner"] == learner:
            groups.setdefault((row["corpus"], row["setting"]), []).append(row)
    lines = [f"| corpus | language | {' | '.join(FIGURES)} | seeds |", "|---|---|" + "--:|" * (len(FIGURES) + 1)]
    for key, rows in groups.items():
        means = (f"{statistics.fmean(row['figures'][name] for row in rows):.2f}" for name in FIGURES)
        lines.append(f"| {' | '.join((*key, *means))} | {len(rows)} |")
    return lines


def trees_section(results: Results) -> str:
    return "\n".join([
        *_table(results, "bonsai"),
        "",
        "Bonsai with one tree, trained on a part of the training documents (germeval-gnd 20,000, eurlex57k 12,000, "
        "gutenberg 40,000, vuln-libraries 4,800) and counted on a quarter as many others of them, drawn anew for each "
        f"seed. Made by `{results['command']}`.",
    ])  # fmt: skip


def networks_section(results: Results) -> str:
    return "\n".join([
        *_table(results, "decaf"),
        "",
        f"DECAF on 12,000 titles, counted on 3,000 others of the training split. Made by `{results['command']}`.",
    ])  # fmt: skip


def told_section(results: Results) -> str:
    (found,) = (row["figures"] for row in results["rows"] if row["setting"] == "detect")
    lines = [
        "| read | right among the corpus's two languages | right among all known | no function word "
        "| words, µs per document | language, µs per document |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for field, name in (("text", "title and abstract"), ("title", "title")):
        each = [found[f"{field}, {what}"] for what in ("of the corpus", "of all", "of all, none told")]
        times = [found[f"{field}, microseconds per document to {what}"] for what in ("find its words", "tell")]
        shares = " | ".join(f"{share:.1f} %" for share in each)
        lines.append(f"| {name} | {shares} | {' | '.join(f'{time:.1f}' for time in times)} |")
    return "\n".join([
        *lines,
        "",
        f"All training records of germeval-gnd, {found['share of de']:.0f} % of them German, by their field `lang`. A "
        "record without function words counts as one in the corpus's main language.",
    ])  # fmt: skip
