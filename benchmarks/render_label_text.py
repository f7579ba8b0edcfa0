"""Tables of benchmarks/label_text.py; `render.py` puts them in their places."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from render_quality import machine_line, mean_and_spread, spread, tail_groups, triple

Results = dict[str, Any]
_HEAD = [
    "| setting | seeds | P@1/3/5 | PSP@1/3/5 | sd P@1, PSP@3 | recall@5 tail/middle/head "
    "| without label texts: P@1, PSP@3 | processor s |",
    "|---|--:|---|---|---|---|---|--:|",
]
NAMES = {
    "plain": "plain",
    "labelmix": "+ LabelMix",
    "labelmix-no-soft": "+ LabelMix, no soft annotations",
    "gandalf": "+ Gandalf, equal epochs",
    "gandalf-steps": "+ Gandalf, equal steps",
    "gandalf-no-soft": "+ Gandalf, no soft annotations, equal epochs",
    "gandalf-1": "+ Gandalf, strength 1, equal epochs",
    "gandalf-printed": "+ Gandalf as printed (strength 1, normalised graph, all labels), equal epochs",
    "labelmix-printed": "+ LabelMix as printed (strength 1, normalised graph)",
    "gandalf-walk": "+ Gandalf, random walk",
    "published-before": "pipeline without parts that were added since, equal epochs",
    "published": "pipeline as published, equal epochs",
    "published-labelmix": "pipeline as published + LabelMix as printed",
    "published-labelmix-no-soft": "pipeline as published + LabelMix, no soft annotations",
    "published-gandalf": "pipeline as published + Gandalf as printed",
    "published-gandalf-no-soft": "pipeline as published + Gandalf, no soft annotations",
}
CORPORA = ("gutenberg-lcsh-titles", "gutenberg-lcsh-titles-4k", "eurlex57k-titles")
LEARNERS = (
    "parabel-1",
    "parabel-3",
    "bonsai-3",
    "astec",
    "inceptionxml",
    "inceptionxml-plus",
    "decaf",
    "eclare",
    "inceptionxml-lf",
)


def _line(name: str, rows: list[Results]) -> str:
    figures = [row["figures"] for row in rows]
    deviation = ", ".join(spread(figures, metric) if len(rows) > 1 else "-" for metric in ("P@1", "PSP@3"))
    bands = "/".join(
        f"{mean_and_spread(f['bands'][band]['recall@5'] for f in figures)[0]:.1f}"
        for band in ("tail", "middle", "head")
    )
    apart = [row["without_label_texts"] for row in rows]
    without = ", ".join(f"{mean_and_spread(f[metric] for f in apart)[0]:.2f}" for metric in ("P@1", "PSP@3"))
    seconds = f"{statistics.median(row['cpu_s'] for row in rows):.0f}"
    return (
        f"| {name} | {len(rows)} | {triple(figures, 'P')} | {triple(figures, 'PSP')} | {deviation} | {bands} "
        f"| {without} | {seconds} |"
    )


def _table(results: Results, corpus: str, wanted: list[tuple[str, str]]) -> str:
    """wanted: (learner, setting)."""
    groups = tail_groups(results)
    lines = [
        _line(f"{learner} {NAMES[setting]}", groups[corpus, learner, setting])
        for learner, setting in wanted
        if (corpus, learner, setting) in groups
    ]
    return "\n".join([f"**{corpus}**", "", *_HEAD, *lines]) if lines else ""


def _made(results: Results) -> str:
    overlap = {row["corpus"]: row["label_texts_in_test"] for row in results["rows"]}
    counted = ", ".join(f"{overlap[corpus]} of {corpus}" for corpus in CORPORA if corpus in overlap)
    return (
        "Test split, one core per row; tail: labels with 1 to 5 training documents, middle 6 to 20. Documents whose "
        f"text is a label's text ({counted}) are left out of the column before the last. Seconds are "
        f"processor time of the whole training. {machine_line(results)} Made by `{results['command']}`."
    )


def _section(results: Results, wanted: list[tuple[str, str]]) -> str:
    tables = [_table(results, corpus, wanted) for corpus in CORPORA]
    return "\n\n".join([*filter(None, tables), _made(results)])


def learner_section(learner: str, results: Results) -> str:
    own = (learner, "inceptionxml-plus") if learner == "inceptionxml" else (learner,)
    return _section(results, [(each, setting) for each in own for setting in NAMES])


def method_section(method: str, results: Results) -> str:
    own = (method, f"published-{method}")
    settings = ["plain", "published", *(setting for setting in NAMES if setting.startswith(own))]
    return _section(results, [(learner, setting) for learner in LEARNERS for setting in settings])


def recipe_section(results: Results) -> str:
    """The recommended ensemble beside its members, and inverse propensity on top of it."""
    groups = tail_groups(results)
    members = (("bonsai-3", "plain"), ("bonsai-3", "gandalf"), ("parabel-3", "gandalf"), ("decaf", "plain"))
    blocks = []
    for corpus in CORPORA:
        lines = [
            f"| {learner} {NAMES[setting]} | {len(rows)} | {triple(figures, 'P')} | {triple(figures, 'PSP')} |"
            for learner, setting in members
            if (rows := groups.get((corpus, learner, setting))) and (figures := [row["figures"] for row in rows])
        ]
        rows = groups.get((corpus, "label-text", "plain"), [])
        for strength in rows[0]["inverse-propensity"] if rows else ():
            figures = [row["inverse-propensity"][strength] for row in rows]
            default = "" if float(strength) else " (the recipe)"
            name = f"label-text, inverse propensity to the power {strength}{default}"
            lines.append(f"| {name} | {len(rows)} | {triple(figures, 'P')} | {triple(figures, 'PSP')} |")
        if lines:
            blocks.append(
                "\n".join([f"**{corpus}**", "", "| | seeds | P@1/3/5 | PSP@1/3/5 |", "|---|--:|---|---|", *lines])
            )
    return "\n\n".join([*blocks, f"Test split. {machine_line(results)} Made by `{results['command']}`."])


def facts_section(results: Results) -> str:
    """How the corpora are made up: what there is for label texts to give."""
    rows = results["rows"]
    lines = [
        f"| | {' | '.join(row['corpus'] for row in rows)} |",
        f"|---|{'--:|' * len(rows)}",
    ]
    for name, show in (
        ("labels", lambda row: f"{row['labels']:,}"),
        ("labels with one document", lambda row: f"{row['labels_of_one_document']:.0%}"),
        ("soft annotations per label", lambda row: f"{row['soft_annotations_per_label']:.1f}"),
        ("of those of one-document labels, at 0.9 or more", _percent("near_one_of_labels_of_one_document")),
        ("entries above 1 before clipping", _percent("raw_annotations_above_one")),
        ("annotations that expected visits share with a random walk", _percent("shared_with_walk")),
        ("pairs of title and label with a word in common", _percent("pairs_with_a_word_in_common")),
        ("training titles that are label texts", lambda row: f"{row['train_titles_that_are_label_texts']:,}"),
        ("test titles that are label texts", lambda row: f"{row['test_titles_that_are_label_texts']:,}"),
    ):
        lines.append(f"| {name} | {' | '.join(show(row) for row in rows)} |")
    return "\n".join([*lines, "", f"Made by `{results['command']}`."])


def _percent(name: str) -> Callable[[Results], str]:
    return lambda row: f"{row[name]:.1%}"


def turns_line(row: dict[str, Any]) -> str:
    """What Gandalf adds to the training time of one tree, measured in turns."""
    times, seconds = row["times_plain"], row["median_s"]
    return (
        f"Parabel with one tree on {row['corpus']}, plain and with Gandalf in {row['turns']} turns on all cores, "
        f"medians: {seconds['plain']:.1f} s plain, {times['gandalf']:.2f} times that with Gandalf, "
        f"{times['gandalf-no-soft']:.2f} times with label rows alone (load before: {row['load_before']:.1f})."
    )


def gandalf_time_section(results: Results) -> str:
    lines = [turns_line(row) for row in results["rows"] if "times_plain" in row]
    return "\n\n".join([*lines, f"{machine_line(results)} Made by `{results['command']} --rows '*-turns'`."])


def speed_section(results: Results) -> str:
    """Time and memory of the learners, in full and with 300,000 labels."""
    blocks = []
    for corpus, what in (
        ("gutenberg-lcsh-titles", "in full"),
        ("synthetic-300k", "300,000 labels and documents, 20 steps: about memory"),
    ):
        rows = [row for row in results["rows"] if row["corpus"] == corpus and "train_s" in row]
        lines = [
            f"| {row['learner']} | {row['train_s']:.0f} | {row['predict_ms']:.2f} | {row['peak_mb']:,} |"
            for row in rows
        ]
        head = [
            f"**{corpus}**, {what}",
            "",
            "| learner | train s | predict ms per title | peak MB |",
            "|---|--:|--:|--:|",
        ]
        blocks += ["\n".join([*head, *lines])] if rows else []
    blocks += [turns_line(row) for row in results["rows"] if "times_plain" in row]
    loads = [row["load_before"] for row in results["rows"] if row.get("load_before") is not None]
    busy = f" Load before a row started: up to {max(loads):.1f}." if loads else ""
    return "\n\n".join([*blocks, f"All cores. {machine_line(results)}{busy} Made by `{results['command']}`."])


#: Recall of the 100 nearest that a search must reach to be compared.
ENOUGH = 0.95


def nearest_section(results: Results) -> str:
    """Processor time of libraries for nearest neighbours, one thread, at the cheapest setting of enough recall."""
    blocks = []
    for name in dict.fromkeys(row["set"] for row in results["rows"]):
        lines = [
            f"**{name}**",
            "",
            "| method | build s | query ms | recall@100 | index MB | same again |",
            "|---|--:|--:|--:|--:|---|",
        ]
        for row in results["rows"]:
            if row["set"] != name or row["threads"] != 1:
                continue
            good = [each for each in row["searches"] if each["recall"] >= ENOUGH]
            best = (
                min(good, key=lambda each: each["cpu_ms"])
                if good
                else max(row["searches"], key=lambda each: each["recall"])
            )
            again = {True: "yes", False: "no"}.get(row.get("same_again"), "-")  # type: ignore[arg-type]
            lines.append(
                f"| {row['method']} | {row['build_cpu_s']:.1f} | {best['cpu_ms']:.3f} | {best['recall']:.3f} "
                f"| {row['index_mb']:.0f} | {again} |"
            )
        blocks.append("\n".join(lines))
    note = f"Processor time of one thread, the cheapest setting of recall {ENOUGH} or the best there was."
    return "\n\n".join([*blocks, f"{note} {machine_line(results)} Made by `{results['command']}`."])
