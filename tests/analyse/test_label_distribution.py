"""Figure 1 of XDA: with the mask rare labels get examples, without it frequent ones get most of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from longtail.analyse.label_distribution import Distribution, distribution_png
from longtail.cli import run
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.labels import LabelIndex


def augmented() -> Corpus:
    """Label a has twelve documents, b one; four copies of that document, in which a is masked."""
    Y = sp.csr_matrix(np.array([[1, 0]] * 11 + [[1, 1]], dtype=np.float32))
    corpus = Corpus(labels=LabelIndex(["a", "b"]), Y=Y, texts=["text"] * 12).counted()
    copies = sp.csr_matrix(np.ones((4, 2), dtype=np.float32))
    weight = np.array([0, 1] * 4, dtype=np.float32)
    return corpus.with_rows(texts=["copy"] * 4, Y=copies, ids=[], pair_weight=weight)


def test_counts_by_hand() -> None:
    found = Distribution.of(augmented())
    assert {name: counts.tolist() for name, counts in found.counts.items()} == {
        "before": [12, 1], "sample level": [16, 5], "pair level": [12, 5],
    }  # fmt: skip
    tail, middle = found.to_dict()["bands"]
    assert tail["labels"] == middle["labels"] == 1 and tail["pair level"]["per_label"] == 5
    assert tail["pair level"]["share"] == round(5 / 17, 4) and tail["sample level"]["share"] == round(5 / 21, 4)


def test_a_picture_and_a_corpus_without_copies(tmp_path: Path) -> None:
    distribution_png(Distribution.of(augmented()), tmp_path / "figure.png", overwrite=False)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="holds documents only; give the file of longtail augment xda beside them"):
        Distribution.of(augmented().documents_only().rows(np.arange(12)))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = [{"id": f"d{n}", "text": "a b", "labels": ["a"] if n else ["a", "b"]} for n in range(8)]
    copy = {"id": "d0+1", "augmented_from": "d0", "text": "a c", "labels": ["a", "b"], "masked": ["a"]}
    for name, lines in (("train", documents), ("more", [copy])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    files = [str(tmp_path / "train.jsonl"), str(tmp_path / "more.jsonl")]
    assert run(["analyse", "xda", *files, "--json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["documents"] == 8 and found["added"] == 1
    assert found["bands"][0]["pair level"]["examples"] == 2
    assert run(["analyse", "xda", *files, "-q", "--png", str(tmp_path / "f.png")]) == 0
    assert "per label, share" in capsys.readouterr().out and (tmp_path / "f.png").exists()
    assert run(["analyse", "xda", files[0], "-q"]) == 2
    assert "holds documents only" in capsys.readouterr().err
