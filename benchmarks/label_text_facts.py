"""What there is to gain from label texts: how labels, titles and the label graph of a corpus are made up.

    python benchmarks/label_text_facts.py [--data DIR] [--rows GLOB] [--fresh]

Counts on training data, but for the titles of test documents that are label texts. Finished rows stay in
benchmarks/results/label-text-facts.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from common import RESULTS, run_rows
from label_text import CORPORA, apart, corpora, folded
from longtail.features.tfidf import Tfidf
from longtail.graphs.label_walk import expected_visits, random_walks, soft_annotations
from longtail.learners.neural.training.task import label_texts

RESULT = RESULTS / "label-text-facts.json"
#: A soft annotation so near to 1 says: the same documents.
NEAR_ONE = 0.9


def rows() -> list[dict[str, Any]]:
    return [{"row": corpus, "corpus": corpus} for corpus in CORPORA]


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    train, test = corpora(row["corpus"], data)
    once = train.labels.frequency == 1
    graph = expected_visits(train.Y)
    soft = soft_annotations(graph)
    of_once = soft[np.flatnonzero(once)]
    texts = label_texts(train.labels)
    features = Tfidf()
    titles = features.fit_transform([*(train.texts or []), *texts]) > 0
    documents, labels = titles[: len(train)], titles[len(train) :]
    pairs = train.Y.tocoo()
    shared = np.asarray(documents[pairs.row].multiply(labels[pairs.col]).sum(axis=1)).ravel() > 0
    known = {folded(text) for text in texts}
    return {
        **row,
        "labels": train.n_labels,
        "labels_of_one_document": float(once.mean()),
        "soft_annotations_per_label": soft.nnz / train.n_labels,
        "raw_annotations_above_one": _above_one(graph),
        "near_one_of_labels_of_one_document": float((of_once.data >= NEAR_ONE).mean()) if of_once.nnz else 0.0,
        "shared_with_walk": _shared(soft, soft_annotations(random_walks(train.Y, seed=0))),
        "pairs_with_a_word_in_common": float(shared.mean()),
        "train_titles_that_are_label_texts": sum(folded(text) in known for text in train.texts or []),
        "test_titles_that_are_label_texts": len(test) - len(apart(test)),
        "test_titles": len(test),
    }


def _above_one(graph: Any) -> float:
    """Share of the entries beside the diagonal that are larger than it, before clipping."""
    label = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    beside = graph.indices != label
    return float((graph.data[beside] > graph.diagonal()[label[beside]]).mean())


def _shared(first: Any, second: Any) -> float:
    """Share of the first matrix's entries that the second has."""
    return float(first.astype(bool).multiply(second.astype(bool)).nnz / first.nnz)


if __name__ == "__main__":
    run_rows(__doc__ or "", RESULT, "python benchmarks/label_text_facts.py", rows(), measure)
