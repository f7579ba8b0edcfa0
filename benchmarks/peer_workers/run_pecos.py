"""PECOS XR-Linear: PIFA label embeddings, hierarchical k-means, one tree, otherwise its defaults.

Predicts with the model loaded for prediction only, its quickest way.
"""

import shutil
from functools import partial
from importlib.metadata import version

import measure
import scipy.sparse as sp
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel


class Pecos:
    def __init__(self, task):
        self.task = task
        self.X = task.load("train_X")
        self.Y = sp.csc_matrix(task.load("train_Y"))
        self.seconds = {}

    def load_test(self):
        self.X = self.Y = None
        self.X_test = self.task.load("test_X")

    def train(self):
        options, threads = self.task.options, self.task.threads
        chain, self.seconds["cluster"], _ = measure.timed(
            lambda: Indexer.gen(
                LabelEmbeddingFactory.create(self.Y, self.X, method="pifa", threads=threads),
                indexer_type="hierarchicalkmeans",
                nr_splits=options["nr_splits"],
                max_leaf_size=options["max_leaf_size"],
                seed=self.task.seed,
                threads=threads,
            )
        )
        model, self.seconds["train"], _ = measure.timed(
            lambda: XLinearModel.train(
                self.X, self.Y, C=chain, threads=threads, pred_kwargs={"beam_size": options["beam_size"]}
            )
        )
        return model

    def stages(self):
        return dict(self.seconds)

    def save_and_load(self, model):
        shutil.rmtree(self.task.model, ignore_errors=True)
        model.save(str(self.task.model))
        return XLinearModel.load(str(self.task.model), is_predict_only=True)

    def model_bytes(self):
        return measure.folder_bytes(self.task.model)

    def predict(self, model, k):
        return model.predict(self.X_test, only_topk=k, threads=self.task.threads)

    def one_by_one(self, model, k):
        rows = (self.X_test[row] for row in self.task.some_rows(self.X_test))
        return [partial(model.predict, row, only_topk=k, threads=1) for row in rows]

    def arrays(self, matrix, k):
        return measure.from_csr(matrix, k)

    def versions(self):
        return {name: version(name) for name in ("libpecos", "numpy", "scipy", "torch")}


if __name__ == "__main__":
    measure.run(Pecos)
