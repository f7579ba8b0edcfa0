"""TF-IDF: scikit-learn's numbers, in an order and on a schedule of our own."""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer

import longtail.registry  # noqa: F401  gives parts the names that messages call them by
from longtail.errors import UsageError
from longtail.features.tfidf import Tfidf
from longtail.features.tokenise import tokenise
from longtail.run import Run

ALPHABET = "abAB_0 .,äÖßİıΣσς\u0301Ⅳ一𝐀𐐀😀"
TEXTS = st.lists(
    st.lists(
        st.sampled_from(["ab", "cd", "Ab", "x", "straße", "İi", "ΑΣ", "αα", "a\u0301bc", "_1", "𐐀𐐀"])
        | st.text(ALPHABET)
    ).map(" ".join),
    min_size=1,
    max_size=12,
)


@pytest.fixture(scope="module")
def docs() -> list[str]:
    """Real text that is on every machine: numpy's documentation, about 600 documents."""
    return [doc for name in sorted(dir(np)) if isinstance(doc := getattr(getattr(np, name), "__doc__", None), str)]


def reference(texts: list[str], n: int, **limits: object) -> tuple[TfidfVectorizer, sp.csr_matrix]:
    theirs = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, n), **limits)
    return theirs, theirs.fit_transform(texts)


def assert_same(ours: Tfidf, X: sp.csr_matrix, theirs: TfidfVectorizer, Z: sp.csr_matrix) -> None:
    assert set(ours.terms_) == set(theirs.vocabulary_)
    assert len(ours.terms_) == len(theirs.vocabulary_) == X.shape[1]
    difference = X - Z[:, [theirs.vocabulary_[term] for term in ours.terms_]]
    assert abs(difference).max() < 1e-6
    assert X.nnz == Z.nnz


def assert_bytes(a: sp.csr_matrix, b: sp.csr_matrix) -> None:
    assert a.shape == b.shape
    for part in ("indptr", "indices", "data"):
        assert getattr(a, part).dtype == getattr(b, part).dtype
        assert getattr(a, part).tobytes() == getattr(b, part).tobytes()


def test_by_hand() -> None:
    features = Tfidf(min_df=1, max_df=1.0)
    X = features.fit_transform(["the cat the the", "The dog", "a b ."])
    assert features.terms_ == ["the", "cat", "dog"]
    often, once = math.log(4 / 3) + 1, math.log(4 / 2) + 1
    first = np.array([(1 + math.log(3)) * often, once])
    second = np.array([often, once])
    np.testing.assert_allclose(X[0].toarray()[0], [*first / np.linalg.norm(first), 0], atol=1e-7)
    np.testing.assert_allclose(X[1].toarray()[0], np.insert(second / np.linalg.norm(second), 1, 0), atol=1e-7)
    assert X[2].nnz == 0
    assert X.dtype == np.float32
    assert X.indices.dtype == X.indptr.dtype == np.int32


def test_plain_counts() -> None:
    features = Tfidf(min_df=1, max_df=1.0, sublinear=False)
    X = features.fit_transform(["aa aa aa bb", "bb"])
    aa = 3 * (math.log(3 / 2) + 1)
    np.testing.assert_allclose(X.toarray(), [[1 / math.hypot(aa, 1), aa / math.hypot(aa, 1)], [1, 0]], atol=1e-6)


