"""Nearest neighbours against brute force: order, ties, equal vectors, padding, the same answers every time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.cluster import neighbours as module
from longtail.cluster.neighbours import Neighbours
from longtail.run import Run


def brute_force(vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """In double precision, by (-similarity, id), padded."""
    given = (vectors.astype(np.float64), queries.astype(np.float64))
    V, Q = (A / np.where(A.any(axis=1), np.linalg.norm(A, axis=1), 1)[:, None] for A in given)
    S = Q @ V.T
    order = np.lexsort((np.broadcast_to(np.arange(len(V)), S.shape), -S.round(6)), axis=-1)[:, :k]
    missing = ((0, 0), (0, k - order.shape[1]))
    return np.pad(order, missing, constant_values=-1), np.pad(np.take_along_axis(S, order, 1), missing)


def clustered(n: int, width: int = 24, seed: int = 0) -> np.ndarray:
    """Vectors around a hundred centres, of different lengths, as those of labels are."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(100, width))
    vectors = centres[rng.integers(100, size=n)] + 0.5 * rng.normal(size=(n, width))
    return (vectors * rng.uniform(0.5, 2, size=(n, 1))).astype(np.float32)


@pytest.mark.parametrize(("n", "m", "k"), [(1, 1, 1), (300, 7, 10), (5000, 600, 100)])
def test_search_is_brute_force(n: int, m: int, k: int) -> None:
    """5,000 vectors and 600 queries cross the edges of the blocks."""
    vectors, queries = clustered(n), clustered(m, seed=1)
    index = Neighbours.of(vectors)
    ids, similarity = index.search(queries, k)
    true_ids, true_similarity = brute_force(vectors, queries, k)
    assert (ids.dtype, similarity.dtype) == (np.int32, np.float32)
    assert ids.shape == similarity.shape == (m, k)
    np.testing.assert_allclose(similarity, true_similarity, atol=1e-4, rtol=1e-5)
    assert (ids == true_ids).mean() > 0.999, "but for neighbours that differ by a rounding"


whole = st.integers(-2, 2)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), width=st.integers(1, 3), k=st.integers(1, 12))
def test_ties_and_equal_vectors_go_by_id(data: st.DataObject, width: int, k: int) -> None:
    """Vectors along the axes: their cosines are the query's own numbers, so that ties are exact and everywhere."""
    axes = st.tuples(st.integers(0, width - 1), whole)
    drawn = data.draw(st.lists(axes, min_size=1, max_size=10))
    vectors = np.zeros((len(drawn), width), dtype=np.float32)
    for row, (axis, value) in enumerate(drawn):
        vectors[row, axis] = value
    row = st.lists(whole, min_size=width, max_size=width)
    queries = np.array(data.draw(st.lists(row, min_size=1, max_size=4)), dtype=np.float32)
    ids, similarity = Neighbours.of(vectors, Run(threads=1)).search(queries, k)
    true_ids, true_similarity = brute_force(vectors, queries, k)
    np.testing.assert_array_equal(ids, true_ids)
    np.testing.assert_allclose(similarity, true_similarity, atol=1e-6)


def test_equal_vectors_come_back_as_all() -> None:
    vectors = clustered(3000)
    copies = [5, 17, 400, 2999]
    vectors[copies] = vectors[17]
    index = Neighbours.of(vectors)
    ids, similarity = index.search(vectors[[17]] * 3, 6)
    assert ids[0, :4].tolist() == copies, "by id, whichever was asked for"
    assert len(set(similarity[0, :4].tolist())) == 1 and similarity[0, 0] == pytest.approx(1)
    ids, _ = index.search(vectors[[17]], 2)
    assert ids[0].tolist() == copies[:2], "and cut by id"


def test_nothing_but_equal_vectors() -> None:
    ids, similarity = Neighbours.of(np.ones((50, 4))).search(np.ones((2, 4)), 60)
    assert ids[1].tolist() == [*range(50), *[-1] * 10]
    assert similarity[0].tolist() == pytest.approx([1] * 50 + [0] * 10)


def test_minus_zero_is_zero() -> None:
    ids, _ = Neighbours.of(np.array([[-0.0, 1.0], [0.0, 1.0]])).search(np.array([[0.0, 1.0]]), 2)
    assert ids.tolist() == [[0, 1]]


def test_more_neighbours_than_vectors() -> None:
    vectors, queries = clustered(40), clustered(3, seed=1)
    ids, similarity = Neighbours.of(vectors).search(queries, 45)
    assert np.sort(ids[:, :40]).tolist() == [list(range(40))] * 3
    assert (ids[:, 40:] == -1).all() and (similarity[:, 40:] == 0).all()
    assert (np.diff(similarity[:, :40]) <= 0).all()


