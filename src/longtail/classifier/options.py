"""Options of parts under scikit-learn's names: learner__trees, features__ngrams, rerank__0__strength."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from longtail.errors import LongtailError
from longtail.features.base import USUAL_FEATURES
from longtail.part import Part, default_of, require_field
from longtail.registry import config_of, find
from longtail.settings import written_out


def nested(name: str, value: Any) -> dict[str, Any]:
    """Every option inside a part, or inside a list of parts, by its long name; none for what is no part."""
    found: dict[str, Any] = {}
    if isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            found |= nested(f"{name}__{number}", inner)
        return found
    try:
        table = config_of(value) if isinstance(value, Part) else written_out(_table(value))
    except (LongtailError, ValueError, TypeError):  # said when the estimator is fitted
        return {}
    for option, inner in table.items():
        if option != "part":
            found[f"{name}__{option}"] = inner
            if isinstance(inner, dict | list):
                found |= nested(f"{name}__{option}", inner)
    return found


def changed(value: Any, path: Sequence[str], new: Any) -> Any:
    """A part, or a list of parts, with another value of an option inside; what is given stays as it is."""
    step, rest = path[0], path[1:]
    if isinstance(value, list | tuple):
        if not step.isdecimal() or int(step) >= len(value):
            raise ValueError(f"'{step}' is none of the {len(value)} parts, which are counted from 0")
        items = list(value)
        items[int(step)] = changed(items[int(step)], rest, new) if rest else new
        return items
    try:
        if isinstance(value, Part):
            require_field(value, step)
            return value.unfitted().set_params(**{step: changed(getattr(value, step), rest, new) if rest else new})
        table = _table(value)
        cls = find(table["part"]).load()
        require_field(cls, step)
    except LongtailError as error:
        raise ValueError(str(error)) from None
    default = next(default_of(f) for f in fields(cls) if f.name == step)
    return {**table, step: changed(table.get(step, default), rest, new) if rest else new}


def _table(value: Any) -> dict[str, Any]:
    """The table of a part that is given by its name or as a table."""
    if isinstance(value, str):
        return dict(USUAL_FEATURES) if value == "auto" else {"part": value}
    if isinstance(value, Mapping) and isinstance(value.get("part"), str):
        return dict(value)
    raise ValueError(f"{value!r} is no part, and has no options")
