"""A model directory: manifest.json, labels.jsonl and one safetensors file for each part. See docs/model-format.md.

Saving is all-or-nothing (longtail.keep.files). Loading runs no code from the files, checks every size, count and
checksum before it relies on it, and maps arrays into memory instead of copying them.
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from longtail import __version__
from longtail.engines.local import thread_map
from longtail.errors import LongtailError, ModelError
from longtail.keep.files import aside, atomic_directory, check_output, shown_directory, writing
from longtail.keep.safetensors import BLOCK, read_arrays, strict_json, write_arrays
from longtail.labels import LabelIndex
from longtail.run import available_cores

FORMAT = "longtail-model"
FORMAT_VERSION = 1

MANIFEST = "manifest.json"
LABELS = "labels.jsonl"
ARRAYS = ".safetensors"

#: Bounds on what a manifest may say, so that a hostile one cannot exhaust memory or file handles.
MOST_MANIFEST_BYTES = 2 << 20
MOST_FILES = 256
_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")

#: How often a directory that is being replaced while it is read is read afresh.
_ATTEMPTS = 100

_AGAIN = "copy the whole directory again or train the model again"

States = dict[str, dict[str, NDArray[Any]]]
Bytes = mmap.mmap | bytes


@dataclass(frozen=True)
class Loaded:
    """What a model directory holds.

    manifest  the caller's own entries, as given to `save_model`
    labels    the labels with texts and training counts
    states    file stem ("features", "learner", "rerank-0", ...) -> named arrays, read-only views of the files
    library   the version of longtail that wrote it
    sizes     file name -> bytes
    """

    manifest: dict[str, Any]
    labels: LabelIndex
    states: States
    library: str
    sizes: dict[str, int]


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
) -> None:
    """Writes a model directory in one step: whoever looks sees the old one or the new one, complete.

    `manifest` holds plain JSON values. With `overwrite` an existing model is replaced once the new one is on disk.
    """
    if len(states) >= MOST_FILES:
        raise ValueError(f"{len(states)} states; at most {MOST_FILES - 1} are read back")
    for stem in states:
        if not _STEM.fullmatch(stem):
            raise ValueError(f"'{stem}' cannot name a file of a model")
    own = json.loads(json.dumps(manifest, allow_nan=False, default=_plain))
    with atomic_directory(directory, overwrite=overwrite, refusal=_not_a_model) as new:
        sizes, maps = {}, {}
        with writing(directory):
            with (new / LABELS).open("wb") as handle:
                handle.writelines(_label_lines(labels))
            for stem, arrays in states.items():
                with (new / f"{stem}{ARRAYS}").open("wb") as handle:
                    write_arrays(handle, arrays)
            for name in [LABELS, *(f"{stem}{ARRAYS}" for stem in states)]:
                with (new / name).open("rb") as handle:
                    maps[name] = _map(handle.fileno())
                    sizes[name] = len(maps[name])
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "library": __version__,
            "labels": {
                "count": len(labels),
                "documents": int(labels.documents),
                "texts": labels.texts is not None,
            },
            "files": {name: {"bytes": sizes[name], "sha256": digests} for name, digests in _digests(maps).items()},
            "model": own,
        }
        content["sha256"] = _manifest_digest(content)
        packed = json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8") + b"\n"
        if len(packed) > MOST_MANIFEST_BYTES:
            raise ValueError(f"the manifest takes {len(packed)} bytes; at most {MOST_MANIFEST_BYTES} are read back")
        with writing(directory):
            (new / MANIFEST).write_bytes(packed)


def load_model(directory: str | Path, *, verify: bool = True) -> Loaded:
    """The model in a directory, arrays memory-mapped and read-only.

    `verify=False` skips the checksums of the files (not those of the manifest, nor any check of size and
    structure): for a model that was verified before.
    """
    path = Path(directory)
    for attempt in range(_ATTEMPTS):
        with _Folder.hold(path) as folder:
            try:
                return _load(folder, verify=verify)
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
    except KeyError as error:
        raise ModelError(f"{_shown(directory, stem + ARRAYS)} does not fit its part: {error} is missing") from error
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise ModelError(f"{_shown(directory, stem + ARRAYS)} does not fit its part: {error}") from error


class _Folder:
    """A directory held open: what is read from it belongs together even while another process replaces it."""

    def __init__(self, place: Path, shown: Path) -> None:
        self.place, self.shown = place, shown
        self.descriptor: int | None = None
        if os.open in os.supports_dir_fd:
            self.descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        elif not place.is_dir():
            raise NotADirectoryError if place.exists() else FileNotFoundError

    @classmethod
    def hold(cls, path: Path) -> Self:
        # Where directories cannot be exchanged in one step, the old one stands aside while the new one comes in.
        for place in (path, aside(path), path):
            try:
                return cls(place, path)
            except FileNotFoundError:
                continue
            except NotADirectoryError:
                raise ModelError(f"{path} is not a directory; give the directory that holds the model") from None
            except OSError as error:
                raise ModelError(f"{shown_directory(path)} cannot be read: {error.strerror}") from None
        raise ModelError(f"{shown_directory(path)} does not exist; give the directory that holds the model")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def replaced(self) -> bool:
        """Whether the name now belongs to another directory."""
        if self.descriptor is None:
            return False
        try:
            return not os.path.samestat(os.fstat(self.descriptor), self.place.stat())
        except OSError:
            return True

    def where(self, name: str) -> str:
        return _shown(self.shown, name)

    def map(self, name: str, most: int | None = None) -> Bytes:
        """A plain file's bytes as a memory map; links, pipes and files above `most` bytes are refused."""
        where = self.where(name)
        flags = os.O_RDONLY
        for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
            flags |= getattr(os, flag, 0)
        try:
            if self.descriptor is None:
                if (self.place / name).is_symlink():
                    raise OSError(errno.ELOOP, "")
                descriptor = os.open(self.place / name, flags)
            else:
                descriptor = os.open(name, flags, dir_fd=self.descriptor)
        except FileNotFoundError:
            raise ModelError(f"{where} is missing; {_AGAIN}") from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise ModelError(f"{where} is a link; a model holds only files of its own") from None
            raise ModelError(f"{where} cannot be read: {error.strerror}") from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ModelError(f"{where} is not a plain file")
            if most is not None and status.st_size > most:
                raise ModelError(f"{where} has {status.st_size} bytes; at most {most} are read")
            return _map(descriptor)
        except OSError as error:
            raise ModelError(f"{where} cannot be read: {error.strerror}") from None
        finally:
            os.close(descriptor)


