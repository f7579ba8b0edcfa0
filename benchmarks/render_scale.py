"""The cost model of docs/scale.md: fitted to the rows of results/scale.json, checked, and taken further."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

Row = dict[str, Any]

FITTED = ("10k", "30k", "100k", "200k", "400k", "long")
CHECKED = "1m"
FAR = (1_000_000, 10_000_000, 100_000_000)
#: Of a corpus that is taken further: non-zeros and labels per document, as the measured ones have.
WORDS, PAIRS = 7.73, 3.0
LEARNERS = ("parabel", "bonsai")
#: Bytes per second of a network of 1 Gbit/s.
NETWORK = 125e6


class Size(NamedTuple):
    """What a corpus is, for the model."""

    learner: str
    documents: float
    labels: float
    nonzeros: float
    pairs: float

    @classmethod
    def of(cls, row: Row) -> Size:
        return cls(row["learner"], row["documents"], row["labels"], row["nonzeros"], row["pairs"])

    @classmethod
    def far(cls, learner: str, labels: float) -> Size:
        return cls(learner, labels, labels, WORDS * labels, PAIRS * labels)

    @property
    def levels(self) -> int:
        """Nodes on the way of a document from the root to a label."""
        if self.learner == "parabel":
            return 1 + max(0, math.ceil(math.log2(self.labels / 100)))
        return 2 if self.labels <= 50_000 else 3

    @property
    def children(self) -> float:
        """Children of the nodes on that way."""
        above = self.levels - 1
        if self.learner == "parabel":
            return 2 * above + self.labels / 2**above
        return 100 * above + self.labels / 100**above


#: What each figure is made of; coefficients are not negative.
TERMS: dict[str, dict[str, Callable[[Size], float]]] = {
    "core_s": {
        "1": lambda size: 1.0,
        "non-zeros x levels": lambda size: size.nonzeros * size.levels,
        "pairs x children": lambda size: size.pairs * size.children,
    },
    "peak_mb": {"1": lambda size: 1.0, "non-zeros": lambda size: size.nonzeros, "pairs": lambda size: size.pairs},
    "model_mb": {"1": lambda size: 1.0, "non-zeros": lambda size: size.nonzeros, "labels": lambda size: size.labels},
    "shared_mb": {
        "documents + labels": lambda size: size.documents + size.labels,
        "non-zeros": lambda size: size.nonzeros,
        "pairs": lambda size: size.pairs,
    },
    "predict_ms": {"1": lambda size: 1.0, "levels": lambda size: size.levels, "children": lambda size: size.children},
}
UNITS = {"core_s": "core seconds to train and save", "peak_mb": "peak memory, MB", "model_mb": "model on disk, MB",
         "shared_mb": "sent to each machine, MB", "predict_ms": "ms per document"}  # fmt: skip


def measured(row: Row, figure: str) -> float:
    return float(row["train_cpu_s"] if figure == "core_s" else row[figure])


def fit(rows: list[Row], figure: str) -> dict[str, float]:
    """Coefficients of a figure's terms that make the relative errors small."""
    terms = TERMS[figure]
    wanted = np.array([measured(row, figure) for row in rows])
    given = np.array([[term(Size.of(row)) for term in terms.values()] for row in rows]) / wanted[:, None]
    scale = given.max(axis=0)
    found, _ = nnls(given / scale, np.ones(len(rows)))
    return dict(zip(terms, (found / scale).tolist(), strict=True))


def predicted(coefficients: dict[str, float], figure: str, size: Size) -> float:
    return sum(value * TERMS[figure][name](size) for name, value in coefficients.items())


class Model:
    """The fitted figures of one learner."""

    def __init__(self, results: dict[str, Any], learner: str) -> None:
        rows = {row["corpus"]: row for row in results["rows"] if row["learner"] == learner and row["shard"] is None}
        self.learner, self.rows = learner, rows
        self.fitted_on = [rows[name] for name in FITTED if name in rows]
        self.coefficients = {figure: fit(self.fitted_on, figure) for figure in TERMS} if self.fitted_on else {}

    def at(self, figure: str, size: Size) -> float:
        return predicted(self.coefficients[figure], figure, size)

    def largest(self, enough: Callable[[Size], bool]) -> float:
        """The most labels (and as many documents) that some condition holds for."""
        low, high = 1e3, 1e12
        while high / low > 1.01:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if enough(Size.far(self.learner, middle)) else (low, middle)
        return low


