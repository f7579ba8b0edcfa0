"""Vocabularies in SKOS: RDF/XML, Turtle or N-Triples, read by rdflib.

A label's text begins with its preferred name, which is what people see; alternative names and the preferred names of
broader concepts follow, one per line, for methods that learn from label texts.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from longtail.errors import InputError, UsageError
from longtail.keep.streams import Stream, bare_name, open_stream
from longtail.read.label_table import LabelTable, ends_of
from longtail.run import Run
from longtail.texts import without_half_surrogates

#: rdflib's names of the formats, by ending.
FORMATS = {
    ".ttl": "turtle",
    ".turtle": "turtle",
    ".nt": "nt",
    ".ntriples": "nt",
    ".rdf": "xml",
    ".owl": "xml",
    ".skos": "xml",
    ".xml": "xml",
}

#: What a predicate says, by the last part of its address: SKOS's own words, and those of the GND and of MADS.
_KINDS = (
    (re.compile(r"prefLabel|preferredName\w*|authoritativeLabel"), "name"),
    (re.compile(r"altLabel|variantName\w*|variantLabel"), "other"),
    (re.compile(r"broader(?!Transitive)\w*|hasBroaderAuthority"), "broader"),
    (re.compile(r"narrower(?!Transitive)\w*|hasNarrowerAuthority"), "narrower"),
    (re.compile(r"notation|gndIdentifier"), "notation"),
    (re.compile(r"label"), "label"),
)


def format_of(stream: Stream) -> str | None:
    """rdflib's name of the file's format, or None if it is no RDF."""
    ending = Path(bare_name(stream.name)).suffix
    start = stream.start.lstrip()[:2000]
    if ending == ".jsonld":
        raise InputError(stream.name, "JSON-LD is not read; save it as Turtle (.ttl)")
    if start.startswith((b"<?xml", b"<rdf:RDF", b"<!DOCTYPE rdf")):
        return "xml"
    if re.match(rb"(?:#[^\n]*\s+)*(?:@prefix|@base|prefix|base)\s", start, re.IGNORECASE):
        return "turtle"
    if re.match(rb"(?:#[^\n]*\s+)*<[^<>\s]+>\s+<[^<>\s]+>\s+\S", start):
        return "turtle" if FORMATS.get(ending) == "turtle" else "nt"
    return FORMATS.get(ending)


def read_skos(path: Path, language: str | None, run: Run) -> LabelTable:
    """The concepts of a vocabulary, in the order of their addresses."""
    with open_stream(path) as stream:
        form = format_of(stream)
        assert form is not None
        concepts = _parsed(stream, form, run)
    names = sorted(concepts.names)
    if not names:
        raise InputError(path, "there is no preferred name of a concept (skos:prefLabel) in the file")
    counts = Counter(spoken for name in names for spoken in concepts.names[name])
    there = sorted(counts, key=lambda spoken: (-counts[spoken], spoken != "en", spoken))
    spoken = [one for one in there if one] or there
    if language is not None and language not in spoken:
        raise UsageError(f"{path}: no names in the language '{language}'; there are: {', '.join(spoken)}")
    wanted = [language] if language is not None else spoken
    texts = {one: [concepts.text(name, one, there) for name in names] for one in wanted}
    return LabelTable(str(path), names, texts[wanted[0]], other_names=concepts.other_names(names), languages=texts)


class _Concepts:
    """What is said of each concept."""

    def __init__(self) -> None:
        self.names: dict[str, dict[str, str]] = {}
        self.others: dict[str, dict[str, list[str]]] = {}
        self.broader: dict[str, list[str]] = {}
        self.notations: dict[str, str] = {}
        self._plain_names: dict[str, dict[str, str]] = {}

    def add(self, kind: str, subject: str, value: str, spoken: str | None) -> None:
        """spoken  the language of a text, "" if it has none; None if the value is the address of another concept"""
        if kind in ("broader", "narrower"):
            below, above = (subject, value) if kind == "broader" else (value, subject)
            if spoken is None and above not in self.broader.setdefault(below, []):
                self.broader[below].append(above)
            return
        value = " ".join(without_half_surrogates(value).split())
        if not value or spoken is None:
            return
        if kind == "name":
            self.names.setdefault(subject, {}).setdefault(spoken, value)
        elif kind == "label":
            self._plain_names.setdefault(subject, {}).setdefault(spoken, value)
        elif kind == "other":
            self.others.setdefault(subject, {}).setdefault(spoken, []).append(value)
        else:
            self.notations.setdefault(subject, value)

    def complete(self) -> None:
        """Vocabularies that have no preferred names at all may have plain ones."""
        self.names = self.names or self._plain_names

    def name(self, concept: str, spoken: str, there: list[str]) -> str:
        """The preferred name in a language, else without one, else in another."""
        known = self.names.get(concept, {})
        return next((known[one] for one in (spoken, "", *there) if one in known), "")

    def text(self, concept: str, spoken: str, there: list[str]) -> str:
        others = self.others.get(concept, {})
        above = [self.name(one, spoken, there) for one in sorted(self.broader.get(concept, ()))]
        lines = (
            self.name(concept, spoken, there),
            *sorted(others.get(spoken, ())),
            *sorted(others.get("", ())),
            *above,
        )
        return "\n".join(dict.fromkeys(line for line in lines if line))

    def other_names(self, concepts: list[str]) -> dict[str, dict[str, int]]:
        """Names that documents may have instead of addresses; the first concept of a name counts."""
        notations: dict[str, int] = {}
        preferred: dict[str, int] = {}
        for number, concept in enumerate(concepts):
            if concept in self.notations:
                notations.setdefault(self.notations[concept], number)
            for name in self.names[concept].values():
                preferred.setdefault(name, number)
        return {
            "the ends of their addresses": ends_of(concepts),
            "their notations": notations,
            "their preferred names": preferred,
        }


def _parsed(stream: Stream, form: str, run: Run) -> _Concepts:
    from longtail.read.rdf import parse_rdf

    concepts = _Concepts()
    kinds: dict[str, str | None] = {}
    with run.bar("Reading labels", None) as bar:

        def take(subject: str, predicate: str, value: str, language: str | None) -> None:
            bar.advance()
            if predicate not in kinds:
                kinds[predicate] = _kind(predicate)
            kind = kinds[predicate]
            if kind is not None:
                concepts.add(kind, subject, value, None if language is None else language.split("-")[0].lower())

        parse_rdf(stream, form, take)
    concepts.complete()
    return concepts


def _kind(predicate: str) -> str | None:
    end = re.split("[/#]", predicate)[-1]
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(end)), None)
