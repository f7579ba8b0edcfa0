"""Labels by what a person types: a name, a text, or the beginning or a piece of either."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches

from longtail.errors import UsageError
from longtail.labels import LabelIndex

#: Candidates that a message lists.
LISTED = 5


def find_label(labels: LabelIndex, wanted: str, where: str) -> int:
    """The column of the one label that is meant: exact name or text first, then whatever the case, then pieces. One
    that people call so comes before those with such a line in their text, which may be what is above them.

    where  what the labels are of, for messages
    """
    if wanted in labels.ids:
        return labels.ids[wanted]
    folded = wanted.casefold()
    ways: list[Callable[[str], bool]] = [
        lambda said: said == wanted,
        lambda said: said.casefold() == folded,
        lambda said: said.casefold().startswith(folded),
        lambda said: folded in said.casefold(),
    ]
    for matches in ways if wanted else []:
        found = list(_columns(labels, matches))
        called = [column for column in found if labels.title(column).casefold() == folded]
        if len(found) == 1 or len(called) == 1:
            return (called if len(called) == 1 else found)[0]
        if found:
            raise UsageError(f"{where} has {len(found):,} labels like '{wanted}': {listed(labels, found)}")
    texts = [line for text in labels.texts or () for line in text.splitlines()]
    close = get_close_matches(wanted, [*labels.names, *texts], n=1, cutoff=0.5)
    raise UsageError(f"{where} has no label '{wanted}'" + (f"; did you mean '{close[0]}'?" if close else ""))


def _columns(labels: LabelIndex, matches: Callable[[str], bool]) -> Iterator[int]:
    """The labels whose name, or a line of whose text, is as wanted: further lines are other names of a label."""
    for column, name in enumerate(labels.names):
        text = labels.texts[column] if labels.texts is not None else ""
        if matches(name) or any(matches(line) for line in text.splitlines()):
            yield column


def listed(labels: LabelIndex, columns: Iterable[int]) -> str:
    """The most frequent of some labels, each with its text, for a message."""
    order = sorted(columns, key=lambda column: (-int(labels.frequency[column]), column))
    shown = [shown_label(labels.names[column], labels.title(column)) for column in order[:LISTED]]
    return ", ".join(shown) + (", ..." if len(order) > LISTED else "")


def shown_label(name: str, text: str, width: int = 60) -> str:
    """A label for a person: its name and, where it has one, its text, cut to some width."""
    shown = name if not text or text == name else f"{name} {' '.join(text.split())}"
    return shown if len(shown) <= max(width, len(name)) else f"{shown[: max(width, len(name)) - 1]}…"