def models(results: dict[str, Any]) -> list[Model]:
    return [model for learner in LEARNERS if (model := Model(results, learner)).fitted_on]


# tables
def rows_section(results: dict[str, Any]) -> str:
    """What was measured."""
    lines = [
        "| row | documents | non-zeros | pairs | labels | core s | wall s | peak MB | own MB | of files MB "
        "| model MB | ms per document |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {row['row']} | {row['documents']:,} | {row['nonzeros']:,} | {row['pairs']:,} | {row['labels']:,} "
        f"| {row['train_cpu_s']:.1f} | {row['train_s']:.1f} | {row['peak_mb']:,.0f} "
        f"| {_megabytes(row, 'peak_anonymous_mb')} | {_megabytes(row, 'peak_file_mb')} | {row['model_mb']:,.0f} "
        f"| {row['predict_ms']:.3f} |"
        for row in results["rows"]
    ]
    machine, loads = results["machine"], [row["load_before"] for row in results["rows"]]
    text = (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}, Python "
        f"{machine['python']}. *core s*: processor seconds of training and saving; *wall s*: training alone; "
        f"*peak MB*: of the process, corpus and interpreter included; *own* and *of files*: the most of its own memory "
        "and the most of mapped files, not always at the same time, where they were told apart. Made by "
        f"`{results['command']}`."
    )
    text += _far_target(results["rows"])
    if max(loads) > machine["cores"] + 0.5:
        text += (
            f" The load average reached {max(loads):.1f} before a row started: the machine had other work, and wall "
            "seconds and milliseconds are not fit to quote."
        )
    return "\n".join([*lines, "", text])


def _megabytes(row: Row, name: str) -> str:
    return f"{row[name]:,.0f}" if name in row else "–"


def _far_target(rows: list[Row]) -> str:
    """Whether ten million labels, whole and in each shard, were trained and saved within an hour and 16 GB."""
    found = []
    for far in rows:
        if far["row"].startswith("parabel/10m"):
            hours, memory = (far["train_s"] + far["seconds"]["save"]) / 3600, far["peak_mb"] / 1e3
            verdict = "PASS" if hours <= 1 and memory <= 16 else "FAIL"
            which = "whole" if far["shard"] is None else f"shard {far['shard']}"
            found.append(f"{which} **{verdict}** ({60 * hours:.0f} min, {memory:.1f} GB)")
    if not found:
        return " Ten million labels: not measured."
    return f" Target of ten million labels, trained and saved within an hour and 16 GB: {', '.join(found)}."


def model_section(results: dict[str, Any]) -> str:
    """Coefficients, and how far the model is off where it was fitted and where it was not."""
    lines = ["| learner | figure | model | largest error of the fit | at 1,000,000 labels: model / measured |",
             "|---|---|---|--:|--:|"]  # fmt: skip
    for model in models(results):
        for figure, unit in UNITS.items():
            found = model.coefficients[figure]
            formula = " + ".join(_term(name, value) for name, value in found.items() if value) or "0"
            errors = [model.at(figure, Size.of(row)) / measured(row, figure) - 1 for row in model.fitted_on]
            check = "not measured"
            if CHECKED in model.rows:
                row = model.rows[CHECKED]
                guess, true = model.at(figure, Size.of(row)), measured(row, figure)
                check = f"{guess:,.3g} / {true:,.3g} ({guess / true - 1:+.0%})"
            lines.append(f"| {model.learner} | {unit} | {formula} | {max(errors, key=abs):+.0%} | {check} |")
    return "\n".join(lines)


def _term(name: str, value: float) -> str:
    if name == "1":
        return f"{value:.3g}"
    return f"{value:.3g} x {name}" if " " not in name else f"{value:.3g} x ({name})"


