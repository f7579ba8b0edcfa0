"""Tables and picture of benchmarks/tradeoff.py; `render.py` puts them in their places."""

from __future__ import annotations

from typing import Any

from common import HELD_OUT
from render_pictures import OURS, panels, png
from render_quality import Results, machine_line, mean_and_spread, tail_groups

CALIBRATION = "calibration"
#: Rows of a search that are shown, the most.
SHOWN = 8
#: Curves of the picture: name, settings in the order of their strength, colour.
_CURVES = (
    ("inverse-propensity", ["plain", *(f"inverse-propensity {s}" for s in ("0.25", "0.5", "0.75", "1"))], "#E69F00"),
    ("calibrated-propensity", [f"calibrated-propensity {s}" for s in ("0", "0.5", "1")], OURS),
)
#: Single points of the picture: setting, mark, colour.
_POINTS = (
    ("calibrated-propensity", "*", OURS),
    ("ranknet", "s", "#CC79A7"),
    ("ranknet chosen", "D", "#D55E00"),
    ("calibrated-propensity + ranknet", "P", "#009E73"),
    ("calibrated-propensity + ranknet chosen", "X", "#56B4E9"),
)


def tradeoff_section(results: Results) -> str:
    """All settings of each corpus and learner on test documents; RankNet's blocks by their norm."""
    return "\n\n".join([*_tables(results, held_out=False), _made(results, held_out=False)])


def ranknet_search_section(results: Results) -> str:
    """What was searched of RankNet on held-out documents, one seed."""
    return "\n\n".join([*_tables(results, held_out=True), _made(results, held_out=True)])


def _tables(results: Results, *, held_out: bool) -> list[str]:
    groups = tail_groups(results)
    parts = []
    for corpus, learner in dict.fromkeys((corpus, learner) for corpus, learner, _ in groups):
        rows_of = {s: rows for (c, name, s), rows in groups.items() if (c, name) == (corpus, learner)}
        rows_of.pop(CALIBRATION, None)
        if corpus.endswith(HELD_OUT) != held_out or not rows_of:
            continue
        curve = {s: rows for s, rows in rows_of.items() if "ranknet" not in s}
        said = []
        if held_out:
            searched = {s: rows for s, rows in rows_of.items() if s not in curve}
            kept = {s: rows for s, rows in searched.items() if rows[0]["acted"]["ranknet"]["blocks kept"]}
            best = sorted(kept, key=lambda s: -sum(beyond_curve(kept[s], curve, m)[0] for m in ("PSP@1", "PSP@5")))
            rows_of = curve | {s: kept[s] for s in best[:SHOWN]}
            said = [
                "",
                f"Of {len(searched)} settings the blocks of {len(kept)} were kept; the best of these are shown.",
            ]
        lines = [
            f"**{corpus.removesuffix(HELD_OUT)}, {learner}**{', held out' if held_out else ''}",
            "",
            "| re-ranking | seeds | P@1 | PSP@1 | PSP@5 | beyond the curve: PSP@1, PSP@5 | tail recall@5 | learnt |",
            "|---|--:|--:|--:|--:|--:|--:|---|",
            *(_line(setting, rows, curve) for setting, rows in rows_of.items()),
            *said,
        ]
        parts.append("\n".join(lines))
    return parts


def _line(setting: str, rows: list[Results], curve: dict[str, list[Results]]) -> str:
    figures = [row["figures"] for row in rows]
    means = [mean_and_spread(each[metric] for each in figures) for metric in ("P@1", "PSP@1", "PSP@5")]
    shown = " | ".join(f"{mean:.2f}" + (f" ± {spread:.2f}" if len(rows) > 1 else "") for mean, spread in means)
    tail = mean_and_spread(each["bands"]["tail"]["recall@5"] for each in figures)[0]
    beyond = ""
    if setting not in curve and curve:
        beyond = ", ".join(_shown(beyond_curve(rows, curve, metric)) for metric in ("PSP@1", "PSP@5"))
    return f"| {setting} | {len(rows)} | {shown} | {beyond} | {tail:.1f} | {_learnt(rows)} |"


def _shown(mean_spread: tuple[float, float]) -> str:
    mean, spread = mean_spread
    return f"{mean:+.2f}" + (f" ± {spread:.2f}" if spread > 0 else "")


def beyond_curve(rows: list[Results], curve: dict[str, list[Results]], metric: str) -> tuple[float, float]:
    """How much more of a metric there is than on the curve at the same P@1; mean and spread over seeds.

    The curve is what all settings without blocks reach, with straight lines between them.
    """
    found = []
    for row in rows:
        same = [each["figures"] for other in curve.values() for each in other if each["seed"] == row["seed"]]
        if same:
            points = [(each["P@1"], each[metric]) for each in same]
            found.append(row["figures"][metric] - _at(row["figures"]["P@1"], points))
    return mean_and_spread(found)


