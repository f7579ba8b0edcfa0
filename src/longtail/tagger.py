"""Text in, label names out: a pipeline with the names of its labels, read from files and kept in them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.fit import Fit
from longtail.inputs import Names, as_corpus, documents_of, refuse
from longtail.keep.shard_folders import Shard
from longtail.learners import planning
from longtail.learners.pipeline import Pipeline
from longtail.memory import give_back
from longtail.part import Part
from longtail.plan import Plan, Sizes
from longtail.predictions import Prediction, PredictionLists
from longtail.registry import check_bounds, config_of, name_of, shortened
from longtail.rerank.propensity import favouring_rare
from longtail.run import Run
from longtail.scores import Scores
from longtail.shards import Share, check_shard, score_elsewhere

if TYPE_CHECKING:
    from longtail.augment.base import Augmenter
    from longtail.evaluate import Report
    from longtail.evaluate.report import Options
    from longtail.features.base import Features
    from longtail.learners.base import Learner
    from longtail.rerank.base import Reranker

PartLike: TypeAlias = str | Mapping[str, Any] | Part


class Tagger:
    """A pipeline from texts (or features) to label names.

    learner   name, {"part": name, option: value}, or a part
    features  how texts become X: "auto" is tfidf where the learner reads features; None for corpora with an X of theirs
    augment   augmenters, applied in the order of their spaces and, within a space, as given
    rerank    re-rankers, applied one after the other to the learner's shortlist
    seed      every random choice follows from it; same seed, same model, whatever the number of threads
    threads   0 for all cores

    After `fit`: `labels_` (LabelIndex with training counts) and `n_features_` (columns of X, None without X).
    """

    def __init__(
        self,
        learner: PartLike = "bonsai",
        *,
        features: PartLike | None = "auto",
        augment: Sequence[PartLike] = (),
        rerank: Sequence[PartLike] = (),
        seed: int = 0,
        threads: int = 0,
    ) -> None:
        check_bounds([learner, features, augment, rerank])
        self.pipeline = Pipeline(
            learner=learner,
            features=features,
            augment=augment,  # type: ignore[arg-type]
            rerank=rerank,  # type: ignore[arg-type]
        )
        self.seed = seed
        self.threads = threads
        self.directory_: Path | None = None  # where it was loaded from
        self.share_: Share | None = None  # which of several shards it is
        self.rare_: float | None = None  # strength of inverse propensity that was asked for after training

    @property
    def learner(self) -> Learner:
        return self.pipeline.learner

    @property
    def features(self) -> Features | str | None:
        """What makes X; "auto" until a fit has seen whether the corpus brings its own."""
        found: Features | str | None = self.pipeline.features
        return found

    @property
    def augment(self) -> list[Augmenter]:
        return self.pipeline.augment

    @property
    def rerank(self) -> list[Reranker]:
        return self.pipeline.rerank

    @property
    def n_features_(self) -> int | None:
        return self.pipeline.width_

    # fitting
    def fit(
        self,
        documents: Any,
        labels: Any = None,
        *,
        text: Names = None,
        separator: str | None = None,
        label_texts: Mapping[str, str] | None = None,
        valid: Any = None,
        run: Run | None = None,
        shard: tuple[int, int] | None = None,
    ) -> Self:
        """Trains every part in turn; what is given stays as it is.

        documents, labels, text, separator, label_texts  as of `longtail.as_corpus`: fit(texts, labels),
               fit(table, text="title", labels="subjects"), fit(corpus)
        valid  documents of the same kind for learners that stop by them; (texts, labels) where both are apart
        shard  (number, count): keep only a share of the labels, as one of several parts of the model
        """
        corpus = as_corpus(documents, labels, text=text, separator=separator, label_texts=label_texts)
        if valid is not None and not isinstance(valid, Corpus):
            apart = isinstance(valid, tuple)
            valid = as_corpus(*valid) if apart else as_corpus(valid, labels, text=text, separator=separator)
        run = run or self._run()
        share = None if shard is None else Shard.of(*shard)
        check_shard(self.pipeline, share)
        # a second fit that fails must not leave old labels beside half-new parts
        vars(self).pop("labels_", None)
        self.directory_ = self.share_ = None
        self.pipeline.forget()
        if len(corpus) == 0 or corpus.positives().nnz == 0:
            raise UsageError(f"{corpus.name} has {'no documents' if len(corpus) == 0 else 'no labels'} to learn from")
        self.pipeline.check(corpus)
        if valid is not None:
            self.pipeline.check(valid)
        if not corpus.labels.documents:
            corpus = corpus.counted()
        if run.memory is not None:
            run = planning.checked(self.pipeline, Sizes.of(corpus), run)
        self.pipeline.learn(corpus, Fit(run, valid, shard=share))
        self.labels_ = corpus.labels
        self.share_ = None if share is None else Share(share, corpus.fingerprint)
        give_back()
        return self

    def plan(self, corpus: Corpus, *, run: Run | None = None) -> Plan:
        """What `fit` will take: seconds and bytes of each stage, narrowed to the run's memory where it has a limit."""
        return planning.plan_of(self.pipeline, Sizes.of(corpus), run or self._run())

    # predicting
    def predict(
        self,
        documents: Any,
        k: int = 5,
        *,
        text: Names = None,
        threshold: float = 0.0,
        rare: float | None = None,
        run: Run | None = None,
    ) -> PredictionLists:
        """The k best labels of each document with texts and scores, best first, those below the threshold left out.

        documents  texts, a table or rows with a column of texts, features for models trained on such, or a Corpus
        text       the column with the text, "text" unless given; several are joined by a space
        rare       as of `favouring_rare`; None for the model as it was trained
        """
        if rare is not None:
            return self.favouring_rare(rare).predict(documents, k, text=text, threshold=threshold, run=run)
        if not 0 <= threshold <= 1:
            raise UsageError(f"the threshold must lie between 0 and 1, not {threshold:g}")
        if run is None and type(documents) is list and len(documents) == 1 and text is None:
            found = self._of_one_text(documents[0], k)
            if found is not None:
                return PredictionLists([self._named(*found, threshold)])
        corpus, given = self._asked(documents, text)
        scores = self.score(corpus, k, run=run)
        named = [self._named(ids, values, threshold) for ids, values in zip(scores.ids, scores.values, strict=True)]
        return PredictionLists.of(named, given)

    def _asked(self, documents: Any, text: Names) -> tuple[Corpus, Sequence[Any] | None]:
        """Documents to predict as a corpus, and their ids as they were given."""
        if isinstance(documents, Corpus):
            refuse(text=text, because="a Corpus has its texts already")
            return documents, documents.ids
        found = documents_of(documents, text)
        name = "the matrix" if found.texts is None else "texts"
        self._require_fitted()
        return Corpus.unlabelled(self.labels_, found.size, texts=found.texts, X=found.X, name=name), found.ids

    def favouring_rare(self, strength: float) -> Self:
        """The same model with rare labels moved up by inverse propensity of this strength, without training again.

        It takes the place of the model's own re-ranking: 0 gives the learner's own order, 1 is the best for PSP@k in
        theory. This tagger stays as it is, and both share what was learnt.
        """
        self._require_fitted()
        made = copy.copy(self)
        made.pipeline = copy.copy(self.pipeline)
        made.pipeline.rerank = favouring_rare(self.rerank, self.labels_, strength)
        made.rare_ = strength
        return made

    def _of_one_text(self, text: str, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]] | None:
        """Labels and scores of one text without the overhead of a corpus; None where only the general way will do."""
        self._require_fitted()
        if not isinstance(text, str) or type(k) is not int or k < 1:
            return None  # refused there
        return self.pipeline.score_text(text, k)

    def _named(self, ids: NDArray[np.int32], values: NDArray[np.float32], threshold: float) -> list[Prediction]:
        names, title, bare = self.labels_.names, self.labels_.title, self.labels_.texts is None
        return [
            Prediction(name := names[label], name if bare else title(label), value)
            for label, value in zip(ids.tolist(), values.tolist(), strict=True)
            if label >= 0 and value >= threshold
        ]

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        """The k best labels of each document, or all there are, in the columns of `labels_`, best first."""
        self._require_fitted()
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise UsageError(f"k must be a whole number of at least 1, not {k!r}")
        k = min(int(k), len(self.labels_))  # more would be padding, and take memory for each document
        if len(corpus) == 0:
            return Scores.empty(0, k)
        if run is not None and run.engine.remote:
            return self._score_elsewhere(corpus, k, run)
        return self.pipeline.score(corpus, k, run=run or self._run()).top(k)

    def _score_elsewhere(self, corpus: Corpus, k: int, run: Run) -> Scores:
        if self.directory_ is None:
            raise UsageError("other processes open a model from its directory: save this tagger and load it")
        self.pipeline.check(corpus)
        return score_elsewhere(self, self.directory_, corpus, k, run)

    def with_label_texts(self, texts: Mapping[str, str]) -> Self:
        """The same model, which calls labels by other texts, given by label name; what was learnt stays as it is."""
        self._require_fitted()
        other = copy.copy(self)
        other.labels_ = self.labels_.with_texts(texts)
        return other

    def evaluate(
        self,
        documents: Any,
        labels: Any = None,
        *,
        text: Names = None,
        separator: str | None = None,
        all_labels: bool = False,
        rare: float | None = None,
        run: Run | None = None,
        **options: Unpack[Options],
    ) -> Report:
        """Metrics on documents with known labels, matched to the model's by name; options as of `longtail.evaluate`.

        Documents and their labels are given as to `fit`. Labels the model never saw are left out of the truth, or with
        `all_labels` count as misses; the report says how many there are, and has the figures of both ways where they
        differ.

        rare  as of `favouring_rare`; None for the model as it was trained
        """
        from longtail.evaluate.unseen import depth_for, evaluate_on

        if rare is not None:
            given: Any = {"text": text, "separator": separator, "all_labels": all_labels, "run": run, **options}
            return self.favouring_rare(rare).evaluate(documents, labels, **given)

        self._require_fitted()
        corpus = as_corpus(documents, labels, text=text, separator=separator)
        run = run or self._run()
        depth = depth_for(corpus, self.labels_, **options)
        with run.stage("predict"):
            scores = self.score(corpus.aligned(self.labels_), depth, run=run)
        with run.stage("evaluate"):
            options.setdefault("rng", run.rng("bootstrap"))
            return evaluate_on(scores, corpus, self.labels_, all_labels, **options)

    # keeping
    def convert(self, weights: str) -> Self:
        """Keeps the weights of all linear learners in it as float32, float16 or int8; what was rounded stays so."""
        self._require_fitted()
        if not self.pipeline.convert_weights(weights):
            raise UsageError(f"{name_of(self.learner)} has no weights to convert: label trees and one-vs-all have")
        return self

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes a model directory, whole or not at all; that of a shard lies in `path`, beside those of the others."""
        from longtail.opening import save

        self._require_fitted()
        try:
            save(self, path, overwrite=overwrite)
        except UsageError as error:
            raise UsageError(str(error).replace("--overwrite", "overwrite=True")) from None

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True, threads: int = 0) -> Self:
        """Opens a model directory, or a folder with all shards of a model.

        verify  checks every file as a whole, unless this machine has done so since the files last changed; such a
                model opens in milliseconds. False leaves the checksums out, not the checks of what is read
        """
        from longtail.opening import opened

        return opened(cls, path, verify=verify, threads=threads)

    def config(self) -> dict[str, Any]:
        """What `Tagger(**config)` makes the same tagger from, in plain values."""
        parts = config_of(self.pipeline)
        return {name: parts[name] for name in ("learner", "features", "augment", "rerank")} | {"seed": self.seed}

    # scikit-learn's habits
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("learner", "features", "augment", "rerank", "seed", "threads")}

    def __repr__(self) -> str:
        """As one would write it: only what differs from the defaults."""
        shown = [f"learner={shortened(self.learner)!r}"]
        if shortened(self.features) not in ("auto", "tfidf") and "X" in self.learner.capabilities.needs:
            shown.append(f"features={shortened(self.features)!r}")
        lists: dict[str, Sequence[Part]] = {"augment": self.augment, "rerank": self.rerank}
        shown += [f"{name}={[shortened(part) for part in parts]!r}" for name, parts in lists.items() if parts]
        shown += [f"{name}={getattr(self, name)}" for name in ("seed", "threads") if getattr(self, name)]
        return f"Tagger({', '.join(shown)})"

    # checks and helpers
    def _run(self) -> Run:
        return Run(seed=self.seed, threads=self.threads)

    def _require_fitted(self) -> None:
        if not hasattr(self, "labels_"):
            raise UsageError("this tagger is not trained yet: call fit, or Tagger.load")
