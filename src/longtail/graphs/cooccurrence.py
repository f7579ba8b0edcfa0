"""Which labels occur together: the graph that TailMix finds neighbours in."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.sparse import rows_of_pairs


def cooccurrence(Y: sp.csr_matrix) -> sp.csr_matrix:
    """csr float32 (L, L): documents with both labels; the diagonal is empty, for no label is its own neighbour."""
    there: sp.csr_matrix = sp.csr_matrix((np.ones(Y.nnz, dtype=np.float32), Y.indices, Y.indptr), shape=Y.shape)
    graph = sp.csr_matrix(there.T @ there)
    graph.setdiag(0)
    graph.eliminate_zeros()
    graph.sort_indices()
    return graph


def strongest(graph: sp.csr_matrix, most: int) -> NDArray[np.int32]:
    """int32 (L, K): each label's neighbours, the strongest first (ties by number), at most `most`; padded with -1."""
    L = graph.shape[0]
    row = rows_of_pairs(graph)
    order = np.lexsort((graph.indices, -graph.data, row))
    place = np.arange(len(order)) - graph.indptr[row]
    kept = place < most
    neighbours = np.full((L, int(place[kept].max(initial=-1)) + 1), -1, dtype=np.int32)
    neighbours[row[kept], place[kept]] = graph.indices[order][kept]
    return neighbours
