"""Text in, label names out: features, augmenters, a learner and re-rankers fitted, applied and kept as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import numpy as np
import scipy.sparse as sp

from longtail.augment.base import CORPUS_SPACES, Augmenter
from longtail.augment.noise import prepared
from longtail.corpus import Corpus
from longtail.errors import ModelError, UsageError
from longtail.labels import BAND_EDGES
from longtail.learners.base import SPACES, Learner
from longtail.part import Part
from longtail.registry import build, config_of, entries, name_of
from longtail.rerank.base import Reranker
from longtail.run import Run
from longtail.scores import Scores

if TYPE_CHECKING:
    from longtail.evaluate import Report
    from longtail.features.tfidf import Tfidf as Features

PartLike: TypeAlias = str | Mapping[str, Any] | Part

#: Up to so many documents re-rankers learn from four folds; beyond, from a quarter held out.
ALL_FOLDS = 20_000

#: How many labels a document re-rankers are fitted on and choose from.
SHORTLIST = 100


class Tagger:
    """A pipeline from texts (or features) to label names.

    learner   name, {"part": name, option: value}, or a part
    features  how texts become X; None for learners that read texts only, or corpora that bring their own X
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
        features: PartLike | None = "tfidf",
        augment: Sequence[PartLike] = (),
        rerank: Sequence[PartLike] = (),
        seed: int = 0,
        threads: int = 0,
    ) -> None:
        if isinstance(augment, str | Mapping | Part) or isinstance(rerank, str | Mapping | Part):
            raise UsageError("augment and rerank take a list of parts, as in augment=['gandalf']")
        self.learner = cast(Learner, _built(learner, Learner, "learner", "wrapper"))
        self.features = None if features is None else cast("Features", _built(features, Part, "features"))
        self.augment = cast(list[Augmenter], _all_built(augment, Augmenter, "augmenter"))
        self.rerank = cast(list[Reranker], _all_built(rerank, Reranker, "re-ranker"))
        self._expand()
        self.seed = seed
        self.threads = threads
        check_spaces(self.learner, self.augment)

    def _expand(self) -> None:
        """Augmenters that stand for a combination of parts, such as taug, are replaced by those parts."""
        if all(type(part).parts is Augmenter.parts for part in self.augment):
            return
        expanded: list[Augmenter] = []
        for part in self.augment:
            made = part.parts(self.learner)
            if made is None:
                expanded.append(part)
            else:
                self.learner = made[0]
                expanded += made[1]
        self.augment = expanded

    # fitting
    def fit(self, corpus: Corpus, *, valid: Corpus | None = None, run: Run | None = None) -> Self:
        """Trains every part in turn; the corpus given stays as it is."""
        run = run or self._run()
        # a second fit that fails must not leave old labels beside half-new parts
        vars(self).pop("labels_", None)
        check_spaces(self.learner, self.augment)
        if len(corpus) == 0 or corpus.Y.nnz == 0:
            raise UsageError(f"{corpus.name} has {'no documents' if len(corpus) == 0 else 'no labels'} to learn from")
        self._check_needs(corpus)
        if valid is not None:
            self._check_needs(valid)
        if not corpus.labels.documents:
            corpus = corpus.counted()
        # the counts of the data as given: rows an augmenter adds must not make a rare label look frequent
        labels = corpus.labels
        original = corpus
        for augmenter in self._augmenters("texts"):
            corpus = replace(augmenter.apply(corpus, run), labels=labels)
        self._makes_features = self.features is not None and corpus.X is None and "X" in self.learner.needs
        if self._makes_features:
            assert self.features is not None and corpus.texts is not None
            with run.stage("features"):
                corpus = replace(corpus, X=self.features.fit_transform(corpus.texts, run=run))
        self.n_features_ = None if corpus.X is None else int(corpus.X.shape[1])
        unchanged = corpus
        for augmenter in self._augmenters("features"):
            corpus = replace(augmenter.apply(corpus, run), labels=labels)
        if valid is not None:
            valid = self._with_features(valid.aligned(labels), run)
        self.learner.fit(prepared(corpus, self.learner), valid=valid, run=run, **self._inside())
        self.labels_ = labels
        if self.rerank:
            # re-rankers learn from the documents themselves, not from rows an augmenter made
            plain = unchanged if not self._augmenters("texts") else self._with_features(original, run)
            with run.stage("rerank"):
                self._fit_rerankers(plain, corpus, run)
        return self

    def _inside(self) -> dict[str, Any]:
        """Augmenters that work inside the fit, for learners that open their spaces; others take no such keyword."""
        hooks = [part for part in self.augment if part.space not in CORPUS_SPACES]
        # what makes texts longer comes before what mixes them, in whatever order they are named
        hooks.sort(key=lambda part: (SPACES.index(part.space), not part.lengthens))
        return {"hooks": hooks} if hooks else {}

    def _fit_rerankers(self, plain: Corpus, augmented: Corpus, run: Run) -> None:
        if any(part.learns for part in self.rerank):
            scores, seen = self.out_of_fold(plain, augmented, run)
        else:
            scores, seen = Scores.empty(len(plain), 1), plain
        for part in self.rerank:
            scores = part.fit(scores, seen, run=run).rerank(scores)

    def out_of_fold(self, plain: Corpus, augmented: Corpus, run: Run) -> tuple[Scores, Corpus]:
        """Shortlists of documents that the learner behind them did not see, and those documents.

        On its own training documents a learner is nearly perfect, which would teach a re-ranker nothing. Small corpora
        are split into four folds, of larger ones a quarter is held out: that many documents are enough, and the
        learner is trained only once more.

        plain      the documents, with features
        augmented  what the learner is trained on: rows that an augmenter added behind the documents stay in training,
                   but for those made from documents that are held out
        """
        quarters = np.array_split(run.rng("out-of-fold").permutation(len(plain)), 4)
        folds = [np.sort(part) for part in (quarters if len(plain) <= ALL_FOLDS else quarters[:1]) if len(part)]
        shortlists = []
        for held_out in folds:
            rest = np.flatnonzero(~np.isin(augmented.origins(), held_out))
            learner = self.learner.unfitted()
            fold_run = Run(run.seed, run.threads, run.progress)
            learner.fit(prepared(augmented.rows(rest), learner), run=fold_run, **self._inside())
            shortlists.append(learner.score(plain.rows(held_out), SHORTLIST, run=fold_run).top(SHORTLIST))
        scores = Scores(np.concatenate([s.ids for s in shortlists]), np.concatenate([s.values for s in shortlists]))
        return scores, plain.rows(np.concatenate(folds))

    # predicting
    def predict(
        self, documents: Sequence[str] | Corpus, k: int = 5, *, run: Run | None = None
    ) -> list[list[tuple[str, float]]]:
        """The k best label names of each document with their scores, best first."""
        if isinstance(documents, str):
            raise UsageError('predict takes a list of texts: predict(["some text"]), not predict("some text")')
        corpus = documents if isinstance(documents, Corpus) else self.corpus_of(documents)
        scores = self.score(corpus, k, run=run)
        names = self.labels_.names
        return [
            [(names[label], value) for label, value in zip(ids, values, strict=True) if label >= 0]
            for ids, values in zip(scores.ids.tolist(), scores.values.tolist(), strict=True)
        ]

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        """The k best labels of each document, in the columns of `labels_`."""
        self._require_fitted()
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise UsageError(f"k must be a whole number of at least 1, not {k!r}")
        run = run or self._run()
        self._check_needs(corpus)
        corpus = self._with_features(corpus, run)
        if len(corpus) == 0:
            return Scores.empty(0, int(k))
        scores = self.learner.score(corpus, self._shortlist(int(k)), run=run)
        for reranker in self.rerank:
            scores = reranker.rerank(scores)
        return scores.top(int(k))

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
        ks: Sequence[int] = (1, 3, 5),
        all_labels: bool = False,
        A: float = 0.55,
        B: float = 1.5,
        edges: Sequence[int] = BAND_EDGES,
        psndcg: str = "sum",
        bootstrap: int = 0,
        run: Run | None = None,
    ) -> Report:
        """Metrics on a corpus with known labels, matched to the model's by name.

        Labels the model never saw are left out of the truth, or with `all_labels` count as misses.
        """
        from longtail.evaluate import evaluate

        self._require_fitted()
        run = run or self._run()
        _check_ks(ks)
        aligned = corpus.aligned(self.labels_, keep_unknown=all_labels)
        if not all_labels:
            # files with numbered columns list labels that no training document has
            aligned = aligned.without_unseen()
        # pairs of a document with itself are taken out of the ranking before it is cut at k
        depth = max(ks)
        if aligned.reciprocal is not None and aligned.reciprocal.nnz:
            depth += int(np.diff(aligned.reciprocal.indptr).max())
        with run.stage("predict"):
            scores = self.score(aligned, depth, run=run)
        with run.stage("evaluate"):
            return evaluate(
                scores,
                aligned,
                ks=tuple(ks),
                A=A,
                B=B,
                edges=tuple(edges),
                psndcg=psndcg,
                bootstrap=bootstrap,
                rng=run.rng("bootstrap"),
            )

    # keeping
    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes a model directory, whole or not at all."""
        from longtail.persist import save_model

        self._require_fitted()
        states = {"learner": self.learner.state()}
        if self.features is not None and self._makes_features:
            states["features"] = self.features.state()
        for number, reranker in enumerate(self.rerank):
            states[f"rerank-{number}"] = reranker.state()
        manifest = {
            "config": self.config(),
            "n_features": self.n_features_,
            "makes_features": self._makes_features,
        }
        save_model(path, manifest=manifest, labels=self.labels_, states=states, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True, threads: int = 0) -> Self:
        """Opens a model directory; `verify` checks every file against the manifest first."""
        from longtail.persist import load_model, restoring

        loaded = load_model(path, verify=verify)
        tagger = cls._configured(path, loaded.manifest, threads)
        tagger.labels_ = loaded.labels
        parts: dict[str, Part] = {"learner": tagger.learner}
        if tagger.features is not None and tagger._makes_features:
            parts["features"] = tagger.features
        parts |= {f"rerank-{number}": part for number, part in enumerate(tagger.rerank)}
        if set(loaded.states) != set(parts):
            raise ModelError(f"{path}: files for {sorted(loaded.states)} where {sorted(parts)} are needed")
        for stem, part in parts.items():
            with restoring(path, stem):
                part.restore(loaded.states[stem])
        # kernels index by these numbers, so what the files say of one another must agree
        for name, own in (("n_labels_", len(tagger.labels_)), ("n_features_", tagger.n_features_)):
            kept = getattr(tagger.learner, name, own)
            if kept != own:
                what = name.removeprefix("n_").removesuffix("_")
                raise ModelError(f"{path}: the learner has {kept} {what}, the rest of the model has {own}")
        return tagger

    @classmethod
    def _configured(cls, path: str | Path, manifest: Mapping[str, Any], threads: int) -> Self:
        """The tagger a manifest describes, its parts not yet fitted; names are looked up in the registry only."""
        try:
            config = manifest["config"]
            keys = {"learner", "features", "augment", "rerank", "seed"}
            if not isinstance(config, dict) or set(config) != keys:
                raise ValueError(f"its configuration needs {sorted(keys)}")
            n_features, makes_features = manifest["n_features"], manifest["makes_features"]
            if not (n_features is None or (type(n_features) is int and n_features >= 0)):
                raise ValueError("the number of features is not a number")
            if type(config["seed"]) is not int or type(makes_features) is not bool:
                raise ValueError("seed or makes_features is not as it should be")
            tagger = cls(**config, threads=threads)
        except KeyError as error:
            raise ModelError(f"{path}: the manifest has no {error}") from None
        except (TypeError, ValueError, UsageError) as error:
            raise ModelError(f"{path}: the manifest does not fit this version of longtail: {error}") from None
        tagger.n_features_, tagger._makes_features = n_features, makes_features
        return tagger

    def config(self) -> dict[str, Any]:
        """What `Tagger(**config)` makes the same tagger from, in plain values."""
        return {
            "learner": config_of(self.learner),
            "features": None if self.features is None else config_of(self.features),
            "augment": [config_of(part) for part in self.augment],
            "rerank": [config_of(part) for part in self.rerank],
            "seed": self.seed,
        }

    # scikit-learn's habits
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("learner", "features", "augment", "rerank", "seed", "threads")}

    def __repr__(self) -> str:
        """As one would write it: only what differs from the defaults."""
        shown = [f"learner={_short(self.learner)!r}"]
        if self.features is None or _short(self.features) != "tfidf":
            shown.append(f"features={None if self.features is None else _short(self.features)!r}")
        lists: dict[str, Sequence[Part]] = {"augment": self.augment, "rerank": self.rerank}
        shown += [f"{name}={[_short(part) for part in parts]!r}" for name, parts in lists.items() if parts]
        shown += [f"{name}={getattr(self, name)}" for name in ("seed", "threads") if getattr(self, name)]
        return f"Tagger({', '.join(shown)})"

    # checks and helpers
    def _run(self) -> Run:
        return Run(seed=self.seed, threads=self.threads)

    def _augmenters(self, space: str) -> list[Augmenter]:
        return [part for part in self.augment if part.space == space]

    def _shortlist(self, k: int) -> int:
        return max(k, SHORTLIST) if self.rerank else k

    def _require_fitted(self) -> None:
        if not hasattr(self, "labels_"):
            raise UsageError("this tagger is not trained yet: call fit, or Tagger.load")

    def _check_needs(self, corpus: Corpus) -> None:
        """Refuses a corpus that lacks what the learner reads."""
        name = name_of(self.learner)
        if "texts" in self.learner.needs and corpus.texts is None:
            raise UsageError(f"'{name}' reads texts, and {corpus.name} has features only; use a linear learner")
        if "X" not in self.learner.needs:
            return
        if corpus.X is not None:
            if not np.isfinite(corpus.X.data).all():
                raise UsageError(f"{corpus.name} has features that are not finite numbers (nan or inf)")
            return
        if corpus.texts is None:
            raise UsageError(f"'{name}' needs features, and {corpus.name} has neither texts nor features")
        if self.features is None:
            raise UsageError(f"'{name}' needs features, and {corpus.name} has texts only; use features='tfidf'")
        if hasattr(self, "labels_") and not self._makes_features:
            raise UsageError(
                f"this model was trained on features of one's own, and {corpus.name} has texts only; "
                "give it a corpus with X"
            )

    def _with_features(self, corpus: Corpus, run: Run) -> Corpus:
        """The corpus with the X the learner was fitted on: made from its texts, or its own if the widths agree."""
        if "X" not in self.learner.needs:
            return corpus
        if self._makes_features and corpus.texts is not None:
            assert self.features is not None
            with run.stage("features"):
                corpus = replace(corpus, X=self.features.transform(corpus.texts, run=run))
        if corpus.X is not None and corpus.X.shape[1] != self.n_features_:
            raise UsageError(f"{corpus.name} has {corpus.X.shape[1]:,} features, the model has {self.n_features_:,}")
        return corpus


def check_spaces(learner: Learner, augment: Sequence[Augmenter]) -> None:
    """Refuses an augmenter whose space the learner does not open, and says which learners would do."""
    for part in augment:
        if part.space in learner.spaces:
            continue
        fitting = []
        for entry in entries("learner"):  # a wrapper's spaces depend on its members
            try:
                opened = cast(Learner, entry.load()()).spaces
            except UsageError:  # an extra that is not installed
                continue
            if part.space in opened:
                fitting.append(f"'{entry.name}'")
        would_do = f"learners that do: {', '.join(fitting)}" if fitting else "no learner here does"
        raise UsageError(
            f"'{name_of(part)}' works in the space '{part.space}', which '{name_of(learner)}' does not open; {would_do}"
        )


def _built(given: PartLike, base: type[Part], *kinds: str) -> Part:
    part = build(given, *kinds)
    if not isinstance(part, base):
        raise UsageError(f"'{name_of(part)}' is not a {kinds[0]}")
    return part


def _all_built(given: Sequence[PartLike], base: type[Part], kind: str) -> list[Part]:
    built = [_built(part, base, kind) for part in given]
    # scikit-learn's clone checks that a constructor keeps the very list it is given
    return cast(list[Part], given) if isinstance(given, list) and built == given else built


def _short(part: Part) -> str | dict[str, Any]:
    """A part as one would write it: its name, with the options that differ from their defaults."""
    config = config_of(part)
    defaults = config_of(type(part)())
    changed = {f.name: config[f.name] for f in fields(part) if config[f.name] != defaults[f.name]}
    return {"part": config["part"], **changed} if changed else str(config["part"])


def _check_ks(ks: Sequence[int]) -> None:
    if not ks or any(isinstance(k, bool) or not isinstance(k, int) or k < 1 for k in ks):
        raise UsageError(f"k must be whole numbers of at least 1, not {list(ks)}")
