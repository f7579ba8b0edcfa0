"""Models of the format before: what is different in them, and what to say where they cannot be read any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from longtail import __version__
from longtail.errors import ModelError
from longtail.keep.files import shown_directory
from longtail.keep.model import Loaded
from longtail.registry import check_bounds, lookup

#: Options that format 1 kept with learners: what a network was trained on is no part of a model.
_HARDWARE = {"precision", "devices", "nodes", "logs"}
#: Defaults of options of networks that have no number by default any more, and mean the same without one.
_EPOCHS = {"epochs": 6, "least_steps": 300, "retune_epochs": 3, "surrogate": 4, "rerank_epochs": 3}


def modern(loaded: Loaded) -> dict[str, Any]:
    """The manifest of an older model as this version writes it; options that are new have their defaults."""
    manifest = loaded.manifest
    config = manifest.get("config")
    if not loaded.outdated or not isinstance(config, dict):
        return manifest
    check_bounds(config)
    config = {key: _as_today(value) for key, value in config.items()}
    if manifest.get("makes_features") is False:  # format 1 named features even where nothing read them
        config["features"] = None
    return {**manifest, "config": config}


def outgrown(directory: str | Path, loaded: Loaded, error: Exception) -> ModelError:
    """What to say when an older model cannot be read any more."""
    why = str(error).removeprefix(f"{directory}: ").removeprefix(shown_directory(directory))
    return ModelError(
        f"{shown_directory(directory)} was written by longtail {loaded.library}, and longtail {__version__} cannot "
        f"read it ({why}); train it again, or read it with that version"
    )


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
