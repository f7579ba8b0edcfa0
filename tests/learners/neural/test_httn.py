"""HTTN: prototypes, the map that frequent labels teach, the average of draws, and that rare labels are found by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from resuming import check_resumes  # noqa: E402
from short_text_cases import ONE, precision_at_1, titles  # noqa: E402

from longtail import Tagger  # noqa: E402
from longtail.corpus import Corpus  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.labels import LabelIndex  # noqa: E402
from longtail.learners.neural.httn import NEVER, averaged, learnt_map, prototypes, with_constant  # noqa: E402
from longtail.registry import build  # noqa: E402

QUICK: dict[str, Any] = {
    "part": "httn", "encoder": {"part": "bag", "size": 16}, "head": {"part": "unit-vector", "size": 12}, "rarest": 7,
    "draws": 3, "documents": 2, "epochs": 1, "least_steps": 12, "batch": 16, "warm_up": 2,
}  # fmt: skip


def uneven(seed: int = 0) -> Corpus:
    """Ten frequent labels of eight documents each, and ten rare ones of two; each has a word of its own."""
    labels = [*np.repeat(np.arange(10), 8), *np.repeat(np.arange(10, 20), 2)]
    rng = np.random.default_rng(seed)
    texts = [f"topic{label} noise{rng.integers(6)} noise{rng.integers(6)}" for label in labels]
    Y = sp.csr_matrix((np.ones(100, np.float32), labels, np.arange(101)), shape=(100, 21))
    return Corpus(labels=LabelIndex([f"label {n}" for n in range(21)]), Y=Y, texts=texts).counted()


def test_a_prototype_by_hand() -> None:
    """The direction of the mean of unit vectors; all documents of a label that has few; 0 for one without any."""
    vectors = np.array([[1, 0], [0, 1], [0.6, 0.8]], dtype=np.float32)
    of_labels = sp.csr_matrix(np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=np.float32))
    found = prototypes(of_labels, vectors, 5, np.random.default_rng(0))
    np.testing.assert_allclose(found, [[0.5**0.5, 0.5**0.5], [0.6, 0.8], [0, 0]], rtol=1e-6)
    single = {
        tuple(prototypes(of_labels, vectors, 1, np.random.default_rng(seed))[0].round(3).tolist()) for seed in range(20)
    }
    assert single == {(1.0, 0.0), (0.0, 1.0)}, "one document at a time, either of them"


def test_the_map_by_hand() -> None:
    """Separators that are a linear map of the prototypes are given back exactly, biases too."""
    made = np.array([[1, 0], [0, 1], [0.6, 0.8], [0.8, -0.6]], dtype=np.float64)
    wanted = np.stack([2 * made[:, 1], made[:, 0] - made[:, 1], 3 * made[:, 0] - 4], axis=1)
    transfer = learnt_map(iter([made, made]), wanted, 0.0)
    np.testing.assert_allclose(transfer, [[0, 1, 3], [2, -1, 0], [0, 0, -4]], atol=1e-6)
    np.testing.assert_allclose(with_constant(np.array([[-1.0, 0.0]])) @ transfer, [[0, -1, -7]], atol=1e-6)
    held = learnt_map(iter([made, made]), wanted, 100.0)
    assert np.abs(held[:2]).max() < 0.1, "held back, only the mean is left"
    np.testing.assert_allclose(held[2], wanted.mean(axis=0), atol=0.1)


def test_the_average_of_draws_by_hand() -> None:
    """Probabilities are averaged, not logits: 0.5 and 0.1 make 0.3."""
    logits = torch.tensor([[0.0, np.log(0.1 / 0.9)]])
    assert float(averaged(logits).sigmoid()[0]) == pytest.approx(0.3)
    assert float(averaged(torch.tensor([-300.0, -300.0]))) == pytest.approx(-300.0), "however small"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-20, 20), min_size=1, max_size=6))
def test_the_average_lies_between(values: list[float]) -> None:
    found = float(averaged(torch.tensor(values, dtype=torch.float64)))
    assert min(values) - 1e-6 <= found <= max(values) + 1e-6


def test_rare_labels_get_separators_that_nothing_was_trained_on() -> None:
    """From prototypes alone; a label without documents is never predicted."""
    corpus = uneven()
    learner: Any = build({**QUICK, "least_steps": 150, "rate": 0.01, "label_rate": 0.02})
    learner.fit(corpus, run=ONE)
    head = learner.network_.head
    assert (head.place >= 0).sum() == 10 and head.drawn.shape == (11, 3, 13)
    assert len(head.known.vectors.weight) == 10
    found = learner.score(corpus, 21, run=ONE)
    rare = corpus.Y.indices >= 10
    first = found.ids[:, 0] == corpus.Y.indices
    assert first[~rare].mean() > 0.9 and first[rare].mean() > 0.5
    assert found.values[found.ids == 20].max() < 1e-6 and float(head.drawn[10, 0, -1]) == NEVER
    # what is said of rare labels has no say in what frequent ones learn
    other = corpus.Y.copy()
    other.data[rare] = 0.5
    again: Any = build({**QUICK, "least_steps": 150, "rate": 0.01, "label_rate": 0.02})
    again.fit(replace(corpus, Y=other), run=ONE)
    for name in ("known.vectors.weight", "known.layer.weight"):
        assert torch.equal(head.state_dict()[name], again.network_.head.state_dict()[name])


def test_without_rare_labels_it_is_the_network_alone() -> None:
    corpus = titles()
    assert corpus.labels.frequency.min() > 0
    options = {**QUICK, "rarest": 0}
    learner: Any = build(options)
    learner.fit(corpus, run=ONE)
    other: Any = build({**options, "draws": 7, "documents": 1, "ridge": 3.0})
    other.fit(corpus, run=ONE)
    assert learner.network_.head.drawn.shape[0] == 0
    one, two = learner.score(corpus, 5, run=ONE), other.score(corpus, 5, run=ONE)
    assert one.values.tobytes() == two.values.tobytes()
    plain: Any = build({**{key: value for key, value in options.items()
                           if key not in ("rarest", "draws", "documents")}, "part": "attentionxml"})  # fmt: skip
    plain.fit(corpus, run=ONE)
    assert torch.equal(plain.network_.head.vectors.weight, learner.network_.head.known.vectors.weight)


def test_learns_and_is_kept(tmp_path: Path) -> None:
    corpus = uneven()
    tagger = Tagger({**QUICK, "least_steps": 100, "rate": 0.01, "label_rate": 0.02}, threads=1).fit(corpus)
    assert precision_at_1(tagger.learner, corpus) > 0.8
    tagger.save(tmp_path / "model")
    first, again = tagger.score(corpus, 5), Tagger.load(tmp_path / "model").score(corpus, 5)
    assert first.ids.tobytes() == again.ids.tobytes() and first.values.tobytes() == again.values.tobytes()


@pytest.mark.parametrize("change", [("head.place", 0), ("head.place", 99), ("head.place", -50)])
def test_a_place_that_is_no_labels_is_refused(change: tuple[str, int]) -> None:
    learner: Any = build(QUICK)
    learner.fit(uneven(), run=ONE)
    state = dict(learner.state())
    wrong = state["network.head.place"].copy()
    wrong[3] = change[1]
    with pytest.raises(ValueError, match="separator of its own"):
        build(QUICK).restore({**state, "network.head.place": wrong})


def test_goes_on_where_it_was_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_resumes(QUICK, uneven(), tmp_path, monkeypatch)


def test_what_does_not_go_with_it() -> None:
    with pytest.raises(UsageError, match=r"httn.rarest is 50, and no label has more documents .*: set it lower"):
        build({**QUICK, "rarest": 50}).fit(uneven(), run=ONE)  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="needs the head 'unit-vector'"):
        build({"part": "httn", "head": "pooled"})
    with pytest.raises(UsageError, match="second stage"):
        Tagger("httn", augment=["retune"])
