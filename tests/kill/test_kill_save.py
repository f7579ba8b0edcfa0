"""A process that saves is killed at random moments: what loads is the old model or the new one, complete."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from longtail.keep import files
from longtail.keep.model import load_model, save_model
from longtail.labels import LabelIndex

KILLS = 8

# Replaces one model by the other for ever. Files differ in number, names and size between the two.
SAVER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from longtail.keep import files
from test_kill_save import save
if sys.argv[3] == "two renames":
    files._exchange = lambda one, other: False
print("ready", flush=True)
while True:
    for which in (1, 2):
        save(Path(sys.argv[1]), which)
"""


def save(directory: Path, which: int) -> None:
    states = {f"part-{i}": {"values": np.full(5_000 * which, which, dtype=np.int32)} for i in range(2 * which)}
    labels = LabelIndex([f"label {i} of {which}" for i in range(100 * which)], None, None, which)
    save_model(directory, manifest={"which": which}, labels=labels, states=states, overwrite=True)


def complete(directory: Path, *, verify: bool = True) -> int:
    """Which of the two models is there; fails if it is a mixture."""
    loaded = load_model(directory, verify=verify)
    which: int = loaded.manifest["which"]
    assert set(loaded.states) == {f"part-{i}" for i in range(2 * which)}
    for arrays in loaded.states.values():
        assert arrays["values"].shape == (5_000 * which,)
        assert (arrays["values"] == which).all()
    assert list(loaded.labels.names) == [f"label {i} of {which}" for i in range(100 * which)]
    assert loaded.labels.documents == which
    return which


@pytest.mark.parametrize("way", ["exchange", "two renames"])
def test_killed_while_saving(tmp_path: Path, way: str) -> None:
    model = tmp_path / "model"
    save(model, 1)
    moments = random.Random(way)
    found = set()
    for kill in range(KILLS):
        command = [sys.executable, "-c", SAVER, str(model), str(Path(__file__).parent), way]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as saver:
            try:
                assert saver.stdout is not None
                assert saver.stdout.readline() == b"ready\n"
                end = time.monotonic() + moments.uniform(0, 0.15)
                late = end + (30 if kill == KILLS - 1 else 0)  # on a busy machine nothing may have been saved by then
                while time.monotonic() < (end if len(found) == 2 else late):
                    # a reader beside the writer never sees a mixture either
                    found.add(complete(model, verify=bool(kill % 2)))
                assert saver.poll() is None, "the saver must still be at work when it is killed"
            finally:
                saver.send_signal(signal.SIGKILL)
        found.add(complete(model))
    assert found == {1, 2}, "the saver did nothing"
    save(model, 2)
    assert complete(model) == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"], "leftovers are removed by the next save"


@pytest.mark.parametrize("way", ["exchange", "two renames"])
def test_two_save_to_one_place_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if way == "two renames":
        monkeypatch.setattr(files, "_exchange", lambda one, other: False)
    model = tmp_path / "model"
    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(save, model, 1 + i % 2) for i in range(40)]:
            future.result()
    complete(model)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]
