"""The table of benchmarks/annif.py; `render.py` puts it in its place."""

from __future__ import annotations

from typing import Any

Results = dict[str, Any]
FIGURES = ("P@1", "P@5", "PSP@1", "PSP@5", "F1@5", "NDCG")


def annif_section(results: Results) -> str:
    lines = [
        f"| corpus | | {' | '.join(FIGURES)} | training s | peak MB |",
        "|---|---|" + "--:|" * (len(FIGURES) + 2),
    ]
    for row in results["rows"]:
        name = f"`{row['system']}`" if row["system"].startswith("longtail") else row["system"]
        figures = " | ".join(f"{row['figures'][each]:.1f}" for each in FIGURES)
        lines.append(f"| {row['corpus']} | {name} | {figures} | {row['train_s']:.0f} | {row['peak_train_mb']:,.0f} |")
    return "\n".join([
        *lines,
        "",
        "The same training and test documents for all (germeval-gnd: its validation split), one seed, two cores. P and "
        "PSP count labels that a training document has, F1@5 and NDCG all of them. omikuji's seconds leave out its "
        f"start and the reading of its file. Made by `{results['command']}`.",
    ])  # fmt: skip
