"""TailMix (https://openreview.net/forum?id=cKTBRHIVjy9): mixup of the context vectors of rare labels.

For a document i and one of its labels l, drawn with the softmax of inverse propensities, the nearest of l's
neighbours t in the graph of labels that occur together (by the distance of context vectors of the same document) is
mixed in:

    c_il <- lambda c_il + (1 - lambda) c_it          y_il <- lambda          y_it <- 1 - lambda

with lambda from Beta(alpha, alpha). Only the drawn pairs are computed anew; all other logits stay as they are. A pair
with lambda = 1 is the pair itself and is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from longtail.augment.hooks import ContextHead, Hook, TrainingPlan
from longtail.errors import UsageError
from longtail.graphs.cooccurrence import cooccurrence, strongest
from longtail.part import option

if TYPE_CHECKING:
    from torch import Tensor

    from longtail.learners.neural.training.batches import Batch
    from longtail.learners.neural.training.network import Network

#: What happens to the target of the neighbour that is mixed in.
RULES = ("literal", "max", "exclude")


@dataclass(eq=False)
class Targets:
    """The pairs drawn for one step, at most one per document.

    document  int64 (P,), rows of the batch, rising
    label     int64 (P,)
    lam       float32 (P,)
    choice    float32 (P,), in [0, 1): which neighbour is taken where that is left to chance
    """

    document: NDArray[np.int64]
    label: NDArray[np.int64]
    lam: NDArray[np.float32]
    choice: NDArray[np.float32]


@dataclass(kw_only=True)
class TailMix(Hook):
    space: ClassVar[str] = "context"

    alpha: float = option(0.4, "lambda is drawn from Beta(alpha, alpha) (paper: 0.2 to 0.6)", low=0.01, high=1000)
    most: int = option(1, "maximum number of labels per document that are mixed in one step (M; not in the paper)",
                       low=1, high=1000)  # fmt: skip
    temperature: float = option(1.0, "softness of the draw of labels: 1 is nearly always the rarest (paper)",
                                low=1e-3, high=1e6)  # fmt: skip
    rule: str = option(
        "exclude",
        "target of the neighbour: literal (overwritten, paper), max (never lowered), exclude (positives are not taken)",
        choices=RULES,
    )
    folded: bool = option(
        True, "lambda or 1 - lambda, whichever is larger: the label stays the larger part (paper: no)"
    )
    rarest: int | None = option(20, "only labels with up to this many documents are mixed (paper: all)", low=1)
    warm_up: float = option(0.0, "share of the training before mixing begins (paper: none)", low=0, high=1)
    neighbours: int = option(
        32, "neighbours to choose from, those that occur together most often (paper: all)", low=1, high=1_000_000
    )
    similar: bool = option(True, "the nearest neighbour by context vectors; if not, any (paper's ablation)")
    graph: bool = option(True, "neighbours in the graph; if not, all labels of the loss (paper's ablation)")
    fixed: float | None = option(None, "lambda fixed at this value, none: drawn", low=0, high=1)

    def begin(self, plan: TrainingPlan) -> None:
        labels = plan.corpus.labels
        self.weight_ = labels.inverse_propensity() / self.temperature
        count = labels.frequency
        self.allowed_ = np.ones(len(count), dtype=bool) if self.rarest is None else count <= self.rarest
        self.neighbours_ = strongest(cooccurrence(plan.corpus.positives()), self.neighbours)
        self.start_ = int(self.warm_up * plan.steps)
        self.drawn_: list[Targets] = []
        self.statistics_ = Statistics(count)

    def state(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self.statistics_).items() if name != "count"}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.statistics_ = Statistics(self.statistics_.count, **state)

    # drawing
    def draw(self, batch: Batch, network: Network, rng: np.random.Generator, step: int) -> Batch:
        if "context" not in network.head.points:
            raise UsageError("'tailmix' needs context vectors: a head with label-wise attention")
        self.drawn_ = []
        if step >= self.start_:
            positive = batch.targets > 0
            if batch.weights is not None:  # a pair of weight 0 is no example of anything
                positive &= batch.weights > 0
            labels = batch.labels.cpu().numpy()
            document, column = np.nonzero(positive.cpu().numpy())
            label = labels[column] if labels.ndim == 1 else labels[document, column]
            there = self.allowed_[label]
            self.drawn_ = self.draw_targets(document[there], label[there], rng)
        return batch

    def draw_targets(
        self, document: NDArray[np.int64], label: NDArray[np.int64], rng: np.random.Generator
    ) -> list[Targets]:
        """min(M, |L_i|) labels of each document without replacement: the m-th of every document together.

        The largest of (weight + Gumbel noise) are a draw without replacement from the softmax of the weights.
        """
        key = self.weight_[label] + rng.gumbel(size=len(label))
        order = np.lexsort((-key, document))
        document, label = document[order], label[order]
        place = np.arange(len(document)) - np.searchsorted(document, document)
        lam = rng.beta(self.alpha, self.alpha, size=len(document)).astype(np.float32)
        if self.folded:
            lam = np.maximum(lam, 1 - lam)
        if self.fixed is not None:
            lam = np.full_like(lam, self.fixed)
        choice = rng.random(len(document), dtype=np.float32)
        chosen = (place[:, None] == np.arange(self.most)) & (lam < 1)[:, None]
        return [Targets(document[mth], label[mth], lam[mth], choice[mth]) for mth in chosen.T if mth.any()]

    # applying
    def pairs(self, batch: Batch, network: Network, hidden: Tensor, logits: Tensor) -> tuple[Batch, Tensor, Any]:
        head: Any = network.head
        targets, extra = batch.targets.clone(), None
        for drawn in self.drawn_:
            batch = replace(batch, targets=targets)
            logits, more = self._mix(drawn, batch, targets, head, hidden, logits)
            if more is not None:
                extra = more if extra is None else extra + more
        return replace(batch, targets=targets), logits, extra

    def _mix(
        self, drawn: Targets, batch: Batch, targets: Tensor, head: ContextHead, hidden: Tensor, logits: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Mixes one pair per document: changes the targets in place, gives the logits and the loss of pairs outside."""
        import torch
        from torch.nn import functional

        device = hidden.device
        document = torch.from_numpy(drawn.document).to(device)
        label = torch.from_numpy(drawn.label).to(device)
        lam = torch.from_numpy(drawn.lam).to(device)
        candidates = self._candidates(drawn, batch)  # (P, K), -1 for none
        with torch.no_grad():
            partner = self._partner(drawn, candidates, head, hidden, batch.mask, document, label)
        found = partner >= 0
        positive = _look_up(drawn, partner.cpu().numpy()[:, None], batch)[1][:, 0]
        self.statistics_.add(drawn, found.cpu().numpy(), positive)
        document, label, lam, partner = document[found], label[found], lam[found], partner[found]
        if not len(document):
            return logits, None
        own = head.contexts(hidden, batch.mask, document, label)
        other = head.contexts(hidden, batch.mask, document, partner)
        mixed = mix(own, other, lam)
        place, _ = _places(batch, document, label)
        logits = logits.index_put(
            (document, place), head.pair_logits(mixed, hidden, batch.mask, document, label).to(logits.dtype)
        )
        targets[document, place] = lam * targets[document, place]
        place, inside = _places(batch, document, partner)
        rest = 1 - lam
        old = targets[document[inside], place[inside]]
        targets[document[inside], place[inside]] = (
            torch.maximum(old, rest[inside]) if self.rule == "max" else rest[inside]
        )
        outside = ~inside
        if not outside.any():
            return logits, None
        # neighbours that the loss is not taken over in this step have their say beside it
        alone = head.pair_logits(other[outside], hidden, batch.mask, document[outside], partner[outside])
        loss = functional.binary_cross_entropy_with_logits(alone.float(), rest[outside], reduction="sum")
        return logits, loss / len(batch)

    def _candidates(self, drawn: Targets, batch: Batch) -> NDArray[np.int64]:
        """int64 (P, K): labels that may be mixed in, -1 for none."""
        labels = batch.labels.cpu().numpy()
        if self.graph:
            found = self.neighbours_[drawn.label].astype(np.int64)
            if not batch.shared and found.size:  # only labels of the document's shortlist take part
                found = np.where(_look_up(drawn, found, batch)[0], found, -1)
        elif batch.shared:
            found = np.tile(labels, (len(drawn.label), 1))
        else:
            found = np.where(_there(batch).cpu().numpy(), labels, -1)[drawn.document]
        found = np.where(found == drawn.label[:, None], -1, found)
        if self.rule == "exclude" and found.size:
            found = np.where(_look_up(drawn, found, batch)[1], -1, found)
        return found

    def _partner(
        self,
        drawn: Targets,
        candidates: NDArray[np.int64],
        head: ContextHead,
        hidden: Tensor,
        mask: Tensor,
        document: Tensor,
        label: Tensor,
    ) -> Tensor:
        """int64 (P,): the neighbour mixed in, -1 where there is none."""
        import torch

        pair, place = np.nonzero(candidates >= 0)
        if not len(pair):
            return torch.full_like(label, -1)
        if not self.similar:
            counts = np.bincount(pair, minlength=len(candidates))
            first = np.cumsum(counts) - counts
            taken = np.minimum(first + (drawn.choice * counts).astype(np.int64), len(pair) - 1)
            picked = np.where(counts > 0, candidates[pair, place][taken], -1)
            return torch.from_numpy(picked).to(label.device)
        found = torch.from_numpy(candidates).to(label.device)
        pairs, places = (torch.from_numpy(each).to(label.device) for each in (pair, place))
        others = head.contexts(hidden, mask, document[pairs], found[pairs, places])
        own = head.contexts(hidden, mask, document, label)
        distance = hidden.new_full(found.shape, torch.inf)
        distance[pairs, places] = (others - own[pairs]).norm(dim=1).to(distance.dtype)
        best = distance.argmin(dim=1)
        return found.gather(1, best[:, None])[:, 0]


