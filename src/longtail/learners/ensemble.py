"""Ensemble: several learners on the same corpus, their scores brought to one scale and averaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from longtail.augment.base import LabelVectors
from longtail.capabilities import Capabilities, common
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.fit import Fit
from longtail.learners.base import Learner
from longtail.part import Arrays, option, prefixed, under
from longtail.plan import Sizes, Stage, named
from longtail.registry import build, name_of
from longtail.run import Run
from longtail.scores import Scores

#: How many labels of each member enter the average: a label may rank low in one member and high in another.
SHORTLIST = 100


@dataclass(kw_only=True)
class Ensemble(Learner):
    """A label that a member does not list counts 0 there."""

    members: list[Any] = option(["parabel", "bonsai"], "the learners, as names or with options of their own")
    weights: list[float] | None = option(None, "weight of each member; equal if not given")
    scale: str = option(
        "max",
        "max: each member's best label of a document scores 1; root: square roots of those, which favour labels that "
        "several members find; none: as they are",
        choices=("max", "root", "none"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.members, list) or not self.members:
            raise UsageError("ensemble.members must be a list of at least one learner")
        made = [build(member, "learner", "wrapper") for member in self.members]
        if made != self.members:  # a list of parts stays the very list given
            self.members = made
        if self.weights is not None and (len(self.weights) != len(self.members) or min(self.weights) < 0
                                         or sum(self.weights) <= 0):  # fmt: skip
            raise UsageError(f"ensemble.weights must be {len(self.members)} numbers from 0 up, not all 0")

    @property
    def capabilities(self) -> Capabilities:
        return common(member.capabilities for member in self.members)

    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        for number, member in enumerate(self.members):
            self._child(fit, number).train(member, member.readable(corpus))
        self.n_labels_, self.n_features_ = sizes(self.members)
        return self

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """One member after the other, each beside those that are done."""
        return [
            stage
            for number, member in enumerate(self.members)
            for stage in named(self._title(number), member.plan(member.readable_sizes(sizes), run))
        ]

    def _title(self, number: int) -> str:
        return f"{number + 1} {name_of(self.members[number])}"

    def _child(self, fit: Fit, number: int) -> Fit:
        return fit.child(f"member/{number}", self._title(number))

    def retune(self, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None) -> Self:
        for number, member in enumerate(self.members):
            member.retune(member.readable(corpus), self._child(fit, number), vectors)
        return self

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        k = min(k, self.n_labels_)
        depth = SHORTLIST
        found = self._averaged(corpus, depth, run)
        while depth < k:  # in steps that do not depend on k, so that the first of any longer list are the same
            depth *= 2
            found = found.followed_by(self._averaged(corpus, depth, run))
        return found.top(k)

    def _averaged(self, corpus: Corpus, depth: int, run: Run | None) -> Scores:
        """The best labels by the average over the members' lists, each of this many labels."""
        weights = np.ones(len(self.members)) if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        total: Any = None
        for member, weight in zip(self.members, weights / weights.sum(), strict=True):
            scores = member.score(corpus, depth, run=run)
            values = scores.values
            if self.scale != "none":
                values = values / np.maximum(values.max(axis=1, keepdims=True, initial=0), np.float32(1e-30))
            if self.scale == "root":
                values = np.sqrt(values)
            matrix = Scores(scores.ids, (values * weight).astype(np.float32)).to_csr(self.n_labels_)
            total = matrix if total is None else total + matrix
        total.data = np.minimum(total.data, np.float32(1))
        return Scores.from_csr(total, depth)

    def acted(self) -> dict[str, Any]:
        """What the parts of its members did; what several say alike is said once, what differs by member."""
        said: dict[str, Any] = {}
        for number, member in enumerate(self.members):
            for name, found in member.acted().items():
                for key, value in (found if isinstance(found, dict) else {name: found}).items():
                    said[key if said.get(key, value) == value else f"{key} of {self._title(number)}"] = value
        return said

    def convert_weights(self, weights: str) -> bool:
        return sum(member.convert_weights(weights) for member in self.members) > 0

    def state(self) -> dict[str, NDArray[Any]]:
        state: dict[str, NDArray[Any]] = {}
        for number, member in enumerate(self.members):
            state |= prefixed(f"member{number}", member.state())
        return state

    def restore(self, arrays: Arrays) -> None:
        names = {f"member{number}" for number in range(len(self.members))}
        if {name.partition(".")[0] for name in arrays} != names:
            raise ValueError(f"{len(names)} members expected")
        for number, member in enumerate(self.members):
            member.restore(under(f"member{number}", arrays))
        self.n_labels_, self.n_features_ = sizes(self.members)


def sizes(members: list[Any]) -> tuple[int, int | None]:
    """Labels and features of members that share both; features are None where no member reads any."""
    labels = {member.n_labels_ for member in members}
    features = {member.n_features_ for member in members} - {None}
    if len(labels) != 1 or len(features) > 1:
        raise ValueError(f"members differ: {sorted(labels)} labels, {sorted(features)} features")
    return labels.pop(), features.pop() if features else None
