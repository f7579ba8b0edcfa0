"""Why LSFA gains no more than copies do: labels made rare, and prototypes that their other documents would give.

    python benchmarks/lsfa_reason.py [--data DIR] [--rows GLOB] [--fresh]

Of the training documents of vuln-libraries that are not held out (`lsfa.corpora`), nearly all of some labels with many
are set aside. A plain network learns from the rest, and its classifier is tuned with made-up features around prototypes
of what is left or, for the labels made rare, around those of all documents but the held-out ones ("-oracle": no user
has them). Figures are of the held-out documents, none of which a prototype saw; no test document is read. Finished rows
stay in benchmarks/results/lsfa-reason.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import lsfa
from common import RESULTS, WORK, rows_of, run_rows
from longtail import Corpus
from longtail.augment.feature_sources import Around
from longtail.augment.label_features import LabelFeatures
from longtail.augment.lsfa import Lsfa
from longtail.augment.pvae import Pvae
from longtail.fit import Fit
from longtail.run import Run
from longtail.scores import Scores
from tail import figures

RESULT = RESULTS / "lsfa-reason.json"
CORPUS, LEARNER, SEEDS = "vuln-libraries-held-out", "attentionxml", (0, 1, 2)
#: Labels that are made rare, how many documents they have before, how many each is left, and has at most in the end:
#: one that is left to a label may be another one's, too.
MADE, MANY, LEFT, RARE = 80, (12, 50), 2, 5
SETTINGS = ("plain", "covariance", "pvae", "covariance-oracle", "pvae-oracle")
#: Documents that prototypes of frequent labels are made of, to see how far these lie from the mean of all.
COUNTS = (1, 2, 3, 5)
Labels = NDArray[np.int64]


def rows() -> list[dict[str, Any]]:
    return rows_of((CORPUS, LEARNER, SETTINGS, (seed,)) for seed in SEEDS)


def made_rare(train: Corpus, seed: int) -> tuple[Corpus, Corpus, Labels]:
    """Documents to learn from and those set aside, and the labels that were made rare."""
    rng, Y = np.random.default_rng(seed), train.positives().tocsc()
    count = np.diff(Y.indptr)
    chosen = rng.permutation(np.flatnonzero((count >= MANY[0]) & (count <= MANY[1])))[:MADE]
    aside = np.zeros(len(train), dtype=bool)
    aside[Y[:, chosen].tocoo().row] = True
    for label in chosen:
        own = Y.indices[Y.indptr[label] : Y.indptr[label + 1]]
        missing = LEFT - int((~aside[own]).sum())
        if missing > 0:
            aside[rng.choice(own[aside[own]], missing, replace=False)] = False
    rest = train.rows(np.flatnonzero(~aside)).counted()
    seen = np.flatnonzero(rest.labels.frequency)
    rest = rest.columns(seen)
    rare = np.flatnonzero(np.isin(seen, chosen) & (rest.labels.frequency <= RARE))
    return rest, train.rows(np.flatnonzero(aside)).aligned(rest.labels), rare


@dataclass(frozen=True, eq=False)
class Setup:
    """Documents, and features of those learnt from and set aside as the network sees them before it is tuned."""

    rest: Corpus
    held: Corpus
    rare: Labels
    head: Labels
    own: LabelFeatures
    unseen: LabelFeatures

    def prototypes(self) -> NDArray[np.float32]:
        """With those of labels made rare as means over all their documents but the held-out ones."""
        found, rare = self.own.prototypes.copy(), self.rare
        one, other = (each.counts[rare, None].astype(np.float32) for each in (self.own, self.unseen))
        found[rare] = (one * found[rare] + other * self.unseen.prototypes[rare]) / (one + other)
        return found

    def source(self, setting: str, run: Run) -> Any:
        kind, _, oracle = setting.partition("-")
        if kind == "covariance":
            made = Around.covariance(self.own, self.head)
            return Around(self.prototypes(), made.factor) if oracle else made
        network = Pvae.fitted(Lsfa()._shape(), self.own, self.head, run)
        if oracle:  # before anything is drawn
            network.prototypes = self.prototypes()
        return network


def learnt(seed: int, corpus: Corpus) -> Any:
    """A network as the first stage leaves it, kept from row to row."""
    learner = lsfa.tagger_of({"corpus": CORPUS, "learner": LEARNER, "setting": "plain", "seed": seed}).learner
    return Fit(Run(seed, threads=1, checkpoints=WORK / "lsfa-reason" / str(seed))).train(learner, corpus)


@lru_cache(maxsize=1)
def setup(seed: int, data: Path) -> Setup:
    train, held = lsfa.corpora(CORPUS, data)
    rest, aside, rare = made_rare(train, seed)
    learner, run = learnt(seed, rest), Run(seed, threads=1)
    own, unseen = (LabelFeatures.collected(corpus, learner, run) for corpus in (rest, aside))
    head = np.flatnonzero(Lsfa().parted(rest.labels.frequency)[0])
    return Setup(rest, held.aligned(rest.labels).without_unseen(), rare, head, own, unseen)


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    made, seed = setup(row["seed"], data), row["seed"]
    learner, run = learnt(seed, made.rest), Run(seed, threads=1)
    result = {**row, "labels": len(made.rare)}
    if row["setting"] == "plain":
        result["places"] = places(made, np.random.default_rng(seed))
        pairs = {"own": made.own, "unseen": made.unseen}
        result["believed"] = {
            name: believed(learner, each.some(each.rows_of(made.rare)[0]), each.rows_of(made.rare)[1])
            for name, each in pairs.items()
        }
    else:
        part, drawn = Lsfa(contrastive=None), np.repeat(made.rare, 10)
        part.source_, part.prototypes_ = made.source(row["setting"], run), made.own.prototypes
        result["believed"] = {"drawn": believed(learner, part.source_.draw(drawn, run.rng("drawn")), drawn)}
        learner.retune(made.rest, Fit(run), part._vectors(made.rest, run))
    scores = learner.score(made.held, 100, run=run)
    return {**result, "rare": recall(scores, made.held, made.rare), "figures": figures(scores, made.held)}


def believed(learner: Any, vectors: NDArray[np.float32], labels: Labels) -> float:
    """Mean probability that the classifier gives labels at features of theirs, before it is tuned."""
    with torch.no_grad():
        logits = learner.network_.head.classify(torch.from_numpy(vectors), torch.from_numpy(labels))
    return round(float(torch.sigmoid(logits.float()).mean()), 4)


def recall(scores: Scores, held: Corpus, labels: Labels) -> dict[str, float]:
    """Of the pairs of these labels alone: how many there are, and the share found within one and five, in per cent."""
    pairs = held.positives().tocoo()
    wanted = np.isin(pairs.col, labels)
    found = scores.ids[pairs.row[wanted]] == pairs.col[wanted, None]
    shares = {f"recall@{k}": round(100 * float(found[:, :k].any(axis=1).mean()), 2) for k in (1, 5)}
    return {"pairs": int(wanted.sum()), **shares}


def places(made: Setup, rng: np.random.Generator) -> dict[str, Any]:
    """How far prototypes of n documents lie from means of many, in units of how far features of a label lie from it.

    few   of head labels, by n, from the mean of all documents; in how many cases another label's prototype is nearer
    rare  those of the labels made rare, from the mean of unseen documents; and of as many unseen ones, from the others'
    """

    def far(some: NDArray[np.float32], mean: NDArray[np.float32]) -> float:
        return float(np.linalg.norm(some.mean(axis=0) - mean))

    def features(of: LabelFeatures, label: int) -> NDArray[np.float32]:
        return rng.permutation(of.some(of.rows_of(np.array([label]))[0]))

    every, few, ours, chance = made.own.prototypes, {}, [], []
    nearest = np.array([np.partition(np.linalg.norm(every - every[label], axis=1), 1)[1] for label in made.head])
    wide, unseen = (
        np.sqrt(of.variance(labels).sum()) for of, labels in ((made.own, made.head), (made.unseen, made.rare))
    )
    for count in COUNTS:
        off = np.array([far(features(made.own, label)[:count], every[label]) for label in made.head])
        few[str(count)] = [round(float(off.mean() / wide), 4), round(float((off > nearest).mean()), 4)]
    for label in made.rare:
        drawn, count = features(made.unseen, label), int(made.own.counts[label])
        if len(drawn) > count:
            ours.append(far(every[label][None], drawn[count:].mean(axis=0)))
            chance.append(far(drawn[:count], drawn[count:].mean(axis=0)))
    return {"few": few, "rare": [round(float(np.mean(each) / unseen), 4) for each in (ours, chance)]}


def main() -> None:
    run_rows(__doc__ or "", RESULT, "python benchmarks/lsfa_reason.py", rows(), measure)


if __name__ == "__main__":
    main()
