"""The workers of the race: what they share, and longtail's own from start to end."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from peers_made import BENCHMARKS, CONDITIONS, common, measure, peers_measure, prepare, system_of, systems


# what workers share
def test_predictions_become_padded_arrays() -> None:
    ids, values = measure.from_lists([[(3, 0.5), (1, 0.25), (2, 0.125)], []], 2)
    assert ids.tolist() == [[3, 1], [-1, -1]]
    assert values.tolist() == [[0.5, 0.25], [0, 0]]
    matrix = sp.csr_matrix(np.array([[0, 0.25, 0.5, 0.25], [0, 0, 0, 0], [1, 0, 0, 0]], dtype=np.float32))
    ids, values = measure.from_csr(matrix, 2)
    assert ids.tolist() == [[2, 1], [-1, -1], [0, -1]]
    assert values.tolist() == [[0.5, 0.25], [0, 0], [1, 0]]


def test_the_text_file_gives_every_number_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(sp.random(20, 30, density=0.3, random_state=1, dtype=np.float32))
    X.data = rng.random(X.nnz, dtype=np.float32)
    Y = sp.csr_matrix((rng.random((20, 8)) < 0.3).astype(np.float32))
    prepare.write_xmc(tmp_path / "train.txt", X, Y)
    head, *lines = (tmp_path / "train.txt").read_text().splitlines()
    assert head == "20 30 8"
    for i, line in enumerate(lines):
        labels, *features = line.split(" ")
        assert [int(label) for label in labels.split(",") if label] == Y[i].indices.tolist()
        pairs = [pair.split(":") for pair in features if pair]
        assert [int(feature) for feature, _ in pairs] == X[i].indices.tolist()
        assert [np.float32(value) for _, value in pairs] == X[i].data.tolist()


def test_peak_memory_is_the_process_s_own() -> None:
    """A child of a large process must not report its parent's memory."""
    block = np.ones(40_000_000)  # 320 MB
    code = "import measure; print(measure.peak_mb())"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCHMARKS / "peer_workers", capture_output=True, text=True, check=True
    )
    assert 5 < float(answer.stdout) < 250
    assert block[0] == 1


