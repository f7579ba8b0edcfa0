"""What LSFA changes: the numbers behind the paper's figures 1 (label distribution, macro P@5 by bins of labels), 4
(ablation), 5 (N_t and N_a) and 6 (features in the plane), from trained models.

Where a model stands is read from its own configuration; prototypes and generator are those that it keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from longtail.augment.lsfa import Lsfa
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.evaluate import Report
from longtail.registry import config_of, name_of
from longtail.run import Run

if TYPE_CHECKING:
    from longtail.tagger import Tagger

KS = (1, 3, 5)
#: What is shown of each model, in per cent; figure 4 has the last three.
FIGURES = ("P@1", "PSP@1", "P@5", "nDCG@5", "PSP@5")
#: Figure 6: features of a label in the plane, real and made up, at most.
SHOWN = 60
#: Points of a curve over labels.
POINTS = 60


@dataclass(frozen=True)
class LsfaSettings:
    """What a model's configuration says about LSFA.

    letter       of the paper's ablation: A all of it, B no contrastive loss, C no augmentation either, D no attention
                 per label either; empty for any other model
    contrastive  whether the contrastive loss had its say
    generator    what features were drawn from, or None
    threshold    N_t, or None where nothing was drawn
    times        N_a
    options      of lsfa beside these
    """

    letter: str
    description: str
    learner: str
    contrastive: bool
    generator: str | None
    threshold: int | None
    times: int | None
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, tagger: Tagger) -> LsfaSettings:
        part = lsfa_of(tagger)
        others = [name_of(each) for each in tagger.augment if each is not part]
        loss = "contrastive" in others or (part is not None and part.contrastive is not None)
        drawn = part is not None and part.generator != "none"
        head = getattr(tagger.learner, "head", None)
        pooled = head is not None and name_of(head) == "pooled"
        letter = ""
        if part is not None and part.generator == "pvae" and not others:
            letter = "A" if loss else "B"
        elif part is None and not others and not tagger.rerank and head is not None:
            letter = "D" if pooled else "C" if name_of(head) == "label-attention" else ""
        words = [f"lsfa {part.generator}" if part is not None else "", *others]
        words += ["contrastive"] if loss and part is not None else []
        words += [name_of(each) for each in tagger.rerank] + (["pooled"] if pooled else [])
        return cls(
            letter,
            ", ".join(filter(None, words)) or ("plain" if letter else name_of(tagger.learner)),
            name_of(tagger.learner),
            loss,
            part.generator if part is not None and drawn else None,
            part.threshold_of(tagger.labels_.frequency) if part is not None and drawn else None,
            part.times if part is not None and drawn else None,
            {} if part is None else {k: v for k, v in config_of(part).items() if k not in ("threshold", "times")},
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def lsfa_of(tagger: Tagger) -> Lsfa | None:
    return next((part for part in tagger.augment if isinstance(part, Lsfa)), None)


def measured(report: Report, size: int) -> dict[str, Any]:
    """Figures of a model on test documents, and macro P@5 by bins of labels (figure 1b)."""
    values = report.to_dict()
    bins = [
        {name: row[name] for name in ("bin", "most", "least", "labels", "labels_true", "macro_P@5")}
        for row in report.frequency_bins(size)
    ]
    return {**{name: values[name] for name in FIGURES}, "bins": bins}


def checks(tagger: Tagger) -> dict[str, float] | None:
    """How like real features those are that a model made up, as it was found when it was trained."""
    return dict(getattr(lsfa_of(tagger), "checks_", {})) or None


# figure 1a
def distribution(part: Lsfa, train: Corpus) -> dict[str, Any]:
    """Documents or examples of each label, by rank: as they are, and with tail labels augmented in two ways.

    sample_level  documents with a tail label repeated N_a times, and with them all of their labels
    pair_level    N_a examples of each tail label alone: what LSFA does
    """
    counts = np.bincount(train.positives().indices, minlength=train.n_labels)
    tail = part.parted(counts)[1]
    Y = train.positives()
    having = np.diff(Y[:, np.flatnonzero(tail)].indptr) > 0
    sample = counts + part.times * np.bincount(Y[np.flatnonzero(having)].indices, minlength=train.n_labels)
    pair = counts + part.times * tail
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    ranks = np.unique(np.geomspace(1, len(order), POINTS).round().astype(np.int64)) if len(order) else np.zeros(0, int)
    points = [
        {
            "rank": int(rank),
            "original": int(counts[order[rank - 1]]),
            "sample_level": int(sample[order[rank - 1]]),
            "pair_level": int(pair[order[rank - 1]]),
        }
        for rank in ranks
    ]
    return {"N_t": part.threshold_of(counts), "N_a": part.times, "labels": len(order), "points": points}


# figures 4 and 5
def ablation(models: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Mean figures of the models of each letter, A to D: of the first one, and of those that differ in their seed."""
    found = []
    for letter in "ABCD":
        members = [model for model in models if model["letter"] == letter]
        if members:
            members = [model for model in members if _setting(model) == _setting(members[0])]
            found.append({"letter": letter, "models": len(members), **_means(members)})
    return found


