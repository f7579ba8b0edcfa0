"""omikuji: Parabel or Bonsai by its hyper-parameters.

Its Python interface trains from a file in the XMC-repository format; reading that file is not timed, as reading the
matrices is not for the others. It predicts one document at a time, its only way from Python; the pairs of feature
and value it wants are made before the clock starts.
"""

import shutil
from functools import partial
from importlib.metadata import version

import measure
import omikuji


class Omikuji:
    def __init__(self, task):
        self.task = task
        self.pool = omikuji._ThreadPoolHandle(task.threads, initialize=True)
        path = omikuji.ffi.new("char[]", str(task.matrices / "train.txt").encode())
        data = omikuji.lib.load_omikuji_data_set(path, self.pool.ptr)
        if data == omikuji.ffi.NULL:
            raise SystemExit(f"omikuji cannot read {task.matrices / 'train.txt'}")
        self.data = omikuji.ffi.gc(data, omikuji.lib.free_omikuji_data_set)

    def load_test(self):
        self.data = None
        X = self.task.load("test_X")
        self.some = self.task.some_rows(X)
        self.rows = [
            list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
            for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
        ]

    def train(self):
        """As omikuji.Model.train_on_data, without the reading of the file."""
        hyper = omikuji.Model.default_hyper_param()
        for name, value in self.task.options.items():
            if not hasattr(hyper, name):
                raise SystemExit(f"omikuji has no hyper-parameter {name}")
            setattr(hyper, name, value)
        trained = omikuji.lib.train_omikuji_model(self.data, hyper, self.pool.ptr)
        if trained == omikuji.ffi.NULL:
            raise SystemExit("omikuji could not train")
        return omikuji.Model(trained)

    def stages(self):
        return {}

    def save_and_load(self, model):
        shutil.rmtree(self.task.model, ignore_errors=True)
        model.save(str(self.task.model))
        loaded = omikuji.Model.load(str(self.task.model))
        loaded.init_prediction_thread_pool(self.task.threads)
        return loaded

    def model_bytes(self):
        return measure.folder_bytes(self.task.model)

    def predict(self, model, k):
        return [model.predict(row, beam_size=10, top_k=k) for row in self.rows]

    def one_by_one(self, model, k):
        model.init_prediction_thread_pool(1)
        return [partial(model.predict, self.rows[row], beam_size=10, top_k=k) for row in self.some]

    def arrays(self, rows, k):
        return measure.from_lists(rows, k)

    def versions(self):
        return {"omikuji": version("omikuji")}


if __name__ == "__main__":
    measure.run(Omikuji)
