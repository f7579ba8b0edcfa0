"""napkinXC's probabilistic label tree with its defaults. It writes the model to disk while it trains."""

import shutil
from importlib.metadata import version

import measure
from napkinxc.models import PLT


class Napkinxc:
    def __init__(self, task):
        self.task = task
        self.X, self.Y, self.X_test = task.load("train_X"), task.load("train_Y"), task.load("test_X")

    def plt(self):
        return PLT(str(self.task.model), threads=self.task.threads, seed=self.task.seed, verbose=0, **self.task.options)

    def train(self):
        shutil.rmtree(self.task.model, ignore_errors=True)
        model = self.plt()
        model.fit(self.X, self.Y)
        return model

    def stages(self):
        return {}

    def save_and_load(self, model):
        loaded = self.plt()
        loaded.load()
        return loaded

    def model_bytes(self):
        return measure.folder_bytes(self.task.model)

    def predict(self, model, k):
        return model.predict_proba(self.X_test, top_k=k)

    def arrays(self, rows, k):
        return measure.from_lists(rows, k)

    def versions(self):
        return {name: version(name) for name in ("napkinxc", "numpy", "scipy")}


if __name__ == "__main__":
    measure.run(Napkinxc)
