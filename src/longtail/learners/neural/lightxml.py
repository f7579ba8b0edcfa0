"""LightXML (https://arxiv.org/abs/2101.03305): a Transformer's first token, and groups of labels where these are many.

Up to `flat` labels one separator per label is learnt, all at once. Beyond, labels are put into groups of similar ones,
and groups and labels are learnt together (dynamic negative sampling): at each step a document is shown the labels of
the groups that score best at that moment, its true groups among them, behind a bottleneck. A label's score is its
probability times its group's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from longtail.augment.base import LabelVectors
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features.tokens import Tokens
from longtail.fit import Fit
from longtail.learners.neural.base import NeuralLearner
from longtail.learners.neural.encoders.base import Encoder
from longtail.learners.neural.heads.base import Head
from longtail.learners.neural.heads.pooled import Pooled
from longtail.learners.neural.shortlists.base import LabelChoice, Shortlist
from longtail.part import Arrays, option
from longtail.plan import Sizes, Stage
from longtail.registry import build, config_of, name_of
from longtail.run import Run
from longtail.scores import Scores

#: What options of groups need.
WITH_GROUPS = {"groups": ("auto", "always")}
#: No label is so frequent that it is a group by itself.
NO_HEAD = 2**62


@dataclass(kw_only=True)
class LightXML(NeuralLearner):
    encoder: Any = option("first-tokens", "what turns a text into one vector")
    head: Any = option(
        {"part": "pooled", "bias": -6.0, "strength": 10.0}, "what turns that into one score per label, without groups"
    )
    shortlist: Any = option(
        "sampled-labels", "which labels a loss is taken over, without groups (measured; LightXML: all-labels)"
    )
    epochs: int | None = option(
        None, "passes over the documents; none: 10, more on small corpora, see least_steps (LightXML: 20 to 30)",
        low=1, high=100_000, only={"steps": None},
    )  # fmt: skip
    rate: float = option(1e-4, "learning rate of layers (LightXML)", low=0, high=10)
    label_rate: float = option(0.01, "learning rate of label vectors (measured; LightXML: 1e-4)", low=0, high=10)
    decay: float = option(0.01, "weight decay of layers (LightXML)", low=0, high=10)
    average: float | None = option(
        0.5, "share of the training after which weights are averaged (LightXML: a third to a half), or none",
        low=0, high=1,
    )  # fmt: skip
    average_every: int = option(10, "steps between the weights that enter the average (LightXML: 200)", low=1)
    groups: str = option(
        "auto", "label groups: auto (above `flat` labels), always, never", choices=("auto", "always", "never")
    )
    flat: int = option(20_000, "labels up to which all are told apart at once", low=1, only={"groups": "auto"})
    group_size: int = option(100, "maximum labels per group (LightXML)", low=1, high=65_535, only=WITH_GROUPS)
    candidates: int = option(
        32,
        "groups per document whose labels are looked at (LightXML: 32 and 75)",
        low=1,
        high=100_000,
        only=WITH_GROUPS,
    )
    bottleneck: int = option(256, "numbers of a label's vector behind groups (LightXML: 400 and 500)", low=1, high=8192,
                             only=WITH_GROUPS)  # fmt: skip

    default_epochs: ClassVar[int] = 10

    def _check_parts(self, encoder: Encoder, head: Head, shortlist: Shortlist) -> None:
        super()._check_parts(encoder, head, shortlist)
        if self.groups == "always" and config_of(shortlist) != config_of(build("sampled-labels")):
            raise UsageError("lightxml.shortlist counts only where there are no groups; leave it out")
        if self.groups != "never" and not isinstance(head, Pooled):
            raise UsageError(
                f"groups need 'pooled' as lightxml.head, not '{name_of(head)}'; or set lightxml.groups to never"
            )

    def _has_groups(self, n_labels: int) -> bool:
        return self.groups == "always" or (self.groups == "auto" and n_labels > self.flat)

    def _grouped(self) -> LightXML:
        """The same learner, whose head and shortlist are those for many labels; they share the encoder."""
        own = {name: value for name, value in config_of(self).items()
               if name not in ("flat", "group_size", "candidates", "bottleneck")}  # fmt: skip
        head = {"part": "bottleneck", "size": self.bottleneck}
        head |= {"bias": self.head.bias, "strength": self.head.strength, "pooling": self.head.pooling}
        clusters = {"part": "label-clusters", "size": self.group_size, "candidates": self.candidates,
                    "head_labels": NO_HEAD, "blocks": False}  # fmt: skip
        made = build({**own, "groups": "never", "head": head, "shortlist": clusters}, "learner")
        assert isinstance(made, LightXML)
        made.encoder = self.encoder
        return made

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        return self._grouped().plan(sizes, run) if self._has_groups(sizes.labels) else super().plan(sizes, run)

    def plan_retune(self, sizes: Sizes, run: Run) -> list[Stage]:
        grouped = self._has_groups(sizes.labels)
        return self._grouped().plan_retune(sizes, run) if grouped else super().plan_retune(sizes, run)

    # fitting
    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        self.many_: LightXML | None = None
        if not self._has_groups(corpus.n_labels):
            return super().learn(corpus, fit)
        self.many_ = self._grouped().learn(corpus, fit)
        self.network_ = self.many_.network_
        self.n_labels_, self.n_features_ = corpus.n_labels, None
        return self

    def retune(self, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None) -> Self:
        if self.many_ is None:
            return super().retune(corpus, fit, vectors)
        self.many_.retune(corpus, fit, vectors)
        return self

    def retune_choice(self, corpus: Corpus, tokens: Tokens, run: Run) -> LabelChoice:
        whose: NeuralLearner = self if self.many_ is None else self.many_
        return NeuralLearner.retune_choice(whose, corpus, tokens, run)

    # scoring
    def _score(self, tokens: Tokens, k: int, run: Run) -> Scores:
        return super()._score(tokens, k, run) if self.many_ is None else self.many_._score(tokens, k, run)

    # keeping
    def state(self) -> dict[str, Any]:
        return super().state() if self.many_ is None else self.many_.state()

    def restore(self, arrays: Arrays) -> None:
        self.many_ = None
        labels = arrays["labels"]
        if labels.shape != (1,) or labels.dtype != np.int64 or not self._has_groups(int(labels[0])):
            super().restore(arrays)
            return
        many = self._grouped()
        many.restore(arrays)
        self.many_, self.network_ = many, many.network_
        self.n_labels_, self.n_features_ = many.n_labels_, None
