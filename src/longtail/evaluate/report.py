"""`evaluate`: from scores and truth to a report that a person and a program can read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from longtail.corpus import Corpus
from longtail.errors import InputError, UsageError, nearest
from longtail.evaluate.bands import BandReport, LabelCounts, band_report, frequency_bins
from longtail.evaluate.bootstrap import Randomness, intervals
from longtail.evaluate.metrics import PSNDCG, TRUE_FROM, Counts, Documents, count, document_metrics
from longtail.labels import BAND_EDGES, LabelIndex
from longtail.scores import Scores

if TYPE_CHECKING:
    from longtail.evaluate.unseen import Unseen

#: Metrics of the first table, in reading order.
RANKED = ("P", "nDCG", "PSP", "PSnDCG", "R", "RP")


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What was measured. Figures are percentages; nan (null in `to_dict`) marks one that nothing could be counted for.

    values        "P@1" -> 90.7, for every metric and k
    bands         the same by training frequency of the labels, rare first
    intervals     "P@1" -> (low, high), when a bootstrap was asked for
    notes         sentences on what was left out and why
    per_document  parts of the metrics for each counted document: what `paired_difference` compares
    per_label     counts for each label
    unseen        test labels that training never saw, where the model's labels are known
    convention    what becomes of such labels here: "unseen_dropped" or "unseen_missed"
    conventions   the figures either way, where they differ
    """

    ks: tuple[int, ...]
    A: float
    B: float
    psndcg: str
    documents: int
    documents_without_labels: int
    values: dict[str, float]
    bands: list[BandReport]
    intervals: dict[str, tuple[float, float]]
    notes: list[str]
    labels: LabelIndex
    per_document: Documents
    per_label: LabelCounts
    confidence: float = 0.95
    unseen: Unseen | None = None
    convention: str = ""
    conventions: dict[str, dict[str, float]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        """A figure by name: report["PSP@5"]."""
        if name not in self.values:
            raise KeyError(f"no metric '{name}'; {nearest(name, self.values)}")
        return self.values[name]

    def to_dict(self) -> dict[str, Any]:
        """The object `evaluate --json` prints: plain values, percentages to four decimals, undefined ones null."""
        result: dict[str, Any] = {
            **_rounded(self.values),
            "documents": self.documents,
            "documents_without_labels": self.documents_without_labels,
            "labels": len(self.labels),
            "A": self.A,
            "B": self.B,
            "psndcg": self.psndcg,
            "bands": [self._band(band) for band in self.bands],
        }
        if self.intervals:
            result["confidence"] = self.confidence
            result["intervals"] = _rounded_pairs(self.intervals)
        if self.unseen is not None:
            result |= {"convention": self.convention, "unseen": asdict(self.unseen)}
        if self.conventions:
            result["conventions"] = {name: _rounded(figures) for name, figures in self.conventions.items()}
        result["notes"] = list(self.notes)
        return result

    def _band(self, band: BandReport) -> dict[str, Any]:
        result: dict[str, Any] = {
            "name": band.name,
            "counts": band.counts,
            "labels": band.labels,
            "labels_true": band.labels_true,
            "documents": band.documents,
            "pairs": band.pairs,
            **_rounded(band.figures),
        }
        if self.intervals:
            result["intervals"] = _rounded_pairs(band.intervals)
        return result

    def frequency_bins(self, size: int = 400) -> list[dict[str, Any]]:
        """Label figures (`macro_P@k` is LSFA's figure 1b) over bins of `size` labels, most frequent first."""
        if size < 1:
            raise UsageError(f"a bin must hold at least 1 label, not {size}")
        return [
            {name: _json_value(value) for name, value in row.items()}
            for row in frequency_bins(self.per_label, self.labels, size)
        ]

    def __repr__(self) -> str:
        """Two tables of plain text, for a prompt or a log."""
        lines = [] if self.unseen is None or not self.unseen.pairs else [self.unseen.sentence()]
        lines.append(f"{self.documents:,} documents, {len(self.labels):,} labels")
        lines.append(" " * 8 + "".join(f"{'@' + str(k):>8}" for k in self.ks))
        lines += [f"{name:8}" + "".join(_cell(self.values[f"{name}@{k}"]) for k in self.ks) for name in RANKED]
        lines.append(
            f"{'band':8}{'counts':>8}{'labels':>9}{'pairs':>9}" + "".join(f"{'recall@' + str(k):>11}" for k in self.ks)
        )
        for band in self.bands:
            recall = "".join(_cell(band.figures[f"recall@{k}"], 11) for k in self.ks)
            lines.append(f"{band.name:8}{band.counts:>8}{band.labels:>9,}{band.pairs:>9,}{recall}")
        lines.append(f"propensities A={self.A:g} B={self.B:g}, PSnDCG normalised by '{self.psndcg}'")
        return "\n".join([*lines, *self.notes])


class Options(TypedDict, total=False):
    """The options of `evaluate` as its callers give them; `Settings` says what each means."""

    ks: Sequence[int]
    A: float
    B: float
    edges: Sequence[int]
    psndcg: str
    bootstrap: int
    confidence: float
    rng: Randomness


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to measure.

    ks          cut-offs; a document with fewer than k predictions is wrong at the missing places
    A, B        the propensity model's parameters
    edges       band boundaries: the largest count of each frequency band but the last
    psndcg      normalisation of PSnDCG: "sum" (XMC repository, AttentionXML) or "mean" (pyxclib, napkinXC)
    bootstrap   resamples of the documents for the intervals, 0 for none
    confidence  of the intervals
    rng         generator or seed of the resampling, seed 0 by default
    """

    ks: Sequence[int] = (1, 3, 5)
    A: float = 0.55
    B: float = 1.5
    edges: Sequence[int] = BAND_EDGES
    psndcg: str = "sum"
    bootstrap: int = 0
    confidence: float = 0.95
    rng: Randomness = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ks", _checked_ks(self.ks))
        if self.psndcg not in PSNDCG:
            raise UsageError(f"unknown PSnDCG normalisation '{self.psndcg}'; {nearest(str(self.psndcg), PSNDCG)}")
        if not (math.isfinite(self.A) and math.isfinite(self.B) and self.A >= 0 and self.B > 0):
            raise UsageError(f"the propensity model needs A >= 0 and B > 0, not A={self.A} and B={self.B}")
        if self.bootstrap < 0:
            raise UsageError(f"the number of bootstrap resamples cannot be negative, as {self.bootstrap} is")
        if not 0 < self.confidence < 1:
            raise UsageError(f"confidence must lie between 0 and 1, not {self.confidence}")

    def intervals(self, documents: Documents) -> dict[str, tuple[float, float]]:
        """In per cent, by metric; those of bands are named as in "tail/recall@5". Empty without resamples."""
        if not self.bootstrap:
            return {}
        found = intervals(documents, resamples=self.bootstrap, confidence=self.confidence, rng=self.rng)
        return {name: (100 * low, 100 * high) for name, (low, high) in found.items()}


def evaluate(scores: Scores, corpus: Corpus, **options: Unpack[Options]) -> Report:
    """Every metric of the scores on a corpus whose labels carry the training counts.

    corpus   the test documents, aligned to the model's labels; a stored target of 0.5 or more counts as true
    options  ks, A, B, edges, psndcg, bootstrap, confidence, rng: see `Settings`
    """
    how = Settings(**options)
    ks, labels = tuple(how.ks), corpus.labels
    bands = labels.bands(how.edges)
    counts = count(scores, corpus, ks=ks, inverse_propensity=labels.inverse_propensity(how.A, how.B), bands=bands)
    n = len(counts.rows)
    if n == 0:
        raise InputError(
            corpus.name, f"none of the {len(corpus)} documents has a label that is known: nothing to measure"
        )
    documents = document_metrics(counts, bands, how.psndcg)
    per_label = LabelCounts.of(counts)
    drawn = how.intervals(documents)
    values = {f"{name}@{k}": 100 * documents.value(f"{name}@{k}") for name in RANKED for k in ks}
    values |= {name: 100 * value for name, value in per_label.figures().items()}
    return Report(
        ks=ks,
        A=how.A,
        B=how.B,
        psndcg=how.psndcg,
        documents=n,
        documents_without_labels=len(corpus) - n,
        values=values,
        bands=[
            band_report(band, number, counts, per_label, _intervals_of(band.name, drawn))
            for number, band in enumerate(bands)
        ],
        intervals={name: pair for name, pair in drawn.items() if "/" not in name},
        notes=_notes(counts, corpus),
        labels=labels,
        per_document=documents,
        per_label=per_label,
        confidence=how.confidence,
    )


def _intervals_of(band: str, drawn: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    prefix = f"{band}/"
    return {name.removeprefix(prefix): pair for name, pair in drawn.items() if name.startswith(prefix)}


def _checked_ks(ks: Sequence[int]) -> tuple[int, ...]:
    """The cut-offs, rising and each once."""
    for k in ks:
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise UsageError(f"k must be a whole number of at least 1, not {k!r}")
    if not len(ks):
        raise UsageError("at least one k is needed")
    return tuple(sorted({int(k) for k in ks}))


def _notes(counts: Counts, corpus: Corpus) -> list[str]:
    """What a reader of the figures has to know, one sentence each."""
    notes = []
    without = len(corpus) - len(counts.rows)
    if without:
        whole = _many(len(corpus), "document")
        notes.append(f"Not counted: {without:,} of {whole}, because they have no known label.")
    pairs = 0 if corpus.reciprocal is None else int(corpus.reciprocal.count_nonzero())
    if pairs:
        notes.append(f"Taken out of predictions and truth before ranking: {_many(pairs, 'reciprocal pair')}.")
    if corpus.pair_weight is not None and corpus.masked:
        masked = _many(int((corpus.pair_weight == 0).sum()), "masked pair")
        notes.append(f"Taken out of predictions and truth before ranking: {masked}.")
    k = counts.ks[-1]
    short = int((counts.returned < min(k, corpus.n_labels)).sum())
    if short:
        notes.append(f"Fewer than {k} predictions for {_many(short, 'document')}: the missing ones count as wrong.")
    weak = int((corpus.Y.data < TRUE_FROM).sum())
    if weak:
        notes.append(f"Not counted as true: {_many(weak, 'pair')} with a target below {TRUE_FROM}.")
    if corpus.labels.documents == 0:
        notes.append("The labels carry no training counts, so all propensities are 1.")
    else:
        unseen = counts.label_true[corpus.labels.frequency == 0]
        if unseen.any():
            labels = _many(int((unseen > 0).sum()), "label")
            notes.append(f"Counted though never seen in training: {_many(int(unseen.sum()), 'pair')} of {labels}.")
    return notes


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _json_value(value: Any) -> Any:
    """A JSON value: floats to four decimals, nan as null."""
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 4)
    return value


def _rounded(figures: dict[str, float]) -> dict[str, float | None]:
    return {name: _json_value(value) for name, value in figures.items()}


def _rounded_pairs(pairs: dict[str, tuple[float, float]]) -> dict[str, list[float | None]]:
    return {name: [_json_value(low), _json_value(high)] for name, (low, high) in pairs.items()}


def _cell(value: float, width: int = 8) -> str:
    return f"{'-':>{width}}" if math.isnan(value) else f"{value:>{width}.2f}"
