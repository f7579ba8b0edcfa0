"""longtail analyse norms and longtail analyse taug."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_helpers import Command, write_jsonl

from longtail.data.synthetic import synthetic
from longtail.tagger import Tagger

PLAIN = {"part": "parabel", "trees": 1}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with test.jsonl and models that differ in Taug's settings; read only."""
    folder = tmp_path_factory.mktemp("trained")
    whole = synthetic(documents=700, labels=120, words=800, words_per_document=25, texts=True, seed=4)
    train, test = whole.split(0.2, np.random.default_rng(0))
    assert test.texts is not None
    labels = [[test.labels.names[column] for column in row.indices] for row in test.Y]
    records = [{"text": text, "labels": own} for text, own in zip(test.texts, labels, strict=True)]
    write_jsonl(folder / "test.jsonl", records)
    train = train.counted()
    Tagger(PLAIN).fit(train).save(folder / "plain")
    for n_aug, tau in ((1, 0.1), (4, 0.1), (4, 0.3)):
        augment = [{"part": "taug", "n_aug": n_aug, "tau": tau}]
        Tagger(PLAIN, augment=augment).fit(train).save(folder / f"taug-{n_aug}-{tau}")
    Tagger({"part": "fastxml", "trees": 2}).fit(train).save(folder / "fastxml")
    return folder


def models(folder: Path) -> list[Path]:
    return [folder / name for name in ("plain", "taug-1-0.1", "taug-4-0.1")]


def analysed(command: Command, *arguments: object) -> Any:
    result = command("analyse", *arguments, "--json")
    assert (result.code, result.err, result.out.count("\n")) == (0, "", 1)
    return json.loads(result.out)


def test_norms_json_shows_longer_tail_separators_with_more_copies(command: Command, trained: Path) -> None:
    found = analysed(command, "norms", *models(trained))["models"]
    assert [model["name"] for model in found] == ["plain", "taug-1-0.1", "taug-4-0.1"]
    assert [(model["n_aug"], model["tau"], model["learner"]) for model in found] == [
        (0, None, "parabel"), (1, 0.1, "parabel"), (4, 0.1, "parabel")
    ]  # fmt: skip
    tails = [next(b["mean_norm"] for b in model["bands"] if b["name"] == "tail") for model in found]
    assert 0 < tails[0] < tails[1] < tails[2]
    ends = [model["curve"][-1]["mean_norm"] for model in found]
    assert ends[0] < ends[1] < ends[2], "and so does the far end of the curve"
    assert all(model["top_k"] is None for model in found)
    assert found[0]["spearman_frequency"] > 0.3, "frequent labels have the longer separators"
    assert sum(point["labels"] for point in found[0]["curve"]) == found[0]["labels_with_norm"]


def test_norms_with_data(command: Command, trained: Path) -> None:
    found = analysed(command, "norms", trained / "plain", "--data", trained / "test.jsonl", "-k", "3")
    top = found["models"][0]["top_k"]
    assert found["data"] == str(trained / "test.jsonl")
    assert (top["k"], top["documents"]) == (3, 140)
    assert top["spearman"] > 0
    tagger = Tagger.load(trained / "plain")
    texts = [json.loads(line)["text"] for line in (trained / "test.jsonl").read_text().splitlines()]
    predicted = sum(len(labels) for labels in tagger.predict(texts, k=3))
    shares = sum(group["share"] * group["labels"] for group in top["bins"])
    assert shares * 140 == pytest.approx(predicted, rel=1e-4), "every prediction is counted once"


def test_norms_for_a_person(command: Command, trained: Path) -> None:
    result = command("analyse", "norms", *models(trained), "--data", trained / "test.jsonl")
    assert (result.code, result.err) == (0, "")
    for word in ("tail / head", "frequency", "top 5", "within tail", "n_aug 4, tau 0.1", "█", "label 119", "norm"):
        assert word in result.out
    assert result.out.count("label 1 ") == 3, "one plot per model"


def test_taug_json(command: Command, trained: Path) -> None:
    everything = [*models(trained), trained / "taug-4-0.3"]
    found = analysed(command, "taug", *everything, "--data", trained / "test.jsonl")
    assert [model["n_aug"] for model in found["models"]] == [0, 1, 4, 4]
    alone = json.loads(command("evaluate", trained / "taug-1-0.1", trained / "test.jsonl", "--json").out)
    second = found["models"][1]
    for name in ("P@1", "P@5", "PSP@1", "PSP@3"):
        assert second[name] == alone[name]
    assert second["tail_recall@5"] == next(b["recall@5"] for b in alone["bands"] if b["name"] == "tail")
    by_copies, by_share = found["slices"]
    assert [point["n_aug"] for point in by_copies["points"]] == [0, 1, 4]
    assert [point["tau"] for point in by_share["points"]] == [0.1, 0.3, 1]
    assert by_share["points"][-1]["PSP@1"] == found["models"][0]["PSP@1"]
    amazon = analysed(command, "taug", *everything, "--data", trained / "test.jsonl", "--propensity", "amazon")
    assert (amazon["A"], amazon["B"]) == (0.6, 2.6) and amazon["models"][1]["PSP@1"] != second["PSP@1"]


