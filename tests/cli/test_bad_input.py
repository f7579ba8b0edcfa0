"""Every mistake a user can make ends in one clear line, exit code 2, and nothing written."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
from cli_helpers import TOPICS, Command, documents, write_jsonl

GOOD = {"text": "apple juice", "labels": ["fruit"]}


def lines(*records: object) -> bytes:
    return "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records).encode()


def refused(command: Command, tmp_path: Path, content: bytes, *options: object, name: str = "bad.jsonl") -> str:
    """What `train` says about a file with this content; it must have written nothing."""
    path = tmp_path / name
    path.write_bytes(content)
    result = command("train", path, "-o", tmp_path / "model", *options)
    assert result.code == 2
    assert [entry.name for entry in tmp_path.iterdir()] == [name], "nothing is written"
    return result.line.replace(f"{path}", "FILE")


@pytest.mark.parametrize("verb", ["train", "evaluate", "predict", "inspect"])
def test_missing_file(verb: str, command: Command, model: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone.jsonl"
    arguments = {"train": [gone, "-o", tmp_path / "m"], "inspect": [gone]}.get(verb, [model, gone])
    result = command(verb, *arguments)
    assert result.code == 2
    assert result.line.startswith(f"{gone}: no such file")
    assert list(tmp_path.iterdir()) == []


def test_empty_file(command: Command, tmp_path: Path) -> None:
    assert refused(command, tmp_path, b"") == "FILE: the file is empty"
    assert refused(command, tmp_path, b"\n \n") == "FILE: the file is empty"


def test_empty_gz(command: Command, tmp_path: Path) -> None:
    assert refused(command, tmp_path, gzip.compress(b""), name="bad.jsonl.gz") == "FILE: the file is empty"


def test_broken_json_in_the_middle_of_a_gz(command: Command, tmp_path: Path) -> None:
    content = gzip.compress(lines(*[GOOD] * 500, '{"text": "cut off', *[GOOD] * 500))
    said = refused(command, tmp_path, content, name="bad.jsonl.gz")
    assert said.startswith("FILE:501: not JSON")


def test_broken_lines_are_skipped_if_asked(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    records: list[object] = list(documents(40))
    records[7:7] = ['{"text": "cut off', {"text": "no labels at all"}]
    path.write_bytes(lines(*records))
    result = command("train", path, "-o", tmp_path / "m", "--skip-bad", "--set", "learner.trees=1")
    assert result.code == 0
    assert "2 bad lines skipped" in result.err and f"{path}:8:" in result.err


def test_truncated_gz(command: Command, tmp_path: Path) -> None:
    content = gzip.compress(lines(*documents(300)))[:-300]
    assert "truncated" in refused(command, tmp_path, content, name="bad.jsonl.gz")


def test_field_that_is_not_there(command: Command, tmp_path: Path) -> None:
    content = lines(GOOD, {"text": "apple", "tags": ["fruit"]})
    assert refused(command, tmp_path, content) == "FILE:2: no field 'labels'; there is 'text', 'tags'"
    said = refused(command, tmp_path, lines(GOOD, GOOD), "--text-field", "title", "--text-field", "text")
    assert said == "FILE:1: no field 'title'; there is 'text', 'labels'"
    said = refused(command, tmp_path, lines(GOOD, GOOD), "--labels-field", "subjects")
    assert said == "FILE:1: no field 'subjects'; there is 'text', 'labels'"


@pytest.mark.parametrize("labels", ["fruit", 3, True, [["fruit"]], [None], [""], {"fruit": "much"}])
def test_labels_that_are_not_a_list(labels: object, command: Command, tmp_path: Path) -> None:
    said = refused(command, tmp_path, lines(GOOD, {"text": "apple", "labels": labels}))
    assert said.startswith("FILE:2: ")
    assert "label" in said


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"3 4 2\n0 0:1.0\n1 1:1.0\n", "FILE"),  # N says one more
        (b"1 4 2\n0 0:1.0\n1 1:1.0\n", "FILE"),  # N says one less
        (b"2 4 2\n0 0:1.0\n1 9:1.0\n", "FILE:3: "),  # feature id out of range: D too small
        (b"2 4 2\n0 0:1.0\n5 1:1.0\n", "FILE:3: "),  # label id out of range: L too small
        (b"2 4 2\n0 0:1.0\n-1 1:1.0\n", "FILE:3: "),
        (b"2 4 2\n0 0:1.0\n1 -1:1.0\n", "FILE:3: "),
        (b"2 4 2\n0 0:nan\n1 1:1.0\n", "FILE:2: "),
        (b"2 4 2\n0 0:1.0\n1 1:inf\n", "FILE:3: "),
        (b"2 4 2\n0 0:1.0\n1 1:abc\n", "FILE:3: "),
        (b"2 99999999999999999999 2\n0 0:1.0\n1 1:1.0\n", "FILE"),
        (b"two four two\n0 0:1.0\n", "FILE"),
    ],
)
def test_xmc_files_that_lie(content: bytes, where: str, command: Command, tmp_path: Path) -> None:
    assert refused(command, tmp_path, content, name="bad.svm").startswith(where)


@pytest.mark.parametrize("k", ["0", "-3"])
def test_k_below_one(k: str, command: Command, model: Path, data: Path) -> None:
    result = command("predict", model, data / "test.jsonl", "-k", k)
    assert (result.code, result.line) == (2, f"-k must be at least 1, not {k}")
    result = command("evaluate", model, data / "test.jsonl", "-k", f"1,{k}")
    assert (result.code, result.line) == (2, f"-k takes numbers of at least 1, not {k}")


def test_k_above_the_number_of_labels(command: Command, model: Path, data: Path) -> None:
    """Only labels that there are take memory."""
    test, huge = data / "test.jsonl", 10**12
    predicted = command("predict", model, test, "-k", huge)
    assert predicted.code == 0 and len(json.loads(predicted.out.splitlines()[0])["labels"]) == len(TOPICS)
    assert command("predict", model, "-", "-k", huge, stdin=b"apple juice\n").code == 0
    assert json.loads(command("evaluate", model, test, "-k", f"1,{huge}", "--json").out)[f"R@{huge}"] == 100
    assert command("compare", model, "--data", test, "-k", huge).code == 0
    assert command("compare", model, "--text", "apple", "-k", huge).code == 0


def test_memory_that_runs_out(command: Command, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Advice on training is for those who train."""

    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("longtail.tagger.Tagger.score", exhausted)
    monkeypatch.setattr("longtail.tagger.Tagger.fit", exhausted)
    result = command("predict", model, data / "test.jsonl")
    assert (result.code, result.line) == (2, "out of memory")
    result = command("train", data / "train.jsonl", "-o", data / "m", "--learner", "parabel")
    assert result.code == 2 and result.line.startswith("out of memory; --dry-run tells")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-k", "1,x"], "-k takes whole numbers"),
        (["-k", ""], "-k takes whole numbers"),
        (["--bands", "5,a"], "--bands takes whole numbers"),
        (["--bands", "20,5"], "band edges must be rising"),
        (["--propensity", "wikipedla"], "did you mean 'wikipedia'?"),
        (["--psndcg", "summ"], "did you mean 'sum'?"),
        (["--A", "-1"], "A >= 0"),
        (["--bootstrap", "-1"], "--bootstrap"),
        (["--lables-field", "x"], "did you mean '--labels-field'?"),
    ],
)
def test_options_of_evaluate(options: list[str], message: str, command: Command, model: Path, data: Path) -> None:
    result = command("evaluate", model, data / "test.jsonl", *options)
    assert result.code == 2
    assert message in result.line


