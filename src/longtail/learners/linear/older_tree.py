"""Trees as models of format 2 and before keep them: a 64-bit start per row, 32 bits per feature and weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.learners.linear.nodes import Separators

_OWN = {
    "feature_start": np.int64, "features": np.int32, "row_start": np.int64, "column": np.uint16, "weight": np.float32,
}  # fmt: skip
_KEPT = {"level_start", "slot_start", "slot_target", "leaf", "bias"}


def is_older(arrays: dict[str, NDArray[Any]]) -> bool:
    return set(arrays) == _KEPT | set(_OWN)


def older_separators(arrays: dict[str, NDArray[Any]], n_features: int) -> list[Separators]:
    """The separators of each node; features and columns are checked here, all else where the tree is made of them."""
    for name, dtype in (*_OWN.items(), ("slot_start", np.int32), ("bias", np.float32)):
        if arrays[name].dtype != dtype or arrays[name].ndim != 1:
            raise ValueError(f"{name} must be a row of {np.dtype(dtype).name}")
    features, column, weight = arrays["features"], arrays["column"], arrays["weight"]
    nodes = len(arrays["leaf"])
    rows = _starts(arrays["feature_start"], nodes, len(features))
    entries = _starts(arrays["row_start"], len(features), len(weight))
    slots = _starts(arrays["slot_start"], nodes, len(arrays["bias"]))
    if len(column) != len(weight) or (len(features) and (features.min() < 0 or features.max() >= n_features)):
        raise ValueError("a feature is out of range, or columns and weights differ in number")
    found = []
    for node in range(nodes):
        own, span = slice(rows[node], rows[node + 1]), slice(entries[rows[node]], entries[rows[node + 1]])
        width = slots[node + 1] - slots[node]
        if (features[own][1:] <= features[own][:-1]).any() or (column[span] >= width).any():
            raise ValueError("features do not rise within a node, or a slot number is out of range")
        lengths = np.diff(entries[rows[node] : rows[node + 1] + 1]).astype(np.int32)
        bias = arrays["bias"][slots[node] : slots[node + 1]]
        found.append(Separators(features[own], lengths, column[span], weight[span], bias))
    return found


def _starts(starts: NDArray[Any], count: int, total: int) -> list[int]:
    if len(starts) != count + 1 or starts[0] != 0 or starts[-1] != total or (starts[1:] < starts[:-1]).any():
        raise ValueError(f"a row of starts does not rise from 0 to {total}")
    return [int(start) for start in starts]
