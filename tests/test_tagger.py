"""Tagger: texts in, label names out, every part in its turn, and the same again after saving and loading."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from longtail.augment.base import Augmenter
from longtail.capabilities import Capabilities
from longtail.corpus import Corpus
from longtail.errors import ModelError, UsageError
from longtail.fit import Fit
from longtail.keep.model import load_model, save_model
from longtail.labels import LabelIndex
from longtail.learners.base import Learner
from longtail.learners.linear.label_tree import Parabel
from longtail.part import option
from longtail.rerank.base import Reranker
from longtail.run import Run
from longtail.scores import Scores
from longtail.tagger import Tagger

SHORTLIST = 100
MIN_DF = {"part": "tfidf", "min_df": 1}

TOPICS = {
    "fruit": "apple banana cherry orchard juice",
    "music": "guitar piano chord melody concert",
    "boats": "sail harbour anchor deck mast",
    "stars": "telescope orbit comet galaxy lens",
}


def little_corpus(n: int = 60, seed: int = 0) -> Corpus:
    """Documents of one or two topics, five words each."""
    rng = np.random.default_rng(seed)
    names = list(TOPICS)
    texts, Y = [], np.zeros((n, len(names)), dtype=np.float32)
    for row in range(n):
        chosen = rng.choice(len(names), size=rng.integers(1, 3), replace=False)
        Y[row, chosen] = 1
        texts.append(" ".join(" ".join(rng.choice(TOPICS[names[c]].split(), size=5)) for c in chosen))
    return Corpus(labels=LabelIndex(names), Y=sp.csr_matrix(Y), texts=texts, name="little").counted()


def quick(**given: Any) -> Tagger:
    return Tagger({"part": "parabel", "trees": 1}, **{"features": {"part": "tfidf", "min_df": 1}, **given})


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return quick().fit(little_corpus())


# --- stand-ins that remember what they were given


@dataclass(kw_only=True)
class Counter(Learner):
    """Scores every label by its share of the weighted targets; remembers the corpus it was fitted on."""

    opens: str = option("", "one more space to open")
    reads: ClassVar[str] = "X"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(needs=(self.reads,), spaces=("texts", "features", self.opens))

    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        self.seen_, self.valid_, self.hooks_ = corpus, fit.valid, list(fit.hooks)
        self.share_ = np.asarray(corpus.Y.mean(axis=0)).ravel()
        self.n_labels_, self.n_features_ = corpus.n_labels, None
        return self

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        self.scored_, self.k_ = corpus, k
        return Scores.from_csr(sp.csr_matrix(np.tile(self.share_, (len(corpus), 1))), k)


@dataclass(kw_only=True)
class Reader(Counter):
    reads: ClassVar[str] = "texts"


@dataclass(kw_only=True)
class AddRow(Augmenter):
    space: ClassVar[str] = "texts"
    text: str = option("newword", "text of the row added")

    def apply(self, corpus: Corpus, run: Run) -> Corpus:
        return corpus.with_rows(texts=[self.text], Y=corpus.Y[:1], ids=["added"])


@dataclass(kw_only=True)
class Double(Augmenter):
    space: ClassVar[str] = "features"

    def apply(self, corpus: Corpus, run: Run) -> Corpus:
        return replace(corpus, X=sp.csr_matrix(corpus.features * 2))


@dataclass(kw_only=True)
class Hook(Augmenter):
    space: ClassVar[str] = "hidden"


@dataclass(kw_only=True)
class Reverse(Reranker):
    def fit(self, scores: Scores, corpus: Corpus, *, run: Run | None = None) -> Self:
        self.seen_ = (scores, corpus)
        return self

    def rerank(self, scores: Scores, corpus: Corpus) -> Scores:
        self.reranked_ = corpus
        return Scores(scores.ids, np.where(scores.ids < 0, 0, 1 - scores.values).astype(np.float32)).sorted()


# --- predicting


def test_predicts_names(tagger: Tagger) -> None:
    (best,) = tagger.predict(["a telescope for the comet"], k=2)
    assert best[0].label == best[0].text == "stars"
    assert 0 < best[1].score <= best[0].score <= 1
    both = tagger.predict(["apple juice by the harbour, anchor and sail, banana and cherry"], k=2)[0]
    assert {name for name, _, _ in both} == {"fruit", "boats"}


def test_more_labels_asked_for_than_there_are(tagger: Tagger) -> None:
    assert len(tagger.predict(["guitar"], k=50)[0]) <= len(TOPICS)
    # padding up to k would take memory for each document
    assert tagger.score(Corpus.unlabelled(tagger.labels_, 1, texts=["guitar"]), 1 << 40).k == len(TOPICS)


def test_nothing_to_predict(tagger: Tagger) -> None:
    assert tagger.predict([]) == []
    assert len(tagger.predict(["", "word that nobody knows"])) == 2


def test_what_is_not_a_list_of_texts_is_refused(tagger: Tagger) -> None:
    with pytest.raises(UsageError, match=r'a single text goes into a list, as in \["some text"\]'):
        tagger.predict("guitar")
    with pytest.raises(UsageError, match="document 1 is the value 3, not a text"):
        tagger.predict(["guitar", 3])
    for k in (0, -1, 1.5, True):
        with pytest.raises(UsageError, match="k must be a whole number of at least 1"):
            tagger.predict(["guitar"], k=k)  # type: ignore[arg-type]


def test_fitted_and_asked_with_what_people_have() -> None:
    corpus, test = little_corpus(), little_corpus(20, seed=1)
    wanted = quick().fit(corpus)
    subjects = [[corpus.labels.names[c] for c in row.indices] for row in corpus.Y]
    truth = [[test.labels.names[c] for c in row.indices] for row in test.Y]
    frame = pd.DataFrame({"title": corpus.texts, "subjects": subjects})
    new = pd.DataFrame({"title": test.texts, "subjects": truth}, index=[f"book {n}" for n in range(20)])
    for tagger in (
        quick().fit(corpus.texts, subjects),
        quick().fit(frame, text="title", labels="subjects"),
        quick().fit(frame["title"], frame["subjects"]),
        quick().fit(frame.to_dict("records"), text="title", labels="subjects", valid=new),
        quick().fit(corpus.texts, [" | ".join(row) for row in subjects], separator="|", valid=(test.texts, truth)),
    ):
        found = tagger.predict(new, text="title")
        assert found == tagger.predict(test.texts) == wanted.predict(test)
        assert found.ids == new.index.tolist()
        report = tagger.evaluate(new, text="title", labels="subjects")
        assert report.to_dict() == tagger.evaluate(test.texts, truth).to_dict() == wanted.evaluate(test).to_dict()
    assert quick().fit(frame, text="title", labels="subjects", valid=new).labels_.documents == 60
    with pytest.raises(UsageError, match="no column 'text' in the DataFrame"):
        wanted.predict(new)
    with pytest.raises(UsageError, match="text has no use here"):
        wanted.predict(test, text="title")
    with pytest.raises(UsageError, match="the labels are missing"):
        wanted.evaluate(test.texts)


def test_features_are_given_as_a_matrix() -> None:
    corpus = little_corpus()
    X = quick().fit(corpus).features.transform(corpus.texts)
    subjects = [[corpus.labels.names[c] for c in row.indices] for row in corpus.Y]
    tagger = Tagger({"part": "parabel", "trees": 1}).fit(X, subjects)
    assert tagger.predict(X, 3) == tagger.predict(X.toarray(), 3)
    assert tagger.predict(X, 3) == tagger.predict(replace(corpus, texts=None, X=X), 3)
    assert tagger.evaluate(X, subjects)["P@1"] > 95
    with pytest.raises(UsageError, match="the matrix has 3 features"):
        tagger.predict(X[:, :3])


def test_labels_go_by_their_texts(tmp_path: Path) -> None:
    corpus = little_corpus()
    names = {"stars": "Astronomy", "music": "Music and song", "unknown": "left aside"}
    subjects = [[corpus.labels.names[c] for c in row.indices] for row in corpus.Y]
    tagger = quick().fit(corpus.texts, subjects, label_texts=names)
    tagger.save(tmp_path / "model")
    for each in (tagger, Tagger.load(tmp_path / "model")):
        best = {found.label: found.text for labels in each.predict(["telescope", "guitar"], 4) for found in labels}
        assert best == {"stars": "Astronomy", "music": "Music and song", "fruit": "fruit", "boats": "boats"}
        assert each.predict(["telescope"], 4)[0] == each.predict(["telescope", ""], 4)[0], "whichever way it goes"


def test_texts_for_labels_of_a_model_without(tagger: Tagger, tmp_path: Path) -> None:
    named = tagger.with_label_texts({"stars": "Astronomy"})
    asked = ["telescope comet", "guitar piano"]
    assert [labels[0].text for labels in named.predict(asked)] == ["Astronomy", "music"]
    assert [labels[0].text for labels in tagger.predict(asked)] == ["stars", "music"], "the model given stays as it is"
    assert [[(each.label, each.score) for each in labels] for labels in named.predict(asked)] == [
        [(each.label, each.score) for each in labels] for labels in tagger.predict(asked)
    ]
    named.save(tmp_path / "named")
    assert Tagger.load(tmp_path / "named").predict(asked) == named.predict(asked)
    with pytest.raises(UsageError, match="no name in common"):
        tagger.with_label_texts({"planets": "Planets"})
    with pytest.raises(UsageError, match="not trained yet"):
        quick().with_label_texts({"stars": "Astronomy"})


def test_untrained() -> None:
    with pytest.raises(UsageError, match="not trained yet"):
        quick().predict(["x"])
    with pytest.raises(UsageError, match="not trained yet"):
        quick().save("never")


def test_evaluate_matches_by_name(tagger: Tagger) -> None:
    test = little_corpus(40, seed=1)
    report = tagger.evaluate(test)
    assert report["P@1"] > 95
    order = np.array([2, 0, 3, 1])
    shuffled = Corpus(labels=test.labels.take(order), Y=sp.csr_matrix(test.Y[:, order]), texts=test.texts)
    assert tagger.evaluate(shuffled).to_dict() == report.to_dict()


def test_evaluate_with_labels_never_seen(tagger: Tagger) -> None:
    test = little_corpus(40, seed=1)
    Y = sp.csr_matrix(sp.hstack([test.Y, np.ones((40, 1), dtype=np.float32)]))
    more = Corpus(labels=LabelIndex([*TOPICS, "unheard"]), Y=Y, texts=test.texts).counted()
    known, everything = tagger.evaluate(more), tagger.evaluate(more, all_labels=True)
    assert known["R@5"] > everything["R@5"]
    assert len(everything.labels) == 5 and len(known.labels) == 4


def test_evaluate_looks_past_reciprocal_pairs() -> None:
    """With k=1 and the best label taken out, the second one must still be there to be counted."""
    corpus = little_corpus()
    fitted = quick().fit(corpus)
    first = fitted.score(corpus, 2).ids
    two = np.flatnonzero(
        (np.diff(corpus.Y.indptr) == 2) & (np.asarray(corpus.Y[np.arange(60), first[:, 1]]).ravel() > 0)
    )
    rows = corpus.rows(two)
    own = sp.csr_matrix((np.ones(len(two), bool), (np.arange(len(two)), first[two, 0])), (len(two), 4))
    report = fitted.evaluate(replace(rows, reciprocal=own), ks=(1,))
    assert report["P@1"] == 100


# --- fitting


def test_order_of_the_parts() -> None:
    corpus = little_corpus()
    before = (list(corpus.texts or []), corpus.Y.data.tobytes(), corpus.labels.frequency.tobytes())
    learner, reverse = Counter(), Reverse()
    fitted = Tagger(learner, features=MIN_DF, augment=[Double(), AddRow()], rerank=[reverse]).fit(corpus)
    assert (list(corpus.texts or []), corpus.Y.data.tobytes(), corpus.labels.frequency.tobytes()) == before
    assert len(learner.seen_) == 61, "the text augmenter's row is trained on"
    assert "newword" in fitted.features.terms_, "and its word is in the vocabulary"
    assert learner.seen_.X is not None
    assert sp.linalg.norm(learner.seen_.X[0]) == pytest.approx(2, rel=1e-5), "features are augmented once made"
    assert fitted.labels_.frequency.tolist() == corpus.labels.frequency.tolist(), "counts are those of the data"
    assert fitted.labels_.documents == 60
    shortlist, plain = reverse.seen_
    assert len(plain) == 60 and shortlist.k == SHORTLIST, "re-rankers learn from the documents themselves"
    assert sp.linalg.norm(plain.X[0]) == pytest.approx(1, rel=1e-5)


def test_rerankers_choose_from_a_shortlist() -> None:
    fitted = Tagger(Counter(), features=MIN_DF, rerank=[Reverse()]).fit(little_corpus())
    rarest = int(np.argmin(fitted.learner.share_))
    scores = fitted.score(Corpus.unlabelled(fitted.labels_, 1, texts=["anything"]), 1)
    assert fitted.learner.k_ == SHORTLIST
    assert scores.k == 1 and scores.ids[0, 0] == rarest
    assert list(fitted.rerank[0].reranked_.texts) == ["anything"], "a re-ranker sees the documents"


def test_a_rerankers_depth_is_its_own_and_longer_lists_begin_alike() -> None:
    fitted = Tagger(Counter(), features=MIN_DF, rerank=[Reverse(depth=2)]).fit(little_corpus())
    order = np.argsort(-fitted.learner.share_, kind="stable")
    scores = fitted.score(Corpus.unlabelled(fitted.labels_, 1, texts=["anything"]), 4)
    assert scores.ids[0].tolist() == [order[1], order[0], order[2], order[3]], "two are re-ranked, the rest follows"
    assert (np.diff(scores.values[0]) <= 0).all()
    assert fitted.score(Corpus.unlabelled(fitted.labels_, 1, texts=["anything"]), 1).ids[0, 0] == order[1]


def test_validation_data_is_aligned_and_featurised() -> None:
    corpus, valid = little_corpus(), little_corpus(10, seed=4)
    order = np.array([3, 1, 0, 2])
    valid = Corpus(labels=valid.labels.take(order), Y=sp.csr_matrix(valid.Y[:, order]), texts=valid.texts)
    fitted = Tagger(Counter(), features=MIN_DF).fit(corpus, valid=valid)
    seen = fitted.learner.valid_
    assert list(seen.labels.names) == list(TOPICS)
    assert seen.X.shape == (10, fitted.n_features_)


def test_spaces_that_do_not_fit_are_refused_at_once() -> None:
    with pytest.raises(UsageError, match="'Hook' works in the space 'hidden', which 'parabel' does not open"):
        quick(augment=[Hook()])
    opened = Tagger(Counter(opens="hidden"), augment=[Hook()]).fit(little_corpus())
    assert opened.learner.hooks_ == opened.augment


def test_the_refusal_names_learners_that_would_do() -> None:
    @dataclass(kw_only=True)
    class Closed(Parabel):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(needs=("X",))

    with pytest.raises(UsageError, match=r"learners that do: 'one-vs-all', 'parabel', 'bonsai'"):
        Tagger(Closed(), augment=[AddRow()])


def test_lists_and_kinds() -> None:
    with pytest.raises(UsageError, match="augment takes a list"):
        Tagger(augment="gandalf")
    with pytest.raises(UsageError, match="did you mean 'bonsai'"):
        Tagger("bonzai")
    with pytest.raises(UsageError, match="'Reverse' is not a learner"):
        Tagger(Reverse())


def test_corpora_that_lack_something() -> None:
    corpus = little_corpus()
    with pytest.raises(UsageError, match="has no documents to learn from"):
        quick().fit(corpus.rows(np.zeros(0, dtype=int)))
    with pytest.raises(UsageError, match="has no labels to learn from"):
        quick().fit(replace(corpus, Y=sp.csr_matrix(corpus.Y.shape, dtype=np.float32)))
    with pytest.raises(UsageError, match="neither texts nor features"):
        quick().fit(replace(corpus, texts=None))
    with pytest.raises(UsageError, match="use features='tfidf'"):
        quick(features=None).fit(corpus)
    with pytest.raises(UsageError, match="has no use for features"):
        Tagger(Reader(), features="tfidf")
    with pytest.raises(UsageError, match="reads texts"):
        Tagger(Reader()).fit(replace(corpus, texts=None, X=sp.csr_matrix(np.eye(60, 5, dtype=np.float32))))
    reads = Tagger(Reader()).fit(corpus)
    assert reads.n_features_ is None and reads.learner.seen_.X is None, "no features for a learner that reads none"


def test_features_of_ones_own(tmp_path: Path) -> None:
    corpus = little_corpus()
    X = quick().fit(corpus).features.transform(corpus.texts)
    own = replace(corpus, texts=None, X=X)
    fitted = Tagger({"part": "parabel", "trees": 1}).fit(own)
    assert fitted.evaluate(own)["P@1"] > 95
    fitted.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model")
    assert again.predict(own, 3) == fitted.predict(own, 3)
    with pytest.raises(UsageError, match=r"little has 3 features, the model has \d+"):
        again.score(replace(own, X=X[:, :3]), 1)
    with pytest.raises(UsageError, match="give it a corpus with X"):
        again.predict(["guitar"])
    broken = X.copy()
    broken.data[0] = np.nan
    with pytest.raises(UsageError, match="not finite"):
        Tagger("parabel").fit(replace(own, X=broken))


# --- keeping


def test_save_and_load(tagger: Tagger, tmp_path: Path) -> None:
    path = tmp_path / "model"
    tagger.save(path)
    again = Tagger.load(path)
    texts = [*little_corpus(20, seed=9).texts, ""]
    assert again.predict(texts, 4) == tagger.predict(texts, 4)
    assert repr(again) == repr(tagger)
    assert list(again.labels_.names) == list(tagger.labels_.names)
    assert again.labels_.frequency.tolist() == tagger.labels_.frequency.tolist()
    assert Tagger.load(path, verify=False).predict(texts) == tagger.predict(texts)
    with pytest.raises(UsageError, match="exists; overwrite=True replaces it"):
        tagger.save(path)
    tagger.save(path, overwrite=True)


def test_same_seed_same_bytes_for_any_number_of_threads(tmp_path: Path) -> None:
    def saved(name: str, **given: Any) -> dict[str, bytes]:
        Tagger("parabel", features={"part": "tfidf", "min_df": 1}, **given).fit(little_corpus()).save(tmp_path / name)
        return {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()}

    one = saved("one", seed=5, threads=1)
    assert saved("two", seed=5, threads=2) == one
    assert saved("three", seed=5, threads=3) == one


def test_loading_refuses_what_does_not_fit_together(tagger: Tagger, tmp_path: Path) -> None:
    tagger.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")

    def refused(message: str, *, manifest: Any = None, labels: Any = None, states: Any = None) -> None:
        path = tmp_path / "bad"
        save_model(
            path,
            manifest=loaded.manifest if manifest is None else manifest,
            labels=loaded.labels if labels is None else labels,
            states=loaded.states if states is None else states,
            overwrite=True,
        )
        with pytest.raises(ModelError, match=message) as caught:
            Tagger.load(path)
        assert "\n" not in str(caught.value)

    config = loaded.manifest["config"]
    refused("has no 'config'", manifest={k: v for k, v in loaded.manifest.items() if k != "config"})
    refused("unknown learner 'os.system'", manifest={**loaded.manifest, "config": {**config, "learner": "os.system"}})
    unknown = {**config, "learner": {**config["learner"], "treez": 3}}
    refused("has no option 'treez'", manifest={**loaded.manifest, "config": unknown})
    refused("configuration needs", manifest={**loaded.manifest, "config": {**config, "threads": 3}})
    refused("configuration needs", manifest={**loaded.manifest, "config": "parabel"})
    refused("not a number", manifest={**loaded.manifest, "n_features": -1})
    refused("the learner has", manifest={**loaded.manifest, "n_features": 3})
    refused("labels", labels=loaded.labels.take(np.arange(2)))
    refused("are needed", states={"learner": loaded.states["learner"]})
    refused("does not fit its part", states={**loaded.states, "learner": {}})


def test_missing_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        Tagger.load(tmp_path / "gone")


def test_repr_is_what_one_would_write() -> None:
    assert repr(Tagger()) == "Tagger(learner='bonsai')"
    shown = repr(Tagger({"part": "parabel", "trees": 1}, features=None, seed=3))
    assert shown == "Tagger(learner={'part': 'parabel', 'trees': 1}, features=None, seed=3)"
    assert repr(eval(shown)) == shown
    nested = Tagger({"part": "ensemble", "members": ["bonsai", {"part": "parabel", "trees": 2}]})
    inside = "{'part': 'ensemble', 'members': ['bonsai', {'part': 'parabel', 'trees': 2}]}"
    assert repr(nested) == f"Tagger(learner={inside})", "parts inside parts without their defaults"
    assert repr(Tagger({"part": "decoupled", "learner": "bonsai"})) == "Tagger(learner='decoupled')"


def test_clone_is_unfitted_and_equal(tagger: Tagger) -> None:
    given = quick(augment=[AddRow(text="another")], rerank=[Reverse()], seed=2).fit(little_corpus())
    copy = clone(given)
    assert repr(copy) == repr(given)
    assert not hasattr(copy, "labels_") and hasattr(given, "labels_")
    assert copy.augment[0] is not given.augment[0]


def test_columns_no_training_document_has_are_left_out_of_the_truth_unless_asked_for() -> None:
    """As numbered columns of XMC files have them: the same protocol as for names that only the test file has."""
    corpus = little_corpus()
    wide = Corpus(labels=LabelIndex([*TOPICS, "never"]), Y=sp.csr_matrix(sp.hstack([corpus.Y, np.zeros((60, 1))])),
                  texts=corpus.texts)  # fmt: skip
    fitted = quick().fit(wide)
    test_Y = sp.csr_matrix(sp.hstack([corpus.Y, np.ones((60, 1))]))
    test = Corpus(labels=wide.labels, Y=test_Y, texts=corpus.texts)
    assert fitted.evaluate(test)["R@5"] == pytest.approx(quick().fit(corpus).evaluate(corpus)["R@5"])
    assert fitted.evaluate(test, all_labels=True)["R@5"] < fitted.evaluate(test)["R@5"]


def test_features_asked_for_by_name_are_made_and_a_corpus_that_brings_x_keeps_it_else() -> None:
    corpus = little_corpus()
    X = sp.csr_matrix(np.random.default_rng(0).random((60, 7), dtype=np.float32))
    both = replace(corpus, X=X)
    assert Tagger("parabel").fit(both).n_features_ == 7
    made = Tagger("parabel", features="tfidf").fit(both)
    assert made.n_features_ != 7 and made.predict(both, 3) == made.predict(list(corpus.texts), 3)


def test_a_threshold_leaves_out_labels_that_score_less(tagger: Tagger) -> None:
    (every,) = tagger.predict(["guitar and piano"], k=4)
    (some,) = tagger.predict(["guitar and piano"], k=4, threshold=0.5)
    assert some == [each for each in every if each.score >= 0.5] and 0 < len(some) < len(every)
    with pytest.raises(UsageError, match="between 0 and 1"):
        tagger.predict(["guitar"], threshold=2)


def with_x(corpus: Corpus, width: int) -> Corpus:
    rng = np.random.default_rng(0)
    return replace(corpus, X=sp.csr_matrix(rng.random((len(corpus), width), dtype=np.float32)))


def test_a_second_fit_is_that_of_a_new_tagger() -> None:
    corpus = little_corpus()
    both = with_x(corpus, 7)
    again = quick(features="auto").fit(corpus).fit(both)
    assert again.n_features_ == 7, "features auto keep the X that the second corpus brings"
    new = quick(features="auto").fit(corpus)
    texts = quick(features="auto").fit(replace(both, texts=None)).fit(corpus)
    np.testing.assert_array_equal(texts.score(corpus, 3).values, new.score(corpus, 3).values)
    named = quick(features="tfidf").fit(corpus).fit(both)
    assert named.n_features_ == new.n_features_, "features asked for by name are made each time"


def test_a_pipeline_inside_that_keeps_the_x_of_the_corpus_can_be_loaded(tmp_path: Path) -> None:
    both = with_x(little_corpus(), 7)
    made = Tagger({"part": "pipeline", "learner": {"part": "parabel", "trees": 1}}).fit(both)
    made.save(tmp_path / "model")
    loaded = Tagger.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.score(both, 3).values, made.score(both, 3).values)
    with pytest.raises(UsageError, match="features"):
        loaded.score(with_x(little_corpus(), 8), 3)


def test_nothing_but_masked_pairs_is_nothing_to_learn_from() -> None:
    corpus = little_corpus()
    with pytest.raises(UsageError, match="no labels to learn from"):
        Tagger("one-vs-all").fit(replace(corpus, pair_weight=np.zeros(corpus.Y.nnz, dtype=np.float32)))


def test_stages_of_an_evaluation_do_not_overlap(tagger: Tagger) -> None:
    run = Run()
    start = time.perf_counter()
    tagger.evaluate(little_corpus(), run=run)
    assert {"features", "predict", "evaluate"} <= set(run.seconds)
    assert sum(run.seconds.values()) <= time.perf_counter() - start