def test_predict_needs_no_option_for_json(command: Command, model: Path, data: Path) -> None:
    result = command("predict", model, data / "test.jsonl", "--json")
    assert result.code == 2
    assert "no such option '--json'; predict writes JSON as it is" in result.line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--learner", "bonzai"], "unknown learner 'bonzai'; did you mean 'bonsai'?"),
        (["--learner", "tfidf"], "unknown learner 'tfidf'"),
        (["--augment", "gandalf-the-grey"], "unknown augmenter 'gandalf-the-grey'"),
        (["--rerank", "rank-net-of-sorts"], "unknown re-ranker 'rank-net-of-sorts'"),
        (["--recipe", "parabell"], "unknown recipe 'parabell'; did you mean 'parabel'?"),
        (["--recipe", "gone.toml"], "gone.toml: there is no such recipe file"),
        (["--set", "learner.tres=1"], "'bonsai' has no option 'tres'; did you mean 'trees'?"),
        (["--set", "features.ngram=2"], "'tfidf' has no option 'ngram'; did you mean 'ngrams'?"),
        (["--set", "learner.trees=0"], "bonsai.trees must be at least 1, not 0"),
        (["--set", "learner.trees"], "--set takes path=value"),
        (["--lerner", "bonsai"], "no such option '--lerner'; did you mean '--learner'?"),
        (["--seed", "x"], "--seed"),
        (["--seed", "-1"], "--seed"),
        (["--threads", "-1"], "--threads"),
        (["--split", "train"], "is a single file"),
        (["--separator", ""], "separator"),
        (["--labels", "gone.jsonl"], "gone.jsonl: no such file"),
        (["--valid", "gone.jsonl"], "gone.jsonl: no such file"),
    ],
)
def test_options_of_train(options: list[str], message: str, command: Command, data: Path, tmp_path: Path) -> None:
    result = command("train", data / "train.jsonl", "-o", tmp_path / "m", *options)
    assert result.code == 2
    assert message in result.line
    assert list(tmp_path.iterdir()) == []


def test_unknown_verbs_and_missing_arguments(command: Command) -> None:
    assert "train" in command("trian", "x").line
    assert command("trian").code == 2
    assert "DATA" in command("train", "-o", "x").line
    assert "output" in command("train", "x").line
    assert command("--verzion").code == 2
    assert "unknown part 'bonzai'; did you mean 'bonsai'?" in command("methods", "bonzai").line


def copy_of(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "copy"))


def files_of(model: Path) -> list[str]:
    return sorted(entry.name for entry in model.iterdir())


