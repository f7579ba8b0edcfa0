"""LabelMix (in the paper of Gandalf): a document and the text of one of its labels, together, have the same labels.

With probability 0.4 a document (x, y) is joined with the text Z_j of a label j drawn among its own, with probabilities
proportional to y_j r_j, r_j = n_j^(0.45 - 1) for a label of n_j documents:

    x <- x Z_j          y <- min(1, y + s_j)          s_j the soft annotations of label j, as in Gandalf

Drawn labels are then spread as n^0.45, as the paper's source of r has it. Learners that read features get the joined
documents as rows beside the plain ones; networks that read texts see them in place of the plain ones, drawn anew
each time (`LabelMixTokens`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.augment.gandalf import GraphAugmenter
from longtail.augment.hooks import Hook, TrainingPlan
from longtail.capabilities import Capabilities
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features.tokens import PAD, Tokens
from longtail.part import Part, option
from longtail.plan import Sizes, Stage
from longtail.registry import name_of
from longtail.run import Run
from longtail.sparse import pair_keys, rows_of_pairs

if TYPE_CHECKING:
    from longtail.learners.neural.training.batches import Batch
    from longtail.learners.neural.training.network import Network

Longs = NDArray[np.int64]


@dataclass(kw_only=True)
class _Joining(GraphAugmenter):
    """What both kinds share: which documents are joined with which label."""

    probability: float = option(0.4, "probability that a document is joined with a label's text (paper)", low=0, high=1)
    power: float = option(-0.55, "a label of n documents is drawn with weight n^power (paper, read so: 0.45 - 1)",
                          low=-10, high=10)  # fmt: skip

    def draw_labels(
        self,
        document: Longs,
        label: Longs,
        target: NDArray[np.floating],
        count: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> tuple[Longs, Longs]:
        """Documents to be joined, rising, and the label of each; from all pairs (document, label) with their targets.

        The largest of (log of the weight + Gumbel noise) is a draw with probabilities proportional to the weights.
        """
        weight = np.log(target) + self.power * np.log(np.maximum(count[label], 1))
        order = np.lexsort((-(weight + rng.gumbel(size=len(label))), document))
        document, label = document[order], label[order]
        first = np.diff(document, prepend=-1) > 0
        document, label = document[first], label[first]
        joined = rng.random(len(document)) < self.probability
        return document[joined], label[joined]


@dataclass(kw_only=True)
class LabelMix(_Joining):
    """Joined documents as rows behind the plain ones."""

    space: ClassVar[str] = "texts"

    def expanded(self, learner: Part) -> tuple[Any, list[Any]] | None:
        can = learner.capabilities
        if "tokens" in can.spaces and can.needs == ("texts",):
            return learner, [LabelMixTokens(**self.get_params())]
        return None

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        added = self.planned(sizes).texts_bytes - sizes.texts_bytes + 150 * sizes.documents
        return [self.graph_stage(sizes), Stage("augment", sizes.documents / 1e5, 2 * added, added)]

    def planned(self, sizes: Sizes) -> Sizes:
        rows = int(self.probability * sizes.documents)
        characters = sizes.characters + sizes.label_characters * rows // max(1, sizes.labels)
        return sizes.with_documents(rows, int(self.probability * characters), 3 * sizes.pairs, sizes.sample)

    def apply(self, corpus: Corpus, run: Run) -> Corpus:
        texts = self.texts_of(corpus)
        Y, labels = corpus.documents_only().positives(), corpus.labels
        labels = labels if labels.documents else corpus.counted().labels
        with run.stage("label graph"):
            soft = self.annotations(Y, run.seed_of("label graph"), run)
        document = corpus.documents[rows_of_pairs(Y)]
        label = Y.indices.astype(np.int64)
        row, drawn = self.draw_labels(document, label, Y.data, labels.frequency, run.rng("labelmix"))
        targets, weights = joined_targets(corpus, row, soft[drawn])
        return corpus.with_rows(
            texts=[f"{texts[d]} {labels.text(j)}" for d, j in zip(row, drawn, strict=True)],
            Y=targets,
            ids=[f"labelmix/{corpus.ids[d]}" for d in row] if corpus.ids is not None else [],
            pair_weight=weights,
            reciprocal=None if corpus.reciprocal is None else corpus.reciprocal[row],
            origin=corpus.origins()[row],
        )


def joined_targets(
    corpus: Corpus, rows: Longs, soft: sp.csr_matrix
) -> tuple[sp.csr_matrix, NDArray[np.float32] | None]:
    """csr (P, L): min(1, targets of these documents + soft), and the weights of the pairs; 1 for new ones."""
    own = corpus.rows(rows)
    total: sp.csr_matrix = sp.csr_matrix(own.Y + soft)
    np.minimum(total.data, 1, out=total.data)
    if own.pair_weight is None:
        return total, None
    weights = np.ones(total.nnz, dtype=np.float32)
    weights[np.searchsorted(pair_keys(total), pair_keys(own.Y))] = own.pair_weight
    return total, weights


@dataclass(kw_only=True)
class LabelMixTokens(_Joining, Hook):
    """Joins documents of a batch with label texts while a network is trained."""

    space: ClassVar[str] = "tokens"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(spaces=(self.space,), lengthens=True)

    def begin(self, plan: TrainingPlan) -> None:
        self.texts_ = plan.label_tokens
        if plan.label_tokens is None:
            return
        corpus = plan.corpus
        self.length_ = plan.max_tokens
        self.count_ = corpus.labels.frequency
        self.is_document_ = np.isin(np.arange(len(corpus)), corpus.documents)
        # a fit that goes on from a checkpoint must find the same graph, so a drawn one does not follow from the run
        self.soft_ = self.annotations(corpus.documents_only().positives(), 0, plan.run.on_one_thread())

    def draw(self, batch: Batch, network: Network, rng: np.random.Generator, step: int) -> Batch:
        import torch

        if self.texts_ is None:
            return batch
        if batch.states is not None:
            raise UsageError(
                f"'{name_of(self)}' changes the words of documents, but frozen layers have read them already: "
                "set transformer.frozen = 0"
            )
        positive = batch.targets > 0
        if batch.weights is not None:  # a pair of weight 0 is no example of anything
            positive &= batch.weights > 0
        positive &= torch.from_numpy(self.is_document_[batch.rows]).to(positive.device)[:, None]
        document, column = np.nonzero(positive.cpu().numpy())
        labels, targets = batch.labels.cpu().numpy(), batch.targets.cpu().numpy()
        label = labels[column] if batch.shared else labels[document, column]
        row, drawn = self.draw_labels(document, label, targets[document, column], self.count_, rng)
        if not len(row):
            return batch
        special = getattr(network.encoder, "special_tokens", 0)
        lengths = batch.mask.sum(dim=1).cpu().numpy()
        # where nothing of the label's text is read, nothing may tell of the label's neighbours either
        read = tokens_added(lengths, row, drawn, self.texts_, self.length_, special) > 0
        row, drawn = row[read], drawn[read]
        if not len(row):
            return batch
        tokens, mask = joined_tokens(
            batch.tokens.cpu().numpy(), lengths, row, drawn, self.texts_, self.length_, special
        )
        device = batch.tokens.device
        batch = replace(batch, tokens=torch.from_numpy(tokens).to(device), mask=torch.from_numpy(mask).to(device))
        return annotated(batch, row, self.soft_[drawn])


def tokens_added(lengths: Longs, row: Longs, label: Longs, texts: Tokens, length: int, special: int) -> Longs:
    """int64 (P,): tokens of each label's text that fit behind the words of its document."""
    return np.clip(length - lengths[row], 0, np.maximum(texts.lengths[label] - 2 * special, 0))