@settings(max_examples=150, deadline=None)
@given(texts=TEXTS, n=st.integers(1, 4), min_df=st.integers(1, 2), max_df=st.sampled_from([0.4, 0.5, 1.0]))
def test_like_scikit_learn(texts: list[str], n: int, min_df: int, max_df: float) -> None:
    ours = Tfidf(ngrams=n, min_df=min_df, max_df=max_df)
    try:
        theirs, Z = reference(texts, n, min_df=min_df, max_df=max_df)
    except ValueError:
        with pytest.raises(UsageError):
            ours.fit(texts)
        return
    assert_same(ours, ours.fit_transform(texts), theirs, Z)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_like_scikit_learn_on_real_text(docs: list[str], n: int) -> None:
    ours = Tfidf(ngrams=n, min_df=2)
    half = len(docs) // 2
    theirs, Z = reference(docs[:half], n, min_df=2, max_df=0.5)
    X = ours.fit_transform(docs[:half])
    assert_same(ours, X, theirs, Z)
    assert_same(ours, ours.transform(docs[half:]), theirs, theirs.transform(docs[half:]))
    assert_bytes(ours.transform(docs[:half]), X)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_max_features(docs: list[str], n: int) -> None:
    """The most frequent are kept. Where the cut falls between equal frequencies scikit-learn's choice is that of an
    unstable sort; ours is the first by characters."""
    free = Tfidf(ngrams=n, min_df=2).fit(docs)
    limit = 300
    ours = Tfidf(ngrams=n, min_df=2, max_features=limit)
    X = ours.fit_transform(docs)
    count = Counter(dict.fromkeys(free.terms_, 0))
    for text in docs:
        part = tokenise([text])
        words = [part.blob[a:b].tobytes().decode() for a, b in zip(part.offsets[:-1], part.offsets[1:], strict=True)]
        stream = [words[i] for i in part.stream]
        for k in range(1, n + 1):
            count.update(term for i in range(len(stream) - k + 1) if (term := " ".join(stream[i : i + k])) in count)
    best = sorted(free.terms_, key=lambda term: (-count[term], term))
    assert set(ours.terms_) == set(best[:limit])

    clear = next(k for k in range(limit, 1, -1) if count[best[k - 1]] != count[best[k]])
    ours = Tfidf(ngrams=n, min_df=2, max_features=clear)
    theirs, Z = reference(docs, n, min_df=2, max_df=0.5, max_features=clear)
    X = ours.fit_transform(docs)
    assert_same(ours, X, theirs, Z)
    assert_bytes(ours.transform(docs), X)


def test_max_features_ties_go_by_characters() -> None:
    assert Tfidf(min_df=1, max_features=2).fit(["dd cc", "bb aa", "ee"]).terms_ == ["aa", "bb"]


@settings(max_examples=50, deadline=None)
@given(texts=TEXTS, n=st.integers(1, 3))
def test_columns_go_by_frequency_then_term(texts: list[str], n: int) -> None:
    features = Tfidf(min_df=1, max_df=1.0, ngrams=n)
    try:
        X = features.fit_transform(texts)
    except UsageError:
        assume(False)
    df = np.bincount(X.indices, minlength=X.shape[1])
    keys = [(-int(count), term) for count, term in zip(df, features.terms_, strict=True)]
    assert keys == sorted(keys)
    assert X.has_sorted_indices
    assert all((np.diff(X[i].indices) > 0).all() for i in range(len(texts)))


