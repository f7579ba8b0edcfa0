"""The tables of benchmarks/languages.py; `render.py` puts them in their places."""

from __future__ import annotations

import statistics
from typing import Any

Results = dict[str, Any]
FIGURES = ("P@1", "P@5", "nDCG@5", "PSP@1", "PSP@5")
PLAIN = "none"


def _table(results: Results, learner: str) -> list[str]:
    """Figures of words as they stand, and what each setting gains over them on the same documents."""
    groups: dict[tuple[str, str], dict[int, Results]] = {}
    for row in results["rows"]:
        if row["learner"] == learner:
            groups.setdefault((row["corpus"], row["setting"]), {})[row["seed"]] = row["figures"]
    lines = [f"| corpus | language | {' | '.join(FIGURES)} | seeds |", "|---|---|" + "--:|" * (len(FIGURES) + 1)]
    corpora = dict.fromkeys(corpus for corpus, _ in groups)
    for corpus, setting in sorted(groups, key=lambda key: list(corpora).index(key[0])):
        rows, plain = groups[corpus, setting], groups.get((corpus, PLAIN), {})
        seeds = sorted(rows if setting == PLAIN else rows.keys() & plain.keys())
        if seeds:
            cells = (_cell([rows[s][name] - (0 if setting == PLAIN else plain[s][name]) for s in seeds], setting)
                     for name in FIGURES)  # fmt: skip
            lines.append(f"| {corpus} | {setting} | {' | '.join(cells)} | {len(seeds)} |")
    return lines


def _cell(values: list[float], setting: str) -> str:
    if setting == PLAIN:
        return f"{statistics.fmean(values):.1f}"
    spread = f" ({statistics.stdev(values):.1f})" if len(values) > 1 else ""
    return f"{statistics.fmean(values):+.1f}{spread}"


def trees_section(results: Results) -> str:
    return "\n".join([
        *_table(results, "bonsai"),
        "",
        "Bonsai with one tree, trained on a part of the training documents (germeval-gnd 20,000, eurlex57k 12,000, "
        "gutenberg 40,000, vuln-libraries 4,800) and counted on a quarter as many others of them, drawn anew for each "
        "seed: figures of words as they stand (`none`), and what other settings gain, with the gain's standard "
        f"deviation over seeds. Made by `{results['command']}`.",
    ])  # fmt: skip


def networks_section(results: Results) -> str:
    return "\n".join([
        *_table(results, "decaf"),
        "",
        "DECAF on 12,000 titles, counted on 3,000 others of the training split: as above. Made by "
        f"`{results['command']}`.",
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
