"""What a model is: its parts and their options, its labels, its files."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from longtail.errors import printable
from longtail.keep.manifest import MANIFEST
from longtail.keep.model import load_model
from longtail.keep.shard_folders import shard_folders


@dataclass(frozen=True)
class ModelFacts:
    """What a model directory holds.

    model           the directory
    format_version  of the model format
    library         version of longtail that wrote it
    labels          how many labels it knows
    trained_on      documents it was trained on
    tail_share      labels with 1 to 5 of them among the labels that any of them has, 0 to 1
    features        columns of X, None for a model that reads no features
    megabytes       size of the directory
    config          what `Tagger(**config)` makes the same tagger from, untrained
    files           file name -> bytes
    makes_features  whether it makes X from texts itself; if not, `features` in its config says nothing
    acted           part -> what its fit did, of parts that say so: {"ranknet": {"blocks kept": True, "norm": 3.2}}
    """

    model: str
    format_version: int
    library: str
    labels: int
    trained_on: int
    tail_share: float
    features: int | None
    megabytes: float
    config: dict[str, Any]
    files: dict[str, int]
    makes_features: bool
    acted: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The object `longtail inspect MODEL --json` prints."""
        return {name: value for name, value in asdict(self).items() if name != "makes_features"}

    def parts(self) -> dict[str, str]:
        """The parts, each with its options on one line: {"learner": "parabel(trees=3, ...)", "augment 2": ...}."""
        shown = {}
        for key in ("learner", "features", "augment", "rerank"):
            given = self.config[key]
            if given is None or (key == "features" and not self.makes_features):
                continue
            for number, part in enumerate(given if isinstance(given, list) else [given]):
                shown[key if number == 0 else f"{key} {number + 1}"] = one_line(part)
        return shown


def is_model(path: str | Path) -> bool:
    """Whether a path is a model directory, whole or not, or the folder of a model in shards."""
    return (Path(path) / MANIFEST).is_file() or bool(shard_folders(path))


def describe_model(path: str | Path) -> ModelFacts:
    """What a model directory holds; every file is checked against the manifest, and no part is built."""
    shards = shard_folders(path)
    first, *others = shards or [Path(path)]
    loaded = load_model(first)
    files = {f"{first.name}/{name}" if shards else name: size for name, size in loaded.sizes.items()}
    for shard in others:
        files |= {f"{shard.name}/{name}": size for name, size in load_model(shard).sizes.items()}
    return ModelFacts(
        model=str(path),
        format_version=loaded.format_version,
        library=loaded.library,
        labels=len(loaded.labels),
        trained_on=loaded.labels.documents,
        tail_share=round(loaded.labels.tail_share, 4),
        features=loaded.manifest.get("n_features"),
        megabytes=round(directory_megabytes(Path(path)), 2),
        config=loaded.manifest["config"],
        files=files,
        makes_features=bool(loaded.manifest.get("makes_features")),
        acted=_acted(loaded.manifest.get("acted")),
    )


def directory_megabytes(path: Path) -> float:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e6


def _acted(found: Any) -> dict[str, Any]:
    """What a manifest says that parts did: tables of plain values, of which a file may say anything."""
    if not isinstance(found, dict):
        return {}
    plain = (bool, int, float, str)
    return {
        printable(name)[:100]: {printable(key)[:100]: each for key, each in acted.items() if isinstance(each, plain)}
        for name, acted in found.items()
        if isinstance(acted, dict)
    }


def said_by(acted: dict[str, Any]) -> str:
    """What the fit of a part did, on one line: "blocks kept yes, norm 3.2"."""

    def word(value: Any) -> str:
        return printable(str(value))[:100] if not isinstance(value, bool) else "yes" if value else "no"

    return ", ".join(f"{name} {word(value)}" for name, value in acted.items())


def one_line(config: Any) -> str:
    """A part and its options as in parabel(trees=3, ...)."""
    if isinstance(config, dict) and "part" in config:
        inner = ", ".join(f"{key}={one_line(value)}" for key, value in config.items() if key != "part")
        return f"{config['part']}({inner})"
    if isinstance(config, list):
        return f"[{', '.join(one_line(value) for value in config)}]"
    return str(config)
