"""What a labels file says: names and texts of the labels, and what else documents may call them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

_WORD = re.compile(r"\w{3,}")

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
            count = listed[way] or "none"
            report.notes.append(f"{count} of {len(names)} labels are listed in {self.path}; the others have no text")
        texts = self.texts
        if len(self.languages) > 1:
            language = self._language([number for number in numbers if number >= 0], documents)
            texts = self.languages[language]
            others = [f"{self.path}::{other}" for other in self.languages if other != language]
            report.notes.append(
                f"label texts are in '{language}', as the documents are; others: {', '.join(others[:6])}"
            )
        return [texts[number] if number >= 0 else "" for number in numbers]

    def by_any_name(self) -> dict[str, str]:
        """Text by name, for who does not know which names are used; those the file lists first come first."""
        found: dict[str, str] = {}
        own = {name: number for number, name in enumerate(self.names)}
        for names in (own, *self.other_names.values()):
            for name, number in names.items():
                found.setdefault(name, self.texts[number])
        return {name: text for name, text in found.items() if text}

    def _language(self, numbers: Sequence[int], documents: Iterable[str]) -> str:
        """The language in which most labels consist of words of the documents; the first one where none does."""
        words: set[str] = set()
        for _, document in zip(range(_DOCUMENTS), documents, strict=False):
            words.update(_WORD.findall(document[:_CHARACTERS].casefold()))
        looked_at = numbers[:: max(1, len(numbers) // _LABELS)]

        def known(language: str) -> int:
            names = (self.languages[language][number].partition("\n")[0] for number in looked_at)
            return sum(
                bool(found) and words.issuperset(found) for found in (_WORD.findall(name.casefold()) for name in names)
            )

        return max(self.languages, key=known)
