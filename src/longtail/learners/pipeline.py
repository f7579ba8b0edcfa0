"""Pipeline: augmenters, features, a learner and re-rankers as one learner, which may stand wherever a learner may.

texts ─ augmenters ─ features ─ augmenters ─ learner.learn            first stage
judges ask the fitted learner, and change rows, masks or vectors ─ learner.retune     second stage, if any asks
learner.score ─ re-rankers                                             prediction
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from longtail.augment.base import Augmenter, Judged, LabelVectors
from longtail.capabilities import CORPUS_SPACES, EITHER, SPACES, Capabilities, fits
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features.base import USUAL_FEATURES, Features
from longtail.fit import Fit
from longtail.learners import planning
from longtail.learners.base import Learner
from longtail.learners.folds import out_of_fold
from longtail.learners.parts import all_built, built, why_not
from longtail.part import Arrays, Part, option, prefixed, under
from longtail.plan import Sizes, Stage
from longtail.registry import build, name_of
from longtail.rerank.base import Reranker
from longtail.rerank.held_out import Folds
from longtail.run import Run
from longtail.scores import Scores


@dataclass(kw_only=True)
class Pipeline(Learner):
    """Features are made where the learner reads any; what made them is `features_`, None where X was given."""

    learner: Any = option("bonsai", "the learner")
    features: Any = option(
        "auto",
        "what makes features of texts; auto: tfidf, with stems, where the learner reads features and there are none; "
        "none: those of the corpus",
    )
    augment: list[Any] = option([], "augmenters, applied in the order of their spaces and, within a space, as given")
    rerank: list[Any] = option([], "re-rankers, one after the other")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.learner = built(self.learner, Learner, "learner", "wrapper")
        self.augment = all_built("augment", self.augment, Augmenter, "augmenter")
        self.rerank = all_built("rerank", self.rerank, Reranker, "re-ranker")
        self._expand()
        if self.features == "auto" and not self._reads_features:
            self.features = None
        if self.features is not None and self.features != "auto":
            self.features = built(self.features, Features, "features")
            if not self._reads_features:
                raise UsageError(f"'{name_of(self.learner)}' reads texts as they are: it has no use for features")
        self._check_fits()

    def _expand(self) -> None:
        """Augmenters that stand for a combination of parts, such as taug, are replaced by those parts."""
        if all(type(part).expanded is Augmenter.expanded for part in self.augment):
            return
        expanded: list[Any] = []
        for part in self.augment:
            made = part.expanded(self.learner)
            if made is None:
                expanded.append(part)
            else:
                self.learner = built(made[0], Learner, "learner", "wrapper")
                expanded += all_built("augment", made[1], Augmenter, "augmenter")
        self.augment = expanded

    def _check_fits(self) -> None:
        """Refuses an augmenter that the learner does not take, and says which learners would do."""
        can = self.learner.capabilities
        for part in self.augment:
            if not fits(can, part.capabilities):
                raise UsageError(why_not(part, self.learner))
            rewrites = part.capabilities.space == "texts" and (not part.capabilities.judge or _writes_texts(part))
            if rewrites and self._reads_features and self.features is None:
                raise UsageError(
                    f"'{name_of(part)}' rewrites texts, and '{name_of(self.learner)}' reads features that are made "
                    "before: give this pipeline features of its own"
                )

    @property
    def _reads_features(self) -> bool:
        return "X" in self.learner.capabilities.needs

    @property
    def capabilities(self) -> Capabilities:
        # who draws vectors in the classifier's space asks the network itself
        can = replace(self.learner.capabilities, noise=True)
        can = replace(can, spaces=tuple(space for space in can.spaces if space != "classifier"))
        # what a re-ranker in here learnt of the first stage would not hold for the second
        can = replace(can, retunes=can.retunes and not any(part.capabilities.learns for part in self.rerank))
        if self.features is None or not self._reads_features:
            return can
        reads = EITHER if self.features == "auto" else "texts"
        needs = tuple(dict.fromkeys((reads, *(need for need in can.needs if need != "X"))))
        # features made in here are out of reach for augmenters outside
        return replace(can, needs=needs, spaces=tuple(s for s in can.spaces if s != "features"))

    # fitting
    def forget(self) -> None:
        """As new, until it is fitted: features that an earlier fit chose by itself are to be chosen again."""
        vars(self).pop("n_labels_", None)
        if self.features is vars(self).pop("chosen_", self):
            self.features = "auto"

    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        run = fit.run
        self.forget()
        self.check(corpus)
        if not corpus.labels.documents:
            corpus = corpus.counted()
        labels, given = corpus.labels, corpus
        for part in self.augment:
            part.check(corpus)
        corpus = self._rewritten(corpus, "texts", run)
        self.features_ = self._maker_of_features(corpus)
        if self.features_ is not None:
            if self.features == "auto":
                self.features = self.chosen_ = self.features_
            with run.stage("features"):
                corpus = replace(corpus, X=self.features_.fit_corpus(corpus, run), X_made=True)
        self.width_ = corpus.features.shape[1] if self._reads_features else None
        unchanged = corpus
        corpus = self._rewritten(corpus, "features", run)
        valid = fit.valid and self.with_features(fit.valid.aligned(labels), run)
        if self.features_ is not None:
            fit = replace(fit, run=planning.narrowed_again(self, Sizes.of(corpus), fit.run))
        inside = fit.with_valid(valid).with_hooks(self._hooks(fit.hooks))
        self.fit_learner(self.learner, corpus, inside)
        self._take_sizes()
        if self.rerank:
            # re-rankers learn from the documents themselves, not from rows an augmenter made
            documents = unchanged if unchanged.made is None else self.with_features(given, run)
            with run.stage("rerank"):
                self._fit_rerankers(documents.documents_only(), corpus, inside)
        return self

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """Augmenters, features, the learner with its second stages, and folds for re-rankers."""
        stages, made = planning.until_learner(self, sizes, run)
        return stages + planning.of_learner(self, made, run)

    def retune(self, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None) -> Self:
        """The second stage of the learner, on rows made as those of its first; features and re-rankers stay."""
        corpus = self.with_features(self._rewritten(corpus, "texts", fit.run), fit.run)
        corpus = self._rewritten(corpus, "features", fit.run)
        self.learner.retune(self.learner.readable(corpus), fit, vectors)
        return self

    def _maker_of_features(self, corpus: Corpus) -> Features | None:
        """What makes X of this corpus: nothing where it brings its own, unless features are asked for by name."""
        given = corpus.X is not None and not corpus.X_made and not any(map(_writes_texts, self.augment))
        if not self._reads_features or self.features is None or corpus.texts is None:
            return None
        if self.features != "auto":
            made: Features = self.features
            return made
        return None if given else cast(Features, build(USUAL_FEATURES, "features"))

    def _rewritten(self, corpus: Corpus, space: str, run: Run) -> Corpus:
        """The corpus after the augmenters of a space; label counts stay those of the data as given."""
        for part in self.augment:
            if part.capabilities.space == space and not part.capabilities.judge:
                corpus = replace(part.apply(corpus, run), labels=corpus.labels)
        return corpus

    def _hooks(self, outer: Sequence[Augmenter]) -> list[Augmenter]:
        """Augmenters that work inside the fit; what makes texts longer comes before what mixes them."""
        own = [p for p in self.augment if p.capabilities.space not in CORPUS_SPACES and not p.capabilities.judge]
        own += [hook for part in self.augment for hook in part.first_stage()]
        return sorted(
            [*outer, *own],
            key=lambda part: (SPACES.index(part.capabilities.space), not part.capabilities.lengthens),
        )

    def fit_learner(self, learner: Learner, corpus: Corpus, fit: Fit, *, fold: bool = False) -> Learner:
        """Both stages of one learner: first on the corpus, then on what judges make of it.

        fold  whether this is a fit beside that of the model, of which judges are to remember nothing
        """
        judges = [part.unfitted() if fold else part for part in self.augment if part.capabilities.judge]
        readable = learner.readable(corpus)
        if not judges and not self.rerank:  # nothing comes after it, so there is nothing to keep it for
            return learner.learn(readable, fit)
        fit.train(learner, readable)
        if not judges:
            return learner
        view = copy.copy(self)
        view.learner, view.rerank = learner, []
        view._take_sizes()
        for number, part in enumerate(judges):
            made: Judged = part.judged(corpus, view, fit.child(name_of(part)))
            tuned = replace(made.corpus, labels=corpus.labels)
            tuned = tuned if tuned.X is not None else self.with_features(tuned, fit.run)
            second = fit.child(f"second stage/{number}", "second stage").apart()
            with fit.run.stage("retune"):
                learner.retune(learner.readable(tuned), second, made.vectors)
        return learner

    # re-rankers
    def _fit_rerankers(self, documents: Corpus, augmented: Corpus, fit: Fit) -> None:
        if any(part.capabilities.learns for part in self.rerank):
            scores, documents, folds = out_of_fold(self, documents, augmented, fit)
        else:
            scores, folds = Scores.empty(len(documents), 1), Folds.none(len(documents), documents.labels)
        for number, part in enumerate(self.rerank):
            scores = part.fit_held_out(scores, documents, folds, run=fit.run.child(f"rerank/{number}"))

    @property
    def depth(self) -> int:
        """Labels per document that re-rankers choose from; 0 without any."""
        return max((part.depth for part in self.rerank), default=0)

    # scoring
    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        run = run or Run()
        self.check(corpus)
        corpus = self.with_features(corpus, run)
        if not self.rerank:
            return self.learner.score(corpus, k, run=run)
        return self.reranked(self.learner.score(corpus, max(k, self.depth), run=run), corpus, k)

    def reranked(self, found: Scores, corpus: Corpus, k: int) -> Scores:
        """The k best labels of what the learner found."""
        if not self.rerank:
            return found
        ranked = found.top(min(self.depth, found.k))
        for part in self.rerank:
            ranked = part.rerank(ranked, corpus)
        return ranked.followed_by(found).top(k)

    def score_text(self, text: str, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]] | None:
        """(labels, scores) of one text, up to k: what `score` gives; None where a part has no way for one document."""
        row = None if self.features_ is None else self.features_.transform_one(text)
        found = None if row is None else self.learner.score_row(*row, max(k, self.depth))
        if found is None or not self.rerank:
            return found
        whole = Scores(found[0][None], found[1][None])
        ranked: Scores | None = whole.top(min(self.depth, whole.k))
        for part in self.rerank:
            ranked = None if ranked is None else part.rerank_alone(ranked)
        best = None if ranked is None else ranked.followed_by(whole).top(min(k, whole.k))
        return None if best is None else (best.ids[0], best.values[0])

    def convert_weights(self, weights: str) -> bool:
        return bool(self.learner.convert_weights(weights))

    def check(self, corpus: Corpus) -> None:
        """Refuses a corpus that lacks what the learner reads."""
        name = name_of(self.learner)
        if "texts" in self.learner.capabilities.needs and corpus.texts is None:
            raise UsageError(f"'{name}' reads texts, and {corpus.name} has features only; use a linear learner")
        if not self._reads_features:
            return
        if corpus.X is not None:
            if not np.isfinite(corpus.X.data).all():
                raise UsageError(f"{corpus.name} has features that are not finite numbers (nan or inf)")
            return
        if corpus.texts is None:
            raise UsageError(f"'{name}' needs features, and {corpus.name} has neither texts nor features")
        if hasattr(self, "n_labels_") and self.features_ is None:
            raise UsageError(
                f"this model was trained on features that came with the data, and {corpus.name} has texts only; "
                "give it a corpus with X"
            )
        if self.features is None:
            raise UsageError(f"'{name}' needs features, and {corpus.name} has texts only; use features='tfidf'")

    def with_features(self, corpus: Corpus, run: Run) -> Corpus:
        """The corpus with the X the learner was fitted on: made from its texts, or its own if the widths agree."""
        if not self._reads_features:
            return corpus
        if self.features_ is not None and corpus.texts is not None:
            with run.stage("features"):
                corpus = replace(corpus, X=self.features_.of_corpus(corpus, run), X_made=True)
        if corpus.X is not None and corpus.X.shape[1] != self.width_:
            raise UsageError(f"{corpus.name} has {corpus.X.shape[1]:,} features, the model has {self.width_:,}")
        return corpus

    # keeping
    def _take_sizes(self) -> None:
        self.n_labels_ = self.learner.n_labels_
        # columns of features made here are nobody else's business
        self.n_features_ = None if self.features_ is not None else self.learner.n_features_

    def fitted_parts(self) -> dict[str, Part]:
        """The parts that have learnt something, by the names they are kept under."""
        parts: dict[str, Part] = {"learner": self.learner}
        if self.features_ is not None:
            parts["features"] = self.features_
        parts |= {f"augment-{number}": part for number, part in enumerate(self.augment) if part.kept}
        return parts | {f"rerank-{number}": part for number, part in enumerate(self.rerank)}

    def acted(self) -> dict[str, Any]:
        """By the name of each part that has something to say; of two of a kind, the second has a number."""
        said: dict[str, Any] = {}
        for part in self.fitted_parts().values():
            if found := part.acted():
                name = name_of(part)
                said[name if name not in said else f"{name} {len(said) + 1}"] = found
        return said

    def state(self) -> dict[str, NDArray[Any]]:
        width = -1 if self.width_ is None else self.width_
        state: dict[str, NDArray[Any]] = {"pipeline": np.array([int(self.features_ is not None), width])}
        for name, part in self.fitted_parts().items():
            state |= prefixed(name, part.state())
        return state

    def restore(self, arrays: Arrays) -> None:
        kept = arrays.get("pipeline")
        if kept is None or kept.shape != (2,) or kept.dtype != np.int64 or kept[0] not in (0, 1) or kept[1] < -1:
            raise ValueError("'pipeline' must tell whether features are made, and how many")
        self.begin_restoring(bool(kept[0]), None if kept[1] < 0 else int(kept[1]))
        parts = self.fitted_parts()
        # a part may keep nothing at all, but nobody else may keep anything
        unknown = {name.partition(".")[0] for name in arrays} - {"pipeline", *parts}
        if unknown:
            raise ValueError(f"there is no part '{sorted(unknown)[0][:60]}'")
        for name, part in parts.items():
            part.restore(under(name, arrays))
        self.finish_restoring()

    def begin_restoring(self, makes_features: bool, width: int | None) -> None:
        if makes_features and self.features == "auto":
            self.features = build(USUAL_FEATURES, "features")
        if makes_features and not isinstance(self.features, Features):
            raise ValueError("features are made, and there is no part that makes them")
        self.features_, self.width_ = self.features if makes_features else None, width

    def finish_restoring(self) -> None:
        """Kernels index by these numbers, so what the parts say of one another must agree."""
        widths = {"learner": self.learner.n_features_, "features": self.features_ and self.features_.n_features_}
        for name, width in widths.items():
            if self._reads_features and width is not None and width != self.width_:
                raise ValueError(f"the {name} has {width} features, the rest of the model has {self.width_}")
        self._take_sizes()
        for part in (*self.augment, *self.rerank):
            own = getattr(part, "n_labels_", self.n_labels_)
            if own != self.n_labels_:
                raise ValueError(f"'{name_of(part)}' has {own} labels, the learner has {self.n_labels_}")


def _writes_texts(part: Augmenter) -> bool:
    """Whether an augmenter of the second stage makes new texts, whose features are to be made as those of the first."""
    return part.capabilities.judge and "texts" in part.capabilities.needs
