"""Accuracy against the strength of Taug: the number of noisy copies and the head's share (the paper's figures 2 and 5).

Where a model stands is read from its own configuration, so models trained at any time and in any order compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from longtail.evaluate import Report
from longtail.labels import LabelIndex

KS = (1, 3, 5)
#: What is shown of each model, in per cent.
FIGURES = (*(f"P@{k}" for k in KS), *(f"PSP@{k}" for k in KS), "tail_recall@5")

_NOISE = {"input-dropout": "dropout", "input-swap": "swap"}


@dataclass(frozen=True)
class TaugSettings:
    """What a model's configuration says about Taug.

    learner    the learner underneath, as in bonsai or ensemble(parabel, bonsai)
    rerank     names of its re-rankers
    decoupled  whether head and tail have models of their own
    tau        share of labels in the head; None for a model that treats all labels alike, which the paper writes as 1
    n_aug      noisy copies of each tail document, 0 for none
    noise      what the copies are made by, empty if there are none
    """

    learner: str
    rerank: tuple[str, ...]
    decoupled: bool
    tau: float | None
    n_aug: int
    noise: tuple[str, ...]

    @classmethod
    def of(cls, config: Mapping[str, Any], labels: LabelIndex) -> TaugSettings:
        """The setting in a tagger's configuration; a head given by a count becomes the share of labels it holds."""
        augmenters = [part for part in config["augment"] if part["part"] in _NOISE and part["n_aug"] > 0]
        split = _find(config["learner"], "decoupled")
        tau = augmenters[0]["tau"] if augmenters else None
        if split is not None:
            above = split["head_above"]
            tau = split["tau"] if above is None else round(float(labels.head_by_count(above).mean()), 6)
        return cls(
            learner=_underneath(config["learner"]),
            rerank=tuple(part["part"] for part in config["rerank"]),
            decoupled=split is not None,
            tau=tau,
            n_aug=max((part["n_aug"] for part in augmenters), default=0),
            noise=tuple(sorted(_NOISE[part["part"]] for part in augmenters)),
        )

    @property
    def is_plain(self) -> bool:
        return not self.decoupled and self.n_aug == 0

    def describe(self) -> str:
        """In a few words, for legends: plain, or what differs from it."""
        words = []
        if self.n_aug:
            words.append(f"n_aug {self.n_aug}")
        elif self.decoupled:
            words.append("decoupled")
        if self.tau is not None:
            words.append(f"tau {self.tau:g}")
        return ", ".join([*words, *self.rerank]) or "plain"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "rerank": list(self.rerank), "noise": list(self.noise)}


def _find(config: Any, part: str) -> Mapping[str, Any] | None:
    """The outermost part of that name in a learner's configuration."""
    if isinstance(config, Mapping):
        if config.get("part") == part:
            return config
        config = list(config.values())
    if isinstance(config, list):
        return next((found for inner in config if (found := _find(inner, part)) is not None), None)
    return None


def _underneath(config: Mapping[str, Any]) -> str:
    """The learner without the wrappers that Taug brings."""
    if config["part"] == "decoupled":
        sides = [_underneath(side) for side in (config["learner"], config["tail"]) if side is not None]
        return " and ".join(dict.fromkeys(sides))
    if config["part"] == "ensemble":
        return f"ensemble({', '.join(_underneath(member) for member in config['members'])})"
    return str(config["part"])


@dataclass(frozen=True)
class Measured:
    """A model's setting and its figures on test data, in per cent; None for one that nothing could be counted for."""

    setting: TaugSettings
    figures: dict[str, float | None]

    @classmethod
    def of(cls, setting: TaugSettings, report: Report) -> Measured:
        """The figures of a report over the cut-offs `KS` and the usual bands."""
        values = report.to_dict()
        tail: dict[str, Any] = next((band for band in values["bands"] if band["name"] == "tail"), {})
        figures = {name: values[name] for name in FIGURES if name in values}
        return cls(setting, {**figures, "tail_recall@5": tail.get("recall@5")})


@dataclass(frozen=True)
class Slice:
    """Models that differ in one thing: `against` is "n_aug" or "tau", `fixed` says in words what they share.

    points  value -> the mean figures of the models there, by rising value
    """

    against: str
    fixed: str
    points: dict[float, dict[str, float | None]]
    models: dict[float, int]

    def to_dict(self) -> dict[str, Any]:
        points = [{self.against: value, "models": self.models[value], **self.points[value]} for value in self.points]
        return {"against": self.against, "fixed": self.fixed, "points": points}


def slices(models: Sequence[Measured]) -> list[Slice]:
    """The curves that the models make, each of at least two points; models of one setting (other seeds) are averaged.

    Copies: the model without any is the decoupled one if there is one, else the plain one.
    Head's share: the plain model stands at 1, where every label is a head label.
    """
    by_share = []
    covered = set()
    for shared in dict.fromkeys(_all_but_share(m.setting) for m in models if not m.setting.is_plain):
        learner, rerank, _, n_aug, noise = shared
        members = [m for m in models if not m.setting.is_plain and _all_but_share(m.setting) == shared]
        if len({m.setting.tau for m in members}) < 2:
            continue
        covered.add(shared)
        members += _plain_models(models, learner, rerank)
        words = [learner, *rerank, "+".join(noise), f"n_aug {n_aug}"]
        by_share.append(_slice("tau", words, [(1.0 if (t := m.setting.tau) is None else t, m) for m in members]))
    by_copies = []
    for key in dict.fromkeys(_all_but_copies(m.setting) for m in models if m.setting.n_aug):
        learner, rerank, decoupled, tau, noise = key
        members = [m for m in models if m.setting.n_aug and _all_but_copies(m.setting) == key]
        without = [m for m in models if not m.setting.n_aug and _all_but_copies(m.setting)[:4] == key[:4]]
        if not without and {_all_but_share(m.setting) for m in members} <= covered and _one_n_aug(members):
            continue  # it and the plain model are two points of the curve over the head's share
        members += without if decoupled and without else _plain_models(models, learner, rerank)
        words = [learner, *rerank, "+".join(noise), f"tau {tau:g}" if tau is not None else ""]
        by_copies.append(_slice("n_aug", words, [(float(m.setting.n_aug), m) for m in members]))
    return [one for one in by_copies + by_share if len(one.points) > 1]


def _one_n_aug(models: Sequence[Measured]) -> bool:
    return len({m.setting.n_aug for m in models}) == 1


def _all_but_copies(setting: TaugSettings) -> tuple[str, tuple[str, ...], bool, float | None, tuple[str, ...]]:
    return setting.learner, setting.rerank, setting.decoupled, setting.tau, setting.noise


def _all_but_share(setting: TaugSettings) -> tuple[str, tuple[str, ...], bool, int, tuple[str, ...]]:
    return setting.learner, setting.rerank, setting.decoupled, setting.n_aug, setting.noise


def _plain_models(models: Sequence[Measured], learner: str, rerank: tuple[str, ...]) -> list[Measured]:
    return [m for m in models if m.setting.is_plain and (m.setting.learner, m.setting.rerank) == (learner, rerank)]


def _slice(against: str, words: Sequence[str], members: Sequence[tuple[float, Measured]]) -> Slice:
    values = sorted({value for value, _ in members})
    there = {value: [m for at, m in members if at == value] for value in values}
    points = {value: {name: _mean([m.figures[name] for m in there[value]]) for name in FIGURES} for value in values}
    return Slice(against, ", ".join(filter(None, words)), points, {value: len(there[value]) for value in values})


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 4) if known else None
