"""LibMultiLabel's linear tree (after Bonsai) with its defaults.

It keeps a model by pickling it, and predicts a dense row of all labels per document, so documents go through in
chunks, and the best labels are taken from the rows.
"""

import pickle
from functools import partial
from importlib.metadata import version

import measure
import numpy as np
from libmultilabel import linear

CELLS = 10_000_000  # documents times labels of a chunk


class Libmultilabel:
    def __init__(self, task):
        self.task = task
        self.X, self.Y = task.load("train_X"), task.load("train_Y")

    def load_test(self):
        self.X = self.Y = None
        self.X_test = self.task.load("test_X")

    def train(self):
        np.random.seed(self.task.seed)  # noqa: NPY002 - its clustering draws from there
        return linear.train_tree(self.Y, self.X, f"-m {self.task.threads}", verbose=False, **self.task.options)

    def stages(self):
        return {}

    def save_and_load(self, model):
        self.task.model.mkdir(exist_ok=True)
        with (self.task.model / "tree.pickle").open("wb") as file:
            pickle.dump(model, file, protocol=pickle.HIGHEST_PROTOCOL)
        with (self.task.model / "tree.pickle").open("rb") as file:
            return pickle.load(file)

    def model_bytes(self):
        return measure.folder_bytes(self.task.model)

    def predict(self, model, k):
        step = max(1, CELLS // len(model.root.label_map))
        parts = [best(model, self.X_test[i : i + step], k) for i in range(0, self.X_test.shape[0], step)]
        return [np.concatenate([part[which] for part in parts]) for which in (0, 1)]

    def one_by_one(self, model, k):
        return [partial(best, model, self.X_test[row], k) for row in self.task.some_rows(self.X_test)]

    def arrays(self, best_of_all, k):
        ids, values = best_of_all
        return np.where(values > 0, ids, -1).astype(np.int32), values.astype(np.float32)

    def versions(self):
        return {name: version(name) for name in ("libmultilabel", "liblinear-multicore", "numpy", "scipy")}


def best(model, X, k):
    """The k best labels of each document and their scores, best first."""
    scores = model.predict_values(X)
    ids = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, ids, axis=1), axis=1, kind="stable")
    ids = np.take_along_axis(ids, order, axis=1)
    return ids, np.take_along_axis(scores, ids, axis=1)


if __name__ == "__main__":
    measure.run(Libmultilabel)
