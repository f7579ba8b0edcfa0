"""One node of a label tree, trained by itself."""

from __future__ import annotations

from longtail.learners.linear.kernels import SolverOptions
from longtail.learners.linear.nodes import Documents, NodeTask, Separators, joined, solve_task
from longtail.learners.linear.problems import Node


def train_node(
    documents: Documents,
    node: Node,
    options: SolverOptions,
    seed: int = 1,
    *,
    all_documents: bool = False,
    sure_only: bool = False,
) -> Separators:
    """The separators of all children of the node."""
    task = NodeTask(0, 0, *node, 0, node.n_children, all_documents, sure_only, seed)
    return joined([piece.separators for piece in solve_task((documents, options), task)], documents.n_features)