def test_no_queries_and_no_vectors() -> None:
    ids, similarity = Neighbours.of(clustered(200)).search(np.zeros((0, 24)), 5)
    assert ids.shape == similarity.shape == (0, 5)
    ids, similarity = Neighbours.of(np.zeros((0, 3))).search(np.ones((2, 3)), 2)
    assert ids.tolist() == [[-1, -1]] * 2 and similarity.tolist() == [[0, 0]] * 2


def test_vectors_and_queries_of_nothing() -> None:
    """Labels without a known word are zeros; their cosine with anything is 0."""
    vectors = clustered(500)
    vectors[[3, 8]] = 0
    index = Neighbours.of(vectors)
    ids, similarity = index.search(np.zeros((1, 24)), 4)
    assert ids.tolist() == [[0, 1, 2, 3]] and (similarity == 0).all()
    ids, similarity = index.search(clustered(4, seed=2), 500)
    assert (similarity[np.isin(ids, [3, 8])] == 0).all()


def test_the_same_answers_every_time() -> None:
    """The same bytes for any number of threads, and whichever queries come together."""
    vectors, queries = clustered(6000), clustered(2500, seed=1)
    indexes = [Neighbours.of(vectors, Run(threads=t)) for t in (1, 2, 3, 1)]
    answers = [index.search(queries, 30) for index in indexes]
    for ids, similarity in answers[1:]:
        assert ids.tobytes() == answers[0][0].tobytes() and similarity.tobytes() == answers[0][1].tobytes()
    ids, similarity = answers[0]
    for part in (slice(0, 1), slice(7, 300)):
        some_ids, some_similarity = indexes[0].search(queries[part], 30)
        assert (some_ids == ids[part]).mean() > 0.999
        np.testing.assert_array_equal(some_similarity, similarity[part])


def test_the_caller_keeps_his_arrays() -> None:
    vectors, queries = clustered(50), clustered(5, seed=1)
    before = vectors.tobytes(), queries.tobytes()
    index = Neighbours.of(vectors)
    expected = index.search(queries, 3)[0].tolist()
    assert (vectors.tobytes(), queries.tobytes()) == before
    vectors[:] = 0
    assert index.search(queries, 3)[0].tolist() == expected, "and the index its own"


def test_numbers_of_any_kind_and_order() -> None:
    vectors = clustered(60)
    wanted = Neighbours.of(vectors).search(vectors[:4], 5)[0].tolist()
    for other in (vectors.astype(np.float64), np.asfortranarray(vectors), np.repeat(vectors, 2, axis=1)[:, ::2]):
        assert Neighbours.of(other).search(other[:4], 5)[0].tolist() == wanted
    tiny = vectors * np.float32(1e-25)
    assert Neighbours.of(tiny).search(tiny[:4], 5)[0].tolist() == wanted, "whose squares vanish in single precision"


def test_equal_hashes_of_different_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_hashes", lambda bits: np.zeros(len(bits), dtype=np.uint64))
    vectors = np.array([[1, 0], [0, 1], [1, 0], [1, 0], [0, 1]], dtype=np.float32)
    ids, _ = Neighbours.of(vectors).search(vectors[:2], 5)
    assert ids.tolist() == [[0, 2, 3, 1, 4], [1, 4, 0, 2, 3]]


# what is refused
def test_refused() -> None:
    vectors = clustered(10)
    with pytest.raises(ValueError, match=r"vectors must be \(n, D\)"):
        Neighbours.of(np.zeros(3))
    with pytest.raises(ValueError, match="vectors must be finite"):
        Neighbours.of(np.array([[np.nan]]))
    index = Neighbours.of(vectors)
    with pytest.raises(ValueError, match="queries of width 3 for vectors of width 24"):
        index.search(np.zeros((1, 3)), 1)
    with pytest.raises(ValueError, match="queries must be finite"):
        index.search(np.full((1, 24), np.inf), 1)
    with pytest.raises(ValueError, match="k must be at least 1"):
        index.search(vectors, 0)


def test_the_blas_library_has_its_threads_back() -> None:
    from threadpoolctl import threadpool_info

    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    index = Neighbours.of(clustered(300))
    index.search(clustered(3), 2)
    with pytest.raises(ValueError, match="width"):
        index.search(np.zeros((1, 3)), 1)
    assert threads() == before
