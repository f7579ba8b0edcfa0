"""Decoupled: one learner for the head labels and one for the tail labels (Taug's first half).

The tail learner sees only documents that have a tail label, so it cannot tell that a document has none. `gate` adds
what the paper's merge lacks: a separator that tells documents with tail labels from the others, as in
P(l) = P(tail) P(l | tail); tail scores are multiplied by its score to the power of `gate`.

The paper writes D_h and D_t with "for all j": read here as "for some j". A document with head and tail labels is in
both; each learner sees only the labels of its own side.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from longtail.augment.base import LabelVectors
from longtail.capabilities import Capabilities, common
from longtail.corpus import Corpus
from longtail.engines.local import thread_map
from longtail.errors import UsageError
from longtail.fit import Fit
from longtail.learners.base import Learner
from longtail.learners.linear.one_vs_all import OneVsAll
from longtail.part import Arrays, option, prefixed, under
from longtail.plan import Sizes, Stage, holding, named, side_by_side
from longtail.registry import build
from longtail.run import Run
from longtail.scores import Scores
from longtail.sparse import rows_of_pairs

#: The two sides, by the names their models are kept under.
SIDES = ("head", "tail")


@dataclass(kw_only=True)
class Decoupled(Learner):
    """Scores of the two sides are sorted together: both are probability-like, and their labels are disjoint."""

    learner: Any = option("bonsai", "the learner of both sides")
    tail: Any = option(None, "another learner for the tail side, if any")
    tau: float = option(0.1, "share of labels that form the head (paper: 0.1 EUR-Lex, 0.01 larger sets)", low=0, high=1)
    head_above: int | None = option(None, "instead of tau: labels with more documents form the head (N_t)", low=0)
    gate: float = option(
        0.1, "power of the score that a document has any tail label (measured; 0: the paper's merge)", low=0, high=10
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.learner = build(self.learner, "learner", "wrapper")
        self.tail = None if self.tail is None else build(self.tail, "learner", "wrapper")

    @property
    def capabilities(self) -> Capabilities:
        can = common(side.capabilities for side in self._sides())
        # the gate is a linear separator
        return replace(can, needs=tuple(dict.fromkeys((*can.needs, "X")))) if self.gate else can

    def _sides(self) -> list[Learner]:
        return [self.learner, self.tail or self.learner]

    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        # the counts of the data as given, where they are known: rows an augmenter added do not make a label frequent
        labels = corpus.labels if corpus.labels.documents else corpus.counted().labels
        head = labels.head_by_share(self.tau) if self.head_above is None else labels.head_by_count(self.head_above)
        self.columns_ = [np.flatnonzero(head), np.flatnonzero(~head)]
        for side, columns in zip(SIDES, self.columns_, strict=True):
            if not labels.frequency[columns].any():
                raise UsageError(
                    f"decoupled: the {side} has no labels with documents out of {len(labels)}; change tau or head_above"
                )
        self.members_ = [side.unfitted() for side in self._sides()]
        self._on_both_sides(corpus, fit, lambda member, part, own: own.train(member, part))
        self.gate_ = None
        if self.gate:
            gated = _with_tail_or_not(corpus, self.columns_[1])
            self.gate_ = OneVsAll(eps=0.1).learn(gated, fit.with_valid(None).child("gate"))
        self.n_labels_ = corpus.n_labels
        self.n_features_ = _width([*self.members_, *([self.gate_] if self.gate_ else [])])
        return self

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """Both sides at the same time where that is done, each with its own documents and their features."""
        tail = sizes.tail(self.tau) if self.head_above is None else sizes.frequency <= self.head_above
        sides = []
        for side, own in zip(self._sides(), (~tail, tail), strict=True):
            part = sizes.part(sizes.documents_with(own), sizes.frequency[own])
            part = side.readable_sizes(replace(part, copies=part.copies if own is tail else 0))
            room = part.X_bytes + 12 * part.pairs
            sides.append(holding("documents", room, side.plan(part, run)))
        together = run.tasks > 1 and all(side.capabilities.side_by_side for side in self._sides())
        both = [side_by_side("head and tail", *sides)]
        if not together:
            both = [stage for name, side in zip(SIDES, sides, strict=True) for stage in named(name, side)]
        one = sizes.part(sizes.documents, np.array([sizes.documents_with(tail)]))
        return [*both, *named("gate", OneVsAll(eps=0.1).plan(one, run))] if self.gate else both

    def retune(self, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None) -> Self:
        if vectors is not None:
            raise UsageError("'decoupled' has two classifiers, and takes no vectors for one")
        self._on_both_sides(corpus, fit, lambda member, part, own: member.retune(part, own))
        return self

    def _on_both_sides(self, corpus: Corpus, fit: Fit, work: Callable[[Learner, Corpus, Fit], Any]) -> None:
        """Work on each side with its own labels and documents: side by side, what one leaves idle the other takes."""

        def one(side: int) -> Run:
            columns, member = self.columns_[side], self.members_[side]
            # noisy copies are for the tail: the head has examples enough
            part = (corpus if side else replace(corpus, noise=None)).columns(columns)
            strength = np.bincount(rows_of_pairs(part.Y), weights=part.weighted_targets(), minlength=len(part))
            part = member.readable(part.rows(np.flatnonzero(strength > 0)))
            # times taken side by side must not be added up
            own = fit.child(SIDES[side]).apart().with_valid(fit.valid and fit.valid.columns(columns))
            work(member, part, own)
            return own.run

        start = time.perf_counter()
        together = all(side.capabilities.side_by_side for side in self._sides())
        runs = thread_map(one, range(2), workers=min(2, fit.run.tasks) if together else 1)
        _add_wall_time(fit.run, runs, time.perf_counter() - start)

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        k = min(k, self.n_labels_)
        ids, values = [], []
        for member, columns in zip(self.members_, self.columns_, strict=True):
            scores = member.score(corpus, k, run=run)
            ids.append(np.where(scores.ids < 0, -1, columns[scores.ids]).astype(np.int32))
            values.append(scores.values)
        if self.gate_ is not None:
            opened = self.gate_.score(corpus, 1, run=run).values[:, :1]  # 0 where nothing speaks for a tail label
            values[1] = (values[1] * opened**self.gate).astype(np.float32)
        return Scores(np.hstack(ids), np.hstack(values)).sorted().top(k)

    def convert_weights(self, weights: str) -> bool:
        parts = [*self._sides(), *self.members_, *([self.gate_] if self.gate_ else [])]
        return sum(part.convert_weights(weights) for part in parts) > 0

    def state(self) -> dict[str, NDArray[Any]]:
        state: dict[str, NDArray[Any]] = {"head": self.columns_[0], "tail": self.columns_[1]}
        for name, member in zip(("head-model", "tail-model"), self.members_, strict=True):
            state |= prefixed(name, member.state())
        return state | ({} if self.gate_ is None else prefixed("gate", self.gate_.state()))

    def restore(self, arrays: Arrays) -> None:
        self.columns_ = [np.asarray(arrays[side]) for side in ("head", "tail")]
        both = np.sort(np.concatenate(self.columns_))
        if both.dtype != np.int64 or not np.array_equal(both, np.arange(len(both))):
            raise ValueError("head and tail labels must make up all labels")
        self.n_labels_ = len(both)
        self.members_ = []
        for name, side, columns in zip(("head-model", "tail-model"), self._sides(), self.columns_, strict=True):
            member = side.unfitted()
            member.restore(under(name, arrays))
            if member.n_labels_ != len(columns):
                raise ValueError(f"the {name} has {member.n_labels_} labels, not {len(columns)}")
            self.members_.append(member)
        self.gate_ = None
        if self.gate:
            self.gate_ = OneVsAll()
            self.gate_.restore(under("gate", arrays))
            if self.gate_.n_labels_ != 1:
                raise ValueError("the gate must have one label")
        self.n_features_ = _width([*self.members_, *([self.gate_] if self.gate_ else [])])


def _add_wall_time(run: Run, sides: Sequence[Run], spent: float) -> None:
    """The stages of runs that went on at the same time, scaled so that they sum up to the time that passed."""
    total = sum(sum(side.seconds.values()) for side in sides)
    for side in sides:
        for name, seconds in side.seconds.items():
            run.seconds[name] = run.seconds.get(name, 0.0) + seconds * min(1.0, spent / max(total, 1e-9))


def _with_tail_or_not(corpus: Corpus, tail: NDArray[np.integer]) -> Corpus:
    """The documents with one label: whether they have any label of the tail; masked where that is not known."""
    group = np.full(corpus.n_labels, -1, dtype=np.int32)
    group[tail] = 0
    grouped = replace(corpus, noise=None).by_group(group)
    Y = grouped.Y.copy()
    Y.data[:] = 1
    return replace(grouped, Y=Y)


def _width(members: Sequence[Learner]) -> int | None:
    """Features of the two sides, which must agree; None where neither reads any."""
    widths = {member.n_features_ for member in members} - {None}
    if len(widths) > 1:
        raise ValueError(f"the two sides differ in their features: {sorted(w for w in widths if w)}")
    return widths.pop() if widths else None
