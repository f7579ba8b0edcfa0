"""Records with fields, from whatever file: a look at the first ones tells how all are to be understood."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from longtail.corpus import Corpus
from longtail.errors import InputError
from longtail.read.builder import Builder, missing_field
from longtail.read.checks import with_sensible_labels
from longtail.read.fields import find_fields
from longtail.read.options import ID_FIELDS
from longtail.read.reading import Reading
from longtail.read.separators import DEFAULT, find_separator, kept_whole, shown

#: Records looked at before the first is read for good, and characters of theirs.
SAMPLE, SAMPLE_CHARACTERS = 1000, 1 << 22

#: One record with the line it begins in; a RecordError stands for one that cannot be made out.
Numbered = tuple[int, Any]


def read_records(records: Iterable[Numbered], reading: Reading) -> Iterator[Corpus]:
    """Documents from mappings of field to value; fields and separators that nobody named are found and said."""
    records = iter(records)
    first = _first(records)
    reading = _with_separator(first, _with_found_fields(first, reading))
    builder = Builder(reading)
    for line, record in chain(first, records):
        builder.add(record, line)
        if builder.full:
            yield builder.taken()
    for corpus in builder.rest():
        yield with_sensible_labels(corpus, reading)


def with_columns(
    there: Sequence[str], reading: Reading, source: str, line: int | None = None
) -> tuple[list[str], Reading]:
    """The columns of a table that are to be read, and the reading that knows what each of them is.

    source  and line, where the names of the columns stand, for messages
    """
    reading = _with_fields(list(there), reading, source, line, "columns")
    options = reading.options
    for name in options.required:
        if name not in there:
            raise InputError(source, missing_field(name, there), line)
        if list(there).count(name) > 1:
            raise InputError(source, f"two columns are called '{name}'", line)
    wanted = dict.fromkeys((*options.text_fields, *options.labels_fields, *reading.id_fields))
    return [name for name in wanted if name in there], reading


def _first(records: Iterator[Numbered]) -> list[Numbered]:
    first: list[Numbered] = []
    characters = 0
    for line, record in records:
        first.append((line, record))
        if isinstance(record, Mapping):
            characters += sum(len(value) for value in record.values() if isinstance(value, str))
        if len(first) >= SAMPLE or characters >= SAMPLE_CHARACTERS:
            break
    return first


def _with_found_fields(first: list[Numbered], reading: Reading) -> Reading:
    mappings = [(line, record) for line, record in first if isinstance(record, Mapping)]
    there = dict.fromkeys(name for _, record in mappings for name in record)
    if not there:
        return reading
    return _with_fields(list(there), reading, reading.report.source, mappings[0][0], "fields")


def _with_fields(there: list[str], reading: Reading, source: str, line: int | None, what: str) -> Reading:
    options = reading.options
    found = find_fields(there, options)
    guessed_labels = options.labels_field is None and found.labels and found.labels[0] != "labels"
    if reading.batch is not None and guessed_labels:
        found, guessed_labels = replace(found, labels=()), False  # nobody asks for the labels of batches
    lacking = [
        option
        for option, lacks in (
            ("--text-field", not found.text),
            ("--labels-field", not found.labels and options.need_labels),
        )
        if lacks
    ]
    if lacking:
        names = ", ".join(name[:60] for name in there[:40])
        raise InputError(
            source, f"{what} are: {names}; name {'them' if lacking[1:] else 'one'} with {', '.join(lacking)}", line
        )
    said = []
    if options.text_field is None and found.text != ("text",):
        said.append(f"text from {_listed(found.text)}")
    if guessed_labels:
        said.append(f"labels from {_listed(found.labels)}")
    if said and found.ids and not set(found.ids) & set(ID_FIELDS):
        said.append(f"ids from {_listed(found.ids)}")
    if said:
        reading.report.notes.append(", ".join(said))
    chosen = options.changed(text_field=found.text, labels_field=found.labels or None)
    return replace(reading, options=chosen, id_fields=found.ids or ID_FIELDS)


def _with_separator(first: list[Numbered], reading: Reading) -> Reading:
    """Labels given as texts are cut at a separator; not where others are given as lists, for then a text is a slip."""
    options = reading.options
    if options.separator is not None:
        return reading
    mappings = [record for _, record in first if isinstance(record, Mapping)]
    values = [record[name] for record in mappings for name in options.labels_fields if name in record]
    if any(isinstance(value, list | tuple | Mapping) for value in values):
        return reading
    texts = [value for value in values if isinstance(value, str)]
    sign = find_separator(texts)
    if sign is not None:
        reading.report.notes.append(f"labels are separated by {shown(sign)}")
    elif (kept := kept_whole(texts)) is not None:
        inside, text = kept
        reading.report.notes.append(f"labels such as '{text[:60]}' are kept whole; --separator '{inside}' cuts them")
    return reading.changed(separator=sign or DEFAULT)


def _listed(names: Sequence[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
