"""JSONL: one object per line, {"text": ..., "labels": [...]}, and whatever else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson

from longtail.corpus import Corpus
from longtail.keep.streams import Stream, decode
from longtail.read.builder import Builder
from longtail.read.options import ReadOptions
from longtail.read.reading import Reading

_ADVICE = "one object per line is needed (jq -c '.[]' makes lines of a list)"


def is_jsonl(stream: Stream, _: ReadOptions) -> bool:
    return stream.first_line.lstrip().startswith(b"{")


def read_jsonl(stream: Stream, reading: Reading) -> Iterator[Corpus]:
    builder = Builder(reading)
    for line, record in objects(stream, builder.bad):
        builder.add(record, line)
        if builder.full:
            yield builder.taken()
    yield from builder.rest()


def objects(stream: Stream, bad: Callable[[str, int], None]) -> Iterator[tuple[int, Any]]:
    """(line number, value) of each line; lines that are no JSON go to `bad`. Blank lines may only end the file."""
    loads = orjson.loads
    blank = 0
    for number, line in stream.lines():
        try:
            value = loads(line)
        except orjson.JSONDecodeError as error:
            if not line or line.isspace():
                blank = blank or number
                continue
            value = None
            reason = _reason(line, error, number)
        else:
            reason = f"all documents in one JSON list; {_ADVICE}" if number == 1 and type(value) is list else ""
        if blank:
            bad("a blank line between documents", blank)
            blank = 0
        if reason:
            bad(reason, number)
        else:
            yield number, value


def _reason(line: bytes, error: orjson.JSONDecodeError, number: int) -> str:
    try:
        decode(line)
    except ValueError as wrong:
        return str(wrong)
    if number == 1 and line.strip() in (b"[", b"{"):
        return f"JSON spread over lines; {_ADVICE}"
    return f"not JSON: {error.msg} at column {error.colno}"
