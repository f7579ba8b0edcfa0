"""Models that version 0.1.0 wrote (format 1): read as before, or refused in a line that says what to do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from longtail import __version__
from longtail.data.synthetic import synthetic
from longtail.errors import ModelError
from longtail.keep.manifest import manifest_digest
from longtail.keep.model import load_model
from longtail.keep.older import modern
from longtail.registry import build, name_of
from longtail.tagger import Tagger

FIXTURES = Path(__file__).parent / "fixtures"
ADVICE = "; train it again, or read it with that version"


def changed(target: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    shutil.copytree(FIXTURES / "bonsai-0.1.0", target)
    content = json.loads((target / "manifest.json").read_text())
    del content["sha256"]
    change(content)
    content["sha256"] = manifest_digest(content)
    (target / "manifest.json").write_text(json.dumps(content))
    return target


def assert_predicts_as_before(tagger: Tagger, name: str) -> None:
    kept = json.loads((FIXTURES / f"{name}.json").read_text())
    given = tagger.predict(kept["asked"], k=kept["k"])
    for found, before in zip(given, kept["given"], strict=True):
        assert [each.label for each in found] == [label for label, _ in before]
        assert [each.score for each in found] == pytest.approx([score for _, score in before], abs=1e-6)


def test_a_linear_model_predicts_as_before() -> None:
    loaded = load_model(FIXTURES / "bonsai-0.1.0")
    assert (loaded.format_version, loaded.library, loaded.outdated) == (1, "0.1.0", True)
    assert "depth" not in loaded.manifest["config"]["rerank"][0]
    tagger = Tagger.load(FIXTURES / "bonsai-0.1.0", threads=1)
    assert tagger.rerank[0].depth == 100
    assert_predicts_as_before(tagger, "bonsai-0.1.0")


def test_an_older_model_is_saved_as_a_new_one(tmp_path: Path) -> None:
    Tagger.load(FIXTURES / "bonsai-0.1.0", threads=1).save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert (loaded.format_version, loaded.library, loaded.outdated) == (3, __version__, False)
    assert_predicts_as_before(Tagger.load(tmp_path / "model", threads=1), "bonsai-0.1.0")


def older_ranknet(tmp_path: Path, **options: Any) -> Path:
    """A model of today, with its re-ranker under the name and the options that it had."""
    corpus = synthetic(documents=150, labels=20, words=200, words_per_document=10, seed=1)
    Tagger({"part": "parabel", "trees": 1}, rerank=["calibrated-propensity"], threads=1).fit(corpus).save(
        tmp_path / "m"
    )
    content = json.loads((tmp_path / "m" / "manifest.json").read_text())
    del content["sha256"]
    content["model"].pop("acted")
    older = {
        "part": "ranknet",
        "depth": 100,
        "strength": None,
        "start": "calibrated",
        "width": 64,
        "blocks": 1,
        "margin": 0.1,
        "balance": 1.0,
        "learning_rate": 0.01,
        "epochs": 20,
        "patience": 3,
        "A": 0.55,
        "B": 1.5,
    }
    content["model"]["config"]["rerank"] = [older | options]  # fmt: skip
    content["sha256"] = manifest_digest(content)
    (tmp_path / "m" / "manifest.json").write_text(json.dumps(content))
    return tmp_path / "m"


def test_what_ranknet_was_is_read_as_what_it_does(tmp_path: Path) -> None:
    """Its blocks were zero, and its arrays are those of calibrated propensity; tests/rerank has those with blocks."""
    tagger = Tagger.load(older_ranknet(tmp_path, strength=0.5), threads=1)
    assert [name_of(part) for part in tagger.rerank] == ["calibrated-propensity"]
    assert (tagger.rerank[0].strength, tagger.rerank[0].depth) == (0.5, 100)  # type: ignore[attr-defined]
    assert tagger.score(synthetic(documents=9, labels=20, words=200, words_per_document=10, seed=1), 3).k == 3


def test_ranknet_on_raw_scores_is_refused_in_one_line(tmp_path: Path) -> None:
    model = older_ranknet(tmp_path, start="scores")
    with pytest.raises(ModelError) as refused:
        Tagger.load(model, threads=1)
    message = str(refused.value)
    assert "'ranknet' on raw scores is trained in another way now" in message
    assert message.endswith(ADVICE) and "\n" not in message


def test_a_network_is_refused_with_the_version_that_wrote_it() -> None:
    """Its shortlist and its hardware were options of the learner then."""
    pytest.importorskip("torch")
    with pytest.raises(ModelError) as refused:
        Tagger.load(FIXTURES / "attentionxml-0.1.0", threads=1)
    message = str(refused.value)
    assert message.startswith(f"{FIXTURES}/attentionxml-0.1.0/ was written by longtail 0.1.0, and longtail ")
    assert message.endswith(ADVICE) and "\n" not in message


def test_numbers_of_epochs_that_were_defaults_are_defaults_again() -> None:
    """They were numbers then, and options that count only beside others would be refused."""
    pytest.importorskip("torch")
    network = {"part": "astec-modules", "epochs": 6, "least_steps": 300, "retune_epochs": 3, "surrogate": 4,
               "rerank_epochs": 10, "devices": 1}  # fmt: skip
    steps = {"part": "laroberta", "steps": 40, "epochs": 10, "least_steps": 300, "retune_epochs": 2, "encoder": "bag"}
    config = {"learner": {"part": "ensemble", "members": [network, steps]}, "features": None}
    loaded = replace(load_model(FIXTURES / "bonsai-0.1.0"), manifest={"config": config, "makes_features": False})
    ensemble = build(modern(loaded)["config"]["learner"])
    first, second = ensemble.members  # type: ignore[attr-defined]
    assert (first.epochs, first.least_steps, first.retune_epochs, first.surrogate) == (None, None, None, None)
    assert (first.rerank_epochs, second.steps, second.epochs, second.retune_epochs) == (10, 40, None, 2)


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "an option that is gone": lambda content: content["model"]["config"]["learner"].update(gone=1),
    "a part that is gone": lambda content: content["model"]["config"].update(learner={"part": "augmented"}),
    "an option out of range": lambda content: content["model"]["config"]["learner"].update(trees=0),
    "arrays that do not fit": lambda content: content["model"]["config"].update(learner={"part": "fastxml"}),
    "too many parts": lambda content: content["model"]["config"].update(augment=["word-swap"] * 1000),
    "no configuration": lambda content: content["model"].pop("config"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_fit_any_more_says_who_wrote_it(tmp_path: Path, change: str) -> None:
    model = changed(tmp_path / "model", CHANGES[change])
    with pytest.raises(ModelError) as caught:
        Tagger.load(model, threads=1)
    message = str(caught.value)
    assert message.startswith(f"{model}/ was written by longtail 0.1.0, and longtail {__version__} cannot read it (")
    assert message.endswith(ADVICE)
    assert "\n" not in message


def test_damage_is_told_as_damage(tmp_path: Path) -> None:
    """Training again is no advice for a file that was copied badly."""
    shutil.copytree(FIXTURES / "bonsai-0.1.0", tmp_path / "model")
    (tmp_path / "model" / "learner.safetensors").unlink()
    with pytest.raises(ModelError, match=r"learner.safetensors is missing; copy the whole directory again"):
        Tagger.load(tmp_path / "model")
