"""Labels that do not look like labels: the wrong column, or several in one."""

from __future__ import annotations

from longtail.corpus import Corpus
from longtail.errors import InputError
from longtail.read.reading import Reading
from longtail.read.separators import shown

#: Fewer documents or labels than these say nothing.
DOCUMENTS, LABELS = 100, 20

#: Different labels per label given above which nearly every one is unique. 100 documents of a large thesaurus are at
#: 0.96, 500 at 0.85.
UNIQUE = 0.98

#: Share of the labels with the same sign in them above which it is taken for a separator.
SEPARATED = 0.9


def with_sensible_labels(corpus: Corpus, reading: Reading) -> Corpus:
    """The corpus, if its labels look like labels; else an error, or a note where someone insists."""
    options = reading.options
    if reading.batch is not None or reading.shared or not options.need_labels:
        return corpus
    problem = _problem(corpus)
    if problem and not options.force:
        raise InputError(reading.report.source, f"{problem}; --force reads it all the same")
    if problem:
        reading.report.notes.append(problem)
    return corpus


def _problem(corpus: Corpus) -> str:
    names = corpus.labels.names
    given = int(corpus.Y.nnz)
    if len(names) >= LABELS:
        often = {sign: sum(sign in name for name in names) for sign in ";|\n\t,"}
        sign = max(often, key=lambda one: often[one])
        # signs that stand in names too, as in 'Adams, Douglas', say nothing if these occur again and again
        if often[sign] >= SEPARATED * len(names) and (sign != "," or 2 * len(names) > given):
            example = next(name for name in names if sign in name)
            return (
                f"{often[sign]:,} of {len(names):,} labels hold {shown(sign)}, as in '{example[:60]}'; "
                f"if it separates labels, give it with --separator"
            )
    labelled = int((corpus.Y.getnnz(axis=1) > 0).sum())
    if labelled >= DOCUMENTS and len(names) >= UNIQUE * given:
        return (
            f"nearly every label is unique: {len(names):,} labels, given {given:,} times, as in '{names[0][:60]}'; "
            f"name the field of the labels with --labels-field, and what separates them with --separator"
        )
    return ""
