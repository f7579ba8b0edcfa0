"""Taking rows, columns and other indices out of a corpus, against dense matrices; what a corpus refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.noise import FeatureNoise, written_out

NAMES = "abcdefgh"


def make(Y: list[list[float]], **parts: object) -> Corpus:
    dense = np.array(Y, dtype=np.float32)
    return Corpus(labels=LabelIndex(list(NAMES[: dense.shape[1]])), Y=sp.csr_matrix(dense), **parts)  # type: ignore[arg-type]


@st.composite
def corpora(draw: st.DrawFn) -> Corpus:
    """Up to 6 documents over up to 6 labels; every number differs, so a value that moved is seen."""
    n, L = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    cells = draw(st.lists(st.booleans(), min_size=n * L, max_size=n * L))
    pattern = np.array(cells).reshape(n, L)
    Y = np.where(pattern, np.arange(1, n * L + 1, dtype=np.float32).reshape(n, L) / 64, 0).astype(np.float32)
    own = np.array(draw(st.lists(st.booleans(), min_size=n * L, max_size=n * L))).reshape(n, L)
    names = draw(st.permutations(NAMES))[:L]
    return Corpus(
        labels=LabelIndex(names, [f"text of {name}" for name in names], np.arange(L) + 10, 99),
        Y=sp.csr_matrix(Y),
        texts=[f"text {i}" for i in range(n)],
        X=sp.csr_matrix(np.arange(1, 2 * n + 1, dtype=np.float32).reshape(n, 2)),
        ids=[f"id {i}" for i in range(n)],
        # a weight of 0 is a weight: it must travel like any other
        pair_weight=np.arange(pattern.sum(), dtype=np.float32),
        label_X=sp.csr_matrix(np.arange(1, L + 1, dtype=np.float32).reshape(L, 1)),
        reciprocal=sp.csr_matrix(own),
    )


def dense_weights(corpus: Corpus) -> np.ndarray:
    """Pair weights as (n, L), nan where no pair is stored."""
    assert corpus.pair_weight is not None
    dense = np.full(corpus.Y.shape, np.nan)
    rows = np.repeat(np.arange(len(corpus)), np.diff(corpus.Y.indptr))
    dense[rows, corpus.Y.indices] = corpus.pair_weight
    return dense


def check_whole(corpus: Corpus) -> None:
    """What holds for every corpus, wherever it came from."""
    assert corpus.Y.has_canonical_format
    assert corpus.Y.dtype == np.float32
    assert corpus.Y.shape == (len(corpus), len(corpus.labels))
    assert corpus.pair_weight is not None and len(corpus.pair_weight) == corpus.Y.nnz
    assert corpus.reciprocal is not None and corpus.reciprocal.shape == corpus.Y.shape


# rows
@settings(deadline=None)
@given(corpus=corpora(), data=st.data())
def test_rows_are_those_of_the_dense_matrices(corpus: Corpus, data: st.DataObject) -> None:
    chosen = np.array(data.draw(st.lists(st.integers(0, len(corpus) - 1), max_size=8)), dtype=np.int64)
    part = corpus.rows(chosen)
    check_whole(part)
    assert (part.Y.toarray() == corpus.Y.toarray()[chosen]).all()
    np.testing.assert_array_equal(dense_weights(part), dense_weights(corpus)[chosen])
    assert (part.reciprocal.toarray() == corpus.reciprocal.toarray()[chosen]).all()  # type: ignore[union-attr]
    assert (part.features.toarray() == corpus.features.toarray()[chosen]).all()
    assert part.texts == [f"text {i}" for i in chosen]
    assert part.ids == [f"id {i}" for i in chosen]
    assert part.labels is corpus.labels, "counts stay those of the whole"


# columns
@settings(deadline=None)
@given(corpus=corpora(), data=st.data())
def test_columns_are_those_of_the_dense_matrices(corpus: Corpus, data: st.DataObject) -> None:
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, corpus.n_labels - 1)))), dtype=np.int64)
    part = corpus.columns(chosen)
    check_whole(part)
    assert (part.Y.toarray() == corpus.Y.toarray()[:, chosen]).all()
    np.testing.assert_array_equal(dense_weights(part), dense_weights(corpus)[:, chosen])
    assert (part.reciprocal.toarray() == corpus.reciprocal.toarray()[:, chosen]).all()  # type: ignore[union-attr]
    assert part.label_X is not None and part.label_X.toarray().ravel().tolist() == (chosen + 1).tolist()
    assert list(part.labels.names) == [corpus.labels.names[c] for c in chosen]
    assert part.labels.frequency.tolist() == (chosen + 10).tolist()
    assert part.texts == corpus.texts, "documents without a label left stay"


@pytest.mark.parametrize("columns", [[1, 0], [0, 0]])
def test_columns_must_rise(columns: list[int]) -> None:
    with pytest.raises(ValueError, match="columns must rise"):
        make([[1, 1]]).columns(np.array(columns))


# another index
@settings(deadline=None)
@given(corpus=corpora(), target=st.permutations(NAMES), size=st.integers(1, len(NAMES)), keep=st.booleans())
def test_aligned_moves_columns_by_name(corpus: Corpus, target: list[str], size: int, keep: bool) -> None:
    names = target[:size]
    counts = np.arange(size) + 50
    other = LabelIndex(names, [f"own text of {name}" for name in names], counts, 1234)
    part = corpus.aligned(other, keep_unknown=keep)
    check_whole(part)
    unknown = [name for name in corpus.labels.names if name not in names] if keep else []
    assert list(part.labels.names) == [*names, *unknown], "what the index does not know comes behind its columns"
    assert part.labels.frequency.tolist() == [*counts.tolist(), *[0] * len(unknown)]
    assert part.labels.documents == 1234
    assert part.labels.texts is not None
    assert list(part.labels.texts) == [f"own text of {n}" for n in names] + [f"text of {n}" for n in unknown]
    weights, wanted_weights = dense_weights(part), dense_weights(corpus)
    for column, name in enumerate(part.labels.names):
        old = corpus.labels.ids.get(name)
        if old is None:
            assert part.Y[:, [column]].nnz == 0
            continue
        for new_part, old_part in ((part.Y, corpus.Y), (part.reciprocal, corpus.reciprocal)):
            assert (new_part.toarray()[:, column] == old_part.toarray()[:, old]).all()  # type: ignore[union-attr]
        np.testing.assert_array_equal(weights[:, column], wanted_weights[:, old])
    assert part.texts == corpus.texts


def test_aligned_by_hand() -> None:
    corpus = make([[1, 0.5, 0], [0, 0, 1]], pair_weight=np.array([3, 5, 7], dtype=np.float32))
    other = LabelIndex(["c", "x", "a"], None, np.array([4, 2, 9]), 20)
    dropped = corpus.aligned(other)
    assert dropped.Y.toarray().tolist() == [[0, 0, 1], [1, 0, 0]]
    assert dropped.pair_weight is not None and dropped.pair_weight.tolist() == [3, 7]
    assert dropped.labels is other
    kept = corpus.aligned(other, keep_unknown=True)
    assert kept.labels.names == ["c", "x", "a", "b"]
    assert kept.labels.frequency.tolist() == [4, 2, 9, 0]
    assert kept.labels.texts is None
    assert kept.Y.toarray().tolist() == [[0, 0, 1, 0.5], [1, 0, 0, 0]]
    assert kept.pair_weight is not None and kept.pair_weight.tolist() == [3, 5, 7]


def test_aligned_to_its_own_names_takes_over_the_counts() -> None:
    corpus = make([[1, 0], [1, 1]]).counted()
    training = LabelIndex(["a", "b"], None, np.array([100, 7]), 107)
    for keep in (False, True):
        part = corpus.aligned(training, keep_unknown=keep)
        assert part.labels is training
        assert (part.Y.toarray() == corpus.Y.toarray()).all()


# counting and splitting
def test_counted_counts_documents_not_strength() -> None:
    corpus = make([[1, 0.25, 0], [0.5, 0, 0], [0, 0, 0]])
    assert corpus.labels.frequency.tolist() == [0, 0, 0]
    counted = corpus.counted()
    assert counted.labels.frequency.tolist() == [2, 1, 0]
    assert counted.labels.documents == 3
    assert corpus.labels.documents == 0, "the corpus given stays as it is"


@settings(deadline=None)
@given(n=st.integers(0, 60), share=st.floats(0, 1), seed=st.integers(0, 2**32))
def test_split_is_disjoint_and_complete(n: int, share: float, seed: int) -> None:
    corpus = make(np.ones((n, 1)).tolist() if n else np.zeros((0, 1)), ids=[str(i) for i in range(n)]).counted()  # type: ignore[arg-type]
    first, second = corpus.split(share, np.random.default_rng(seed))
    assert len(second) == round(share * n)
    assert first.ids is not None and second.ids is not None
    both = [int(i) for i in (*first.ids, *second.ids)]
    assert sorted(both) == list(range(n))
    assert [*map(int, first.ids)] == sorted(map(int, first.ids)), "documents keep their order"
    assert first.labels.documents == second.labels.documents == n
    again = corpus.split(share, np.random.default_rng(seed))[1]
    assert again.ids == second.ids


def test_split_draws_at_random() -> None:
    corpus = make(np.ones((100, 1)).tolist(), ids=[str(i) for i in range(100)])
    parts = [tuple(corpus.split(0.3, np.random.default_rng(seed))[1].ids or ()) for seed in range(3)]
    assert len(set(parts)) == 3


# targets and weights
def test_weighted_targets() -> None:
    corpus = make([[1, 0.5], [0.25, 0]])
    assert corpus.weighted_targets().tolist() == [1, 0.5, 0.25]
    weighted = replace(corpus, pair_weight=np.array([0, 2, 4], dtype=np.float32))
    assert weighted.weighted_targets().tolist() == [0, 1, 1]
    assert weighted.weighted_targets().dtype == np.float32


@pytest.mark.parametrize("target", [1.5, -0.5, float("nan"), float("inf")])
def test_targets_lie_above_0_and_up_to_1(target: float) -> None:
    with pytest.raises(ValueError, match=r"targets must lie in \(0, 1\]"):
        make([[1, target]])


def test_a_stored_zero_is_no_target() -> None:
    stored = sp.csr_matrix((np.array([1, 0], dtype=np.float32), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    with pytest.raises(ValueError, match="targets must lie in"):
        Corpus(labels=LabelIndex(["a", "b"]), Y=stored)


def test_targets_of_any_kind_become_float32_csr() -> None:
    corpus = Corpus(labels=LabelIndex(["a", "b"]), Y=sp.coo_matrix(np.array([[0, 1], [1, 0]])))  # type: ignore[arg-type]
    assert isinstance(corpus.Y, sp.csr_matrix)
    assert corpus.Y.dtype == np.float32


def unsorted() -> sp.csr_matrix:
    return sp.csr_matrix(
        (np.array([0.5, 1, 0.25], dtype=np.float32), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2)
    )


def test_unsorted_targets_are_put_in_order_and_the_ones_given_left_alone() -> None:
    given_Y = unsorted()
    corpus = Corpus(labels=LabelIndex(["a", "b"]), Y=given_Y)
    assert (corpus.Y.indices.tolist(), corpus.Y.data.tolist()) == ([0, 1], [1, 0.75])
    assert given_Y.nnz == 3


def test_pair_weights_need_sorted_targets() -> None:
    """The weights go by the order of Y.data, which sorting would change."""
    with pytest.raises(ValueError, match="sorted and free of duplicates"):
        Corpus(labels=LabelIndex(["a", "b"]), Y=unsorted(), pair_weight=np.ones(3, dtype=np.float32))


# sizes
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"texts": ["one"]}, "1 rows of texts for 2 documents"),
        ({"ids": ["1", "2", "3"]}, "3 rows of ids for 2 documents"),
        ({"X": sp.csr_matrix((3, 5))}, "3 rows of X for 2 documents"),
        ({"reciprocal": sp.csr_matrix((1, 2), dtype=bool)}, "1 rows of reciprocal for 2 documents"),
        ({"reciprocal": sp.csr_matrix((2, 3), dtype=bool)}, "3 columns of reciprocal pairs for 2 labels"),
        ({"label_X": sp.csr_matrix((3, 5))}, "3 rows of label_X for 2 labels"),
        ({"pair_weight": np.ones(4, dtype=np.float32)}, "4 pair weights for 3 stored pairs"),
    ],
)
def test_sizes_must_agree(parts: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make([[1, 1], [0, 1]], **parts)


def test_columns_and_labels_must_agree() -> None:
    with pytest.raises(ValueError, match="Y has 2 columns for 1 labels"):
        Corpus(labels=LabelIndex(["a"]), Y=sp.csr_matrix(np.ones((1, 2))))


def test_features_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="corpus has no features yet"):
        _ = make([[1]]).features
    assert make([[1]], X=sp.csr_matrix([[2.0]])).features.nnz == 1


def test_without_unseen_drops_pairs_that_training_never_saw() -> None:
    labels = LabelIndex(["a", "b", "c"], counts=np.array([2, 0, 1]), documents=3)
    Y = sp.csr_matrix(np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0.5]], dtype=np.float32))
    corpus = Corpus(labels=labels, Y=Y, pair_weight=np.array([0.1, 0.2, 0.3, 0.4], dtype=np.float32))
    seen = corpus.without_unseen()
    assert seen.Y.toarray().tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0.5]]
    assert seen.pair_weight.tolist() == pytest.approx([0.1, 0.4])
    assert seen.without_unseen() is seen


# documents that are labels
def test_with_reciprocal_by_hand() -> None:
    """Text against a label's text or name; a number as the name of a label with a text is an id, not a name."""
    labels = LabelIndex(["Oat", "q7", "12", "1984", "STRASSE"], ["a cereal", "Porridge  Oats", "dozen", "", ""])
    texts = ["oat", " porridge\toats ", "12", "Dozen", "1984", "straße", "oats", "", "A Cereal", "q7"]
    corpus = Corpus(labels=labels, Y=sp.csr_matrix((len(texts), 5), dtype=np.float32), texts=texts)
    marked = corpus.with_reciprocal().reciprocal
    assert marked is not None and marked.dtype == bool and marked.shape == (10, 5)
    found = sorted(zip(*(places.tolist() for places in marked.nonzero()), strict=True))
    assert found == [(0, 0), (1, 1), (3, 2), (4, 3), (5, 4), (8, 0), (9, 1)]
    assert corpus.reciprocal is None, "the corpus given stays as it is"


