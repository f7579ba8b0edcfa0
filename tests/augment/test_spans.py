"""Texts with gaps: worked by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.augment.generate.spans import Window, cut, gaps_in, label_words, window_of

SIGNS = [f"<{n}>" for n in range(9)]


def test_a_window_by_hand() -> None:
    window = Window(("cats,", "mats"), ("the", "cat", "sat", "on", "it"), ((3, 4), (5, 7)))
    assert window.source(SIGNS, "|") == "cats, mats | the <0> sat <1>"
    assert window.target(SIGNS) == "<0> cat <1> on it <2>"
    assert window.filled(["dog", "under the table"]) == "the dog sat under the table"
    assert window.filled([None, "by"]) == "the cat sat by", "a gap that is not filled keeps its words"


def test_labels_may_be_masked_and_are_never_part_of_the_text() -> None:
    window = Window(("cats,", "mats"), ("the", "cat"), ((0, 1), (1, 3)))
    assert window.source(SIGNS, "|") == "<0> <1> | cat", "the border stays where it is"
    assert window.target(SIGNS) == "<0> cats, <1> mats the <2>"
    assert window.filled(["dogs,", "a"]) == "a cat"
    assert window.filled([None, None]) == "the cat"
    assert Window((), ("a", "b"), ()).source(SIGNS, "|") == "a b"


def test_words_of_labels_are_whole_labels() -> None:
    assert label_words(["heart attack", "liver"], 10) == ["heart", "attack,", "liver"]
    assert label_words(["heart attack", "liver failure"], 3) == ["heart", "attack"]
    assert label_words(["a b c d"], 2) == ["a", "b"], "one that is too long is cut"


def test_windows_are_of_like_length_and_lose_nothing() -> None:
    words = [str(n) for n in range(10)]
    assert [len(piece) for piece in cut(words, 4)] == [3, 4, 3]
    assert [word for piece in cut(words, 4) for word in piece] == words
    assert cut([], 5) == [()] and cut(words, 100) == [tuple(words)]


@settings(max_examples=50, deadline=None)
@given(labels=st.integers(0, 3), words=st.integers(0, 30), share=st.floats(0.01, 0.9), seed=st.integers(0, 99),
       mask_labels=st.booleans())  # fmt: skip
def test_a_text_goes_through_its_gaps_and_back(
    labels: int, words: int, share: float, seed: int, mask_labels: bool
) -> None:
    text = tuple(f"w{n}" for n in range(words))
    rng = np.random.default_rng(seed)
    window = window_of([f"L{n}" for n in range(labels)], text, share, 8, rng, mask_labels=mask_labels)
    assert len(window.gaps) <= 8
    assert all(mask_labels or start >= labels for start, _ in window.gaps)
    masked = [" ".join(window.all_words[start:stop]) for start, stop in window.gaps]
    assert window.filled([None] * len(masked)) == " ".join(text)
    if not mask_labels:
        assert window.filled(masked) == " ".join(text)
    assert bool(window.gaps) == bool(words or (labels and mask_labels))


def test_gaps_are_anywhere_even_in_short_texts() -> None:
    """Masks that always end with noise would leave all but the last words of short texts alone."""
    first = [gaps_in(np.ones(6, dtype=bool), 0.15, 8, np.random.default_rng(seed))[0][0] for seed in range(60)]
    assert set(first) == set(range(6))


@pytest.mark.parametrize("share", [0.15, 0.5])
def test_the_share_is_kept(share: float) -> None:
    gaps = gaps_in(np.ones(200, dtype=bool), share, 200, np.random.default_rng(0))
    assert sum(stop - start for start, stop in gaps) == 200 * share
    assert all(a[1] < b[0] for a, b in pairwise(gaps)), "neighbours are one gap"
