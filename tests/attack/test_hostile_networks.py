"""Networks whose options ask for more than their weights hold: refused before room is made for them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from attack_cases import forged, no_network, refused

pytest.importorskip("torch")
pytest.importorskip("lightning")

from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.tagger import Tagger

WORDS = ["purr", "bark", "grow", "flow", "sing", "swim"]
QUICK = {"epochs": 1, "least_steps": 1, "warm_up": 0, "batch": 4}
BILSTM = {"part": "bilstm", "size": 8, "hidden": 4}
LEARNERS: dict[str, dict[str, Any]] = {
    "attentionxml": {"encoder": BILSTM},
    "attentionxml tree": {"encoder": BILSTM, "tree": "always", "branches": 2, "top": 2, "candidates": 2},
    "attentionxml bag": {"encoder": {"part": "bag", "size": 8}},
    "astec": {"encoder": {"part": "weighted-bag", "size": 8}},
    "decaf": {"encoder": {"part": "weighted-bag", "size": 8}},
    "inceptionxml": {"encoder": {"part": "inception", "size": 80, "channels": 2, "window": 4}},
}


def corpus() -> Corpus:
    texts = [f"{word} {other}" for word in WORDS for other in WORDS]
    Y = np.repeat(np.eye(6, dtype=np.float32), 6, axis=0)
    return Corpus(labels=LabelIndex([f"{word}ing" for word in WORDS], WORDS), Y=sp.csr_matrix(Y), texts=texts)


@cache
def trained(folder: Path, name: str) -> tuple[Path, Tagger]:
    tagger = Tagger({"part": name.split(maxsplit=1)[0], **QUICK, **LEARNERS[name]}, threads=1).fit(corpus())
    tagger.save(folder / name.replace(" ", "-"))
    return folder / name.replace(" ", "-"), tagger


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.mark.parametrize("name", LEARNERS)
def test_networks_come_back_without_the_network(folder: Path, name: str) -> None:
    model, tagger = trained(folder, name)
    with no_network():
        assert Tagger.load(model, threads=1).predict(WORDS, k=3) == tagger.predict(WORDS, k=3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("attentionxml", {"size": 4096}),
        ("attentionxml", {"hidden": 4096}),
        ("attentionxml", {"hidden": 4096, "depth": 16}),
        ("attentionxml", {"depth": 2}),
        ("attentionxml tree", {"hidden": 4096, "depth": 16}),
        ("attentionxml bag", {"size": 4096}),
        ("astec", {"size": 4096}),
        ("decaf", {"size": 4096}),
        ("inceptionxml", {"channels": 512}),
        ("inceptionxml", {"size": 4096}),
    ],
)
def test_sizes_beside_the_weights(folder: Path, tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    def change(content: dict[str, Any]) -> None:
        content["model"]["config"]["learner"]["encoder"].update(options)

    refused(forged(trained(folder, name)[0], tmp_path / "model", content=change))


def test_a_start_that_names_a_file_is_not_looked_for(folder: Path, tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        content["model"]["config"]["learner"]["encoder"]["vectors"] = "https://evil.example/vectors.txt"

    model, tagger = trained(folder, "attentionxml")
    with no_network():
        again = Tagger.load(forged(model, tmp_path / "model", content=change), threads=1)
        assert again.predict(WORDS, k=3) == tagger.predict(WORDS, k=3)
