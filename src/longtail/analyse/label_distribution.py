"""Examples per label before and after texts were added: figure 1 of XDA's paper.

before        the documents
sample level  and the added texts as examples of all their labels: frequent labels grow most
pair level    and the added texts as examples of the labels that are not masked: rare labels grow
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from longtail.analyse.drawing import line_style, new_figure, plain_table, plain_ticks, save_figure
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.sparse import rows_of_pairs

if TYPE_CHECKING:
    from rich.table import Table

LEVELS = ("before", "sample level", "pair level")


@dataclass(frozen=True, eq=False)
class Distribution:
    """counts  int64 (L,) of each level: examples of every label"""

    corpus: Corpus
    counts: dict[str, NDArray[np.int64]]

    @classmethod
    def of(cls, corpus: Corpus) -> Distribution:
        if corpus.made is None or not corpus.made.any():
            raise UsageError(f"{corpus.name} holds documents only; give the file of longtail augment xda beside them")
        made = corpus.made[rows_of_pairs(corpus.Y)]
        counts_it = np.ones(corpus.Y.nnz, dtype=bool) if corpus.pair_weight is None else corpus.pair_weight > 0
        chosen = {"before": ~made & counts_it, "sample level": made | counts_it, "pair level": counts_it}
        L = corpus.n_labels
        return cls(corpus, {name: np.bincount(corpus.Y.indices[own], minlength=L) for name, own in chosen.items()})

    def to_dict(self) -> dict[str, Any]:
        """Plain values: for every band of labels, by their documents, what each level gives them."""
        bands = [band for band in self.corpus.labels.bands() if band.low and band.members.any()]
        totals = {name: max(1, int(counts.sum())) for name, counts in self.counts.items()}
        return {
            "documents": len(self.corpus.documents),
            "added": len(self.corpus) - len(self.corpus.documents),
            "bands": [
                {
                    "band": band.name,
                    "documents": band.range,
                    "labels": int(band.members.sum()),
                    **{
                        name: {
                            "examples": int(counts[band.members].sum()),
                            "share": round(float(counts[band.members].sum()) / totals[name], 4),
                            "per_label": round(float(counts[band.members].mean()), 2),
                        }
                        for name, counts in self.counts.items()
                    },
                }
                for band in bands
            ],
        }


def distribution_table(found: dict[str, Any]) -> Table:
    """Examples per label, and the share of all examples, by band."""
    table = plain_table("labels", "documents", "count", *(f"{name}: per label, share" for name in LEVELS), left=2)
    for band in found["bands"]:
        cells = [f"{band[name]['per_label']:,.1f}  {100 * band[name]['share']:>3.0f} %" for name in LEVELS]
        table.add_row(band["band"], band["documents"], f"{band['labels']:,}", *cells)
    return table


def distribution_png(found: Distribution, path: Path, *, overwrite: bool) -> None:
    """Labels from frequent to rare, and the examples that each has at the three levels."""
    order = np.argsort(-found.counts["before"], kind="stable")
    figure = new_figure(7.2, 4.2)
    axes = figure.add_subplot()
    ranks = np.arange(1, len(order) + 1)
    for number, name in enumerate(("sample level", "pair level", "before")):
        style = line_style(number) | {"marker": "", "linewidth": 1.2}
        axes.plot(ranks, _smoothed(found.counts[name][order]), label=name, **style)
    axes.set(xscale="log", yscale="log", xlabel="label, most frequent first", ylabel="examples")
    plain_ticks(axes.xaxis)
    plain_ticks(axes.yaxis)
    axes.legend(frameon=False)
    save_figure(figure, path, overwrite)


def _smoothed(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Means over ranks within a twentieth: labels that were equally frequent are no longer so afterwards."""
    ranks = np.arange(len(counts))
    low, high = np.floor(ranks * 0.95).astype(np.int64), np.minimum(np.ceil(ranks * 1.05) + 1, len(counts)).astype(int)
    sums = np.concatenate([[0], np.cumsum(counts)])
    return np.maximum((sums[high] - sums[low]) / (high - low), 0.5)
