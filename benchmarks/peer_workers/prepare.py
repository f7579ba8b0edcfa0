"""The matrices of one corpus, made once for all systems: python prepare.py CORPUS-FOLDER OUTPUT-FOLDER THREADS

TF-IDF as longtail makes it (min_df 2, max_df 0.5, sublinear). Training documents without a feature are left out;
label counts, and with them propensities, are those of all training documents. Labels never seen in training are
dropped from the test targets.
"""

import json
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from longtail.features.tfidf import Tfidf
from longtail.read import read
from longtail.run import Run

TFIDF = {"min_df": 2, "max_df": 0.5, "sublinear": True}


def prepare(source, output, threads):
    run = Run(threads=threads)
    train = read(source / "train.jsonl.gz", run=run)
    train = train.columns(np.flatnonzero(train.labels.frequency > 0))
    test = read(source / "test.jsonl.gz", run=run).aligned(train.labels)
    tfidf = Tfidf(**TFIDF)
    X, X_test = tfidf.fit_transform(train.texts, run=run), tfidf.transform(test.texts, run=run)
    usable = np.flatnonzero((np.diff(X.indptr) > 0) & (np.diff(train.Y.indptr) > 0))
    matrices = {"train_X": X[usable], "train_Y": train.Y[usable], "test_X": X_test, "test_Y": test.Y}
    output.mkdir(parents=True, exist_ok=True)
    for name, matrix in matrices.items():
        sp.save_npz(output / f"{name}.npz", sp.csr_matrix(matrix), compressed=False)
    np.savez(output / "labels.npz", counts=train.labels.frequency, documents=train.labels.documents)
    write_xmc(output / "train.txt", matrices["train_X"], matrices["train_Y"])
    about = {
        "train_documents": len(usable),
        "train_documents_left_out": len(train) - len(usable),
        "test_documents": len(test),
        "labels": train.n_labels,
        "features": X.shape[1],
        "train_entries": int(matrices["train_X"].nnz),
        "labels_per_document": round(train.Y.nnz / len(train), 2),
        "tfidf": TFIDF,
    }
    (output / "about.json").write_text(json.dumps(about), encoding="utf-8")


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
    prepare(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