def test_with_reciprocal_by_id() -> None:
    labels = LabelIndex(["B00X", "0827", "1"])
    texts, Y = ["one", "two", "three"], sp.csr_matrix((3, 3), dtype=np.float32)
    named = Corpus(labels=labels, Y=Y, texts=texts, ids=["0827", "b00x", "B00X"]).with_reciprocal()
    assert named.reciprocal is not None
    assert named.reciprocal.toarray().tolist() == [[False, True, False], [False] * 3, [True, False, False]]
    numbered = Corpus(labels=labels, Y=Y, texts=texts, ids=["0", "1", "0827"])
    assert numbered.with_reciprocal() is numbered, "numbers throughout may be the rows of the file"
    without = Corpus(labels=labels, Y=Y, X=sp.csr_matrix((3, 2)))
    assert without.with_reciprocal() is without, "features alone cannot tell"


def test_with_reciprocal_keeps_what_a_filter_file_said() -> None:
    given_pairs = sp.csr_matrix(np.array([[True, False], [False, False]]))
    corpus = make([[1, 1], [0, 1]], texts=["B", "b"], reciprocal=given_pairs)
    marked = corpus.with_reciprocal()
    assert marked.reciprocal is not None
    assert marked.reciprocal.toarray().tolist() == [[True, True], [False, True]]
    assert (marked.with_reciprocal().reciprocal != marked.reciprocal).nnz == 0, "a second time changes nothing"