def _load(folder: _Folder, *, verify: bool) -> Loaded:
    content = _checked_manifest(bytes(folder.map(MANIFEST, MOST_MANIFEST_BYTES)), folder)
    maps = {name: folder.map(name) for name in content["files"]}
    for name, entry in content["files"].items():
        size, expected = len(maps[name]), entry["bytes"]
        if size < expected:
            raise ModelError(f"{folder.where(name)} is truncated: {size} of {expected} bytes; {_AGAIN}")
        if size > expected:
            raise ModelError(f"{folder.where(name)} was altered: {size} bytes instead of {expected}; {_AGAIN}")
    if verify:
        for name, digests in _digests(maps).items():
            if digests != content["files"][name]["sha256"]:
                raise ModelError(f"{folder.where(name)} was altered: its checksum differs; {_AGAIN}")
    labels = _parse_labels(maps[LABELS], content["labels"], folder.where(LABELS))
    states = {
        name.removesuffix(ARRAYS): read_arrays(data, folder.where(name))
        for name, data in maps.items()
        if name != LABELS
    }
    sizes = {name: len(data) for name, data in maps.items()}
    return Loaded(content["model"], labels, states, content["library"], sizes)


def _checked_manifest(data: bytes, folder: _Folder) -> dict[str, Any]:
    where = folder.where(MANIFEST)
    content = strict_json(data, where)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelError(f"{where} is not the manifest of a longtail model")
    version = content.get("format_version")
    if type(version) is not int or not 0 < version < 1 << 31:
        raise ModelError(f"{where} is not valid: its format version is not a number")
    if version != FORMAT_VERSION:
        raise ModelError(
            f"{shown_directory(folder.shown)} has model format {version}; longtail {__version__} reads format "
            f"{FORMAT_VERSION}, {'a newer' if version > FORMAT_VERSION else 'an older'} longtail reads this model"
        )
    if content.pop("sha256", None) != _manifest_digest(content):
        raise ModelError(f"{where} was altered: its checksum differs; {_AGAIN}")
    # From here on only a manifest made on purpose can be wrong.
    files, labels = content.get("files"), content.get("labels")
    kinds = (content.get("library"), str), (content.get("model"), dict), (files, dict), (labels, dict)
    if not all(isinstance(value, kind) for value, kind in kinds):
        raise ModelError(f"{where} is not valid: library, model, files or labels is missing")
    assert isinstance(files, dict)
    assert isinstance(labels, dict)
    if not (
        all(type(labels.get(key)) is int and 0 <= labels[key] < 1 << 62 for key in ("count", "documents"))
        and isinstance(labels.get("texts"), bool)
    ):
        raise ModelError(f"{where} is not valid: labels needs count, documents and texts")
    if LABELS not in files or len(files) > MOST_FILES:
        raise ModelError(
            f"{where} is not valid: it lists {len(files)} files, {LABELS} must be one of 1 to {MOST_FILES}"
        )
    for name, entry in files.items():
        if name != LABELS and not (name.endswith(ARRAYS) and _STEM.fullmatch(name.removesuffix(ARRAYS))):
            raise ModelError(f"{where} is not valid: it lists {name[:60]!r}, which no file of a model is called")
        if not isinstance(entry, dict) or type(entry.get("bytes")) is not int or not 0 <= entry["bytes"] < 1 << 62:
            raise ModelError(f"{where} is not valid: {name} has no size")
        digests = entry.get("sha256")
        if not isinstance(digests, list) or len(digests) != -(-entry["bytes"] // BLOCK):
            raise ModelError(f"{where} is not valid: {name} needs one sha256 for each {BLOCK} bytes")
    return content


def _manifest_digest(content: Mapping[str, Any]) -> str:
    """sha256 of the manifest's meaning: keys sorted, no white space, ASCII, without the digest itself."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def _digests(maps: Mapping[str, Bytes]) -> dict[str, list[str]]:
    """sha256 of each block of each file, on all cores: hashing releases the interpreter lock."""
    tasks = [(name, begin) for name, data in maps.items() for begin in range(0, len(data), BLOCK)]

    def digest(task: tuple[str, int]) -> str:
        name, begin = task
        with memoryview(maps[name]) as whole, whole[begin : begin + BLOCK] as block:
            return hashlib.sha256(block).hexdigest()

    digests: dict[str, list[str]] = {name: [] for name in maps}
    for (name, _), found in zip(tasks, thread_map(digest, tasks, workers=available_cores()), strict=True):
        digests[name].append(found)
    return digests


def _map(descriptor: int) -> Bytes:
    """The file's bytes, mapped read-only; an empty file cannot be mapped."""
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) if os.fstat(descriptor).st_size else b""


