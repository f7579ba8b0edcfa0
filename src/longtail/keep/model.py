"""A model directory: manifest.json, and one safetensors file for the labels and for each part. See
docs/model-format.md.

Saving is all-or-nothing (longtail.keep.files). Loading runs no code from the files, checks every size, count and
checksum before it relies on it, and maps arrays into memory instead of copying them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail import __version__
from longtail.engines.local import thread_map
from longtail.errors import LongtailError, ModelError, printable
from longtail.keep.cache import files_key, is_known
from longtail.keep.files import atomic_directory, check_output, shown_directory, writing
from longtail.keep.folder import AGAIN, Bytes, Folder, let_go, map_file, shown_file
from longtail.keep.label_arrays import label_arrays, labels_from
from longtail.keep.label_lines import parse_labels
from longtail.keep.manifest import (
    ARRAYS,
    FORMAT,
    FORMAT_VERSION,
    LABEL_LINES,
    LABELS,
    MANIFEST,
    MOST_FILES,
    MOST_MANIFEST_BYTES,
    STEM,
    checked_manifest,
    labels_file_of,
    manifest_digest,
)
from longtail.keep.safetensors import BLOCK, read_arrays, write_arrays
from longtail.labels import LabelIndex
from longtail.run import available_cores

#: How often a directory that is being replaced while it is read is read afresh.
_ATTEMPTS = 100

#: Numbers looked at in one go for values that are not finite: they fit a core's cache.
_LOOK = 1 << 18

#: Numbers a thread looks at before it gives back the memory they were mapped to.
_PIECE = 1 << 22

#: Characters of a reason that are shown: what a file says is quoted in it.
_MOST_REASON = 300

States = dict[str, dict[str, NDArray[Any]]]


@dataclass(frozen=True)
class Loaded:
    """What a model directory holds.

    manifest  the caller's own entries, as given to `save_model`
    labels    the labels with texts and training counts
    states    file stem ("features", "learner", "rerank-0", ...) -> named arrays, read-only views of the files
    library   the version of longtail that wrote it
    sizes     file name -> bytes
    format_version  of the directory
    key       names the files as they lie on disk, for `remember`; None where they were not checked as a whole
    checked   whether the very same files were checked as a whole before, so that nothing was read but headers
    """

    manifest: dict[str, Any]
    labels: LabelIndex
    states: States
    library: str
    sizes: dict[str, int]
    format_version: int = FORMAT_VERSION
    key: str | None = None
    checked: bool = False

    def let_go(self) -> None:
        """Gives back the memory that checks have taken: what is needed is mapped again."""
        for arrays in self.states.values():
            for array in arrays.values():
                let_go(array)

    @property
    def outdated(self) -> bool:
        return self.format_version < FORMAT_VERSION


def check_model_output(directory: str | Path, *, overwrite: bool = False) -> None:
    """Refuses before the work what `save_model` would refuse after it: a path that exists or is not a model's."""
    check_output(directory, overwrite=overwrite, directory=True, refusal=_not_a_model)


def save_model(
    directory: str | Path,
    *,
    manifest: Mapping[str, Any],
    labels: LabelIndex,
    states: Mapping[str, Mapping[str, NDArray[Any]]],
    overwrite: bool = False,
    threads: int = 0,
) -> None:
    """Writes a model directory in one step: whoever looks sees the old one or the new one, complete.

    `manifest` holds plain JSON values. With `overwrite` an existing model is replaced once the new one is on disk.
    threads  that hash the files, 0 for all cores
    """
    if len(states) >= MOST_FILES:
        raise ValueError(f"{len(states)} states; at most {MOST_FILES - 1} are read back")
    for stem in states:
        if not STEM.fullmatch(stem) or f"{stem}{ARRAYS}" == LABELS:
            raise ValueError(f"'{stem}' cannot name a file of a model")
    own = json.loads(json.dumps(manifest, allow_nan=False, default=_unpacked_scalar))
    if found := _not_finite(states, threads):
        raise LongtailError(f"the model is not saved: {found[1]!r} of its {found[0]} has numbers that are not finite")
    with atomic_directory(directory, overwrite=overwrite, refusal=_not_a_model) as new:
        with writing(directory):
            maps = _written(new, labels, states)
        files = {
            name: {"bytes": len(maps[name]), "sha256": digests} for name, digests in _digests(maps, threads).items()
        }
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "library": __version__,
            "labels": {
                "count": len(labels),
                "documents": int(labels.documents),
                "texts": labels.texts is not None,
            },
            "files": files,
            "model": own,
        }
        content["sha256"] = manifest_digest(content)
        packed = json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8") + b"\n"
        if len(packed) > MOST_MANIFEST_BYTES:
            raise ValueError(f"the manifest takes {len(packed)} bytes; at most {MOST_MANIFEST_BYTES} are read back")
        with writing(directory):
            (new / MANIFEST).write_bytes(packed)


