"""Dense features: their three sources, what is kept of them, and learners on rows with every column set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from longtail.corpus import Corpus
from longtail.errors import LongtailError, ModelError, UsageError
from longtail.features.dense import Dense
from longtail.labels import LabelIndex
from longtail.registry import build, config_of
from longtail.run import Run
from longtail.tagger import Tagger
from tiny_transformer import save_tiny_transformer


def word_file(folder: Path, vectors: dict[str, list[float]]) -> str:
    path = folder / "words.txt"
    lines = [f"{word} {' '.join(map(str, numbers))}" for word, numbers in vectors.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def two_topics(n: int = 120, seed: int = 0) -> tuple[Corpus, np.ndarray]:
    """Documents of 6 labels, and vectors that tell the labels apart, negative numbers among them."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(6, 8)).astype(np.float32)
    label = rng.integers(0, 6, size=n)
    vectors = (centres[label] + 0.2 * rng.normal(size=(n, 8))).astype(np.float32)
    Y = sp.csr_matrix((np.ones(n, np.float32), (np.arange(n), label)), shape=(n, 6))
    texts = [f"topic{one} common words" for one in label]
    ids = [f"doc-{i}" for i in range(n)]
    return Corpus(labels=LabelIndex([f"l{j}" for j in range(6)]), Y=Y, texts=texts, ids=ids).counted(), vectors


def saved(path: Path, ids: Any, vectors: np.ndarray) -> str:
    np.savez(path, ids=np.array(ids), vectors=vectors)
    return str(path)


class TestWords:
    def test_by_hand(self, tmp_path: Path) -> None:
        """Three documents; "aa" is in 1 of 3 and "bb" in 1 of 3, so both weigh the same where they stand once."""
        source = word_file(tmp_path, {"aa": [1, 0], "bb": [0, -1], "cc": [3, 4]})
        part = Dense(source="words", vectors=source, removed=0, unit=False)
        X = part.fit_transform(["aa bb", "cc", "zz"]).toarray()
        np.testing.assert_allclose(X, [[0.5, -0.5], [3, 4], [0, 0]], atol=1e-6)
        unit = Dense(source="words", vectors=source, removed=0).fit_transform(["aa bb", "cc", "zz"])
        np.testing.assert_allclose(unit.toarray(), [[0.5**0.5, -(0.5**0.5)], [0.6, 0.8], [0, 0]], atol=1e-6)
        assert unit[2].nnz == 0

    def test_rarer_words_weigh_more(self, tmp_path: Path) -> None:
        source = word_file(tmp_path, {"often": [1, 0], "rarely": [0, 1]})
        texts = ["often rarely", "often", "other", "another", "third"]
        part = Dense(source="words", vectors=source, removed=0, unit=False)
        first = part.fit_transform(texts).toarray()[0]
        often, rarely = np.log(6 / 3) + 1, np.log(6 / 2) + 1
        np.testing.assert_allclose(first, np.array([often, rarely]) / (often + rarely), rtol=1e-5)

    def test_a_removed_component_is_gone(self, tmp_path: Path) -> None:
        """All documents share a direction; without it what is left is what tells them apart."""
        source = word_file(tmp_path, {"aa": [10, 1], "bb": [10, -1]})
        part = Dense(source="words", vectors=source, removed=1)
        X = part.fit_transform(["aa", "bb"]).toarray()
        np.testing.assert_allclose(np.abs(part.components_), [[1, 0]], atol=1e-6)
        np.testing.assert_allclose(X, [[0, 1], [0, -1]], atol=1e-5)
        kept = Dense(source="words", vectors=source, removed=0).fit_transform(["aa", "bb"]).toarray()
        assert kept[0] @ kept[1] > 0.9, "it does something"

    def test_rounding_is_not_brought_to_unit_length(self, tmp_path: Path) -> None:
        """Documents that are all alike have nothing left once what they share is gone."""
        source = word_file(tmp_path, {"aa": [0.1, 0.7, -0.3], "bb": [0.1, 0.7, -0.3]})
        assert Dense(source="words", vectors=source).fit_transform(["aa", "bb", "cc"]).nnz == 0

    def test_no_known_word(self, tmp_path: Path) -> None:
        source = word_file(tmp_path, {"elsewhere": [1, 2]})
        with pytest.raises(UsageError, match="none of the documents' words"):
            Dense(source="words", vectors=source).fit_transform(["aa bb", "cc"])

    def test_words_without_vectors_are_not_kept(self, tmp_path: Path) -> None:
        source = word_file(tmp_path, {"aa": [1, 2], "bb": [3, 4]})
        part = Dense(source="words", vectors=source)
        part.fit_transform(["aa one", "bb two", "three four"])
        assert part.state()["source.vectors"].shape == (2, 2)


