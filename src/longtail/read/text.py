"""Plain text: one document per line, no labels; for prediction."""

from __future__ import annotations

from collections.abc import Iterator

from longtail.corpus import Corpus
from longtail.keep.streams import Stream
from longtail.read.builder import Builder
from longtail.read.options import ReadOptions
from longtail.read.reading import Reading


def is_text(_: Stream, options: ReadOptions) -> bool:
    """Anything may be text, but nothing to learn from."""
    return not options.need_labels


def read_text_lines(stream: Stream, reading: Reading) -> Iterator[Corpus]:
    """Every line is a document, blank ones too, so that what comes out lines up with what went in."""
    builder = Builder(reading)
    for number, line in stream.lines():
        try:
            text = stream.decode(line.removesuffix(b"\r"))
        except ValueError as wrong:
            builder.bad(str(wrong), number)
            continue
        builder.append(text, None, (), (), 0)
        if builder.full:
            yield builder.taken()
    yield from builder.rest()
