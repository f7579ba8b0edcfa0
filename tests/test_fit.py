"""Fit: what is handed down, nested fits with seeds of their own, and what a killed run does not do again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail import fit as fits
from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.fit import Fit
from longtail.labels import LabelIndex
from longtail.learners.linear.label_tree import Parabel
from longtail.registry import build
from longtail.run import Run
from longtail.tagger import Tagger

ONE = {"part": "parabel", "trees": 1}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return synthetic(documents=200, labels=40, words=200, texts=True, seed=3)


def test_children_have_seeds_folders_and_titles_of_their_own(tmp_path: Path) -> None:
    titles: list[str] = []

    class Noted:
        def bar(self, title: str, total: float | None) -> Any:
            titles.append(title)
            return Run().bar(title, total)

    fit = Fit(Run(seed=5, threads=2, progress=Noted(), checkpoints=tmp_path))
    first, again, second = fit.child("member/0"), fit.child("member/0"), fit.child("member/1")
    assert first.run.seed == again.run.seed != second.run.seed
    assert first.run.checkpoints == tmp_path / "member-0" and second.child("tree/2").run.checkpoints == (
        tmp_path / "member-1" / "tree-2"
    )
    assert first.run.threads == 2
    with second.child("tree/2").run.bar("Training", 3):
        pass
    assert titles == ["member 1: tree 2: Training"]
    with first.run.stage("train"):
        pass
    assert "train" in fit.run.seconds, "stages of a child count in its parent"
    with first.apart().run.stage("rerank"):
        pass
    assert "rerank" not in fit.run.seconds, "unless it has a clock of its own"


def test_the_key_knows_all_that_a_fit_learns_from(corpus: Corpus) -> None:
    fit = Fit(Run(seed=1))
    base = fit.key("part", corpus)
    assert base == fit.key("part", replace(corpus, name="another name for the same"))
    texts = list(corpus.texts or [])
    labels = corpus.labels
    renamed = LabelIndex(labels.names, ["other text", *list(labels.texts or labels.names)[1:]], labels.counts, 200)
    weight = np.ones(corpus.Y.nnz, dtype=np.float32)
    changed = {
        "a text": replace(corpus, texts=[texts[0] + "x", *texts[1:]]),
        "where a text ends": replace(corpus, texts=[texts[0][:-1], texts[0][-1] + texts[1], *texts[2:]]),
        "label texts": replace(corpus, labels=renamed),
        "weights": replace(corpus, pair_weight=weight),
        "a mask": replace(corpus, pair_weight=np.where(np.arange(corpus.Y.nnz) == 3, 0, weight).astype(np.float32)),
        "rows": corpus.rows(np.arange(199)),
        "which rows are documents": replace(corpus, made=np.arange(200) == 7),
    }
    keys = {name: fit.key("part", other) for name, other in changed.items()}
    assert len({base, *keys.values()}) == len(keys) + 1, "each change makes another key"
    assert fit.key("other part", corpus) != base
    assert Fit(Run(seed=2)).key("part", corpus) != base
    assert fit.with_valid(corpus).key("part", corpus) != base


def killed_after(monkeypatch: pytest.MonkeyPatch, fits_before: int) -> list[int]:
    """Lets so many fits of Parabel through, then raises; gives the list of fits, which grows."""
    learn, done = Parabel.learn, []

    def watched(self: Parabel, given: Corpus, fit: Fit) -> Parabel:
        if len(done) == fits_before:
            raise KeyboardInterrupt
        learn(self, given, fit)
        done.append(len(given))
        return self

    monkeypatch.setattr(Parabel, "learn", watched)
    return done


RERANKED = {"part": "pipeline", "learner": ONE, "rerank": ["ranknet"]}
NESTED = {
    "an ensemble": ({"learner": {"part": "ensemble", "members": [ONE, {**ONE, "max_leaf": 10}, ONE]}}, 3),
    "folds of a re-ranker": ({"learner": ONE, "rerank": ["ranknet"]}, 5),
    "head and tail": ({"learner": {"part": "decoupled", "learner": ONE, "gate": 0.0}}, 2),
    "two stages": ({"learner": ONE, "augment": ["retune"]}, 2),
    "pipelines in an ensemble": ({"learner": {"part": "ensemble", "members": [RERANKED, ONE]}}, 6),
}


@pytest.mark.parametrize("name", NESTED)
def test_what_was_finished_is_not_trained_again(
    name: str, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, count = NESTED[name]
    whole = Tagger(**config, threads=1).fit(corpus)
    monkeypatch.setattr(fits, "KEPT_FROM", 0.0)
    with monkeypatch.context() as patched:
        done = killed_after(patched, count - 1)
        with pytest.raises(KeyboardInterrupt):
            Tagger(**config, threads=1).fit(corpus, run=Run(threads=1, checkpoints=tmp_path))
        assert len(done) == count - 1
    with monkeypatch.context() as patched:
        done = killed_after(patched, 100)
        resumed = Tagger(**config, threads=1).fit(corpus, run=Run(threads=1, checkpoints=tmp_path))
    assert len(done) == 1, "only what was not finished is trained"
    first, second = whole.score(corpus, 10), resumed.score(corpus, 10)
    assert first.ids.tobytes() == second.ids.tobytes() and first.values.tobytes() == second.values.tobytes()


def test_other_data_or_a_damaged_file_is_trained_anew(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fits, "KEPT_FROM", 0.0)
    fit = Fit(Run(checkpoints=tmp_path)).child("member/0")
    X = build("tfidf").fit_transform(corpus.texts)
    given = replace(corpus, X=X)
    fit.train(build(ONE), given)
    kept = list(tmp_path.rglob("*.finished"))
    assert kept, "the learner, and each of its trees"
    done = killed_after(monkeypatch, 100)
    fit.train(build(ONE), given)
    assert done == []
    fit.train(build(ONE), given.rows(np.arange(150)))
    assert done == [150]
    for file in kept:
        file.write_bytes(file.read_bytes()[:-9])
    fit.train(build(ONE), given)
    assert done == [150, 200]


def test_quick_fits_are_not_kept(corpus: Corpus, tmp_path: Path) -> None:
    Tagger({"part": "ensemble", "members": [ONE, ONE]}).fit(corpus, run=Run(checkpoints=tmp_path))
    assert not list(tmp_path.rglob("*.finished"))


def test_what_was_kept_and_fits_no_part_is_made_again(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fits, "KEPT_FROM", 0.0)
    fit = Fit(Run(checkpoints=tmp_path))
    part = build(ONE)
    made = Tagger({"part": "ensemble", "members": [part]}).pipeline
    made.learn(corpus, fit)
    kept = sorted(tmp_path.rglob("*.finished"))
    assert kept
    for path in kept:
        fit.with_valid(None).keep(path.stem, {"nothing": np.zeros(1)})
        path.write_bytes((tmp_path / path.name).read_bytes())
    again = Tagger({"part": "ensemble", "members": [build(ONE)]}).pipeline
    again.learn(corpus, fit)
    np.testing.assert_array_equal(again.score(corpus, 5).values, made.score(corpus, 5).values)
