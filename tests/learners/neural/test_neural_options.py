"""Options: none is accepted and ignored, hardware is none of a model's, and small numbers mean what they say."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from neural_helpers import Watch, small_learner, topics  # noqa: E402
from short_text_cases import LEARNERS, MODULES, ONE, titles  # noqa: E402

from longtail import Tagger  # noqa: E402
from longtail import fit as fits  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.fit import Fit  # noqa: E402
from longtail.labels import LabelIndex  # noqa: E402
from longtail.learners.neural.base import NeuralLearner  # noqa: E402
from longtail.learners.neural.training.task import Passes, Task  # noqa: E402
from longtail.registry import build, config_of, entries  # noqa: E402
from longtail.run import Hardware, Run  # noqa: E402

PER_TEXT = {"part": "weighted-bag"}
IDLE: list[tuple[dict[str, Any], str]] = [
    ({"part": "label-attention", "hidden": 8}, "label-attention.hidden"),
    ({"part": "attentionxml", "tree": "never", "branches": 4}, "attentionxml.branches"),
    ({"part": "attentionxml", "tree": "never", "top": 4}, "attentionxml.top"),
    ({"part": "attentionxml", "tree": "never", "candidates": 4}, "attentionxml.candidates"),
    ({"part": "attentionxml", "tree": "always", "flat": 4}, "attentionxml.flat"),
    ({"part": "attentionxml", "steps": 4, "epochs": 3}, "attentionxml.epochs"),
    ({"part": "attentionxml", "steps": 4, "least_steps": 3}, "attentionxml.least_steps"),
    ({"part": "attentionxml", "average_every": 3}, "attentionxml.average_every"),
    ({"part": "attentionxml", "head": "pooled", "start": "random"}, "attentionxml.start"),
    ({"part": "attentionxml", "encoder": {"part": "bag", "train_vectors": False}, "word_rate": 0.1}, "word_rate"),
    ({"part": "attentionxml", "head": {"part": "pooled", "strength": 2.0}}, "pooled.strength"),
    ({"part": "laroberta", "word_rate": 0.1}, "laroberta.word_rate"),
    ({"part": "astec", "head": {"part": "pooled", "pooling": "first"}}, "pooled.pooling"),
    ({"part": "decaf", "start": "random"}, "decaf.start"),
    ({"part": "label-text", "gelu": True}, "label-text.gelu"),
    ({"part": "label-text", "dropout": 0.1}, "label-text.dropout"),
    ({"part": "label-text", "free": False, "start": "text"}, "label-text.start"),
    ({"part": "eclare", "traverse": 0.5, "head": "label-text"}, "eclare.traverse"),
    ({"part": "label-clusters", "negatives": 3}, "label-clusters.negatives"),
    ({"part": "inceptionxml", "shortlist": {"part": "label-clusters", "texts": True}}, "label-clusters.texts"),
    ({"part": "inceptionxml-lf", "steps": 9, "first_phase": 0.5}, "inceptionxml-lf.first_phase"),
    ({"part": "astec-modules", "rerank_epochs": 0, "hard": 5}, "astec-modules.hard"),
    ({"part": "astec-modules", "rerank_epochs": 0, "rerank_share": 0.5}, "astec-modules.rerank_share"),
    ({"part": "astec-modules", "retune_epochs": 9}, "astec-modules.retune_epochs"),
    ({"part": "astec-modules", "encoder": {**PER_TEXT, "residual": True}}, "weighted-bag.residual"),
]


@pytest.mark.parametrize(("config", "named"), IDLE, ids=[named for _, named in IDLE])
def test_an_option_without_effect_is_refused(config: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=f"{named} (counts only|has no effect)"):
        build(config)


def test_shortlists_that_do_not_go_together_are_refused() -> None:
    for name in ("attentionxml", "laroberta"):
        with pytest.raises(UsageError, match="which 'label-clusters' needs"):
            build({"part": name, "shortlist": {"part": "label-clusters", "texts": True}})
    with pytest.raises(UsageError, match="has a label tree in place of 'label-clusters'"):
        build({"part": "attentionxml", "shortlist": "label-clusters"})
    build({"part": "attentionxml", "shortlist": "label-clusters", "tree": "never"})
    with pytest.raises(UsageError, match="no use for 'label-clusters'"):
        build({"part": "astec-modules", "shortlist": "label-clusters"})


@pytest.mark.parametrize("options", [{"metric": "P@1"}, {"patience": 2}])
def test_nothing_to_check_on(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="needs documents to check on"):
        small_learner(**options).fit(topics(), run=ONE)
    small_learner(**options, valid_share=0.3).fit(topics(), run=ONE)


class TestEpochs:
    def test_of_a_task_are_its_own(self) -> None:
        learner = small_learner(epochs=7)
        assert learner.schedule_of(Task(topics(), Fit(), passes=Passes(1))).steps == 3
        assert learner.schedule_of(Task(topics(), Fit())).steps == 21
        assert small_learner(steps=5).schedule_of(Task(topics(), Fit(), passes=Passes(200))).steps == 600

    @pytest.mark.parametrize("name", ["attentionxml", "laroberta", "decaf", "astec", "inceptionxml-lf"])
    def test_are_as_many_as_asked_for(self, name: str) -> None:
        """Three steps make an epoch here, and small corpora have 300 steps where nobody asks for a number."""
        task = Task(topics(), Fit())

        def steps(**options: Any) -> int:
            encoder = {"encoder": "bilstm"} if name == "laroberta" else {}
            return cast(NeuralLearner, build({"part": name, "batch": 8, **encoder, **options})).schedule_of(task).steps

        assert len(topics()) == 24
        default = 10 if name == "laroberta" else 6
        assert steps() == 300
        for epochs in (1, default, 20):
            assert steps(epochs=epochs) == 3 * epochs, "the default's number, too, if it is asked for"
        assert steps(least_steps=1) == 3 * default
        assert steps(epochs=2, least_steps=30) == 30, "a minimum that is asked for holds"

    def test_of_every_other_training_are_as_many_as_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found: dict[str, int] = {}

        def train(learner: Any, network: Any, data: Any, task: Any, key: str = "") -> None:
            found[task.title] = learner.schedule_of(task).steps // learner.steps_per_epoch(task)

        monkeypatch.setattr(NeuralLearner, "train_on", train)
        tiny = {"encoder": PER_TEXT, "batch": 16}
        modules = {"part": "astec-modules", **tiny, "surrogate": 2, "epochs": 1, "rerank_epochs": 3}
        learner: Any = build(modules)
        learner.fit(titles(), run=ONE)
        assert found == {"Words by clusters": 2, "Training": 1, "Re-ranker": 3}
        clusters = {"part": "label-clusters", "surrogate": 2}
        learner = build({"part": "decaf", **tiny, "epochs": 1, "shortlist": clusters, "retune_epochs": 2})
        learner.fit(titles(), run=ONE)
        assert found["Training clusters"] == 2
        learner.retune(titles(), Fit(ONE))
        assert found["Second stage"] == 2

    @pytest.mark.parametrize(("share", "epochs", "phases"), [(0.01, 4, [1, 3]), (0.9, 3, [2, 1]), (0.5, 4, [2, 2])])
    def test_each_phase_has_one(
        self, share: float, epochs: int, phases: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found: list[Any] = []
        training = NeuralLearner.train_network

        def train(learner: Any, network: Any, task: Any) -> None:
            found.append(task.passes.epochs)
            training(learner, network, task)

        monkeypatch.setattr(NeuralLearner, "train_network", train)
        config = {**LEARNERS["inceptionxml-lf"], "first_phase": share, "epochs": epochs, "least_steps": 1}
        build(config).fit(titles(), run=ONE)  # type: ignore[attr-defined]
        assert found == phases

    def test_one_epoch_is_too_few_for_two(self) -> None:
        with pytest.raises(UsageError, match="needs two epochs"):
            build({"part": "inceptionxml-lf", "first_phase": 0.5, "epochs": 1})


class TestHardware:
    def test_is_no_option_of_a_learner(self) -> None:
        for entry in entries("learner"):
            names = {f.name for f in fields(entry.load())}
            assert not names & {"devices", "nodes", "precision", "logs"}, entry.name

    def test_logs_and_precision_come_from_the_run(self, tmp_path: Path) -> None:
        run = Run(threads=1, hardware=Hardware(precision="bf16-mixed", logs=str(tmp_path)))
        half = small_learner().fit(topics(), run=run)
        assert list(tmp_path.glob("Training-csv/version_0/metrics.csv"))
        full = small_learner().fit(topics(), run=ONE)
        one, other = (learner.state()["network.head.vectors.weight"] for learner in (half, full))
        assert one.tobytes() != other.tobytes()
        assert config_of(half) == config_of(full)


class Stop(Exception):  # noqa: N818
    """What cuts a run off."""


class Titles:
    """Writes down the title of each training at each step, and cuts the run off at the first one of a title."""

    def __init__(self, cut: str | None = None) -> None:
        self.cut, self.seen = cut, []

    def bar(self, title: str, total: float | None) -> Any:
        self.title = title
        return Watch(self._step)

    def _step(self, step: int) -> None:
        self.seen.append(self.title)
        if self.cut is not None and self.title.endswith(self.cut):
            raise Stop


TREE = {
    "part": "attentionxml", "encoder": {"part": "bilstm", "size": 8, "hidden": 4}, "epochs": 1, "least_steps": 4,
    "batch": 16, "tree": "always", "branches": 2, "top": 4, "candidates": 2,
}  # fmt: skip
NESTED = {
    "attentionxml, tree": (TREE, "level 3 of 3", ["level 1 of 3", "level 2 of 3"]),
    "astec-modules": (MODULES, "Re-ranker", ["Words by clusters", "Training"]),
    "decaf, clusters": (LEARNERS["decaf, clusters"], "Training", ["Training clusters"]),
    "inceptionxml-lf, clusters": (LEARNERS["inceptionxml-lf, clusters"], "Phase II", ["Phase I"]),
}


@pytest.mark.parametrize("name", NESTED)
def test_finished_networks_are_not_trained_again(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fits, "KEPT_FROM", 0)
    config, last, before = NESTED[name]

    def fit(progress: Any, checkpoints: Path | None) -> Any:
        run = Run(seed=2, threads=1, progress=progress, checkpoints=checkpoints)
        return build(config).fit(titles(), run=run).state()  # type: ignore[attr-defined]

    whole = fit(Titles(), None)
    first = Titles(cut=last)
    with pytest.raises(Stop):
        fit(first, tmp_path)
    assert all(any(title.endswith(own) for title in first.seen) for own in before)
    second = Titles()
    again = fit(second, tmp_path)
    assert not any(title.endswith(own) for title in second.seen for own in before), "they are not trained again"
    assert whole.keys() == again.keys() and all(whole[key].tobytes() == again[key].tobytes() for key in whole)


def test_the_key_of_a_checkpoint_knows_the_labels_texts(tmp_path: Path) -> None:
    corpus = titles()
    called = LabelIndex(corpus.labels.names, [f"other{n}" for n in range(12)], corpus.labels.frequency, len(corpus))
    other = replace(corpus, labels=called)
    learner: Any = build(LEARNERS["decaf"])
    fit = Fit(Run(threads=1, checkpoints=tmp_path))
    keys = {learner.key_of(Task(given, fit)) for given in (corpus, other)}
    assert len(keys) == 2
    assert learner.key_of(Task(corpus, fit)) in keys
    machine = Fit(Run(threads=1, checkpoints=tmp_path, hardware=Hardware(precision="bf16-mixed")))
    assert learner.key_of(Task(corpus, machine)) not in keys


class TestHeldOut:
    def test_no_row_that_an_augmenter_made(self) -> None:
        corpus = topics(40)
        corpus = replace(corpus, texts=[f"{text} number{row}" for row, text in enumerate(corpus.texts or [])])
        more = corpus.with_rows(
            texts=[f"made {text}" for text in corpus.texts or []],
            Y=corpus.Y,
            ids=[],
            origin=np.arange(40, dtype=np.int32),
        )
        learner = small_learner(valid_share=0.25)
        train_on, fit = learner._held_out(more, Fit(ONE))
        assert fit.valid is not None and len(fit.valid) == 10, "a share of the documents"
        assert not any(text.startswith("made") for text in fit.valid.texts or [])
        kept = set(train_on.texts or [])
        for text in fit.valid.texts or []:
            assert text not in kept and f"made {text}" not in kept, "nor is what was made of it in the training"
        assert len(train_on) == 60

    def test_a_document_of_masked_pairs_has_nothing_to_check(self) -> None:
        corpus = topics(40)
        weight = (np.arange(40) >= 20).astype(np.float32)
        _, fit = small_learner(valid_share=0.25)._held_out(replace(corpus, pair_weight=weight), Fit(ONE))
        assert fit.valid is not None
        held = {(corpus.texts or []).index(text) for text in fit.valid.texts or []}
        assert len(fit.valid) == 10 and len(fit.valid.positives().indices) == 10 and held


class TestCutTexts:
    """Targets may change only where something of a label's text is read."""

    def corpus(self) -> Any:
        corpus = topics(24)
        long = [text + " filler" * (9 if row % 2 else 0) for row, text in enumerate(corpus.texts or [])]
        return replace(corpus, texts=long)

    def test_rows_that_read_as_their_document_are_left_out(self) -> None:
        corpus = self.corpus()
        soft = sp.csr_matrix(np.minimum(corpus.Y.toarray() + 0.3, 1).astype(np.float32))
        more = corpus.with_rows(
            texts=[f"{text} called" for text in corpus.texts], Y=soft, ids=[], origin=np.arange(24, dtype=np.int32)
        )
        learner = small_learner(encoder={"part": "bilstm", "size": 8, "hidden": 4, "max_length": 8})
        learner.encoder.fit_tokeniser(more.texts, ONE)
        found = learner._without_unread(more, ONE)
        made = [text for text, new in zip(found.texts, found.made, strict=True) if new]
        assert made == [f"{text} called" for text in corpus.texts if "filler" not in text]
        assert len(found.documents) == 24

    def test_in_a_fit_of_frozen_layers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """labelmix gives rows to learners that do not open tokens."""
        seen: list[Any] = []
        training = NeuralLearner._fit_networks

        def fit(learner: Any, corpus: Any, fit: Any) -> None:
            seen.append(corpus)
            training(learner, corpus, fit)

        monkeypatch.setattr(NeuralLearner, "_fit_networks", fit)
        monkeypatch.setattr("longtail.augment.labelmix.LabelMix.expanded", lambda *given: None)
        corpus = self.corpus()
        encoder = {"part": "bilstm", "size": 8, "hidden": 4, "max_length": 8}
        config = {"part": "attentionxml", "encoder": encoder, "epochs": 1, "least_steps": 1}
        Tagger(config, augment=[{"part": "labelmix", "probability": 1.0}], threads=1).fit(corpus)
        (found,) = seen
        assert found.made is not None
        assert {text.count("filler") for text, new in zip(found.texts, found.made, strict=True) if new} == {0}
