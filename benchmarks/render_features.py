"""The table of benchmarks/features.py; `render.py` puts it in its place."""

from __future__ import annotations

import statistics
from typing import Any

Results = dict[str, Any]
FIGURES = ("P@1", "P@5", "PSP@1", "PSP@5")


def features_section(results: Results) -> str:
    groups: dict[tuple[str, ...], list[Results]] = {}
    for row in results["rows"]:
        key = (row["on"], row["corpus"], row["learner"], row["setting"])
        groups.setdefault(key, []).append(row["figures"])
    lines = [
        f"| counted on | corpus | learner | features | {' | '.join(FIGURES)} | seeds |",
        "|---|---|---|---|" + "--:|" * 5,
    ]
    for key, rows in sorted(groups.items(), key=lambda group: group[0][:3]):
        means = (f"{statistics.fmean(row[name] for row in rows):.2f}" for name in FIGURES)
        lines.append(f"| {' | '.join((*key, *means))} | {len(rows)} |")
    return "\n".join([
        *lines,
        "",
        "*held-out*: a fifth of the training documents, where choices are made; *test*: the test split. *words* is "
        "glove-6b-50d; *encoder* is all-minilm-l6-v2 reading 128 word pieces per document; *removed* are common "
        "components; */ 2* and */ 4* are weights of the vectors against 1 for TF-IDF. In *tfidf + words* one component "
        "is removed. Samples: 4,000 training and 1,000 test documents of eurlex57k, 3,000 and 1,000 of vuln-libraries.",
        "",
        f"`{results['command']}`, then `python benchmarks/render.py`. One seed is one run: differences of a point are "
        "within what another seed may change.",
    ])  # fmt: skip
