"""Layers that short-text networks share: the residual block, and sums of word vectors with weights."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm


def drop(values: Tensor, share: float, training: bool) -> Tensor:
    """Dropout: about `share` of the numbers become 0, to the next 1/256, and the others grow to make up for it.

    One random byte decides about each number, which takes a third of the time of torch's own.
    """
    if not training or share == 0:
        return values
    count, kept = values.numel(), max(1, round(256 * (1 - share)))
    words = torch.empty((count + 7) // 8, dtype=torch.int64, device=values.device).random_(-(2**63), None)
    stays = words.view(torch.uint8)[:count].view(values.shape) < kept
    return values * stays.to(values.dtype).mul_(256 / kept)


class Residual(nn.Module):
    """x with a layer beside it whose spectral norm is bounded and which starts as the identity.

    after   dropout(relu(W x))   Astec's (https://arxiv.org/abs/2111.06685)
    before  W dropout(relu(x))   DECAF's (https://arxiv.org/abs/2108.00368), and with gelu InceptionXML-LF's

    With `scaled` both ways have a learnt factor, alpha and beta, which start at 1.
    """

    def __init__(
        self, width: int, dropout: float, *, before: bool = False, gelu: bool = False, scaled: bool = False
    ) -> None:
        super().__init__()
        layer = nn.Linear(width, width)
        nn.init.eye_(layer.weight)
        nn.init.zeros_(layer.bias)
        self.layer = spectral_norm(layer)
        self.dropout, self.before, self.gelu = dropout, before, gelu
        self.factors = nn.Parameter(torch.ones(2)) if scaled else None

    def forward(self, values: Tensor) -> Tensor:
        """(..., width), as the values."""
        if self.before:
            beside = self.layer(drop(self._bent(values), self.dropout, self.training))
        else:
            beside = drop(self._bent(self.layer(values)), self.dropout, self.training)
        if self.factors is None:
            return values + beside
        return self.factors[0] * beside + self.factors[1] * values

    def _bent(self, values: Tensor) -> Tensor:
        return functional.gelu(values) if self.gelu else functional.relu(values)


class WordSums(nn.Module):
    """Rows of a sparse matrix (rows, V) times the word vectors (V, D), for the rows asked for.

    The matrix is data, not weights: it is in no state dict, and every process has the same.
    """

    def __init__(self, matrix: sp.csr_matrix) -> None:
        super().__init__()
        self.start: NDArray[np.int64] = matrix.indptr.astype(np.int64)
        self.word: NDArray[np.int64] = matrix.indices.astype(np.int64)
        self.weight: NDArray[np.float32] = matrix.data.astype(np.float32)

    def forward(self, rows: NDArray[np.int64], words: nn.Embedding) -> Tensor:
        """(len(rows), D). Each word is looked up once, so that its gradient has one row however often it is there."""
        starts = self.start[rows]
        lengths = self.start[rows + 1] - starts
        ends = np.cumsum(lengths)
        entries = np.arange(int(lengths.sum())) + np.repeat(starts - (ends - lengths), lengths)
        found, places = np.unique(self.word[entries], return_inverse=True)
        device = words.weight.device
        if not len(found):
            return torch.zeros(len(rows), words.embedding_dim, device=device)
        return functional.embedding_bag(
            torch.from_numpy(places).to(device),
            self._vectors(found, words),
            torch.from_numpy(ends - lengths).to(device),
            mode="sum",
            per_sample_weights=torch.from_numpy(self.weight[entries]).to(device),
        )

    def _vectors(self, found: NDArray[np.int64], words: nn.Embedding) -> Tensor:
        return words(torch.from_numpy(found).to(words.weight.device))


class NeighbourSums(WordSums):
    """Rows of a graph times the word sums of its nodes, (graph @ texts) @ words without the product of the two."""

    def __init__(self, graph: sp.csr_matrix, texts: WordSums) -> None:
        super().__init__(graph)
        self.texts = texts

    def _vectors(self, found: NDArray[np.int64], words: nn.Embedding) -> Tensor:
        return self.texts(found, words)


def neighbour_sums(graph: sp.csr_matrix, texts: sp.csr_matrix) -> WordSums:
    """Word sums of graph @ texts, by that product where it is short and in two goes where it is long."""
    product = sp.csr_matrix(graph @ texts)
    return WordSums(product) if product.nnz <= 2 * (graph.nnz + texts.nnz) else NeighbourSums(graph, WordSums(texts))