def test_positives_are_pairs_as_strong_as_they_are_without_those_of_weight_0() -> None:
    Y = sp.csr_matrix(np.array([[1, 0.5], [0, 1]], dtype=np.float32))
    corpus = Corpus(labels=LabelIndex(["a", "b"]), Y=Y, pair_weight=np.array([0, 0.5, 1], dtype=np.float32))
    assert corpus.positives().toarray().tolist() == [[0, 0.25], [0, 1]] and corpus.positives().nnz == 2
    assert corpus.Y.nnz == 3, "the corpus stays as it is"


# --- rows that an augmenter made, masks, groups


def three_documents(**others: object) -> Corpus:
    Y = sp.csr_matrix(np.array([[1, 0.5, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=np.float32))
    return Corpus(labels=LabelIndex(list("abcd")), Y=Y, texts=["x", "y", "z"], **others).counted()  # type: ignore[arg-type]


def test_rows_with_weights_keep_them_behind_a_corpus_without() -> None:
    added = sp.csr_matrix(np.array([[1, 1, 0, 0]], dtype=np.float32))
    masked = three_documents().with_rows(texts=["new"], Y=added, ids=[], pair_weight=np.array([0, 1], np.float32))
    assert masked.pair_weight is not None and masked.pair_weight.tolist() == [1, 1, 1, 1, 1, 0, 1]
    assert masked.masked and not three_documents().masked
    own = three_documents(pair_weight=np.array([1, 0, 1, 1, 1], np.float32))
    assert own.with_rows(texts=["new"], Y=added, ids=[]).pair_weight.tolist() == [1, 0, 1, 1, 1, 1, 1]  # type: ignore[union-attr]
    assert three_documents().with_rows(texts=["new"], Y=added, ids=[]).pair_weight is None


def test_which_rows_are_documents_survives_rows_and_folds() -> None:
    added = sp.csr_matrix(np.array([[1, 0, 0, 0], [0, 0, 0, 1]], dtype=np.float32))
    longer = three_documents().with_rows(texts=["of y", "of none"], Y=added, ids=[], origin=np.array([1, -1], np.int32))
    assert longer.documents.tolist() == [0, 1, 2] and longer.labels.documents == 3
    assert longer.counted().labels.frequency.tolist() == [1, 2, 1, 1], "rows that were made do not count"
    some = longer.rows(np.array([4, 3, 2, 1]))
    assert some.documents.tolist() == [2, 3] and list(some.documents_only().texts or []) == ["z", "y"]
    without = longer.without_documents(np.array([1]))
    assert list(without.texts or []) == ["x", "z", "of none"], "what was made from a document goes with it"
    again = without.with_rows(texts=["more"], Y=added[:1], ids=[])
    assert again.documents.tolist() == [0, 1] and again.origins().tolist() == [0, 2, -1, -1]


def test_groups_by_hand() -> None:
    group = np.array([0, 0, 1, -1], dtype=np.int32)
    grouped = three_documents().by_group(group)
    assert grouped.Y.toarray().tolist() == [[1, 0], [1, 1], [0, 0]] and grouped.pair_weight is None
    # document 0 is masked for a and b, document 1 for b: group 0 is masked for document 0, and holds for none of them
    weight = np.array([0, 0, 0, 1, 1], np.float32)
    masked = three_documents(pair_weight=weight).by_group(group)
    assert masked.Y.indices.tolist() == [0, 0, 1] and masked.pair_weight is not None
    assert masked.pair_weight.tolist() == [0, 0, 1], "neither a positive nor a negative example of the group"
    # one real positive is enough
    weight = np.array([0, 1, 1, 1, 1], np.float32)
    some = three_documents(pair_weight=weight).by_group(group)
    assert some.Y.toarray().tolist() == [[0.5, 0], [1, 1], [0, 0]] and some.pair_weight is None
    assert some.labels.frequency.tolist() == [2, 1]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 9999))
