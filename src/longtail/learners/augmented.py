"""Augmented: a learner with augmenters of its own, so that an ensemble can hold a plain and an augmented one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from numpy.typing import NDArray

from longtail.augment.base import CORPUS_SPACES, Augmenter
from longtail.augment.noise import prepared
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.learners.base import Learner
from longtail.part import Arrays, Part, option
from longtail.registry import build, name_of
from longtail.run import Run
from longtail.scores import Scores


@dataclass(kw_only=True)
class Augmented(Learner):
    """Augmenters that rewrite texts come too late here, for features are made before: they belong to the tagger."""

    learner: Any = option("attentionxml", "the learner")
    augment: list[Any] = option(["tailmix"], "its augmenters, in spaces that the learner opens")

    draws_noise = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.learner = build(self.learner, "learner", "wrapper")
        if not isinstance(self.augment, list):
            raise UsageError("augmented.augment must be a list of augmenters")
        if not all(isinstance(part, Part) for part in self.augment):
            self.augment = [build(part, "augmenter") for part in self.augment]
        for part in self.augment:
            if part.space == "texts" or part.space not in self.learner.spaces:
                raise UsageError(f"'{name_of(part)}' does not fit '{name_of(self.learner)}' inside 'augmented'")

    def set_params(self, **params: Any) -> Self:
        super().set_params(**params)
        self.__post_init__()
        return self

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.learner.needs)

    @property
    def spaces(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.learner.spaces)

    @property
    def threads_apart(self) -> bool:  # type: ignore[override]
        return bool(self.learner.threads_apart)

    def fit(
        self, corpus: Corpus, *, valid: Corpus | None = None, run: Run | None = None, hooks: Sequence[Augmenter] = ()
    ) -> Self:
        run = run or Run()
        inside = [*hooks, *(part for part in self.augment if part.space not in CORPUS_SPACES)]
        for part in self.augment:
            if part.space in CORPUS_SPACES:
                corpus = replace(part.apply(corpus, run), labels=corpus.labels)
        extra: dict[str, Any] = {"hooks": inside} if inside else {}
        self.learner.fit(prepared(corpus, self.learner), valid=valid, run=run, **extra)
        self.n_labels_, self.n_features_ = self.learner.n_labels_, self.learner.n_features_
        return self

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        found: Scores = self.learner.score(corpus, k, run=run)
        return found

    def state(self) -> dict[str, NDArray[Any]]:
        kept: dict[str, NDArray[Any]] = self.learner.state()
        return kept

    def restore(self, arrays: Arrays) -> None:
        self.learner.restore(arrays)
        self.n_labels_, self.n_features_ = self.learner.n_labels_, self.learner.n_features_
