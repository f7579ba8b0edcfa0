"""`compare`: the labels that several models give the same documents, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.evaluate.metrics import left_out, most_left_out, true_pairs
from longtail.evaluate.report import evaluate
from longtail.labels import LabelIndex
from longtail.run import Run
from longtail.scores import Scores
from longtail.sparse import pair_keys

FIGURES = ("P@1", "PSP@1")


class Model(Protocol):
    """What can be compared: a fitted `Tagger`, `Predictions`, or anything else that names its labels and scores."""

    @property
    def labels_(self) -> LabelIndex: ...

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores: ...


#: Models by name; "model 1" and so on where none is given.
Models: TypeAlias = Mapping[str, Model] | Iterable[Model | tuple[str, Model]]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Scores made before, by whatever program, for the documents that are compared on.

    labels_  the labels of the scores' columns, with training counts: those say what is rare
    scores   of every document, in the documents' order
    """

    labels_: LabelIndex
    scores: Scores

    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        if len(self.scores) != len(corpus):
            raise UsageError(f"predictions for {len(self.scores)} documents, and {corpus.name} has {len(corpus)}")
        return self.scores.top(k)


@dataclass(frozen=True)
class TrueLabel:
    """A label that a document has, with its text, or its name if it has none.

    Training documents are those of the model that has seen most.
    """

    label: str
    text: str
    training_documents: int


@dataclass(frozen=True)
class PredictedLabel:
    """A label that a model gives a document; `right` is None where no true labels are known."""

    label: str
    text: str
    score: float
    right: bool | None
    training_documents: int


@dataclass(frozen=True)
class Example:
    """One document and the labels that models give it; `labels` is None where no true labels are known."""

    id: str
    text: str | None
    labels: list[TrueLabel] | None
    predictions: list[tuple[str, list[PredictedLabel]]]

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "text": self.text,
            "labels": None if self.labels is None else [asdict(label) for label in self.labels],
            "predictions": [
                {"model": name, "labels": [asdict(label) for label in labels]} for name, labels in self.predictions
            ],
        }


