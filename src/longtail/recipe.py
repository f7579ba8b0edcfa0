"""What to train, as a TOML file or as options: features, augmenters, a learner, re-rankers, each with its settings.

    title = "Parabel, one tree"
    [learner]
    part = "parabel"
    trees = 1

Parts hold parts the same way: `[learner] part = "ensemble"` with `[[learner.members]]` below it.
"""

from __future__ import annotations

import datetime
import re
import tomllib
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from longtail.errors import InputError, LongtailError, UsageError, nearest
from longtail.registry import build, check_bounds, config_of, lookup

if TYPE_CHECKING:
    from longtail.tagger import Tagger

#: Which kinds of parts may stand under each key.
KINDS: dict[str, tuple[str, ...]] = {
    "features": ("features",),
    "learner": ("learner", "wrapper"),
    "augment": ("augmenter",),
    "rerank": ("re-ranker",),
}
_LISTS = ("augment", "rerank")
_WORDS = ("title", "paper", "note")


@dataclass
class Recipe:
    """Configurations of the parts, written out in full: every option has its value."""

    learner: dict[str, Any] = field(default_factory=lambda: {"part": "bonsai"})
    features: dict[str, Any] | str | None = "auto"
    augment: list[dict[str, Any]] = field(default_factory=list)
    rerank: list[dict[str, Any]] = field(default_factory=list)
    title: str = ""
    paper: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        self._write_out()

    def _write_out(self) -> None:
        """Builds every part once, so that names and options are checked, and keeps the full configurations."""
        check_bounds(self.to_dict())
        self.learner = _full("learner", self.learner)
        if self.features is not None and self.features != "auto":
            self.features = _full("features", self.features)
        self.augment = [_full("augment", config) for config in self.augment]
        self.rerank = [_full("rerank", config) for config in self.rerank]

    # where recipes come from
    @classmethod
    def find(cls, name_or_file: str) -> Self:
        """A recipe that ships with the package, by name, or one from a file."""
        path = Path(name_or_file)
        if name_or_file in named():
            return cls._from_toml(
                resources.files("longtail.recipes").joinpath(f"{name_or_file}.toml").read_bytes(),
                Path(f"{name_or_file}.toml"),
            )
        if path.suffix == ".toml" or path.exists() or path.parent != Path():
            return cls.read(path)
        raise UsageError(f"unknown recipe '{name_or_file}'; {nearest(name_or_file, named())} (or give a .toml file)")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        path = Path(path)
        try:
            return cls._from_toml(path.read_bytes(), path)
        except FileNotFoundError:
            raise InputError(path, "there is no such recipe file") from None
        except OSError as error:
            raise InputError(path, f"cannot be read: {error.strerror}") from None

    @classmethod
    def _from_toml(cls, content: bytes, path: Path) -> Self:
        try:
            table = tomllib.loads(content.decode())
        except UnicodeDecodeError as error:
            raise InputError(path, f"is not UTF-8 text ({error.reason} at byte {error.start})") from None
        except tomllib.TOMLDecodeError as error:
            message, line = _place(str(error))
            raise InputError(path, f"is not valid TOML: {message}", line) from None
        except ValueError:
            raise InputError(path, "has a number with too many digits") from None
        except RecursionError:
            raise InputError(path, "is nested too deeply") from None
        try:
            return cls.from_dict(table)
        except InputError:
            raise
        except LongtailError as error:
            raise InputError(path, str(error)) from None

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Self:
        known = (*KINDS, *_WORDS)
        for key, value in table.items():
            if key not in known:
                raise UsageError(f"a recipe has no '{key}'; {nearest(key, known)}")
            if key in _WORDS and not isinstance(value, str):
                raise UsageError(f"{key} must be a text, not {value!r}")
            if key in _LISTS and not isinstance(value, list):
                raise UsageError(f"{key} is a list of parts: write [[{key}]], not [{key}]")
            if key in KINDS and key not in _LISTS and not isinstance(value, str | Mapping):
                raise UsageError(f"{key} is one part: write [{key}]")
        return cls(**table)

    # what options change
    def override(
        self,
        *,
        learner: str | None = None,
        augment: Sequence[str] = (),
        rerank: Sequence[str] = (),
        settings: Sequence[str] = (),
    ) -> Self:
        """Parts named on the command line take the place of the recipe's; settings come last.

        settings  "path=value", as in learner.trees=1, learner.members.0.trees=1, or parabel.trees=1 for every
                  part of that name
        """
        if learner is not None:
            self.learner = {"part": learner}
        if augment:
            self.augment = [{"part": name} for name in augment]
        if rerank:
            self.rerank = [{"part": name} for name in rerank]
        self._write_out()
        for setting in settings:
            path, equals, text = setting.partition("=")
            path = path.strip()
            if not equals or not path:
                raise UsageError(f"--set takes path=value, as in learner.trees=1, not '{setting}'")
            self._set(path.split("."), parse_value(text.strip()), setting)
            self._write_out()
        return self

    def _set(self, path: list[str], value: Any, setting: str) -> None:
        first = path[0]
        if first in KINDS:
            if len(path) < 2:
                raise UsageError(f"--set {setting}: name one of its options, as in {first}.option=value")
            _assign(self.to_dict(), path, value, setting)
            return
        found = [config for config in _parts(self.to_dict()) if config["part"] == first]
        if not found or len(path) < 2:
            known = {*KINDS, *(str(config["part"]) for config in _parts(self.to_dict()))}
            raise UsageError(f"--set {setting}: this run has no '{first}'; {nearest(first, known)}")
        for config in found:
            _assign(config, path[1:], value, setting)

    def to_dict(self) -> dict[str, Any]:
        """The four configurations; the objects are the recipe's own."""
        return {key: getattr(self, key) for key in KINDS}

    def tagger(self, *, seed: int = 0, threads: int = 0) -> Tagger:
        from longtail.tagger import Tagger

        return Tagger(**self.to_dict(), seed=seed, threads=threads)


