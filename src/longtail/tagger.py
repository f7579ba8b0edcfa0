"""Text in, label names out: a pipeline with the names of its labels, read from files and kept in them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.errors import ModelError, UsageError
from longtail.fit import Fit
from longtail.keep.shard_folders import Shard, shard_folder, shard_folders
from longtail.learners import planning
from longtail.learners.pipeline import Pipeline
from longtail.memory import give_back
from longtail.part import Part, default_of, restoring_checked_arrays
from longtail.plan import Plan, Sizes
from longtail.registry import build, check_bounds, check_registered, config_of, name_of
from longtail.rerank.propensity import favouring_rare
from longtail.run import Run
from longtail.scores import Scores
from longtail.shards import Share, check_shard, in_shards, joined, score_elsewhere

if TYPE_CHECKING:
    from longtail.augment.base import Augmenter
    from longtail.evaluate import Report
    from longtail.evaluate.report import Options
    from longtail.features.base import Features
    from longtail.keep.model import Loaded
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
        corpus: Corpus,
        *,
        valid: Corpus | None = None,
        run: Run | None = None,
        shard: tuple[int, int] | None = None,
    ) -> Self:
        """Trains every part in turn; the corpus given stays as it is.

        shard  (number, count): keep only a share of the labels, as one of several parts of the model
        """
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
        documents: Sequence[str] | Corpus,
        k: int = 5,
        *,
        threshold: float = 0.0,
        rare: float | None = None,
        run: Run | None = None,
    ) -> list[list[tuple[str, float]]]:
        """The k best label names of each document with their scores, best first, those below the threshold left out.

        rare  as of `favouring_rare`; None for the model as it was trained
        """
        if rare is not None:
            return self.favouring_rare(rare).predict(documents, k, threshold=threshold, run=run)
        if isinstance(documents, str):
            raise UsageError('predict takes a list of texts: predict(["some text"]), not predict("some text")')
        if not 0 <= threshold <= 1:
            raise UsageError(f"the threshold must lie between 0 and 1, not {threshold:g}")
        if run is None and isinstance(documents, list) and len(documents) == 1:
            found = self._of_one_text(documents[0], k)
            if found is not None:
                return [self._named(*found, threshold)]
        corpus = documents if isinstance(documents, Corpus) else self.corpus_of(documents)
        scores = self.score(corpus, k, run=run)
        return [self._named(ids, values, threshold) for ids, values in zip(scores.ids, scores.values, strict=True)]

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

    def _named(self, ids: NDArray[np.int32], values: NDArray[np.float32], threshold: float) -> list[tuple[str, float]]:
        names = self.labels_.names
        return [
            (names[label], value)
            for label, value in zip(ids.tolist(), values.tolist(), strict=True)
            if label >= 0 and value >= threshold
        ]

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        """The k best labels of each document, in the columns of `labels_`; the first of any longer list."""
        self._require_fitted()
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise UsageError(f"k must be a whole number of at least 1, not {k!r}")
        if len(corpus) == 0:
            return Scores.empty(0, int(k))
        if run is not None and run.engine.remote:
            return self._score_elsewhere(corpus, int(k), run)
        return self.pipeline.score(corpus, int(k), run=run or self._run()).top(int(k))

    def _score_elsewhere(self, corpus: Corpus, k: int, run: Run) -> Scores:
        if self.directory_ is None:
            raise UsageError("other processes open a model from its directory: save this tagger and load it")
        self.pipeline.check(corpus)
        return score_elsewhere(self, self.directory_, corpus, k, run)

    def corpus_of(self, texts: Sequence[str]) -> Corpus:
        """Texts without targets as a corpus over the model's labels."""
        self._require_fitted()
        texts = list(texts)
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise UsageError(f"document {number} is {type(text).__name__}, not a text")
        Y = sp.csr_matrix(sp.coo_array((len(texts), len(self.labels_)), dtype=np.float32))
        return Corpus(labels=self.labels_, Y=Y, texts=texts, name="texts")

    def evaluate(
        self,
        corpus: Corpus,
        *,
        all_labels: bool = False,
        rare: float | None = None,
        run: Run | None = None,
        **options: Unpack[Options],
    ) -> Report:
        """Metrics on a corpus with known labels, matched to the model's by name; options as of `longtail.evaluate`.

        Labels the model never saw are left out of the truth, or with `all_labels` count as misses.
        rare  as of `favouring_rare`; None for the model as it was trained
        """
        if rare is not None:
            return self.favouring_rare(rare).evaluate(corpus, all_labels=all_labels, run=run, **options)
        from longtail.evaluate import evaluate
        from longtail.evaluate.report import Settings

        self._require_fitted()
        run = run or self._run()
        settings = Settings(**options)
        aligned = corpus.aligned(self.labels_, keep_unknown=all_labels)
        if not all_labels:
            # files with numbered columns list labels that no training document has
            aligned = aligned.without_unseen()
        # pairs of a document with itself are taken out of the ranking before it is cut at k
        depth = max(settings.ks)
        if aligned.reciprocal is not None and aligned.reciprocal.nnz:
            depth += int(np.diff(aligned.reciprocal.indptr).max())
        with run.stage("predict"):
            scores = self.score(aligned, depth, run=run)
        with run.stage("evaluate"):
            options.setdefault("rng", run.rng("bootstrap"))
            return evaluate(scores, aligned, **options)

    # keeping
    def convert(self, weights: str) -> Self:
        """Keeps the weights of all linear learners in it as float32, float16 or int8; what was rounded stays so."""
        self._require_fitted()
        if not self.pipeline.convert_weights(weights):
            raise UsageError(f"{name_of(self.learner)} has no weights to convert: label trees and one-vs-all have")
        return self

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes a model directory, whole or not at all; that of a shard lies in `path`, beside those of the others."""
        from longtail.keep.model import save_model

        self._require_fitted()
        if self.rare_ is not None:
            raise UsageError("save the model itself: what favours rare labels is chosen anew at every prediction")
        if in_shards(self):
            raise UsageError("this model lies in shards already, and each was saved when it was trained")
        check_registered(self.pipeline)
        config = self.config()
        check_bounds(config)
        manifest = {
            "config": config,
            "n_features": self.pipeline.width_,
            "makes_features": self.pipeline.features_ is not None,
        }
        if self.share_ is not None:
            manifest["shard"] = self.share_.to_dict()
            path = shard_folder(path, self.share_.shard)
            path.parent.mkdir(parents=True, exist_ok=True)
        states = {stem: part.state() for stem, part in self.pipeline.fitted_parts().items()}
        save_model(
            path, manifest=manifest, labels=self.labels_, states=states, overwrite=overwrite, threads=self.threads
        )

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True, threads: int = 0) -> Self:
        """Opens a model directory, or a folder with all shards of a model.

        verify  checks every file as a whole, unless this machine has done so since the files last changed; such a
                model opens in milliseconds. False leaves the checksums out, not the checks of what is read
        """
        from longtail.keep.cache import remember
        from longtail.keep.model import load_model
        from longtail.keep.older import modern, outgrown

        if shards := shard_folders(path):
            return joined(path, [cls.load(each, verify=verify, threads=threads) for each in shards])
        loaded = load_model(path, verify=verify, threads=threads)
        if not loaded.outdated:
            tagger = cls._restored(path, loaded, threads)
        else:
            try:
                tagger = cls._restored(path, replace(loaded, manifest=modern(loaded)), threads)
            except (ModelError, UsageError) as error:
                raise outgrown(path, loaded, error) from error
        if not loaded.checked:
            loaded.let_go()
            remember(loaded.key)
        return tagger

    @classmethod
    def _restored(cls, path: str | Path, loaded: Loaded, threads: int) -> Self:
        from longtail.keep.model import restoring

        tagger = cls._configured(path, loaded.manifest, threads)
        tagger.labels_, tagger.directory_ = loaded.labels, Path(path)
        tagger.share_ = Share.from_manifest(loaded.manifest, path)
        parts = tagger.pipeline.fitted_parts()
        if set(loaded.states) != set(parts):
            raise ModelError(f"{path}: files for {sorted(loaded.states)} where {sorted(parts)} are needed")
        for stem, part in parts.items():
            with restoring(path, stem), restoring_checked_arrays(loaded.checked):
                part.restore(loaded.states[stem])
        with restoring(path, "learner"):
            tagger.pipeline.finish_restoring()
        if tagger.pipeline.n_labels_ != len(tagger.labels_):
            raise ModelError(
                f"{path}: the learner has {tagger.pipeline.n_labels_} labels, the rest of the model has "
                f"{len(tagger.labels_)}"
            )
        return tagger

    @classmethod
    def _configured(cls, path: str | Path, manifest: Mapping[str, Any], threads: int) -> Self:
        """The tagger a manifest describes, its parts not yet fitted; names are looked up in the registry only."""
        from longtail.keep.model import reason

        try:
            config = manifest["config"]
            keys = {"learner", "features", "augment", "rerank", "seed"}
            if not isinstance(config, dict) or set(config) != keys:
                raise ValueError(f"its configuration needs {sorted(keys)}")
            n_features, makes_features = manifest["n_features"], manifest["makes_features"]
            if not (n_features is None or (type(n_features) is int and 0 <= n_features < 1 << 62)):
                raise ValueError("the number of features is not a number")
            if type(config["seed"]) is not int or type(makes_features) is not bool:
                raise ValueError("seed or makes_features is not as it should be")
            check_bounds(config)
            tagger = cls(**config, threads=threads)
            tagger.pipeline.begin_restoring(makes_features, n_features)
        except KeyError as error:
            raise ModelError(f"{path}: the manifest has no {error}") from None
        except (TypeError, ValueError, UsageError) as error:
            raise ModelError(f"{path}: the manifest does not fit this version of longtail: {reason(error)}") from None
        return tagger

    def config(self) -> dict[str, Any]:
        """What `Tagger(**config)` makes the same tagger from, in plain values."""
        parts = config_of(self.pipeline)
        return {name: parts[name] for name in ("learner", "features", "augment", "rerank")} | {"seed": self.seed}

    # scikit-learn's habits
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("learner", "features", "augment", "rerank", "seed", "threads")}

    def __repr__(self) -> str:
        """As one would write it: only what differs from the defaults."""
        shown = [f"learner={_short(self.learner)!r}"]
        if _short(self.features) not in ("auto", "tfidf") and "X" in self.learner.capabilities.needs:
            shown.append(f"features={_short(self.features)!r}")
        lists: dict[str, Sequence[Part]] = {"augment": self.augment, "rerank": self.rerank}
        shown += [f"{name}={[_short(part) for part in parts]!r}" for name, parts in lists.items() if parts]
        shown += [f"{name}={getattr(self, name)}" for name in ("seed", "threads") if getattr(self, name)]
        return f"Tagger({', '.join(shown)})"

    # checks and helpers
    def _run(self) -> Run:
        return Run(seed=self.seed, threads=self.threads)

    def _require_fitted(self) -> None:
        if not hasattr(self, "labels_"):
            raise UsageError("this tagger is not trained yet: call fit, or Tagger.load")


def _short(value: Any) -> Any:
    """A part as one would write it: its name, with the options that differ from their defaults, parts inside alike."""
    if isinstance(value, list):
        return [_short(item) for item in value]
    if not isinstance(value, Part):
        return value
    name = config_of(value)["part"]
    changed = {f.name: _short(getattr(value, f.name)) for f in fields(value)
               if not _same(getattr(value, f.name), default_of(f))}  # fmt: skip
    return {"part": name, **changed} if changed else str(name)


def _same(value: Any, default: Any) -> bool:
    """Whether an option has its default; parts are compared by their configurations, which defaults may abbreviate."""
    if isinstance(value, Part):
        default = "tfidf" if default == "auto" else default  # features of a learner that reads some
        return isinstance(default, str | Mapping) and config_of(build(default)) == config_of(value)
    if isinstance(value, list):
        same = isinstance(default, list) and len(value) == len(default)
        return same and all(map(_same, value, default))
    return bool(value == default)
