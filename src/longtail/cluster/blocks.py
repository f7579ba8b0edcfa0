"""How work on rows is shared out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


def even_blocks(work: NDArray[np.integer], count: int) -> list[tuple[int, int]]:
    """Consecutive ranges of about equal work; they depend on the data only, never on the number of threads.

    work  int (n + 1,), the work that lies before each row, and all of it
    """
    cuts = np.searchsorted(work, np.linspace(0, work[-1], count + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], cuts, [len(work) - 1]]))
    return [(int(a), int(b)) for a, b in pairwise(edges)]