def load_model(directory: str | Path, *, verify: bool = True, threads: int = 0) -> Loaded:
    """The model in a directory, arrays memory-mapped and read-only.

    verify   False skips what reads the files as a whole, their checksums and the look for numbers that are not finite
             (not the manifest's checksum, nor any check of size and structure): for a model that was verified before
    threads  that do this, 0 for all cores
    """
    path = Path(directory)
    for attempt in range(_ATTEMPTS):
        with Folder.hold(path) as folder:
            try:
                return _load(folder, verify=verify, threads=threads)
            except ModelError:
                # Another process may have put a new model in place and removed this one's files meanwhile.
                if attempt == _ATTEMPTS - 1 or not folder.replaced():
                    raise
    raise AssertionError("the last attempt returns or raises")


@contextmanager
def restoring(directory: str | Path, stem: str) -> Iterator[None]:
    """Around `part.restore(arrays)`: arrays that do not fit the part become a ModelError that names the file."""
    try:
        yield
    except ModelError:
        raise
    except KeyError as error:
        raise ModelError(f"{shown_file(directory, stem + ARRAYS)} does not fit its part: {error} is missing") from error
    except Exception as error:  # arrays made on purpose reach code that raises of its own accord
        raise ModelError(f"{shown_file(directory, stem + ARRAYS)} does not fit its part: {reason(error)}") from error


def configuration_of(manifest: Mapping[str, Any]) -> tuple[dict[str, Any], int | None, bool]:
    """A tagger's configuration, its number of features, and whether it makes them itself; checked, not yet built."""
    config, n_features, makes_features = (manifest[name] for name in ("config", "n_features", "makes_features"))
    keys = {"learner", "features", "augment", "rerank", "seed"}
    if not isinstance(config, dict) or set(config) != keys:
        raise ValueError(f"its configuration needs {sorted(keys)}")
    if not (n_features is None or (type(n_features) is int and 0 <= n_features < 1 << 62)):
        raise ValueError("the number of features is not a number")
    if type(config["seed"]) is not int or type(makes_features) is not bool:
        raise ValueError("seed or makes_features is not as it should be")
    return config, n_features, makes_features


def reason(error: Exception) -> str:
    """What an error says, on one line of bounded length: it may quote what a file says."""
    text = printable(str(error).strip().partition("\n")[0]) or type(error).__name__
    return text if len(text) <= _MOST_REASON else text[: _MOST_REASON - 3] + "..."


def _written(new: Path, labels: LabelIndex, states: Mapping[str, Mapping[str, NDArray[Any]]]) -> dict[str, Bytes]:
    """Writes all files but the manifest, and gives them as they are on disk."""
    maps = {}
    for stem, arrays in ({LABELS.removesuffix(ARRAYS): label_arrays(labels)} | dict(states)).items():
        with (new / f"{stem}{ARRAYS}").open("wb+") as handle:
            write_arrays(handle, arrays)
            handle.flush()
            maps[f"{stem}{ARRAYS}"] = map_file(handle.fileno())
    return maps


