"""One text gives the very row that it has among others."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.features import one_text
from longtail.features.tfidf import Tfidf

WORDS = ["ab", "cd", "Ab", "x", "straße", "İi", "ΑΣ", "αα", "a\u0301bc", "_1", "𐐀𐐀", "東京", "слово", "unknown"]
TEXTS = st.lists(
    st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=12).map(" ".join), min_size=1, max_size=8
)
FITTED_ON = ["ab cd ab straße", "cd αα _1", "東京 слово ab", "𐐀𐐀 a\u0301bc cd ab", "ΑΣ İi αα ab cd cd"]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"ngrams": 3},
    {"hash_bits": 4},
    {"hash_bits": 10, "ngrams": 2, "min_df": 2},
    {"max_features": 5, "ngrams": 2, "sublinear": False},
]


def assert_same_rows(features: Tfidf, texts: list[str]) -> None:
    X = features.transform(texts)
    for row, text in enumerate(texts):
        found = features.transform_one(text)
        assert found is not None
        columns, values = found
        begin, end = X.indptr[row], X.indptr[row + 1]
        assert (columns.dtype, values.dtype) == (np.int32, np.float32)
        assert columns.tolist() == X.indices[begin:end].tolist()
        assert values.tobytes() == X.data[begin:end].tobytes()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@settings(deadline=None)
@given(texts=TEXTS)
def test_any_text(options: dict[str, Any], texts: list[str]) -> None:
    assert_same_rows(Tfidf(max_df=1.0, **options).fit(FITTED_ON), texts)


@pytest.mark.parametrize("text", ["", " ", "\n", "zzz unknown", "\ud800ab", "ab\0cd", "ab" * 5000, "ab cd " * 5000])
def test_odd_texts(text: str) -> None:
    assert_same_rows(Tfidf(max_df=1.0, ngrams=2).fit(FITTED_ON), [text])


def test_options_changed_after_the_fit_count() -> None:
    features = Tfidf(max_df=1.0).fit(FITTED_ON)
    assert_same_rows(features, ["ab ab cd"])
    features.set_params(sublinear=False)
    assert_same_rows(features, ["ab ab cd"])


def test_a_restored_vocabulary() -> None:
    features = Tfidf(max_df=1.0, ngrams=2).fit(FITTED_ON)
    restored = Tfidf(max_df=1.0, ngrams=2)
    restored.restore(features.state())
    assert_same_rows(restored, FITTED_ON)


def test_threads_do_not_share_room() -> None:
    features = Tfidf(max_df=1.0).fit(FITTED_ON)
    found = features.transform_one("ab cd")
    assert found is not None
    before = found[0].copy(), found[1].copy()
    other = threading.Thread(target=lambda: [features.transform_one("東京 слово ab αα _1") for _ in range(100)])
    other.start()
    other.join()
    assert found[0].tolist() == before[0].tolist()
    assert found[1].tolist() == before[1].tolist()


def test_narrow_after_wide() -> None:
    """The room is that of the thread, whichever features ask."""
    wide = Tfidf(hash_bits=16, max_df=1.0).fit(FITTED_ON)
    narrow = Tfidf(max_df=1.0).fit(FITTED_ON)
    for _ in range(2):
        assert_same_rows(wide, FITTED_ON)
        assert_same_rows(narrow, FITTED_ON)


def test_books_go_the_general_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_text, "LONGEST_TEXT", 100)
    assert Tfidf(max_df=1.0).fit(FITTED_ON).transform_one("ab " * 50) is None
