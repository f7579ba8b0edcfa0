"""Scores: order, ties, padding, and top_k against a plain sort."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.scores import Scores, top_k


def scores(ids: list[list[int]], values: list[list[float]]) -> Scores:
    return Scores(np.array(ids, dtype=np.int32), np.array(values, dtype=np.float32))


def pairs(found: Scores) -> list[list[tuple[int, float]]]:
    return [
        list(zip(ids, values, strict=True))
        for ids, values in zip(found.ids.tolist(), found.values.tolist(), strict=True)
    ]


TWO = scores([[4, 1, 7], [2, -1, -1]], [[0.75, 0.5, 0.25], [0.5, 0, 0]])


def test_top_of_what_is_stored() -> None:
    assert (len(TWO), TWO.k) == (2, 3)
    assert pairs(TWO.top(1)) == [[(4, 0.75)], [(2, 0.5)]]
    assert pairs(TWO.top(3)) == pairs(TWO)


def test_top_wider_than_stored_is_padded() -> None:
    wider = TWO.top(5)
    assert wider.ids.tolist() == [[4, 1, 7, -1, -1], [2, -1, -1, -1, -1]]
    assert wider.values.tolist() == [[0.75, 0.5, 0.25, 0, 0], [0.5, 0, 0, 0, 0]]
    assert (wider.ids.dtype, wider.values.dtype) == (np.int32, np.float32)


def test_rows() -> None:
    assert pairs(TWO.rows(np.array([1, 0, 1]))) == [pairs(TWO)[i] for i in (1, 0, 1)]
    assert pairs(TWO.rows(slice(1, None))) == pairs(TWO)[1:]


def test_empty() -> None:
    assert pairs(Scores.empty(2, 2)) == [[(-1, 0), (-1, 0)]] * 2
    assert len(Scores.empty(0, 3).sorted()) == 0


def test_sorted_ranks_by_value_then_id_with_padding_last() -> None:
    mixed = scores([[5, -1, 3, 9, 2]], [[0.5, 0, 0.5, 0.9, 0]])
    assert pairs(mixed.sorted()) == [[(9, np.float32(0.9)), (3, 0.5), (5, 0.5), (2, 0), (-1, 0)]]


def test_sorted_wipes_values_that_were_written_into_padding() -> None:
    """Code that maps all values, padding included, must not lift the padding above labels."""
    rewritten = scores([[1, -1, 0, -1]], [[-2, 7, -1, np.nan]])
    assert pairs(rewritten.sorted()) == [[(0, -1), (1, -2), (-1, 0), (-1, 0)]]


def test_as_a_sparse_matrix_and_back() -> None:
    matrix = TWO.to_csr(8)
    dense = np.zeros((2, 8), dtype=np.float32)
    dense[0, [4, 1, 7]] = [0.75, 0.5, 0.25]
    dense[1, 2] = 0.5
    assert matrix.shape == (2, 8)
    assert (matrix.toarray() == dense).all()
    assert pairs(Scores.from_csr(matrix, 3)) == pairs(TWO)


def test_from_csr_ignores_zeros_and_pads() -> None:
    stored_zero = sp.csr_matrix((np.array([0, 0.5, 0]), np.array([0, 1, 2]), np.array([0, 3, 3])), shape=(2, 4))
    assert stored_zero.nnz == 3
    assert pairs(Scores.from_csr(stored_zero, 2)) == [[(1, 0.5), (-1, 0)], [(-1, 0), (-1, 0)]]


def test_from_csr_breaks_ties_by_id_whatever_the_order_stored() -> None:
    matrix = sp.csr_matrix((np.full(4, 0.5), np.array([7, 3, 5, 1]), np.array([0, 4])), shape=(1, 9))
    assert Scores.from_csr(matrix, 3).ids.tolist() == [[1, 3, 5]]


@pytest.mark.parametrize("k", [0, -1])
def test_from_csr_needs_a_k_of_1_or_more(k: int) -> None:
    with pytest.raises(ValueError, match="k must be at least 1"):
        Scores.from_csr(sp.csr_matrix(np.eye(2)), k)


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"ids \(1, 2\) and values \(1, 1\)"):
        scores([[1, 2]], [[0.5]])
    with pytest.raises(ValueError, match="must be equal"):
        Scores(np.zeros(3, dtype=np.int32), np.zeros(3, dtype=np.float32))


def test_followed_by_puts_the_rest_behind_and_lower() -> None:
    first = scores([[4, 1], [2, -1]], [[0.75, 0.5], [0.5, 0]])
    longer = scores([[7, 1, 0, 4, 9], [2, 3, -1, -1, -1]], [[0.9, 0.8, 0.5, 0.5, 0.25], [0.9, 0.4, 0, 0, 0]])
    joined = first.followed_by(longer)
    assert joined.ids.tolist() == [[4, 1, 7, 0, 9], [2, 3, -1, -1, -1]], "padding is filled, and stays last"
    below = np.nextafter(np.float32(0.5), np.float32(0))
    np.testing.assert_array_equal(joined.values[0], np.float32([0.75, 0.5, 0.5, below, 0.25]))
    np.testing.assert_array_equal(joined.values[1], np.float32([0.5, 0.4, 0, 0, 0]))
    assert pairs(joined.sorted()) == pairs(joined)
    assert first.followed_by(first) is first


LISTS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from([0.25, 0.5, 1.0, 1e-40])), min_size=1, max_size=10)


def listed(given: list[tuple[int, float]], k: int) -> Scores:
    """One sorted row of distinct labels."""
    best = dict(given)
    return scores([list(best)], [list(best.values())]).sorted().top(k)


@settings(deadline=None)
@given(LISTS, LISTS, st.integers(1, 6), st.integers(7, 14), st.integers(0, 8))
def test_followed_by_is_in_order_and_the_same_for_any_length(
    short: list[tuple[int, float]], long: list[tuple[int, float]], k: int, K: int, more: int
) -> None:
    first = listed(short, k)
    joined, longer = first.followed_by(listed(long, K)), first.followed_by(listed(long, K + more))
    there = joined.ids[0][joined.ids[0] >= 0].tolist()
    own = first.ids[0][first.ids[0] >= 0].tolist()
    rest = [label for label in listed(long, K).ids[0].tolist() if label >= 0 and label not in own]
    assert there == (own + rest)[:K]
    assert pairs(joined.sorted()) == pairs(joined)
    assert pairs(joined) == pairs(longer.top(K)) or len(dict(long)) > K


def test_followed_by_takes_no_more_memory_than_the_lists() -> None:
    """A table of every label against every other would be 40 MB here, and the lists are 160 kB."""
    ids = np.tile(np.arange(10_000, dtype=np.int32), (4, 1))
    values = np.tile(np.linspace(1, 0.5, 10_000, dtype=np.float32), (4, 1))
    tracemalloc.start()
    joined = Scores(ids[:, 5000:6000], values[:, 5000:6000]).followed_by(Scores(ids, values))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert joined.ids[0, :1002].tolist() == [*range(5000, 6000), 0, 1]
    assert peak < 20 * ids.nbytes


#: Few distinct values, so that ties are common.
VALUES = st.sampled_from([0.0, 0.25, 0.5, 1.0, -0.5, 1e-30])


@settings(deadline=None)  # the first call compiles the kernel
@given(
    rows=st.lists(st.dictionaries(st.integers(0, 30), VALUES, max_size=15), min_size=1, max_size=5),
    k=st.integers(1, 18),
    shuffle=st.randoms(use_true_random=False),
)
def test_top_k_is_a_sort_cut_at_k(rows: list[dict[int, float]], k: int, shuffle: object) -> None:
    ids, values, indptr = [], [], [0]
    for row in rows:
        stored = list(row.items())
        shuffle.shuffle(stored)  # type: ignore[attr-defined]
        ids += [label for label, _ in stored]
        values += [value for _, value in stored]
        indptr.append(len(ids))
    flat_ids, flat_values = np.array(ids, dtype=np.int32), np.array(values, dtype=np.float32)
    found_ids, found_values = top_k(np.array(indptr), flat_ids, flat_values, k)
    assert found_ids.shape == found_values.shape == (len(rows), k)
    for row in range(len(rows)):
        own_ids, own_values = (a[indptr[row] : indptr[row + 1]] for a in (flat_ids, flat_values))
        own_ids, own_values = own_ids[own_values != 0], own_values[own_values != 0]
        order = np.lexsort((own_ids, -own_values))[:k]
        padding = k - len(order)
        assert found_ids[row].tolist() == own_ids[order].tolist() + [-1] * padding
        assert found_values[row].tolist() == own_values[order].tolist() + [0] * padding


@settings(deadline=None)
@given(
    ids=st.lists(st.integers(-1, 9), min_size=1, max_size=12),
    data=st.data(),
)
def test_sorted_keeps_the_pairs_and_orders_them(ids: list[int], data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES, min_size=len(ids), max_size=len(ids)))
    found = pairs(scores([ids], [values]).sorted())[0]
    labels = [(label, np.float32(value)) for label, value in zip(ids, values, strict=True) if label >= 0]
    assert found[: len(labels)] == sorted(labels, key=lambda pair: (-pair[1], pair[0]))
    assert found[len(labels) :] == [(-1, 0)] * (len(ids) - len(labels))
