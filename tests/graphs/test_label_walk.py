"""The label correlation graph: by hand, against dense computations, and whatever the number of threads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from longtail.cli import app
from longtail.data.synthetic import synthetic
from longtail.describe import describe_corpus, describe_labels
from longtail.errors import UsageError
from longtail.graphs.label_walk import KINDS, expected_visits, label_graph, propagation, random_walks, soft_annotations
from longtail.read import read
from longtail.run import Run

#: Labels 0 and 1 share a document, 1 has one more of its own, 2 is alone, 3 has no document.
BY_HAND = sp.csr_matrix(np.array([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], dtype=np.float32))


def drawn(seed: int, n: int, labels: int, density: float) -> sp.csr_matrix:
    rng = np.random.default_rng(seed)
    return sp.csr_matrix(((rng.random((n, labels)) < density) * rng.uniform(0.1, 1, (n, labels))).astype(np.float32))


def dense_visits(Y: sp.csr_matrix, hops: int, restart: float, head: int = 500) -> np.ndarray:
    """The chain hop by hop, for all labels at once."""
    there = (Y.toarray() > 0).astype(float)
    there[:, there.sum(axis=0) > head] = 0
    P = (there / np.maximum(there.sum(axis=0), 1)).T @ (there / np.maximum(there.sum(axis=1, keepdims=True), 1))
    start = np.eye(Y.shape[1])
    total, now = np.zeros_like(P), start
    for hop in range(hops):
        now = (now if hop == 0 else restart * start + (1 - restart) * now) @ P
        total += now
    return total


def kept(visits: np.ndarray, most: int) -> np.ndarray:
    """The `most` largest of each row and the diagonal; 1 where a label never meets itself."""
    found = np.zeros_like(visits)
    for row, values in enumerate(visits):
        best = np.lexsort((np.arange(len(values)), -values.astype(np.float32)))[:most]
        found[row, best] = values[best]
        found[row, row] = values[row] if values[row] > 0 else 1
    return found


def same(first: sp.csr_matrix, second: sp.csr_matrix) -> bool:
    return all(getattr(first, p).tobytes() == getattr(second, p).tobytes() for p in ("data", "indices", "indptr"))


# by hand
def test_expected_visits_by_hand() -> None:
    """P = [[1/2, 1/2], [1/4, 3/4]] for labels 0 and 1. Two hops, restart 1/2: e P (1 + 1/2) + e P^2 / 2.

    For label 0: 1.5 (1/2, 1/2) + (3/8, 5/8) / 2 = (15/16, 17/16); for label 1: 1.5 (1/4, 3/4) + (5/16, 11/16) / 2.
    """
    graph = expected_visits(BY_HAND, hops=2, restart=0.5)
    assert graph.dtype == np.float32 and graph.toarray().tolist() == [
        [15 / 16, 17 / 16, 0, 0],
        [17 / 32, 47 / 32, 0, 0],
        [0, 0, 2, 0],
        [0, 0, 0, 1],
    ]


def test_walks_where_there_is_no_choice() -> None:
    Y = sp.csr_matrix(np.array([[1, 0], [1, 0], [0, 0.3]], dtype=np.float32))
    assert random_walks(Y, hops=7, seed=1).toarray().tolist() == [[7, 0], [0, 7]]
    assert random_walks(BY_HAND, hops=9, seed=1).toarray()[2:].tolist() == [[0, 0, 9, 0], [0, 0, 0, 1]]


def test_labels_with_many_documents_stand_alone() -> None:
    Y = sp.csr_matrix(np.array([[1, 1, 1], [1, 0, 1], [1, 0, 0]], dtype=np.float32))
    for kind in KINDS:
        graph = label_graph(Y, kind, head=2, hops=50).toarray()
        assert graph[0].tolist() == [1, 0, 0] and graph[:, 0].tolist() == [1, 0, 0]
        assert graph[1, 2] > 0 and graph[1:].sum() == pytest.approx(100, abs=0.1)


def test_the_diagonal_stays_though_it_is_not_among_the_largest() -> None:
    Y = sp.csr_matrix(np.array([[1, 1, 1], [0, 1, 0], [0, 1, 0]], dtype=np.float32))
    graph = expected_visits(Y, most=1, hops=1)
    third = pytest.approx(1 / 3)
    assert graph.toarray()[0].tolist() == [third, 0, 0], "ties go to the lower label"
    assert graph.toarray()[2].tolist() == [third, 0, third]


def test_only_what_is_positive_counts() -> None:
    Y = BY_HAND.copy()
    Y.data = np.array([0.2, 0.9, 0.1, 0.5], dtype=np.float32)
    assert same(expected_visits(Y), expected_visits(BY_HAND))
    Y.data[0] = 0
    assert expected_visits(Y).toarray()[0].tolist() == [1, 0, 0, 0], "a stored 0 is no document"


def test_soft_annotations_and_propagation_by_hand() -> None:
    graph = sp.csr_matrix(np.array([[4, 1, 0.4], [6, 2, 0], [0, 0, 1]], dtype=np.float32))
    soft = soft_annotations(graph)
    assert soft.toarray().tolist() == [[0, 0.25, 0], [1, 0, 0], [0, 0, 0]], "0.1 is not above 0.1, and 3 is cut at 1"
    assert soft.dtype == np.float32 and soft.nnz == 2
    assert soft_annotations(graph, 0.05).nnz == 3
    rows, columns = np.array([5.4, 8, 1]), np.array([10, 3, 1.4])
    expected = graph.toarray() / np.sqrt(rows[:, None] * columns)
    np.testing.assert_allclose(propagation(graph).toarray(), expected, rtol=1e-6)


# against other computations
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 12),
    labels=st.integers(1, 9),
    density=st.floats(0, 1),
    hops=st.integers(1, 60),
    restart=st.sampled_from([0.05, 0.2, 0.8, 1.0]),
)
def test_expected_visits_like_a_dense_computation(
    seed: int, n: int, labels: int, density: float, hops: int, restart: float
) -> None:
    Y = drawn(seed, n, labels, density)
    dense = dense_visits(Y, hops, restart)
    exact = expected_visits(Y, hops=hops, restart=restart, most=labels, precision=0)
    np.testing.assert_allclose(exact.toarray(), kept(dense, labels), rtol=1e-4, atol=1e-5)
    few = expected_visits(Y, hops=hops, restart=restart, most=2, precision=0)
    assert (np.diff(few.indptr) <= 3).all() and (few.diagonal() > 0).all() and few.has_sorted_indices
    # nothing is gained, and no label loses more than its bound
    count = (Y.toarray() > 0).sum(axis=0)
    rough = expected_visits(Y, hops=hops, restart=restart, most=labels, precision=1e-2).toarray()
    powers = hops if restart == 1 else min(hops, np.ceil(np.log(1e-2) / np.log(1 - restart)))
    lost = kept(dense, labels) - rough
    assert (lost >= -1e-3).all() and (lost <= hops * 1e-2 * (powers + 1) * np.maximum(count, 1) + 1e-3).all()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 12), labels=st.integers(1, 9), most=st.integers(1, 9))
def test_walks_are_counted(seed: int, n: int, labels: int, most: int) -> None:
    Y = drawn(seed, n, labels, 0.4)
    reached = dense_visits(Y, 40, 0.8) > 0
    graph = random_walks(Y, hops=40, most=labels, seed=seed).toarray()
    count = (Y.toarray() > 0).sum(axis=0)
    assert (graph[count > 0].sum(axis=1) >= 40).all() and (graph.diagonal() >= 1).all()
    assert not graph[~(reached | np.eye(labels, dtype=bool))].any(), "only labels that hops lead to"
    assert (np.diff(random_walks(Y, hops=40, most=most, seed=seed).indptr) <= most + 1).all()


def test_long_walks_come_close_to_what_is_expected() -> None:
    Y = drawn(5, 30, 12, 0.2)
    hops = 200_000
    expected = expected_visits(Y, hops=hops, most=12).toarray()
    walked = random_walks(Y, hops=hops, most=12, seed=3).toarray()
    np.testing.assert_allclose(walked / hops, expected / hops, atol=0.01)
    other = random_walks(Y, hops=400, most=12, seed=3).toarray()
    assert np.abs(other / 400 - expected / hops).max() > 0.01, "a short walk does not"


# reproducible
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_for_any_number_of_threads(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Y = synthetic(documents=400, labels=150, words=200, seed=2).Y
    whole = label_graph(Y, kind, seed=7, run=Run(threads=1))
    monkeypatch.setattr("longtail.graphs.label_walk.CHUNK", 16)
    for threads in (1, 2, 3):
        assert same(label_graph(Y, kind, seed=7, run=Run(threads=threads)), whole)
    other = label_graph(Y, kind, seed=8)
    assert same(other, whole) == (kind == "expected"), "only drawn walks follow from the seed"


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (2, 1)])
def test_empty_corpora(shape: tuple[int, int]) -> None:
    Y: Any = sp.csr_matrix(sp.coo_array(shape, dtype=np.float32))
    for kind in KINDS:
        graph = label_graph(Y, kind)
        assert graph.shape == (shape[1], shape[1]) and (graph.toarray() == np.eye(shape[1])).all()
        assert soft_annotations(graph).nnz == 0 and propagation(graph).shape == graph.shape


def test_kinds() -> None:
    with pytest.raises(ValueError, match="one of"):
        label_graph(BY_HAND, "other")


# shown
@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three documents; the text of one is a label's, but for case and spaces."""
    documents = [("a  SHIP", ["a ship", "sea"]), ("one more", ["sea"]), ("another", ["alone [x]"])]
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in documents))
    return path


