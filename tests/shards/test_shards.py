"""A model in shards: what two processes train and keep gives, put together, the answers of the whole model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail.cli import run
from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.describe import describe_model, is_model
from longtail.errors import ModelError, UsageError
from longtail.fit import Fit
from longtail.keep.shard_folders import Shard
from longtail.learners.linear.shards import Part
from longtail.learners.linear.tree import Shape
from longtail.run import Run
from longtail.tagger import Tagger

#: Nodes per level, at least.
WIDE = 200
BONSAI = {"part": "bonsai", "trees": 2, "branches": 12, "depth": 2, "max_leaf": 10}
PARABEL = {"part": "parabel", "trees": 2, "max_leaf": 10}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return synthetic(documents=800, labels=300, words=1000, words_per_document=8)


def outside(*arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "longtail", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True)


def labels_of(tagger: Tagger) -> list[set[int]]:
    """The labels of each tree."""
    trees: list[Any] = tagger.learner.trees_  # type: ignore[attr-defined]
    return [set(tree.slot_target[np.repeat(tree.leaf, np.diff(tree.slot_start))].tolist()) for tree in trees]


# training and scoring
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("learner", [PARABEL, BONSAI, {"part": "one-vs-all"}], ids=lambda each: each["part"])
def test_shards_share_the_labels_and_score_as_the_whole_with_a_wide_beam(
    learner: dict[str, Any], count: int, corpus: Corpus, tmp_path: Path
) -> None:
    learner = learner if learner["part"] == "one-vs-all" else {**learner, "beam": WIDE}
    whole = Tagger(learner).fit(corpus)
    shards = [Tagger(learner).fit(corpus, shard=(number, count)) for number in range(1, count + 1)]
    for tree, every in enumerate(labels_of(whole)):
        shares = [labels_of(shard)[tree] for shard in shards]
        assert set.union(*shares) == every
        assert sum(map(len, shares)) == len(every)
        assert max(map(len, shares)) <= 1.3 * len(every) / count
    for shard in shards:
        shard.save(tmp_path / "model")
    opened = Tagger.load(tmp_path / "model")
    for k in (1, 5, 60):
        expected, found = whole.score(corpus, k), opened.score(corpus, k)
        # a node with fewer children adds up in another order, so labels that score alike may change places
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-5)
        assert (found.ids != expected.ids).mean() < 1e-3


def test_with_the_usual_beam_shards_miss_nothing_much(corpus: Corpus, tmp_path: Path) -> None:
    """Each shard has a beam of its own, so a label that the whole finds may come in behind better ones only."""
    whole = Tagger(PARABEL).fit(corpus)
    for number in (1, 2):
        Tagger(PARABEL).fit(corpus, shard=(number, 2)).save(tmp_path / "model")
    expected, found = whole.score(corpus, 5), Tagger.load(tmp_path / "model").score(corpus, 5)
    assert (found.ids[:, 0] == expected.ids[:, 0]).mean() > 0.98
    assert found.values.sum() >= 0.999 * expected.values.sum()


def test_a_tree_is_divided_as_evenly_as_its_branches_allow() -> None:
    """Three roots that are leaves of 6, 3 and 3 labels."""
    start = np.array([0, 6, 9, 12], dtype=np.int32)
    shape = Shape(np.array([0, 3], dtype=np.int32), start, np.arange(12, dtype=np.int32), np.ones(3, dtype=bool))
    one, two = (Part.of(shape, Shard(number, 2)) for number in (1, 2))
    assert one.shape.slot_target.tolist() == list(range(6))
    assert two.shape.slot_target.tolist() == list(range(6, 12))
    assert two.nodes.tolist() == [1, 2]
    with pytest.raises(UsageError, match="12 labels lie in 3 groups, too few for 4 shards"):
        Part.of(shape, Shard(1, 4))


def test_checkpoints_of_shards_are_their_own(corpus: Corpus, tmp_path: Path) -> None:
    keys = {
        Fit(Run(checkpoints=tmp_path), shard=shard).key("what", corpus)
        for shard in (None, Shard(1, 2), Shard(2, 2), Shard(1, 3))
    }
    assert len(keys) == 4


# two processes, two model directories
@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts, a model in two shards trained by two processes, and the whole model."""
    folder = tmp_path_factory.mktemp("shards")
    texts = synthetic(documents=600, labels=200, words=800, words_per_document=8, texts=True)
    with (folder / "data.jsonl").open("w") as handle:
        for row, text in enumerate(texts.texts or ()):
            names = [texts.labels.names[c] for c in texts.Y.indices[texts.Y.indptr[row] : texts.Y.indptr[row + 1]]]
            handle.write(json.dumps({"text": text, "labels": names}) + "\n")
    wanted = ["--learner", "parabel", "--set", "learner.max_leaf=20", "--set", f"learner.beam={WIDE}"]
    wanted += ["--rerank", "inverse-propensity", "-q"]
    for shard in (("--shard", "1/2"), ("--shard", "2/2"), ()):
        name = "sharded" if shard else "whole"
        done = outside(
            "train", folder / "data.jsonl", "-o", folder / name, *wanted, "--rerank", "inverse-propensity", *shard
        )
        assert done.returncode == 0, done.stderr
    return folder


