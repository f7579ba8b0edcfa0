"""Tables of parts as TOML has them: written out with every option, and changed by settings such as learner.trees=1.

No part is built here, but for the question whether a learner reads features.
"""

from __future__ import annotations

import datetime
import tomllib
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from longtail.errors import UsageError, nearest
from longtail.features.base import USUAL_FEATURES
from longtail.part import default_of, require_field
from longtail.registry import build, check_bounds, entries, find, lookup

#: What a run is made of: the options of a pipeline.
KEYS = ("learner", "features", "augment", "rerank")


def parse_value(text: str) -> Any:
    """A value as TOML writes it; a bare word is a string."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # not TOML, or a number or a nesting beyond what Python reads
        return text
    value = parsed["value"]
    if len(parsed) > 1 or isinstance(value, datetime.date | datetime.time):
        return text
    return value


# written out
def written_out(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a part with all its options, given or by default, those of the parts inside it, too.

    Names that are not registered stay as they are: who builds the part knows what kind belongs there.
    """
    check_bounds(table)
    name = table["part"]
    cls = find(name).load()
    for key in table:
        if key != "part":
            require_field(cls, key)
    hints = typing.get_type_hints(cls)
    options = {f.name: _written(table.get(f.name, default_of(f)), hints[f.name]) for f in fields(cls)}
    return {"part": name, **options}


def _written(value: Any, hint: Any) -> Any:
    """A value of an option with that type; options of type Any or list[Any] hold parts."""
    # TOML has no empty value: the word "none" stands for it in options that may be empty
    if value == "none" and (hint is Any or type(None) in typing.get_args(hint)):
        return None
    if isinstance(value, list):
        return [_written(inner, Any) if hint == list[Any] else inner for inner in value]
    if hint is not Any:
        return value
    if isinstance(value, str) and _registered(value):
        return written_out({"part": value})
    if isinstance(value, Mapping) and _registered(value.get("part")):
        return written_out(value)
    return value


def _registered(name: Any) -> bool:
    return isinstance(name, str) and name != "auto" and lookup(name) is not None


# changed by settings
def change(table: dict[str, Any], settings: Sequence[str]) -> None:
    """Applies "path=value" settings, one after the other, to the written-out table of a pipeline."""
    for setting in settings:
        path, equals, text = setting.partition("=")
        steps = path.strip().split(".")
        if not equals or not path.strip():
            raise UsageError(f"--set takes path=value, as in learner.trees=1, not '{setting}'")
        value = parse_value(text.strip())
        try:
            _change_one(table, steps, value)
        except UsageError as error:
            raise UsageError(f"--set {setting}: {error}") from None


def _change_one(table: dict[str, Any], steps: list[str], value: Any) -> None:
    first = steps[0]
    if first in KEYS:
        if len(steps) < 2:
            raise UsageError(f"name one of its options, as in {first}.option=value")
        _assign(table, steps, value)
        return
    if any(entry.name == first for entry in entries("features")):
        _settle_features(table)
    inside = [part for key in KEYS for part in _parts(table[key])]
    found = [part for part in inside if part["part"] == first]
    if not found or len(steps) < 2:
        known = {*KEYS, *(str(part["part"]) for part in inside)}
        raise UsageError(f"this run has no '{first}'; {nearest(first, known)}")
    for part in found:
        _assign(part, steps[1:], value)


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every table of a part inside a value, outermost first."""
    if isinstance(value, dict):
        if "part" in value:
            yield value
        for inner in value.values():
            yield from _parts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _parts(inner)


def _assign(target: Any, path: list[str], value: Any) -> None:
    """Sets a value deep inside a table; numbers in the path count list items from 0."""
    for depth, step in enumerate(path):
        key = _key(target, step, path[depth - 1] if depth else "")
        if depth == len(path) - 1:
            if step == "part" and isinstance(target, dict):
                raise UsageError("parts are chosen by --learner, --augment, --rerank or a recipe")
            if isinstance(target[key], dict) and "part" in target[key] and not _alike(value, target[key]["part"]):
                raise UsageError(f"name one of its options, as in {'.'.join(path)}.option=value")
            target[key] = _written(value, _hint(target, key))
        else:
            if key == "features" and target[key] == "auto":
                target[key] = _features_of(target)
            target = target[key]


def _alike(value: Any, part: str) -> bool:
    """Whether a value names a part of the same kind, which may take the other's place with its defaults."""
    return _registered(value) and find(value).kind == find(part).kind


def _key(target: Any, step: str, before: str) -> Any:
    """Where a step leads inside a table or list, or an error that says what there is."""
    if isinstance(target, list):
        if not step.isdecimal() or int(step) >= len(target):
            there = f"0 to {len(target) - 1}" if target else "none"
            raise UsageError(f"'{step}' is not one of the parts there ({there})")
        return int(step)
    if not isinstance(target, dict):
        raise UsageError(f"'{before}' is {'none' if target is None else 'a single value'}")
    if step not in target:
        known = [option for option in target if option != "part"]
        owner = f"'{target['part']}' has no option '{step}'" if "part" in target else f"there is no '{step}'"
        raise UsageError(f"{owner}; {nearest(step, known) if known else 'it has none'}")
    return step


def _hint(target: Any, key: Any) -> Any:
    """The declared type of an option of a part; none for what lies inside a list."""
    return typing.get_type_hints(find(target["part"]).load())[key] if isinstance(target, dict) else None


# features that are made where a learner reads any
def _settle_features(table: dict[str, Any]) -> None:
    """Writes out the features of every pipeline that leaves them to its learner, so that settings reach them."""
    for part in _parts(table):
        if part.get("features") == "auto" and _reads_features(part["learner"]):
            part["features"] = written_out(USUAL_FEATURES)


def _features_of(pipeline: dict[str, Any]) -> dict[str, Any]:
    if not _reads_features(pipeline["learner"]):
        name = pipeline["learner"]["part"]
        raise UsageError(f"'{name}' reads texts as they are: it has no use for features")
    return written_out(USUAL_FEATURES)


def _reads_features(learner: Any) -> bool:
    return "X" in build(learner, "learner", "wrapper").capabilities.needs
