"""JSON: one object per line, {"text": ..., "labels": [...]}, and whatever else; or one list of such objects."""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson

from longtail.corpus import Corpus
from longtail.errors import InputError
from longtail.keep.streams import Stream
from longtail.read.flaws import RecordError
from longtail.read.options import ReadOptions
from longtail.read.reading import Reading
from longtail.read.records import Numbered, read_records

#: A list is held as a whole; one of more bytes is refused.
MOST_BYTES = 1 << 30

_ADVICE = "one object per line is needed (jq -c '.[]' makes lines of a list)"
_LIST = re.compile(rb"\s*\[\s*\{")


def is_jsonl(stream: Stream, _: ReadOptions) -> bool:
    return stream.first_line.lstrip().startswith(b"{") or _LIST.match(stream.head) is not None


def read_jsonl(stream: Stream, reading: Reading) -> Iterator[Corpus]:
    yield from read_records(_listed(stream) if _LIST.match(stream.head) else objects(stream), reading)


def objects(stream: Stream) -> Iterator[Numbered]:
    """(line number, value) of each line, or what is wrong with it. Blank lines may only end the file."""
    loads = orjson.loads
    blank = 0
    for number, line in stream.lines():
        reason = ""
        try:
            value = loads(line)
        except orjson.JSONDecodeError as error:
            if not line or line.isspace():
                blank = blank or number
                continue
            reason = _reason(line, error, number, stream)
        if blank:
            yield blank, RecordError("a blank line between documents")
            blank = 0
        yield number, RecordError(reason) if reason else value


def _listed(stream: Stream) -> Iterator[Numbered]:
    """(place in the list from 1, value) of each item of a list that is the whole file."""
    pieces: list[bytes] = []
    size = 0
    for chunk in stream.chunks():
        pieces.append(chunk)
        size += len(chunk)
        if size > MOST_BYTES:
            raise InputError(stream.name, f"a JSON list of more than {MOST_BYTES >> 30} GB; {_ADVICE}")
    content = b"".join(pieces)
    del pieces
    try:
        values = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise InputError(stream.name, f"not JSON: {error.msg} at column {error.colno}", error.lineno) from None
    del content
    yield from enumerate(values, start=1)


def _reason(line: bytes, error: orjson.JSONDecodeError, number: int, stream: Stream) -> str:
    try:
        stream.decode(line)
    except ValueError as wrong:
        return str(wrong)
    if number == 1 and line.strip() == b"{":
        return f"JSON spread over lines; {_ADVICE}"
    return f"not JSON: {error.msg} at column {error.colno}"
