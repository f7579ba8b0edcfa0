"""LSAN's attention (https://aclanthology.org/D19-1044): contexts by what a document says and by what a label is called.

Two context vectors per document and label are mixed by weights of their own,

    self   alpha_tl = softmax over t of q_l . tanh(W h_t)     s_l = sum over t of alpha_tl h_t
    text   beta_tl  = softmax over t of e_l . h_t             r_l = sum over t of beta_tl h_t
    mix    a = sigmoid(u . r_l + u0), b = sigmoid(w . s_l + w0)     c_l = (a r_l + b s_l) / (a + b)

with e_l the label's text as the encoder reads it before training. What follows c_l is as in `label_attention`, and so
is what augmenters see.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from longtail.augment.hooks import Hooks
from longtail.capabilities import Capabilities
from longtail.learners.neural.heads.base import Seen
from longtail.learners.neural.heads.label_attention import BLOCK, QUERY, LabelAttention, LabelAttentionNetwork
from longtail.learners.neural.heads.network import HeadNetwork
from longtail.part import option


@dataclass(kw_only=True)
class TextAttention(LabelAttention):
    """One context vector per label: of words that the label looks for, and of words like those of its text."""

    inner: int = option(128, "width of the layer in the self-attention (LSAN: 200)", low=1, high=8192)
    text_scores: str = option(
        "softmax", "similarities of words to the label's text through a softmax, or plain sums (LSAN)",
        choices=("softmax", "plain"),
    )  # fmt: skip
    train_texts: bool = option(True, "whether the vectors of the labels' texts are trained (LSAN: no)")

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, needs=("label texts",))

    def weights(self, width: int, word_width: int, n_labels: int) -> int:
        queries = n_labels * (self.inner + word_width - width)
        return super().weights(width, word_width, n_labels) + queries + self.inner * width + 2 * width

    def busy(self, seen: Seen) -> int:
        """Two attentions and their mix, with what each is multiplied with; in blocks where that is too much."""
        pairs = seen.documents * seen.labels
        rows = pairs * 6 * seen.width if seen.listed else 12 * seen.labels * seen.width
        return min(18 * pairs * seen.tokens + rows, 9 * BLOCK) + 6 * pairs

    def network(self, width: int, word_width: int, n_labels: int) -> HeadNetwork:
        return TextAttentionNetwork(self, width, word_width, n_labels)


class TextAttentionNetwork(LabelAttentionNetwork):
    """A row of `queries` holds q_l, and behind it e_l."""

    def __init__(self, options: TextAttention, width: int, word_width: int, n_labels: int) -> None:
        super().__init__(options, width, word_width, n_labels)
        self.inner_width, self.text_width = options.inner, word_width
        self.softmax, self.train_texts = options.text_scores == "softmax", options.train_texts
        self.queries = nn.Embedding(n_labels, options.inner + word_width, sparse=True)
        nn.init.xavier_normal_(self.queries.weight)
        self.look = nn.Linear(width, options.inner, bias=False)
        self.of_text, self.of_self = nn.Linear(width, 1), nn.Linear(width, 1)

    @torch.no_grad()
    def read_texts(self, directions: Tensor, length: float) -> None:
        """Takes the labels' texts as vectors (L, word_width) of unit length; `length` is a token's on average."""
        strength = QUERY if self.softmax else 1.0
        self.queries.weight[:, self.inner_width :] = directions * (strength / length)

    @torch.no_grad()
    def start(self, directions: Tensor, centre: Tensor, length: float) -> None:
        """The classifier starts from the labels' documents; what labels look for does not."""
        queries = self.queries.weight.clone()
        super().start(directions, centre, length)
        self.queries.weight.copy_(queries)

    def _without_contexts(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks) -> Tensor:
        return self._all_listed(hidden, mask, labels, hooks)

    def _attention(self, hidden: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        return self.shares(self.queries(labels), hidden, mask)

    def _all_listed(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks) -> Tensor:
        return self._logits(self.queries(labels), self._classifier(labels), hidden, mask, hooks)

    def _listed(
        self, queries: Tensor, classifier: list[Tensor], hidden: Tensor, mask: Tensor, places: Tensor, hooks: Hooks
    ) -> Tensor:
        classifier = [functional.embedding(places, rows) for rows in classifier]
        return self._logits(functional.embedding(places, queries), classifier, hidden, mask, hooks)

    def _logits(self, queries: Tensor, classifier: list[Tensor], hidden: Tensor, mask: Tensor, hooks: Hooks) -> Tensor:
        """(B, S); contexts are made only where a hook asks or a layer stands in front of the classifier."""
        shares = self.shares(queries, hidden, mask)
        if self.own and not hasattr(self, "inner") and not (hooks.wants("context") or hooks.wants("classifier")):
            vectors, bias = classifier
            return (shares * _products(vectors, hidden)).sum(dim=2) + bias[..., 0]
        return self._classify(hooks.apply_at("context", shares @ hidden), classifier, hooks)

    def shares(self, queries: Tensor, hidden: Tensor, mask: Tensor) -> Tensor:
        """(B, S, T): each token's share in a context; a mix of two sums over tokens is one sum with mixed weights.

        queries  rows (S, ...), the same for all documents, or (B, S, ...)
        """
        looking, texts = queries[..., : self.inner_width], queries[..., self.inner_width :]
        texts = texts if self.train_texts else texts.detach()
        outside = ~mask[:, None, :]
        alpha = _products(looking, self.look(hidden).tanh()).masked_fill(outside, -torch.inf).softmax(dim=2)
        similar = _products(texts, hidden[:, :, -self.text_width :])
        if self.softmax:
            beta = similar.masked_fill(outside, -torch.inf).softmax(dim=2)
        else:
            beta = similar.masked_fill(outside, 0.0)
        a, b = self._gate(self.of_text, beta, hidden), self._gate(self.of_self, alpha, hidden)
        part = a / (a + b)
        return part * beta + (1 - part) * alpha

    @staticmethod
    def _gate(layer: nn.Linear, shares: Tensor, hidden: Tensor) -> Tensor:
        """(B, S, 1): sigmoid of what the layer makes of contexts, which it does not need itself."""
        of_tokens = functional.linear(hidden, layer.weight)[:, None, :, 0]
        return ((shares * of_tokens).sum(dim=2, keepdim=True) + layer.bias).sigmoid()

    def contexts(self, hidden: Tensor, mask: Tensor, documents: Tensor, labels: Tensor) -> Tensor:
        counts = torch.bincount(documents, minlength=len(hidden))
        place = torch.arange(len(documents), device=documents.device) - (counts.cumsum(0) - counts)[documents]
        padded = labels.new_zeros((len(hidden), int(counts.max())) if len(documents) else (len(hidden), 0))
        padded[documents, place] = labels
        return (self.shares(self.queries(padded), hidden, mask) @ hidden)[documents, place]


def _products(rows: Tensor, values: Tensor) -> Tensor:
    """(B, S, T): rows (S, D), the same for all documents, or (B, S, D), with values (B, T, D)."""
    if rows.ndim == 3:
        return rows @ values.transpose(1, 2)
    # labels in front and tokens last, as sums run along memory
    return (rows @ values.flatten(0, 1).T).view(len(rows), *values.shape[:2]).transpose(0, 1)
