"""What methods for rare labels win and cost, in one short table per corpus; `render.py` puts it in its place."""

from __future__ import annotations

from render_quality import Results, machine_line, mean_and_spread, tail_groups

#: Name on the page, setting of benchmarks/tail.py, and the re-ranked figures to take, if any. All are Bonsai, one tree.
_TREES = (
    ("Bonsai", "plain", None),
    ("`--rare 0.25`", "plain", ("inverse-propensity", "0.25")),
    ("`--rare 0.5`", "plain", ("inverse-propensity", "0.5")),
    ("`--rare 1`", "plain", ("inverse-propensity", "1.0")),
    ("`--augment taug`, gate 0", "taug", None),
)
#: The same of benchmarks/label_text.py, where labels have texts.
_TEXTS = (
    ("Bonsai, 3 trees", "bonsai-3", "plain"),
    ("`--recipe gandalf`", "bonsai-3", "gandalf"),
    ("`--recipe label-text`", "label-text", "plain"),
)
_HEAD = ["| | P@1 | PSP@1 | PSP@5 | recall@5 of rare labels |", "|---|--:|--:|--:|--:|"]


def rare_section(tail: Results, texts: Results, tradeoff: Results) -> str:
    """Means over seeds on the test split."""
    blocks = []
    groups, chosen = tail_groups(tail), tail_groups(tradeoff)
    for corpus in dict.fromkeys(corpus for corpus, learner, _ in groups if learner == "bonsai-1"):
        lines = [
            _line(name, [_figures(row, curve) for row in rows])
            for name, setting, curve in _TREES
            if (rows := groups.get((corpus, "bonsai-1", setting)))
        ]
        if rows := chosen.get((corpus, "bonsai", "calibrated-propensity")):
            lines.append(_line("`--rerank calibrated-propensity`", [row["figures"] for row in rows]))
        blocks.append("\n".join([f"**{corpus}, Bonsai with one tree**", "", *_HEAD, *lines]))
    groups = tail_groups(texts)
    for corpus in dict.fromkeys(corpus for corpus, learner, _ in groups if learner == "label-text"):
        lines = [
            _line(name, [row["figures"] for row in rows])
            for name, learner, setting in _TEXTS
            if (rows := groups.get((corpus, learner, setting)))
        ]
        blocks.append("\n".join([f"**{corpus}, learning from label texts**", "", *_HEAD, *lines]))
    made = f"Made by `{tail['command']}`, `{tradeoff['command']}` and `{texts['command']}`."
    seeds = {len(rows) for (_, learner, _), rows in chosen.items() if learner == "bonsai"}
    few = "" if seeds in ({3}, set()) else f" (`calibrated-propensity`: {min(seeds)})"
    note = f"Means over three seeds{few}, test split; rare labels have 1 to 5 training documents."
    return "\n\n".join([*blocks, f"{note} {machine_line(tail)} {made}"])


def _figures(row: Results, curve: tuple[str, str] | None) -> Results:
    if curve is None:
        found: Results = row["figures"]
    else:
        name, strength = curve
        found = row["curves"][name][strength]
    return found


def _line(name: str, figures: list[Results]) -> str:
    means = [mean_and_spread(each[metric] for each in figures)[0] for metric in ("P@1", "PSP@1", "PSP@5")]
    means.append(mean_and_spread(each["bands"]["tail"]["recall@5"] for each in figures)[0])
    return f"| {name} | {' | '.join(f'{mean:.1f}' for mean in means)} |"
