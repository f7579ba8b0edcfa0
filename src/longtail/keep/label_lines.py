"""labels.jsonl of formats 1 and 2: one line per label, in column order."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import numpy as np
import orjson

from longtail.errors import ModelError
from longtail.keep.folder import Bytes
from longtail.labels import LabelIndex


def parse_labels(data: Bytes, declared: Mapping[str, Any], where: str) -> LabelIndex:
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
