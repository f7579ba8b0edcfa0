"""ECLARE (https://arxiv.org/abs/2108.00261): DECAF with what a label's neighbours in the label graph are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.corpus import Corpus
from longtail.features.tokens import Tokens
from longtail.learners.neural.encoders.base import Encoder
from longtail.learners.neural.heads.base import Head, LabelFacts
from longtail.learners.neural.short_text import ShortTextLearner
from longtail.learners.neural.shortlists.base import Shortlist
from longtail.part import Arrays, option
from longtail.run import Run
from longtail.scores import Scores

#: Labels per document whose scores travel along the graph.
SHORTLIST = 100


@dataclass(kw_only=True)
class Eclare(ShortTextLearner):
    head: Any = option({"part": "label-text", "graph": True}, "what turns that into one score per label")
    word_rate: float = option(0.015, "learning rate of word vectors (measured)", low=0, high=10)
    label_rate: float = option(0.01, "learning rate of free label vectors (measured)", low=0, high=10)
    traverse: float = option(
        0.0, "share of a score that comes from the label's neighbours in the graph (ECLARE: 0.5; measured: 0)",
        low=0, high=1,
    )  # fmt: skip

    def _check_parts(self, encoder: Encoder, head: Head, shortlist: Shortlist) -> None:
        super()._check_parts(encoder, head, shortlist)
        if not getattr(head, "graph", False):
            self._refuse_idle("traverse", "the head is 'label-text' with graph = true")

    def _label_facts(self, corpus: Corpus, run: Run) -> LabelFacts:
        facts = super()._label_facts(corpus, run)
        self.graph_: sp.csr_matrix | None = facts.graph if self.traverse else None
        return facts

    def _score(self, tokens: Tokens, k: int, run: Run) -> Scores:
        if self.graph_ is None:
            return super()._score(tokens, k, run)
        own = super()._score(tokens, max(k, min(SHORTLIST, self.n_labels_)), run).to_csr(self.n_labels_)
        mixed = sp.csr_matrix((1 - self.traverse) * own + self.traverse * (own @ self.graph_))
        mixed.data = np.minimum(mixed.data, np.float32(1)).astype(np.float32)
        return Scores.from_csr(mixed, k)

    # keeping
    def state(self) -> dict[str, NDArray[Any]]:
        kept = super().state()
        if self.graph_ is not None:
            graph = self.graph_
            kept |= {"graph_start": graph.indptr.astype(np.int64), "graph_label": graph.indices.astype(np.int32)}
            kept["graph_weight"] = graph.data
        return kept

    def restore(self, arrays: Arrays) -> None:
        rest = dict(arrays)
        found = [rest.pop(name, None) for name in ("graph_start", "graph_label", "graph_weight")]
        super().restore(rest)
        self.graph_ = None
        if not self.traverse:
            return
        if any(array is None for array in found):
            raise ValueError("the label graph is missing")
        start, label, weight = (np.asarray(array) for array in found)
        L = self.n_labels_
        holds = start.dtype == np.int64 and start.shape == (L + 1,) and start[0] == 0 and (np.diff(start) >= 0).all()
        holds = holds and label.dtype == np.int32 and label.ndim == 1 and start[-1] == len(label)
        if not holds or weight.dtype != np.float32 or weight.shape != label.shape:
            raise ValueError("the label graph is not what it should be")
        if len(label) and (label.min() < 0 or label.max() >= L or not (weight >= 0).all()):
            raise ValueError("the label graph is not what it should be")
        self.graph_ = sp.csr_matrix((weight, label, start), shape=(L, L))