def test_two_processes_train_what_one_predicts_and_evaluates_with(files: Path) -> None:
    assert sorted(path.name for path in (files / "sharded").iterdir()) == ["shard-1-of-2", "shard-2-of-2"]
    answers = []
    for name in ("sharded", "whole"):
        done = outside("predict", files / name, files / "data.jsonl", "-q")
        assert done.returncode == 0, done.stderr
        answers.append([json.loads(line) for line in done.stdout.splitlines()])
    assert len(answers[0]) == 600
    for one, other in zip(*answers, strict=True):
        assert [label["label"] for label in one["labels"]] == [label["label"] for label in other["labels"]]
        scores = [[label["score"] for label in each["labels"]] for each in (one, other)]
        assert scores[0] == pytest.approx(scores[1], abs=2e-6)
    measured = {
        name: outside("evaluate", files / name, files / "data.jsonl", "--json") for name in ("sharded", "whole")
    }
    assert json.loads(measured["sharded"].stdout) == json.loads(measured["whole"].stdout)


def test_one_document_is_answered_by_all_shards(files: Path) -> None:
    """A single text takes a way of its own through the kernels."""
    whole, sharded = Tagger.load(files / "whole"), Tagger.load(files / "sharded")
    texts = [json.loads(line)["text"] for line in (files / "data.jsonl").read_text().splitlines()[:40]]
    together = sharded.predict(texts, 5)
    for text, expected in zip(texts, together, strict=True):
        assert sharded.predict([text], 5) == [expected]
        assert [each.label for each in whole.predict([text], 5)[0]] == [each.label for each in expected]


def test_a_shard_is_about_half_of_the_model(files: Path) -> None:
    sizes = [(files / name / "learner.safetensors").stat().st_size
             for name in ("whole", "sharded/shard-1-of-2", "sharded/shard-2-of-2")]  # fmt: skip
    assert max(sizes[1:]) < 0.65 * sizes[0]


def test_shards_that_do_not_belong_together_are_refused(files: Path, tmp_path: Path) -> None:
    one, two = files / "sharded" / "shard-1-of-2", files / "sharded" / "shard-2-of-2"

    def folder(**names: Path) -> Path:
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        for name, source in names.items():
            shutil.copytree(source, tmp_path / "model" / name.replace("_", "-"))
        return tmp_path / "model"

    with pytest.raises(ModelError, match="shard 2 of 2 is not there yet"):
        Tagger.load(folder(shard_1_of_2=one))
    with pytest.raises(ModelError, match="shard-2-of-2 holds another model"):
        Tagger.load(folder(shard_1_of_2=one, shard_2_of_2=one))
    with pytest.raises(ModelError, match="shards of 2 and 3 lie in one folder"):
        Tagger.load(folder(shard_1_of_2=one, shard_2_of_3=two))
    with pytest.raises(ModelError, match="shard-2-of-2 holds another model"):
        Tagger.load(folder(shard_1_of_2=one, shard_2_of_2=files / "whole"))
    other = Tagger.load(two)
    assert other.share_ is not None
    other.share_ = other.share_._replace(corpus="0" * 64)
    shutil.copytree(one, tmp_path / "mixed" / "shard-1-of-2")
    other.save(tmp_path / "mixed")
    with pytest.raises(ModelError, match="shards 1 and 2 were trained with other options or on other documents"):
        Tagger.load(tmp_path / "mixed")
    assert len(Tagger.load(two).predict(["w1 w2"])[0]) == 5  # one alone answers for its labels
    with pytest.raises(UsageError, match="lies in shards already"):
        Tagger.load(files / "sharded").save(tmp_path / "again")


def test_a_model_in_shards_is_described_as_one(files: Path) -> None:
    whole, sharded = describe_model(files / "whole"), describe_model(files / "sharded")
    assert is_model(files / "sharded")
    assert (sharded.labels, sharded.config) == (whole.labels, whole.config)
    assert "shard-2-of-2/learner.safetensors" in sharded.files
    assert len(sharded.files) == 2 * len(whole.files)


def test_shards_are_converted_one_by_one(files: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def convert(name: str) -> int:
        return run(["convert", str(files / name), "-o", str(tmp_path / "small"), "--weights", "float16", "-q"])

    assert convert("sharded") == 2
    assert "is in shards: convert each of them" in capfd.readouterr().err
    assert [convert(f"sharded/shard-{number}-of-2") for number in (1, 2)] == [0, 0]
    given, small = Tagger.load(files / "sharded"), Tagger.load(tmp_path / "small")
    texts = [json.loads(line)["text"] for line in (files / "data.jsonl").read_text().splitlines()[:40]]
    best = [[labels[0].label for labels in tagger.predict(texts, 1)] for tagger in (given, small)]
    assert np.mean(np.array(best[0]) == np.array(best[1])) > 0.9


# refusals
def test_what_has_no_shards_is_refused_before_any_work(
    files: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def refused(*options: object, output: Path = tmp_path / "model") -> str:
        assert run(["train", str(files / "data.jsonl"), "-o", str(output), *map(str, options)]) == 2
        return capfd.readouterr().err

    assert "'nearest-documents' cannot be trained in shards" in refused(
        "--shard", "1/2", "--learner", "nearest-documents"
    )
    assert "'ranknet' asks a model of all labels" in refused("--shard", "1/2", "--rerank", "ranknet")
    assert "as in 1/2, not '1'" in refused("--shard", "1")
    assert "as in 1/2, not 3/2" in refused("--shard", "3/2")
    assert "is a model that is not in shards" in refused("--shard", "1/2", output=files / "whole")
    assert "holds a model in shards" in refused("--overwrite", output=files / "sharded")
