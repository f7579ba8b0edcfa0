"""Models of the format before: what is different in them, and what to say where they cannot be read any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from longtail import __version__
from longtail.errors import ModelError, UsageError
from longtail.keep.files import shown_directory
from longtail.keep.model import Loaded
from longtail.registry import check_bounds, lookup

#: Options that format 1 kept with learners: what a network was trained on is no part of a model.
_HARDWARE = {"precision", "devices", "nodes", "logs"}
#: Defaults of options of networks that have no number by default any more, and mean the same without one.
_EPOCHS = {"epochs": 6, "least_steps": 300, "retune_epochs": 3, "surrogate": 4, "rerank_epochs": 3}

#: Options that `calibrated-propensity` has of the `ranknet` that it was.
_KEPT = ("depth", "strength", "A", "B")


def modern(loaded: Loaded) -> dict[str, Any]:
    """The manifest of a model as this version writes it; options that are new have their defaults."""
    manifest = loaded.manifest
    config = manifest.get("config")
    if not isinstance(config, dict):
        return manifest
    check_bounds(config)
    config = {key: _renamed(value) for key, value in config.items()}
    if not loaded.outdated:
        return {**manifest, "config": config}
    config = {key: _as_today(value) for key, value in config.items()}
    if manifest.get("makes_features") is False:  # format 1 named features even where nothing read them
        config["features"] = None
    return {**manifest, "config": config}


def has_older_ranknet(config: Any) -> bool:
    """Whether a configuration has a `ranknet` of the time when that was calibrated propensity."""
    left = [config]  # not by recursion: a configuration that is refused may be nested as deeply as anyone likes
    while left:
        value = left.pop()
        if isinstance(value, Mapping):
            if value.get("part") == "ranknet" and "start" in value:
                return True
            left += value.values()
        elif isinstance(value, list):
            left += value
    return False


def outgrown(directory: str | Path, loaded: Loaded, error: Exception) -> ModelError:
    """What to say when an older model cannot be read any more."""
    why = str(error).removeprefix(f"{directory}: ").removeprefix(shown_directory(directory))
    return ModelError(
        f"{shown_directory(directory)} was written by longtail {loaded.library}, and longtail {__version__} cannot "
        f"read it ({why}); train it again, or read it with that version"
    )


def _renamed(value: Any) -> Any:
    """What `ranknet` was is `calibrated-propensity` now; its restore refuses blocks, which are not as they were."""
    if isinstance(value, list):
        return [_renamed(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    if value.get("part") == "ranknet" and "start" in value:
        if value["start"] == "scores":
            raise UsageError("'ranknet' on raw scores is trained in another way now")
        return {"part": "calibrated-propensity"} | {key: value[key] for key in _KEPT if key in value}
    return {key: _renamed(inner) for key, inner in value.items()}


def _as_today(value: Any) -> Any:
    """A table of a part without hardware, and without numbers of epochs that were defaults."""
    if isinstance(value, list):
        return [_as_today(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    gone = _HARDWARE - _options(value.get("part"))
    if "least_steps" in value:
        old = _EPOCHS | ({"epochs": 10} if value.get("part") == "laroberta" else {})
        gone |= {key for key, default in old.items() if value.get(key) == default}
    return {key: _as_today(inner) for key, inner in value.items() if key not in gone}


def _options(name: Any) -> set[str]:
    entry = lookup(name) if isinstance(name, str) else None
    return set() if entry is None else {f.name for f in fields(entry.load())}