@dataclass(frozen=True)
class Figures:
    """P@1 and PSP@1 of a model in per cent, over the documents that have a label it knows."""

    values: dict[str, float]
    documents: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison:
    """The labels that models give every document, in columns that all labels of models and documents share.

    k, A, B  labels per document and model, and the propensity model of PSP@1
    corpus   the documents, with a column for every label
    texts    label name -> text, of all labels that models or documents give one
    true     the pairs that count as true, csr bool (n, L)
    names    of the models
    known    the labels of each model, with its training counts
    scores   of each model the k best labels, own labels of the document taken out
    right    bool (n, k) of each model: which of them are true
    figures  of each model, None where no label is known
    """

    k: int
    A: float
    B: float
    corpus: Corpus
    texts: Mapping[str, str]
    true: sp.csr_matrix
    names: list[str]
    known: list[LabelIndex]
    scores: list[Scores]
    right: list[NDArray[np.bool_]]
    figures: list[Figures | None]

    @property
    def labelled(self) -> bool:
        """Whether any document has a true label."""
        return bool(self.true.nnz)

    def differing(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Documents to which models give different labels, and in which they find different true labels, bool (n,)."""
        everything = [scores.ids for scores in self.scores]
        hits = [np.where(right, scores.ids, -1) for scores, right in zip(self.scores, self.right, strict=True)]
        said, true = ([np.sort(each, axis=1) for each in kind] for kind in (everything, hits))
        differs = np.zeros((2, len(self.corpus)), dtype=bool)
        for own_said, own_true in zip(said[1:], true[1:], strict=True):
            differs |= np.stack([(own_said != said[0]).any(axis=1), (own_true != true[0]).any(axis=1)])
        return differs[0], differs[1]

    def draw(self, count: int, rng: np.random.Generator | int = 0) -> list[int]:
        """Rising rows of documents drawn at random: where models find different true labels, then where they differ."""
        said, true = self.differing()
        order = np.random.default_rng(rng).permutation(len(self.corpus))
        best = np.argsort(-(said.astype(int) + true)[order], kind="stable")
        return sorted(order[best][:count].tolist())

    def example(self, row: int) -> Example:
        """The labels that models give one document."""
        corpus, names = self.corpus, self.corpus.labels.names
        true = None
        if self.labelled:
            found = [names[column] for column in self.true[[row]].indices.tolist()]
            true = [
                TrueLabel(name, self._text(name), max(_count(labels, name) for labels in self.known)) for name in found
            ]
        return Example(
            id=str(row) if corpus.ids is None else corpus.ids[row],
            text=None if corpus.texts is None else corpus.texts[row],
            labels=true,
            predictions=[(name, self._predicted(number, row)) for number, name in enumerate(self.names)],
        )

    def _predicted(self, number: int, row: int) -> list[PredictedLabel]:
        """The labels that a model gives a document."""
        scores, labels, names = self.scores[number], self.known[number], self.corpus.labels.names
        columns, values = scores.ids[row].tolist(), scores.values[row].tolist()
        return [
            PredictedLabel(
                names[column],
                self._text(names[column]),
                round(value, 4),
                hit if self.labelled else None,
                _count(labels, names[column]),
            )
            for column, value, hit in zip(columns, values, self.right[number][row].tolist(), strict=True)
            if column >= 0
        ]

    def _text(self, name: str) -> str:
        return self.texts.get(name, name)

    def to_dict(self, rows: Sequence[int] | None = None) -> dict[str, Any]:
        """The object `longtail compare --json` prints, with the documents of some rows (all by default) as examples."""
        said, true = self.differing()
        examples = [self.example(row) for row in (range(len(self.corpus)) if rows is None else rows)]
        return {
            "k": self.k,
            "A": self.A,
            "B": self.B,
            "documents": len(self.corpus),
            "labels_differ": int(said.sum()),
            "right_labels_differ": int(true.sum()) if self.labelled else None,
            "models": [self._summary(number, examples) for number in range(len(self.names))],
            "examples": [example.to_dict() for example in examples],
        }

    def _summary(self, number: int, examples: Sequence[Example]) -> dict[str, Any]:
        """A model in figures: over all documents, and how many of the labels shown are right."""
        shown = [label for example in examples for label in example.predictions[number][1]]
        figures = self.figures[number]
        return {
            "name": self.names[number],
            "labels": len(self.known[number]),
            "shown": len(shown),
            "right": sum(bool(label.right) for label in shown) if self.labelled else None,
            **(dict.fromkeys(FIGURES) if figures is None else figures.values),
            "documents": None if figures is None else figures.documents,
        }


def compare(
    models: Models,
    corpus: Corpus,
    k: int = 5,
    *,
    A: float = 0.55,
    B: float = 1.5,
    reciprocal: bool = False,
    run: Run | None = None,
) -> Comparison:
    """The k best labels of every document by each model, which of them are right, and P@1 and PSP@1 of each model.

    models      name -> model, or a list of models or (name, model); labels, which need not be the same, go by name
    corpus      the documents, with labels or without
    reciprocal  leaves out labels that a document is itself, as `Corpus.with_reciprocal` finds them
    """
    pairs = _named(models)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise UsageError(f"k must be a whole number of at least 1, not {k!r}")
    run = run or Run()
    known = [model.labels_ for _, model in pairs]
    shared = _with_columns_of(known, corpus, reciprocal)
    true = true_pairs(shared)
    k = max(1, min(int(k), shared.n_labels))  # more would be padding, and take memory for each document
    depth = k + most_left_out(shared)
    scores, figures = [], []
    for _, model in pairs:
        aligned = shared.aligned(model.labels_).without_unseen()
        found = model.score(aligned, depth, run=run)
        scores.append(_in_columns_of(shared, found, model.labels_).top(k))
        figures.append(_measured(found, aligned, A, B))
    return Comparison(
        k=k,
        A=A,
        B=B,
        corpus=shared,
        texts=_texts([corpus.labels, *known]),
        true=true,
        names=[name for name, _ in pairs],
        known=known,
        scores=scores,
        right=[_stored(true, best.ids) for best in scores],
        figures=figures,
    )


def _named(models: Models) -> list[tuple[str, Model]]:
    given = list(models.items() if isinstance(models, Mapping) else models)
    pairs = [one if isinstance(one, tuple) else (f"model {n}", one) for n, one in enumerate(given, start=1)]
    if not pairs:
        raise UsageError("there is no model to compare")
    for name, model in pairs:
        if not hasattr(model, "labels_"):
            raise UsageError(f"{name} is not trained yet: call fit, or Tagger.load")
    return pairs


def with_own_labels(corpus: Corpus, labels: LabelIndex) -> Corpus:
    """The corpus with documents that are themselves labels marked: labels of its own, by their texts, or of the model.

    A document's own label need not be in the data file, so the model's labels become columns too, without targets.
    """
    return _with_columns_of([labels], corpus, reciprocal=True)


def _with_columns_of(known: Sequence[LabelIndex], corpus: Corpus, reciprocal: bool) -> Corpus:
    """The corpus with columns for the labels of all models beside its own."""
    shared = corpus.with_reciprocal() if reciprocal else corpus
    for labels in known:
        shared = shared.aligned(labels, keep_unknown=True)
    return shared.with_reciprocal() if reciprocal else shared


def _texts(of: Sequence[LabelIndex]) -> dict[str, str]:
    """Texts by label name, those of the later indexes where several have one."""
    found: dict[str, str] = {}
    for labels in of:
        texts = zip(labels.names, labels.texts or (), strict=False)
        found |= {name: text.partition("\n")[0] for name, text in texts if text}
    return found


def _measured(scores: Scores, corpus: Corpus, A: float, B: float) -> Figures | None:
    if not true_pairs(corpus).nnz:
        return None
    report = evaluate(scores, corpus, ks=(1,), A=A, B=B)
    return Figures({name: round(report[name], 4) for name in FIGURES}, report.documents)


def _in_columns_of(corpus: Corpus, scores: Scores, labels: LabelIndex) -> Scores:
    """Scores over a model's labels in the corpus's columns, without pairs that count neither way."""
    column = np.array([corpus.labels.ids[name] for name in labels.names], dtype=np.int32)
    ids = np.where(scores.ids >= 0, column[scores.ids], np.int32(-1))
    if (out := left_out(corpus)) is not None:
        ids[_stored(out, ids)] = -1
    return Scores(ids, scores.values).sorted()


def _stored(matrix: sp.csr_matrix, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which of the columns ids (n, k) the rows of a csr matrix (n, L) hold; never -1."""
    n, width = matrix.shape
    return np.isin(np.arange(n)[:, None] * width + ids, pair_keys(matrix)) & (ids >= 0)


def _count(labels: LabelIndex, name: str) -> int:
    """Training documents of a label, 0 for one the model does not know."""
    column = labels.ids.get(name)
    return 0 if column is None else int(labels.frequency[column])