def _at(precision: float, points: list[tuple[float, float]]) -> float:
    """The most that points, and lines between them, have at this precision, or at the largest that they reach."""
    precision = min(precision, max(p for p, _ in points))
    best = max(value for p, value in points if p >= precision)
    for above, more in points:
        for below, less in points:
            if below < precision < above:
                best = max(best, less + (more - less) * (precision - below) / (above - below))
    return best


def _learnt(rows: list[Results]) -> str:
    """What the re-rankers of all seeds say of themselves."""
    said = []
    for part in rows[0]["acted"]:
        every = [row["acted"][part] for row in rows]
        if "blocks kept" in every[0]:
            kept = sum(each["blocks kept"] for each in every)
            norms = ", ".join(f"{each['norm']:.1f}" for each in every)
            said.append(f"blocks kept {kept} of {len(every)}, norm {norms}")
        elif every[0]:
            said.append("share, exponent " + "; ".join(f"{each['share']:g}, {each['exponent']:g}" for each in every))
    return "; ".join(said)


def calibration_section(results: Results) -> str:
    """By training count of the label: how often listed labels are right, and how probable they were said to be."""
    head = ["| corpus, learner | training count | pairs | right | p, counts of the whole | p, counts of folds |",
            "|---|---|--:|--:|--:|--:|"]  # fmt: skip
    lines = []
    for (corpus, learner, setting), rows in tail_groups(results).items():
        if setting != CALIBRATION:
            continue
        where = f"{corpus.removesuffix(HELD_OUT)} (held out)" if corpus.endswith(HELD_OUT) else corpus
        for band in rows[0]["bands"]:
            found = [row["bands"][band] for row in rows]
            pairs = sum(each["pairs"] for each in found)
            shares = [
                sum(each[key] * each["pairs"] for each in found) / max(pairs, 1) for key in ("right", "before", "after")
            ]
            shown = " | ".join(f"{share:.4f}" for share in shares)
            lines.append(f"| {where}, {learner} | {band} | {pairs:,} | {shown} |")
    return "\n".join([*head, *lines, "", f"The first ten labels of each document. {_made(results)}"])


def _made(results: Results, held_out: bool | None = None) -> str:
    where = {
        None: "Test split, or 15 % of the training documents where held out; one to three seeds",
        True: "15 % of the training documents, held out; one seed",
        False: "Test split; ± is the standard deviation over seeds",
    }[held_out]
    return (
        f"{where}; tail: labels with 1 to 5 training documents. {machine_line(results)} Made by `{results['command']}`."
    )


def tradeoff_picture(results: Results) -> bytes:
    """P@1 against PSP@1 and PSP@5: curves over strengths, and what chooses by itself as points."""
    groups = tail_groups(results)
    learner = "parabel"
    known = dict.fromkeys(c for c, _, _ in groups if not c.endswith(HELD_OUT))
    corpora = [c for c in known if (c, learner, "plain") in groups]
    metrics = ("PSP@1", "PSP@5")
    figure, axes = panels(len(metrics), max(len(corpora), 1), (4.4 * max(len(corpora), 1), 7.2))
    for place, (metric, corpus) in enumerate((metric, corpus) for metric in metrics for corpus in corpora):
        axis = axes[place]

        def point(setting: str, corpus: str = corpus, metric: str = metric) -> tuple[float, float] | None:
            rows = groups.get((corpus, learner, setting))
            found = rows and [mean_and_spread(row["figures"][m] for row in rows)[0] for m in (metric, "P@1")]
            return (found[0], found[1]) if found else None

        for name, settings, colour in _CURVES:
            _draw(axis, [point(setting) for setting in settings], "-o", colour, f"{name}, by strength")
        for setting, mark, colour in _POINTS:
            _draw(axis, [point(setting)], mark, colour, setting)
        axis.set_title(f"{corpus}, Parabel, 1 tree", fontsize=10)
        axis.set_xlabel(metric, fontsize=8)
        axis.set_ylabel("P@1", fontsize=8)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.25)
    axes[0].legend(fontsize=6)
    figure.suptitle("Precision against rare labels: right and up is better", fontsize=11)
    figure.tight_layout()
    return png(figure)


def _draw(axis: Any, points: list[tuple[float, float] | None], style: str, colour: str, name: str) -> None:
    known = [point for point in points if point is not None]
    if known:
        axis.plot(*zip(*known, strict=True), style, markersize=6, color=colour, label=name)
