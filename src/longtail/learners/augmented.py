"""Augmented: a learner with augmenters of its own, so that an ensemble can hold a plain and an augmented one.

With `features` it makes features of its own from the texts it was given, and then augmenters that rewrite texts have
their place here, too. Without, they come too late, for features are made before: they belong to the tagger.
"""

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
from longtail.part import Arrays, Part, option, prefixed, under
from longtail.registry import build, name_of
from longtail.run import Run
from longtail.scores import Scores


@dataclass(kw_only=True)
class Augmented(Learner):
    learner: Any = option("attentionxml", "the learner")
    augment: list[Any] = option(["tailmix"], "its augmenters, in spaces that the learner opens")

    features: Any = option(None, "features made here, after augmenters that rewrite texts, or none: as given")

    draws_noise = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.learner = build(self.learner, "learner", "wrapper")
        if not isinstance(self.augment, list):
            raise UsageError("augmented.augment must be a list of augmenters")
        if not all(isinstance(part, Part) for part in self.augment):
            self.augment = [build(part, "augmenter") for part in self.augment]
        if self.features is not None:
            self.features = build(self.features, "features")
        for part in self.augment:
            early = part.space == "texts" and self.features is None and "X" in self.learner.needs
            if early or part.space not in self.learner.spaces:
                raise UsageError(f"'{name_of(part)}' does not fit '{name_of(self.learner)}' inside 'augmented'")

    def set_params(self, **params: Any) -> Self:
        super().set_params(**params)
        self.__post_init__()
        return self

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("texts",) if self.features is not None else tuple(self.learner.needs)

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
        corpus = self._rewritten(corpus, "texts", run)
        if self.features is not None:
            with run.stage("features"):
                corpus = replace(corpus, X=self.features.fit_transform(_texts(corpus), run=run))
            valid = valid and self._with_features(valid, run)
        corpus = self._rewritten(corpus, "features", run)
        extra: dict[str, Any] = {"hooks": inside} if inside else {}
        self.learner.fit(prepared(corpus, self.learner), valid=valid, run=run, **extra)
        self._take_sizes()
        return self

    def _rewritten(self, corpus: Corpus, space: str, run: Run) -> Corpus:
        for part in self.augment:
            if part.space == space:
                corpus = replace(part.apply(corpus, run), labels=corpus.labels)
        return corpus

    def _with_features(self, corpus: Corpus, run: Run | None) -> Corpus:
        return replace(corpus, X=self.features.transform(_texts(corpus), run=run))

    def _take_sizes(self) -> None:
        self.n_labels_ = self.learner.n_labels_
        # columns of features made here are nobody else's business
        self.n_features_ = None if self.features is not None else self.learner.n_features_

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        if self.features is not None:
            corpus = self._with_features(corpus, run)
        found: Scores = self.learner.score(corpus, k, run=run)
        return found

    def state(self) -> dict[str, NDArray[Any]]:
        kept: dict[str, NDArray[Any]] = self.learner.state()
        if self.features is None:
            return kept
        return prefixed("learner", kept) | prefixed("features", self.features.state())

    def restore(self, arrays: Arrays) -> None:
        if self.features is None:
            self.learner.restore(arrays)
        else:
            if {name.partition(".")[0] for name in arrays} != {"learner", "features"}:
                raise ValueError("a learner and its features expected")
            self.features.restore(under("features", arrays))
            self.learner.restore(under("learner", arrays))
        self._take_sizes()


def _texts(corpus: Corpus) -> Sequence[str]:
    if corpus.texts is None:
        raise UsageError(f"{corpus.name} has no texts to make features of")
    return corpus.texts