def mix(own: Tensor, other: Tensor, lam: Tensor) -> Tensor:
    """lambda c_l + (1 - lambda) c_t for contexts (P, width) and lambda (P,)."""
    return lam[:, None] * own + (1 - lam[:, None]) * other


def _places(batch: Batch, document: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """The column of each pair among the batch's labels (rising), and whether it is there at all."""
    import torch

    if batch.shared:
        place = torch.searchsorted(batch.labels, label).clamp_max(len(batch.labels) - 1)
        return place, batch.labels[place] == label
    lists = batch.labels[document]
    place = torch.searchsorted(lists, label[:, None]).clamp_max(lists.shape[1] - 1)[:, 0]
    return place, (batch.labels[document, place] == label) & _there(batch)[document, place]


def _there(batch: Batch) -> Tensor:
    """bool (B, S): where shortlists hold a label; shorter ones are filled up with pairs that count for nothing."""
    import torch

    if batch.weights is None:
        return torch.ones_like(batch.targets, dtype=torch.bool)
    return (batch.weights > 0) | (batch.targets > 0)


def _look_up(drawn: Targets, found: NDArray[np.int64], batch: Batch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """bool, as found (P, K): whether the batch has the label for the document, and whether it is one of its own."""
    import torch

    document = torch.from_numpy(np.repeat(drawn.document, found.shape[1])).to(batch.labels.device)
    place, inside = _places(batch, document, torch.from_numpy(found.ravel()).to(batch.labels.device))
    positive = inside & (batch.targets[document, place] > 0)
    return inside.cpu().numpy().reshape(found.shape), positive.cpu().numpy().reshape(found.shape)


@dataclass(eq=False)
class Statistics:
    """What an expert would check of a training with TailMix."""

    count: NDArray[np.int64]
    pairs: int = 0
    without_neighbour: int = 0
    partner_positive: int = 0
    below_half: int = 0
    documents: int = 0
    bands: NDArray[np.int64] = field(default_factory=lambda: np.zeros(3, dtype=np.int64))

    def add(self, drawn: Targets, found: NDArray[np.bool_], positive: NDArray[np.bool_]) -> None:
        self.pairs += len(found)
        self.without_neighbour += int((~found).sum())
        self.partner_positive += int((positive & found).sum())
        self.below_half += int((drawn.lam[found] < 0.5).sum())
        self.documents += int(self.count[drawn.label].sum())
        self.bands += np.bincount(np.searchsorted([5, 20], self.count[drawn.label]), minlength=3)

    def to_dict(self) -> dict[str, float]:
        mixed = max(self.pairs - self.without_neighbour, 1)
        return {
            "pairs": self.pairs,
            "without_neighbour": round(self.without_neighbour / max(self.pairs, 1), 4),
            "partner_positive": round(self.partner_positive / mixed, 4),
            "lambda_below_half": round(self.below_half / mixed, 4),
            "mean_documents_of_label": round(self.documents / max(self.pairs, 1), 2),
            "tail_share": round(float(self.bands[0]) / max(self.pairs, 1), 4),
        }