def _label_lines(labels: LabelIndex) -> Iterator[bytes]:
    texts = labels.texts if labels.texts is not None else [""] * len(labels)
    for name, text, count in zip(labels.names, texts, labels.frequency.tolist(), strict=True):
        line = {"label": name, "text": text, "count": count} if text else {"label": name, "count": count}
        try:
            yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
        except TypeError as error:
            raise LongtailError(f"label {name!r} cannot be saved: {error}") from None


def _parse_labels(data: Bytes, declared: Mapping[str, Any], where: str) -> LabelIndex:
    """The label index; lines go through in batches, so that their dictionaries do not pile up."""
    content, count = bytes(data), declared["count"]
    # The shortest line has 23 bytes; counting before splitting keeps a file of bare line ends from filling memory.
    if content.count(b"\n") != count or len(content) < 23 * count or (content and not content.endswith(b"\n")):
        raise ModelError(f"{where} is not valid: it must have {count} whole lines")
    lines = content.split(b"\n")[:-1]
    names: list[str] = []
    texts: list[str] = []
    counts: list[int] = []
    batch = 4096
    for begin in range(0, len(lines), batch):
        try:
            records = list(map(orjson.loads, lines[begin : begin + batch]))
            names += map(itemgetter("label"), records)
            counts += map(itemgetter("count"), records)
            if declared["texts"]:
                texts += [record.get("text", "") for record in records]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ModelError(f"{where} is not valid: a line from {begin + 1} on is not a label and its count") from None
    if set(map(type, names)) - {str} or set(map(type, texts)) - {str} or set(map(type, counts)) - {int}:
        raise ModelError(f"{where} is not valid: label and text must be strings, count a whole number")
    distinct = set(names)
    if len(distinct) != len(names) or "" in distinct:
        raise ModelError(f"{where} is not valid: a label is empty or stands twice")
    if counts and not 0 <= min(counts) <= max(counts) < 1 << 62:
        raise ModelError(f"{where} is not valid: a count is out of range")
    frequency = np.array(counts, dtype=np.int64)
    return LabelIndex(names, texts if declared["texts"] else None, frequency, declared["documents"])


def _not_a_model(directory: Path) -> str:
    """Why a directory is not to be replaced by a model, or ""; a damaged model may be, and an empty directory."""
    if not any(directory.iterdir()):
        return ""
    for entry in sorted(directory.iterdir()):
        known = entry.name in {MANIFEST, LABELS} or entry.suffix == ARRAYS or entry.name.startswith(".")
        if not known or entry.is_dir():
            return f"{entry.name} in it is not part of a model"
    try:
        with (directory / MANIFEST).open("rb") as handle:
            found = f'"{FORMAT}"'.encode() in handle.read(4096)
    except FileNotFoundError:
        found = False
    return "" if found else "it is not a model"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a manifest cannot hold a {type(value).__name__}: {value!r}")


def _shown(directory: str | Path, name: str) -> str:
    return shown_directory(directory) + name
