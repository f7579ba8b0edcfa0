"""The labels of a corpus: names, texts, training counts, and everything that follows from the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from longtail.errors import UsageError, nearest

#: (A, B) of the propensity model (Jain et al. 2016) for the families of data sets it was fitted on.
PROPENSITY_PRESETS: dict[str, tuple[float, float]] = {
    "default": (0.55, 1.5),
    "wikipedia": (0.5, 0.4),
    "amazon": (0.6, 2.6),
}

#: Band boundaries: the largest count of each frequency band but the last (tail 1-5, middle 6-20, head above).
BAND_EDGES = (5, 20)


@dataclass(frozen=True)
class Band:
    """The labels whose training count lies in [low, high]; `high` is None for the open end."""

    name: str
    low: int
    high: int | None
    members: NDArray[np.bool_]  # (L,)

    @property
    def range(self) -> str:
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, eq=False)
class LabelIndex:
    """Names of the L labels in column order, with texts and training counts.

    names      unique, non-empty
    texts      one text per label, or None when the labels have none; "" marks a single label without. The first line
               of a text is what the label is called; others say more about it, such as alternative names
    counts     int64 (L,), training documents that carry the label
    documents  training documents behind the counts (N of the propensity model)
    """

    names: Sequence[str]
    texts: Sequence[str] | None = None
    counts: NDArray[np.int64] | None = None
    documents: int = 0

    def __post_init__(self) -> None:
        if self.texts is not None and len(self.texts) != len(self.names):
            raise ValueError(f"{len(self.texts)} label texts for {len(self.names)} labels")
        if self.counts is None:
            object.__setattr__(self, "counts", np.zeros(len(self.names), dtype=np.int64))
        elif len(self.counts) != len(self.names):
            raise ValueError(f"{len(self.counts)} label counts for {len(self.names)} labels")

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Column of each name."""
        columns = {name: column for column, name in enumerate(self.names)}
        if len(columns) != len(self.names):
            raise ValueError(f"{len(self.names) - len(columns)} label names stand twice")
        return columns

    @property
    def frequency(self) -> NDArray[np.int64]:
        """Training count of each label, int64 (L,)."""
        assert self.counts is not None
        return self.counts

    def text(self, column: int) -> str:
        """The label's text, or its name when it has none."""
        given = self.texts[column] if self.texts is not None else ""
        return given or self.names[column]

    def title(self, column: int) -> str:
        """What people call the label: the first line of its text, or its name when it has none."""
        return self.text(column).partition("\n")[0]

    def with_counts(self, counts: NDArray[np.int64], documents: int) -> LabelIndex:
        return LabelIndex(self.names, self.texts, np.asarray(counts, dtype=np.int64), documents)

    def with_texts(self, texts: Mapping[str, str]) -> LabelIndex:
        """The same labels with other texts, by label name; labels that are not among them keep theirs.

        Names that no label has are left aside, for a vocabulary is often larger than what a model has learnt. Texts
        of which none belongs to a label are refused: they are of another vocabulary.
        """
        for name, text in texts.items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise UsageError(f"label texts go from label name to text; {name!r}: {text!r} does not")
        if not any(name in texts for name in self.names):
            given = "the names that texts are given for" if texts else "the empty list of label texts"
            raise UsageError(f"{given} and the {len(self):,} labels of the model have no name in common")
        before = self.texts or [""] * len(self)
        found = [texts.get(name, text) for name, text in zip(self.names, before, strict=True)]
        return LabelIndex(self.names, found, self.counts, self.documents)

    def take(self, columns: NDArray[np.integer]) -> LabelIndex:
        """The index of some of the labels, in the order given."""
        names = [self.names[c] for c in columns]
        texts = None if self.texts is None else [self.texts[c] for c in columns]
        return LabelIndex(names, texts, self.frequency[columns], self.documents)

    def inverse_propensity(self, A: float = 0.55, B: float = 1.5) -> NDArray[np.float64]:
        """q_l = 1/p_l = 1 + C (n_l + B)^-A with C = (ln N - 1)(B + 1)^A, natural logarithm; float64 (L,).

        N and n_l are counted on training data. For N < e the factor C would turn negative; it is held at 0. With B = 0
        a label without documents counts as one with a single document, whose propensity is still a number.
        """
        C = max(0.0, np.log(max(self.documents, 1)) - 1.0) * (B + 1.0) ** A
        count = self.frequency + B
        return 1.0 + C * np.where(count > 0, count, 1.0) ** -A

    def by_frequency(self) -> NDArray[np.int64]:
        """Columns from the most to the least frequent label, ties by column."""
        return np.lexsort((np.arange(len(self)), -self.frequency))

    def head_by_share(self, tau: float) -> NDArray[np.bool_]:
        """The floor(tau L) most frequent labels (RankNet/Taug's split), as a mask (L,)."""
        if not 0 < tau < 1:
            raise UsageError(f"tau must lie between 0 and 1, not {tau}")
        mask = np.zeros(len(self), dtype=bool)
        # 0.29 * 100 is a hair below 29 in binary; the floor is meant of the number as written
        mask[self.by_frequency()[: int(tau * len(self) + 1e-9)]] = True
        return mask

    def head_by_count(self, N_t: int) -> NDArray[np.bool_]:
        """Labels with more than N_t training documents (LSFA's and XDA's split), as a mask (L,)."""
        return self.frequency > N_t

    @property
    def tail_share(self) -> float:
        """Share of rare labels (1 to 5 training documents) among those that training documents have; 0 without any."""
        seen = self.frequency[self.frequency > 0]
        return float((seen <= BAND_EDGES[0]).mean()) if len(seen) else 0.0

    def bands(self, edges: Sequence[int] = BAND_EDGES) -> list[Band]:
        """Frequency bands from rare to frequent; labels never seen in training form a band of their own if any."""
        edges = list(edges)
        if edges != sorted(set(edges)) or (edges and edges[0] < 1):
            raise UsageError(f"band edges must be rising counts from 1, not {edges}")
        names = {1: ["tail", "head"], 2: ["tail", "middle", "head"]}.get(len(edges))
        bands = []
        if (self.frequency == 0).any():
            bands.append(Band("unseen", 0, 0, self.frequency == 0))
        low = 1
        for number, high in enumerate([*edges, None]):
            members = (self.frequency >= low) & (self.frequency <= (np.inf if high is None else high))
            name = names[number] if names else ""
            band = Band(name, low, high, members)
            bands.append(band if name else Band(band.range, low, high, members))
            low = (high or 0) + 1
        return bands


def propensity_parameters(
    preset: str = "default", A: float | None = None, B: float | None = None
) -> tuple[float, float]:
    """A and B of a named preset, either of which may be given instead."""
    if preset not in PROPENSITY_PRESETS:
        raise UsageError(f"unknown propensity preset '{preset}'; {nearest(preset, PROPENSITY_PRESETS)}")
    preset_A, preset_B = PROPENSITY_PRESETS[preset]
    return (preset_A if A is None else A, preset_B if B is None else B)
