"""The matrices of one corpus, made once for all systems.

    python prepare.py CORPUS-FOLDER OUTPUT-FOLDER THREADS         a folder with train.jsonl.gz and test or valid
    python prepare.py synthetic:LABELS OUTPUT-FOLDER THREADS      as many documents of 8 words as labels, generated

TF-IDF as longtail makes it (min_df 2, max_df 0.5, sublinear); the generated corpus brings its own. Training documents
without a feature are left out; label counts, and with them propensities, are those of all training documents. Labels
never seen in training are dropped from the test targets. Folders part-4 and part-2 below the output hold a quarter
and a half of the training documents, drawn at random, with the labels that these have.
"""

import json
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from longtail.data.synthetic import synthetic
from longtail.features.tfidf import Tfidf
from longtail.read import read
from longtail.run import Run

TFIDF = {"min_df": 2, "max_df": 0.5, "sublinear": True}
WORDS = 8  # of a generated document
TEST = 10_000  # generated documents to test on
PARTS = (4, 2)  # shares of the training documents: a quarter, a half
#: Beyond, omikuji's text file would be larger than anything that is compared on it.
MOST_DOCUMENTS_AS_TEXT = 2_000_000


def prepare(source, output, threads):
    run = Run(threads=threads)
    if source.startswith("synthetic:"):
        train, test, tfidf = generated(int(source.partition(":")[2]), run)
    else:
        train, test, tfidf = from_files(Path(source), run)
    usable = np.flatnonzero((np.diff(train.X.indptr) > 0) & (np.diff(train.Y.indptr) > 0))
    X, Y = train.X[usable], train.Y[usable]
    write(output, {"train_X": X, "train_Y": Y, "test_X": test.X, "test_Y": test.Y})
    np.savez(output / "labels.npz", counts=train.labels.frequency, documents=train.labels.documents)
    order = np.random.default_rng(0).permutation(len(usable))
    for part in PARTS:
        some = np.sort(order[: len(usable) // part])
        seen = np.flatnonzero(np.diff(sp.csc_matrix(Y[some]).indptr))
        write(output / f"part-{part}", {"train_X": X[some], "train_Y": Y[some][:, seen]})
    about = {
        "train_documents": len(usable),
        "train_documents_left_out": len(train) - len(usable),
        "test_documents": len(test),
        "labels": train.n_labels,
        "features": X.shape[1],
        "train_entries": int(X.nnz),
        "labels_per_document": round(train.Y.nnz / len(train), 2),
        "tfidf": tfidf,
    }
    (output / "about.json").write_text(json.dumps(about), encoding="utf-8")


def from_files(folder, run):
    """A corpus of texts; where there is no test split, the valid split stands for it."""
    held_out = folder / "test.jsonl.gz"
    train = read(folder / "train.jsonl.gz", run=run)
    train = train.columns(np.flatnonzero(train.labels.frequency > 0))
    test = read(held_out if held_out.is_file() else folder / "valid.jsonl.gz", run=run).aligned(train.labels)
    tfidf = Tfidf(**TFIDF)
    train.X, test.X = tfidf.fit_transform(train.texts, run=run), tfidf.transform(test.texts, run=run)
    return train, test, TFIDF


def generated(labels, run):
    """A document's draws follow from its number: those beyond the documents of training are new, of the same kind."""
    shape = {"labels": labels, "words_per_document": WORDS}
    train = synthetic(documents=labels, **shape, run=run)
    more = synthetic(documents=labels + TEST, every_label=False, **shape, run=run)
    return train, more.rows(np.arange(labels, labels + TEST)).aligned(train.labels), None


def write(folder, matrices):
    folder.mkdir(parents=True, exist_ok=True)
    for name, matrix in matrices.items():
        sp.save_npz(folder / f"{name}.npz", sp.csr_matrix(matrix), compressed=False)
    if matrices["train_X"].shape[0] <= MOST_DOCUMENTS_AS_TEXT:
        write_xmc(folder / "train.txt", matrices["train_X"], matrices["train_Y"])


def write_xmc(path, X, Y):
    """X and Y in the XMC-repository text format; nine digits give every float32 back exactly."""
    with path.open("w", encoding="ascii") as out:
        out.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
        for i in range(X.shape[0]):
            a, b = X.indptr[i], X.indptr[i + 1]
            features = map("%d:%.9g".__mod__, zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
            labels = map(str, Y.indices[Y.indptr[i] : Y.indptr[i + 1]].tolist())
            out.write(f"{','.join(labels)} {' '.join(features)}\n")


if __name__ == "__main__":
    prepare(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
