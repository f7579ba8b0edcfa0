"""One text gets the very labels and scores that it gets among others, whichever parts are asked."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.data.demo import demo
from longtail.errors import UsageError
from longtail.run import Run
from longtail.tagger import Tagger

IPS = {"part": "inverse-propensity", "depth": 7}
TAGGERS: dict[str, dict[str, Any]] = {
    "bonsai": {"learner": "bonsai"},
    "parabel, one tree": {"learner": {"part": "parabel", "trees": 1}},
    "one-vs-all, logistic": {"learner": {"part": "one-vs-all", "loss": "logistic"}},
    "pairs of words": {"learner": "bonsai", "features": {"part": "tfidf", "ngrams": 2}},
    "stems": {"learner": "bonsai", "features": {"part": "tfidf", "language": "de", "ngrams": 2}},
    "stems, language found": {"learner": "bonsai", "features": {"part": "tfidf", "language": "auto"}},
    "hashed": {"learner": "bonsai", "features": {"part": "tfidf", "hash_bits": 9}},
    "re-ranked": {"learner": "bonsai", "rerank": [IPS]},
    "re-ranked twice": {"learner": "bonsai", "rerank": [IPS, {**IPS, "depth": 30, "strength": 0.5}]},
    "re-ranked by words": {"learner": "bonsai", "rerank": ["calibrated-propensity", IPS]},  # the general way
    "not linear": {"learner": "nearest-documents"},  # the general way
}


@cache
def tagger(name: str) -> Tagger:
    return Tagger(**TAGGERS[name], threads=1).fit(demo()[0].rows(np.arange(150)))


@cache
def words() -> list[str]:
    texts = demo()[0].rows(np.arange(150)).texts
    return sorted({word for text in texts or () for word in text.split()})[::5]


TEXTS = st.lists(
    st.lists(
        st.deferred(lambda: st.sampled_from(words()))
        | st.sampled_from(["zzz", "東京", "ΑΣ", "straße"])
        | st.text(max_size=4),
        max_size=20,
    ).map(" ".join),
    min_size=2,
    max_size=5,
)


@pytest.mark.parametrize("name", TAGGERS)
@settings(deadline=None, max_examples=25)
@given(texts=TEXTS, k=st.integers(1, 60))
def test_as_among_others(name: str, texts: list[str], k: int) -> None:
    together = tagger(name).predict([*texts, ""], k)
    assert [tagger(name).predict([text], k)[0] for text in [*texts, ""]] == together
    found = max((each.score for labels in together for each in labels), default=1.0)
    assert tagger(name).predict(texts[:1], k, threshold=found / 2)[0] == [
        each for each in together[0] if each.score >= found / 2
    ]


@pytest.mark.parametrize(
    ("name", "quick"),
    [("bonsai", True), ("re-ranked twice", True), ("re-ranked by words", False), ("not linear", False)],
)
def test_which_models_have_a_way_of_their_own(name: str, quick: bool) -> None:
    assert (tagger(name).pipeline.score_text("read a file", 5) is not None) == quick


def test_with_a_run_its_stages_are_timed() -> None:
    run = Run(threads=1)
    tagger("bonsai").predict(["read a file"], run=run)
    assert "features" in run.seconds


def test_bad_questions_are_refused_as_ever() -> None:
    for text, k in ((None, 5), (b"bytes", 5), ("text", 0), ("text", True), ("text", 2.5)):
        with pytest.raises(UsageError):
            tagger("bonsai").predict([text], k)  # type: ignore[list-item, arg-type]
    with pytest.raises(UsageError):
        Tagger().predict(["not trained"])
