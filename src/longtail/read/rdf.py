"""RDF by rdflib, statement by statement, with bounds: a file made to harm ends in one line, and soon.

rdflib puts long texts together piece by piece, and namespaces too, in time that grows with the square of their number;
so texts, depth and namespaces have limits that vocabularies stay far below.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

from longtail.errors import InputError, first_line
from longtail.keep.streams import Stream

#: Bytes of a file, characters of a text in it, elements inside one another, namespaces declared at the same time.
MOST_BYTES, LONGEST_TEXT, DEEPEST, MOST_NAMESPACES = 1 << 31, 1 << 16, 200, 500

#: Takes a statement: subject, predicate, object, and the language of the object: "" for a text without, None for an
#: address.
Take = Callable[[str, str, str, str | None], None]

#: What texts of Turtle may hide in, and texts themselves, which are long ones if nothing else.
_TOKENS = re.compile(
    rb"""<[^<>"{}|^`\\\s]*+>|\#[^\n]*+"""
    rb"""|(?P<text>\"\"\"(?:[^"\\]|\\.|"(?!""))*+(?:\"\"\")?|'''(?:[^'\\]|\\.|'(?!''))*+(?:''')?"""
    rb"""|"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?)""",
    re.DOTALL | re.VERBOSE,
)


def parse_rdf(stream: Stream, form: str, take: Take) -> None:
    """Gives the statements of a file to `take`; those about nodes without an address are left out.

    form  xml, turtle or nt
    """
    from rdflib import BNode, Graph, Literal
    from rdflib.parser import create_input_source

    class Sink(Graph):  # type: ignore[misc]  # rdflib is not looked into
        """Hands statements on and keeps nothing, so that memory holds names and not triples."""

        def add(self, triple: Any) -> Any:
            subject, predicate, value = triple
            if not isinstance(subject, BNode) and not isinstance(value, BNode):
                language = (value.language or "") if isinstance(value, Literal) else None
                take(str(subject), str(predicate), str(value), language)
            return self

        def bind(self, *names: Any, **options: Any) -> None:
            """Prefixes are of no use here, and equal ones take long to tell apart."""

    logger = logging.getLogger("rdflib")
    before = logger.level
    logger.setLevel(logging.CRITICAL)  # complaints about addresses that are none
    try:
        if form == "turtle":
            Sink().parse(data=_checked_turtle(stream), format=form, publicID="")
        elif form == "nt":
            Sink().parse(source=io.BufferedReader(_Bytes(stream, longest_line=LONGEST_TEXT)), format=form, publicID="")
        else:
            _parse_xml(create_input_source(source=io.BufferedReader(_Bytes(stream)), publicID=""), Sink(), stream.name)
    except InputError:
        raise
    except Exception as error:  # whatever a damaged file leads rdflib to, deep nesting included
        raise InputError(stream.name, f"not readable as {form}: {_reason(error)}", _line(error)) from None
    finally:
        logger.setLevel(before)


def _checked_turtle(stream: Stream) -> bytes:
    """All of the file, which rdflib reads in one go."""
    content = io.BufferedReader(_Bytes(stream)).read()
    for token in _TOKENS.finditer(content):
        if token["text"] and len(token["text"]) > LONGEST_TEXT:
            raise InputError(stream.name, _too_long(), content.count(b"\n", 0, token.start()) + 1)
    return content


def _too_long() -> str:
    return f"a text of more than {LONGEST_TEXT >> 10} KB, which is no name"


def _parse_xml(source: Any, sink: Any, name: str) -> None:
    """As rdflib's own parser does it, with an eye on what grows."""
    from rdflib.plugins.parsers.rdfxml import create_parser

    parser = create_parser(source, sink)
    handler: Any = parser.getContentHandler()
    declared = 0

    def watched(method: Callable[..., None], change: int = 0) -> Callable[..., None]:
        def call(*given: Any) -> None:
            nonlocal declared
            declared += change
            if declared > MOST_NAMESPACES or len(handler.stack) > DEEPEST:
                raise InputError(name, "implausibly many namespaces, or elements inside one another")
            method(*given)
            current = handler.current
            if current is not None and len(current.data or "") > LONGEST_TEXT:
                raise InputError(name, _too_long())

        return call

    def left_out(*_: Any) -> None:
        """Literals with elements in them are no names, and rdflib parses each anew with every element of it."""
        below = handler.next
        below.start, below.char, below.end = left_out, None, lambda *_: None

    handler.literal_element_start = left_out
    handler.literal_element_char = handler.literal_element_end = lambda *_: None
    handler.characters = watched(handler.characters)
    handler.startElementNS = watched(handler.startElementNS)
    handler.endElementNS = watched(handler.endElementNS)
    handler.startPrefixMapping = watched(handler.startPrefixMapping, 1)
    handler.endPrefixMapping = watched(handler.endPrefixMapping, -1)
    parser.parse(source)


def _line(error: Exception) -> int | None:
    """Where another library's parser stopped."""
    lines = getattr(error, "lines", None)  # rdflib counts line ends
    if isinstance(lines, int):
        return lines + 1
    tell = getattr(error, "getLineNumber", None)
    return tell() if tell is not None else None


def _reason(error: Exception) -> str:
    for name in ("_why", "getMessage"):
        said = getattr(error, name, None)
        if said:
            return str(said() if callable(said) else said).splitlines()[0][:200]
    return first_line(error)


class _Bytes(io.RawIOBase):
    """A stream's bytes as a file that ends in an error where there are too many, of all or of a line."""

    def __init__(self, stream: Stream, longest_line: int | None = None) -> None:
        self._name, self._longest = stream.name, longest_line
        self._chunks: Iterator[bytes] = stream.chunks()
        self._left = memoryview(b"")
        self._taken = 0
        self._begun = 0  # bytes since the last line end

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        if not self._left:
            self._take(next(self._chunks, b""))
        target = memoryview(room).cast("B")
        count = min(len(target), len(self._left))
        target[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def _take(self, chunk: bytes) -> None:
        self._left = memoryview(chunk)
        self._taken += len(chunk)
        if self._taken > MOST_BYTES:
            raise InputError(self._name, f"unpacks to more than {MOST_BYTES >> 30} GB")
        if self._longest is not None:
            lines = chunk.split(b"\n")
            if max(self._begun + len(lines[0]), *map(len, lines)) > self._longest:
                raise InputError(self._name, _too_long())
            self._begun = len(lines[-1]) if lines[1:] else self._begun + len(chunk)