def joined_tokens(
    tokens: Longs, lengths: Longs, row: Longs, label: Longs, texts: Tokens, length: int, special: int
) -> tuple[Longs, NDArray[np.bool_]]:
    """int64 (B, T): the tokens with those of labels behind the words of some documents, and where there are any.

    tokens   int64 (B, T), with lengths (B,) tokens of each document
    row      int64 (P,), the documents that get the tokens of `label` (P,)
    length   of a joined document, at most
    special  tokens at either end of a text that are no words: the document's own stay there, the label's are left out
    """
    begin, more = np.zeros_like(lengths), np.zeros_like(lengths)
    begin[row] = texts.indptr[label] + special
    more[row] = tokens_added(lengths, row, label, texts, length, special)
    place = np.arange(int((lengths + more).max(initial=1)))[None, :]
    words = (lengths - special)[:, None]  # where a document's words end and the label's begin
    behind = place - words
    own = np.where(behind < 0, place, place - more[:, None])
    from_document = np.take_along_axis(tokens, np.clip(own, 0, tokens.shape[1] - 1), axis=1)
    from_label = texts.ids[np.clip(begin[:, None] + behind, 0, len(texts.ids) - 1)]
    joined = np.where((behind >= 0) & (behind < more[:, None]), from_label, from_document)
    mask = place < (lengths + more)[:, None]
    return np.where(mask, joined, PAD), mask


