"""Figures over labels instead of documents: coverage, macro averages, and each of them by frequency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.evaluate.metrics import Counts
from longtail.labels import Band, LabelIndex


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """Per-label counts over the counted documents; row j of the two-dimensional ones is for the cut-off ks[j]."""

    ks: tuple[int, ...]
    true: NDArray[np.int64]  # (L,)
    hits: NDArray[np.int64]  # (c, L)
    predicted: NDArray[np.int64]  # (c, L)

    @classmethod
    def of(cls, counts: Counts) -> LabelCounts:
        return cls(counts.ks, counts.label_true, counts.label_hits, counts.label_predicted)

    def figures(self, members: NDArray[np.bool_] | NDArray[np.integer] | None = None) -> dict[str, float]:
        """Coverage and macro averages over some labels (all by default), as shares; nan where nothing can be counted.

        coverage@k       labels predicted for some document, of all labels
        coverage_true@k  labels predicted for some document, of those true somewhere in the test documents
        found@k          labels predicted rightly for some document, of those true somewhere
        macro_P@k        mean over labels true somewhere of hits / predictions; 0 for one never predicted
        macro_R@k        mean over labels true somewhere of hits / true documents
        """
        chosen = slice(None) if members is None else members
        true = self.true[chosen]
        occurs = true > 0
        figures: dict[str, float] = {}
        for j, k in enumerate(self.ks):
            hits, predicted = self.hits[j, chosen], self.predicted[j, chosen]
            figures[f"coverage@{k}"] = mean(predicted > 0)
            figures[f"coverage_true@{k}"] = mean(predicted[occurs] > 0)
            figures[f"found@{k}"] = mean(hits[occurs] > 0)
            figures[f"macro_P@{k}"] = mean(hits[occurs] / np.maximum(predicted[occurs], 1))
            figures[f"macro_R@{k}"] = mean(hits[occurs] / true[occurs])
        return figures


def mean(values: NDArray[Any]) -> float:
    """The mean, nan for no values."""
    return float(values.mean()) if len(values) else float("nan")


@dataclass(frozen=True)
class BandReport:
    """One frequency band.

    labels       labels in the band, seen in the test documents or not
    labels_true  labels of the band true for some test document
    documents    counted documents with a true label of the band
    pairs        true (document, label) pairs of the band
    figures      name -> percentage, nan where nothing can be counted
    intervals    name -> (low, high), for the names that were resampled
    """

    name: str
    counts: str
    labels: int
    labels_true: int
    documents: int
    pairs: int
    figures: dict[str, float]
    intervals: dict[str, tuple[float, float]]


def band_report(
    band: Band, number: int, counts: Counts, per_label: LabelCounts, intervals: dict[str, tuple[float, float]]
) -> BandReport:
    """All figures of a band, in per cent. `number` is its place on the band axis of the counts.

    recall@k        true pairs of the band among the first k predictions, of its true pairs
    precision@k     true pairs of the band among the first k predictions, of the predictions that fall in the band
    contribution@k  the points of P@k that come from the band: they add up to P@k over all bands
    """
    n = len(counts.rows)
    true = counts.band_true[:, number]
    pairs = int(true.sum())
    figures: dict[str, float] = {}
    for j, k in enumerate(counts.ks):
        hits = int(counts.band_hits[:, number, j].sum())
        predicted = int(counts.band_predicted[:, number, j].sum())
        figures[f"recall@{k}"] = hits / pairs if pairs else float("nan")
        figures[f"precision@{k}"] = hits / predicted if predicted else float("nan")
        figures[f"contribution@{k}"] = hits / (n * k)
    figures |= per_label.figures(band.members)
    return BandReport(
        name=band.name,
        counts=band.range,
        labels=int(band.members.sum()),
        labels_true=int((per_label.true[band.members] > 0).sum()),
        documents=int((true > 0).sum()),
        pairs=pairs,
        figures={name: 100 * value for name, value in figures.items()},
        intervals=intervals,
    )


def frequency_bins(per_label: LabelCounts, labels: LabelIndex, size: int) -> list[dict[str, Any]]:
    """Bins of `size` labels from the most to the least frequent (LSFA's figure 1b), figures in per cent.

    The last bin holds what is left over. Ties of frequency are by column.
    """
    order = labels.by_frequency()
    bins = []
    for number, start in enumerate(range(0, len(order), size)):
        members = order[start : start + size]
        frequency = labels.frequency[members]
        bins.append(
            {
                "bin": number,
                "most": int(frequency[0]),
                "least": int(frequency[-1]),
                "labels": len(members),
                "labels_true": int((per_label.true[members] > 0).sum()),
                **{name: 100 * value for name, value in per_label.figures(members).items()},
            }
        )
    return bins
