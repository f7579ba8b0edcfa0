"""The second stage of a neural fit: the classifier is tuned once more, and all below it stands still.

What the encoder makes of the documents is then the same at every step, and is made once: one vector per document is
kept in memory; one vector per token is kept as float16 in a file that is mapped into memory, up to `KEPT_BYTES`.
Beyond, the encoder is run again at each step, without gradients.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from longtail.augment.base import LabelVectors
from longtail.augment.hooks import Hook, TrainingPlan
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features.tokens import Tokens
from longtail.fit import Fit
from longtail.learners.neural.training.batches import Batch, KeptVectors, in_length_order, state_tensor, token_tensors
from longtail.learners.neural.training.data import TrainingData
from longtail.learners.neural.training.network import Network

if TYPE_CHECKING:
    from longtail.learners.neural.base import NeuralLearner

#: Bytes that the vectors of all tokens may take on disk.
KEPT_BYTES = 8 << 30
#: Passes over the documents where nobody asks for a number.
EPOCHS = 2


def retuned(
    learner: NeuralLearner, network: Network, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None
) -> None:
    """Tunes the network's classifier in place.

    vectors  positive examples in the classifier's space beside the corpus: each has its say once per epoch
    """
    from longtail.learners.neural.training.task import Passes, Task, texts_of

    tokens = learner.encoder.tokens(texts_of(corpus), fit.run, keep=True)
    states = learner.encoder.states(network.encoder, tokens, fit.run)
    # labels are chosen by the classifier as the first stage left it
    choice = learner.retune_choice(corpus, tokens, fit.run)
    if learner.retune_start == "anew":
        torch.manual_seed(fit.run.seed_of("classifier"))
        restarted(network, tokens, corpus, states, from_documents=learner.start == "documents")
    passes = Passes.of(learner.retune_epochs, EPOCHS, learner.least_steps)
    task = Task(corpus, fit, choice, title="Second stage", passes=passes)
    if vectors is not None and len(vectors.labels):
        task = replace(task, fit=fit.with_hooks([PositiveVectors(checked(vectors, network, corpus.n_labels))]))
    if fit.run.checkpoints is not None:
        task = replace(task, begun_with=digest(network, vectors))
    # rows of labels alone need no clipping, which would let the examples of one label move another's
    alone = {id(parameter) for parameter in network.head.rows()}
    task = replace(task, clipped=any(id(parameter) not in alone for parameter in network.head.classifier()))
    per_token = learner.encoder.capabilities.per_token
    with only_classifier(network), kept_vectors(network, tokens, states, per_token) as hidden:
        learner.train_on(network, TrainingData(tokens, choice, states, hidden=hidden), task, learner.key_of(task))


def digest(network: Network, vectors: LabelVectors | None) -> str:
    """A hash of what a second stage starts from, so that none goes on with another one's classifier."""
    state = hashlib.sha256()
    for weight in network.state_dict().values():
        state.update(np.ascontiguousarray(weight.cpu().numpy()).tobytes())
    if vectors is not None:
        state.update(vectors.labels.tobytes())
        for start in range(0, len(vectors.vectors), 4096):  # they may lie in a file
            state.update(np.ascontiguousarray(vectors.vectors[start : start + 4096]).tobytes())
        state.update(repr((vectors.weight, vectors.in_turns, vectors.source is None)).encode())
    return state.hexdigest()


@torch.no_grad()
def restarted(
    network: Network, tokens: Tokens, corpus: Corpus, states: NDArray[np.float16] | None, *, from_documents: bool
) -> None:
    """Starts the classifier anew, label queries aside, as a first stage does."""
    head = network.head
    tuned = {id(parameter) for parameter in head.classifier()}
    kept = {name: p.detach().clone() for name, p in head.named_parameters() if id(p) not in tuned}
    head.restart()
    if from_documents:
        network.start(tokens, corpus.positives(), states)
    for name, parameter in head.named_parameters():
        if name in kept:
            parameter.copy_(kept[name])


@contextmanager
def only_classifier(network: Network) -> Iterator[None]:
    """All but the classifier stands still, and drops nothing."""
    before = {name: parameter.requires_grad for name, parameter in network.named_parameters()}
    network.requires_grad_(False)
    for parameter in network.head.classifier():
        parameter.requires_grad_(True)
    network.encoder_stands_still = True
    try:
        yield
    finally:
        network.encoder_stands_still = False
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(before[name])


@contextmanager
def kept_vectors(
    network: Network, tokens: Tokens, states: NDArray[np.float16] | None, per_token: bool
) -> Iterator[KeptVectors | None]:
    """What the encoder makes of all documents, or None where that would be too much to keep."""
    width = network.encoder.width
    if not per_token:
        values: NDArray[Any] = np.empty((len(tokens), network.encoder.vectors * width), dtype=np.float32)
        _fill(values, network, tokens, states, per_token=False)
        yield KeptVectors(values, per_token=False)
    elif 2 * width * len(tokens.ids) > KEPT_BYTES:
        yield None
    else:
        with tempfile.TemporaryDirectory(prefix="longtail-") as folder:
            shape = (len(tokens.ids), width)
            values = np.memmap(Path(folder) / "vectors", dtype=np.float16, mode="w+", shape=shape)
            _fill(values, network, tokens, states, per_token=True)
            yield KeptVectors(values, per_token=True)