def far_section(results: dict[str, Any]) -> str:
    """One, ten and a hundred million labels, with as many documents of 8 words."""
    lines = ["| learner | labels | core hours | hours on 2 / 64 cores | peak GB | model GB | shards for 16 / 64 GB "
             "| to each machine, GB | that at 1 Gbit/s | ms per document |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]  # fmt: skip
    for model in models(results):
        for labels in FAR:
            size = Size.far(model.learner, labels)
            core_h, peak, shared = (model.at(f, size) for f in ("core_s", "peak_mb", "shared_mb"))
            core_h /= 3600
            shards = " / ".join(shards_for(peak, shared, memory) for memory in (16_000, 64_000))
            lines.append(
                f"| {model.learner} | {labels:,} | {core_h:,.2g} | {core_h / 2:,.2g} / {core_h / 64:,.2g} "
                f"| {peak / 1e3:,.1f} | {model.at('model_mb', size) / 1e3:,.1f} | {shards} | {shared / 1e3:,.2f} "
                f"| {shared * 1e6 / NETWORK:,.0f} s | {model.at('predict_ms', size):.3f} |"
            )
    beside = " ".join(map(_measured_far, models(results))).strip()
    return "\n".join([*lines, *(["", beside] if beside else [])])


def _measured_far(model: Model) -> str:
    """What ten million labels took, where they were measured: the model was not fitted to them."""
    row = model.rows.get("10m")
    if row is None:
        return ""
    size = Size.far(model.learner, row["labels"])
    core_h, peak = measured(row, "core_s") / 3600, row["peak_mb"] / 1e3
    return (
        f"Measured with {row['labels']:,} labels and {model.learner}: {core_h:.2g} core hours and {peak:.1f} GB, where "
        f"the model says {model.at('core_s', size) / 3600:.2g} and {model.at('peak_mb', size) / 1e3:.1f}."
    )


def shards_for(peak_mb: float, shared_mb: float, memory_mb: float) -> str:
    """How many shards a machine of so much memory needs; each sees the whole corpus, twice: as given and laid out."""
    fixed = 2 * shared_mb
    if fixed >= memory_mb:
        return "none is enough"
    count = max(1, math.ceil((peak_mb - fixed) / (memory_mb - fixed)))
    return f"{1 if count == 1 else 2 ** math.ceil(math.log2(count)):,}"


def limits_section(results: dict[str, Any]) -> str:
    """Where each resource gives out: the most labels, with as many documents of 8 words."""
    conditions: dict[str, Callable[[Model], Callable[[Size], bool]]] = {
        "16 GB of memory, one machine": lambda m: lambda size: m.at("peak_mb", size) <= 16_000,
        "64 GB of memory, one machine": lambda m: lambda size: m.at("peak_mb", size) <= 64_000,
        "512 GB of memory, one machine": lambda m: lambda size: m.at("peak_mb", size) <= 512_000,
        "an hour of 2 cores": lambda m: lambda size: m.at("core_s", size) <= 2 * 3600,
        "a day of 2 cores": lambda m: lambda size: m.at("core_s", size) <= 2 * 86_400,
        "a day of 64 cores": lambda m: lambda size: m.at("core_s", size) <= 64 * 86_400,
        "1 TB of disk for the model": lambda m: lambda size: m.at("model_mb", size) <= 1e6,
        "the corpus in half of 64 GB, so that shards help": lambda m: lambda size: m.at("shared_mb", size) <= 16_000,
        "an hour of 1 Gbit/s per machine": lambda m: lambda size: m.at("shared_mb", size) * 1e6 / NETWORK <= 3600,
    }
    found = models(results)
    lines = [f"| what gives out | {' | '.join(model.learner for model in found)} |", "|---|" + "--:|" * len(found)]
    for name, condition in conditions.items():
        cells = [f"{_million(model.largest(condition(model)))}" for model in found]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines.append(
        f"| numbers of labels, documents and words are 32-bit | {' | '.join(['2,147 million'] * len(found))} |"
    )
    return "\n".join(lines)


def _million(labels: float) -> str:
    return f"{labels / 1e6:,.1f} million" if labels < 1e8 else f"{labels / 1e6:,.0f} million"
