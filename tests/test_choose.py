"""The recipe that is taken where nobody names one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from longtail import choose as chooses
from longtail.choose import choose, said_by
from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.recipe import Recipe, named


def corpus(names: list[str], texts: list[str] | None = None, *, each: int = 2) -> Corpus:
    """Labels with so many documents each."""
    Y = sp.csr_matrix(np.tile(np.eye(len(names), dtype=np.float32), (each, 1)))
    return Corpus(labels=LabelIndex(names, texts), Y=Y, texts=["some text"] * Y.shape[0]).counted()


CODES = ["4016397-0", "Q42", "n79-021"]
WORDS = ["state aid", "coal mining", "jackson-databind"]


@pytest.mark.parametrize(
    ("names", "texts", "said"),
    [(CODES, None, None), (WORDS, None, "descriptive names"), (CODES, ["Fachwerk", "Douglas Adams", ""], "texts"),
     (CODES, ["", "", "Orgel"], None), (["化学", "物理学の歴史", "日本文学"], None, "descriptive names")],
)  # fmt: skip
def test_what_describes_labels(names: list[str], texts: list[str] | None, said: str | None) -> None:
    assert said_by(LabelIndex(names, texts)) == said


def test_by_what_the_corpus_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chooses, "find_spec", lambda name: object())
    assert choose(corpus(CODES)).recipe == "bonsai"
    assert choose(corpus(WORDS)).recipe == "label-text"
    assert choose(corpus(WORDS, each=40)).recipe == "gandalf", "labels are frequent"
    features = replace(corpus(WORDS), texts=None, X=sp.csr_matrix(np.ones((6, 2), dtype=np.float32)))
    assert choose(features).recipe == "bonsai"


def test_without_the_extra_it_is_said_what_that_would_bring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chooses, "find_spec", lambda name: None)
    choice = choose(corpus(WORDS))
    assert choice.recipe == "label-trees" and "longtail[neural]" in choice.line


def test_what_does_not_fit_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chooses, "find_spec", lambda name: object())
    order = ["label-text", "label-trees", "gandalf", "bonsai"]
    for number, wanted in enumerate(order):
        choice = choose(corpus(WORDS), fits=lambda recipe: order.index(recipe) >= number)  # noqa: B023
        assert choice.recipe == wanted
        assert ("does not fit into memory" in choice.line) == (number > 0)
    assert choose(corpus(WORDS), fits=lambda recipe: False).recipe == "label-text", "its plan says what to do"


def test_every_choice_is_a_recipe() -> None:
    assert {"label-text", "label-trees", "gandalf", "bonsai"} <= set(named())
    for name in ("label-trees", "gandalf"):  # these need no network
        assert not Recipe.find(name).tagger().pipeline.capabilities.hardware
