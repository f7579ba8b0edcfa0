"""Two processes on one CPU: each trains on batches of its own, and the weights come back to the caller."""

from __future__ import annotations

import multiprocessing
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from neural_helpers import BATCH, DOCUMENTS, copied, small_learner, topics  # noqa: E402

from longtail.augment.hooks import Hook  # noqa: E402
from longtail.fit import Fit  # noqa: E402
from longtail.learners.neural.training import checkpoints  # noqa: E402
from longtail.run import Hardware, Run  # noqa: E402

pytestmark = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")


class Notes(Hook):
    """Writes down what each process sees at each step: its documents, and a sum of all weights."""

    space = "tokens"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def draw(self, batch: Any, network: Any, rng: Any, step: int) -> Any:
        rank = torch.distributed.get_rank()
        total = sum(value.double().sum().item() for value in network.state_dict().values())
        np.savez(self.folder / f"{step}-{rank}.npz", rows=batch.rows, total=total, threads=torch.get_num_threads())
        return batch


def test_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With validation, averaged weights and checkpoints, all of which need the processes to agree."""
    corpus = topics()
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setattr(checkpoints, "CHECKPOINT_SECONDS", 0.1)
    learner = small_learner(epochs=20, average=0.5)
    run = Run(threads=1, checkpoints=tmp_path / "checkpoints", hardware=Hardware(devices=2))
    learner.learn(corpus, Fit(run, topics(12, seed=1), [Notes(notes)]))

    an_epoch = DOCUMENTS // BATCH // 2 + 1  # three batches for two processes: one is taken twice
    seen: dict[int, list[Any]] = defaultdict(list)
    for step in range(20 * an_epoch):
        one, other = (np.load(notes / f"{step}-{rank}.npz") for rank in (0, 1))
        assert not set(one["rows"]) & set(other["rows"]), "batches of one step are apart"
        assert one["total"] == other["total"], "weights are the same in both"
        assert one["threads"] == other["threads"] == 1
        seen[step // an_epoch] += [*one["rows"], *other["rows"]]
    assert len(list(notes.iterdir())) == 2 * 20 * an_epoch
    assert all(set(rows) == set(range(DOCUMENTS)) for rows in seen.values()), "together they see every document"
    assert not list((tmp_path / "checkpoints").iterdir())

    found = learner.score(corpus, 1, run=Run(threads=1)).ids[:, 0]
    assert (found == corpus.Y.indices).mean() > 0.9
    assert all(torch.isfinite(value).all() for value in copied(learner.network_).values())
