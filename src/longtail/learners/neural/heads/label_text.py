"""A classifier that reads the labels' texts: DECAF's, ECLARE's and InceptionXML-LF's.

A label's vector is made of up to three,

    text   R1(z_l),  z_l the TF-IDF weighted sum of the word vectors of its text, shared with the documents'
    graph  R2(sum over m of G_lm z_m),  G the label correlation graph: what its neighbours are called
    free   u_l, a vector of its own

joined by gates, sigmoid(a) u_l + sigmoid(b) R1(z_l) (DECAF, https://arxiv.org/abs/2108.00368), or by attention over the
three (ECLARE, https://arxiv.org/abs/2108.00261). None of it depends on the document, so when training is over label
vectors are made once and for all, and what is kept is a plain linear classifier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from longtail.capabilities import Capabilities
from longtail.errors import UsageError
from longtail.learners.neural.heads.base import Head, Seen
from longtail.learners.neural.heads.pooled import Pooled
from longtail.part import option

if TYPE_CHECKING:
    from longtail.learners.neural.heads.network import HeadNetwork


@dataclass(kw_only=True)
class LabelText(Head):
    graph: bool = option(False, "neighbours' texts beside the label's own (ECLARE, InceptionXML-LF: yes)")
    free: bool = option(True, "a vector of the label's own beside what its text says (DECAF, ECLARE)")
    start: str = option(
        "zero", "free vectors start at zero (measured), from the text (DECAF), or from the neighbours' texts (ECLARE)",
        choices=("zero", "text", "graph"), only={"free": True},
    )  # fmt: skip
    join: str = option("gates", "gates (DECAF) or attention (ECLARE) over the label's vectors",
                       choices=("gates", "attention"))  # fmt: skip
    residual: bool = option(False, "a residual block behind each text (DECAF, ECLARE, InceptionXML-LF: yes)")
    gelu: bool = option(
        False, "GELU and learnt factors in the residual block (InceptionXML-LF)", only={"residual": True}
    )
    dropout: float = option(0.2, "dropout in residual blocks and attention (ECLARE: 0.2)", low=0, high=0.99)
    bias: float = option(-8.0, "logit of every label before training: few labels hold (measured)", low=-30, high=30)

    def validate(self) -> None:
        super().validate()
        if self.start == "graph" and not self.graph:
            raise UsageError('label-text.start = "graph" needs label-text.graph = true')
        if self.dropout != 0.2 and not self.residual and self.join == "gates":
            raise UsageError("label-text.dropout counts only where residual is true or join is attention; leave it out")

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(needs=("label texts",), spaces=("labels",))

    @property
    def text_and_own(self) -> bool:
        """Whether a label's vector is its text's and its own, joined by gates, and nothing else."""
        return self.free and self.join == "gates" and not self.graph and not self.residual

    def weights(self, width: int, word_width: int, n_labels: int) -> int:
        blocks = (1 + self.graph) * width * width * self.residual
        return n_labels * (width * self.free + 1) + blocks + 4 * width * width

    def busy(self, seen: Seen) -> int:
        """Label vectors are made of up to three, each with its gradient, for the labels of the batch."""
        made = (1 + self.graph + self.free) * 6 * seen.width
        labels = min(seen.labels * seen.documents, 20_000) if seen.listed else seen.labels
        return labels * made + super().busy(seen)

    def network(self, width: int, word_width: int, n_labels: int) -> HeadNetwork:
        from longtail.learners.neural.heads.label_text_network import LabelTextNetwork

        return LabelTextNetwork(self, width, n_labels)

    def folded_network(self, width: int, word_width: int, n_labels: int) -> HeadNetwork:
        return Pooled().network(width, word_width, n_labels)
