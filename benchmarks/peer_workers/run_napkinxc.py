"""napkinXC's probabilistic label tree with its defaults. It writes the model to disk while it trains."""

import shutil
from functools import partial
from importlib.metadata import version

import measure
from napkinxc.models import PLT


class Napkinxc:
    def __init__(self, task):
        self.task = task
        self.X, self.Y = task.load("train_X"), task.load("train_Y")

    def load_test(self):
        self.X = self.Y = None
        self.X_test = self.task.load("test_X")

    def plt(self, threads):
        return PLT(str(self.task.model), threads=threads, seed=self.task.seed, verbose=0, **self.task.options)

    def train(self):
        shutil.rmtree(self.task.model, ignore_errors=True)
        model = self.plt(self.task.threads)
        model.fit(self.X, self.Y)
        return model

    def stages(self):
        return {}

    def save_and_load(self, model):
        return self.loaded(self.task.threads)

    def loaded(self, threads):
        model = self.plt(threads)
        model.load()
        return model

    def model_bytes(self):
        return measure.folder_bytes(self.task.model)

    def predict(self, model, k):
        return model.predict_proba(self.X_test, top_k=k)

    def one_by_one(self, model, k):
        model.unload()
        alone = self.loaded(1)
        return [partial(alone.predict_proba, self.X_test[row], top_k=k) for row in self.task.some_rows(self.X_test)]

    def arrays(self, rows, k):
        return measure.from_lists(rows, k)

    def versions(self):
        return {name: version(name) for name in ("napkinxc", "numpy", "scipy")}


if __name__ == "__main__":
    measure.run(Napkinxc)
