"""Which recipe to train where nobody names one: a rule over what a corpus looks like.

| the corpus has | recipe |
|---|---|
| no texts, or labels that are codes without a text | bonsai |
| label texts or descriptive names, and labels that are mostly frequent | gandalf |
| the same, and labels that are mostly rare | label-text; label-trees where the extra neural is not installed |

What does not fit into memory gives way to the next smaller one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from longtail.corpus import Corpus
from longtail.inputs import as_corpus
from longtail.labels import LabelIndex
from longtail.memory import default_memory
from longtail.recipe import Recipe
from longtail.run import Run
from longtail.tagger import Tagger

#: Share of the labels that must have a text, or a name that describes them.
MOST = 0.5
#: Share of rare labels from which on what finds these pays for its time.
TAIL = 0.6
#: Names looked at, at most: enough to tell what they are like.
LOOKED_AT = 10_000

_WORD = re.compile(r"[^\W\d_]{3,}")


@dataclass(frozen=True)
class Choice:
    """A recipe, and why: a sentence's second half, as in "labels have texts"."""

    recipe: str
    because: str

    @property
    def line(self) -> str:
        return f"recipe {self.recipe}: {self.because} (--recipe takes another; longtail recipes lists them)"


def choose(corpus: Corpus, *, fits: Callable[[str], bool] = lambda recipe: True) -> Choice:
    """The recipe for a corpus.

    fits  whether a recipe may be trained in the memory there is
    """
    candidates = list(_wanted(corpus))
    for number, choice in enumerate(candidates):
        if fits(choice.recipe):
            if not number:
                return choice
            return Choice(choice.recipe, f"{candidates[0].recipe} would be better, and does not fit into memory")
    return candidates[0]  # refused by its plan, which says what to do


def train(
    documents: Any, labels: Any = None, *, recipe: str = "auto", seed: int = 0, threads: int = 0, **given: Any
) -> Tagger:
    """A tagger of the recipe that suits the documents, trained on them: what `longtail train` does, from Python.

    documents, labels  as of `longtail.as_corpus`, and so are text, separator and label_texts
    recipe  "auto", the name of a recipe (`longtail recipes` lists them), or FILE.toml; what "auto" takes and why is
            logged as information by the logger longtail.choose
    valid   as of `Tagger.fit`
    """
    valid = given.pop("valid", None)
    corpus = as_corpus(documents, labels, **given)
    corpus = corpus if corpus.labels.documents else corpus.counted()
    run = Run(seed=seed, threads=threads)
    run.memory = default_memory(run.workers)
    if recipe == "auto":
        choice = choose(corpus, fits=lambda name: _tagger(name, run).plan(corpus, run=run).fits)
        logging.getLogger(__name__).info("recipe %s: %s", choice.recipe, choice.because)
        recipe = choice.recipe
    if valid is not None and not isinstance(valid, tuple | Corpus):
        valid = as_corpus(valid, labels, **{name: given[name] for name in ("text", "separator") if name in given})
    return _tagger(recipe, run).fit(corpus, valid=valid, run=run)


def _tagger(recipe: str, run: Run) -> Tagger:
    return Recipe.find(recipe).tagger(seed=run.seed, threads=run.threads)


def _wanted(corpus: Corpus) -> Iterator[Choice]:
    """What to try, best first."""
    words = said_by(corpus.labels)
    if corpus.texts is None:
        yield Choice("bonsai", "documents come as features, without texts")
    elif words is None:
        yield Choice("bonsai", "labels have neither texts nor descriptive names, which --labels would give them")
    else:
        if corpus.labels.tail_share >= TAIL:
            rare = f"labels have {words}, and {corpus.labels.tail_share:.0%} of them are rare"
            yield Choice("label-text", rare)
            yield Choice("label-trees", f"{rare}; label-text needs more memory")
        yield Choice("gandalf", f"labels have {words}, and most of them are frequent")
    yield Choice("bonsai", "it needs least memory")


def said_by(labels: LabelIndex) -> str | None:
    """What describes the labels: "texts", "descriptive names", or nothing."""
    columns = range(0, len(labels), max(1, len(labels) // LOOKED_AT))
    if labels.texts is not None and sum(bool(labels.texts[column]) for column in columns) >= MOST * len(columns):
        return "texts"
    described = sum(_WORD.search(labels.names[column]) is not None for column in columns)
    return "descriptive names" if described >= MOST * len(columns) else None
