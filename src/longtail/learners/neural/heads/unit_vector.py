"""One vector of unit length per document, by attention over its tokens, and a separator per label (HTTN's network).

    alpha_t = softmax over t of a . h_t         z = W (sum over t of alpha_t h_t), brought to unit length
    logit of label l = scale (v_l . z) + b_l    with one learnt scale for all

All documents lie on a sphere, so that the mean of a label's documents is of the same kind as what separates it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from longtail.augment.hooks import NONE, Hooks
from longtail.capabilities import Capabilities
from longtail.learners.neural.heads.base import Head
from longtail.learners.neural.heads.network import HeadNetwork
from longtail.learners.neural.heads.pooled_network import SeparatorNetwork
from longtail.part import option

#: Product of a label vector and a document in its direction before training (measured for `label-attention`).
STRENGTH = 12.0


@dataclass(kw_only=True)
class UnitVector(Head):
    size: int = option(128, "numbers of a document's vector (HTTN: 128)", low=1, high=8192)
    scale: float = option(10.0, "its length before training, which is learnt (HTTN: 10)", low=0.01, high=1000)
    bias: float = option(-6.0, "logit of every label before training: few labels hold (measured)", low=-30, high=30)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(spaces=("labels",))

    @property
    def starts_from_documents(self) -> bool:
        return True

    def weights(self, width: int, word_width: int, n_labels: int) -> int:
        return n_labels * (self.size + 1) + width * (self.size + 1)

    def network(self, width: int, word_width: int, n_labels: int) -> HeadNetwork:
        return UnitVectorNetwork(self, width, n_labels)


class UnitVectorNetwork(SeparatorNetwork):
    def __init__(self, options: UnitVector, width: int, n_labels: int) -> None:
        super().__init__()
        self.attend = nn.Linear(width, 1, bias=False)
        nn.init.zeros_(self.attend.weight)  # all tokens alike
        self.layer = nn.Linear(width, options.size, bias=False)
        self.scale = nn.Parameter(torch.tensor(options.scale))
        self.make_separators(n_labels, options.size, options.bias)

    @torch.no_grad()
    def start(self, directions: Tensor, centre: Tensor, length: float) -> None:
        """A label's vector is where its documents' mean would lie."""
        known = directions.norm(dim=1) > 0
        seen = functional.normalize(directions @ self.layer.weight[:, -directions.shape[1] :].T, dim=1)
        self.vectors.weight[known] = seen[known] * (STRENGTH / float(self.scale))

    def documents(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """z (B, size) of tokens (B, T, width), or of what an encoder makes of whole texts (B, width)."""
        if hidden.ndim == 3:
            share = self.attend(hidden)[:, :, 0].masked_fill(~mask, -torch.inf).softmax(dim=1)
            hidden = (share[:, None, :] @ hidden.masked_fill(~mask[:, :, None], 0.0))[:, 0]
        return functional.normalize(self.layer(hidden), dim=1)

    def forward(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks = NONE) -> Tensor:
        documents = self.scale * self.documents(hidden, mask)
        # a label of several lists is looked up once, and has one row of gradient
        found, places = (labels, None) if labels.ndim == 1 else torch.unique(labels, return_inverse=True)
        logits = documents @ self.vectors(found).T + self.bias(found)[:, 0]
        return logits if places is None else logits.gather(1, places)
