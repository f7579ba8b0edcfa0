"""Decoupled: one learner for the head labels and one for the tail labels (Taug's first half).

The tail learner sees only documents that have a tail label, so it cannot tell that a document has none. `gate` adds
what the paper's merge lacks: a separator that tells documents with tail labels from the others, as in
P(l) = P(tail) P(l | tail); tail scores are multiplied by its score to the power of `gate`.

The paper writes D_h and D_t with "for all j": read here as "for some j". A document with head and tail labels is in
both; each learner sees only the labels of its own side.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.augment.base import Augmenter
from longtail.augment.noise import prepared
from longtail.corpus import Corpus
from longtail.engines.local import thread_map
from longtail.errors import UsageError
from longtail.labels import LabelIndex
from longtail.learners.base import Learner
from longtail.learners.linear.one_vs_all import OneVsAll
from longtail.part import Arrays, option, prefixed, under
from longtail.registry import build
from longtail.run import Run
from longtail.scores import Scores


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

    draws_noise = True

    @property
    def threads_apart(self) -> bool:  # type: ignore[override]
        return all(side.threads_apart for side in self._sides())

    def __post_init__(self) -> None:
        super().__post_init__()
        self.learner = build(self.learner, "learner", "wrapper")
        self.tail = None if self.tail is None else build(self.tail, "learner", "wrapper")

    def set_params(self, **params: Any) -> Self:
        super().set_params(**params)
        self.__post_init__()
        return self

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        # the gate is a linear separator
        return tuple(dict.fromkeys((*_union(self._sides(), "needs"), *(["X"] if self.gate else []))))

    @property
    def spaces(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(s for s in self.learner.spaces if self.tail is None or s in self.tail.spaces)

    def _sides(self) -> list[Learner]:
        return [self.learner, self.tail or self.learner]

    def fit(
        self, corpus: Corpus, *, valid: Corpus | None = None, run: Run | None = None, hooks: Sequence[Augmenter] = ()
    ) -> Self:
        run = run or Run()
        extra: dict[str, Any] = {"hooks": hooks} if hooks else {}  # both sides open their spaces
        # the counts of the data as given, where they are known: rows an augmenter added do not make a label frequent
        labels = corpus.labels if corpus.labels.documents else corpus.counted().labels
        head = labels.head_by_share(self.tau) if self.head_above is None else labels.head_by_count(self.head_above)
        self.columns_ = [np.flatnonzero(head), np.flatnonzero(~head)]
        if any(len(columns) == 0 for columns in self.columns_):
            side = "head" if len(self.columns_[0]) == 0 else "tail"
            raise UsageError(f"decoupled: the {side} has no labels out of {len(labels)}; change tau or head_above")
        # noisy copies are for the tail: the head has examples enough
        sides = (replace(corpus, noise=None), corpus)
        given = list(zip(sides, self._sides(), self.columns_, strict=True))

        def fitted(side: tuple[Corpus, Learner, NDArray[np.int64]]) -> tuple[Learner, Run]:
            corpus_given, member_config, columns = side
            part = corpus_given.columns(columns)
            strength = np.bincount(_row_of(part), weights=part.weighted_targets(), minlength=len(part))
            member = member_config.unfitted()
            part = prepared(part.rows(np.flatnonzero(strength > 0)), member)
            # a run of its own: times taken side by side must not be added up
            own = Run(run.seed, run.threads, run.progress, checkpoints=run.checkpoints)
            return member.fit(part, valid=valid and valid.columns(columns), run=own, **extra), own

        # side by side, each on all cores: what one leaves idle at its end the other takes
        start = time.perf_counter()
        together = all(side.threads_apart for side in self._sides())
        fits = thread_map(fitted, given, workers=min(2, run.workers) if together else 1)
        _add_wall_time(run, [own for _, own in fits], time.perf_counter() - start)
        self.members_ = [member for member, _ in fits]
        self.gate_ = OneVsAll(eps=0.1).fit(_with_tail_or_not(corpus, self.columns_[1]), run=run) if self.gate else None
        self.n_labels_ = corpus.n_labels
        self.n_features_ = _width([*self.members_, *([self.gate_] if self.gate_ else [])])
        return self

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
    """The documents with one label: whether they have any label of the tail."""
    part = corpus.columns(tail)
    strength = np.bincount(_row_of(part), weights=part.weighted_targets(), minlength=len(part))
    Y = sp.csr_matrix((strength > 0).astype(np.float32)[:, None])
    return Corpus(labels=LabelIndex(["tail"]), Y=Y, X=corpus.features, name=corpus.name)


def _width(members: Sequence[Learner]) -> int | None:
    """Features of the two sides, which must agree; None where neither reads any."""
    widths = {member.n_features_ for member in members} - {None}
    if len(widths) > 1:
        raise ValueError(f"the two sides differ in their features: {sorted(w for w in widths if w)}")
    return widths.pop() if widths else None


def _union(parts: list[Learner], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for part in parts for value in getattr(part, name)))


def _row_of(corpus: Corpus) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(corpus)), np.diff(corpus.Y.indptr))
