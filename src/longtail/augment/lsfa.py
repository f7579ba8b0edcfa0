"""LSFA (https://doi.org/10.1609/aaai.v37i9.26259), feature augmentation per label: made-up features of rare labels.

    first stage   the network is trained with a contrastive loss beside cross entropy (`contrastive`)
    judged        features of positive pairs and prototypes; a PVAE learns from labels with many documents how features
                  lie around a prototype, and draws N_a features for each label with few
    second stage  the classifier is tuned again, with these as positive examples beside the documents (equation 19)

In place of the PVAE there are its controls, which need no network: `generator`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from longtail import fit as fits
from longtail.augment.base import Augmenter, Judged, LabelVectors, VectorSource
from longtail.augment.feature_sources import Around, Copies
from longtail.augment.hooks import Hook
from longtail.augment.label_features import LabelFeatures, mapped
from longtail.capabilities import Capabilities
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.fit import Fit
from longtail.labels import LabelIndex
from longtail.part import Arrays, option, prefixed, under
from longtail.plan import Sizes, Stage
from longtail.registry import build, config_of, name_of
from longtail.run import Run

GENERATORS = ("pvae", "covariance", "noise", "copies", "none")
#: What a threshold is chosen by: N_t of the paper on EUR-Lex, and the share and number of labels in the head.
MOST_THRESHOLD, LEAST_SHARE, LEAST_HEAD = 50, 0.05, 10
WITH_PVAE = {"generator": "pvae"}
DRAWN = {"generator": ("pvae", "covariance", "noise", "copies")}


@dataclass(kw_only=True)
class Lsfa(Augmenter):
    """Learns around which prototypes features of frequent labels lie, and how, and makes up some of rare labels."""

    space: ClassVar[str] = "classifier"
    kept: ClassVar[bool] = True

    contrastive: Any = option("contrastive", "loss beside cross entropy in the first stage, or none")
    generator: str = option(
        "pvae",
        "what features are drawn from: pvae; covariance (of head labels, around the prototype); noise (around it, in "
        "all directions); copies (real ones again); none (the classifier is tuned again, no more)",
        choices=GENERATORS,
    )
    threshold: int | None = option(
        None, "documents that part head from tail labels (N_t; paper: 50 to 1000); none: 50, fewer where few labels "
        "have as many", low=1, only=DRAWN,
    )  # fmt: skip
    boundary: str = option(
        "below", "tail labels have fewer documents than N_t (paper), or up to N_t (LSFA's code)",
        choices=("below", "up-to"), only=DRAWN,
    )  # fmt: skip
    times: int = option(10, "features per tail label (N_a; paper: 10 to 500)", low=1, high=10_000, only=DRAWN)
    weight: float = option(1.0, "of their loss (gamma; paper: 1)", low=0, high=1000, only=DRAWN)
    draws: str = option("anew", "features are drawn anew whenever they have their say, or once (LSFA's code)",
                        choices=("anew", "once"), only=DRAWN)  # fmt: skip
    passes: str = option(
        "jointly", "documents and features at every step (paper), or passes over either in turns (LSFA's code)",
        choices=("jointly", "in-turns"), only=DRAWN,
    )  # fmt: skip
    objective: str = option(
        "evidence", "of the PVAE: evidence (equation 16, weight 1), or released (mean squared error + 0.005 KL)",
        choices=("evidence", "released"), only=WITH_PVAE,
    )  # fmt: skip
    residual: bool = option(
        True, "the PVAE models what is left of a feature without its prototype (paper: no)", only=WITH_PVAE
    )
    likelihood: bool = option(
        True, "features vary around what the PVAE decodes as its likelihood does (paper: no)",
        only={**WITH_PVAE, "objective": "evidence"},
    )  # fmt: skip
    prior: str = option(
        "fitted", "z of the PVAE is drawn from a Gaussian fitted to the head's (measured), or from N(0, I) (paper)",
        choices=("fitted", "standard"), only=WITH_PVAE,
    )  # fmt: skip
    hidden: int = option(256, "width of the PVAE's hidden layers (LSFA's code: 512)", low=1, high=8192, only=WITH_PVAE)
    latent: int = option(64, "width of the PVAE's latent variable (LSFA's code: 300)", low=1, high=8192, only=WITH_PVAE)
    epochs: int = option(12, "passes of the PVAE over head labels' features, at most (LSFA's code: 100)",
                         low=1, high=10_000, only=WITH_PVAE)  # fmt: skip
    rate: float = option(2e-3, "learning rate of the PVAE (LSFA's code: 1e-4)", low=1e-6, high=1, only=WITH_PVAE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.contrastive is not None:
            self.contrastive = build(self.contrastive, "augmenter")
            if not isinstance(self.contrastive, Hook) or self.contrastive.capabilities.space != "context":
                raise UsageError(f"'{name_of(self.contrastive)}' is no loss on context vectors: take 'contrastive'")

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(spaces=(self.space,), judge=True)

    def first_stage(self) -> Sequence[Augmenter]:
        return () if self.contrastive is None else (self.contrastive,)

    # head and tail
    def threshold_of(self, frequency: NDArray[np.int64]) -> int:
        """N_t: as given, or 50, or as few as give a head of one label in twenty."""
        if self.threshold is not None:
            return self.threshold
        seen = np.sort(frequency[frequency > 0])[::-1]
        rank = min(max(LEAST_HEAD, int(np.ceil(LEAST_SHARE * len(seen)))), max(1, len(seen) // 2))
        return int(np.clip(seen[rank - 1] if len(seen) else 2, 2, MOST_THRESHOLD))

    def parted(self, frequency: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Head and tail labels, masks (L,); labels without documents are neither."""
        most = self.threshold_of(frequency) - (self.boundary == "below")
        return frequency > most, (frequency > 0) & (frequency <= most)

    @property
    def learns(self) -> bool:
        """Whether it learns from head labels."""
        return self.generator in ("pvae", "covariance", "noise")

    def check(self, corpus: Corpus) -> None:
        if self.generator == "none":
            return
        labels: LabelIndex = corpus.labels
        head, tail = self.parted(labels.frequency)
        threshold, more = self.threshold_of(labels.frequency), "more than" if self.boundary == "up-to" else "at least"
        if not tail.any():
            raise UsageError(
                f"lsfa makes up features of labels with few documents, and every label of {corpus.name} has {more} "
                f"{threshold}: raise lsfa.threshold or leave lsfa out"
            )
        if self.learns and not head.any():
            most = int(np.argmax(labels.frequency))
            raise UsageError(
                f"lsfa learns from labels with {more} {threshold} documents, and {corpus.name} has none (the most, "
                f"{labels.frequency[most]}, has '{labels.names[most]}'): lower lsfa.threshold"
            )

    # what a fit needs
    def plan_judged(self, learner: Any, sizes: Sizes, run: Run) -> list[Stage]:
        """Features lie in a file that is mapped; prototypes stay, and so do features that are drawn once."""
        if self.generator == "none":
            return []
        cost = learner.encoder.cost(1)
        width = cost.width + cost.word_width
        features, prototypes = 2 * width * sizes.pairs, 4 * width * sizes.labels
        tail = int(self.parted(sizes.frequency)[1].sum())
        drawn = 4 * width * self.times * tail if self.draws == "once" else 0
        work = 16 * width * (width + 1024) + 64 * width * 1024
        stages = [Stage("features", sizes.documents / 400, features + prototypes, features + prototypes)]
        if self.generator == "pvae":
            numbers = self.hidden * (4 * width + 3 * self.latent)
            steps = self.epochs * min(100, 1 + sizes.pairs // 256) / 2
            around = 2 * prototypes if self.prior == "fitted" else 0  # what draws are centred and widened by
            seconds = steps * numbers * 256 * 3 / 4e9 + around / 2e8
            stages.append(Stage("pvae", seconds, 20 * numbers + work + 2 * around, 4 * numbers + around))
        left = 0 if self.generator == "copies" else -features
        return [*stages, Stage("draw", 1 + drawn / 1e8, drawn + work, drawn + left)]

    # between the stages
    def judged(self, corpus: Corpus, judge: Any, fit: Fit) -> Judged:
        vars(self).pop("source_", None)
        vars(self).pop("prototypes_", None)
        self.checks_: dict[str, float] = {}
        learner = judge.learner
        if not hasattr(learner, "label_features"):
            raise UsageError(f"'{name_of(self)}' makes up features, which '{name_of(learner)}' does not open")
        if self.generator == "none":
            return Judged(corpus)
        if self.passes == "in-turns" and learner.retune_epochs == 1:
            raise UsageError("lsfa.passes = in-turns needs two passes or more: raise retune_epochs of the learner")
        key = fit.key([config_of(self), config_of(learner)], corpus) if fit.run.checkpoints is not None else ""
        found = None if self.generator == "copies" else fit.recall(key)
        if found is None:
            begun = time.perf_counter()
            self._learn(corpus, learner, fit.run)
            if time.perf_counter() - begun >= fits.KEPT_FROM:
                fit.keep(key, self.state())
        else:
            with fit.run.earlier():
                self.restore(found)
        return Judged(corpus, self._vectors(corpus, fit.run))

    def _learn(self, corpus: Corpus, learner: Any, run: Run) -> None:
        with run.stage("features"):
            features = LabelFeatures.collected(corpus, learner, run)
            self.prototypes_ = features.prototypes
        head = np.flatnonzero(self.parted(corpus.labels.frequency)[0] & (features.counts > 0))
        if self.learns and not len(head):
            raise UsageError(f"lsfa learns from frequent labels, of which this part of {corpus.name} has no document")
        with run.stage("pvae"):
            self.source_: Any = self._source(features, head, run)
        if self.learns:
            from longtail.augment.lsfa_checks import checked

            self.checks_ = checked(self.source_, features, head, run)

    def _source(self, features: LabelFeatures, head: NDArray[np.int64], run: Run) -> VectorSource:
        if self.generator == "copies":
            return Copies(features)
        if self.generator == "noise":
            return Around.noise(features, head)
        if self.generator == "covariance":
            return Around.covariance(features, head)
        from longtail.augment.pvae import Pvae

        return Pvae.fitted(self._shape(), features, head, run)

    def _shape(self) -> Any:
        from longtail.augment.pvae import Shape

        return Shape(
            hidden=self.hidden, latent=self.latent, objective=self.objective, residual=self.residual,
            noise=self.likelihood, prior=self.prior, epochs=self.epochs, rate=self.rate,
        )  # fmt: skip

    def _vectors(self, corpus: Corpus, run: Run) -> LabelVectors:
        """N_a examples of each tail label that has a prototype."""
        tail = self.parted(corpus.labels.frequency)[1]
        known = np.bincount(corpus.documents_only().positives().indices, minlength=corpus.n_labels) > 0
        labels = np.repeat(np.flatnonzero(tail & known), self.times).astype(np.int64)
        rng, in_turns = run.rng("features"), self.passes == "in-turns"
        if self.draws == "anew":
            # one of each tells a second stage that goes on from one with another source
            told = self.source_.draw(labels[:: self.times], rng)
            return LabelVectors(labels, told, self.source_, self.weight, in_turns)
        made = mapped((len(labels), self.prototypes_.shape[1]), np.float32)
        for start in range(0, len(labels), 4096):
            made[start : start + 4096] = self.source_.draw(labels[start : start + 4096], rng)
        return LabelVectors(labels, made, None, self.weight, in_turns)

    # keeping
    def state(self) -> dict[str, NDArray[Any]]:
        if not hasattr(self, "prototypes_"):
            return {}
        state: dict[str, NDArray[Any]] = {"prototypes": self.prototypes_}
        if self.generator == "pvae":
            state |= prefixed("pvae", self.source_.state())
        elif self.generator in ("noise", "covariance"):
            state["factor"] = self.source_.factor
        names = [name for name in self.checks_ if np.isfinite(self.checks_[name])]
        return state | {f"checks.{name}": np.array([self.checks_[name]], dtype=np.float64) for name in names}

    def restore(self, arrays: Arrays) -> None:
        checks = under("checks", arrays)
        rest = {name: array for name, array in arrays.items() if not name.startswith("checks.")}
        if self.generator == "none":
            super().restore(rest)
            return
        prototypes = rest["prototypes"]
        if prototypes.ndim != 2 or prototypes.dtype != np.float32 or not prototypes.size:
            raise ValueError("'prototypes' must be a table of numbers")
        if any(check.shape != (1,) or check.dtype != np.float64 for check in checks.values()):
            raise ValueError("'checks' must be numbers")
        self.prototypes_, self.n_labels_ = prototypes, len(prototypes)
        self.checks_ = {name: float(check[0]) for name, check in checks.items()}
        if self.generator == "pvae":
            from longtail.augment.pvae import Pvae

            self.source_ = Pvae.restored(self._shape(), prototypes, under("pvae", rest))
        elif self.generator in ("noise", "covariance"):
            factor, width = rest["factor"], prototypes.shape[1]
            expected = (width,) if self.generator == "noise" else (width, width)
            if factor.shape != expected or factor.dtype != np.float32:
                raise ValueError(f"'factor' must have the shape {expected}")
            self.source_ = Around(prototypes, factor)
