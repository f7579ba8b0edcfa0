"""Propensities, head and tail, and frequency bands, by hand-worked numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import UsageError
from longtail.labels import BAND_EDGES, PROPENSITY_PRESETS, LabelIndex, propensity_parameters


def index(counts: list[int], documents: int = 100, texts: list[str] | None = None) -> LabelIndex:
    return LabelIndex([f"label {i}" for i in range(len(counts))], texts, np.array(counts, dtype=np.int64), documents)


def columns(mask: np.ndarray) -> list[int]:
    return np.flatnonzero(mask).tolist()


# propensities
@pytest.mark.parametrize(
    ("documents", "count", "expected"),
    [
        # EUR-Lex: C = (ln 15449 - 1) * 2.5 ** 0.55 = 14.31
        (15_449, 0, 12.45),
        (15_449, 1, 9.65),
        (15_449, 2, 8.18),
        (15_449, 5, 6.11),
        (15_449, 10, 4.73),
        (15_449, 50, 2.64),
        (15_449, 100, 2.13),
        (15_449, 1000, 1.32),
        # AmazonCat-13K: C = 21.50
        (1_186_239, 1, 13.99),
        (1_186_239, 100, 2.69),
    ],
)
def test_inverse_propensity_of_known_data_sets(documents: int, count: int, expected: float) -> None:
    q = index([count], documents).inverse_propensity()
    assert q.dtype == np.float64
    assert q[0] == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(("documents", "C"), [(15_449, 14.31), (1_186_239, 21.50)])
def test_the_factor_C(documents: int, C: float) -> None:
    """At n + B = 1 the formula is 1 + C."""
    q = index([0], documents).inverse_propensity(A=0.55, B=1.0)
    assert q[0] - 1 == pytest.approx((np.log(documents) - 1) * 2**0.55)
    q = index([1], documents).inverse_propensity()
    assert (q[0] - 1) * 2.5**0.55 == pytest.approx(C, abs=0.005)


def test_wikipedia_and_amazon_parameters() -> None:
    """(n + B) / (B + 1) is 1 for n = 1, so that q is ln N there, whatever A and B."""
    labels = index([0, 1, 5], 20)
    log = np.log(20) - 1  # 1.9957
    assert labels.inverse_propensity(0.5, 0.4) == pytest.approx(1 + log * np.sqrt(1.4 / (np.array([0, 1, 5]) + 0.4)))
    assert labels.inverse_propensity(0.5, 0.4)[1] == pytest.approx(1 + log)
    assert labels.inverse_propensity(0.6, 2.6)[1] == pytest.approx(1 + log)


@pytest.mark.parametrize("documents", [0, 1, 2])
def test_tiny_training_sets_reward_no_label(documents: int) -> None:
    assert (index([0, 1, 2], documents).inverse_propensity() == 1).all()


@settings(deadline=None)
@given(
    counts=st.lists(st.integers(0, 10**6), min_size=2, max_size=20),
    documents=st.integers(3, 10**8),
    A=st.floats(0.1, 1),
    B=st.floats(0.1, 5),
)
def test_rarer_labels_weigh_more(counts: list[int], documents: int, A: float, B: float) -> None:
    q = index(counts, documents).inverse_propensity(A, B)
    assert (q >= 1).all()
    assert np.isfinite(q).all()
    order = np.argsort(counts, kind="stable")
    assert (np.diff(q[order]) <= 1e-12).all()


def test_presets() -> None:
    assert propensity_parameters() == (0.55, 1.5)
    assert propensity_parameters("wikipedia") == (0.5, 0.4)
    assert propensity_parameters("amazon") == (0.6, 2.6)
    assert propensity_parameters("amazon", A=0.7) == (0.7, 2.6)
    assert propensity_parameters("wikipedia", B=0.0) == (0.5, 0.0), "a value of 0 is a value"
    assert set(PROPENSITY_PRESETS) == {"default", "wikipedia", "amazon"}
    with pytest.raises(UsageError, match="unknown propensity preset 'wikipedai'; did you mean 'wikipedia'"):
        propensity_parameters("wikipedai")


# head and tail
def test_order_by_frequency_breaks_ties_by_column() -> None:
    assert index([2, 9, 2, 9, 0]).by_frequency().tolist() == [1, 3, 0, 2, 4]


def test_head_by_share_takes_the_floor_and_breaks_ties_by_column() -> None:
    labels = index([2, 9, 2, 9, 0])
    assert columns(labels.head_by_share(0.4)) == [1, 3]
    assert columns(labels.head_by_share(0.5)) == [1, 3]  # floor(2.5)
    assert columns(labels.head_by_share(0.6)) == [0, 1, 3]  # of the two labels with 2 documents the first column
    assert columns(labels.head_by_share(0.1)) == []


def test_head_of_eurlex_has_399_labels() -> None:
    counts = np.random.default_rng(0).zipf(1.7, size=3993).clip(max=10_000).tolist()
    head = index(counts).head_by_share(0.1)
    assert head.dtype == np.bool_
    assert head.sum() == 399
    assert np.array(counts)[head].min() >= np.array(counts)[~head].max()


@pytest.mark.parametrize(("tau", "size", "head"), [(0.29, 100, 29), (0.57, 700, 399), (0.01, 2900, 29)])
def test_head_by_share_means_the_number_as_written(tau: float, size: int, head: int) -> None:
    """0.29 * 100 is 28.999... in binary."""
    assert index([1] * size).head_by_share(tau).sum() == head


@pytest.mark.parametrize("tau", [0, 1, -0.1, 1.5, float("nan")])
def test_tau_lies_between_0_and_1(tau: float) -> None:
    with pytest.raises(UsageError, match="tau must lie between 0 and 1"):
        index([1, 2]).head_by_share(tau)


def test_head_by_count_means_strictly_more() -> None:
    labels = index([0, 4, 5, 6, 100])
    assert columns(labels.head_by_count(5)) == [3, 4]
    assert columns(labels.head_by_count(0)) == [1, 2, 3, 4]


# bands
def test_bands_with_their_names_and_edges() -> None:
    bands = index([1, 5, 6, 20, 21, 999]).bands()
    assert BAND_EDGES == (5, 20)
    assert [(band.name, band.range, columns(band.members)) for band in bands] == [
        ("tail", "1-5", [0, 1]),
        ("middle", "6-20", [2, 3]),
        ("head", "21+", [4, 5]),
    ]
    assert [(band.low, band.high) for band in bands] == [(1, 5), (6, 20), (21, None)]


def test_labels_never_seen_form_a_band_of_their_own() -> None:
    bands = index([0, 3, 0]).bands()
    assert [(band.name, band.range, columns(band.members)) for band in bands] == [
        ("unseen", "0", [0, 2]),
        ("tail", "1-5", [1]),
        ("middle", "6-20", []),
        ("head", "21+", []),
    ]


def test_bands_of_other_edges() -> None:
    labels = index([1, 2, 3, 10, 50])
    assert [band.name for band in labels.bands([3])] == ["tail", "head"]
    assert [band.name for band in labels.bands([1, 10, 20])] == ["1", "2-10", "11-20", "21+"]
    assert [(band.name, columns(band.members)) for band in labels.bands([])] == [("1+", [0, 1, 2, 3, 4])]


@pytest.mark.parametrize("edges", [[5, 5], [20, 5], [0, 5], [-1]])
def test_edges_must_rise_from_1(edges: list[int]) -> None:
    with pytest.raises(UsageError, match="band edges must be rising counts from 1"):
        index([1]).bands(edges)


@settings(deadline=None)
@given(
    counts=st.lists(st.integers(0, 60), min_size=1, max_size=40),
    edges=st.sets(st.integers(1, 50), max_size=5).map(sorted),
)
def test_every_label_lies_in_one_band(counts: list[int], edges: list[int]) -> None:
    bands = index(counts).bands(edges)
    assert sum(band.members.astype(int) for band in bands).tolist() == [1] * len(counts)
    for band in bands:
        for column in columns(band.members):
            assert band.low <= counts[column] <= (np.inf if band.high is None else band.high)


# the index itself
@pytest.mark.parametrize(
    ("counts", "share"),
    [([1, 5, 6, 100], 0.5), ([5, 6, 0, 0], 0.5), ([0, 0, 2, 0], 1.0), ([6, 20], 0.0), ([0, 0], 0.0), ([], 0.0)],
)
def test_tail_share_is_of_the_labels_that_training_documents_have(counts: list[int], share: float) -> None:
    assert index(counts).tail_share == share


def test_names_texts_and_counts() -> None:
    labels = index([3, 1, 2], texts=["first", "", "third"])
    assert len(labels) == 3
    assert labels.ids == {"label 0": 0, "label 1": 1, "label 2": 2}
    assert [labels.text(c) for c in range(3)] == ["first", "label 1", "third"], "a label without text goes by its name"
    assert index([1]).text(0) == "label 0"
    assert LabelIndex(["a", "b"]).frequency.tolist() == [0, 0]
    assert labels.with_counts(np.array([7, 8, 9]), 50).frequency.tolist() == [7, 8, 9]
    assert labels.with_counts(np.array([7, 8, 9]), 50).documents == 50


def test_take_keeps_everything_in_the_order_given() -> None:
    taken = index([3, 1, 2], documents=9, texts=["x", "y", "z"]).take(np.array([2, 0]))
    assert (taken.names, taken.texts) == (["label 2", "label 0"], ["z", "x"])
    assert (taken.frequency.tolist(), taken.documents) == ([2, 3], 9)
    assert index([3, 1]).take(np.array([1])).texts is None


def test_sizes_and_names_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="1 label texts for 2 labels"):
        LabelIndex(["a", "b"], ["x"])
    with pytest.raises(ValueError, match="3 label counts for 2 labels"):
        LabelIndex(["a", "b"], None, np.array([1, 2, 3]))
    with pytest.raises(ValueError, match="1 label names stand twice"):
        _ = LabelIndex(["a", "b", "a"]).ids


# texts
def test_texts_by_name() -> None:
    labels = index([1, 2, 3], texts=["", "second", "third"])
    given = labels.with_texts({"label 0": "first", "label 2": "3rd", "label 9": "of no label"})
    assert given.texts == ["first", "second", "3rd"]
    assert [given.text(column) for column in range(3)] == given.texts
    assert given.frequency.tolist() == [1, 2, 3] and given.documents == labels.documents
    assert labels.texts == ["", "second", "third"], "the index given stays as it is"
    bare = index([1, 2]).with_texts({"label 1": "one"})
    assert bare.texts == ["", "one"] and bare.text(0) == "label 0"


def test_texts_that_are_not_of_these_labels_are_refused() -> None:
    with pytest.raises(UsageError, match="the names that texts are given for and the 2 labels of the model"):
        index([1, 2]).with_texts({"http://elsewhere/1": "one"})
    with pytest.raises(UsageError, match="empty list"):
        index([1, 2]).with_texts({})
    for wrong in ({"label 1": 3}, {7: "seven"}, {"label 0": None}):
        with pytest.raises(UsageError, match="from label name to text"):
            index([1, 2]).with_texts(wrong)  # type: ignore[arg-type]