class TestFile:
    def test_by_hand(self, tmp_path: Path) -> None:
        corpus, vectors = two_topics(4)
        order = [2, 0, 3, 1]
        file = saved(tmp_path / "v.npz", [corpus.ids[i] for i in order], vectors[order])
        X = Dense(source="file", file=file, removed=0, unit=False).fit_corpus(corpus, Run())
        np.testing.assert_array_equal(X.toarray(), vectors)
        unit = Dense(source="file", file=file).fit_corpus(corpus, Run()).toarray()
        np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-6)

    def test_a_matrix_with_ids_beside_it_and_a_folder(self, tmp_path: Path) -> None:
        corpus, vectors = two_topics(5)
        np.save(tmp_path / "a.npy", vectors[:2].astype(np.float16))
        (tmp_path / "a.ids.txt").write_text("doc-0\ndoc-1\n", encoding="utf-8")
        saved(tmp_path / "b.npz", list(corpus.ids[2:]), vectors[2:])
        X = Dense(source="file", file=str(tmp_path), removed=0, unit=False).fit_corpus(corpus, Run()).toarray()
        np.testing.assert_array_equal(X[2:], vectors[2:])
        np.testing.assert_array_equal(X[:2], vectors[:2].astype(np.float16))

    def test_whole_numbers_are_ids_too(self, tmp_path: Path) -> None:
        corpus, vectors = two_topics(3)
        corpus.ids = ["7", "8", "9"]
        file = saved(tmp_path / "v.npz", np.array([9, 8, 7]), vectors)
        X = Dense(source="file", file=file, removed=0, unit=False).fit_corpus(corpus, Run()).toarray()
        np.testing.assert_array_equal(X, vectors[::-1])

    @pytest.mark.parametrize(
        ("arrays_", "message"),
        [
            ({"ids": ["doc-0"], "vectors": np.ones((1, 2))}, "no vector for 2 of 3 documents, such as the id 'doc-1'"),
            ({"ids": ["doc-0"], "vectors": np.ones((2, 2))}, "1 ids for 2 vectors"),
            ({"ids": ["a"], "vectors": np.ones(1)}, "must be numbers"),
            ({"ids": ["a"], "vectors": np.array([["x"]])}, "must be numbers"),
            ({"ids": ["a"], "others": np.ones((1, 2))}, "'ids' and 'vectors'"),
            ({"ids": [["a"]], "vectors": np.ones((1, 2))}, "must be texts"),
            ({"ids": ["doc-0", "doc-0"], "vectors": np.ones((2, 2))}, "a second vector of the document 'doc-0'"),
            ({"ids": np.array(["a"], dtype=object), "vectors": np.ones((1, 2))}, "Python objects"),
            ({"ids": ["doc-0", "doc-1", "doc-2"], "vectors": np.full((3, 2), np.nan)}, "not finite"),
        ],
    )
    def test_refused_in_one_line(self, tmp_path: Path, arrays_: dict[str, Any], message: str) -> None:
        corpus, _ = two_topics(3)
        np.savez(tmp_path / "v.npz", **arrays_)
        with pytest.raises(LongtailError, match=message) as refused:
            Dense(source="file", file=str(tmp_path / "v.npz")).fit_corpus(corpus, Run())
        assert "\n" not in str(refused.value)

    def test_other_refusals(self, tmp_path: Path) -> None:
        corpus, vectors = two_topics(3)
        np.save(tmp_path / "v.npy", vectors)
        for file, message in (
            (tmp_path / "none.npz", "there is no file"),
            (tmp_path / "v.csv", "not from"),
            (tmp_path / "v.npy", "v.ids.txt"),
        ):
            with pytest.raises(LongtailError, match=message):
                Dense(source="file", file=str(file)).fit_corpus(corpus, Run())
        (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and then nothing")
        with pytest.raises(LongtailError, match="cannot be read"):
            Dense(source="file", file=str(tmp_path / "broken.npz")).fit_corpus(corpus, Run())
        part = Dense(source="file", file=saved(tmp_path / "w.npz", list(corpus.ids), vectors))
        with pytest.raises(UsageError, match="documents with ids, not bare texts"):
            part.fit_transform(["aa"])
        corpus.ids = None
        with pytest.raises(UsageError, match="has no ids"):
            part.fit_corpus(corpus, Run())

    @given(
        vectors=arrays(np.float32, (5, 3), elements=st.floats(-100, 100, width=32)),
        order=st.permutations(range(5)),
    )
    @settings(deadline=None, max_examples=30)
    def test_order_in_the_file_does_not_matter(
        self, tmp_path_factory: pytest.TempPathFactory, vectors: np.ndarray, order: list[int]
    ) -> None:
        folder = tmp_path_factory.mktemp("vectors")
        corpus, _ = two_topics(5)
        files = [
            saved(folder / f"{name}.npz", [corpus.ids[i] for i in rows], vectors[list(rows)])
            for name, rows in (("straight", range(5)), ("mixed", order))
        ]
        first, second = (Dense(source="file", file=file, removed=0).fit_corpus(corpus, Run()) for file in files)
        assert first.data.tobytes() == second.data.tobytes() and (first.indptr == second.indptr).all()
        lengths = np.linalg.norm(first.toarray().astype(np.float64), axis=1)
        there = np.linalg.norm(vectors.astype(np.float64), axis=1) > 0
        np.testing.assert_allclose(lengths, there, atol=1e-5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny encoder."""
    for name in ("torch", "transformers"):
        pytest.importorskip(name)
    words = [*(f"topic{j}" for j in range(6)), "common", "words", "aa", "bb"]
    return save_tiny_transformer(tmp_path_factory.mktemp("encoder"), words)


class TestEncoder:
    def test_the_mean_of_the_last_layer(self, folder: str) -> None:
        import torch
        import transformers

        texts = ["aa bb aa", "bb", "common words topic1 topic2 aa"]
        X = Dense(model=folder, removed=0, unit=False, batch=2).fit_transform(texts, run=Run(threads=1)).toarray()
        tokeniser = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModel.from_pretrained(folder).eval()
        for row, text in zip(X, texts, strict=True):
            with torch.no_grad():
                own = model(**tokeniser(text, return_tensors="pt")).last_hidden_state[0].mean(dim=0)
            np.testing.assert_allclose(row, own.numpy(), atol=1e-5)

    def test_windows_and_batches_leave_every_text_in_its_place(
        self, folder: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        texts = ["aa", "aa bb common", "", "bb", "words aa bb common words", "topic1 aa", "topic2"]
        whole = Dense(model=folder).fit_transform(texts).toarray()
        monkeypatch.setattr("longtail.features.pretrained.WINDOW", 3)
        np.testing.assert_allclose(Dense(model=folder, batch=2).fit_transform(texts).toarray(), whole, atol=1e-5)

    def test_empty_texts_are_empty_rows(self, folder: str) -> None:
        X = Dense(model=folder, removed=0).fit_transform(["aa", " \n", "bb"])
        assert X[1].nnz == 0 and X[0].nnz == 32

    def test_a_cut_text(self, folder: str) -> None:
        part = Dense(model=folder, max_length=4)
        X = part.fit_transform(["aa bb", "aa bb common words", "aa"])
        np.testing.assert_allclose(X[0].toarray(), X[1].toarray(), atol=1e-6)
        assert abs(X[0] - X[2]).max() > 1e-3

    def test_only_a_checksum_is_kept_and_checked_when_used(self, folder: str, tmp_path: Path) -> None:
        import shutil

        own = tmp_path / "encoder"
        shutil.copytree(folder, own)
        corpus, _ = two_topics()
        tagger = Tagger("bonsai", features={"part": "dense", "model": str(own)}, threads=1).fit(corpus)
        assert set(tagger.features.state()) == {"components", "source.checksum", "source.width"}
        tagger.save(tmp_path / "model")
        before = tagger.predict(corpus, 2)
        assert Tagger.load(tmp_path / "model", threads=1).predict(corpus, 2) == before
        config = own / "config.json"
        config.write_text(config.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        with pytest.raises(UsageError, match="is not the one this model was trained with"):
            Tagger.load(tmp_path / "model").predict(corpus, 2)
        shutil.rmtree(own)
        loaded = Tagger.load(tmp_path / "model")  # opening a model asks nothing of its encoder
        with pytest.raises(UsageError, match="is not on this machine"):
            loaded.predict(corpus, 2)

    def test_hub_names(self, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A fit may fetch from the hub; a restored model only takes what is there."""
        import huggingface_hub

        asked: list[bool] = []

        def download(name: str, *, allow_patterns: list[str], local_files_only: bool) -> str:
            asked.append(local_files_only)
            assert name == "someone/encoder"
            return folder

        monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
        part = Dense(model="someone/encoder")
        X = part.fit_transform(["aa", "bb"])
        again = build(config_of(part))
        again.restore(part.state())
        assert asked == [False], "restoring asks for nothing"
        np.testing.assert_allclose(again.transform(["aa", "bb"]).toarray(), X.toarray(), atol=1e-6)
        assert asked == [False, True]

    def test_weights_in_pickles_are_refused(self, folder: str, tmp_path: Path) -> None:
        import shutil

        shutil.copytree(folder, tmp_path / "encoder")
        (tmp_path / "encoder" / "model.safetensors").rename(tmp_path / "encoder" / "pytorch_model.bin")
        with pytest.raises(UsageError, match=r"it has no model.safetensors"):
            Dense(model=str(tmp_path / "encoder")).fit_transform(["aa"])


class TestOptions:
    def test_options_of_another_source_are_refused(self) -> None:
        with pytest.raises(UsageError, match="counts only where source is words"):
            Dense(source="encoder", vectors="mine.txt")
        with pytest.raises(UsageError, match="say which"):
            Dense(source="file")
        with pytest.raises(UsageError, match="not fitted"):
            Dense().transform(["aa"])
        with pytest.raises(UsageError, match="no documents"):
            Dense(source="words").fit_transform([])

    def test_more_components_than_columns(self, tmp_path: Path) -> None:
        source = word_file(tmp_path, {"aa": [1, 0]})
        with pytest.raises(UsageError, match="only 2 numbers"):
            Dense(source="words", vectors=source, removed=3).fit_transform(["aa", "bb"])

    @pytest.mark.parametrize(
        ("name", "wrong"),
        [
            ("components", np.zeros((2, 2), np.float32)),
            ("components", np.full((1, 2), np.nan, np.float32)),
            ("source.known", np.ones(1, bool)),
            ("source.known", np.ones(3, np.uint8)),
            ("source.vectors", np.zeros((1, 2), np.float32)),
            ("source.vectors", np.zeros((3, 2), np.float64)),
            ("source.vectors", np.zeros((3, 0), np.float32)),
            ("source.other", np.zeros(3)),
            ("other", np.zeros(3)),
        ],
    )
    def test_damaged_state(self, tmp_path: Path, name: str, wrong: np.ndarray) -> None:
        source = word_file(tmp_path, {"aa": [1, 0], "bb": [0, -1], "cc": [3, 4]})
        part = Dense(source="words", vectors=source, removed=1)
        part.fit_transform(["aa bb", "cc", "aa"])
        build(config_of(part)).restore(part.state())
        with pytest.raises(ValueError):
            build(config_of(part)).restore({**part.state(), name: wrong})


class TestLearners:
    """Rows with every column set, negative numbers included."""

    @pytest.mark.parametrize("learner", ["one-vs-all", "parabel", "bonsai", "fastxml", "pfastrexml"])
    def test_learners(self, learner: str, tmp_path: Path) -> None:
        corpus, vectors = two_topics()
        file = saved(tmp_path / "v.npz", list(corpus.ids), vectors)
        train, test = corpus.split(0.25, np.random.default_rng(0))
        tagger = Tagger(learner, features={"part": "dense", "source": "file", "file": file}).fit(train)
        assert tagger.n_features_ == 8
        assert tagger.evaluate(test, ks=(1,)).values["P@1"] > 90
        tagger.save(tmp_path / "model")
        loaded = Tagger.load(tmp_path / "model")
        assert loaded.score(test, 3).values.tobytes() == tagger.score(test, 3).values.tobytes()
        with pytest.raises(UsageError, match="has no ids"):
            loaded.predict(["topic1"])

    @pytest.mark.parametrize("learner", ["one-vs-all", "parabel", "bonsai"])
    def test_the_same_as_features_of_ones_own_on_any_number_of_threads(self, learner: str, tmp_path: Path) -> None:
        corpus, vectors = two_topics()
        features = {"part": "dense", "source": "file", "file": saved(tmp_path / "v.npz", list(corpus.ids), vectors)}
        features["removed"] = 0
        unit = (vectors / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)).astype(np.float32)
        own = replace(corpus, X=sp.csr_matrix(unit))
        scores = [Tagger(learner, features=features, threads=t).fit(corpus).score(corpus, 3) for t in (1, 2)]
        scores.append(Tagger(learner, features=None).fit(own).score(own, 3))
        assert len({one.values.tobytes() for one in scores[:2]}) == 1
        np.testing.assert_allclose(scores[2].values, scores[0].values, atol=1e-5)
        assert (scores[2].ids == scores[0].ids).mean() > 0.99

    def test_a_model_is_pointed_at_another_file(self, tmp_path: Path) -> None:
        corpus, vectors = two_topics()
        train, test = corpus.rows(np.arange(80)), corpus.rows(np.arange(80, 120))
        file = saved(tmp_path / "train.npz", list(train.ids), vectors[:80])
        tagger = Tagger("bonsai", features={"part": "dense", "source": "file", "file": file}).fit(train)
        with pytest.raises(UsageError, match="no vector for 40 of 40"):
            tagger.score(test, 1)
        tagger.features.set_params(file=saved(tmp_path / "test.npz", list(test.ids), vectors[80:]))
        assert tagger.evaluate(test, ks=(1,)).values["P@1"] > 90
        tagger.features.set_params(file=saved(tmp_path / "narrow.npz", list(test.ids), vectors[80:, :5]))
        with pytest.raises(UsageError, match="vectors of 5 numbers, the model of 8"):
            tagger.score(test, 1)

    @pytest.mark.parametrize("augment", ["input-dropout", "input-swap", {"part": "taug", "tau": 0.5}])
    @pytest.mark.parametrize("learner", ["one-vs-all", "bonsai"])
    def test_augmenters_of_features(self, learner: str, augment: Any, tmp_path: Path) -> None:
        corpus, vectors = two_topics()
        file = saved(tmp_path / "v.npz", list(corpus.ids), vectors)
        train, test = corpus.split(0.25, np.random.default_rng(0))
        features = {"part": "dense", "source": "file", "file": file}
        plain = Tagger(learner, features=features).fit(train)
        noisy = Tagger(learner, features=features, augment=[augment]).fit(train)
        assert noisy.evaluate(test, ks=(1,)).values["P@1"] > 80
        assert noisy.score(test, 3).values.tobytes() != plain.score(test, 3).values.tobytes()

    def test_features_of_another_source_are_not_restored(self, tmp_path: Path) -> None:
        corpus, vectors = two_topics()
        file = saved(tmp_path / "v.npz", list(corpus.ids), vectors)
        tagger = Tagger("bonsai", features={"part": "dense", "source": "file", "file": file}).fit(corpus)
        tagger.save(tmp_path / "model")
        manifest = tmp_path / "model" / "manifest.json"
        text = manifest.read_text(encoding="utf-8").replace('"source":"file"', '"source":"words"')
        manifest.write_text(text.replace('"source": "file"', '"source": "words"'), encoding="utf-8")
        with pytest.raises(ModelError):
            Tagger.load(tmp_path / "model")
