"""Tables of benchmarks/neural_tail.py and benchmarks/neural.py; `render.py` puts them in their places."""

from __future__ import annotations

import statistics
from typing import Any

from render_quality import machine_line, mean_and_spread, tail_groups, triple

Results = dict[str, Any]
_HEAD = [
    "| setting | seeds | P@1/3/5 | PSP@1/3/5 | PSnDCG@3/5 | sd PSP@3, PSP@5 | recall@5 tail/middle/head | train s |",
    "|---|--:|---|---|---|---|---|--:|",
]
NAMES = {
    "plain": "plain",
    "tailmix": "TailMix in place, `exclude`",
    "ensemble": "ensemble of plain and TailMix",
    "tailmix-no-similarity": "TailMix, no similarity",
    "tailmix-no-graph": "TailMix, no graph",
    "wordmix": "wordMix",
    "hiddenmix": "hiddenMix",
    "tmix": "TMix",
    "ssmix": "SSMix",
    "no-start": "label vectors start at random",
    "no-skip": "no word embeddings beside the LSTM",
    "as-published": "as published (two shared layers, GloVe, rate 0.001), equal steps",
}


def _line(name: str, rows: list[Results]) -> str:
    figures = [row["figures"] for row in rows]
    gain = "/".join(f"{mean_and_spread(f[f'PSnDCG@{k}'] for f in figures)[0]:.2f}" for k in (3, 5))
    spread = ", ".join(
        f"{mean_and_spread(f[f'PSP@{k}'] for f in figures)[1]:.2f}" if len(figures) > 1 else "-" for k in (3, 5)
    )
    bands = "/".join(
        f"{mean_and_spread(f['bands'][band]['recall@5'] for f in figures)[0]:.1f}"
        for band in ("tail", "middle", "head")
    )
    times = [row["train_s"] for row in rows if "train_s" in row]
    seconds = f"{statistics.median(times):.0f}" if times else ""
    return (
        f"| {name} | {len(rows)} | {triple(figures, 'P')} | {triple(figures, 'PSP')} | {gain} | {spread} | {bands} "
        f"| {seconds} |"
    )


def table(results: Results, corpus: str, wanted: list[tuple[str, str, str]]) -> str:
    """wanted: (learner, setting, name)."""
    groups = tail_groups(results)
    lines = [f"**{corpus}**", "", *_HEAD]
    for learner, setting, name in wanted:
        rows = groups.get((corpus, learner, setting))
        if rows:
            lines.append(_line(name, rows))
    return "\n".join(lines)


def _made(results: Results) -> str:
    return (
        "Test split, equal optimiser steps, one core per row; tail: labels with 1 to 5 training documents, middle 6 to "
        "20. Seconds are wall time with other work on the same two cores: for times see benchmarks/neural.py. "
        f"{machine_line(results)} Made by `{results['command']}`."
    )


def attentionxml_section(results: Results) -> str:
    linear = [("one-vs-all", "plain", "one-vs-all (linear)"), ("bonsai", "plain", "bonsai (linear)")]
    base = ("plain", "no-start", "no-skip", "as-published")
    own = [("attentionxml", setting, f"attentionxml: {NAMES[setting]}") for setting in base]
    corpora = sorted({row["corpus"] for row in results["rows"]}, reverse=True)
    return "\n\n".join([*(table(results, corpus, [*linear, *own]) for corpus in corpora), _made(results)])


def tailmix_section(results: Results) -> str:
    settings = ("plain", "tailmix", "ensemble", "tailmix-no-similarity", "tailmix-no-graph")
    wanted = [("attentionxml", s, NAMES[s]) for s in settings]
    wanted += [("laroberta", s, f"laroberta: {NAMES[s]}") for s in ("plain", "tailmix", "ensemble")]
    corpora = sorted({row["corpus"] for row in results["rows"]}, reverse=True)
    parts = [table(results, corpus, wanted) for corpus in corpora]
    return "\n\n".join([*parts, _statistics(results), _made(results)])


def _statistics(results: Results) -> str:
    """What was mixed, of the first seed."""
    lines = [
        "| corpus, setting | pairs | without neighbour | partner was positive | lambda < 0.5 | documents of a label |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for row in results["rows"]:
        found = row.get("statistics")
        if found and row["seed"] == 0 and row["setting"] == "tailmix":
            shares = " | ".join(
                f"{100 * found[name]:.0f} %" for name in ("without_neighbour", "partner_positive", "lambda_below_half")
            )
            lines.append(
                f"| {row['corpus']}, {row['learner']}, {NAMES[row['setting']]} | {found['pairs']:,} | {shares} "
                f"| {found['mean_documents_of_label']:.1f} on average |"
            )
    return "\n".join(lines)


def mixup_section(results: Results) -> str:
    settings = ("plain", "wordmix", "hiddenmix", "ssmix", "tailmix")
    wanted = [("attentionxml", s, f"attentionxml: {NAMES[s]}") for s in settings]
    wanted += [("laroberta", s, f"laroberta: {NAMES[s]}") for s in ("plain", "tmix", "tailmix")]
    return "\n\n".join([table(results, "vuln-libraries", wanted), _made(results)])


def laroberta_section(results: Results) -> str:
    wanted = [("one-vs-all", "plain", "one-vs-all (linear)"), ("attentionxml", "plain", "attentionxml")]
    wanted += [("laroberta", s, f"laroberta: {NAMES[s]}") for s in ("plain", "tailmix", "tmix", "ensemble")]
    return "\n\n".join([table(results, "vuln-libraries", wanted), _made(results)])