@pytest.mark.parametrize("options", [{}, {"ngrams": 3}, {"hash_bits": 10, "ngrams": 2}, {"max_features": 100}], ids=str)
def test_threads_and_chunks_change_nothing(
    docs: list[str], options: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Tfidf(**options)
    X = one.fit_transform(docs, run=Run(threads=1))
    for threads, size in ((1, 1), (3, 5_000), (2, 100_000)):
        monkeypatch.setattr(Tfidf, "chunk_characters", size)
        other = Tfidf(**options)
        assert_bytes(other.fit_transform(docs, run=Run(threads=threads)), X)
        assert_bytes(other.transform(docs, run=Run(threads=threads)), X)
        state, others = one.state(), other.state()
        assert list(state) == list(others)
        for name, array in state.items():
            assert array.dtype == others[name].dtype
            assert array.tobytes() == others[name].tobytes(), name


def test_fit_is_fit_transform_without_rows(docs: list[str]) -> None:
    features = Tfidf()
    X = features.fit_transform(docs)
    assert_bytes(Tfidf().fit(docs).transform(docs), X)
    assert features.n_features_ == X.shape[1] == len(features.idf_) == len(features.terms_)


def test_kept_ngrams_of_words_that_are_not_kept() -> None:
    """'of' is too common for a column of its own, and 'end of' with it is not."""
    texts = ["end of", "end of it", "of that", "of this"]
    features = Tfidf(ngrams=2, min_df=2, max_df=0.5)
    X = features.fit_transform(texts)
    assert features.terms_ == ["end", "end of"]
    assert_bytes(features.transform(texts), X)
    assert features.transform(["of end", "end of"]).toarray()[:, 1].tolist() == [0, pytest.approx(math.sqrt(0.5))]


class TestHashing:
    def test_like_a_plain_reckoning(self, docs: list[str]) -> None:
        bits, texts = 7, docs[:60]  # few columns, so that terms meet in them
        features = Tfidf(hash_bits=bits, min_df=2, max_df=0.9)
        X = features.fit_transform(texts).toarray()
        counts = np.zeros((len(texts), 2**bits))
        for row, text in enumerate(texts):
            part = tokenise([text])
            np.add.at(counts[row], (part.hashes[part.stream] % np.uint64(2**bits)).astype(int), 1)
        df = (counts > 0).sum(axis=0)
        weight = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * (np.log((1 + len(texts)) / (1 + df)) + 1)
        weight[:, (df < 2) | (df > 0.9 * len(texts))] = 0
        assert (df > 0.9 * len(texts)).any()
        length = np.linalg.norm(weight, axis=1, keepdims=True)
        np.testing.assert_allclose(X, weight / np.where(length > 0, length, 1), atol=1e-6)
        np.testing.assert_array_equal(features.transform(texts).toarray(), X)

    def test_state_is_small(self, docs: list[str]) -> None:
        features = Tfidf(hash_bits=12, ngrams=2)
        X = features.fit_transform(docs)
        assert X.shape[1] == 2**12
        assert list(features.state()) == ["idf"]
        again = Tfidf(hash_bits=12, ngrams=2)
        again.restore(features.state())
        assert_bytes(again.transform(docs), X)
        assert not hasattr(again, "terms_")

    def test_wide_enough_it_is_the_vocabulary(self, docs: list[str]) -> None:
        hashed, plain = Tfidf(hash_bits=22).fit_transform(docs[:50]), Tfidf().fit_transform(docs[:50])
        for row in range(50):
            np.testing.assert_array_equal(np.sort(hashed[row].data), np.sort(plain[row].data))

    def test_and_max_features(self) -> None:
        with pytest.raises(UsageError, match="max_features"):
            Tfidf(hash_bits=10, max_features=5)


class TestInput:
    def test_no_documents(self) -> None:
        with pytest.raises(UsageError, match="no documents"):
            Tfidf().fit([])
        features = Tfidf(min_df=1, max_df=1.0).fit(["some words"])
        X = features.transform([])
        assert X.shape == (0, 2)
        assert X.dtype == np.float32

    def test_one_text(self) -> None:
        features = Tfidf(min_df=1, max_df=1.0).fit(["some words"])
        np.testing.assert_allclose(features.transform(["Words!"]).toarray(), [[0, 1]])
        with pytest.raises(UsageError, match="list of texts"):
            features.transform("Words!")

    def test_unknown_and_empty_texts_are_empty_rows(self) -> None:
        features = Tfidf(min_df=1, max_df=1.0, ngrams=2).fit(["some words"])
        X = features.transform(["", "unknown unknown", "x", "some"])
        assert np.diff(X.indptr).tolist() == [0, 0, 0, 1]

    def test_not_a_text(self) -> None:
        with pytest.raises(UsageError, match="document 1 is of type NoneType"):
            Tfidf().fit(["fine", None])  # type: ignore[list-item]

    def test_nothing_left(self) -> None:
        with pytest.raises(UsageError, match=r"lower tfidf.min_df or raise tfidf.max_df"):
            Tfidf(min_df=2).fit(["all of", "these are", "different words"])
        with pytest.raises(UsageError, match=r"lower tfidf.min_df"):
            Tfidf(hash_bits=20, min_df=2).fit(["all of", "these are", "different words"])
        with pytest.raises(UsageError, match="text field"):
            Tfidf().fit(["", "?", "x"])

    def test_not_fitted(self) -> None:
        with pytest.raises(UsageError, match="not fitted"):
            Tfidf().transform(["text"])
        with pytest.raises(UsageError, match="not fitted"):
            Tfidf().state()
        assert not hasattr(Tfidf(), "terms_")

    @pytest.mark.parametrize(("name", "value"), [("ngrams", 0), ("min_df", 0), ("max_df", 1.5), ("hash_bits", 40)])
    def test_options_out_of_range(self, name: str, value: float) -> None:
        with pytest.raises(UsageError, match=f"tfidf.{name}"):
            Tfidf(**{name: value})

    def test_clone(self) -> None:
        assert clone(Tfidf(ngrams=2), safe=False).get_params()["ngrams"] == 2


class TestState:
    @pytest.mark.parametrize("options", [{}, {"ngrams": 3}, {"ngrams": 2, "max_features": 50}], ids=str)
    def test_round_trip_through_memory_maps(self, docs: list[str], options: dict[str, int], tmp_path: Path) -> None:
        features = Tfidf(**options)
        X = features.fit_transform(docs)
        mapped = {}
        for name, array in features.state().items():
            np.save(tmp_path / f"{name}.npy", array)
            mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
        again = Tfidf(**options)
        again.restore(mapped)
        assert_bytes(again.transform(docs), X)
        assert again.terms_ == features.terms_
        assert np.shares_memory(again.state()["blob"], mapped["blob"])

    def test_unaligned_arrays(self, docs: list[str]) -> None:
        features = Tfidf()
        X = features.fit_transform(docs)
        shifted = {}
        for name, array in features.state().items():
            room = np.zeros(array.nbytes + 1, dtype=np.uint8)
            room[1:] = np.frombuffer(array.tobytes(), dtype=np.uint8)
            shifted[name] = room[1:].view(array.dtype).reshape(array.shape)
        again = Tfidf()
        again.restore(shifted)
        assert_bytes(again.transform(docs), X)

    @pytest.mark.parametrize("ngrams", [1, 3])
    def test_hostile_arrays(self, ngrams: int) -> None:
        """Whatever is off is refused with a sentence, and the part stays as it was."""
        features = Tfidf(ngrams=ngrams, min_df=1, max_df=1.0).fit(["some more words", "some other words"])
        good = features.state()

        def with_value(name: str, at: object, value: float) -> dict[str, np.ndarray]:
            array = good[name].copy()
            array[at] = value
            return {**good, name: array}

        T = len(good["offsets"]) - 1
        free = int(np.flatnonzero(good["slots"] < 0)[0])
        bad = [
            {},
            {**good, "more": np.zeros(1)},
            *({k: v for k, v in good.items() if k != name} for name in good),
            *({**good, name: array.astype(np.float64)} for name, array in good.items()),
            *(
                {**good, name: array.astype(array.dtype.newbyteorder())}
                for name, array in good.items()
                if name != "blob"
            ),
            *({**good, name: array[:-1]} for name, array in good.items()),
            *({**good, name: array[:0]} for name, array in good.items()),
            *({**good, name: array[None]} for name, array in good.items()),
            with_value("idf", 0, np.nan),
            with_value("idf", 0, -1),
            with_value("offsets", 0, 1),
            with_value("offsets", 1, -5),
            with_value("offsets", 1, 2**40),
            with_value("offsets", -1, 2**40),
            with_value("slots", free, T),
            with_value("slots", free, -2),
            with_value("slots", free, 0),
            with_value("slots", slice(None), 0),
            with_value("columns", 0, -2),
            with_value("columns", 0, len(good["idf"])),
            with_value("columns", 0, 1),
            with_value("columns", 0, -1),
        ]
        if ngrams > 1:
            P = len(good["pairs"])
            bad += [
                with_value("pairs", (0, 0), -1),
                with_value("pairs", (0, 0), T),  # made of itself
                with_value("pairs", (0, 1), T),  # ends in an n-gram
                with_value("pair_slots", int(np.flatnonzero(good["pair_slots"] < 0)[0]), P),
                with_value("pair_slots", slice(None), -1),
            ]
        for arrays in bad:
            part = Tfidf(ngrams=ngrams)
            with pytest.raises(ValueError, match=r"tfidf|vocabulary|must be"):
                part.restore(arrays)
            assert not hasattr(part, "idf_")

    def test_ngrams_longer_than_said(self) -> None:
        features = Tfidf(ngrams=3, min_df=1, max_df=1.0).fit(["some more words"])
        with pytest.raises(ValueError, match="more than 2 words"):
            Tfidf(ngrams=2).restore(features.state())


@pytest.mark.slow
def test_like_scikit_learn_on_eurlex57k() -> None:
    import gzip
    import json

    default = Path(__file__).parents[3] / "shared" / "data"
    path = Path(os.environ.get("LONGTAIL_DATA", default)) / "eurlex57k" / "valid.jsonl.gz"
    if not path.exists():
        pytest.skip("eurlex57k is not here; set LONGTAIL_DATA to the folder that holds it")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    ours = Tfidf(min_df=2)
    theirs, Z = reference(texts, 1, min_df=2, max_df=0.5)
    assert_same(ours, ours.fit_transform(texts), theirs, Z)


def test_one_document() -> None:
    with pytest.raises(UsageError, match="a single document is too little to learn from"):
        Tfidf().fit(["one text about bees"])
