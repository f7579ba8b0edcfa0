"""The second stage: the classifier is tuned again, and all below it stands still to the bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from neural_helpers import Watch, copied, same, small_learner, topics  # noqa: E402
from short_text_cases import MODULES, ONE, titles  # noqa: E402
from test_neural_masks import CASES, masked  # noqa: E402

from longtail import Tagger  # noqa: E402
from longtail.augment.base import LabelVectors  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.fit import Fit  # noqa: E402
from longtail.learners.neural import second_stage  # noqa: E402
from longtail.learners.neural.training import checkpoints  # noqa: E402
from longtail.learners.neural.training.batches import Batch, token_tensors  # noqa: E402
from longtail.registry import build  # noqa: E402
from longtail.run import Run  # noqa: E402

SHARED = {"part": "label-attention", "classifier": "shared", "hidden": 8}
RETUNED = {
    **{name: config for name, config in CASES.items() if name not in ("astec-modules", "httn")},
    "attentionxml, shared": {**CASES["attentionxml"], "head": SHARED},
    "attentionxml, pooled": {**CASES["attentionxml"], "head": "pooled"},
}
#: What belongs to the classifier, by the names of weights in the networks that are kept.
CLASSIFIER = (
    "vectors.weight",
    "head.bias.weight",
    "labels.bias.weight",
    "head.document.",
    "head.labels.document.",
    "head.inner.",
    "head.outer.",
)


def fitted(config: dict[str, Any]) -> Any:
    return build({**config, "retune_epochs": 1}).fit(titles(), run=ONE)


def tuned_names(name: str, network: Any) -> set[str]:
    own = {id(parameter) for parameter in network.head.classifier()}
    return {key for key, parameter in network.named_parameters() if id(parameter) in own}


@pytest.mark.parametrize("start", ["kept", "anew"])
@pytest.mark.parametrize("name", RETUNED)
def test_only_the_classifier_changes(name: str, start: str) -> None:
    learner = fitted({**RETUNED[name], "retune_start": start})
    assert learner.capabilities.retunes
    before, modes = copied(learner.network_), {n: p.requires_grad for n, p in learner.network_.named_parameters()}
    changed = replace(titles(), Y=titles(seed=1).Y).counted()
    learner.retune(changed, Fit(ONE))
    after = copied(learner.network_)
    differing = {key for key in before if not torch.equal(before[key], after[key])}
    assert differing == tuned_names(name, learner.network_)
    assert all(key.endswith(CLASSIFIER) or key.startswith(CLASSIFIER) for key in differing), differing
    assert not any("queries" in key or key.startswith("encoder") for key in differing)
    assert {n: p.requires_grad for n, p in learner.network_.named_parameters()} == modes
    assert not learner.network_.training and not learner.network_.encoder_stands_still
    assert np.isfinite(learner.score(titles(), 3, run=ONE).values).all()


def test_modules_have_none() -> None:
    learner = build(MODULES)
    assert not learner.capabilities.retunes
    with pytest.raises(UsageError, match="no second stage"):
        learner.retune(titles(), Fit(ONE))  # type: ignore[attr-defined]


@pytest.mark.parametrize(("start", "epochs"), [("kept", 200), ("anew", 20)])
def test_it_learns(start: str, epochs: int) -> None:
    """Labels are exchanged for others: the classifier follows."""
    corpus = topics()
    learner = small_learner(epochs=20, retune_epochs=epochs, retune_start=start, label_rate=0.05).fit(corpus, run=ONE)
    turned = replace(corpus, Y=corpus.Y[:, np.roll(np.arange(corpus.n_labels), 1)]).counted()

    def right(given: Any) -> float:
        return float((learner.score(corpus, 1, run=ONE).ids[:, 0] == given.Y.indices).mean())

    assert right(corpus) > 0.9
    assert right(turned) < 0.1
    learner.retune(turned, Fit(ONE))
    assert right(turned) > 0.9


@pytest.mark.parametrize("name", ["attentionxml", "attentionxml, tree", "decaf", "inceptionxml, clusters"])
def test_masked_pairs_have_no_effect(name: str) -> None:
    def tuned(target: float, weight: float = 0.0) -> Any:
        learner = fitted(RETUNED[name])
        learner.retune(masked(titles(seed=2), target, weight), Fit(ONE))
        return copied(learner.network_)

    one = tuned(1.0)
    assert same(one, tuned(0.25)) and not same(one, tuned(1.0, 1.0))


@pytest.mark.parametrize("head", ["label-attention", SHARED], ids=["own", "shared"])
def test_vectors_raise_their_labels_logits(head: Any) -> None:
    corpus = titles()
    rng = np.random.default_rng(0)
    learners = [fitted({**CASES["attentionxml"], "head": head, "retune_epochs": 8}) for _ in range(2)]
    width = learners[0].network_.encoder.width
    vectors = LabelVectors(np.array([3, 3, 5]), rng.normal(size=(3, width)).astype(np.float32))
    learners[0].retune(corpus, Fit(ONE), vectors)
    learners[1].retune(corpus, Fit(ONE))
    with torch.no_grad():
        given = torch.from_numpy(vectors.vectors), torch.from_numpy(vectors.labels)
        with_, without = (learner.network_.head.classify(*given) for learner in learners)
    assert (with_ > without).all()


@pytest.mark.parametrize("wrong", ["width", "label", "head"])
def test_vectors_that_do_not_fit_are_refused(wrong: str) -> None:
    learner = fitted({**CASES["attentionxml"], **({"head": "pooled"} if wrong == "head" else {})})
    width = learner.network_.encoder.width + (wrong == "width")
    vectors = LabelVectors(np.array([12 if wrong == "label" else 3]), np.zeros((1, width), dtype=np.float32))
    with pytest.raises(UsageError, match={"width": "shape", "label": "0 to 11", "head": "label-wise"}[wrong]):
        learner.retune(titles(), Fit(ONE), vectors)


def test_after_save_and_load(tmp_path: Path) -> None:
    config = {**CASES["attentionxml"], "retune_epochs": 1}
    tagger = Tagger(config, threads=1).fit(titles())
    tagger.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model", threads=1)
    for one in (tagger, again):
        one.learner.retune(titles(seed=1), Fit(ONE))
    assert same(copied(tagger.learner.network_), copied(again.learner.network_))


class Cut:
    """A progress that cuts a second stage off after so many steps."""

    def __init__(self, step: int | None) -> None:
        self.step = step

    def bar(self, title: str, total: float | None) -> Any:
        return Watch(self._after if title == "Second stage" else lambda step: None)

    def _after(self, step: int) -> None:
        if step == self.step:
            raise KeyError("cut")


def test_goes_on_only_with_the_same_classifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second stage that was cut goes on to the same end; another one, of other vectors, does not take it up."""
    monkeypatch.setattr(checkpoints, "CHECKPOINT_SECONDS", 0)
    width = fitted(CASES["attentionxml"]).network_.encoder.width
    given = [LabelVectors(np.array([n]), np.ones((1, width), dtype=np.float32)) for n in (3, 4)]

    def tuned(vectors: Any, checkpoints: Path | None, cut: int | None = None) -> Any:
        learner = fitted(CASES["attentionxml"])
        run = Run(threads=1, progress=Cut(cut), checkpoints=checkpoints)
        return copied(learner.retune(titles(seed=1), Fit(run), vectors).network_)

    whole, other = (tuned(vectors, None) for vectors in given)
    with pytest.raises(KeyError, match="cut"):
        tuned(given[0], tmp_path, cut=4)
    assert len(list(tmp_path.glob("*/*.ckpt"))) == 1
    assert same(tuned(given[1], tmp_path), other)
    assert len(list(tmp_path.glob("*/*.ckpt"))) == 1
    assert same(tuned(given[0], tmp_path), whole)
    assert not list(tmp_path.glob("*/*.ckpt"))