def test_groups_are_the_strongest_of_their_labels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((6, 8)) < 0.4, rng.random((6, 8)), 0).astype(np.float32)
    Y = sp.csr_matrix(dense)
    weight = (rng.random(Y.nnz) < 0.7).astype(np.float32)
    group = rng.integers(-1, 3, 8).astype(np.int32)
    corpus = Corpus(labels=LabelIndex([str(j) for j in range(8)]), Y=Y, pair_weight=weight)
    made = corpus.by_group(group)
    weights = np.ones(made.Y.nnz, np.float32) if made.pair_weight is None else made.pair_weight
    stored = {(r, c): (t, w) for r, c, t, w in zip(*made.Y.nonzero(), made.Y.data, weights, strict=True)}
    full = np.zeros_like(dense)
    full[Y.nonzero()] = weight
    for row in range(6):
        for g in range(int(group.max()) + 1):
            pairs = [(dense[row, j], full[row, j]) for j in np.flatnonzero(group == g) if dense[row, j] > 0]
            strength = max((t * w for t, w in pairs), default=0)
            target, own = stored.get((row, g), (0, None))
            assert (own is None) == (not pairs)
            if pairs:
                assert own == (strength > 0) and (strength == 0 or np.isclose(target, strength))


def test_features_of_any_kind_become_csr_and_count_in_the_fingerprint() -> None:
    X = sp.csr_array(np.array([[1, 0], [0, 2]], dtype=np.float32))
    one, other = make([[1], [1]], X=X), make([[1], [1]], X=X * 2)
    assert isinstance(one.X, sp.csr_matrix)
    assert one.fingerprint != other.fingerprint


def test_noisy_copies_written_out_are_no_documents() -> None:
    X = sp.csr_matrix(np.ones((3, 4), dtype=np.float32))
    noise = FeatureNoise(2, 0.5, 0.0, 0, np.array([-1, 1, -1], dtype=np.int32))
    whole = written_out(make([[1, 0], [0, 1], [1, 0]], X=X, noise=noise))
    assert whole.documents.tolist() == [0, 1, 2]
    assert whole.origins().tolist() == [0, 1, 2, 1, 1]
    assert whole.counted().labels.frequency.tolist() == [2, 1]
    assert len(whole.without_documents(np.array([1]))) == 2
