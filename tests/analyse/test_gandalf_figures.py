"""Gandalf's figures 2 and 4: what documents are compared with, P@1 by epoch, and the command that shows both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from typer.testing import CliRunner  # noqa: E402

from longtail.analyse.gandalf import BINS, KINDS, by_epoch, cosines, partners, summary  # noqa: E402
from longtail.cli import app  # noqa: E402
from longtail.corpus import Corpus  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.labels import LabelIndex  # noqa: E402
from longtail.run import Run  # noqa: E402
from longtail.tagger import Tagger  # noqa: E402

BAG = {"part": "weighted-bag", "size": 24, "dropout": 0.0}
LEARNER = {
    "part": "astec", "encoder": BAG, "epochs": 3, "least_steps": 1, "batch": 16, "shortlist": "all-labels",
    "valid_share": 0,
}  # fmt: skip


def titles(documents: int = 60, labels: int = 10) -> Corpus:
    """Titles of a word per label and a word of noise; label 0 is frequent, the last ones are rare."""
    rng = np.random.default_rng(0)
    Y = np.zeros((documents, labels), dtype=np.float32)
    texts = []
    for row in range(documents):
        own = {0} if row < 40 else {1 + row % (labels - 1)}
        own |= {1 + int(rng.integers(labels - 1))} if row < 12 else set()
        Y[row, sorted(own)] = 1
        texts.append(" ".join([*(f"topic{label}" for label in sorted(own)), f"noise{rng.integers(6)}"]))
    index = LabelIndex([f"label {n}" for n in range(labels)], [f"topic{n} called{n}" for n in range(labels)])
    return Corpus(labels=index, Y=sp.csr_matrix(Y), texts=texts, name="titles").counted()


def test_a_summary_by_hand() -> None:
    found = summary(np.array([-1.0, 0.01, 0.5, 1.0], dtype=np.float32))
    assert found["count"] == 4 and found["mean"] == pytest.approx(0.1275)
    assert found["quartiles"][1] == pytest.approx(0.255)
    histogram = found["histogram"]
    assert len(histogram) == BINS and sum(histogram) == 4 and histogram[0] == histogram[-1] == histogram[BINS // 2] == 1
    assert summary(np.zeros(0, dtype=np.float32))["mean"] is None


def test_partners_are_what_they_are_called() -> None:
    corpus = titles()
    Y = corpus.Y.toarray() > 0
    frequency = corpus.labels.frequency
    found = partners(corpus, np.arange(len(corpus)), np.random.default_rng(1))
    assert all(row != other for row, other in zip(*found["random documents"], strict=True))
    assert all((Y[row] & Y[other]).any() for row, other in zip(*found["co-documents"], strict=True))
    for kind, right in (("head labels", frequency > 20), ("tail labels", (frequency > 0) & (frequency <= 5))):
        rows, chosen = found[kind]
        assert rows and all(Y[row, label] and right[label] for row, label in zip(rows, chosen, strict=True))
        assert len(rows) == (Y & right).any(axis=1).sum()
    assert len(found["LabelMix documents"][0]) == len(corpus)


def test_a_document_is_nearer_to_its_own_text_with_a_label_appended() -> None:
    corpus = titles()
    tagger = Tagger(LEARNER, threads=1).fit(corpus)
    found = cosines(tagger.pipeline, corpus, Run(threads=1), sample=50)
    assert set(found) == set(KINDS) and found["LabelMix documents"]["count"] == 50
    assert found["LabelMix documents"]["quartiles"][1] > found["random documents"]["quartiles"][1]
    again = cosines(tagger.pipeline, corpus, Run(threads=1), sample=50)
    assert again == found


def test_epochs_are_measured_and_nothing_is_changed() -> None:
    corpus = titles()
    tagger = Tagger(LEARNER, threads=1)
    found = by_epoch(tagger.pipeline, corpus, corpus, Run(threads=1), sample=1000)
    assert [point["epoch"] for point in found["points"]] == [1, 2, 3] and found["steps"] == 12
    last = found["points"][-1]
    assert last["train_P@1"] == last["test_P@1"], "both are the same documents here"
    plain = Tagger(LEARNER, threads=1).fit(corpus, run=Run(threads=1))
    for name, array in plain.learner.state().items():
        assert np.array_equal(array, tagger.learner.state()[name]), "watching is not training"
    assert last["test_P@1"] == pytest.approx(plain.evaluate(corpus).to_dict()["P@1"], abs=1e-3)


def test_learners_without_a_vector_per_document_are_refused() -> None:
    for learner in ("parabel", "attentionxml"):
        with pytest.raises(UsageError, match="one vector per document"):
            by_epoch(Tagger(learner).pipeline, titles(), titles(), Run(threads=1), sample=10)


# the command
def write(path: Path, corpus: Corpus) -> Path:
    names = corpus.labels.names
    lines = [
        json.dumps({"text": text, "labels": [names[c] for c in row.indices]})
        for text, row in zip(corpus.texts or [], corpus.Y, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def analysed(folder: Path, *more: str) -> Any:
    corpus = titles()
    train, labels = write(folder / "train.jsonl", corpus), folder / "labels.tsv"
    named = zip(corpus.labels.names, corpus.labels.texts or [], strict=True)
    labels.write_text("label\ttext\n" + "".join(f"{name}\t{text}\n" for name, text in named), encoding="utf-8")
    small = [f"--set=learner.{name}={value}" for name, value in (
        ("encoder.size", 24), ("batch", 16), ("shortlist.negatives", 5)
    )]  # fmt: skip
    arguments = ["analyse", "gandalf", str(train), "--data", str(train), "--labels", str(labels), "--learner", "astec",
                 "--epochs", "2", "--sample", "30", "--threads", "1", "--quiet", *small, *more]  # fmt: skip
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_the_command_trains_and_draws_all_of_them(tmp_path: Path) -> None:
    picture = tmp_path / "figures.png"
    result = analysed(tmp_path, "--json", "--png", str(picture), "--set=gandalf.strength=1")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert [one["name"] for one in found["trained"]] == ["plain", "hiddenmix", "labelmix", "gandalf"]
    curves = [[point["train_P@1"] for point in one["points"]] for one in found["trained"]]
    assert all(len(curve) == 2 for curve in curves)
    assert found["trained"][3]["steps"] > found["trained"][0]["steps"], "label texts are documents as well"
    means = [one["cosines"]["co-documents"]["mean"] for one in found["trained"]]
    assert len(set(means)) == 4, "every augmenter has changed the network"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_tables_for_people(tmp_path: Path) -> None:
    result = analysed(tmp_path, "--augment", "plain", "--augment", "hiddenmix")
    assert result.exit_code == 0
    for words in ("test P@1", "hiddenmix", "median cosine with", "LabelMix documents"):
        assert words in result.stdout