class TestKeptVectors:
    @pytest.mark.parametrize("name", ["attentionxml", "decaf"])
    def test_are_what_the_encoder_gives(self, name: str) -> None:
        learner = fitted(RETUNED[name])
        tokens = learner.encoder.tokens(titles().texts, ONE)
        per_token = name == "attentionxml"
        rows = np.array([4, 0, 9])
        ids, mask = token_tensors(tokens, rows)
        with second_stage.kept_vectors(learner.network_, tokens, None, per_token) as kept:
            assert kept is not None and kept.values.dtype == (np.float16 if per_token else np.float32)
            found = kept.of(tokens, rows)
        with torch.no_grad():
            given = learner.network_.encoder(Batch(rows, ids, mask, ids, ids))
        where = mask if per_token else slice(None)
        torch.testing.assert_close(found[where], given[where], rtol=2e-3, atol=2e-3)

    def test_too_many_are_made_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Which gives nearly the same: only float16 differs."""

        def tuned() -> Any:
            learner = fitted(CASES["attentionxml"])
            learner.retune(titles(seed=1), Fit(ONE))
            return copied(learner.network_)

        kept = tuned()
        monkeypatch.setattr(second_stage, "KEPT_BYTES", 10)
        made = tuned()
        assert not same(kept, made)
        assert all(torch.allclose(kept[key], made[key], atol=2e-2) for key in kept)
        names = ("head.queries.weight", "encoder.words.weight")
        assert all(torch.equal(kept[key], made[key]) for key in names)
