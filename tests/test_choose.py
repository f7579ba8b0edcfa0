"""The recipe that is taken where nobody names one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import longtail
from longtail import Tagger
from longtail import choose as chooses
from longtail.choose import choose, said_by
from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.recipe import Recipe, named
from longtail.registry import config_of


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


def test_by_what_the_corpus_has() -> None:
    assert choose(corpus(CODES)).recipe == "bonsai"
    assert choose(corpus(WORDS)).recipe == "label-text"
    assert choose(corpus(WORDS, each=40)).recipe == "gandalf", "labels are frequent"
    features = replace(corpus(WORDS), texts=None, X=sp.csr_matrix(np.ones((6, 2), dtype=np.float32)))
    assert choose(features).recipe == "bonsai"


def test_what_does_not_fit_gives_way() -> None:
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


def test_python_makes_the_same_choice(caplog: pytest.LogCaptureFixture) -> None:
    """`Tagger()` is Bonsai whatever the corpus; `longtail.train` takes what `longtail train` would."""
    caplog.set_level("INFO", "longtail.choose")
    words = [
        f"{first} {second}" for first in ("coal", "iron", "gold", "silver") for second in ("mining", "trade", "art")
    ]
    texts = [f"about {name} and more" for name in words for _ in range(3)]
    labels = [[name] for name in words for _ in range(3)]
    tagger = longtail.train(texts, labels, threads=1, seed=3)
    wanted = Recipe.find("label-text").tagger(seed=3, threads=1)
    assert config_of(tagger.learner)["part"] == config_of(wanted.learner)["part"] == "ensemble" and tagger.seed == 3
    assert "recipe label-text: labels have descriptive names" in caplog.text
    assert tagger.predict(["gold trade"], k=1)[0][0].label == "gold trade"
    rows = [{"title": text, "subjects": own} for text, own in zip(texts, labels, strict=True)]
    bonsai = longtail.train(rows, "subjects", text="title", recipe="bonsai", valid=rows[:4])
    assert config_of(bonsai.learner)["part"] == "bonsai" == config_of(Tagger().learner)["part"]
    coded = longtail.train(texts, [[CODES[n % 3]] for n in range(len(texts))])
    assert config_of(coded.learner)["part"] == "bonsai"


def test_python_gives_way_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(chooses, "_tagger", lambda name, run: seen.append(name) or Recipe.find("bonsai").tagger())
    names = ["coal mining", "gold trade", "iron art"]
    longtail.train(names, [[name] for name in names])
    assert seen == ["label-text", "label-text"], "planned, then trained"
