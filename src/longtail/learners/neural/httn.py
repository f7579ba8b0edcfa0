"""HTTN (https://ojs.aaai.org/index.php/AAAI/article/view/17660): what separates rare labels is told by frequent ones.

    I    a network learns the frequent labels alone, from the documents that have any
    II   a label's prototype is the direction of the mean of a few of its documents' vectors, drawn at random, several
         times over; a linear map from the prototypes of frequent labels to their separators is learnt, by least squares
    III  the map gives rare labels their separators, one per draw, and the probabilities of the draws are averaged

It is a learner and no augmenter of a second stage: that stage tunes the classifier of a network that has seen all
labels, and here nothing is ever trained on a rare label.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from longtail.augment.base import LabelVectors
from longtail.augment.hooks import NONE, Hooks
from longtail.capabilities import Capabilities
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features.tokens import Tokens
from longtail.fit import Fit
from longtail.learners.neural.base import NeuralLearner
from longtail.learners.neural.encoders.base import Encoder
from longtail.learners.neural.heads.base import Head
from longtail.learners.neural.heads.network import HeadNetwork
from longtail.learners.neural.heads.unit_vector import UnitVector, UnitVectorNetwork
from longtail.learners.neural.memory import network_stages, token_stage
from longtail.learners.neural.shortlists.base import Shortlist
from longtail.learners.neural.shortlists.shared import AllLabels, SampledLabels
from longtail.learners.neural.training.batches import Batch, in_length_order, state_tensor, token_tensors
from longtail.learners.neural.training.network import Network
from longtail.learners.neural.training.task import Task, texts_of
from longtail.learners.neural.training.weights import filled
from longtail.part import Arrays, option
from longtail.plan import Sizes, Stage
from longtail.registry import name_of
from longtail.run import Run

#: Logit of a label without documents, of which nothing is known.
NEVER = -30.0
#: Separators of rare labels that documents are multiplied with at once.
BLOCK = 1 << 14


@dataclass(kw_only=True)
class HTTN(NeuralLearner):
    head: Any = option("unit-vector", "what turns those into one score per label: unit-vector")
    rarest: int = option(
        2, "labels with at most this many documents are rare, and get their separators from the map (measured)", low=0
    )
    draws: int = option(10, "prototypes per label, each of other documents (HTTN: 30)", low=1, high=1000)
    documents: int = option(5, "documents per prototype, all where a label has fewer (HTTN: 5)", low=1, high=100_000)
    ridge: float = option(0.1, "how far the map's numbers are held back (HTTN: few epochs instead)", low=0, high=1e6)

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, retunes=False)

    def _check_parts(self, encoder: Encoder, head: Head, shortlist: Shortlist) -> None:
        super()._check_parts(encoder, head, shortlist)
        if not isinstance(head, UnitVector):
            raise UsageError(f"'httn' needs the head 'unit-vector', not '{name_of(head)}'")
        if not isinstance(shortlist, AllLabels | SampledLabels):
            raise UsageError(f"'httn' needs the shortlist 'sampled-labels' or 'all-labels', not '{name_of(shortlist)}'")
        for name in ("retune_start", "retune_epochs"):
            self._refuse_idle(name, "there is a second stage, which httn has not")

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """The network of the frequent labels, then all documents' vectors and the separators of rare labels."""
        frequent = sizes.frequency > self.rarest
        known = replace(sizes, labels=max(1, int(frequent.sum())), frequency=sizes.frequency[frequent])
        size = self.head.size
        kept = 4 * int((~frequent).sum()) * self.draws * (size + 1)
        room = 4 * size * (2 * sizes.documents + 3 * sizes.labels) + 16 * sizes.pairs
        stages = [token_stage(self, sizes), *network_stages(self, known)]
        return [*stages, Stage("prototypes", stages[-1].seconds / 6, room + kept, kept)]

    def retune(self, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None) -> Self:
        raise UsageError("'httn' has no second stage")

    # fitting
    def _fit_networks(self, corpus: Corpus, fit: Fit) -> None:
        Y = corpus.documents_only().positives()
        counts = np.bincount(Y.indices, minlength=corpus.n_labels)
        frequent = np.flatnonzero(counts > self.rarest)
        if not len(frequent):
            raise UsageError(
                f"httn.rarest is {self.rarest}, and no label has more documents (at most {counts.max(initial=0)}): "
                "set it lower, or take another learner"
            )
        network = self.new_network(len(frequent), fit.run)
        self.train_network(network, self._head_task(corpus, frequent, fit))
        place = np.full(corpus.n_labels, -1, dtype=np.int64)
        place[frequent] = np.arange(len(frequent))
        rare = np.flatnonzero(place < 0)
        place[rare] = -1 - np.arange(len(rare))
        with fit.run.stage("prototypes"):
            drawn = self._transferred(network, corpus, Y, frequent, rare, fit.run)
        head = TransferredNetwork(network.head, len(rare), self.draws, corpus.n_labels)
        head.place.copy_(torch.from_numpy(place))
        head.drawn.copy_(torch.from_numpy(drawn))
        self.network_ = Network(network.encoder, head).eval()

    def _head_task(self, corpus: Corpus, frequent: NDArray[np.int64], fit: Fit) -> Task:
        """Documents that have a frequent label, with those labels alone."""
        known = corpus.columns(frequent)
        known = known.rows(np.flatnonzero(np.diff(known.positives().indptr)))
        valid = fit.valid and fit.valid.columns(frequent)
        fit = fit.with_valid(valid if valid is not None and valid.Y.nnz else None)
        return Task(known, fit, self.shortlist.choice(known), title="Frequent labels", nested=True)

    def _transferred(
        self, network: Network, corpus: Corpus, Y: sp.csr_matrix, frequent: Any, rare: Any, run: Run
    ) -> NDArray[np.float32]:
        """float32 (rare labels, draws, size + 1): separators and, behind each, its bias."""
        head: Any = network.head
        tokens = self.encoder.tokens(texts_of(corpus), run, keep=True).rows(corpus.documents)
        vectors = document_vectors(network, tokens, self.encoder.states(network.encoder, tokens, run))
        # in pairs (label, document), so that both kinds of label come from the same draws
        of_labels = sp.csr_matrix(Y.T)
        wanted = np.concatenate([head.vectors.weight.detach().numpy(), head.bias.weight.detach().numpy()], axis=1)

        def made(draw: int) -> NDArray[np.float64]:
            return prototypes(of_labels, vectors, self.documents, run.rng(f"prototypes/{draw}"))

        # made twice, for those of all draws together are many
        transfer = learnt_map((made(draw)[frequent] for draw in range(self.draws)), wanted, self.ridge)
        drawn = np.empty((len(rare), self.draws, wanted.shape[1]), dtype=np.float32)
        for draw in range(self.draws):
            drawn[:, draw] = with_constant(made(draw)[rare]) @ transfer
        drawn[np.diff(of_labels.indptr)[rare] == 0] = [*[0.0] * (wanted.shape[1] - 1), NEVER]
        return drawn

    # keeping
    def _restored_network(self, n_labels: int, arrays: Arrays) -> Network:
        place, drawn = np.asarray(arrays["head.place"]), np.asarray(arrays["head.drawn"])
        if place.shape != (n_labels,) or place.dtype != np.int64 or drawn.ndim != 3:
            raise ValueError("not every label is frequent or rare")
        ranks = [np.sort(place[place >= 0]), np.sort(-1 - place[place < 0])]
        if len(ranks[1]) != len(drawn) or any((rank != np.arange(len(rank))).any() for rank in ranks):
            raise ValueError("not every label has a separator of its own")

        def empty() -> Network:
            encoder = self.encoder.network()
            known = self.head.network(encoder.width, encoder.word_width, len(ranks[0]))
            return Network(encoder, TransferredNetwork(known, len(ranks[1]), self.draws, n_labels))

        return filled(empty, n_labels, arrays)


