"""Manifests and recipes with more parts than anybody means: refused at once, in one line."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from attack_cases import SECONDS, forged, refused

from longtail.corpus import Corpus
from longtail.errors import InputError, UsageError
from longtail.labels import LabelIndex
from longtail.learners.ensemble import Ensemble
from longtail.recipe import Recipe
from longtail.registry import MOST_DEPTH, MOST_PARTS, build
from longtail.tagger import Tagger

TEXTS = ["cats purr", "dogs bark", "towns grow"]


def corpus() -> Corpus:
    return Corpus(labels=LabelIndex(["a", "b", "c"]), Y=sp.csr_matrix(np.eye(3, dtype=np.float32)), texts=TEXTS)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    Tagger("one-vs-all", rerank=["inverse-propensity"], threads=1).fit(corpus()).save(folder)
    Tagger.load(folder, threads=1)  # what checks models is compiled now
    return folder


def nested(times: int, innermost: Any = "one-vs-all") -> Any:
    config = innermost
    for _ in range(times):
        config = {"part": "ensemble", "members": [config]}
    return config


def lists(times: int) -> Any:
    config: Any = "one-vs-all"
    for _ in range(times):
        config = [config]
    return {"part": "ensemble", "members": config}


HOSTILE: dict[str, dict[str, Any]] = {
    "20,000 members": {"learner": {"part": "ensemble", "members": ["parabel"] * 20_000}},
    "20,000 members with options": {"learner": {"part": "ensemble", "members": [{"part": "parabel"}] * 20_000}},
    "members of members": {"learner": {"part": "ensemble", "members": [nested(1, "parabel")] * 2000}},
    "300 within one another": {"learner": nested(300)},
    "900 lists within one another": {"learner": lists(300)},
    "decoupled in decoupled": {"learner": {"part": "decoupled", "learner": nested(200), "tail": nested(200)}},
    "pipelines": {"learner": {"part": "pipeline", "learner": {"part": "pipeline", "learner": nested(30)}}},
    "20,000 augmenters": {"augment": ["input-dropout"] * 20_000},
    "20,000 re-rankers": {"rerank": ["inverse-propensity"] * 20_000},
    "a name of a million signs": {"learner": {"part": "x" * 10**6}},
    "an option of a million signs": {"learner": {"part": "parabel", "x" * 10**6: 1}},
    "a value of a million signs": {"learner": {"part": "parabel", "loss": "x" * 10**6}},
    "20,000 options": {"learner": {"part": "parabel", **{f"option{number}": 1 for number in range(20_000)}}},
    "20,000 objects": {"learner": {"part": "parabel", "loss": [{} for _ in range(20_000)]}},
    "300,000 weights": {"learner": {"part": "ensemble", "members": ["parabel"], "weights": [1] * 300_000}},
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_manifests(model: Path, tmp_path: Path, attack: str) -> None:
    def change(content: dict[str, Any]) -> None:
        content["model"]["config"].update(HOSTILE[attack])

    refused(forged(model, tmp_path / "model", content=change))


@pytest.mark.parametrize("attack", HOSTILE)
@pytest.mark.parametrize("make", [lambda config: Tagger(**config), Recipe.from_dict],
                         ids=["tagger", "recipe"])  # fmt: skip
def test_configurations(make: Callable[[dict[str, Any]], Any], attack: str) -> None:
    begin = time.process_time()
    with pytest.raises(UsageError):
        make(HOSTILE[attack])
    assert time.process_time() - begin < SECONDS


def test_recipe_files(tmp_path: Path) -> None:
    file = tmp_path / "many.toml"
    file.write_text('[learner]\npart = "ensemble"\n' + '[[learner.members]]\npart = "parabel"\n' * 20_000)
    with pytest.raises(InputError, match=rf"many.toml: a configuration has more than {MOST_PARTS} parts"):
        Recipe.read(file)


def test_as_many_and_as_deep_as_allowed() -> None:
    begin = time.process_time()
    part = build({"part": "ensemble", "members": ["one-vs-all"] * (MOST_PARTS - 1)})
    assert isinstance(part, Ensemble) and len(part.members) == MOST_PARTS - 1
    build(nested(MOST_DEPTH))
    assert time.process_time() - begin < SECONDS
    with pytest.raises(UsageError, match=f"more than {MOST_PARTS} parts"):
        build({"part": "ensemble", "members": ["one-vs-all"] * MOST_PARTS})
    with pytest.raises(UsageError, match=f"parts are nested more than {MOST_DEPTH} deep"):
        build(nested(MOST_DEPTH + 1))


def test_what_would_not_be_read_back_is_not_saved(tmp_path: Path) -> None:
    learner: Any = build("one-vs-all")
    for _ in range(MOST_DEPTH + 2):
        learner = Ensemble(members=[learner])
    tagger = Tagger(learner, threads=1).fit(corpus())
    with pytest.raises(UsageError, match="nested more than"):
        tagger.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_re_ranker_of_other_labels_is_refused(model: Path, tmp_path: Path) -> None:
    """It is asked for labels by number."""

    def change(arrays: dict[str, Any]) -> None:
        arrays["q"] = arrays["q"][:1]

    message = refused(forged(model, tmp_path / "model", arrays=change, stem="rerank-0"))
    assert "'inverse-propensity' has 1 labels, the learner has 3" in message


def test_weights_of_a_linear_learner_that_are_not_finite(model: Path, tmp_path: Path) -> None:
    def change(arrays: dict[str, Any]) -> None:
        name = next(name for name, array in arrays.items() if array.dtype == np.float32 and array.size)
        arrays[name].reshape(-1)[0] = np.inf

    message = refused(forged(model, tmp_path / "model", arrays=change))
    assert message.endswith("has numbers that are not finite")
