"""fastText's training format: one document per line, `__label__a __label__b some text`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from longtail.corpus import Corpus
from longtail.keep.streams import Stream
from longtail.read.builder import Builder
from longtail.read.options import ReadOptions
from longtail.read.reading import Reading

#: Words end where fastText ends them; other Unicode spaces are part of a word.
_BLANKS = " \t\v\f\r\0"
_LABEL = re.compile(rf"(?<![^{_BLANKS}])__label__([^{_BLANKS}]*)[{_BLANKS}]*")


def is_fasttext(stream: Stream, _: ReadOptions) -> bool:
    """Whether the first word of the file is a label."""
    return re.match(rb"[ \t]*__label__[^\s\0]", stream.first_line) is not None


def read_fasttext(stream: Stream, reading: Reading) -> Iterator[Corpus]:
    """Words that begin with __label__ are labels wherever they stand, as fastText has it; the rest is the text."""
    builder = Builder(reading)
    blank = 0
    for number, line in stream.lines():
        if not line.strip(_BLANKS.encode()):
            blank = blank or number
            continue
        if blank:
            builder.bad("a blank line between documents", blank)
            blank = 0
        try:
            content = stream.decode(line)
        except ValueError as wrong:
            builder.bad(str(wrong), number)
            continue
        names = _LABEL.findall(content)
        if not all(name.strip() for name in names):
            builder.bad("an empty label: there is no name after __label__", number)
            continue
        builder.add_document(_LABEL.sub("", content).strip(_BLANKS), dict.fromkeys(names, 1.0), len(names))
        if builder.full:
            yield builder.taken()
    yield from builder.rest()