def curves(models: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Figures against N_t and against N_a, of models that differ in nothing else but their seed."""
    found = []
    drawn = [model for model in models if model["generator"] is not None]
    for against, fixed in (("threshold", "times"), ("times", "threshold")):
        for key in dict.fromkeys(_rest(model, fixed) for model in drawn):
            members = [model for model in drawn if _rest(model, fixed) == key]
            values = sorted({model[against] for model in members})
            if len(values) < 2:
                continue
            points = []
            for value in values:
                there = [model for model in members if model[against] == value]
                points.append({against: value, "models": len(there), **_means(there)})
            found.append({"against": against, fixed: key[-1], "description": key[1], "points": points})
    return found


def _rest(model: Mapping[str, Any], fixed: str) -> tuple[Any, ...]:
    return model["learner"], model["description"], str(model["options"]), model[fixed]


def _setting(model: Mapping[str, Any]) -> tuple[Any, ...]:
    return model["learner"], str(model["options"]), model["threshold"], model["times"]


def _means(models: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    means: dict[str, float | None] = {}
    for name in FIGURES:
        known = [model[name] for model in models if model[name] is not None]
        means[name] = round(sum(known) / len(known), 4) if known else None
    return means


# figure 6
def plane(tagger: Tagger, train: Corpus, labels: NDArray[np.int64], run: Run) -> dict[str, Any]:
    """Real and made-up features of some labels, laid out together in the plane by t-SNE."""
    from sklearn.manifold import TSNE

    part = lsfa_of(tagger)
    source = None if part is None else getattr(part, "source_", None)
    if part is None or source is None:
        raise UsageError("figure 6 needs a model that keeps a generator: lsfa with pvae, covariance or noise")
    Y = train.positives().tocsc()
    rng = run.rng("plane")
    documents = [np.sort(rng.permutation(Y.indices[Y.indptr[each] : Y.indptr[each + 1]])[:SHOWN]) for each in labels]
    whose = np.repeat(labels, [len(each) for each in documents])
    learner: Any = tagger.learner
    real = np.empty((len(whose), learner.feature_size), dtype=np.float32)
    learner.label_features(train, np.concatenate(documents).astype(np.int64), whose, real, run=run)
    made_of = np.repeat(labels, np.maximum(10, [len(each) // 2 for each in documents]))
    made = source.draw(made_of, rng)
    together = np.concatenate([real, made])
    near = max(2.0, min(30.0, (len(together) - 1) / 4))
    laid = TSNE(perplexity=near, init="pca", random_state=run.seed_of("tsne") % (1 << 31)).fit_transform(together)
    names = train.labels
    return {
        "contrastive": part.contrastive is not None,
        "labels": [{"label": names.names[each], "documents": int(names.frequency[each])} for each in labels],
        "real": _points(laid[: len(real)], whose, labels),
        "generated": _points(laid[len(real) :], made_of, labels),
    }


def _points(laid: NDArray[np.float32], whose: NDArray[np.int64], labels: NDArray[np.int64]) -> list[dict[str, Any]]:
    places = np.searchsorted(labels, whose, sorter=np.argsort(labels))
    places = np.argsort(labels)[places]
    return [
        {"label": int(place), "x": round(float(x), 3), "y": round(float(y), 3)}
        for place, (x, y) in zip(places, laid, strict=True)
    ]


def chosen_labels(part: Lsfa, train: Corpus) -> NDArray[np.int64]:
    """A head label and two tail labels to look at: the least frequent of the head, the most frequent of the tail."""
    counts = train.labels.frequency
    head, tail = (np.flatnonzero(mask) for mask in part.parted(counts))
    one = head[np.argsort(counts[head], kind="stable")][:1]
    two = tail[np.argsort(-counts[tail], kind="stable")][:2]
    return np.concatenate([one, two]).astype(np.int64)


def same_but_loss(taggers: Sequence[Tagger]) -> list[Tagger]:
    """The first model without the contrastive loss and the first with it, of those that keep a generator."""
    found: dict[bool, Tagger] = {}
    for tagger in taggers:
        part = lsfa_of(tagger)
        if part is not None and hasattr(part, "source_") and config_of(part)["generator"] != "copies":
            found.setdefault(part.contrastive is not None, tagger)
    return [found[key] for key in sorted(found)]


def of_training(taggers: Sequence[Tagger], train: Corpus | None, run: Run) -> dict[str, Any]:
    """What needs the training documents: the label distribution, and features in the plane; nothing without them."""
    parts = [part for tagger in taggers if (part := lsfa_of(tagger)) is not None and part.generator != "none"]
    if train is None:
        return {"distribution": None, "planes": []}
    if not parts:
        raise UsageError("--train is for models with lsfa, of which none is given")
    labels = taggers[0].labels_
    train = train.aligned(labels)
    alike = [tagger for tagger in taggers if list(tagger.labels_.names) == list(labels.names)]
    planes = [plane(tagger, train, chosen_labels(parts[0], train), run) for tagger in same_but_loss(alike)]
    return {"distribution": distribution(parts[0], train), "planes": planes}
