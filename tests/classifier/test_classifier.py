"""LongtailClassifier: every form of X and y, within scikit-learn's own tools."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer

from longtail import LongtailClassifier, Tagger
from longtail.classifier.threshold import USUAL, best_threshold
from longtail.corpus import Corpus
from longtail.errors import ModelError, UsageError
from longtail.labels import LabelIndex
from longtail.learners.linear.label_tree import Parabel
from longtail.scores import Scores

TOPICS = {
    "boats": "sail harbour anchor deck mast",
    "fruit": "apple banana cherry orchard juice",
    "music": "guitar piano chord melody concert",
    "stars": "telescope orbit comet galaxy lens",
}


def documents(n: int = 60, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """Documents of one or two topics, five words of each."""
    rng = np.random.default_rng(seed)
    labels = [sorted(rng.choice(list(TOPICS), size=rng.integers(1, 3), replace=False).tolist()) for _ in range(n)]
    texts = [" ".join(word for topic in row for word in rng.choice(TOPICS[topic].split(), size=5)) for row in labels]
    return texts, labels


TEXTS, LABELS = documents()
NEW, TRUTH = documents(30, seed=1)
BINARY: Any = MultiLabelBinarizer()
INDICATOR = BINARY.fit_transform(LABELS)
SINGLE = [labels[0] for labels in LABELS]


def quick(**given: Any) -> LongtailClassifier:
    defaults = {"learner": {"part": "parabel", "trees": 1}, "features": {"part": "tfidf", "min_df": 1}}
    defaults |= {"threshold": 0.5, "threads": 1}
    return LongtailClassifier(**{**defaults, **given})


def without_order(rows: list[list[Any]]) -> list[list[Any]]:
    return [sorted(row) for row in rows]


@pytest.fixture(scope="module")
def fitted() -> LongtailClassifier:
    return quick().fit(TEXTS, LABELS)


# --- forms of y


def test_lists_of_labels(fitted: LongtailClassifier) -> None:
    found = fitted.predict(NEW)
    assert sum(one == other for one, other in zip(without_order(found), TRUTH, strict=True)) > 25
    assert fitted.classes_.tolist() == list(TOPICS)
    proba = fitted.predict_proba(NEW)
    assert sp.issparse(proba) and proba.shape == (30, 4)
    best = [max(row, key=lambda name: proba[n, list(TOPICS).index(name)]) for n, row in enumerate(found) if row]
    assert best == [row[0] for row in found if row], "the best label comes first"
    assert not hasattr(fitted, "decision_function"), "a sparse matrix has no room for values below zero everywhere"
    assert not hasattr(fitted, "n_features_in_"), "texts have no features"


@pytest.mark.parametrize("form", [list, tuple, pd.Series, lambda y: np.array(y, dtype=object), lambda y: [set(r) for r in y]])  # fmt: skip # noqa: E501
def test_lists_in_every_wrapping(form: Any, fitted: LongtailClassifier) -> None:
    assert quick().fit(TEXTS, form(LABELS)).predict(NEW) == fitted.predict(NEW)


@pytest.mark.parametrize(
    "form", [np.asarray, lambda y: y.astype(bool), lambda y: y.astype(float), lambda y: y.tolist(), pd.DataFrame]
)
def test_a_dense_indicator_matrix(form: Any, fitted: LongtailClassifier) -> None:
    y = form(INDICATOR)
    found = quick().fit(TEXTS, y)
    predicted = found.predict(NEW)
    assert isinstance(predicted, np.ndarray) and predicted.dtype == np.asarray(y).dtype
    assert [sorted(row) for row in BINARY.inverse_transform(predicted)] == without_order(fitted.predict(NEW))
    assert found.classes_.tolist() == [0, 1, 2, 3]
    proba, decision = found.predict_proba(NEW), found.decision_function(NEW)
    assert isinstance(proba, np.ndarray) and ((proba > 0) & (proba < 1)).all()
    assert ((decision >= 0) == (predicted > 0)).all() and np.allclose(proba - 0.5, decision)
    assert average_precision_score(BINARY.transform(TRUTH), proba, average="micro") > 0.95


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.lil_matrix])
def test_a_sparse_indicator_matrix(kind: Any) -> None:
    found = quick().fit(TEXTS, kind(INDICATOR))
    predicted = found.predict(NEW)
    assert sp.issparse(predicted) and isinstance(predicted, sp.sparray) == (kind is sp.csr_array)
    assert predicted.dtype == INDICATOR.dtype
    assert (predicted.toarray() == quick().fit(TEXTS, INDICATOR).predict(NEW)).all()
    assert sp.issparse(found.predict_proba(NEW))
    assert f1_score(BINARY.transform(TRUTH), predicted, average="micro") == pytest.approx(found.score(NEW, kind(BINARY.transform(TRUTH))))  # fmt: skip # noqa: E501


@pytest.mark.parametrize("y", [SINGLE, np.array(SINGLE), pd.Series(SINGLE)])
def test_one_class_per_document(y: Any) -> None:
    found = quick().fit(TEXTS, y)
    predicted = found.predict(NEW)
    assert predicted.shape == (30,) and set(predicted) <= set(TOPICS)
    proba = found.predict_proba(NEW)
    assert proba.shape == (30, 4) and np.allclose(proba.sum(axis=1), 1)
    assert (found.classes_[proba.argmax(axis=1)] == predicted).all()
    assert found.score(TEXTS, y) > 0.7


def test_the_most_frequent_class_where_nothing_is_known_of_a_document() -> None:
    found = quick(learner="nearest-documents").fit(TEXTS, SINGLE)
    assert found.predict(["of no known word"]).tolist() == [max(set(SINGLE), key=SINGLE.count)]
    counts = [SINGLE.count(name) / 60 for name in TOPICS]
    assert found.predict_proba(["of no known word"])[0] == pytest.approx(counts)


def test_two_classes() -> None:
    y = np.array([labels[0] in ("fruit", "boats") for labels in LABELS])
    found = quick().fit(TEXTS, y)
    decision = found.decision_function(NEW)
    assert decision.shape == (30,) and ((decision > 0) == found.predict(NEW)).all()


def test_labels_that_are_numbers() -> None:
    numbers = [[list(TOPICS).index(name) + 10 for name in row] for row in LABELS]
    found = quick().fit(TEXTS, numbers)
    assert found.classes_.tolist() == [10, 11, 12, 13]
    assert {type(label) for row in found.predict(NEW) for label in row} == {int}


def test_lists_of_zeros_and_ones_are_a_matrix_only_where_they_may_be_one() -> None:
    ragged = [[0, 1] if len(row) == 2 else [1] for row in LABELS]
    assert quick().fit(TEXTS, ragged).form_.kind == "lists"
    assert quick().fit(TEXTS, INDICATOR.tolist()).form_.kind == "dense"


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (None, "y to be passed"),
        ([["a"], "b"] * 30, "lists of labels, and the text 'b' among them"),
        ([["a", 1]] * 60, "texts and numbers"),
        ([["a", 1.5]] * 60, "the value 1.5"),
        (["", "a"] * 30, "empty label"),
        ([[""], ["a"]] * 30, "empty label"),
        (np.full((60, 2), 3), "Unknown label type"),
        (sp.csr_matrix(INDICATOR * 0.5), "other values"),
        (LABELS[:10], "inconsistent numbers of samples"),
        (np.linspace(0, 1, 60), "Unknown label type"),
    ],
)
def test_targets_that_are_none(y: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        quick().fit(TEXTS, y)


# --- forms of X


@pytest.mark.parametrize(
    "form",
    [tuple, np.array, lambda x: np.array(x, dtype=object), pd.Series, lambda x: pd.DataFrame({"title": x}),
     lambda x: np.array(x, dtype=object)[:, None]],
)  # fmt: skip
def test_texts_in_every_wrapping(form: Any, fitted: LongtailClassifier) -> None:
    assert quick().fit(form(TEXTS), LABELS).predict(form(NEW)) == fitted.predict(NEW)


@pytest.mark.parametrize("form", [pd.DataFrame, lambda X: pd.DataFrame(X).to_numpy()])
def test_several_columns_of_texts_are_refused(form: Any) -> None:
    with pytest.raises(ValueError, match="X is a single text: put it into a list"):
        LongtailClassifier().fit("some text", ["a"])
    with pytest.raises(ValueError, match="several columns, with texts among them"):
        quick().fit(form({"title": TEXTS, "year": [2000] * 60}), LABELS)


def test_a_matrix_of_features() -> None:
    vectorizer = TfidfVectorizer()
    X, new = vectorizer.fit_transform(TEXTS), vectorizer.transform(NEW)
    sparse = LongtailClassifier(learner={"part": "parabel", "trees": 1}).fit(X, LABELS)
    assert sparse.n_features_in_ == 20 and sparse.score(new, TRUTH) > 0.9
    dense = clone(sparse).fit(X.toarray(), LABELS)
    assert dense.predict(new) == sparse.predict(new) == sparse.predict(new.toarray())
    with pytest.raises(ValueError, match="expecting 20 features"):
        sparse.predict(new[:, :3])
    with pytest.raises(ValueError, match="fitted on a matrix"):
        sparse.predict(NEW)
    again = sparse.fit(TEXTS, LABELS)
    assert not hasattr(again, "n_features_in_")
    with pytest.raises(ValueError, match="fitted on texts"):
        again.predict(new)
    assert again.predict([]) == []
    with pytest.raises(ValueError, match="as number 1"):
        again.predict(["a text", 3])


# --- what is predicted


def test_threshold_and_k_decide(fitted: LongtailClassifier) -> None:
    all_four = clone(fitted).set_params(threshold=0.0).fit(TEXTS, LABELS)
    assert {len(row) for row in all_four.predict(NEW)} == {4}
    assert {len(row) for row in all_four.set_params(k=2).predict(NEW)} == {2}
    assert all_four.predict_proba(NEW).nnz == 60
    strict = clone(fitted).set_params(threshold=np.float32(1.0)).fit(TEXTS, LABELS)
    assert sum(map(len, strict.predict(NEW))) < sum(map(len, fitted.predict(NEW)))


def test_the_threshold_is_chosen_on_documents_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[int] = []
    fit = Tagger.fit
    monkeypatch.setattr(Tagger, "fit", lambda self, corpus: (fits.append(len(corpus)), fit(self, corpus))[1])
    noisy = [labels if number % 3 else ["fruit"] for number, labels in enumerate(LABELS)]  # scores are low
    chosen = quick(threshold="auto").fit(TEXTS, noisy)
    assert fits == [48, 60] and 0 < chosen.threshold_ < 1
    assert chosen.score(NEW, TRUTH) > quick(threshold=0.95).fit(TEXTS, noisy).score(NEW, TRUTH)
    assert quick(threshold="auto").fit(TEXTS, noisy).threshold_ == chosen.threshold_
    fits.clear()
    assert quick(threshold="auto").fit(TEXTS[:49], noisy[:49]).threshold_ == USUAL, "too few to hold some out"
    quick(threshold=0.3).fit(TEXTS, noisy)
    quick(threshold="auto").fit(TEXTS, SINGLE)
    assert fits == [49, 60, 60], "nothing to choose, no second model"
    assert chosen.set_params(threshold=0.0, k=3).predict(NEW[:1])[0] != [] and len(chosen.predict(NEW[:1])[0]) == 3


def test_the_best_threshold_by_hand() -> None:
    ids = np.array([[0, 1], [1, 0], [0, -1]], dtype=np.int32)
    values = np.array([[0.9, 0.6], [0.8, 0.2], [0.4, 0]], dtype=np.float32)
    Y = sp.csr_matrix(np.array([[1, 0], [0, 1], [1, 0]], dtype=np.float32))
    truth = Corpus(labels=LabelIndex(["a", "b"]), Y=Y, texts=["", "", ""])
    # by score: 0.9 right, 0.8 right, 0.6 wrong, 0.4 right, 0.2 wrong; F1 = 2/4, 4/5, 4/6, 6/7, 6/8
    assert best_threshold(Scores(ids, values), truth) == pytest.approx(0.3)
    nothing = Corpus(labels=truth.labels, Y=sp.csr_matrix((3, 2), dtype=np.float32), texts=["", "", ""])
    assert best_threshold(Scores(ids, values), nothing) == USUAL
    ties = Scores(ids, np.where(ids < 0, 0, np.float32(0.5)))
    assert best_threshold(ties, truth) == pytest.approx(0.25), "equal scores are all predicted or none"


def test_score_is_micro_f1(fitted: LongtailClassifier) -> None:
    wanted = f1_score(BINARY.transform(TRUTH), BINARY.transform(fitted.predict(NEW)), average="micro")
    assert fitted.score(NEW, TRUTH) == pytest.approx(wanted)
    more = [[*row, "never seen"] for row in TRUTH]
    assert fitted.score(NEW, more) < fitted.score(NEW, TRUTH), "a label nobody knows is missed"
    weights = np.r_[np.ones(10), np.zeros(20)]
    assert fitted.score(NEW, TRUTH, weights) == pytest.approx(fitted.score(NEW[:10], TRUTH[:10]))
    with pytest.raises(ValueError, match="fitted with 'lists'"):
        fitted.score(NEW, BINARY.transform(TRUTH))


def test_seed_and_threads_reach_the_tagger(fitted: LongtailClassifier) -> None:
    other = quick(seed=7, threads=2).fit(TEXTS, LABELS).tagger_
    assert (other.seed, other.threads) == (7, 2)
    assert isinstance(fitted.tagger_, Tagger) and list(fitted.tagger_.labels_.names) == list(TOPICS)


# --- within scikit-learn


def test_in_a_pipeline() -> None:
    pipeline = make_pipeline(TfidfVectorizer(), LongtailClassifier(learner="parabel"))
    assert pipeline.fit(TEXTS, INDICATOR).score(NEW, BINARY.transform(TRUTH)) > 0.9
    pipeline.set_params(longtailclassifier__learner__trees=1)
    assert pipeline.fit(TEXTS, INDICATOR)[-1].tagger_.learner.trees == 1


def test_cross_validation() -> None:
    assert cross_val_score(quick(), TEXTS, INDICATOR, cv=3, scoring="f1_micro").min() > 0.8
    assert cross_val_score(quick(), TEXTS, LABELS, cv=KFold(3)).min() > 0.8
    assert cross_val_score(quick(), np.array(TEXTS), np.array(SINGLE), cv=3).min() > 0.5
    proba = cross_val_predict(quick(), TEXTS, INDICATOR, cv=3, method="predict_proba")
    assert average_precision_score(INDICATOR, proba, average="micro") > 0.9


def test_grid_search_over_options_of_parts() -> None:
    grid = {"learner__trees": [1, 2], "features__ngrams": [1, 2], "threshold": [0.3, 0.999]}
    search = GridSearchCV(quick(), grid, cv=2, scoring="f1_micro").fit(TEXTS, INDICATOR)
    assert search.best_params_["threshold"] == 0.3
    best = search.best_estimator_.tagger_
    assert best.learner.trees == search.best_params_["learner__trees"]
    assert best.features.ngrams == search.best_params_["features__ngrams"]
    sparse = GridSearchCV(quick(), {"threshold": [0.3, 0.999]}, cv=2).fit(TEXTS, sp.csr_matrix(INDICATOR))
    assert sparse.best_params_["threshold"] == 0.3
    learners = GridSearchCV(quick(), {"learner": ["parabel", "one-vs-all"]}, cv=2, n_jobs=2).fit(TEXTS, INDICATOR)
    assert len(learners.cv_results_["params"]) == 2


def test_chained_with_others() -> None:
    chain = ClassifierChain(LongtailClassifier(learner="one-vs-all"), cv=2)
    X = TfidfVectorizer().fit_transform(TEXTS)
    assert chain.fit(X, INDICATOR).predict(X).shape == INDICATOR.shape


def test_clone_keeps_parameters_and_nothing_learnt(fitted: LongtailClassifier) -> None:
    again = clone(fitted)
    assert again.get_params() == fitted.get_params() and not hasattr(again, "tagger_")
    with pytest.raises(NotFittedError):
        again.predict(NEW)
    part = Parabel(trees=1)
    held = clone(quick(learner=part)).fit(TEXTS, LABELS)
    assert held.learner is not part and not hasattr(held.learner, "n_labels_"), "parameters are not fitted"
    assert held.predict(NEW) == fitted.predict(NEW)


# --- parameters


def test_options_inside_parts_are_parameters() -> None:
    ensemble = {"part": "ensemble", "members": ["parabel", {"part": "bonsai", "trees": 2}]}
    estimator = quick(learner=ensemble, rerank=["inverse-propensity"])
    params = estimator.get_params()
    assert params["learner__members__1__trees"] == 2 and params["learner__members__0__trees"] == 3
    assert params["features__min_df"] == 1 and params["rerank__0__strength"] == 1.0
    estimator.set_params(learner__members__0__trees=1, rerank__0__strength=0.25, features__ngrams=2)
    assert estimator.learner["members"][0] == {"part": "parabel", "trees": 1}
    assert ensemble["members"][0] == "parabel", "what was given stays as it is"
    fitted = estimator.fit(TEXTS, LABELS).tagger_
    assert fitted.learner.members[0].trees == 1 and fitted.rerank[0].strength == 0.25
    assert LongtailClassifier().set_params(features__ngrams=2).features["ngrams"] == 2
    assert LongtailClassifier(Parabel(trees=4)).set_params(learner__max_leaf=50).learner == Parabel(trees=4, max_leaf=50)  # fmt: skip # noqa: E501


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"learner__tres": 1}, "did you mean 'trees'"),
        ({"nothing": 1}, "Invalid parameter 'nothing'"),
        ({"augment__0__share": 1}, "none of the 0 parts"),
        ({"features": None, "features__ngrams": 1}, "no part"),
        ({"learner": "bonzai", "learner__trees": 1}, "did you mean 'bonsai'"),
        ({"learner": Parabel(), "learner__tres": 1}, "did you mean 'trees'"),
    ],
)
def test_parameters_that_are_none(params: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LongtailClassifier().set_params(**params)


def test_what_a_tagger_refuses_is_said_when_fitted() -> None:
    with pytest.raises(UsageError, match="did you mean 'bonsai'"):
        LongtailClassifier("bonzai").fit(TEXTS, LABELS)
    with pytest.raises(UsageError, match="trees must be at least 1"):
        LongtailClassifier().set_params(learner__trees=0).fit(TEXTS, LABELS)
    for wrong in ({"k": 0}, {"k": 2.5}, {"threshold": 2}, {"threshold": "best"}, {"threshold": None}):
        with pytest.raises(ValueError, match=r"k must be a whole number|threshold must be 'auto'"):
            quick(**wrong).fit(TEXTS, LABELS)


def test_from_a_recipe(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('[learner]\npart = "parabel"\ntrees = 1\n[features]\npart = "tfidf"\nmin_df = 1\n')
    found = LongtailClassifier.from_recipe(str(recipe), threads=1)
    assert found.get_params()["learner__trees"] == 1 and found.threads == 1
    assert found.fit(TEXTS, LABELS).predict(NEW) == quick().fit(TEXTS, LABELS).predict(NEW)


# --- keeping


@pytest.mark.parametrize("y", [LABELS, INDICATOR, sp.csr_array(INDICATOR), SINGLE])
def test_pickled(y: Any, tmp_path: Path) -> None:
    before = quick().fit(TEXTS, y)
    joblib.dump(before, tmp_path / "model.joblib")
    for after in (pickle.loads(pickle.dumps(before)), joblib.load(tmp_path / "model.joblib"), copy.deepcopy(before)):
        assert str(after.predict(NEW)) == str(before.predict(NEW))
        assert type(after.predict_proba(NEW)) is type(before.predict_proba(NEW))
        assert str(pickle.loads(pickle.dumps(after)).predict(NEW)) == str(before.predict(NEW))


def test_a_pickle_holds_the_files_of_a_model_directory(fitted: LongtailClassifier, tmp_path: Path) -> None:
    state = fitted.__getstate__()
    fitted.tagger_.save(tmp_path / "model")
    assert state["tagger_"] == {file.name: file.read_bytes() for file in (tmp_path / "model").iterdir()}
    damaged = state["tagger_"]["learner.safetensors"]
    state["tagger_"]["learner.safetensors"] = damaged[:-1] + bytes([damaged[-1] ^ 1])
    with pytest.raises(ModelError):
        LongtailClassifier().__setstate__(state)


def test_a_fit_that_fails_leaves_nothing_to_predict_with() -> None:
    estimator = quick().fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="empty label"):
        estimator.fit(TEXTS, [""] * 60)
    with pytest.raises(NotFittedError):
        estimator.predict(NEW)
