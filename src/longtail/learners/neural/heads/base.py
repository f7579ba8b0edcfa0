"""What a head is: it turns vectors into one logit per label. A part holds the options, its network the weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.part import Part
from longtail.sparse import unit_rows

if TYPE_CHECKING:
    from longtail.learners.neural.encoders.base import Encoder
    from longtail.learners.neural.heads.network import HeadNetwork


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