def _encoded(network: Network, tokens: Tokens, states: NDArray[np.float16] | None, rows: NDArray[np.int64]) -> Tensor:
    ids, mask = token_tensors(tokens, rows)
    with torch.no_grad():
        return network.encode(Batch(rows, ids, mask, ids, ids, None, state_tensor(states, tokens, rows)))


def _fill(
    values: NDArray[Any], network: Network, tokens: Tokens, states: NDArray[np.float16] | None, *, per_token: bool
) -> None:
    network.eval()
    for rows in in_length_order(tokens, 64):
        found = _encoded(network, tokens, states, rows).float().numpy()
        if not per_token:
            values[rows] = found
            continue
        for number, row in enumerate(rows):
            values[tokens.indptr[row] : tokens.indptr[row + 1]] = found[number, : tokens.lengths[row]]


def vectors_of_pairs(
    network: Network,
    tokens: Tokens,
    states: NDArray[np.float16] | None,
    documents: NDArray[np.int64],
    labels: NDArray[np.int64],
    into: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """(P, width): what the head makes of P pairs of a document and a label, without dropout.

    into  where they are to go, as wide as a context vector or as a feature; None for new float32 contexts
    """
    if "context" not in network.head.points:
        raise UsageError("context vectors need a head with label-wise attention")
    head: Any = network.head
    network.eval()
    found = np.empty((len(labels), network.encoder.width), dtype=np.float32) if into is None else into
    make = head.contexts if into is None else head.features
    order = np.argsort(documents, kind="stable")
    wanted, first = np.unique(documents[order], return_index=True)
    pairs_of = dict(zip(wanted.tolist(), np.split(order, first[1:]), strict=True))
    asked = tokens.rows(wanted)
    with torch.no_grad():
        for rows in in_length_order(asked, 64):
            pairs = [pairs_of[document] for document in wanted[rows].tolist()]
            place = np.repeat(np.arange(len(rows)), [len(own) for own in pairs])
            which = np.concatenate(pairs)
            hidden = _encoded(network, tokens, states, wanted[rows])
            mask = token_tensors(tokens, wanted[rows])[1]
            made = make(hidden, mask, torch.from_numpy(place), torch.from_numpy(labels[which]))
            found[which] = made.float().numpy()
    return found


def checked(vectors: LabelVectors, network: Network, n_labels: int) -> LabelVectors:
    """The vectors, if they fit the network's classifier."""
    if "context" not in network.head.points:
        raise UsageError("examples in the classifier's space need a head with label-wise attention")
    width = network.encoder.width
    known = [(len(vectors.labels), each) for each in sorted({width, network.head.feature_size(width)})]
    if vectors.source is None and vectors.vectors.shape not in known:
        shapes = " or ".join(map(str, known))
        raise UsageError(f"vectors of labels must have the shape {shapes}, not {vectors.vectors.shape}")
    if vectors.labels.min() < 0 or vectors.labels.max() >= n_labels:
        raise UsageError(f"vectors are of labels from 0 to {n_labels - 1}")
    return vectors


@dataclass(kw_only=True)
class PositiveVectors(Hook):
    """Examples in the classifier's space: a loss beside the batch's own, in which each label holds (LSFA, equation 19).

    Where they take turns, every other pass is over them alone, the first one over the documents.
    """

    def __init__(self, given: LabelVectors) -> None:
        self.given = given

    def begin(self, plan: TrainingPlan) -> None:
        self.documents_ = len(plan.corpus)
        self.passes_ = 0

    def epoch(self, network: Network, data: TrainingData) -> None:
        self.passes_ += 1

    def draw(self, batch: Batch, network: Network, rng: np.random.Generator, step: int) -> Batch:
        alone = self.given.in_turns and self.passes_ % 2 == 0
        # as many as the batch's share of an epoch, so that each is drawn about once in one
        count = 0 if self.given.in_turns and not alone else -(-len(self.given.labels) * len(batch) // self.documents_)
        self.drawn_ = rng.choice(len(self.given.labels), min(count, len(self.given.labels)), replace=False)
        self.vectors_ = self.given.some(self.drawn_, rng)
        return replace(batch, weights=torch.zeros_like(batch.targets)) if alone else batch

    def pairs(self, batch: Batch, network: Network, hidden: Tensor, logits: Tensor) -> tuple[Batch, Tensor, Any]:
        if not len(self.drawn_):
            return batch, logits, None
        device = logits.device
        labels = torch.from_numpy(self.given.labels[self.drawn_].astype(np.int64)).to(device)
        found = network.head.classify(torch.from_numpy(self.vectors_).to(device), labels).float()
        return batch, logits, self.given.weight * positive_loss(found) / len(batch)

    def state(self) -> dict[str, Any]:
        return {"passes": self.passes_}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.passes_ = state["passes"]


def positive_loss(logits: Tensor) -> Tensor:
    """LSFA's equation 19, to be minimised: the sum of -log sigmoid over positive examples."""
    return functional.binary_cross_entropy_with_logits(logits, torch.ones_like(logits), reduction="sum")
