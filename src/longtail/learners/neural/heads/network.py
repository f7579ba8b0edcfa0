"""What the network of a head is: vectors in, logits out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from longtail.augment.hooks import NONE, Hooks
from longtail.errors import UsageError

if TYPE_CHECKING:
    from longtail.learners.neural.encoders.network import EncoderNetwork
    from longtail.learners.neural.heads.base import LabelFacts


class HeadNetwork(nn.Module, ABC):
    """Vectors h (B, T, width) with their mask (B, T) in, logits out."""

    #: Points of its forward pass at which hooks may change vectors.
    points: tuple[str, ...] = ()
    #: Whether the whole document's vector has a part in a label's logit, beside the label's context vector.
    reads_documents: bool = False

    @abstractmethod
    def forward(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks = NONE) -> Tensor:
        """Logits (B, S) of labels (S,) or (B, S)."""

    @abstractmethod
    def rows(self) -> list[Tensor]:
        """Parameters with a row per label, which take the higher learning rate."""

    @abstractmethod
    def classifier(self) -> list[Tensor]:
        """Parameters that make logits of what the network found: those a second stage tunes."""

    @abstractmethod
    def restart(self) -> None:
        """Draws the classifier anew, as it was before training."""

    def start(self, directions: Tensor, centre: Tensor, length: float) -> None:
        """Starts label vectors from the documents that carry the label, where the head can."""

    def bind(self, encoder: EncoderNetwork, facts: LabelFacts) -> None:
        """Takes what the head needs to know of the labels, for heads that read their texts."""

    def feature_size(self, width: int) -> int:
        """Numbers of a label's feature behind an encoder of this width: those of its context vector, unless said."""
        return width

    def features(self, hidden: Tensor, mask: Tensor, documents: Tensor, labels: Tensor) -> Tensor:
        """(P, feature_size): all that the classifier reads of P pairs, as `ContextHead.contexts`: the contexts here."""
        head: Any = self
        if "context" not in self.points:
            raise UsageError("features of labels need a head with label-wise attention")
        found: Tensor = head.contexts(hidden, mask, documents, labels)
        return found

    def classify(self, contexts: Tensor, labels: Tensor, hooks: Hooks = NONE) -> Tensor:
        """Logits (P,) of vectors (P, width) in the space "context", one for each of labels (P,)."""
        raise UsageError("examples in the classifier's space need a head with label-wise attention")

    def separators(self, labels: Tensor) -> Tensor:
        """(S, any width): what tells documents of labels (S,) from others, for heads that open the space "labels"."""
        raise UsageError("this head has no vector per label in its classifier")

    def folded(self) -> HeadNetwork:
        """What is kept of it when training is over: itself, or a simpler network with the same logits."""
        return self