def _load(folder: Folder, *, verify: bool, threads: int) -> Loaded:
    no_model = f"{shown_directory(folder.shown)} is no longtail model, as it has no {MANIFEST}"
    content = checked_manifest(bytes(folder.map(MANIFEST, MOST_MANIFEST_BYTES, no_model)), folder)
    maps = {name: folder.map(name) for name in content["files"]}
    for name, entry in content["files"].items():
        size, expected = len(maps[name]), entry["bytes"]
        if size < expected:
            raise ModelError(f"{folder.where(name)} is truncated: {size} of {expected} bytes; {AGAIN}")
        if size > expected:
            raise ModelError(f"{folder.where(name)} was altered: {size} bytes instead of {expected}; {AGAIN}")
    key = files_key(content["sha256"], folder.statuses) if verify else None
    checked = is_known(key)
    if verify and not checked:
        for name, digests in _digests(maps, threads).items():
            if digests != content["files"][name]["sha256"]:
                raise ModelError(f"{folder.where(name)} was altered: its checksum differs; {AGAIN}")
    labels_file = labels_file_of(content["format_version"])
    arrays = {
        name.removesuffix(ARRAYS): read_arrays(data, folder.where(name))
        for name, data in maps.items()
        if name != LABEL_LINES
    }
    if verify and not checked and (found := _not_finite(arrays, threads)):
        stem, name = found
        raise ModelError(f"{folder.where(stem + ARRAYS)}: array {name[:60]!r} has numbers that are not finite")
    if labels_file == LABEL_LINES:
        labels = parse_labels(maps[LABEL_LINES], content["labels"], folder.where(LABEL_LINES))
    else:
        own = arrays.pop(LABELS.removesuffix(ARRAYS))
        labels = labels_from(own, content["labels"], folder.where(LABELS), checked=checked)
    return Loaded(
        content["model"],
        labels,
        arrays,
        content["library"],
        {name: len(data) for name, data in maps.items()},
        content["format_version"],
        key,
        checked,
    )


def _digests(maps: Mapping[str, Bytes], threads: int) -> dict[str, list[str]]:
    """sha256 of each block of each file, on several threads: hashing releases the interpreter lock."""
    tasks = [(name, begin) for name, data in maps.items() for begin in range(0, len(data), BLOCK)]

    def hashed(task: tuple[str, int]) -> str:
        name, begin = task
        block = np.frombuffer(maps[name], dtype=np.uint8)[begin : begin + BLOCK]
        digest = hashlib.sha256(block.data).hexdigest()
        let_go(block)
        return digest

    digests: dict[str, list[str]] = {name: [] for name in maps}
    for (name, _), found in zip(tasks, thread_map(hashed, tasks, workers=threads or available_cores()), strict=True):
        digests[name].append(found)
    return digests


def _not_finite(states: Mapping[str, Mapping[str, NDArray[Any]]], threads: int) -> tuple[str, str] | None:
    """Stem and name of the first array with a number that is not finite, if there is any."""
    tasks = [
        (stem, name, begin)
        for stem, arrays in states.items()
        for name, array in arrays.items()
        if array.dtype.kind == "f"
        for begin in range(0, array.size, _PIECE)
    ]

    def finite(task: tuple[str, str, int]) -> bool:
        stem, name, begin = task
        numbers = states[stem][name].ravel(order="K")[begin : begin + _PIECE]
        sound = all(bool(np.isfinite(numbers[at : at + _LOOK]).all()) for at in range(0, len(numbers), _LOOK))
        let_go(numbers)
        return sound

    found = thread_map(finite, tasks, workers=threads or available_cores())
    return next(((stem, name) for (stem, name, _), fine in zip(tasks, found, strict=True) if not fine), None)


def _not_a_model(directory: Path) -> str:
    """Why a directory is not to be replaced by a model, or ""; a damaged model may be, and an empty directory."""
    if not any(directory.iterdir()):
        return ""
    for entry in sorted(directory.iterdir()):
        known = entry.name in {MANIFEST, LABEL_LINES} or entry.suffix == ARRAYS or entry.name.startswith(".")
        if not known or entry.is_dir():
            return f"{entry.name} in it is not part of a model"
    try:
        with (directory / MANIFEST).open("rb") as handle:
            found = f'"{FORMAT}"'.encode() in handle.read(4096)
    except FileNotFoundError:
        found = False
    return "" if found else "it is not a model"


def _unpacked_scalar(value: Any) -> Any:
    """A number of numpy's as Python's, for what JSON cannot write by itself."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a manifest cannot hold a {type(value).__name__}: {value!r}")
