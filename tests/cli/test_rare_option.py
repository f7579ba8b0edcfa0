"""--rare: predict, evaluate and compare take it, on models with and without a re-ranker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_helpers import Command, documents, write_jsonl


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model for which one topic is rare, and documents that speak of two."""
    from longtail.read import read
    from longtail.tagger import Tagger

    folder = tmp_path_factory.mktemp("uneven")
    frequent = [each for each in documents(300) if "boats" not in each["labels"]]
    rare = [each for each in documents(40, seed=2) if "boats" in each["labels"]][:3]
    train = write_jsonl(folder / "train.jsonl", [*frequent, *rare])
    write_jsonl(folder / "test.jsonl", [{"text": "guitar piano sail", "labels": ["boats"]}])
    Tagger({"part": "parabel", "trees": 1}).fit(read(train)).save(folder / "model")
    return folder


def test_every_verb_that_predicts_takes_it(command: Command, uneven: Path) -> None:
    model, test = uneven / "model", uneven / "test.jsonl"

    def first(*arguments: object) -> str:
        found = command("predict", model, test, *arguments)
        assert found.code == 0, found.err
        return str(json.loads(found.out)["labels"][0]["label"])

    assert first() == first("--rare", 0) == "music"
    assert first("--rare", 10) == "boats"
    reports = [json.loads(command("evaluate", model, test, "--json", "--rare", r).out)["P@1"] for r in (0, 10)]
    assert reports == [0, 100]
    shown = json.loads(command("compare", model, "--data", test, "--json", "--rare", 10).out)
    assert shown["models"][0]["P@1"] == 100
    refused = command("predict", model, test, "--rare", -1)
    assert refused.code == 2 and "--rare" in refused.err
