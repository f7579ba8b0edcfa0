"""The parts of a pipeline, made of what is given, and why some do not go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from longtail.augment.base import Augmenter
from longtail.capabilities import fits
from longtail.errors import UsageError
from longtail.learners.base import Learner
from longtail.part import Part
from longtail.registry import build, entries, name_of


def built(given: Any, base: type[Part], *kinds: str) -> Any:
    """A part from its name or configuration, which must be of the right kind."""
    part = build(given, *kinds)
    if not isinstance(part, base):
        raise UsageError(f"'{name_of(part)}' is not a {kinds[0]}")
    return part


def all_built(name: str, given: Any, base: type[Part], kind: str) -> list[Any]:
    if isinstance(given, str | dict | Part) or not isinstance(given, Sequence):
        raise UsageError(f"{name} takes a list of parts, as in {name}=['{entries(kind)[0].name}']")
    made = [built(part, base, kind) for part in given]
    # scikit-learn's clone checks that a constructor keeps the very list it is given
    return given if isinstance(given, list) and made == given else made


#: Learners of the core work on features; all other spaces are those of networks.
NONE_INSTALLED = "no learner that is installed does; pip install 'longtail[neural]' brings networks, some of which do"


def why_not(augmenter: Augmenter, learner: Learner) -> str:
    """Why a learner does not take an augmenter, and which learners do."""
    fitting = []
    for entry in entries("learner"):  # what a wrapper takes depends on its members
        try:
            can = entry.load()().capabilities
        except UsageError:  # an extra that is not installed
            continue
        if fits(can, augmenter.capabilities):
            fitting.append(f"'{entry.name}'")
    would_do = f"learners that do: {', '.join(fitting)}" if fitting else NONE_INSTALLED
    space = augmenter.capabilities.space
    if space in learner.capabilities.spaces:
        return f"'{name_of(augmenter)}' needs a second stage, which '{name_of(learner)}' does not have; {would_do}"
    return f"'{name_of(augmenter)}' works in the space '{space}', which '{name_of(learner)}' does not open; {would_do}"