def test_models_with_missing_truncated_or_altered_files(
    command: Command, model: Path, data: Path, tmp_path: Path
) -> None:
    assert len(files_of(model)) >= 4
    for name in files_of(model):
        for harm in ("missing", "truncated", "altered"):
            damaged = copy_of(model, tmp_path)
            file = damaged / name
            content = bytearray(file.read_bytes())
            if harm == "missing":
                file.unlink()
            elif harm == "truncated":
                file.write_bytes(content[:-7])
            else:
                content[len(content) // 2] ^= 0x10
                file.write_bytes(content)
            for arguments in (["predict", damaged, data / "test.jsonl"], ["evaluate", damaged, data / "test.jsonl"]):
                result = command(*arguments)
                assert result.code == 2
                assert name in result.line, f"{harm} {name}: {result.line}"
            shutil.rmtree(damaged)


def test_what_is_not_a_model(command: Command, data: Path, tmp_path: Path) -> None:
    for path in (data, data / "train.jsonl", tmp_path / "gone"):
        result = command("predict", path, data / "test.jsonl")
        assert result.code == 2
        assert str(path) in result.line


def test_output_that_exists(command: Command, model: Path, data: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    result = command("train", tmp_path / "never read", "-o", output)
    assert result.code == 2 and "exists" in result.line and "--overwrite" in result.line, "said before any work"
    assert command("demo", "-o", output).code == 2
    (output / "thesis.tex").write_text("years of work")
    result = command("train", data / "train.jsonl", "-o", output, "--overwrite")
    assert result.code == 2 and "thesis.tex" in result.line
    assert (output / "thesis.tex").read_text() == "years of work"

    tags = tmp_path / "tags.jsonl"
    tags.write_text("old")
    result = command("predict", model, data / "test.jsonl", "-o", tags)
    assert result.code == 2 and "exists" in result.line and tags.read_text() == "old"
    picture = tmp_path / "picture.png"
    picture.write_text("old")
    result = command("inspect", data / "train.jsonl", "--png", picture)
    assert result.code == 2 and "exists" in result.line and picture.read_text() == "old"


def test_outputs_that_cannot_be_written(command: Command, model: Path, data: Path, tmp_path: Path) -> None:
    result = command("predict", model, data / "test.jsonl", "-o", data / "train.jsonl" / "below")
    assert result.code == 2 and "cannot be written" in result.line
    result = command("predict", model, data / "test.jsonl", "-o", tmp_path, "--overwrite")
    assert result.code == 2 and "directory" in result.line
    result = command("train", data / "train.jsonl", "-o", data / "train.jsonl" / "below")
    assert result.code == 2 and "cannot be written" in result.line


def test_failed_prediction_leaves_no_file(command: Command, model: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(lines(*[{"text": "apple"}] * 50, "{broken"))
    result = command("predict", model, bad, "-o", tmp_path / "tags.jsonl")
    assert result.code == 2 and result.line.startswith(f"{bad}:51: ")
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.jsonl"]


def test_predict_on_nothing_and_on_noise(command: Command, model: Path) -> None:
    result = command("predict", model, "-", stdin=b"")
    assert result.code == 2 and "standard input" in result.line
    result = command("predict", model, "-", stdin=b"\x00\xff\xfe broken \x80\n")
    assert result.code == 2 and "standard input:1: " in result.line
    for threshold in ("2", "-0.1", "nan", "x"):
        assert command("predict", model, "-", "--threshold", threshold, stdin=b"apple").code == 2


def test_features_of_another_width(command: Command, data: Path, tmp_path: Path) -> None:
    train = tmp_path / "train.svm"
    train.write_text("4 4 2\n0 0:1.0\n1 1:1.0\n0 0:1.0 2:0.5\n1 1:1.0 3:0.2\n")
    assert command("train", train, "-o", tmp_path / "m", "--set", "learner.trees=1").code == 0
    wide = tmp_path / "wide.svm"
    wide.write_text("1 5 2\n0 0:1.0\n")
    result = command("evaluate", tmp_path / "m", wide)
    assert (result.code, result.line) == (2, f"{wide} has 5 features, the model has 4")
    result = command("predict", tmp_path / "m", data / "test.jsonl")
    assert result.code == 2 and "trained on features" in result.line


def test_corpora_without_any_label_or_word(command: Command, tmp_path: Path) -> None:
    assert "no document has a label" in refused(command, tmp_path, lines(*[{"text": "apple", "labels": []}] * 3))
    path = tmp_path / "wordless.jsonl"
    path.write_bytes(lines(*[{"text": "", "labels": ["a"]}] * 3))
    result = command("train", path, "-o", tmp_path / "model")
    remark, chosen, said = result.err.splitlines()
    assert result.code == 2 and "3 documents without text" in remark and "recipe" in chosen
    assert "is the text field the right one?" in said
    assert not (tmp_path / "model").exists()


def test_evaluating_without_a_known_label(command: Command, model: Path, tmp_path: Path) -> None:
    other = write_jsonl(tmp_path / "other.jsonl", [{"text": "apple", "labels": ["unheard of"]}])
    result = command("evaluate", model, other)
    assert result.code == 2 and "nothing to measure" in result.line
