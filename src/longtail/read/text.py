"""Plain text: one document a line, no labels; for prediction."""

from __future__ import annotations

from longtail.corpus import Corpus
from longtail.keep.streams import Stream, decode
from longtail.read.builder import Builder, Options, ReadReport


def read_text_lines(stream: Stream, options: Options, report: ReadReport) -> Corpus:
    """Every line is a document, blank ones too, so that what comes out lines up with what went in."""
    builder = Builder(report, options)
    for number, line in stream.lines():
        try:
            text = decode(line.removesuffix(b"\r"))
        except ValueError as wrong:
            builder.bad(str(wrong), number)
            continue
        builder.append(text, None, (), (), 0)
    return builder.finish()
