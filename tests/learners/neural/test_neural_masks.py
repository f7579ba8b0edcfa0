"""A pair of weight 0 is neither a positive nor a negative example: in every learner, with every shortlist."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from short_text_cases import LEARNERS, MODULES, ONE, QUICK, titles  # noqa: E402

from longtail.corpus import Corpus  # noqa: E402
from longtail.learners.neural.shortlists.base import (  # noqa: E402
    Children,
    ListedLabels,
    OwnLabels,
    SharedLabels,
)
from longtail.registry import build  # noqa: E402

ATTENTION = {
    "part": "attentionxml", "encoder": {"part": "bilstm", "size": 8, "hidden": 4}, "epochs": 1, "least_steps": 6,
    "batch": 16,
}  # fmt: skip
CONVOLUTIONS = {"part": "convolutions", "size": 8, "maps": 4, "bottleneck": 8}
GROUPS = {"groups": "always", "group_size": 3, "candidates": 2, "bottleneck": 8}
SAMPLED = {"part": "sampled-labels", "negatives": 3}
CASES: dict[str, dict[str, Any]] = {
    **LEARNERS,
    "astec-modules": MODULES,
    "astec, sampled": {**QUICK, "part": "astec", "shortlist": SAMPLED},
    "attentionxml": ATTENTION,
    "laroberta": {**ATTENTION, "part": "laroberta"},
    "xml-cnn": {**ATTENTION, "part": "xml-cnn", "encoder": CONVOLUTIONS},
    "lsan": {**ATTENTION, "part": "lsan"},
    "httn": {**ATTENTION, "part": "httn", "rarest": 5, "draws": 2, "documents": 2},
    "lightxml": {**ATTENTION, "part": "lightxml", "encoder": CONVOLUTIONS},
    "lightxml, groups": {**ATTENTION, **GROUPS, "part": "lightxml", "encoder": CONVOLUTIONS},
    "attentionxml, clusters": {
        **ATTENTION, "tree": "never", "shortlist": {"part": "label-clusters", "size": 3, "candidates": 2},
    },
    "attentionxml, sampled": {**ATTENTION, "shortlist": SAMPLED},
    "attentionxml, tree": {**ATTENTION, "tree": "always", "branches": 3, "top": 2, "candidates": 2},
}  # fmt: skip


def masked(corpus: Corpus, target: float, weight: float = 0.0) -> Corpus:
    """Every fifth pair of weight 0, with a target that must not matter; all pairs of some document are masked."""
    which = (np.arange(corpus.Y.nnz) % 5 == 1) | (np.repeat(np.arange(len(corpus)), np.diff(corpus.Y.indptr)) == 7)
    Y = corpus.Y.copy()
    Y.data[which] = target
    return replace(corpus, Y=Y, pair_weight=np.where(which, weight, 1).astype(np.float32)).counted()


@pytest.mark.parametrize("name", CASES)
def test_the_target_of_a_masked_pair_changes_nothing(name: str) -> None:
    """Neither weights nor clusters, centroids, graphs or where labels start: what is learnt is the same to the bit."""

    def learnt(target: float, weight: float) -> dict[str, Any]:
        return build(CASES[name]).fit(masked(titles(), target, weight), run=ONE).state()  # type: ignore[no-any-return, attr-defined]

    one, other, positive = learnt(1.0, 0.0), learnt(0.25, 0.0), learnt(1.0, 1.0)
    assert one.keys() == other.keys()
    assert [key for key in one if one[key].tobytes() != other[key].tobytes()] == []
    assert any(one[key].tobytes() != positive[key].tobytes() for key in one if key.startswith(("network", "level")))


def choices(Y: sp.csr_matrix, weight: Any) -> dict[str, Any]:
    cluster = np.array([0, 0, 1, 1, 2, 2], dtype=np.int32)
    parents = np.tile(np.array([[0, 1, 2]], dtype=np.int32), (3, 1))
    lists = np.tile(np.arange(6, dtype=np.int32), (3, 1))
    return {
        "all": SharedLabels(Y, weight, 0),
        "sampled": SharedLabels(Y, weight, 2),
        "children": OwnLabels(Y, weight, parents, Children.of(cluster, 3)),
        "listed": ListedLabels(Y, weight, lists, 2),
    }


@pytest.mark.parametrize("kind", ["all", "sampled", "children", "listed"])
def test_gradient_of_a_masked_pair_is_zero(kind: str) -> None:
    """Of its logit, exactly; a pair that is not stored at all is a negative, and has one."""
    Y = sp.csr_matrix(np.array([[1, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0]], dtype=np.float32))
    weight = np.array([1, 0, 0, 1, 1], dtype=np.float32)
    labels, targets, weights = choices(Y, weight)[kind].choose(np.arange(3), np.random.default_rng(0))
    assert weights is not None
    columns = np.broadcast_to(labels, targets.shape)
    logits = torch.randn(targets.shape, generator=torch.Generator().manual_seed(0), requires_grad=True)
    torch.nn.functional.binary_cross_entropy_with_logits(
        logits, torch.from_numpy(targets), torch.from_numpy(weights), reduction="sum"
    ).backward()
    assert logits.grad is not None
    for document, label, zero in ((0, 2, True), (1, 1, True), (0, 0, False), (2, 3, False), (1, 5, False)):
        (place,) = np.flatnonzero((columns[document] == label) & ((weights[document] > 0) | (targets[document] > 0)))
        assert bool(logits.grad[document, place] == 0) == zero
    if kind != "sampled":
        (place,) = np.flatnonzero((columns[2] == 2) & (weights[2] > 0))
        assert logits.grad[2, place] > 0, "the label is a negative example of others"
