"""What to train, as a TOML file or as options: features, augmenters, a learner, re-rankers, each with its settings.

    title = "Parabel, one tree"
    [learner]
    part = "parabel"
    trees = 1

Parts hold parts the same way: `[learner] part = "ensemble"` with `[[learner.members]]` below it. A file may hold many
recipes instead, each under `[rows.NAME]`; FILE.toml#NAME is one of them.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from longtail.errors import InputError, LongtailError, UsageError, nearest
from longtail.settings import KEYS, change, written_out

if TYPE_CHECKING:
    from longtail.tagger import Tagger

_LISTS = ("augment", "rerank")
_WORDS = ("title", "when", "paper", "note")


@dataclass
class Recipe:
    """Tables of the parts, written out in full: every option has its value.

    features  a table; "auto": tfidf where the learner reads features; None (in TOML "none"): those of the corpus
    when      when to take it, in a sentence
    note      where it comes from, and what else there is to know
    """

    learner: Any = field(default_factory=lambda: {"part": "bonsai"})
    features: Any = "auto"
    augment: list[Any] = field(default_factory=list)
    rerank: list[Any] = field(default_factory=list)
    title: str = ""
    when: str = ""
    paper: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        self._take(written_out({"part": "pipeline", **self.to_dict()}))

    def _take(self, table: dict[str, Any]) -> None:
        """Takes the tables of a pipeline, which is built once, so that names, options and values are checked."""
        from longtail.registry import build

        build(copy.deepcopy(table))
        for key in KEYS:
            setattr(self, key, table[key])

    # where recipes come from
    @classmethod
    def find(cls, name_or_file: str) -> Self:
        """A recipe that ships with the package, by name, or one from FILE.toml or FILE.toml#ROW."""
        if name_or_file in named():
            path = Path(f"{name_or_file}.toml")
            return cls._of_table(_parsed(text_of(name_or_file).encode(), path), path)
        path = Path(name_or_file)
        file, mark, row = name_or_file.rpartition("#")
        if mark and file.endswith(".toml") and not path.exists():
            return cls._row(Path(file), row)
        if path.suffix == ".toml" or path.exists() or path.parent != Path():
            return cls.read(path)
        raise UsageError(f"unknown recipe '{name_or_file}'; {nearest(name_or_file, named())} (or give a .toml file)")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The recipe of a file that holds one."""
        path = Path(path)
        table = _parsed(_content(path), path)
        if "rows" in table:
            rows = _rows(table, path)
            raise InputError(path, f"holds {len(rows)} recipes: name one, as in {path}#{next(iter(rows))}")
        return cls._of_table(table, path)

    @staticmethod
    def row_names(path: str | Path) -> list[str]:
        """Names of the recipes in a file that holds many."""
        path = Path(path)
        return list(_rows(_parsed(_content(path), path), path))

    @classmethod
    def _row(cls, path: Path, name: str) -> Self:
        rows = _rows(_parsed(_content(path), path), path)
        if name not in rows:
            raise InputError(path, f"has no row '{name}'; {nearest(name, rows)}")
        return cls._of_table(rows[name], f"{path}#{name}")

    @classmethod
    def _of_table(cls, table: Mapping[str, Any], source: str | Path) -> Self:
        try:
            return cls.from_dict(table)
        except InputError:
            raise
        except LongtailError as error:
            raise InputError(source, str(error)) from None

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Self:
        known = (*KEYS, *_WORDS)
        for key, value in table.items():
            if key not in known:
                raise UsageError(f"a recipe has no '{key}'; {nearest(key, known)}")
            if key in _WORDS and not isinstance(value, str):
                raise UsageError(f"{key} must be a text, not {value!r}")
            if key in _LISTS and not isinstance(value, list):
                raise UsageError(f"{key} is a list of parts: write [[{key}]], not [{key}]")
            if key in KEYS and key not in _LISTS and not isinstance(value, str | Mapping):
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
        table = copy.deepcopy(self.to_dict())
        if learner is not None:
            table["learner"] = learner
        if augment:
            table["augment"] = list(augment)
        if rerank:
            table["rerank"] = list(rerank)
        table = written_out({"part": "pipeline", **table})
        change(table, settings)
        self._take(table)
        return self

    def to_dict(self) -> dict[str, Any]:
        """The four tables; the objects are the recipe's own."""
        return {key: getattr(self, key) for key in KEYS}

    def tagger(self, *, seed: int = 0, threads: int = 0) -> Tagger:
        from longtail.tagger import Tagger

        return Tagger(**copy.deepcopy(self.to_dict()), seed=seed, threads=threads)


# recipes that ship with the package
def named() -> list[str]:
    """Their names."""
    files = resources.files("longtail.recipes").iterdir()
    return sorted(entry.name.removesuffix(".toml") for entry in files if entry.name.endswith(".toml"))


def text_of(name: str) -> str:
    """The TOML text of one of them."""
    return resources.files("longtail.recipes").joinpath(f"{name}.toml").read_text(encoding="utf-8")


def summaries() -> list[dict[str, str]]:
    """Name, title and the like of each; no part is loaded, so that neural ones need nothing installed."""
    tables = {name: tomllib.loads(text_of(name)) for name in named()}
    return [{"recipe": name, **{word: table.get(word, "") for word in _WORDS}} for name, table in tables.items()]


# files
def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(path, "there is no such recipe file") from None
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from None


def _parsed(content: bytes, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        raise InputError(path, f"is not UTF-8 text ({error.reason} at byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        message, line = _place(str(error))
        raise InputError(path, f"is not valid TOML: {message}", line) from None
    except ValueError:
        raise InputError(path, "has a number with too many digits") from None
    except RecursionError:
        raise InputError(path, "is nested too deeply") from None


def _rows(table: Mapping[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """The tables below [rows]; words beside it, such as the paper, hold for every row that has none of its own.

    Figures that others published stand below [published], and are no recipes.
    """
    rows = table.get("rows")
    if not isinstance(rows, Mapping) or not rows or not all(isinstance(row, Mapping) for row in rows.values()):
        raise InputError(path, "has no rows: write each under [rows.NAME]")
    shared = {key: value for key, value in table.items() if key not in ("rows", "published")}
    for key in shared:
        if key not in _WORDS:
            raise InputError(path, f"'{key}' belongs below one of [rows.NAME]")
    return {name: {**shared, **row} for name, row in rows.items()}


def _place(message: str) -> tuple[str, int | None]:
    """tomllib's message without its place, and the line it names."""
    found = re.search(r" \(at line (\d+), column \d+\)$", message)
    return (message[: found.start()], int(found.group(1))) if found else (message, None)