def annotated(batch: Batch, row: Longs, soft: sp.csr_matrix) -> Batch:
    """The batch with soft annotations (P, L) added to the targets of some documents (P,), up to 1.

    Labels that a shared list lacks are put into it; a document's own list stays as it is.
    """
    import torch

    document = row[rows_of_pairs(soft)]
    label, value = soft.indices.astype(np.int64), soft.data
    labels, targets = batch.labels.cpu().numpy(), batch.targets.cpu().numpy().copy()
    weights = None if batch.weights is None else batch.weights.cpu().numpy()
    if batch.shared:
        every = np.union1d(labels, label)
        if len(every) > len(labels):
            before = np.searchsorted(every, labels)
            targets = _wider(targets, before, len(every), 0.0)
            weights = None if weights is None else _wider(weights, before, len(every), 1.0)
        labels, column = every, np.searchsorted(every, label)
    else:
        document, column, value = _listed(labels, targets, weights, document, label, value)
    targets[document, column] = np.minimum(targets[document, column] + value, 1)

    def tensor(array: Any, like: Any) -> Any:
        return torch.from_numpy(array).to(like)

    return replace(
        batch,
        labels=tensor(labels, batch.labels),
        targets=tensor(targets, batch.targets),
        weights=None if weights is None or batch.weights is None else tensor(weights, batch.weights),
    )


def _wider(values: NDArray[Any], columns: Longs, width: int, fill: float) -> NDArray[Any]:
    """(B, width): values (B, S) at some columns, and a number elsewhere."""
    found = np.full((len(values), width), fill, dtype=values.dtype)
    found[:, columns] = values
    return found


def _listed(
    labels: Longs,
    targets: NDArray[Any],
    weights: NDArray[Any] | None,
    document: Longs,
    label: Longs,
    value: NDArray[np.float32],
) -> tuple[Longs, Longs, NDArray[np.float32]]:
    """The pairs whose label is in its document's own list (B, S), with the column where it stands.

    Lists are filled up with pairs of target and weight 0, which are in no list.
    """
    # sorted rows laid end to end rise, so one search finds every pair
    width = int(max(labels.max(initial=0), label.max(initial=0))) + 1
    flat = (labels + np.arange(len(labels))[:, None] * width).ravel()
    wanted = label + document * width
    at = np.minimum(np.searchsorted(flat, wanted), len(flat) - 1)
    there = flat[at] == wanted
    if weights is not None:
        there &= (weights.ravel()[at] > 0) | (targets.ravel()[at] > 0)
    return document[there], at[there] % labels.shape[1], value[there]
