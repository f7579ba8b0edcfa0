"""manifest.json: what it may say, and the digest of its meaning."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from longtail import __version__
from longtail.errors import ModelError
from longtail.keep.files import shown_directory
from longtail.keep.folder import AGAIN, Folder
from longtail.keep.safetensors import BLOCK, strict_json

FORMAT = "longtail-model"
FORMAT_VERSION = 3
#: Formats that are read: this one and those before.
READ_VERSIONS = (1, 2, 3)

MANIFEST = "manifest.json"
ARRAYS = ".safetensors"
LABELS = f"labels{ARRAYS}"
#: Where formats 1 and 2 keep the labels.
LABEL_LINES = "labels.jsonl"

#: Bounds on what a manifest may say, so that a hostile one cannot exhaust memory or file handles.
MOST_MANIFEST_BYTES = 2 << 20
MOST_FILES = 256
STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_LIBRARY = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,39}")


def checked_manifest(data: bytes, folder: Folder) -> dict[str, Any]:
    where = folder.where(MANIFEST)
    content = strict_json(data, where)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelError(f"{where} is not the manifest of a longtail model")
    version = content.get("format_version")
    if type(version) is not int or not 0 < version < 1 << 31:
        raise ModelError(f"{where} is not valid: its format version is not a number")
    if version not in READ_VERSIONS:
        raise ModelError(
            f"{shown_directory(folder.shown)} has model format {version}; longtail {__version__} reads formats "
            f"{READ_VERSIONS[0]} to {READ_VERSIONS[-1]}, a newer longtail reads this model"
        )
    try:
        digest = manifest_digest(content)
    except RecursionError:
        raise ModelError(f"{where} is not valid: it is nested too deeply") from None
    if content.get("sha256") != digest:
        raise ModelError(f"{where} was altered: its checksum differs; {AGAIN}")
    _check_content(content, where)  # from here on only a manifest made on purpose can be wrong
    return content


def _check_content(content: Mapping[str, Any], where: str) -> None:
    files, labels, library = content.get("files"), content.get("labels"), content.get("library")
    kinds = (library, str), (content.get("model"), dict), (files, dict), (labels, dict)
    if not all(isinstance(value, kind) for value, kind in kinds):
        raise ModelError(f"{where} is not valid: library, model, files or labels is missing")
    assert isinstance(files, dict)
    assert isinstance(labels, dict)
    if not _LIBRARY.fullmatch(str(library)):
        raise ModelError(f"{where} is not valid: library is not the number of a version")
    if not (
        all(type(labels.get(key)) is int and 0 <= labels[key] < 1 << 62 for key in ("count", "documents"))
        and isinstance(labels.get("texts"), bool)
    ):
        raise ModelError(f"{where} is not valid: labels needs count, documents and texts")
    labels_file = labels_file_of(content["format_version"])
    if labels_file not in files or len(files) > MOST_FILES:
        raise ModelError(
            f"{where} is not valid: it lists {len(files)} files, {labels_file} must be one of 1 to {MOST_FILES}"
        )
    for name, entry in files.items():
        if name != labels_file and not (name.endswith(ARRAYS) and STEM.fullmatch(name.removesuffix(ARRAYS))):
            raise ModelError(f"{where} is not valid: it lists {name[:60]!r}, which no file of a model is called")
        if not isinstance(entry, dict) or type(entry.get("bytes")) is not int or not 0 <= entry["bytes"] < 1 << 62:
            raise ModelError(f"{where} is not valid: {name} has no size")
        digests = entry.get("sha256")
        if not isinstance(digests, list) or len(digests) != -(-entry["bytes"] // BLOCK):
            raise ModelError(f"{where} is not valid: {name} needs one sha256 for each {BLOCK} bytes")


def labels_file_of(format_version: int) -> str:
    return LABELS if format_version >= 3 else LABEL_LINES


def manifest_digest(content: Mapping[str, Any]) -> str:
    """sha256 of the manifest's meaning: keys sorted, no white space, ASCII, without the digest itself."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()
