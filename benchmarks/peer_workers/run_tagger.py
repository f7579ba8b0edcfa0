"""longtail from text to names: the default tagger, trained on texts, asked for one text at a time.

Its worker is longtail's own: peers have no call that takes a text. Reading the corpus is not timed, making features
is.
"""

import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import measure
import numpy as np

from longtail.read import read
from longtail.registry import config_of
from longtail.run import Run
from longtail.tagger import Tagger

WARM_UP = 500  # documents


class TextToNames:
    def __init__(self, task):
        self.task = task
        self.folder = Path(task.options["corpus"])
        self.corpus = read(self.folder / "train.jsonl.gz")

    def tagger(self):
        return Tagger(seed=self.task.seed, threads=self.task.threads)

    def warm_up(self):
        few = self.corpus.rows(np.arange(min(WARM_UP, len(self.corpus))))
        tagger = self.tagger().fit(few)
        tagger.predict(few.texts[:10])

    def load_test(self):
        self.corpus = None
        self.test = read(self.folder / "test.jsonl.gz")

    def train(self):
        self.run = Run(seed=self.task.seed, threads=self.task.threads)
        return self.tagger().fit(self.corpus, run=self.run)

    def stages(self):
        return dict(self.run.seconds)

    def save_and_load(self, tagger):
        """Opened twice: the first time, every file is checked."""
        tagger.save(self.task.model, overwrite=True)
        self.opened = []
        for _ in range(2):
            started = time.perf_counter()
            tagger = Tagger.load(self.task.model, threads=self.task.threads)
            self.opened.append((time.perf_counter() - started) * 1000)
        return tagger

    def model_bytes(self):
        """All of it: label names and vocabulary are needed here."""
        return measure.folder_bytes(self.task.model)

    def predict(self, tagger, k):
        return tagger.predict(self.test.texts, k)

    def one_by_one(self, tagger, k):
        texts = [text for text in self.test.texts if text.strip()][: measure.ONE_BY_ONE]
        return [partial(tagger.predict, [text], k) for text in texts]

    def more(self, tagger):
        report = tagger.evaluate(self.test).to_dict()
        ranked = {name: report[name] for name in report if name.partition("@")[0] in ("P", "PSP", "nDCG")}
        return {"first_open_ms": self.opened[0], "open_ms": self.opened[1], "metrics": ranked}

    def settings(self):
        return config_of(self.tagger().learner)

    def versions(self):
        return {name: version(name) for name in ("longtail", "numba", "numpy", "scipy")}


if __name__ == "__main__":
    measure.run(TextToNames)
