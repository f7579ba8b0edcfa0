"""TailMix (https://openreview.net/forum?id=cKTBRHIVjy9): mixup of the context vectors of rare labels.

For a document i and one of its labels l, drawn with the softmax of inverse propensities, the nearest of l's
neighbours t in the graph of labels that occur together (by the distance of context vectors of the same document) is
mixed in, with lambda from Beta(alpha, alpha):

    c~ = lambda c_il + (1 - lambda) c_it

Three forms say what becomes of the mixture:

    in-place    algorithm 1: c~ takes l's place, with y_il <- lambda; t keeps its vector, with y_it <- 1 - lambda
    equation-4  c~ takes the places of both, for it is an example of lambda times l and 1 - lambda times t
    additive    section 3.2: that example is added to the loss, and the document's own pairs stay as they are

All other logits stay as they are. A pair with lambda = 1 is the pair itself and is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from longtail.augment.hooks import ContextHead, Hook, TrainingPlan
from longtail.errors import UsageError, warn
from longtail.graphs.cooccurrence import cooccurrence, strongest
from longtail.part import option

if TYPE_CHECKING:
    from torch import Tensor

    from longtail.learners.neural.training.batches import Batch
    from longtail.learners.neural.training.network import Network

#: What happens to the target of the neighbour that is mixed in.
RULES = ("literal", "max", "exclude")
#: What becomes of a mixture.
FORMS = ("in-place", "equation-4", "additive")
#: How much of the document's vector, which has a part in logits beside the contexts, mixtures have.
DOCUMENTS = ("kept", "mixed", "left-out")


@dataclass(eq=False)
class Targets:
    """The pairs drawn for one step, at most one per document.

    document  int64 (P,), rows of the batch, rising
    label     int64 (P,)
    lam       float32 (P,)
    choice    float32 (P,), in [0, 1): which neighbour is taken where that is left to chance
    rank      how many of a label's neighbours other rounds have before: 0 for the nearest, 1 for the one after it
    """

    document: NDArray[np.int64]
    label: NDArray[np.int64]
    lam: NDArray[np.float32]
    choice: NDArray[np.float32]
    rank: int = 0

    def only(self, these: NDArray[np.bool_]) -> Targets:
        return Targets(self.document[these], self.label[these], self.lam[these], self.choice[these], self.rank)


@dataclass(kw_only=True)
class TailMix(Hook):
    space: ClassVar[str] = "context"

    form: str = option(
        "additive",
        "of mixtures: in-place (algorithm 1: in place of the label's own vector), equation-4 (and of its neighbour's), "
        "additive (section 3.2: both beside the document's own pairs)",
        choices=FORMS,
    )
    alpha: float = option(0.4, "lambda is drawn from Beta(alpha, alpha) (paper: 0.2 to 0.6)", low=0.01, high=1000)
    most: int = option(1, "maximum number of labels per document that are mixed in one step (algorithm 1's M, which "
                       "has no value)", low=1, high=1000)  # fmt: skip
    partners: int = option(1, "neighbours that each is mixed with, the nearest ones (section 3.2's M, which has no "
                           "value)", low=1, high=1000, only={"form": "additive"})  # fmt: skip
    temperature: float = option(1.0, "softness of the draw of labels: 1 is nearly always the rarest (paper)",
                                low=1e-3, high=1e6)  # fmt: skip
    rule: str = option(
        "max",
        "target of the neighbour: literal (1 - lambda, paper), max (never lowered), exclude (a document's own labels "
        "are not taken, so labels with one document are never mixed)",
        choices=RULES,
    )
    document: str = option(
        "kept", "part of the document's vector in a mixture's logit: kept (as it is), mixed (as much as the label's "
        "share), left-out (not in the paper, whose network has none)", choices=DOCUMENTS,
    )  # fmt: skip
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
        self.neighbours_ = strongest(cooccurrence(plan.corpus.documents_only().positives()), self.neighbours)
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
        if self.document != "kept" and not network.head.reads_documents:
            raise UsageError("tailmix.document counts only where the head has the document's vector; leave it out")
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

        The largest of (weight + Gumbel noise) are a draw without replacement from the softmax of the weights. Each is
        there once for every neighbour that it is to be mixed with, with a lambda of its own.
        """
        key = self.weight_[label] + rng.gumbel(size=len(label))
        order = np.lexsort((-key, document))
        document, label = document[order], label[order]
        place = np.arange(len(document)) - np.searchsorted(document, document)
        lams = rng.beta(self.alpha, self.alpha, size=(self.partners, len(document))).astype(np.float32)
        if self.folded:
            lams = np.maximum(lams, 1 - lams)
        if self.fixed is not None:
            lams = np.full_like(lams, self.fixed)
        choice = rng.random(len(document), dtype=np.float32)
        rounds = []
        for number in range(self.most):
            for rank, lam in enumerate(lams):
                mth = (place == number) & (lam < 1)
                if mth.any():
                    rounds.append(Targets(document[mth], label[mth], lam[mth], choice[mth], rank))
        return rounds

    # applying
    def pairs(self, batch: Batch, network: Network, hidden: Tensor, logits: Tensor) -> tuple[Batch, Tensor, Any]:
        head: Any = network.head
        first, targets, extra = batch.targets, batch.targets.clone(), None
        for drawn in self.drawn_:
            batch = replace(batch, targets=targets)
            pairs = self._found(drawn, batch, head, hidden)
            if pairs is None:
                continue
            if self.form == "additive":
                more: Tensor | None = self._beside(pairs, batch, head, hidden)
            else:
                logits, more = self._in_place(pairs, batch, first, head, hidden, logits)
            if more is not None:
                extra = more if extra is None else extra + more
        return replace(batch, targets=targets), logits, extra

    def _found(self, drawn: Targets, batch: Batch, head: ContextHead, hidden: Tensor) -> Pairs | None:
        """The pairs that have a neighbour to be mixed with, and their mixtures."""
        import torch

        device = hidden.device
        document = torch.from_numpy(drawn.document).to(device)
        label = torch.from_numpy(drawn.label).to(device)
        candidates = self._candidates(drawn, batch)  # (P, K), -1 for none
        with torch.no_grad():
            partner = self._partner(drawn, candidates, head, hidden, batch.mask, document, label)
        found = partner >= 0
        positive = _look_up(drawn, partner.cpu().numpy()[:, None], batch)[1][:, 0]
        self.statistics_.add(drawn, found.cpu().numpy(), positive)
        document, label, partner = document[found], label[found], partner[found]
        if not len(document):
            return None
        lam = torch.from_numpy(drawn.lam).to(device)[found]
        own = head.contexts(hidden, batch.mask, document, label)
        other = head.contexts(hidden, batch.mask, document, partner)
        return Pairs(document, label, partner, lam, other, mix(own, other, lam))

    def _in_place(
        self, pairs: Pairs, batch: Batch, first: Tensor, head: ContextHead, hidden: Tensor, logits: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Algorithm 1 or equation 4: changes the batch's targets, gives the logits and the loss of pairs outside.

        first  targets before any mixing: what is drawn is assigned its share of these, whatever came before
        """
        targets, document, lam = batch.targets, pairs.document, pairs.lam
        place, _ = _places(batch, document, pairs.label)
        mine = self._logits(pairs, head, hidden, batch.mask)
        logits = logits.index_put((document, place), mine.to(logits.dtype))
        targets[document, place] = lam * first[document, place]
        place, inside = _places(batch, document, pairs.partner)
        wanted = self._wanted(pairs, targets[document, place], inside)
        targets[document[inside], place[inside]] = wanted[inside]
        outside = ~inside
        if self.form == "in-place" and not outside.any():
            return logits, None
        theirs = self._logits(pairs, head, hidden, batch.mask, of_partner=True)
        if self.form == "equation-4":
            logits = logits.index_put((document[inside], place[inside]), theirs[inside].to(logits.dtype))
        # neighbours that the loss is not taken over in this step have their say beside it
        return logits, _loss(theirs[outside], wanted[outside]) / len(batch) if outside.any() else None

    def _beside(self, pairs: Pairs, batch: Batch, head: ContextHead, hidden: Tensor) -> Tensor:
        """Section 3.2: the loss of the mixtures as examples of both labels, with the weights that these have."""
        loss = hidden.new_zeros(())
        for of_partner in (False, True):
            place, inside = _places(batch, pairs.document, pairs.partner if of_partner else pairs.label)
            old = batch.targets[pairs.document, place]
            wanted = self._wanted(pairs, old, inside) if of_partner else pairs.lam * old
            weight = None if batch.weights is None else batch.weights[pairs.document, place].masked_fill(~inside, 1)
            loss = loss + _loss(self._logits(pairs, head, hidden, batch.mask, of_partner=of_partner), wanted, weight)
        return loss / len(batch)

    def _wanted(self, pairs: Pairs, old: Tensor, inside: Tensor) -> Tensor:
        """(P,): the neighbours' targets, given those they have, where they are among the loss's labels at all."""
        rest = 1 - pairs.lam
        return rest.maximum(old.masked_fill(~inside, 0)) if self.rule == "max" else rest

    def _logits(
        self, pairs: Pairs, head: ContextHead, hidden: Tensor, mask: Tensor, *, of_partner: bool = False
    ) -> Tensor:
        """(P,): of the mixtures for the drawn labels, or of what stands in their neighbours' places for these."""
        vectors, share = (pairs.other if of_partner and self.form == "in-place" else pairs.mixed), None
        if self.document != "kept" and vectors is pairs.mixed:
            share = (1 - pairs.lam if of_partner else pairs.lam) * (self.document == "mixed")
        label = pairs.partner if of_partner else pairs.label
        return head.pair_logits(vectors, hidden, mask, pairs.document, label, share)

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
        """int64 (P,): the neighbour mixed in, the nearest but `rank`, -1 where there is none."""
        import torch

        pair, place = np.nonzero(candidates >= 0)
        if not len(pair):
            return torch.full_like(label, -1)
        if not self.similar:
            counts = np.bincount(pair, minlength=len(candidates))
            first = np.cumsum(counts) - counts
            turned = ((drawn.choice * counts).astype(np.int64) + drawn.rank) % np.maximum(counts, 1)
            taken = np.minimum(first + turned, len(pair) - 1)
            picked = np.where(counts > drawn.rank, candidates[pair, place][taken], -1)
            return torch.from_numpy(picked).to(label.device)
        found = torch.from_numpy(candidates).to(label.device)
        pairs, places = (torch.from_numpy(each).to(label.device) for each in (pair, place))
        others = head.contexts(hidden, mask, document[pairs], found[pairs, places])
        own = head.contexts(hidden, mask, document, label)
        distance = hidden.new_full(found.shape, torch.inf)
        distance[pairs, places] = (others - own[pairs]).norm(dim=1).to(distance.dtype)
        if drawn.rank >= found.shape[1]:
            return torch.full_like(label, -1)
        best = distance.sort(dim=1, stable=True).indices[:, drawn.rank]
        return found.gather(1, best[:, None])[:, 0]

    def end(self) -> None:
        """Says so where most of what was drawn found nothing to be mixed with."""
        found = self.statistics_
        if not found.pairs:
            warn("tailmix mixed nothing: it drew no label; see tailmix.rarest, tailmix.warm_up and tailmix.fixed")
        elif 2 * found.without_neighbour > found.pairs:
            warn(
                f"tailmix hardly mixed: {found.without_neighbour / found.pairs:.0%} of {found.pairs:,} labels drawn "
                'had no neighbour to be mixed with; tailmix.rule "max" and tailmix.graph false find more'
            )


@dataclass(frozen=True, eq=False)
class Pairs:
    """Drawn pairs with their neighbours: document, label, partner, lam (P,); other, mixed (P, width)."""

    document: Tensor
    label: Tensor
    partner: Tensor
    lam: Tensor
    other: Tensor
    mixed: Tensor


def mix(own: Tensor, other: Tensor, lam: Tensor) -> Tensor:
    """lambda c_l + (1 - lambda) c_t for contexts (P, width) and lambda (P,)."""
    return lam[:, None] * own + (1 - lam[:, None]) * other


def _loss(logits: Tensor, wanted: Tensor, weight: Tensor | None = None) -> Tensor:
    from torch.nn import functional

    return functional.binary_cross_entropy_with_logits(logits.float(), wanted, weight=weight, reduction="sum")


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
        if drawn.rank:  # a label that has no further neighbours was mixed with its nearest
            drawn, found, positive = drawn.only(found), found[found], positive[found]
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
