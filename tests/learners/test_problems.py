"""Blocks of children and levels of nodes are the same problems, cut in another way."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
from linear_helpers import train_node

from longtail.data.synthetic import synthetic
from longtail.learners.linear.kernels import LOGISTIC, SQUARED_HINGE, SolverOptions
from longtail.learners.linear.label_tree import Parabel
from longtail.learners.linear.nodes import Documents, LevelsTask, NodeTask, joined, solve_task
from longtail.learners.linear.problems import Node
from longtail.learners.linear.tasks import Layout, tasks_of
from longtail.learners.linear.tree import Shape
from longtail.run import Run

CORPUS = synthetic(documents=400, labels=90, words=300, words_per_document=10, seed=4).counted()
TIGHT = SolverOptions(SQUARED_HINGE, 1.0, 1e-4, 2000, 0.0)


def dense(separators, n_features):
    """(features + 1, children), biases last."""
    made = np.zeros((n_features + 1, len(separators.bias)))
    row = np.repeat(separators.features, separators.row_length)
    made[row, separators.column] = separators.weight
    made[-1] = separators.bias
    return made


def masked(corpus, share=0.2):
    weight = np.where(np.random.default_rng(3).random(corpus.Y.nnz) < share, 0, 1).astype(np.float32)
    return replace(corpus, pair_weight=weight)


@pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC])
def test_a_child_has_the_same_separator_in_a_block_of_any_width(loss):
    documents = Documents.of(masked(CORPUS))
    labels = documents.carried_labels()
    options = TIGHT._replace(loss=loss)
    whole = dense(train_node(documents, Node(labels, np.arange(len(labels), dtype=np.int32), len(labels)), options, 1),
                  documents.n_features)  # fmt: skip
    assert len(labels) > 64
    for child in (0, 31, 32, len(labels) - 1):  # by itself, its siblings in one child beside it
        order = np.concatenate([labels[[child]], np.delete(labels, child)])
        two = np.minimum(np.arange(len(labels), dtype=np.int32), 1)
        alone = dense(train_node(documents, Node(order, two, 2), options, 9), documents.n_features)
        np.testing.assert_allclose(alone[:, 0], whole[:, child], atol=5e-3)


@pytest.mark.parametrize("children", [32, 38, 45, 80])
def test_blocks_put_together_by_the_kernel_are_those_joined_from_tasks(children):
    documents = Documents.of(CORPUS)
    labels = documents.carried_labels()[:children]
    options = TIGHT._replace(max_passes=3, prune=0.05)
    node = Node(labels, np.arange(children, dtype=np.int32), children)
    apart = [
        piece.separators
        for first in range(0, children, 32)
        for piece in solve_task(
            (documents, options), NodeTask(0, 0, *node, first, min(first + 32, children), False, False, 1)
        )
    ]
    together, expected = train_node(documents, node, options), joined(apart, documents.n_features)
    for field in fields(together):
        np.testing.assert_array_equal(getattr(together, field.name), getattr(expected, field.name))
    assert (np.diff(together.features) > 0).all()


@pytest.mark.parametrize("corpus", [CORPUS, masked(CORPUS)], ids=["plain", "masked"])
def test_levels_solved_together_are_nodes_solved_apart(corpus):
    documents = Documents.of(corpus)
    (shape,) = Parabel(trees=1, max_leaf=6).shapes(documents, Run())
    tasks = list(tasks_of(0, shape, np.diff(documents.labels.start), 1, all_documents=False))
    together = [task for task in tasks if isinstance(task, LevelsTask)]
    assert any(len(task.nodes) == 7 for task in together), "three levels of halves"
    layout = Layout.of(shape)
    for task in together:
        for piece in solve_task((documents, TIGHT), task):
            targets = shape.slot_target[shape.slot_start[piece.node] : shape.slot_start[piece.node + 1]]
            sizes = layout.high[targets] - layout.low[targets]
            labels = layout.order[layout.low[piece.node] : layout.high[piece.node]]
            node = Node(labels, np.repeat(np.arange(len(targets), dtype=np.int32), sizes), len(targets))
            apart = train_node(documents, node, TIGHT, 7, sure_only=True)
            np.testing.assert_allclose(
                dense(piece.separators, documents.n_features), dense(apart, documents.n_features), atol=5e-3
            )


def test_every_child_of_every_node_is_trained_once(monkeypatch):
    monkeypatch.setattr("longtail.learners.linear.tasks.PAIRS_PER_TASK", 1)
    documents = Documents.of(CORPUS)
    # a root with 40 children, some of which are leaves with many labels
    sizes = [1] * 30 + [4] * 8 + [10, 18]
    labels = np.arange(sum(sizes), dtype=np.int32)
    starts = np.cumsum([0, 40, *sizes]).astype(np.int32)
    targets = np.concatenate([np.arange(1, 41, dtype=np.int32), labels])
    shape = Shape(np.array([0, 1, 41], np.int32), starts, targets, np.array([False] + [True] * 40))
    seen = []
    for task in tasks_of(0, shape, np.diff(documents.labels.start), 1, all_documents=False):
        assert isinstance(task, NodeTask)
        seen += [(task.node, child) for child in range(task.first, task.last)]
        below = labels if task.node == 0 else targets[starts[task.node] : starts[task.node + 1]]
        assert sorted(task.labels) == sorted(below)
    assert sorted(seen) == [(node, child) for node in range(41) for child in range(starts[node + 1] - starts[node])]


PEAK = """
import numpy as np
from longtail.data.synthetic import synthetic
from longtail.learners.linear.kernels import SQUARED_HINGE, SolverOptions
from longtail.learners.linear.nodes import Documents, NodeTask, solve_task
from longtail.learners.linear.problems import Node
from longtail.memory import peak

corpus = synthetic(documents=3000, labels=3000, words=60_000, words_per_document=20, seed=1).counted()
documents = Documents.of(corpus)
options = SolverOptions(SQUARED_HINGE, 1.0, 0.5, 3, 0.1)

def train(labels):
    node = Node(labels, np.arange(len(labels), dtype=np.int32), len(labels))
    solve_task((documents, options), NodeTask(0, 0, *node, 0, node.n_children, False, False, 1))

labels = documents.carried_labels()
train(labels[:40])  # compiles what is needed
before = peak()
train(labels)
print((peak() - before) / 1e6)
"""


def test_nothing_is_as_large_as_features_times_children():
    """A node of some 3,000 children over some 40,000 features takes 480 MB as one block."""
    done = subprocess.run([sys.executable, "-c", PEAK], check=True, capture_output=True, text=True)
    assert float(done.stdout) < 100