def test_taug_for_a_person(command: Command, trained: Path) -> None:
    result = command("analyse", "taug", *models(trained), "--data", trained / "test.jsonl")
    assert (result.code, result.err) == (0, "")
    for word in ("n_aug", "PSP@3", "tail recall@5", "change against n_aug 0", "dropout+swap", "│"):
        assert word in result.out
    alone = command("analyse", "taug", trained / "fastxml", "--data", trained / "test.jsonl")
    assert alone.code == 0 and "fastxml" in alone.out, "any learner has these figures; one model makes no curve"


@pytest.mark.parametrize("what", ["norms", "taug"])
def test_pictures(what: str, command: Command, trained: Path, tmp_path: Path) -> None:
    picture = tmp_path / "figure.png"
    arguments = ["analyse", what, *models(trained), "--data", trained / "test.jsonl", "--png", picture]
    result = command(*arguments)
    assert result.code == 0 and f"drawn into {picture}" in result.out
    first = picture.read_bytes()
    assert first.startswith(b"\x89PNG") and [entry.name for entry in tmp_path.iterdir()] == ["figure.png"]
    refused = command(*arguments)
    assert refused.code == 2 and "--overwrite replaces it" in refused.line
    assert command(*arguments, "--overwrite", "--json").out.startswith("{")
    assert picture.read_bytes() == first, "the same models give the same picture"


def test_a_picture_that_fails_leaves_the_old_one(
    command: Command, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    def half(self: Figure, handle: Any, **options: Any) -> None:
        handle.write(b"\x89PNG half")
        raise OSError(28, "No space left on device")

    picture = tmp_path / "figure.png"
    picture.write_bytes(b"old")
    monkeypatch.setattr(Figure, "savefig", half)
    result = command("analyse", "norms", trained / "plain", "--png", picture, "--overwrite")
    assert result.code == 2 and "No space left" in result.line
    assert picture.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_models_of_one_name_are_told_apart(command: Command, trained: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(trained / "plain", tmp_path / "plain"))
    found = analysed(command, "norms", trained / "plain", other)["models"]
    assert [model["name"] for model in found] == [str(trained / "plain"), str(other)]


def test_models_over_other_labels_are_remarked_upon(command: Command, trained: Path, model: Path) -> None:
    result = command("analyse", "norms", trained / "plain", model, "--json")
    assert result.code == 0 and "not trained on the same labels" in result.err
    assert len(json.loads(result.out)["models"]) == 2


def test_bad_input(command: Command, trained: Path, tmp_path: Path) -> None:
    plain, test = trained / "plain", trained / "test.jsonl"
    picture = tmp_path / "figure.png"
    cases: list[tuple[list[object], str]] = [
        (["norms", tmp_path / "gone"], "does not exist; give the directory that holds the model"),
        (["norms", plain, test], "is not a directory; give the directory that holds the model"),
        (["norms", trained], "manifest.json"),
        (["norms", plain, trained / "fastxml"], f"{trained / 'fastxml'}: fastxml has no separator for each label"),
        (["norms", plain, "--data", tmp_path / "gone.jsonl"], "no such file"),
        (["norms", plain, "-k", "0"], "-k"),
        (["norms"], "MODEL"),
        (["taug", plain], "--data"),
        (["taug", plain, "--data", tmp_path / "gone.jsonl"], "no such file"),
        (["taug", tmp_path / "gone", "--data", test], "does not exist"),
        (["taug", plain, "--data", test], "no curve to draw"),
        (["taug", plain, "--data", test, "--propensity", "amazn"], "did you mean 'amazon'?"),
        (["taug", plain, "--datta", test], "did you mean '--data'?"),
        (["norm", plain], "norm"),
    ]
    for arguments, message in cases:
        result = command("analyse", *arguments, "--png", picture)
        assert result.code == 2 and message in result.line, (arguments, result.err)
        assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_help(command: Command) -> None:
    everything = command("--help").out
    assert "analyse" in everything
    assert command("analyse").code == 2
    listed = command("analyse", "--help")
    assert listed.code == 0 and "norms" in listed.out and "taug" in listed.out
    assert "--png" in command("analyse", "norms", "-h").out
