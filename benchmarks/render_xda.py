"""Tables of benchmarks/xda.py; `render.py` puts them in their places."""

from __future__ import annotations

from typing import Any

from common import HELD_OUT
from render_neural import table
from render_quality import machine_line, mean_and_spread, tail_groups, triple

Results = dict[str, Any]

NAMES = {
    "plain": "plain",
    "xda": "XDA (default)",
    "xda-no-filter": "XDA, no filter",
    "xda-no-mask": "XDA, no mask",
    "xda-no-labels": "XDA, words of any document",
    "xda-local-brief": "XDA, no filter, a small T5 trained for four minutes",
    "xda-no-prompt-brief": "XDA, no filter, the same T5 without prompt",
    "xda-retuned": "control: tuned again, nothing added",
    "xda-duplicates": "control: duplicates",
    "xda-duplicates-masked": "control: duplicates with the mask",
}
#: Settings that are searched: what differs from the defaults.
SEARCHED = {
    "nt-10": "`rarest` 10",
    "nt-20": "`rarest` 20",
    "nt-50": "`rarest` 50",
    "keep-0.25": "`keep` 0.25",
    "keep-0.75": "`keep` 0.75",
    "copies-8": "`copies` 8, 4 kept",
    "copies-16": "`copies` 16, 8 kept",
    "duplicates-masked-4": "control: 4 duplicates with the mask",
    "duplicates-masked-8": "control: 8 duplicates with the mask",
    "smoothing-1e-12": "`smoothing` 1e-12",
    "smoothing-0.5": "`smoothing` 0.5",
    "share-0.3": "`words.share` 0.3",
    "share-0.5": "`words.share` 0.5",
    "per-all": "`per` all",
    "all-documents": "`documents` all",
    "class-weights": "`class_weights`",
}
LEARNERS = ("bonsai", "lightxml", "label-trees", "label-text")
#: LightXML with one thing changed: names of rows in benchmarks/papers/lightxml.toml.
LIGHTXML = {
    "one-vs-all": "one-vs-all (linear)",
    "bonsai": "bonsai (linear)",
    "lightxml": "lightxml, all layers frozen",
    "lightxml-frozen-first": "first tokens alone, as in the paper",
    "lightxml-frozen-scale": "first tokens as they are, not scaled",
    "lightxml-frozen-64": "64 word pieces",
    "lightxml-frozen-random": "label vectors start at random",
    "lightxml-frozen-all": "loss over all labels",
}


def xda_section(results: Results) -> str:
    """Every learner with and without XDA, on test documents."""
    wanted = [
        (learner, setting, f"{learner}: {name}") for learner in LEARNERS for setting, name in (NAMES | SEARCHED).items()
    ]
    parts = [table(results, corpus, wanted) for corpus in _corpora(results)]
    return "\n\n".join([*parts, _made(results)])


def held_out_section(results: Results) -> str:
    """Settings, ablations and controls on held-out documents, bonsai: what was chosen by."""
    groups = tail_groups(results)
    parts = []
    for corpus in _held_out(results):
        lines = [
            f"**{corpus}**",
            "",
            "| setting | draws | P@1/5 | PSP@1/3/5 | sd PSP@5 | recall@5 of rare labels | words in common |",
            "|---|--:|---|---|--:|--:|--:|",
        ]
        for setting, name in (NAMES | SEARCHED).items():
            rows = groups.get((corpus, "bonsai", setting))
            if rows:
                lines.append(_held_out_line(name, rows))
        parts.append("\n".join(lines))
    made = f"Rare: labels with 1 to 5 documents. Made by `{results['command']} --rows '*{HELD_OUT}/bonsai/*'`."
    return "\n\n".join([*parts, made])


def _held_out_line(name: str, rows: list[Results]) -> str:
    figures = [row["figures"] for row in rows]

    def mean(metric: str) -> str:
        return f"{mean_and_spread(f[metric] for f in figures)[0]:.2f}"

    spread = f"{mean_and_spread(f['PSP@5'] for f in figures)[1]:.2f}" if len(rows) > 1 else "-"
    rare = mean_and_spread(f["bands"]["tail"]["recall@5"] for f in figures)[0]
    known = [row["statistics"]["word_overlap"] for row in rows if row.get("statistics")]
    common = f"{100 * mean_and_spread(known)[0]:.0f} %" if known else ""
    exact = "/".join(mean(f"P@{k}") for k in (1, 5))
    return f"| {name} | {len(rows)} | {exact} | {triple(figures, 'PSP')} | {spread} | {rare:.1f} | {common} |"


def lightxml_section(results: Results) -> str:
    """LightXML beside linear learners on test documents, and what it owes to what, on held-out ones."""
    wanted = [(learner, "plain", name) for learner, name in LIGHTXML.items()]
    parts = [table(results, corpus, wanted) for corpus in _corpora(results)]
    # draws of held-out documents differ by more than learners do: all are compared on the first
    first = {**results, "rows": [row for row in results["rows"] if row["seed"] == 0]}
    held = (table(first, corpus, wanted) for corpus in _held_out(results))
    return "\n\n".join([*parts, *held, _made(results)])


def _corpora(results: Results) -> list[str]:
    return sorted({row["corpus"] for row in results["rows"] if not row["corpus"].endswith(HELD_OUT)}, reverse=True)


def _held_out(results: Results) -> list[str]:
    return sorted({row["corpus"] for row in results["rows"] if row["corpus"].endswith(HELD_OUT)}, reverse=True)


def _made(results: Results) -> str:
    return (
        "One core per row; tail: labels with 1 to 5 training documents, middle 6 to 20. Rows that share a first stage "
        "train it once, and seconds are wall time with other work on the same two cores; LightXML's first stage is "
        "that of one seed in all rows on test documents. "
        f"{machine_line(results)} Made by `{results['command']}`."
    )
