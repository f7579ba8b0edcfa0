"""What a head is: it turns vectors into one logit per label. A part holds the options, its network the weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from torch import Tensor, nn

from longtail.augment.hooks import NONE, Hooks
from longtail.errors import UsageError
from longtail.part import Part
from longtail.sparse import unit_rows

if TYPE_CHECKING:
    from longtail.learners.neural.encoders.base import Encoder, EncoderNetwork


@dataclass(eq=False)
class LabelFacts:
    """What a head may know of the labels.

    texts  csr float32 (L, V), TF-IDF weights of the words of each label's text, rows of unit length
    graph  csr float32 (L, L), the label correlation graph scaled for propagation
    """

    texts: sp.csr_matrix
    graph: sp.csr_matrix | None = None

    def of_clusters(self, cluster: NDArray[np.int32]) -> LabelFacts:
        """The same of clusters of labels, given each label's: their texts together, their edges together."""
        L = len(cluster)
        belongs = sp.csr_matrix((np.ones(L, dtype=np.float32), (cluster, np.arange(L))))
        texts = unit_rows(sp.csr_matrix(belongs @ self.texts))
        return LabelFacts(
            texts, None if self.graph is None else unit_rows(sp.csr_matrix(belongs @ self.graph @ belongs.T))
        )


class Seen(NamedTuple):
    """A batch as a head sees it: documents, tokens of each, labels (of each, where `listed`), and widths."""

    documents: int
    tokens: int
    labels: int
    listed: bool
    width: int
    word_width: int


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


@dataclass(kw_only=True)
class Head(Part, ABC):
    kind: ClassVar[str] = "head"

    def weights(self, width: int, word_width: int, n_labels: int) -> int:
        """Numbers it has, which all are trained."""
        return n_labels * (width + 1)

    def busy(self, seen: Seen) -> int:
        """Numbers it holds for a batch in training, gradients included."""
        rows = seen.documents * seen.labels * seen.width * 4 if seen.listed else 4 * seen.labels * seen.width
        return rows + 6 * seen.documents * seen.labels

    @property
    def starts_from_documents(self) -> bool:
        """Whether its label vectors can start from the documents that carry the label."""
        return False

    def check_encoder(self, encoder: Encoder) -> None:
        """Refuses options that this encoder leaves without any effect."""

    @abstractmethod
    def network(self, width: int, word_width: int, n_labels: int) -> HeadNetwork:
        """Weights as they are before training, drawn from torch's generator."""

    def folded_network(self, width: int, word_width: int, n_labels: int) -> HeadNetwork:
        """A network of the kind that `HeadNetwork.folded` gives, for weights from a file."""
        return self.network(width, word_width, n_labels)
