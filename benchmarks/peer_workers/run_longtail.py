"""longtail's label trees. A fit and a prediction on a few documents come first, so that compiling is not timed."""

import shutil
from functools import partial
from importlib.metadata import version

import measure
import numpy as np

from longtail.corpus import Corpus
from longtail.keep.model import load_model, save_model
from longtail.labels import LabelIndex
from longtail.registry import build, config_of
from longtail.run import Run

WARM_UP = 500  # documents: enough for trees of several levels
COMPILED = 20_000  # documents that the process that compiles trains on: kernels for wide nodes are needed there, too


class Longtail:
    def __init__(self, task):
        self.task = task
        Y = task.load("train_Y")
        self.labels = LabelIndex([str(label) for label in range(Y.shape[1])])
        self.corpus = Corpus(labels=self.labels, Y=Y, X=task.load("train_X")).counted()

    def warm_up(self, documents=WARM_UP):
        few = self.corpus.rows(np.arange(min(documents, len(self.corpus))))
        learner = self.learner().fit(few, run=Run(seed=self.task.seed, threads=self.task.threads))
        learner.score(few, self.task.k, run=Run(threads=self.task.threads))

    def compile(self):
        self.warm_up(COMPILED)

    def load_test(self):
        self.corpus = None
        self.test = Corpus(labels=self.labels, Y=self.task.load("test_Y"), X=self.task.load("test_X"))

    def learner(self):
        return build(self.task.options, "learner")

    def train(self):
        self.run = Run(seed=self.task.seed, threads=self.task.threads)
        return self.learner().fit(self.corpus, run=self.run)

    def stages(self):
        return dict(self.run.seconds)

    def save_and_load(self, learner):
        shutil.rmtree(self.task.model, ignore_errors=True)
        save_model(
            self.task.model,
            manifest={"learner": config_of(learner)},
            labels=self.labels,
            states={"learner": learner.state()},
        )
        loaded = self.learner()
        loaded.restore(load_model(self.task.model).states["learner"])
        return loaded

    def model_bytes(self):
        """The trees alone: peers keep no label names."""
        return (self.task.model / "learner.safetensors").stat().st_size

    def predict(self, learner, k):
        return learner.score(self.test, k, run=Run(seed=self.task.seed, threads=self.task.threads))

    def one_by_one(self, learner, k):
        X, rows = self.test.X, self.task.some_rows(self.test.X)
        if not hasattr(learner, "score_row"):
            run = Run(seed=self.task.seed, threads=1)
            return [partial(learner.score, self.test.rows(np.array([row])), k, run=run) for row in rows]
        spans = [(X.indptr[row], X.indptr[row + 1]) for row in rows]
        return [partial(learner.score_row, X.indices[start:end], X.data[start:end], k) for start, end in spans]

    def arrays(self, scores, k):
        scores = scores.top(k)
        return scores.ids, scores.values

    def settings(self):
        """Defaults included: they may change, and with them what the times mean."""
        return config_of(self.learner())

    def versions(self):
        return {name: version(name) for name in ("longtail", "numba", "numpy", "scipy")}


if __name__ == "__main__":
    measure.run(Longtail)
