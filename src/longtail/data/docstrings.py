"""What a numpydoc docstring says: its summary, its prose without marks, and the names that its 'See Also' gives."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

_SECTION = re.compile(r"^([^\n]+)\n[-=~]{3,}[ \t]*$", re.MULTILINE)
_LEFT_OUT = frozenset({"see also", "examples", "example", "references"})
_SIGNATURE = re.compile(r"^[\w.]+\(.*\)(\s*->.*)?$", re.DOTALL)
_NAME = r"(?::[\w:]+:)?`?[~.!]{0,2}[A-Za-z_][\w.]*(?:\(\))?`?"
_NAMES = re.compile(rf"^[-*]?\s*({_NAME}(?:\s*,\s*{_NAME})*)\s*,?\s*(?:$|:(?:\s|$)|--?\s)")
_QUOTED = re.compile(r"^[-*]?\s*((?::[\w:]+:)?`[^`\n]+`(?:\s*,\s*(?:and\s+)?(?::[\w:]+:)?`[^`\n]+`)*)")
_SENTENCE = re.compile(
    r"\([^()]*see\s+also\W[^()]*\)|\bsee\s+also:?\s.*?(?:[.;]\)?(?=\s|$)|\n\s*\n|\Z)", re.IGNORECASE | re.DOTALL
)
_IN_QUOTES = re.compile(r"(:[\w:]+:)?(?<!`)`([^`\n]+)`(?!`)")


def _sections(doc: str) -> Iterator[tuple[str, str]]:
    """(title in small letters, body) of a numpydoc docstring; the part before the first title has the title ""."""
    title, start = "", 0
    for match in _SECTION.finditer(doc):
        yield title, doc[start : match.start()]
        title, start = match[1].strip().lower(), match.end()
    yield title, doc[start:]


def summary_of(doc: str) -> tuple[str, str]:
    """(first paragraph, the rest up to the first section), without the signature that compiled functions begin with."""
    paragraphs = re.split(r"\n\s*\n", _without_directives(next(_sections(doc))[1].strip()))
    while paragraphs and (_SIGNATURE.match(paragraphs[0]) or not prose(paragraphs[0])):
        paragraphs.pop(0)
    rest = "\n\n".join(paragraphs[1:])
    return (prose(paragraphs[0]) if paragraphs else ""), prose(rest)


def see_also(doc: str) -> list[str]:
    """The names in the 'See Also' section, `.. seealso::` directives and 'see also' sentences of a docstring."""
    if not re.search(r"see\s*also", doc, re.IGNORECASE):
        return []
    bodies = [inspect.cleandoc(body) for title, body in _sections(doc) if title == "see also"]
    bodies += [inspect.cleandoc(body) for kind, body in _directives(doc) if kind == "seealso"]
    names: list[str] = []
    for line in "\n".join(bodies).splitlines():
        if line[:1].isspace():  # the description of the name above it
            continue
        if match := _NAMES.match(line) or _QUOTED.match(line):
            names += re.split(r"\s*,\s*(?:and\s+)?", match[1])
    for title, body in _sections(doc):
        if title != "see also":
            for sentence in _SENTENCE.finditer(_without_directives(body)):
                names += [quoted[0] for quoted in _IN_QUOTES.finditer(sentence[0])]
    bare = [_bare(name) for name in names if not name.startswith((":ref:", ":doc:"))]
    return [name for name in bare if name]


def _bare(name: str) -> str:
    """A name without role, quotes, the marks of short display, or call brackets."""
    name = re.sub(r"^:[\w:]+:", "", name).strip("`")
    if target := re.search(r"<([^>]+)>$", name):
        name = target[1]
    return name.lstrip("~.!").removesuffix("()").strip()


def long_text(name: str, doc: str) -> str:
    """Name, summary and the prose of a docstring: everything but code examples, references and 'See Also'."""
    summary, rest = summary_of(doc)
    parts = [f"{readable(name)}: {summary}", rest]
    for title, body in list(_sections(doc))[1:]:
        if title not in _LEFT_OUT:
            parts.append(prose(_without_directives(body)))
    return "\n".join(part for part in parts if part)


_DIRECTIVE = re.compile(r"^([ \t]*)\.\. ([\w-]+)::[^\n]*(?:\n(?:[ \t]*\n)*\1[ \t]+[^\n]*)*", re.MULTILINE)
_WORDLESS = frozenset(
    ["seealso", "math", "plot", "code-block", "deprecated", "versionadded", "versionchanged", "image"]
)


def _directives(doc: str) -> Iterator[tuple[str, str]]:
    for match in _DIRECTIVE.finditer(doc):
        yield match[2], match[0].partition("\n")[2]


def _without_directives(text: str) -> str:
    """Directives that hold no prose taken out whole."""
    return _DIRECTIVE.sub(lambda match: "" if match[2] in _WORDLESS else match[0], text)


def prose(text: str) -> str:
    """Prose on one line: no reStructuredText marks, no 'see also' sentences, which would give the labels away."""
    text = re.sub(r"^\s*>>>.*$|^\s*\.\.\s*[\w-]*::|^\s*[-=+~]{3,}[-=+~ ]*$", " ", text, flags=re.MULTILINE)
    text = re.sub(r"::\s*$", ":", text, flags=re.MULTILINE)
    text = re.sub(r":[\w:]+:`[~.!]*([^`<]*)(<[^>]*>)?`", r"\1", text)
    text = re.sub(r"`+[~.!]?([^`]*)`+_?", r"\1", text)
    text = re.sub(r"(?<![\w*`])\*{1,2}(\w[^*\n]*?)\*{1,2}(?![\w*`])", r"\1", _SENTENCE.sub(" ", text))
    return " ".join(text.split())


def readable(name: str) -> str:
    """A dotted name, followed by its last part in words where that has several: scipy.stats.theilslopes,
    sklearn.cluster.MiniBatchKMeans (mini batch k means)."""
    last = name.rpartition(".")[2]
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+", " ", last).strip().lower()
    return f"{name} ({words})" if " " in words else name
