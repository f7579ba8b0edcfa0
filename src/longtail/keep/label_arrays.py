"""labels.safetensors: names, texts and counts of the labels in column order, mapped and decoded when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.errors import LongtailError, ModelError
from longtail.labels import LabelIndex
from longtail.texts import PackedTexts


def label_arrays(labels: LabelIndex) -> dict[str, NDArray[Any]]:
    """names and texts as UTF-8 blobs with offsets, counts; texts only where labels have some."""
    arrays: dict[str, NDArray[Any]] = {"counts": labels.frequency}
    for what, texts in (("names", labels.names), ("texts", labels.texts)):
        if texts is not None:
            packed = _packed(texts)
            arrays |= {what: packed.blob, f"{what}_offsets": packed.offsets}
    return arrays


def _packed(texts: Sequence[str]) -> PackedTexts:
    packed = texts if isinstance(texts, PackedTexts) else PackedTexts.of(texts)
    if not _is_text(packed):
        wrong = next(text for text in packed if any("\ud800" <= character <= "\udfff" for character in text))
        raise LongtailError(f"label {wrong!r} cannot be saved: half of a surrogate pair is no character")
    return packed


def labels_from(
    arrays: Mapping[str, NDArray[Any]], declared: Mapping[str, Any], where: str, *, checked: bool
) -> LabelIndex:
    """The label index over the mapped arrays.

    declared  what the manifest says of the labels
    checked   whether the very same file was checked as a whole before; sizes are looked at all the same
    """
    wanted = {"counts": np.int64, "names": np.uint8, "names_offsets": np.int64}
    if declared["texts"]:
        wanted |= {"texts": np.uint8, "texts_offsets": np.int64}
    if set(arrays) != set(wanted):
        raise ModelError(f"{where} is not valid: it must hold {', '.join(wanted)}")
    for name, dtype in wanted.items():
        if arrays[name].dtype != dtype or arrays[name].ndim != 1:
            raise ModelError(f"{where} is not valid: {name} must be a row of {np.dtype(dtype).name}")
    names = PackedTexts(arrays["names"], arrays["names_offsets"])
    texts = PackedTexts(arrays["texts"], arrays["texts_offsets"]) if declared["texts"] else None
    for packed in (names, texts):
        if packed is not None and len(packed.offsets) != declared["count"] + 1:
            raise ModelError(f"{where} is not valid: it must hold {declared['count']} labels")
        if packed is not None and not checked and not _rising(packed):
            raise ModelError(f"{where} is not valid: offsets do not rise from 0 to the end")
        if packed is not None and not checked and not _is_text(packed):
            raise ModelError(f"{where} is not valid: it is not UTF-8 text")
    counts = arrays["counts"]
    if len(counts) != declared["count"]:
        raise ModelError(f"{where} is not valid: it must hold {declared['count']} counts")
    if not checked:
        if len(counts) and not 0 <= counts.min() <= counts.max() < 1 << 62:
            raise ModelError(f"{where} is not valid: a count is out of range")
        if not _distinct(names):
            raise ModelError(f"{where} is not valid: a label is empty or stands twice")
    return LabelIndex(names, texts, counts, declared["documents"])


def _rising(packed: PackedTexts) -> bool:
    offsets = packed.offsets
    return bool(offsets[0] == 0 and offsets[-1] == len(packed.blob) and (offsets[1:] >= offsets[:-1]).all())


def _is_text(packed: PackedTexts) -> bool:
    """Whether the bytes are UTF-8 and no character is cut in two."""
    try:
        packed.blob.tobytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    begins = packed.offsets[packed.offsets < len(packed.blob)]
    return bool((packed.blob[begins] & 0xC0 != 0x80).all())


def _distinct(names: PackedTexts) -> bool:
    """Whether every name has characters and is there once."""
    data, cuts = names.blob.tobytes(), names.offsets.tolist()
    seen = {data[begin:end] for begin, end in pairwise(cuts)}
    return len(seen) == len(names) and b"" not in seen