def test_neighbours_of_a_label(data: Path) -> None:
    corpus = read(data)
    ship, alone = (facts.to_dict() for facts in describe_labels(corpus, ["a ship", "alone [x]"]))
    graph = expected_visits(corpus.Y).toarray()
    own, other = corpus.labels.ids["a ship"], corpus.labels.ids["sea"]
    weight = pytest.approx(graph[own, other] / graph[own, own], abs=1e-4)
    assert ship["documents"] == 1 and ship["text"] == "a ship"
    assert ship["neighbours"] == [{"label": "sea", "text": "sea", "weight": weight, "documents": 2}]
    assert alone["neighbours"] == []
    with pytest.raises(UsageError, match=r"has no label 'a shop'; did you mean 'a ship'\?"):
        describe_labels(corpus, ["a shop"])
    with pytest.raises(UsageError, match=r"has no label 'qqqqqq'$"):
        describe_labels(corpus, ["qqqqqq"])


def test_inspect_shows_labels(data: Path, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["inspect", str(data), "--label", "a ship", "--label", "alone [x]"])
    assert shown.exit_code == 0
    for words in ("a ship  1 document\n", "sea", "█", "alone [x]", "no neighbours"):
        assert words in shown.output
    found = json.loads(CliRunner().invoke(app, ["inspect", str(data), "--label", "sea", "--json"]).output)
    assert [one["label"] for one in found["labels"]] == ["sea"]
    both = CliRunner().invoke(app, ["inspect", str(data), "--label", "sea", "--png", str(tmp_path / "x.png")])
    assert isinstance(both.exception, UsageError) and "leave out --label" in str(both.exception)


def test_texts_that_are_label_texts_are_counted(data: Path) -> None:
    assert describe_corpus(read(data)).texts_that_are_label_texts == pytest.approx(1 / 3, abs=1e-6)
    assert "texts that are label texts" in CliRunner().invoke(app, ["inspect", str(data)]).output
    assert describe_corpus(synthetic(documents=20, labels=5, words=50)).texts_that_are_label_texts is None
