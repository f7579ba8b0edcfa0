"""longtail's label trees. A fit and a prediction on a few documents come first, so that compiling is not timed."""

import shutil
from importlib.metadata import version

import measure
import numpy as np

from longtail.corpus import Corpus
from longtail.keep.model import load_model, save_model
from longtail.labels import LabelIndex
from longtail.registry import build, config_of
from longtail.run import Run

WARM_UP = 500  # documents: enough for trees of several levels


class Longtail:
    def __init__(self, task):
        self.task = task
        self.labels = LabelIndex([str(label) for label in range(task.load("train_Y").shape[1])])
        self.corpus = Corpus(labels=self.labels, Y=task.load("train_Y"), X=task.load("train_X")).counted()
        self.test = Corpus(labels=self.labels, Y=task.load("test_Y"), X=task.load("test_X"))
        few = np.arange(min(WARM_UP, len(self.corpus)))
        learner = self.learner().fit(self.corpus.rows(few), run=Run(seed=task.seed, threads=task.threads))
        learner.score(self.test.rows(few[: len(self.test)]), task.k, run=Run(threads=task.threads))

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
