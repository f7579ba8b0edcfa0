"""Nearest neighbours against brute force: order, ties, equal vectors, padding, lists, the same answers every time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import UsageError
from longtail.graphs import nearest as module
from longtail.graphs.nearest import Nearest

SPACES = ("cosine", "product")


def brute_force(vectors: np.ndarray, queries: np.ndarray, k: int, space: str) -> tuple[np.ndarray, np.ndarray]:
    """In double precision, by (-similarity, id), padded."""
    V, Q = vectors.astype(np.float64), queries.astype(np.float64)
    if space == "cosine":
        V, Q = (A / np.where(A.any(axis=1), np.linalg.norm(A, axis=1), 1)[:, None] for A in (V, Q))
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


def recall(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, true, strict=True)]))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("n", "m", "k"), [(1, 1, 1), (300, 7, 10), (5000, 600, 100)])
def test_exact_search_is_brute_force(n: int, m: int, k: int, space: str) -> None:
    """5,000 vectors and 600 queries cross the edges of the blocks."""
    vectors, queries = clustered(n), clustered(m, seed=1)
    index = Nearest.of(vectors, space)
    ids, similarity = index.search(queries, k)
    true_ids, true_similarity = brute_force(vectors, queries, k, space)
    assert index.exact
    assert (ids.dtype, similarity.dtype) == (np.int32, np.float32)
    assert ids.shape == similarity.shape == (m, k)
    np.testing.assert_allclose(similarity, true_similarity, atol=1e-4, rtol=1e-5)
    assert (ids == true_ids).mean() > 0.999, "but for neighbours that differ by a rounding"


whole = st.integers(-2, 2)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), width=st.integers(1, 3), k=st.integers(1, 12))
def test_ties_and_equal_vectors_go_by_id(data: st.DataObject, width: int, k: int) -> None:
    """Small whole numbers: products are exact, ties and equal vectors are everywhere."""
    row = st.lists(whole, min_size=width, max_size=width)
    vectors = np.array(data.draw(st.lists(row, min_size=1, max_size=10)), dtype=np.float32)
    queries = np.array(data.draw(st.lists(row, min_size=1, max_size=4)), dtype=np.float32)
    for exact_up_to in (100, 0):
        index = Nearest.of(vectors, "product", exact_up_to=exact_up_to, threads=1)
        ids, similarity = index.search(queries, k)
        true_ids, true_similarity = brute_force(vectors, queries, k, "product")
        np.testing.assert_array_equal(ids, true_ids)
        np.testing.assert_array_equal(similarity, true_similarity)


@pytest.mark.parametrize("exact_up_to", [10_000, 0])
def test_equal_vectors_come_back_as_all(exact_up_to: int) -> None:
    vectors = clustered(3000)
    copies = [5, 17, 400, 2999]
    vectors[copies] = vectors[17]
    index = Nearest.of(vectors, exact_up_to=exact_up_to)
    ids, similarity = index.search(vectors[[17]] * 3, 6)
    assert ids[0, :4].tolist() == copies, "by id, whichever was asked for"
    assert len(set(similarity[0, :4].tolist())) == 1 and similarity[0, 0] == pytest.approx(1)
    ids, _ = index.search(vectors[[17]], 2)
    assert ids[0].tolist() == copies[:2], "and cut by id"


def test_nothing_but_equal_vectors() -> None:
    ids, similarity = Nearest.of(np.ones((50, 4)), exact_up_to=0).search(np.ones((2, 4)), 60)
    assert ids[1].tolist() == [*range(50), *[-1] * 10]
    assert similarity[0].tolist() == pytest.approx([1] * 50 + [0] * 10)


def test_minus_zero_is_zero() -> None:
    ids, _ = Nearest.of(np.array([[-0.0, 1.0], [0.0, 1.0]])).search(np.array([[0.0, 1.0]]), 2)
    assert ids.tolist() == [[0, 1]]


@pytest.mark.parametrize("exact_up_to", [10_000, 0])
def test_more_neighbours_than_vectors(exact_up_to: int) -> None:
    vectors, queries = clustered(40), clustered(3, seed=1)
    ids, similarity = Nearest.of(vectors, exact_up_to=exact_up_to).search(queries, 45)
    assert np.sort(ids[:, :40]).tolist() == [list(range(40))] * 3
    assert (ids[:, 40:] == -1).all() and (similarity[:, 40:] == 0).all()
    assert (np.diff(similarity[:, :40]) <= 0).all()


@pytest.mark.parametrize("exact_up_to", [10_000, 0])
def test_no_queries_and_no_vectors(exact_up_to: int) -> None:
    ids, similarity = Nearest.of(clustered(200), exact_up_to=exact_up_to).search(np.zeros((0, 24)), 5)
    assert ids.shape == similarity.shape == (0, 5)
    ids, similarity = Nearest.of(np.zeros((0, 3)), exact_up_to=exact_up_to).search(np.ones((2, 3)), 2)
    assert ids.tolist() == [[-1, -1]] * 2 and similarity.tolist() == [[0, 0]] * 2


@pytest.mark.parametrize("exact_up_to", [10_000, 0])
def test_vectors_and_queries_of_nothing(exact_up_to: int) -> None:
    """Labels without a known word are zeros; their cosine with anything is 0."""
    vectors = clustered(500)
    vectors[[3, 8]] = 0
    index = Nearest.of(vectors, exact_up_to=exact_up_to, probes=1000)
    ids, similarity = index.search(np.zeros((1, 24)), 4)
    assert ids.tolist() == [[0, 1, 2, 3]] and (similarity == 0).all()
    ids, similarity = index.search(clustered(4, seed=2), 500)
    assert (similarity[np.isin(ids, [3, 8])] == 0).all()


# lists
@pytest.mark.parametrize("space", SPACES)
def test_lists_find_nearly_all(space: str) -> None:
    vectors, queries = clustered(8000), clustered(300, seed=1)
    index = Nearest.of(vectors, space, exact_up_to=1000, probes=40)
    assert not index.exact
    ids, similarity = index.search(queries, 20)
    true_ids, _ = brute_force(vectors, queries, 20, space)
    few = recall(ids, true_ids)
    assert few > 0.9
    assert (np.diff(similarity) <= 0).all()
    assert all(len(set(row)) == 20 for row in ids.tolist())
    index.probes = 80
    assert few <= recall(index.search(queries, 20)[0], true_ids)
    index.probes = 10**6
    assert recall(index.search(queries, 20)[0], true_ids) > 0.999, "in all lists everything is found"


def test_lists_that_hold_too_few_are_filled_up() -> None:
    vectors, queries = clustered(2000), clustered(20, seed=1)
    ids, _ = Nearest.of(vectors, exact_up_to=0, probes=1).search(queries, 900)
    np.testing.assert_array_equal(ids, Nearest.of(vectors).search(queries, 900)[0])


@pytest.mark.parametrize("exact_up_to", [100_000, 0])
def test_the_same_answers_every_time(exact_up_to: int) -> None:
    """Same seed, same bytes, for any number of threads, and whichever queries come together."""
    vectors, queries = clustered(6000), clustered(2500, seed=1)
    indexes = [Nearest.of(vectors, exact_up_to=exact_up_to, probes=8, seed=3, threads=t) for t in (1, 2, 3, 1)]
    answers = [index.search(queries, 30) for index in indexes]
    for ids, similarity in answers[1:]:
        assert ids.tobytes() == answers[0][0].tobytes() and similarity.tobytes() == answers[0][1].tobytes()
    ids, similarity = answers[0]
    for part in (slice(0, 1), slice(7, 300)):
        some_ids, some_similarity = indexes[0].search(queries[part], 30)
        assert (some_ids == ids[part]).mean() > 0.999
        np.testing.assert_array_equal(some_similarity, similarity[part])


def test_another_seed_makes_other_lists() -> None:
    vectors, queries = clustered(4000), clustered(200, seed=1)
    first, second = (Nearest.of(vectors, exact_up_to=0, probes=3, seed=s).search(queries, 30)[0] for s in (0, 1))
    assert (first != second).any()


def test_the_caller_keeps_his_arrays() -> None:
    vectors, queries = clustered(50), clustered(5, seed=1)
    before = vectors.tobytes(), queries.tobytes()
    index = Nearest.of(vectors, "product")
    expected = index.search(queries, 3)[0].tolist()
    assert (vectors.tobytes(), queries.tobytes()) == before
    vectors[:] = 0
    assert index.search(queries, 3)[0].tolist() == expected, "and the index its own"


def test_numbers_of_any_kind_and_order() -> None:
    vectors = clustered(60)
    wanted = Nearest.of(vectors).search(vectors[:4], 5)[0].tolist()
    for other in (vectors.astype(np.float64), np.asfortranarray(vectors), np.repeat(vectors, 2, axis=1)[:, ::2]):
        assert Nearest.of(other).search(other[:4], 5)[0].tolist() == wanted
    tiny = vectors * np.float32(1e-25)
    assert Nearest.of(tiny).search(tiny[:4], 5)[0].tolist() == wanted, "whose squares vanish in single precision"


def test_equal_hashes_of_different_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_hashes", lambda bits: np.zeros(len(bits), dtype=np.uint64))
    vectors = np.array([[1, 0], [0, 1], [1, 0], [1, 0], [0, 1]], dtype=np.float32)
    ids, _ = Nearest.of(vectors, "product").search(vectors[:2], 5)
    assert ids.tolist() == [[0, 2, 3, 1, 4], [1, 4, 0, 2, 3]]


# what is refused
def test_refused() -> None:
    vectors = clustered(10)
    with pytest.raises(UsageError, match=r"unknown space 'cosin'; did you mean 'cosine'\?"):
        Nearest.of(vectors, "cosin")
    with pytest.raises(UsageError, match="probes must be at least 1"):
        Nearest.of(vectors, probes=0)
    with pytest.raises(ValueError, match=r"vectors must be \(n, D\)"):
        Nearest.of(np.zeros(3))
    with pytest.raises(ValueError, match="vectors must be finite"):
        Nearest.of(np.array([[np.nan]]))
    index = Nearest.of(vectors)
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
    index = Nearest.of(clustered(300), exact_up_to=0)
    index.search(clustered(3), 2)
    with pytest.raises(ValueError, match="width"):
        index.search(np.zeros((1, 3)), 1)
    assert threads() == before
