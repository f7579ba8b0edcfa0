"""LongtailClassifier: a tagger as an estimator of scikit-learn's."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from longtail.classifier.options import changed, nested
from longtail.classifier.targets import DENSE, SINGLE, known_targets, read_targets
from longtail.classifier.threshold import USUAL, chosen_threshold
from longtail.corpus import Corpus
from longtail.inputs.tables import column
from longtail.labels import LabelIndex
from longtail.part import Part
from longtail.scores import Scores
from longtail.sparse import starts_of
from longtail.tagger import PartLike, Tagger

PARTS = ("learner", "features", "augment", "rerank")

#: Probabilities lie strictly between 0 and 1, as scikit-learn and the logarithm want them.
_LEAST = float(np.finfo(np.float32).eps)


def _ranks_all(estimator: LongtailClassifier) -> bool:
    """Whether decisions are wanted for every class: a sparse matrix cannot hold values below zero for all others."""
    return not hasattr(estimator, "form_") or estimator.form_.kind in (SINGLE, DENSE)


class LongtailClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A tagger for scikit-learn: pipelines, cross-validation, grid search, clone, joblib.

    X is a list of texts, or a matrix of features (dense or sparse). y is an indicator matrix (dense or sparse), a list
    of labels per document, or one class per document; `predict` answers in the form of y.

    learner, features, augment, rerank  as of `Tagger`; options inside them are parameters, too: learner__trees
    k          labels scored per document, the best ones; all others score 0
    threshold  labels that score at least this are predicted, out of the k best; "auto" chooses the number with the best
               micro-averaged F1 on a fifth of the documents, for which a model is trained on the others first. Where
               every document has one class, the best one is predicted whatever it scores
    seed, threads  as of `Tagger`

    After `fit`: `classes_`, `tagger_` (the Tagger behind it), `threshold_`, and for matrices `n_features_in_`.
    """

    def __init__(
        self,
        learner: PartLike = "bonsai",
        *,
        features: PartLike | None = "auto",
        augment: Sequence[PartLike] = (),
        rerank: Sequence[PartLike] = (),
        k: int = 100,
        threshold: float | str = "auto",
        seed: int = 0,
        threads: int = 0,
    ) -> None:
        self.learner = learner
        self.features = features
        self.augment = augment
        self.rerank = rerank
        self.k = k
        self.threshold = threshold
        self.seed = seed
        self.threads = threads

    @classmethod
    def from_recipe(cls, name_or_file: str, **params: Any) -> Self:
        """An estimator of the parts of a recipe, by its name or from a TOML file; params  as of the class"""
        from longtail.recipe import Recipe

        return cls(**{**Recipe.find(name_or_file).to_dict(), **params})

    # parameters
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params: dict[str, Any] = super().get_params(deep=False)
        for name in PARTS if deep else ():
            params |= nested(name, params[name])
        return params

    def set_params(self, **params: Any) -> Self:
        inside = {name: value for name, value in params.items() if name.partition("__")[0] in PARTS and "__" in name}
        super().set_params(**{name: value for name, value in params.items() if name not in inside})
        for name, value in inside.items():
            part, *path = name.split("__")
            setattr(self, part, changed(getattr(self, part), path, value))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.classifier_tags.multi_label = True
        return tags

    # fitting
    def fit(self, X: Any, y: Any) -> Self:
        texts = _texts(X)
        self.__dict__.pop("tagger_", None)  # a fit that fails must not leave an old model beside new classes
        if texts is None:
            X = validate_data(self, X, accept_sparse="csr")
        else:
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
        form, Y = read_targets(y)
        check_consistent_length(X if texts is None else texts, Y)
        names = [str(each) for each in form.classes.tolist()]
        if "" in names:
            raise ValueError("y has an empty label")
        self.form_, self.classes_ = form, form.classes
        corpus = _corpus(LabelIndex(names), Y, X if texts is None else None, texts)
        self._check_numbers()
        self.threshold_ = self.threshold
        if self.threshold == "auto":
            chosen = form.multilabel and corpus.Y.nnz > 0
            self.threshold_ = chosen_threshold(corpus, self._tagger, self.k, self.seed) if chosen else USUAL
        self.tagger_ = self._tagger().fit(corpus)
        return self

    def _check_numbers(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int | np.integer) or self.k < 1:
            raise ValueError(f"k must be a whole number of at least 1, not {self.k!r}")
        if self.threshold != "auto" and not (isinstance(self.threshold, Real) and 0 <= self.threshold <= 1):
            raise ValueError(f"threshold must be 'auto' or lie between 0 and 1, not {self.threshold!r}")

    @property
    def _least(self) -> float:
        """The threshold: as chosen when it was fitted, or as it is now."""
        self._check_numbers()
        return float(self.threshold_ if self.threshold == "auto" else self.threshold)

    def _tagger(self) -> Tagger:
        """A tagger with parts of its own: those of the parameters stay as they are."""
        augment = [_fresh(part) for part in self.augment]
        rerank = [_fresh(part) for part in self.rerank]
        return Tagger(
            _fresh(self.learner),
            features=_fresh(self.features),
            augment=augment,
            rerank=rerank,
            seed=self.seed,
            threads=self.threads,
        )

    # predicting
    def predict(self, X: Any) -> Any:
        """In the form of y: classes, an indicator matrix, or lists of labels with the best first."""
        scores = self._scores(X, 1 if self._single else self.k)
        if self._single:
            return self.classes_[self._best(scores)]
        return self.form_.written(self._marks(scores))

    def _best(self, scores: Scores) -> NDArray[np.int32]:
        """The best class of each document; the most frequent one where nothing is known of a document."""
        usual = int(self.tagger_.labels_.by_frequency()[0])
        return np.where(scores.ids[:, 0] < 0, np.int32(usual), scores.ids[:, 0])

    def _marks(self, scores: Scores) -> sp.csr_matrix:
        """The labels predicted, best first in each row."""
        chosen = (scores.ids >= 0) & (scores.values >= self._least)
        columns = scores.ids[chosen]
        shape = (len(scores), len(self.classes_))
        return sp.csr_matrix((np.ones(len(columns), np.float32), columns, starts_of(chosen.sum(axis=1))), shape)

    def predict_proba(self, X: Any) -> Any:
        """Scores of the classes, (n, L): sparse where y was sparse or lists, dense otherwise.

        With one class per document each row sums up to 1. Otherwise a label's score is its own, and those beyond the k
        best score 0. Scores put labels in order; they are probabilities only as far as the learner makes them so.
        """
        if not self._single:
            found = self._scores(X, self.k).to_csr(len(self.classes_))
            if self.form_.kind == DENSE:
                return np.clip(found.toarray().astype(np.float64), _LEAST, 1 - _LEAST)
            found.sort_indices()
            return found
        scores = self._scores(X, len(self.classes_))
        dense = scores.to_csr(len(self.classes_)).toarray().astype(np.float64)
        unknown = np.flatnonzero(dense.sum(axis=1) == 0)
        labels = self.tagger_.labels_
        dense[unknown] = labels.frequency / max(int(labels.frequency.sum()), 1)
        dense /= dense.sum(axis=1, keepdims=True)
        return dense

    @available_if(_ranks_all)
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """What is above 0 is predicted: scores less the threshold, dense (n, L); for two classes (n,).

        With more than two classes of which each document has one, the largest is predicted. Where y was sparse or
        lists, there is `predict_proba` alone.
        """
        scores: NDArray[np.float64] = self.predict_proba(X)
        if not self._single:
            return scores - self._least
        return scores[:, 1] - 0.5 if len(self.classes_) == 2 else scores

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy where every document has one class, else micro-averaged F1 of what is predicted."""
        if self._single:
            return float(super().score(X, y, sample_weight))
        Y, unknown = known_targets(y, self.form_)
        found = self._marks(self._scores(X, self.k))
        check_consistent_length(found, Y)
        weight = np.ones(Y.shape[0]) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        both = weight @ np.asarray(Y.multiply(found).sum(axis=1)).ravel()
        all_ = weight @ (np.diff(Y.indptr) + np.diff(found.indptr)) + unknown * weight.mean()
        return float(2 * both / all_) if all_ else 0.0

    @property
    def _single(self) -> bool:
        check_is_fitted(self, "tagger_")
        return not self.form_.multilabel

    def _scores(self, X: Any, k: int) -> Scores:
        texts = _texts(X)
        if hasattr(self, "n_features_in_"):
            if texts is not None:
                raise ValueError("the classifier was fitted on a matrix of features, and X holds texts")
            X = validate_data(self, X, accept_sparse="csr", reset=False)
        elif texts is None:
            if not isinstance(X, list) or X:
                raise ValueError("the classifier was fitted on texts, and X holds none")
            texts = []
        n = X.shape[0] if texts is None else len(texts)
        Y = sp.csr_matrix(sp.coo_array((n, len(self.classes_)), dtype=np.float32))
        return self.tagger_.score(_corpus(self.tagger_.labels_, Y, X if texts is None else None, texts), k)

    # pickling
    def __getstate__(self) -> dict[str, Any]:
        """The files of a model directory stand for the tagger: what is unpickled is checked like any model."""
        state = dict(super().__getstate__())
        if "tagger_" in state:
            state["tagger_"] = _files_of(state["tagger_"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        files = state.pop("tagger_", None)
        super().__setstate__(state)
        if files is not None:
            self.tagger_ = _tagger_of(files, self.threads)


def _fresh(part: Any) -> Any:
    return part.unfitted() if isinstance(part, Part) else part


def _corpus(labels: LabelIndex, Y: sp.csr_matrix, X: Any, texts: list[str] | None) -> Corpus:
    features = None if X is None else sp.csr_matrix(X, dtype=np.float32)
    return Corpus(labels=labels, Y=Y, X=features, texts=texts, name="X")


def _texts(X: Any) -> list[str] | None:
    """The texts, or None for a matrix. A matrix with a single column of texts is a list of them."""
    if isinstance(X, str):
        raise ValueError('X is a single text: put it into a list, as in ["some text"]')
    if getattr(X, "ndim", 1) == 2 and X.shape[1] == 1 and not sp.issparse(X):
        X = X.iloc[:, 0] if hasattr(X, "iloc") else X[:, 0]
    if getattr(X, "ndim", 1) != 1:
        if not sp.issparse(X) and X.shape[0] and any(isinstance(cell, str) for cell in _first_row(X)):
            raise ValueError("X has several columns, with texts among them: give one of them, as in X['title']")
        return None
    values = X if isinstance(X, list | tuple) else column(X)
    if values is None or not any(isinstance(each, str) for each in values):
        return None
    for number, each in enumerate(values):
        if not isinstance(each, str) and each is not None:
            raise ValueError(f"X holds texts, and {each!r} as number {number}")
    return ["" if each is None else each for each in values]


def _first_row(X: Any) -> Sequence[Any]:
    row: Sequence[Any] = (X.iloc[0] if hasattr(X, "iloc") else X[0]).tolist()
    return row


def _files_of(tagger: Tagger) -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        tagger.save(Path(folder) / "model")
        return {file.name: file.read_bytes() for file in sorted((Path(folder) / "model").iterdir())}


def _tagger_of(files: dict[str, bytes], threads: int) -> Tagger:
    """The tagger whose files these are; its arrays stay mapped when the folder is gone."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for name, content in files.items():
            (Path(folder) / Path(name).name).write_bytes(content)
        tagger = Tagger.load(folder, threads=threads)
    tagger.directory_ = None
    return tagger