def prototypes(
    of_labels: sp.csr_matrix, vectors: NDArray[np.float32], count: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """float64 (L, size): the direction of the mean of `count` documents' vectors per label, drawn from those it has."""
    lengths = np.diff(of_labels.indptr)
    label = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((rng.random(of_labels.nnz), label))
    chosen = order[np.arange(of_labels.nnz) - np.repeat(of_labels.indptr[:-1], lengths) < count]
    ones = np.ones(len(chosen), dtype=np.float32)
    sums = sp.csr_matrix((ones, (label[chosen], of_labels.indices[chosen])), shape=of_labels.shape) @ vectors
    made: NDArray[np.float64] = sums.astype(np.float64)
    return made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)


def with_constant(made: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([made, np.ones((len(made), 1))], axis=1)


def learnt_map(drawn: Iterator[NDArray[np.float64]], wanted: NDArray[np.floating], ridge: float) -> NDArray[np.float64]:
    """float64 (size + 1, size + 1): from prototypes and a constant to separators and bias, by least squares.

    drawn   prototypes (H, size), one array per draw
    wanted  separators and bias (H, size + 1)
    """
    square: NDArray[np.float64] = np.zeros((wanted.shape[1], wanted.shape[1]))
    product, count = np.zeros_like(square), 0
    for each in drawn:
        given = with_constant(each)
        square += given.T @ given
        product += given.T @ wanted
        count += 1
    held: NDArray[np.float64] = np.full(wanted.shape[1], ridge * count, dtype=np.float64)
    held[-1] = 1e-9 * count  # the constant is free
    return np.asarray(np.linalg.solve(square + np.diag(held + 1e-9), product), dtype=np.float64)


@torch.no_grad()
def document_vectors(network: Network, tokens: Tokens, states: NDArray[np.float16] | None) -> NDArray[np.float32]:
    """float32 (n, size): what the head makes of each document."""
    head: Any = network.head
    network.eval()
    found = np.empty((len(tokens), head.vectors.embedding_dim), dtype=np.float32)
    for rows in in_length_order(tokens, 64):
        ids, mask = token_tensors(tokens, rows)
        hidden = network.encode(Batch(rows, ids, mask, ids, ids, None, state_tensor(states, tokens, rows)))
        found[rows] = head.documents(hidden, mask).numpy()
    return found


class TransferredNetwork(HeadNetwork):
    """A head that knows the frequent labels, and separators that were made for the others; it is not trained.

    place  (L,): the number of a frequent label, or -1 - that of a rare one
    drawn  (rare labels, draws, size + 1)
    """

    place: Tensor
    drawn: Tensor

    def __init__(self, known: HeadNetwork, rare: int, draws: int, n_labels: int) -> None:
        super().__init__()
        assert isinstance(known, UnitVectorNetwork)
        self.known = known
        self.register_buffer("place", torch.zeros(n_labels, dtype=torch.int64))
        self.register_buffer("drawn", torch.zeros(rare, draws, known.vectors.embedding_dim + 1))

    def rows(self) -> list[Tensor]:
        return self.known.rows()

    def classifier(self) -> list[Tensor]:
        return self.known.classifier()

    def restart(self) -> None:
        raise AssertionError("separators of rare labels are made, not trained")

    def forward(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks = NONE) -> Tensor:
        if labels.ndim == 2:
            found, places = torch.unique(labels, return_inverse=True)
            return self.forward(hidden, mask, found, hooks).gather(1, places)
        place = self.place[labels]
        logits = hidden.new_empty(len(hidden), len(labels))
        frequent = place >= 0
        logits[:, frequent] = self.known(hidden, mask, place[frequent]).to(logits.dtype)
        documents = self.known.scale * self.known.documents(hidden, mask)
        at_once = max(1, BLOCK // max(1, self.drawn.shape[1]))
        for columns in torch.split((~frequent).nonzero()[:, 0], at_once):
            separators = self.drawn[-1 - place[columns]]
            products = torch.tensordot(documents, separators[..., :-1], dims=([1], [2])) + separators[..., -1]
            logits[:, columns] = averaged(products).to(logits.dtype)
        return logits


def averaged(logits: Tensor) -> Tensor:
    """(...): the logit of the mean of probabilities, given as logits (..., draws)."""
    share = math.log(logits.shape[-1])
    yes, no = (functional.logsigmoid(each).logsumexp(dim=-1) - share for each in (logits, -logits))
    return yes - no
