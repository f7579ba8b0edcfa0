"""Label-wise attention: from one vector per token to one logit per label.

Label-wise attention (AttentionXML, https://arxiv.org/abs/1811.01727) makes one context vector per document and label,

    alpha_tl = softmax over t of h_t . q_l          c_l = sum over t of alpha_tl h_t

and a classifier turns c_l into a logit: a vector per label or one for all, on c_l or on relu(W c_l), with a second
such layer behind it if asked for. The tensor of all
c_l (documents x labels x width) is never needed: with a classifier vector v_l, v_l . c_l = sum over t of alpha_tl
(h_t . v_l), which has no width at all. The hidden layer is W c_l = sum over t of alpha_tl (W h_t): W meets each token
once, not each label of each document. It is made for a block of labels at a time, and once more in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from longtail.augment.hooks import NONE, Hooks
from longtail.capabilities import Capabilities
from longtail.learners.neural.heads.base import Head, Seen
from longtail.learners.neural.heads.network import HeadNetwork
from longtail.part import option

#: Strength of the label vectors' start, for queries, classifier vectors and document vectors, and what is left of
#: the random start elsewhere (measured on documents held out of vuln-libraries' training data).
QUERY, VECTOR, DOCUMENT, REST = 5.0, 3.0, 12.0, 0.3
#: Numbers a block of labels may hold in one of its tensors (256 MB); beyond, labels are taken in blocks.
BLOCK = 1 << 26


@dataclass(kw_only=True)
class LabelAttention(Head):
    """One context vector per label: each label looks at the words that matter to it."""

    classifier: str = option(
        "own",
        "own: a vector per label (measured best); shared: a hidden layer and one vector for all (AttentionXML); "
        "vector: one vector for all; layered: a hidden layer, then a vector per label (LSFA's code, type 2)",
        choices=("own", "shared", "vector", "layered"),
    )
    hidden: int = option(256, "width of the hidden layer (AttentionXML: 256, LSFA's code: 300)", low=1, high=8192,
                         only={"classifier": ("shared", "layered")})  # fmt: skip
    second: int | None = option(
        None, "width of a second hidden layer behind it, none: there is one only (AttentionXML: 256 behind 512 on its "
        "four large corpora; TailMix: 128 behind 256)", low=1, high=8192, only={"classifier": ("shared", "layered")},
    )  # fmt: skip
    document: bool = option(
        True, "the whole document's vector beside the contexts: evidence of many words adds up (measured)"
    )
    bias: float = option(-6.0, "logit of every label before training: few labels hold (measured)", low=-30, high=30)

    @property
    def capabilities(self) -> Capabilities:
        labels = ("labels",) if self.own or self.document else ()
        return Capabilities(spaces=("context", "classifier", *labels), reads_tokens=True)

    @property
    def starts_from_documents(self) -> bool:
        return True

    @property
    def own(self) -> bool:
        """Whether each label has a classifier vector of its own."""
        return self.classifier in ("own", "layered")

    @property
    def layered(self) -> bool:
        """Whether there is a hidden layer in front of the classifier vectors."""
        return self.classifier in ("shared", "layered")

    def seen(self, width: int) -> int:
        """Numbers that classifier vectors are held against, behind an encoder of this width."""
        return (self.second or self.hidden) if self.layered else width

    def weights(self, width: int, word_width: int, n_labels: int) -> int:
        seen = self.seen(width)
        own = seen + 1 if self.own else 0
        shared = self.hidden * (width + 1) * self.layered + (0 if own else seen + 1)
        shared += 0 if self.second is None else self.second * (self.hidden + 1)
        return n_labels * (width + own + word_width * self.document) + shared

    def busy(self, seen: Seen) -> int:
        """Attention of every token for every label, a few times over; in blocks where that is too much."""
        pairs = seen.documents * seen.labels
        rows = pairs * 4 * seen.width if seen.listed else 8 * seen.labels * seen.width
        layer = 3 * pairs * (self.hidden + (self.second or 0)) * self.layered
        return min(9 * pairs * seen.tokens + layer + rows, 5 * BLOCK) + 6 * pairs

    def network(self, width: int, word_width: int, n_labels: int) -> HeadNetwork:
        return LabelAttentionNetwork(self, width, word_width, n_labels)


class LabelAttentionNetwork(HeadNetwork):
    def __init__(self, options: LabelAttention, width: int, word_width: int, n_labels: int) -> None:
        super().__init__()
        self.width, self.own, self.layered = width, options.own, options.layered
        self.points = ("context", "classifier") if self.layered else ("context",)
        seen = options.seen(width)
        self.widest = max(width, options.hidden if self.layered else 0)
        self.queries = nn.Embedding(n_labels, width, sparse=True)
        nn.init.xavier_normal_(self.queries.weight)
        self.first_bias = options.bias
        if self.layered:
            self.inner = nn.Linear(width, options.hidden)
        self.second = nn.Linear(options.hidden, options.second) if options.second else None
        if self.own:
            self.vectors = nn.Embedding(n_labels, seen, sparse=True)
            nn.init.xavier_normal_(self.vectors.weight)
            self.bias = nn.Embedding(n_labels, 1, sparse=True)
            nn.init.constant_(self.bias.weight, options.bias)
        else:
            self.outer = nn.Linear(seen, 1)
            nn.init.constant_(self.outer.bias, options.bias)
        self.word_width = word_width if options.document else 0
        self.reads_documents = options.document
        if self.word_width:
            self.document = nn.Embedding(n_labels, word_width, sparse=True)
            nn.init.xavier_normal_(self.document.weight)
            self.register_buffer("centre", torch.zeros(word_width))

    def rows(self) -> list[Tensor]:
        own = [self.vectors.weight, self.bias.weight] if self.own else []
        return [self.queries.weight, *own, *([self.document.weight] if self.word_width else [])]

    def classifier(self) -> list[Tensor]:
        parts: list[nn.Module] = [self.inner] if self.layered else []
        parts += [] if self.second is None else [self.second]
        parts += [self.vectors, self.bias] if self.own else [self.outer]
        parts += [self.document] if self.word_width else []
        return [parameter for part in parts for parameter in part.parameters()]

    def restart(self) -> None:
        if self.layered:
            self.inner.reset_parameters()
        if self.second is not None:
            self.second.reset_parameters()
        if self.own:
            nn.init.xavier_normal_(self.vectors.weight)
            nn.init.constant_(self.bias.weight, self.first_bias)
        else:
            self.outer.reset_parameters()
            nn.init.constant_(self.outer.bias, self.first_bias)
        if self.word_width:
            nn.init.xavier_normal_(self.document.weight)

    @torch.no_grad()
    def start(self, directions: Tensor, centre: Tensor, length: float) -> None:
        """Starts label vectors from the documents that carry the label.

        directions  (L, word_width), unit vectors; rows of 0 for labels without documents
        centre      (word_width,), taken off a document's mean vector before it is brought to unit length
        length      of a token's word_width part on average: label vectors are made so that products do not depend on it
        """
        known = directions.norm(dim=1) > 0
        direct = self.own and not self.layered  # behind a layer, numbers mean something else
        for weight, strength in ((self.queries.weight, QUERY), *([(self.vectors.weight, VECTOR)] if direct else [])):
            weight[known] *= REST
            weight[known, -directions.shape[1] :] = directions[known] * (strength / length)
        if self.word_width:
            self.document.weight[known] = directions[known] * DOCUMENT
            self.centre.copy_(centre)  # type: ignore[operator]

    def forward(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks = NONE) -> Tensor:
        logits = self._attended(hidden, mask, labels, hooks)
        if not self.word_width:
            return logits
        documents = hooks.apply_at("context", self.documents(hidden, mask)[:, None])[:, 0]
        if labels.ndim == 1:
            return logits + documents @ self.document(labels).T
        # every document with every label of the batch is quicker than a row of weights for each pair
        found, places = torch.unique(labels, return_inverse=True)
        return logits + (documents @ self.document(found).T).gather(1, places)

    def documents(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Unit vectors (B, word_width) of the documents: the direction of their tokens' mean, from the centre."""
        return document_vectors(hidden[:, :, -self.word_width :], mask, self.centre)  # type: ignore[arg-type]

    def _attended(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks) -> Tensor:
        if labels.ndim == 2:
            # a label of several lists is looked up once, and has one row of gradient
            found, labels = torch.unique(labels, return_inverse=True)
            block: Callable[..., Tensor] = partial(self._listed, self.queries(found), self._classifier(found))
        elif self.own and not self.layered and not (hooks.wants("context") or hooks.wants("classifier")):
            # where only the classifier is tuned, contexts are what it needs in the backward pass, and no more products
            still = torch.is_grad_enabled() and not (hidden.requires_grad or self.queries.weight.requires_grad)
            block = self._still_contexts if still else self._without_contexts
        else:
            block = self._all_listed
        # twice the tokens: attention and values are one product
        at_once = len(hidden) * max(2 * hidden.shape[1], self.widest)
        size = max(16, BLOCK // at_once)
        if labels.shape[-1] <= size:
            return block(hidden, mask, labels, hooks)
        parts = torch.split(labels, size, dim=-1)
        if not torch.is_grad_enabled():
            return torch.cat([block(hidden, mask, part, hooks) for part in parts], dim=1)
        done = [checkpoint(block, hidden, mask, part, hooks, use_reentrant=False) for part in parts]
        return torch.cat([logits for logits in done if isinstance(logits, Tensor)], dim=1)

    def _without_contexts(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks) -> Tensor:
        """sum over t of alpha_tl (h_t . v_l): labels in front and positions last, so that sums run along memory."""
        B, T, width = hidden.shape
        both = torch.cat([self.queries(labels), self.vectors(labels)])
        products = (both @ hidden.reshape(B * T, width).T).view(2, len(labels), B, T)
        scores, values = products.unbind(0)  # taken by number, each would get a gradient as large as both
        attention = scores.masked_fill(~mask, -torch.inf).softmax(dim=2)
        return (attention * values).sum(dim=2).T + self.bias(labels)[:, 0]

    def _still_contexts(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks) -> Tensor:
        """c_l . v_l, with contexts (B, S, width) that have no gradient: two products forwards and none back."""
        with torch.no_grad():
            contexts = torch.bmm(self._attention(hidden, mask, labels), hidden).transpose(0, 1)
        return torch.bmm(contexts, self.vectors(labels)[:, :, None])[:, :, 0].T + self.bias(labels)[:, 0]

    def _attention(self, hidden: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        """(B, S, T): each token's share in the contexts of labels (S,)."""
        B, T, width = hidden.shape
        scores = (self.queries(labels) @ hidden.reshape(B * T, width).T).view(len(labels), B, T)
        return scores.masked_fill(~mask, -torch.inf).softmax(dim=2).transpose(0, 1)

    def _all_listed(self, hidden: Tensor, mask: Tensor, labels: Tensor, hooks: Hooks) -> Tensor:
        """All documents with the same labels: one product for all attention scores, in the order memory has them."""
        B, T, width = hidden.shape
        queries = self.queries(labels)
        scores = (queries @ hidden.reshape(B * T, width).T).view(len(labels), B, T).transpose(0, 1)
        return self._from_scores(scores, self._classifier(labels), hidden, mask, hooks)

    def _listed(
        self, queries: Tensor, classifier: list[Tensor], hidden: Tensor, mask: Tensor, places: Tensor, hooks: Hooks
    ) -> Tensor:
        """Each document with labels of its own: places (B, S), rows of queries (U, width) and of the classifier."""
        scores = functional.embedding(places, queries) @ hidden.transpose(1, 2)
        classifier = [functional.embedding(places, rows) for rows in classifier]
        return self._from_scores(scores, classifier, hidden, mask, hooks)

    def _from_scores(
        self, scores: Tensor, classifier: list[Tensor], hidden: Tensor, mask: Tensor, hooks: Hooks
    ) -> Tensor:
        """Logits (B, S) from attention before its softmax (B, S, T); contexts are made only where a hook asks."""
        attention = scores.masked_fill(~mask[:, None, :], -torch.inf).softmax(dim=2)
        if hooks.wants("context") or (not self.layered and hooks.wants("classifier")):
            return self._classify(hooks.apply_at("context", attention @ hidden), classifier, hooks)
        if self.layered:
            inner = functional.relu(attention @ functional.linear(hidden, self.inner.weight) + self.inner.bias)
            return self._outer(hooks.apply_at("classifier", self._deeper(inner)), classifier)
        if self.own:
            vectors, bias = classifier
            return (attention * (vectors @ hidden.transpose(1, 2))).sum(dim=2) + bias[..., 0]
        return (attention @ functional.linear(hidden, self.outer.weight))[..., 0] + self.outer.bias

    # single pairs, for augmenters in the context space
    def contexts(self, hidden: Tensor, mask: Tensor, documents: Tensor, labels: Tensor) -> Tensor:
        """c (P, width) of P pairs: documents (P,), rows of the batch in rising order, and labels (P,).

        The pairs of a document are laid side by side, so that hidden vectors are not copied once per pair.
        """
        counts = torch.bincount(documents, minlength=len(hidden))
        first = counts.cumsum(0) - counts
        place = torch.arange(len(documents), device=documents.device) - first[documents]
        padded = labels.new_zeros((len(hidden), int(counts.max())) if len(documents) else (len(hidden), 0))
        padded[documents, place] = labels
        queries = self.queries(padded)
        scores = (queries @ hidden.transpose(1, 2)).masked_fill(~mask[:, None, :], -torch.inf)
        return (scores.softmax(dim=2) @ hidden)[documents, place]

    def pair_logits(
        self,
        contexts: Tensor,
        hidden: Tensor,
        mask: Tensor,
        documents: Tensor,
        labels: Tensor,
        share: Tensor | None = None,
    ) -> Tensor:
        """Logits (P,) of P pairs, documents (P,) and labels (P,), given contexts (P, width); see `ContextHead`."""
        logits = self.classify(contexts, labels)
        if self.word_width:
            whole = (self.documents(hidden, mask)[documents] * self.document(labels)).sum(dim=1)
            logits = logits + (whole if share is None else share * whole)
        return logits

    def separators(self, labels: Tensor) -> Tensor:
        """The classifier's vectors of labels (S,), and behind them what is held against the document's vector."""
        found = [self.vectors(labels)] if self.own else []
        return torch.cat([*found, *([self.document(labels)] if self.word_width else [])], dim=1)

    # what the classifier reads of single pairs
    def feature_size(self, width: int) -> int:
        """The context vector and, where it is read, the document's vector behind it."""
        return width + self.word_width

    def features(self, hidden: Tensor, mask: Tensor, documents: Tensor, labels: Tensor) -> Tensor:
        """(P, feature_size): the contexts of P pairs, with the vectors of their documents where these are read."""
        contexts = self.contexts(hidden, mask, documents, labels)
        if not self.word_width:
            return contexts
        return torch.cat([contexts, self.documents(hidden, mask)[documents]], dim=1)

    def classify(self, contexts: Tensor, labels: Tensor, hooks: Hooks = NONE) -> Tensor:
        """Logits (...) of contexts (..., width) for labels (...), or for labels (S,) of contexts (B, S, width).

        Features, which are wider, have the document's vector, too: its part of the logit is added.
        """
        logits = self._classify(contexts[..., : self.width], self._classifier(labels), hooks)
        if contexts.shape[-1] > self.width:
            logits = logits + (contexts[..., self.width :] * self.document(labels)).sum(dim=-1)
        return logits

    def _classifier(self, labels: Tensor) -> list[Tensor]:
        """What the labels have of their own: vectors (..., width) and bias (..., 1), or nothing."""
        return [self.vectors(labels), self.bias(labels)] if self.own else []

    def _classify(self, contexts: Tensor, classifier: list[Tensor], hooks: Hooks) -> Tensor:
        seen = self._deeper(functional.relu(self.inner(contexts))) if self.layered else contexts
        return self._outer(hooks.apply_at("classifier", seen), classifier)

    def _deeper(self, inner: Tensor) -> Tensor:
        """What the second hidden layer makes of the first (..., hidden), where there is one."""
        return inner if self.second is None else functional.relu(self.second(inner))

    def _outer(self, seen: Tensor, classifier: list[Tensor]) -> Tensor:
        """Logits (...) of what the classifier's vectors are held against (..., width)."""
        if not self.own:
            return self.outer(seen)[..., 0]
        vectors, bias = classifier
        return (seen * vectors).sum(dim=-1) + bias[..., 0]


def document_vectors(word_width: Tensor, mask: Tensor, centre: Tensor) -> Tensor:
    """Unit vectors (B, word_width) of the mean of the tokens' vectors (B, T, word_width), seen from the centre."""
    inside = mask[:, :, None].to(word_width.dtype)
    mean = (word_width * inside).sum(dim=1) / inside.sum(dim=1)
    return functional.normalize(mean - centre, dim=1)