def test_parts_of_a_corpus_have_the_labels_of_their_documents(tmp_path: Path) -> None:
    """From files to matrices, with the valid split where there is no test split."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for split, count in (("train", 40), ("valid", 10)):
        lines = []
        for _ in range(count):
            label = int(rng.integers(0, 20))
            lines.append(json.dumps({"text": f"topic{label} common{label % 3}", "labels": [f"label {label}"]}))
        with gzip.open(folder / f"{split}.jsonl.gz", "wt", encoding="utf-8") as out:
            out.write("\n".join(lines))
    prepare.prepare(str(folder), tmp_path / "out", 1)
    about = json.loads((tmp_path / "out" / "about.json").read_text())
    assert about["test_documents"] == 10
    whole = sp.load_npz(tmp_path / "out" / "train_Y.npz")
    for part in systems.PARTS:
        Y = sp.csr_matrix(sp.load_npz(tmp_path / "out" / f"part-{part}" / "train_Y.npz"))
        assert Y.shape[0] == whole.shape[0] // part
        assert Y.shape[1] < whole.shape[1]
        assert Y.getnnz(axis=0).min() == 1


def test_generated_documents_to_test_on_are_new_ones(tmp_path: Path) -> None:
    prepare.prepare("synthetic:12000", tmp_path, 1)
    Y, Y_test = (sp.load_npz(tmp_path / f"{split}_Y.npz") for split in ("train", "test"))
    assert Y.shape == (12_000, 12_000)
    assert Y_test.shape == (prepare.TEST, 12_000)
    assert (Y.getnnz(axis=0) > 0).all()
    X, X_test = (sp.csr_matrix(sp.load_npz(tmp_path / f"{split}_X.npz")) for split in ("train", "test"))
    assert X.shape[1] == X_test.shape[1]
    seen = {X[i].indices.tobytes() for i in range(X.shape[0])}
    again = sum(X_test[i].indices.tobytes() in seen for i in range(X_test.shape[0]))
    assert again < prepare.TEST / 20


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(common, "WORK", tmp_path / "work")
    return tmp_path / "work"


def test_longtail_s_worker_measures_a_small_corpus(tmp_path: Path, small_matrices: Path, work: Path) -> None:
    """One real worker from start to end: what it reports, and that its prediction is any good."""
    job = peers_measure.Job(system_of("longtail bonsai 1 tree, eps 0.1"), "small")
    report = peers_measure.measure(job, Path(sys.executable), small_matrices, tmp_path, CONDITIONS)
    assert report["train_s"] > 0
    assert len(report["predict_s"]) == peers_measure.PASSES
    assert report["one_p99_ms"] >= report["one_p50_ms"] > 0
    assert report["one_documents"] == 50
    assert report["model_mb"] > 0
    assert report["peak_train_mb"] >= report["ready_mb"] * 0.98
    assert report["ready_mb"] > report["imports_mb"] > 10
    assert set(report["stages"]) >= {"cluster", "train"}
    assert (report["settings"]["trees"], report["settings"]["eps"]) == (1, 0.1)
    found = peers_measure.figures(job.output, peers_measure.test_corpus(small_matrices, "small"))
    assert found["metrics"]["P@1"] > 95

    part = peers_measure.Job(job.system, "small", 4)
    report = peers_measure.measure(part, Path(sys.executable), small_matrices, tmp_path, CONDITIONS)
    assert report["train_s"] > 0
    assert "predict_s" not in report
    assert peers_measure.figures(part.output, peers_measure.test_corpus(small_matrices, "small")) == {}


def test_text_to_names_and_a_user_s_command_are_measured(tmp_path: Path, work: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for split in ("train", "test"):
        with gzip.open(folder / f"{split}.jsonl.gz", "wt", encoding="utf-8") as out:
            for i in range(60):
                out.write(json.dumps({"text": f"word{i % 6} and more", "labels": [f"label {i % 6}"]}) + "\n")
    matrices = tmp_path / "unused"
    text = peers_measure.Job(system_of("longtail text to names"), "small")
    report = peers_measure.measure(text, Path(sys.executable), matrices, folder, CONDITIONS)
    assert report["metrics"]["P@1"] == 100.0
    assert report["one_p99_ms"] >= report["one_p50_ms"] > 0
    assert report["first_open_ms"] > 0
    assert report["open_ms"] > 0
    command = peers_measure.Job(system_of("longtail train"), "small")
    report = peers_measure.measure(command, Path(sys.executable), matrices, folder, CONDITIONS)
    assert 30 < report["peak_train_mb"] < 2000
    assert report["train_s"] > 0.1
    assert report["model_mb"] > 0


def test_a_worker_that_fails_is_said_in_one_line(tmp_path: Path, work: Path) -> None:
    job = peers_measure.Job(systems.SYSTEMS[0], "small")
    with pytest.raises(systems.NotMeasuredError, match="ended with 1: FileNotFoundError"):
        peers_measure.measure(job, Path(sys.executable), tmp_path, tmp_path, CONDITIONS)


def test_nothing_of_a_worker_outlives_its_time(tmp_path: Path) -> None:
    """The process it started ends with it."""
    inner_code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner_code!r}])"
    log = tmp_path / "log.txt"
    assert peers_measure.run_within(3.0, [sys.executable, "-c", code], log, threads=1) is None
    inner = int(log.read_text())
    for _ in range(50):  # until the system has taken note
        try:
            os.kill(inner, 0)
        except ProcessLookupError:
            break
        status = Path(f"/proc/{inner}/stat")
        if status.exists() and status.read_text().split(")")[-1].split()[0] == "Z":
            break
        time.sleep(0.1)
    else:
        os.kill(inner, signal.SIGKILL)
        pytest.fail("it lives")
