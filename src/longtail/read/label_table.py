"""What a labels file says: names and texts of the labels, and what else documents may call them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

_WORD = re.compile(r"\w{3,}")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")

#: Documents, characters of each, and labels that are looked at to tell the language of the documents.
_DOCUMENTS, _CHARACTERS, _LABELS = 2000, 2000, 5000


class _Report(Protocol):
    notes: list[str]


@dataclass(frozen=True)
class LabelTable:
    """The labels of a labels file, in file order.

    names        what documents are taken to call the labels
    texts        of the labels; the first line of each is its name for people, the others say more about it
    other_names  number of the label by another name, for documents that use these; by what names these are
    languages    the texts by language, where there are several
    remarks      what is to be said about the file
    """

    path: str
    names: Sequence[str]
    texts: Sequence[str]
    other_names: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    languages: Mapping[str, Sequence[str]] = field(default_factory=dict)
    remarks: Sequence[str] = ()

    def texts_of(self, names: Sequence[str], report: _Report, documents: Iterable[str] = ()) -> list[str]:
        """Text of each name, "" for those the file does not list.

        documents  whose language decides where the file has texts in several
        """
        report.notes.extend(f"{self.path}: {remark}" for remark in self.remarks)
        ways = {"": {name: number for number, name in enumerate(self.names)}, **self.other_names}
        listed = {way: sum(name in known for name in names) for way, known in ways.items()}
        way = max(listed, key=lambda one: listed[one])
        numbers = [ways[way].get(name, -1) for name in names]
        if way:
            report.notes.append(f"labels are found in {self.path} by {way}")
        if listed[way] < len(names):
            report.notes.append(self._missing(names, listed[way]))
        texts = self.texts
        if len(self.languages) > 1:
            language, told = self._language([number for number in numbers if number >= 0], documents)
            texts = self.languages[language]
            others = [f"{self.path}::{other}" for other in self.languages if other != language]
            why = ", as the documents are" if told else ""
            report.notes.append(f"label texts are in '{language}'{why}; others: {', '.join(others[:6])}")
        return [texts[number] if number >= 0 else "" for number in numbers]

    def by_any_name(self) -> dict[str, str]:
        """Text by name, for who does not know which names are used; those the file lists first come first."""
        found: dict[str, str] = {}
        own = {name: number for number, name in enumerate(self.names)}
        for names in (own, *self.other_names.values()):
            for name, number in names.items():
                found.setdefault(name, self.texts[number])
        return {name: text for name, text in found.items() if text}

    def _missing(self, names: Sequence[str], count: int) -> str:
        if count:
            return f"{count} of {len(names)} labels are listed in {self.path}; the others have no text"
        theirs = f"; it has names such as '{self.names[0]}'" if self.names else ""
        return f"none of {len(names)} labels, such as '{names[0]}', is listed in {self.path}{theirs}"

    def _language(self, numbers: Sequence[int], documents: Iterable[str]) -> tuple[str, bool]:
        """The language in which most labels consist of words of the documents, and whether it is the only one; the
        first of several that are as good."""
        words: set[str] = set()
        for _, document in zip(range(_DOCUMENTS), documents, strict=False):
            words.update(_WORD.findall(document[:_CHARACTERS].casefold()))
        looked_at = numbers[:: max(1, len(numbers) // _LABELS)]

        def known(language: str) -> int:
            names = (self.languages[language][number].partition("\n")[0] for number in looked_at)
            return sum(
                bool(found) and words.issuperset(found) for found in (_WORD.findall(name.casefold()) for name in names)
            )

        counts = {language: known(language) for language in self.languages}
        best = max(counts, key=lambda language: counts[language])
        return best, list(counts.values()).count(counts[best]) == 1


def ends_of(names: Sequence[str]) -> dict[str, int]:
    """Numbers of the names that are addresses, by what they end in; the first one of an end counts."""
    ends: dict[str, int] = {}
    for number, name in enumerate(names):
        if _ADDRESS.fullmatch(name):
            ends.setdefault(re.split("[/#]", name)[-1], number)
    return ends
