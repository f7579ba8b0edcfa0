"""Packed texts behave as the list of the same texts does."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.labels import LabelIndex
from longtail.texts import PackedTexts

TEXTS = st.lists(st.text(st.characters(), max_size=6), max_size=9)


@given(texts=TEXTS, begin=st.integers(-12, 12), end=st.integers(-12, 12), step=st.sampled_from([-2, -1, 1, 3]))
def test_as_a_list(texts: list[str], begin: int, end: int, step: int) -> None:
    packed = PackedTexts.of(texts)
    assert list(packed) == texts
    assert len(packed) == len(texts)
    assert [packed[at] for at in range(-len(texts), len(texts))] == texts + texts
    assert packed[begin:end:step] == texts[begin:end:step]
    assert packed == texts
    assert texts == packed
    assert packed == PackedTexts.of(tuple(texts))
    assert packed != [*texts, ""]
    assert packed != PackedTexts.of([*texts, ""])
    assert list(pickle.loads(pickle.dumps(packed))) == list(copy.deepcopy(packed)) == texts
    for absent in (len(texts), -len(texts) - 1):
        with pytest.raises(IndexError):
            packed[absent]


@given(one=TEXTS, other=TEXTS)
def test_equal_only_where_the_lists_are(one: list[str], other: list[str]) -> None:
    assert (PackedTexts.of(one) == PackedTexts.of(other)) == (PackedTexts.of(one) == other) == (one == other)


def test_more_texts_than_are_decoded_at_once() -> None:
    texts = [f"text {number} ü" for number in range(10_000)]
    assert list(PackedTexts.of(texts)) == texts
    assert repr(PackedTexts.of(texts)) == "<10000 texts: 'text 0 ü', 'text 1 ü', 'text 2 ü', ...>"


def test_names_of_labels_may_be_packed() -> None:
    plain = LabelIndex(["b", "a", "Zürich"], ["x", "", "y"], np.array([1, 2, 3]), 5)
    packed = LabelIndex(PackedTexts.of(plain.names), PackedTexts.of(plain.texts or []), plain.counts, 5)
    assert packed.ids == plain.ids
    assert [packed.text(column) for column in range(3)] == ["x", "a", "y"]
    assert list(packed.take(np.array([2, 0])).names) == ["Zürich", "b"]
