"""Text that is not UTF-8: found where it can be, and made UTF-8 on the way."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: What text is taken for that is not UTF-8: what Windows writes in Western Europe. Its letters are Latin-1's.
FALLBACK = "cp1252"

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark is the beginning of this one
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_HIGH = bytes(range(0x80, 0x100))
_BLANK = b" \t\r\n"
_RUN = re.compile(rb"[\x80-\xff]{3,}")
_CONTROL = bytes(sorted({*range(0x20), 0x7F} - {*b"\t\n\v\f\r\x1a\x1b"}))
_UNDEFINED = b"\x81\x8d\x8f\x90\x9d"  # in cp1252
_UNDECODABLE = "longtail.undecodable"


@dataclass
class Encoding:
    """The encoding of a file, as far as it is known.

    name     as Python calls it
    found    whether it was found in the content, not given and not UTF-8
    example  a word of the file that shows it
    """

    name: str = "utf-8"
    found: bool = False
    example: str = ""

    @property
    def remark(self) -> str:
        """What a person should know of it; nothing of UTF-8, and of what was asked for."""
        if not self.found:
            return ""
        if self.name.startswith("utf-"):
            return f"read as {self.name.upper()}"
        return f"not UTF-8: read as {self.name}, as in '{self.example}'; if that looks wrong, set --encoding"


def is_encoding(name: str) -> bool:
    """Whether Python knows a text encoding by this name."""
    try:
        b"abcd".decode(name, "ignore")
        codecs.getincrementaldecoder(name)
    except (LookupError, ValueError):
        return False
    return True


def is_utf8(name: str) -> bool:
    return codecs.lookup(name).name in ("utf-8", "utf-8-sig")


def to_utf8(
    blocks: Iterator[bytes], encoding: Encoding, given: str | None, fallback: str = FALLBACK
) -> Iterator[bytes]:
    """The same text in UTF-8, without a byte order mark.

    What cannot be decoded becomes bytes that are no UTF-8 either, so that whoever decodes the line says so.

    encoding  what is found is put here; complete once all blocks were taken
    given     the encoding, if it is known
    fallback  what to take for text that is not UTF-8
    """
    first = next(blocks, b"")
    mark = next((mark for mark in _MARKS if first.startswith(mark)), b"")
    encoding.name = given or _MARKS.get(mark) or _unmarked_utf16(first) or "utf-8"
    if not mark and codecs.lookup(encoding.name).name in ("utf-16", "utf-32"):  # Python refuses these without a mark
        encoding.name = _unmarked_utf16(first) or f"{codecs.lookup(encoding.name).name}-le"
    encoding.found = given is None and not is_utf8(encoding.name)
    if is_utf8(encoding.name):
        first = first.removeprefix(codecs.BOM_UTF8)
    whole = _chained(first, blocks)
    if not is_utf8(encoding.name):
        yield from _transcoded(whole, encoding.name)
    elif given is None and not mark:
        yield from _checked(whole, encoding, fallback)
    else:
        yield from whole


def _chained(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _unmarked_utf16(start: bytes) -> str | None:
    """Text in Latin letters has a zero in every other byte."""
    sample = start[:4096]
    half = len(sample) // 2
    if half < 4:
        return None
    zeros = [sample[place::2].count(0) / half for place in (0, 1)]
    low = int(zeros[0] > zeros[1])  # where the other bytes are
    letters = sum(0x20 <= byte < 0x7F or byte in _BLANK for byte in sample[low::2]) / half
    if zeros[1 - low] < 0.5 or letters < 0.7:
        return None
    return "utf-16-be" if low else "utf-16-le"


def _checked(blocks: Iterator[bytes], encoding: Encoding, fallback: str) -> Iterator[bytes]:
    """ASCII goes through as it is; the first block with other characters decides."""
    held = b""  # the beginning of a character that goes on in the next block
    for block in blocks:
        data = held + block
        held = b""
        if data.isascii():
            yield data
            continue
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data)
        held = decoder.getstate()[0]
        if text.isascii():
            if len(data) > len(held):
                yield data[: len(data) - len(held)]
            continue
        if _is_other(data, text, fallback):
            encoding.name, encoding.found = fallback, True
            encoding.example = _example(data.decode(fallback, "replace"))
            yield from _transcoded(_chained(data, blocks), fallback)
            return
        yield data
        yield from blocks
        return
    if held and _is_other(held, "\ufffd", fallback):
        encoding.name, encoding.found = fallback, True
        encoding.example = _example(held.decode(fallback, "replace"))
        yield from _transcoded(iter([held]), fallback)
    elif held:
        yield held


def _is_other(data: bytes, text: str, fallback: str) -> bool:
    """Whether bytes that UTF-8 cannot account for outweigh those it can, and the rest looks like a Western text."""
    bad = text.count("\ufffd") - data.count("\ufffd".encode())
    good = len(re.findall("[^\0-\x7f\ufffd]", text))
    if bad <= good:
        return False
    if fallback != FALLBACK:
        return True
    high = len(data) - len(data.translate(None, _HIGH))
    control = len(data) - len(data.translate(None, _CONTROL))
    undefined = len(data) - len(data.translate(None, _UNDEFINED))
    in_runs = sum(map(len, _RUN.findall(data)))  # words in other scripts; Western ones have an accent here and there
    return in_runs <= 0.2 * high and control <= 0.001 * len(data) and undefined <= 0.01 * high


def _example(text: str) -> str:
    found = re.search(r"\w*[^\W\0-\x7f]\w*", text) or re.search(r"\S*[^\0-\x7f]\S*", text)
    return "" if found is None else found[0][:30]


def _transcoded(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(name)(_UNDECODABLE)
    begun = False
    for block in _and_end(blocks):
        text = decoder.decode(block, final=not block)
        if text and not begun:
            begun, text = True, text.removeprefix("\ufeff")
        if text:
            yield text.encode("utf-8", "surrogatepass")


def _and_end(blocks: Iterable[bytes]) -> Iterator[bytes]:
    for block in blocks:
        if block:
            yield block
    yield b""


def _undecodable(error: UnicodeError) -> tuple[str, int]:
    """A half surrogate for bytes that mean nothing."""
    assert isinstance(error, UnicodeDecodeError)
    return "\udcff", error.end


codecs.register_error(_UNDECODABLE, _undecodable)
