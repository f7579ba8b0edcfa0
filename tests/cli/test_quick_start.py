"""`longtail train` as it comes needs no library beside those of the core."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

#: Imports of these fail as where they are not installed.
CODE = """
import sys
sys.modules |= dict.fromkeys(("torch", "lightning", "transformers"))
from longtail.cli import main
sys.argv = ["longtail", *sys.argv[1:]]
main()
"""


def longtail(*words: str | Path, code: int = 0) -> str:
    """What it says without the extra `neural`."""
    command = [sys.executable, "-c", CODE, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == code, done.stderr
    return done.stderr + done.stdout


def test_the_default_trains_and_predicts_without_the_extra(tmp_path: Path) -> None:
    names = ["alpine climbing", "sea fishing", "cheese making", "clock repair", "bee keeping", "stone walls"]
    documents = [{"text": f"{name} for everyone, part {n}", "labels": [f"L{i}"]}
                 for i, name in enumerate(names) for n in range(2)]  # fmt: skip
    labels = [{"label": f"L{i}", "text": name} for i, name in enumerate(names)]
    for file, lines in (("train.jsonl", documents), ("labels.jsonl", labels)):
        (tmp_path / file).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    model = tmp_path / "model"
    told = longtail("train", tmp_path / "train.jsonl", "-o", model, "--labels", tmp_path / "labels.jsonl")
    assert "recipe label-text" in told
    (tmp_path / "new.txt").write_text("all about bee keeping\n", encoding="utf-8")
    told = longtail("predict", model, tmp_path / "new.txt", "-k", "1")
    assert "L4" in told
    for more in (["--learner", "decaf", "--augment", "labelmix"], ["--learner", "eclare"]):
        told = longtail("train", tmp_path / "train.jsonl", "-o", tmp_path / "other", *more, "--quiet", code=2)
        assert "needs the extra 'neural': pip install 'longtail[neural]' (no torch)" in told
        assert "Traceback" not in told and not (tmp_path / "other").exists()
