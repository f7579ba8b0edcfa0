"""omikuji's Bonsai from texts, as one would use it from Python: scikit-learn's TF-IDF, then training.

    python run_omikuji_texts.py TRAIN.tsv TEST.txt TOP.npz REPORT.json THREADS K

Training time is that of TF-IDF and of training; writing and reading the file that omikuji wants is left out.
"""

import json
import sys
import time
from pathlib import Path

import measure
import numpy as np
import omikuji
from sklearn.feature_extraction.text import TfidfVectorizer

BONSAI = {"n_trees": 3, "cluster_balanced": False, "cluster_k": 100, "max_depth": 3}
TFIDF = {"sublinear_tf": True, "min_df": 2, "max_df": 0.5, "dtype": np.float32}


def write(path, X, labels, n_labels):
    with path.open("w", encoding="ascii") as out:
        kept = [row for row in range(X.shape[0]) if X.indptr[row] < X.indptr[row + 1] and labels[row]]
        out.write(f"{len(kept)} {X.shape[1]} {n_labels}\n")
        for row in kept:
            a, b = X.indptr[row], X.indptr[row + 1]
            pairs = zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)
            out.write(f"{','.join(labels[row])} {' '.join(f'{i}:{v:.9g}' for i, v in pairs)}\n")


def main(train, test, top, report, threads, k):
    measure.first_to_go()
    lines = [line.split("\t") for line in Path(train).read_text(encoding="utf-8").split("\n")[:-1]]
    texts = [text for text, _ in lines]
    labels = [[uri.strip("<>").rpartition("/")[2] for uri in uris.split()] for _, uris in lines]
    n_labels = 1 + max(int(label) for row in labels for label in row)
    tfidf = TfidfVectorizer(**TFIDF)
    X, vectorised, _ = measure.timed(lambda: tfidf.fit_transform(texts).tocsr())
    data = Path(top).with_name("omikuji-train.txt")
    write(data, X, labels, n_labels)
    pool = omikuji._ThreadPoolHandle(threads, initialize=True)
    path = omikuji.ffi.new("char[]", str(data).encode())
    loaded = omikuji.ffi.gc(omikuji.lib.load_omikuji_data_set(path, pool.ptr), omikuji.lib.free_omikuji_data_set)
    hyper = omikuji.Model.default_hyper_param()
    for name, value in BONSAI.items():
        setattr(hyper, name, value)
    begun = time.perf_counter()
    model = omikuji.Model(omikuji.lib.train_omikuji_model(loaded, hyper, pool.ptr))
    trained = time.perf_counter() - begun
    peak = measure.peak_mb()
    model.init_prediction_thread_pool(threads)
    Q = tfidf.transform(Path(test).read_text(encoding="utf-8").split("\n")[:-1]).tocsr()
    found = []
    for row in range(Q.shape[0]):
        a, b = Q.indptr[row], Q.indptr[row + 1]
        pairs = list(zip(Q.indices[a:b].tolist(), Q.data[a:b].tolist(), strict=True))
        found.append(model.predict(pairs, beam_size=10, top_k=k) if pairs else [])
    ids, values = measure.from_lists(found, k)
    np.savez(top, ids=ids, values=values)
    data.unlink()
    figures = {"train_s": round(vectorised + trained, 2), "peak_train_mb": round(peak, 1)}
    Path(report).write_text(json.dumps(figures | {"tfidf_s": round(vectorised, 2)}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]), int(sys.argv[6]))
