"""`longtail train` as it comes does not wait for libraries that it does not need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning")

CODE = """
import sys
from longtail.cli import main
sys.argv = ["longtail", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("imported:", [name for name in ("torch", "lightning", "transformers") if name in sys.modules])
"""


def longtail(*words: str | Path) -> str:
    """What it says: notes first, what was imported last."""
    command = [sys.executable, "-c", CODE, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


def test_no_torch_to_train_and_predict_by_default(tmp_path: Path) -> None:
    names = ["alpine climbing", "sea fishing", "cheese making", "clock repair", "bee keeping", "stone walls"]
    documents = [{"text": f"{name} for everyone, part {n}", "labels": [f"L{i}"]}
                 for i, name in enumerate(names) for n in range(2)]  # fmt: skip
    labels = [{"label": f"L{i}", "text": name} for i, name in enumerate(names)]
    for file, lines in (("train.jsonl", documents), ("labels.jsonl", labels)):
        (tmp_path / file).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    model = tmp_path / "model"
    told = longtail("train", tmp_path / "train.jsonl", "-o", model, "--labels", tmp_path / "labels.jsonl")
    assert "recipe label-text" in told and told.rstrip().endswith("imported: []")
    (tmp_path / "new.txt").write_text("all about bee keeping\n", encoding="utf-8")
    told = longtail("predict", model, tmp_path / "new.txt", "-k", "1")
    assert "L4" in told and told.rstrip().endswith("imported: []")
