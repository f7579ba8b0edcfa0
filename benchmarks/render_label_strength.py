"""Tables of benchmarks/label_strength.py; `render.py` puts them in their places."""

from __future__ import annotations

import statistics
from typing import Any

from render_quality import machine_line, tail_groups, triple

Results = dict[str, Any]
CORPORA = ("gutenberg-lcsh-titles", "gutenberg-lcsh-titles-16k", "eurlex57k-titles")
#: Kinds of learners, and who stands for each.
KINDS = {"parabel-1": "label tree", "astec": "free label vectors", "decaf": "label texts"}
STRENGTHS = ("0", "0.1", "0.3", "0.6", "1")
FORMS = {
    "gandalf-1-scaled": "strength 1, normalised graph",
    "gandalf-1-largest": "strength 1, rows over their largest value",
    "gandalf-1-scaled-largest": "strength 1, both",
    "gandalf-0.3-scaled": "strength 0.3, normalised graph",
    "gandalf-0.3-all": "strength 0.3, rows for all labels",
    "gandalf-printed": "as printed: strength 1, normalised graph, rows for all labels",
}
METRICS = tuple(f"{name}@{k}" for name in ("P", "PSP") for k in (1, 3, 5))


def worth(figures: Results) -> float:
    """What a strength is chosen by: the mean of P@1, 3, 5 and PSP@1, 3, 5."""
    return statistics.fmean(figures[metric] for metric in METRICS)


def _names(method: str) -> dict[str, str]:
    strong = {f"{method}-{s}": f"strength {s}" for s in STRENGTHS} | {f"{method}-0": "own label only"}
    strong |= {"labelmix-0": "no soft annotations"} if method == "labelmix" else {}
    return {"plain": "plain", **strong, **(FORMS if method == "gandalf" else {})}


def _best(groups: Any, corpus: str, learner: str, method: str) -> str:
    """The strength of the largest worth among those that all seeds have."""
    found = {s: groups.get((corpus, learner, f"{method}-{s}"), []) for s in STRENGTHS}
    most = max(map(len, found.values()), default=0)
    known = {
        s: statistics.fmean(worth(row["figures"]) for row in rows) for s, rows in found.items() if len(rows) == most
    }
    if not most or len(known) < len(STRENGTHS):
        return ""
    return max(known, key=lambda strength: known[strength])


def strength_section(method: str, results: Results) -> str:
    groups, names, blocks = tail_groups(results), _names(method), []
    for corpus in CORPORA:
        lines = [
            f"| {KINDS[learner]} ({learner}) | {names[setting]} | {len(rows)} | {triple(figures, 'P')} "
            f"| {triple(figures, 'PSP')} | {statistics.fmean(map(worth, figures)):.2f} "
            f"| {statistics.fmean(row['unseen'] for row in rows):.1f} |"
            for learner in KINDS
            for setting in names
            if (rows := groups.get((corpus, learner, setting))) and (figures := [row["figures"] for row in rows])
        ]
        if len(lines) > 1:
            head = [
                "| learner | setting | seeds | P@1/3/5 | PSP@1/3/5 | mean of these six | recall@5 of unseen labels |"
            ]
            head.append("|---|---|--:|---|---|--:|--:|")
            best = {KINDS[learner]: _best(groups, corpus, learner, method) for learner in KINDS}
            chosen = ", ".join(f"{kind} {strength}" for kind, strength in best.items() if strength)
            said = f"\n\nBest strengths by the mean of the six: {chosen}." if chosen else ""
            blocks.append("\n".join([f"**{corpus}**, training titles held out", "", *head, *lines]) + said)
    return "\n\n".join([*blocks, f"{machine_line(results)} Made by `{results['command']}`."])
