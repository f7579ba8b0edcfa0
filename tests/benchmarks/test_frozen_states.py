"""States of frozen layers that LightXML's rows keep: like those of single precision, made once, and read again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")
pytest.importorskip("transformers")

sys.path += [str(Path(__file__).resolve().parents[2] / "benchmarks"), str(Path(__file__).resolve().parents[1])]
sys.path.append(str(Path(__file__).resolve().parents[1] / "learners" / "neural"))

from short_text_cases import ONE, titles  # noqa: E402

import frozen_states  # noqa: E402
from longtail.learners.neural.encoders.first_tokens import FirstTokens, FirstTokensNetwork  # noqa: E402
from longtail.registry import build  # noqa: E402
from tiny_transformer import save_tiny_transformer  # noqa: E402

LAYERS = 4


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where states are kept; what `keep_states` changes of the library is undone."""
    monkeypatch.setenv("LONGTAIL_CACHE", "")
    monkeypatch.setattr(frozen_states, "WORK", tmp_path / "work")
    monkeypatch.setattr(frozen_states.atexit, "register", lambda _: None)
    monkeypatch.setattr(FirstTokensNetwork, "low", FirstTokensNetwork.low)
    monkeypatch.setattr(FirstTokens, "_states_file", FirstTokens._states_file)
    return tmp_path / "work"


def fitted(folder: Path, frozen: int = LAYERS) -> Any:
    words = [*(f"topic{n}" for n in range(12)), *(f"noise{n}" for n in range(9))]
    encoder = {"part": "first-tokens", "model": save_tiny_transformer(folder, words, LAYERS), "frozen": frozen}
    config = {"part": "lightxml", "encoder": encoder, "epochs": 1, "least_steps": 30, "batch": 16}
    return build(config, "learner").fit(titles(), run=ONE)  # type: ignore[attr-defined]


def test_kept_states_and_scores_are_like_those_of_single_precision(work: Path, tmp_path: Path) -> None:
    learner, corpus = fitted(tmp_path / "model"), titles()
    found = frozen_states.compared(learner, corpus.rows(np.arange(20)), ONE)
    assert 0.9995 < found["cosine"] < 1, "not the same states: some were made in half precision"
    assert found["centred"] > 0.995 and 0 < found["mean"] < 0.02, "a network of random weights: larger than in earnest"
    assert found["first"] == 1 and found["five"] > 0.9


def test_a_text_is_read_once_and_by_later_runs_not_at_all(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, corpus = fitted(tmp_path / "model"), titles()
    read: list[int] = []
    low = FirstTokensNetwork.low

    def watched(self: Any, tokens: Any, mask: Any) -> Any:
        read.append(len(tokens))
        return low(self, tokens, mask)

    monkeypatch.setattr(FirstTokensNetwork, "low", watched)
    monkeypatch.setattr(frozen_states, "WRITTEN_AFTER", 1)
    frozen_states.keep_states()
    first = learner.score(corpus, 3, run=ONE)
    distinct = len(set(corpus.texts or []))
    assert sum(read) == distinct, "each text once"
    assert learner.score(corpus, 3, run=ONE).values.tobytes() == first.values.tobytes() and sum(read) == distinct
    monkeypatch.setattr(FirstTokensNetwork, "low", watched)  # another process
    frozen_states.keep_states()
    assert learner.score(corpus, 3, run=ONE).values.tobytes() == first.values.tobytes()
    assert sum(read) == distinct and len(list((work / "states").iterdir())) == 1


def test_layers_that_are_trained_are_run_as_ever(work: Path, tmp_path: Path) -> None:
    learner, corpus = fitted(tmp_path / "model", frozen=LAYERS - 1), titles()
    before = learner.score(corpus, 3, run=ONE)
    frozen_states.keep_states()
    assert learner.score(corpus, 3, run=ONE).values.tobytes() == before.values.tobytes() and not work.exists()
