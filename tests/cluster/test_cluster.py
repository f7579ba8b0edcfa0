"""Label vectors and clustering."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.arrays import SparseRows, with_own_columns
from longtail.cluster.balanced import balanced, halves, in_first_half
from longtail.cluster.kmeans import k_means
from longtail.cluster.label_vectors import label_vectors
from longtail.data.synthetic import synthetic
from longtail.learners.linear.nodes import Documents
from longtail.run import Run


def rows_of(matrix):
    return SparseRows.of(sp.csr_matrix(matrix, dtype=np.float32))


def test_label_vectors_by_hand():
    # label 0 has documents 0 and 1: (1,0,0) + (0,1,0) at unit length; label 1 has document 1 only; label 2 none
    labels = SparseRows(np.array([0, 2, 3, 3]), np.array([0, 1, 1], dtype=np.int32), np.ones(3, dtype=np.float32))
    vectors = label_vectors(rows_of(np.eye(3)), 3, labels, Run())
    half = np.sqrt(0.5)
    expected = [[half, half, 0], [0, 1, 0], [0, 0, 0]]
    np.testing.assert_allclose(vectors.matrix(3).toarray(), expected, rtol=1e-6)


def test_own_columns_are_numbered_in_rising_order_and_leaves_the_scratch_clean():
    rows = rows_of([[0, 3, 0, 1], [2, 0, 0, 0], [0, 0, 0, 5]])
    slot = np.full(4, -1, dtype=np.int32)
    own, used = with_own_columns(rows, np.array([0, 2], dtype=np.int32), slot)
    assert used.tolist() == [1, 3]
    np.testing.assert_array_equal(own.matrix(2).toarray(), [[3, 1], [0, 5]])
    assert (slot == -1).all()


def test_halves_find_the_two_directions():
    vectors = np.array([[1, 0.1], [1, 0.2], [0.1, 1], [0.2, 1]])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    which = np.arange(4, dtype=np.int32)
    in_first = in_first_half(rows_of(vectors), which, 2, (0, 1), 1e-4, 50)  # both seeds lie in the same direction
    assert in_first.tolist() in ([True, True, False, False], [False, False, True, True])


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 60), st.integers(0, 1000))
def test_halves_are_balanced_whatever_the_data(n, seed):
    rng = np.random.default_rng(seed)
    matrix = sp.random(n, 12, density=0.3, random_state=rng, dtype=np.float32)
    first, second = rng.choice(n, 2, replace=False)
    assert in_first_half(rows_of(matrix), np.arange(n, dtype=np.int32), 12, (first, second), 1e-4, 50).sum() == n // 2


def test_k_means_recovers_separate_groups_and_has_no_lonely_cluster():
    rng = np.random.default_rng(3)
    group = rng.integers(0, 4, 200)
    matrix = np.zeros((200, 40), dtype=np.float32)
    for i, g in enumerate(group):
        matrix[i, g * 10 + rng.choice(10, 6, replace=False)] = 1
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    found = k_means(rows_of(matrix), 40, 12, np.random.default_rng(0), Run())
    for cluster in range(found.max() + 1):
        assert len(set(group[found == cluster])) == 1  # no cluster mixes the groups
    assert np.bincount(found).min() >= 2
    assert sorted(set(found)) == list(range(found.max() + 1))


def test_k_means_does_not_depend_on_threads():
    matrix = sp.random(3000, 500, density=0.2, random_state=7, dtype=np.float32)
    one, two, five = (k_means(rows_of(matrix), 500, 20, np.random.default_rng(0), Run(0, t)) for t in (1, 2, 5))
    assert one.tobytes() == two.tobytes() == five.tobytes()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 70), st.integers(1, 12), st.integers(0, 1000))
def test_balanced_clusters_are_small_and_of_like_size(n, size, seed):
    matrix = sp.random(n, 15, density=0.3, random_state=np.random.default_rng(seed), dtype=np.float32)
    found = balanced(rows_of(matrix), 15, size, Run(seed))
    sizes = np.bincount(found)
    assert found.dtype == np.int32 and found.shape == (n,)
    assert sizes.max() <= size and sizes.min() >= 1  # numbers are consecutive
    # halves of halves: no cluster is halved that is small enough, so none is less than half of the limit
    assert n <= size or sizes.min() >= (size + 1) // 2
    assert n > size or len(sizes) == 1


def test_balanced_clusters_hold_what_is_alike_and_neighbours_by_number_are():
    """Four groups in two directions: clusters of a direction stand side by side."""
    rng = np.random.default_rng(1)
    group = rng.permutation(np.repeat(np.arange(4), 8))
    matrix = np.zeros((32, 10), dtype=np.float32)
    for i, g in enumerate(group):
        matrix[i, [g, 4 + g // 2]] = 0.5, 2
        matrix[i, 6 + rng.integers(4)] = 0.1
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    found = balanced(rows_of(matrix), 10, 8, Run(2))  # another seed may end in a worse optimum
    assert [len(set(group[found == cluster])) for cluster in range(4)] == [1, 1, 1, 1]
    side = [group[found == cluster][0] // 2 for cluster in range(4)]
    assert side in ([0, 0, 1, 1], [1, 1, 0, 0])


def test_balanced_clusters_do_not_depend_on_threads_but_on_the_seed():
    matrix = sp.random(400, 60, density=0.2, random_state=7, dtype=np.float32)
    one, two, five = (balanced(rows_of(matrix), 60, 9, Run(0, t)) for t in (1, 2, 5))
    assert one.tobytes() == two.tobytes() == five.tobytes()
    assert one.tobytes() != balanced(rows_of(matrix), 60, 9, Run(1, 1)).tobytes()


def test_no_rows_no_clusters():
    assert balanced(rows_of(sp.csr_matrix((0, 3), dtype=np.float32)), 3, 4, Run()).shape == (0,)


def test_a_large_part_is_halved_by_blocks_the_same_for_any_number_of_threads(monkeypatch):
    rng = np.random.default_rng(5)
    direction = np.repeat([0, 1], 150)
    matrix = 0.05 * rng.random((300, 40))
    for i in range(300):
        matrix[i, direction[i] * 20 + rng.choice(20, 12, replace=False)] += 1
    rows = rows_of(matrix / np.linalg.norm(matrix, axis=1, keepdims=True))
    members = np.arange(300, dtype=np.int32)
    alone = halves(rows, 40, members, np.random.default_rng(1), Run(threads=1))
    monkeypatch.setattr("longtail.cluster.balanced.ENTRIES_PER_BLOCK", 1000)
    found = [halves(rows, 40, members, np.random.default_rng(1), Run(threads=threads)) for threads in (1, 2, 5)]
    for first, second in found:
        assert first.tolist() == alone[0].tolist() and second.tolist() == alone[1].tolist()
    assert {*direction[alone[0]]} != {0, 1}  # and the halves are the two directions


def test_the_last_centres_of_k_means_are_kept_as_narrow_as_they_are(monkeypatch):
    widths = []
    monkeypatch.setattr(
        "longtail.cluster.kmeans._nearest_centre",
        lambda rows, low, high, centres, out, similarity, lanes: widths.append((centres.sums.shape[1], len(lanes))),
    )
    matrix = sp.random(300, 50, density=0.2, random_state=7, dtype=np.float32)
    k_means(rows_of(matrix), 50, 100, np.random.default_rng(0), Run(threads=1))
    assert set(widths) == {(32, 32), (8, 8)}


def test_label_vectors_summed_up_a_few_at_a_time_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = synthetic(documents=300, labels=200, words=200, words_per_document=8, seed=4).counted()
    documents = Documents.of(corpus)
    together = label_vectors(documents.rows, documents.n_features, documents.labels, Run(threads=1))
    monkeypatch.setattr("longtail.cluster.label_vectors.ENTRIES_PER_BLOCK", 100)
    monkeypatch.setattr("longtail.cluster.label_vectors.BLOCKS_AT_A_TIME", 2)
    apart = label_vectors(documents.rows, documents.n_features, documents.labels, Run(threads=1))
    assert all(np.array_equal(a, b) for a, b in zip(together, apart, strict=True))