def named() -> list[str]:
    """Names of the recipes that ship with the package."""
    files = resources.files("longtail.recipes").iterdir()
    return sorted(entry.name.removesuffix(".toml") for entry in files if entry.name.endswith(".toml"))


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


def _full(key: str, config: str | Mapping[str, Any]) -> dict[str, Any]:
    return config_of(build(_with_empty_values(config), *KINDS[key]))


def _with_empty_values(value: Any) -> Any:
    """TOML has no empty value: the word "none" stands for it in options that may be empty."""
    if isinstance(value, list):
        return [_with_empty_values(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    name = value.get("part")
    # a name that is not registered is for `build` to refuse, which knows what kind of part belongs here
    entry = lookup(name) if isinstance(name, str) else None
    hints = typing.get_type_hints(entry.load()) if entry is not None else {}
    return {
        key: None if inner == "none" and _may_be_empty(hints.get(key)) else _with_empty_values(inner)
        for key, inner in value.items()
    }


def _may_be_empty(hint: Any) -> bool:
    return type(None) in typing.get_args(hint)


def _parts(value: Any) -> list[dict[str, Any]]:
    """Every part's configuration inside a configuration, outermost first."""
    if isinstance(value, dict):
        inside = [part for inner in value.values() for part in _parts(inner)]
        return [value, *inside] if "part" in value else inside
    if isinstance(value, list):
        return [part for inner in value for part in _parts(inner)]
    return []


def _assign(target: Any, path: list[str], value: Any, setting: str) -> None:
    """Sets a value deep inside a configuration; numbers in the path count list items from 0."""
    for depth, step in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(target, list):
            if not step.isdecimal() or int(step) >= len(target):
                there = f"0 to {len(target) - 1}" if target else "none"
                raise UsageError(f"--set {setting}: '{step}' is not one of the parts there ({there})")
            key: Any = int(step)
        elif isinstance(target, dict):
            if last and step == "part":
                raise UsageError(f"--set {setting}: parts are chosen by --learner, --augment, --rerank or a recipe")
            if step not in target:
                name = target.get("part")
                known = [option for option in target if option != "part"]
                owner = f"'{name}' has no option '{step}'" if name else f"there is no '{step}'"
                raise UsageError(f"--set {setting}: {owner}; {nearest(step, known) if known else 'it has none'}")
            key = step
        else:
            raise UsageError(f"--set {setting}: '{path[depth - 1]}' is a single value")
        if last:
            if isinstance(target[key], dict) and "part" in target[key]:
                raise UsageError(f"--set {setting}: name one of its options, as in {'.'.join(path)}.option=value")
            target[key] = value
        else:
            target = target[key]


def _place(message: str) -> tuple[str, int | None]:
    """tomllib's message without its place, and the line it names."""
    found = re.search(r" \(at line (\d+), column \d+\)$", message)
    return (message[: found.start()], int(found.group(1))) if found else (message, None)
