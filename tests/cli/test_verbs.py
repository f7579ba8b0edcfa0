"""What each verb does when all is well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_helpers import TOPICS, Command, documents, write_jsonl

from longtail.tagger import Tagger


def test_train(command: Command, data: Path, tmp_path: Path) -> None:
    output = tmp_path / "model"
    result = command("train", data / "train.jsonl", "-o", output, "--labels", data / "labels.jsonl")
    assert result.code == 0 and result.err.startswith("longtail: recipe gandalf: labels have texts")
    assert result.out.startswith("gandalf trained, saved in"), "by the name of what was chosen"
    assert "60 documents, 4 labels" in result.out
    assert all(line.strip() for line in result.out.splitlines()), "no empty line, however quick it was"
    assert f"longtail evaluate {output}" in result.out, "and says what to do next"
    again = command("train", data / "train.jsonl", "-o", output, "--overwrite", "--quiet")
    assert again.code == 0 and again.out == again.err == ""


def test_train_json(command: Command, data: Path, tmp_path: Path) -> None:
    options = ["--recipe", "parabel", "--set", "learner.trees=1", "--set", "learner.max_leaf=2"]
    options += ["--seed", "3", "--json"]
    result = command("train", data / "train.jsonl", "-o", tmp_path / "m", *options)
    assert result.code == 0
    summary = json.loads(result.out.splitlines()[-1])
    assert {"read", "features", "cluster", "train", "save"} <= set(summary["seconds"])
    assert all(seconds >= 0 for seconds in summary["seconds"].values())
    for stage in ("read", "features", "train", "save"):
        assert summary["seconds"][stage] > 0
    assert summary["peak_memory_mb"] > 10 and summary["model_mb"] > 0
    assert (summary["documents"], summary["labels"], summary["learner"]) == (60, 4, "parabel")
    assert summary["recipe"] == "parabel"
    config = json.loads(command("inspect", tmp_path / "m", "--json").out)["config"]
    assert config["learner"]["trees"] == 1 and config["learner"]["max_leaf"] == 2 and config["seed"] == 3


def test_train_with_validation_data_and_a_recipe_file(command: Command, data: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "own.toml"
    recipe.write_text('[learner]\npart = "ensemble"\n[[learner.members]]\npart = "parabel"\n')
    options = ["--recipe", recipe, "--set", "parabel.trees=1", "--valid", data / "test.jsonl"]
    assert command("train", data / "train.jsonl", "-o", tmp_path / "m", *options).code == 0
    config = json.loads(command("inspect", tmp_path / "m", "--json").out)["config"]
    assert [m["trees"] for m in config["learner"]["members"]] == [1]


def test_train_from_a_folder_and_joined_fields(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, seed in (("train", 0), ("test", 1)):
        records = [{"title": d["text"].split()[0], "body": d["text"], "tags": d["labels"]} for d in documents(40, seed)]
        write_jsonl(folder / f"{name}.jsonl", records)
    fields = ["--text-field", "title", "--text-field", "body", "--labels-field", "tags"]
    assert command("train", folder, "-o", tmp_path / "m", *fields, "--set", "learner.trees=1").code == 0
    report = json.loads(command("evaluate", tmp_path / "m", folder, *fields, "--json").out)
    assert report["documents"] == 40 and report["P@1"] > 90, "a folder is evaluated on its test part"
    train = command("evaluate", tmp_path / "m", folder, *fields, "--split", "train", "--json")
    assert json.loads(train.out) != report


def test_evaluate(command: Command, model: Path, data: Path) -> None:
    result = command("evaluate", model, data / "test.jsonl", "--bootstrap", "20")
    assert result.code == 0
    for word in ("nDCG", "PSP", "PSnDCG", "@5", "head", "middle", "tail", "20 documents", "A=0.55"):
        assert word in result.out


def test_evaluate_json(command: Command, model: Path, data: Path) -> None:
    result = command("evaluate", model, data / "test.jsonl", "--json")
    assert result.code == 0 and result.out.count("\n") == 1
    report = json.loads(result.out)
    for name in ("P", "nDCG", "PSP", "PSnDCG", "R", "RP"):
        for k in (1, 3, 5):
            assert 0 <= report[f"{name}@{k}"] <= 100
    assert report["P@1"] > 90, "percentages, and a model that learned"
    assert (report["documents"], report["labels"]) == (20, 4)
    assert [band["name"] for band in report["bands"]] == ["tail", "middle", "head"]
    other = json.loads(command("evaluate", model, data / "test.jsonl", "--json", "-k", "2", "--bands", "30").out)
    assert "P@2" in other and "P@1" not in other and len(other["bands"]) == 2
    amazon = json.loads(command("evaluate", model, data / "test.jsonl", "--json", "--propensity", "amazon").out)
    assert (amazon["A"], amazon["B"]) == (0.6, 2.6)


def test_evaluate_all_labels(command: Command, model: Path, tmp_path: Path) -> None:
    records = documents(20, seed=1)
    records[0]["labels"] = ["unheard of"]
    records[1]["labels"].append("unheard of")
    path = write_jsonl(tmp_path / "test.jsonl", records)
    known = json.loads(command("evaluate", model, path, "--json").out)
    everything = json.loads(command("evaluate", model, path, "--json", "--all-labels").out)
    assert (known["documents"], everything["documents"]) == (19, 20)
    assert (known["labels"], everything["labels"]) == (4, 5)
    assert any("1" in note for note in known["notes"]), "what is counted out is said"


def test_predict(command: Command, model: Path, data: Path, tmp_path: Path) -> None:
    output = tmp_path / "tags.jsonl"
    result = command("predict", model, data / "test.jsonl", "-k", "2", "-o", output)
    assert (result.code, result.out, result.err) == (0, "", "")
    tags = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    truth = documents(20, seed=1)
    assert [tag["id"] for tag in tags] == [record["id"] for record in truth], "one line per document, in input order"
    for tag, record in zip(tags, truth, strict=True):
        assert set(tag) == {"id", "labels"} and len(tag["labels"]) == 2
        first, second = tag["labels"]
        assert 0 <= second["score"] <= first["score"] <= 1
        assert first["label"] in TOPICS
        assert first["label"] in record["labels"]
    assert "Ümläute" in output.read_text(encoding="utf-8")
    again = command("predict", model, data / "test.jsonl", "-k", "2")
    assert again.out == output.read_text(encoding="utf-8"), "without -o the same goes to standard output"


def test_predict_shows_texts_of_labels_that_have_one(command: Command, model: Path, tmp_path: Path) -> None:
    tagger = Tagger.load(model).with_label_texts({"music": "Music and song", "fruit": "fruit"})
    tagger.save(tmp_path / "named")
    result = command("predict", tmp_path / "named", "-", "-k", "4", stdin=b"a guitar concert")
    labels = json.loads(result.out)["labels"]
    assert labels[0] == {"label": "music", "text": "Music and song", "score": labels[0]["score"]}
    assert list(labels[0]) == ["label", "text", "score"]
    assert all(set(each) == {"label", "score"} for each in labels[1:]), "a text that is the name tells nothing more"


def test_predict_in_batches_is_the_same(
    command: Command, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    whole = command("predict", model, data / "test.jsonl").out
    monkeypatch.setattr(sys.modules["longtail.cli.predict"], "BATCH", 3)
    assert command("predict", model, data / "test.jsonl").out == whole


def test_predict_from_standard_input(command: Command, model: Path) -> None:
    result = command("predict", model, "-", "-k", "1", stdin=b"a guitar concert\n\nthe galaxy, a comet")
    assert result.code == 0
    tags = [json.loads(line) for line in result.out.splitlines()]
    assert [tag["id"] for tag in tags] == ["0", "1", "2"], "a blank line is a document too"
    assert tags[0]["labels"][0]["label"] == "music" and tags[2]["labels"][0]["label"] == "Sterne, Ümläute"
    result = command("predict", model, "-", "-k", "1", stdin=b'{"id": "x", "text": "a guitar concert"}\n')
    assert json.loads(result.out)["id"] == "x"


def test_predict_threshold(command: Command, model: Path) -> None:
    everything = json.loads(command("predict", model, "-", stdin=b"guitar piano sail").out)["labels"]
    cut = everything[1]["score"]
    kept = json.loads(command("predict", model, "-", "--threshold", str(cut - 1e-4), stdin=b"guitar piano sail").out)
    assert kept["labels"] == [label for label in everything if label["score"] >= cut]
    assert json.loads(command("predict", model, "-", "--threshold", "1", stdin=b"zzz").out)["labels"] == []


def test_inspect_a_corpus(command: Command, data: Path, tmp_path: Path) -> None:
    picture = tmp_path / "labels.png"
    result = command("inspect", data / "train.jsonl", "--png", picture)
    assert result.code == 0
    assert "60" in result.out and "█" in result.out and "tail: 0 labels with 1-5 documents" in result.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    first = picture.read_bytes()
    assert command("inspect", data / "train.jsonl", "--png", picture, "--overwrite").code == 0
    assert picture.read_bytes() == first, "the same counts give the same picture"
    facts = json.loads(command("inspect", data / "train.jsonl", "--json").out)
    assert (facts["documents"], facts["labels"], facts["tail_share"]) == (60, 4, 0)
    assert facts["words_per_document"] == pytest.approx(
        sum(len(d["text"].split()) for d in documents(60)) / 60, abs=0.01
    )
    assert sum(band["labels"] for band in facts["bands"]) == 4
    assert sum(facts["inverse_propensity"]["histogram"]) == 4 and facts["inverse_propensity"]["least"] > 1


def test_one_tail_share_everywhere(command: Command, tmp_path: Path) -> None:
    """Two of four columns are never used, one of the other two is rare: one half, whoever says it."""
    (tmp_path / "train.svm").write_text("7 2 4\n" + "0 0:1.0\n" * 6 + "1 1:1.0\n")
    options = ["--learner", "one-vs-all"]
    trained = command("train", tmp_path / "train.svm", "-o", tmp_path / "m", *options, "--json")
    assert json.loads(trained.out)["tail_share"] == 0.5
    for path in (tmp_path / "train.svm", tmp_path / "m"):
        assert json.loads(command("inspect", path, "--json").out)["tail_share"] == 0.5
    plot = command("inspect", tmp_path / "train.svm").out
    assert "tail: 1 labels with 1-5 documents (50%)" in plot and "middle: 1 labels with 6-20 documents (50%)" in plot
    assert "50% of those in use are rare" in command("inspect", tmp_path / "m").out
    again = command("train", tmp_path / "train.svm", "-o", tmp_path / "m", *options, "--overwrite")
    assert "4 labels, 50% of those in use are rare" in again.out


def test_inspect_a_model(command: Command, model: Path, tmp_path: Path) -> None:
    result = command("inspect", model)
    assert result.code == 0
    for word in ("learner", "parabel(", "trees=1", "tfidf(", "60 documents", "written by", "longtail 0.", "MB"):
        assert word in result.out
    assert "…" not in result.out, "nothing is cut"
    facts = json.loads(command("inspect", model, "--json").out)
    assert facts["labels"] == 4 and facts["trained_on"] == 60 and facts["format_version"] >= 1
    refused = command("inspect", model, "--png", tmp_path / "x.png")
    assert refused.code == 2 and "this is a model" in refused.line


def test_methods(command: Command) -> None:
    from longtail.registry import entries

    result = command("methods")
    assert result.code == 0
    for word in ("one-vs-all", "parabel", "bonsai", "ensemble", "Khandagale", "learner"):
        assert word in result.out
    lines = result.out.splitlines()
    assert lines[0].startswith("Try these first") and [line.split()[1] for line in lines[1:4]] == [
        "label-text", "gandalf", "bonsai"
    ]  # fmt: skip
    assert max(map(len, lines)) <= 80
    whole = " ".join(result.out.split())
    for entry in entries():
        assert entry.name in whole and entry.summary in whole, "nothing is cut"
    parts = json.loads(command("methods", "--json").out)
    assert {"part", "kind", "space", "paper", "summary"} <= set(parts[0])
    assert {"tfidf", "bonsai", "decoupled"} <= {part["part"] for part in parts}


def test_methods_of_one_part(command: Command) -> None:
    result = command("methods", "bonsai")
    assert result.code == 0 and "branches" in result.out and "100" in result.out
    options = json.loads(command("methods", "ensemble", "--json").out)["options"]
    assert {"option", "default", "meaning"} == set(options[0])


def test_version(command: Command) -> None:
    from longtail import __version__

    assert command("--version").out == f"longtail {__version__}\n"


def test_xmc_files_end_to_end(command: Command, tmp_path: Path) -> None:
    """Features as given, no text: label columns are named by the labels file."""
    rows = "".join(f"{j % 3} {j % 3}:1.0 {3 + j % 2}:0.5\n" for j in range(30))
    (tmp_path / "train.svm").write_text(f"30 5 3\n{rows}")
    write_jsonl(tmp_path / "names.jsonl", [{"label": name, "text": name} for name in ("red", "green", "blue")])
    options = ["--labels", tmp_path / "names.jsonl"]
    assert command("train", tmp_path / "train.svm", "-o", tmp_path / "m", *options).code == 0
    result = command("predict", tmp_path / "m", tmp_path / "train.svm", "-k", "1")
    best = [json.loads(line)["labels"][0]["label"] for line in result.out.splitlines()]
    assert best == ["red", "green", "blue"] * 10
    report = json.loads(command("evaluate", tmp_path / "m", tmp_path / "train.svm", *options, "--json").out)
    assert report["P@1"] == 100


def test_hardware_and_validation_data_that_nothing_uses(command: Command, data: Path, tmp_path: Path) -> None:
    """No option is accepted and ignored: label trees have no devices, and say when validation data has no use."""
    train = ["train", data / "train.jsonl", "-o", tmp_path / "model", "--learner", "parabel", "--quiet"]
    for option in (["--devices", "2"], ["--precision", "bf16-mixed"], ["--logs", tmp_path / "logs"]):
        refused = command(*train, *option)
        assert refused.code == 2 and f"{option[0]} is for networks" in refused.err
    told = command(*train, "--valid", data / "test.jsonl")
    assert told.code == 0 and "--valid has no effect" in told.err


VERBS = [[], ["demo"], ["split"], ["train"], ["predict"], ["evaluate"], ["compare"], ["inspect"], ["convert"],
         ["methods"], ["recipes"], ["analyse"], ["augment"], *(["analyse", each] for each in
         ("norms", "taug", "lsfa", "xda", "gandalf")), ["augment", "xda"]]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_has_words_for_people(verb: list[str], command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """No types of Python's, nothing cut, and 80 columns are enough."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = command(*verb, "--help")
    assert shown.code == 0 and "…" not in shown.out and max(map(len, shown.out.splitlines())) <= 80
    for word in ("<bool>", "<str>", "<int>", "<int range>", "<float>", "<float range>", "<path>", "list["):
        assert word not in shown.out, shown.out


def test_help_shows_no_types_behind_flags(command: Command) -> None:
    shown = command("train", "--help").out
    for option in ("--overwrite", "--dry-run", "--skip-bad", "--text-field"):
        (line,) = [line for line in shown.splitlines() if f" {option} " in line]
        assert "<" not in line, line


def test_inspect_several_files_as_one(command: Command, data: Path) -> None:
    one, both = (json.loads(command("inspect", *[data / "train.jsonl"] * n, "--json").out) for n in (1, 2))
    assert both["documents"] == 2 * one["documents"] and both["labels"] == one["labels"]
