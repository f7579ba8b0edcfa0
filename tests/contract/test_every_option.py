"""No option is accepted and ignored: each one, set to another value, changes what a run does, or is refused.

Every option of every part is changed in a small run in which the part is used; what the run learns and predicts must
change with at least one of the values tried. Options that count only beside others (`option(only=...)`) are tried where
they count, and must be refused elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import Field, fields
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from contract_cases import without_torch

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.labels import LabelIndex
from longtail.part import Part, default_of
from longtail.registry import Entry, build, config_of, entries
from longtail.tagger import Tagger

Config = dict[str, Any]
WORDS = 60


@cache
def corpus() -> Corpus:
    """160 documents of 3 to 12 words, some twice, and 40 labels of two words each, half of them with few documents."""
    rng = np.random.default_rng(0)
    labels, share = 40, 1 / np.arange(1, 41)
    Y = np.zeros((160, labels), dtype=np.float32)
    texts = []
    for row in range(160):
        own = rng.choice(labels, size=rng.integers(1, 4), replace=False, p=share / share.sum())
        Y[row, own] = 1
        words = [word for label in own for word in (f"label{label:02d}", f"kind{label % 7}", f"label{label:02d}")]
        words += [f"word{number:02d}" for number in rng.integers(0, WORDS, rng.integers(1, 7))]
        texts.append(" ".join(rng.permutation(words)))
    names = [f"name{j:02d}" for j in range(labels)]
    index = LabelIndex(names, [f"label{j:02d} kind{j % 7} word{j:02d}" for j in range(labels)])
    return Corpus(labels=index, Y=sp.csr_matrix(Y), texts=texts, ids=[f"d{n}" for n in range(160)]).counted()


PARABEL: Config = {"part": "parabel", "trees": 2, "max_leaf": 6}
#: Small runs in which every option can matter: options of a part beside its defaults.
BASES: dict[str, Config] = {
    "parabel": PARABEL,
    "bonsai": {"part": "bonsai", "trees": 2, "max_leaf": 4, "branches": 5, "depth": 2, "beam": 3},
    "fastxml": {"part": "fastxml", "trees": 3, "max_leaf": 4},
    "pfastrexml": {"part": "pfastrexml", "trees": 3, "max_leaf": 4, "shortlist": 5},
    "ensemble": {"part": "ensemble", "members": [PARABEL, {"part": "one-vs-all"}]},
    "decoupled": {"part": "decoupled", "learner": PARABEL},
    "pipeline": {"part": "pipeline", "learner": PARABEL},
    "gandalf": {"part": "gandalf", "hops": 3, "neighbours": 3, "head": 20},
    "labelmix": {"part": "labelmix", "hops": 3, "neighbours": 3, "head": 20},
    "ranknet": {"part": "ranknet", "epochs": 12, "width": 4, "depth": 20, "start": "scores", "learning_rate": 3.0},
    "inverse-propensity": {"part": "inverse-propensity", "depth": 10},
}
#: Options that nothing but size or speed depends on, or whose effect no small run shows, each with the reason.
EXCEPTIONS: dict[str, str] = {}
#: Values to try where the general ones do not show it.
VALUES: dict[str, list[Any]] = {
    "ensemble.members": [[PARABEL, {"part": "bonsai", "trees": 1}]],
    "ensemble.weights": [[1.0, 5.0]],
    "decoupled.learner": [{"part": "one-vs-all"}],
    "decoupled.tail": [{"part": "one-vs-all"}],
    "pipeline.learner": [{"part": "one-vs-all"}],
    "pipeline.features": [{"part": "tfidf", "ngrams": 2}],
    "pipeline.augment": [["gandalf"]],
    "pipeline.rerank": [["inverse-propensity"]],
}


def run(kind: str, config: Config) -> Tagger:
    """A small run in which a part of that kind is used."""
    given: dict[str, Config] = {
        "learner": {"learner": config},
        "wrapper": {"learner": config},
        "features": {"learner": PARABEL, "features": config},
        # word pairs, so that the order of words counts
        "augmenter": {"learner": PARABEL, "augment": [config], "features": {"part": "tfidf", "ngrams": 2}},
        "re-ranker": {"learner": PARABEL, "rerank": [config]},
    }
    return Tagger(**given[kind], seed=1, threads=1)


def effect(kind: str, config: Config) -> str:
    """A hash of all that a run learnt and of what it predicts, nothing of its configuration."""
    tagger = run(kind, config).fit(corpus())
    state = hashlib.sha256()
    for part in tagger.pipeline.fitted_parts().values():
        for name, array in sorted(part.state().items()):
            state.update(name.encode() + np.ascontiguousarray(array).tobytes())
    for k in (1, 5, 30):
        scores = tagger.score(corpus(), k)
        state.update(scores.ids.tobytes() + scores.values.tobytes())
    return state.hexdigest()


@cache
def _effect_of_base(kind: str, name: str, context: str) -> str:
    import json

    return effect(kind, json.loads(context))


def candidates(entry: Entry, f: Field[Any], value: Any) -> Iterator[Any]:
    """Other values of an option, the most different first."""
    known = VALUES.get(f"{entry.name}.{f.name}")
    if known is not None:
        yield from known
        return
    low, high, choices = (f.metadata.get(key) for key in ("low", "high", "choices"))
    if choices:
        yield from (choice for choice in choices if choice != value)
    elif isinstance(value, bool):
        yield not value
    else:
        number = 1 if value is None else value
        tried = [low, number * 4, number / 4, number + 1, number - 1, 0, 1, 2, 5, 0.5, high]
        for other in tried:
            if other is None or other == value:
                continue
            whole = isinstance(default_of(f), int) or "int" in str(f.type)
            typed = int(other) if whole else float(other)
            if typed != value and (low is None or typed >= low) and (high is None or typed <= high):
                yield typed


def cases() -> list[Any]:
    made = []
    for entry in entries():
        if entry.kind not in ("learner", "wrapper", "features", "augmenter", "re-ranker") or entry.extra:
            continue
        made += [
            pytest.param(entry, f, id=f"{entry.name}.{f.name}", marks=[without_torch] if entry.extra else [])
            for f in fields(entry.load())
        ]
    return made


@pytest.mark.parametrize(("entry", "f"), cases())
def test_an_option_acts_or_is_refused(entry: Entry, f: Field[Any]) -> None:
    import json

    path = f"{entry.name}.{f.name}"
    if path in EXCEPTIONS:
        pytest.skip(EXCEPTIONS[path])
    base = {"part": entry.name, **BASES.get(entry.name, {})}
    for other, wanted in f.metadata["only"].items():
        base[other] = wanted[0] if isinstance(wanted, tuple) else wanted
    part: Part = build(base)
    plain = _effect_of_base(entry.kind, entry.name, json.dumps(base, sort_keys=True))
    refused = None
    for value in candidates(entry, f, getattr(part, f.name)):
        try:
            changed = effect(entry.kind, {**base, f.name: value})
        except UsageError as error:
            refused = error
            continue
        if changed != plain:
            return
    assert refused is not None and f.name in str(refused), f"{path} is accepted and ignored"


@pytest.mark.parametrize(("entry", "f"), [case for case in cases() if case.values[1].metadata["only"]])
def test_an_option_is_refused_where_it_does_not_count(entry: Entry, f: Field[Any]) -> None:
    default = default_of(f)
    for other, wanted in f.metadata["only"].items():
        allowed = wanted if isinstance(wanted, tuple) else (wanted,)
        sibling = next(g for g in fields(entry.load()) if g.name == other)
        elsewhere = [v for v in candidates(entry, sibling, allowed[0]) if v not in allowed]
        (value, *_) = candidates(entry, f, default)
        with pytest.raises(UsageError, match=rf"{entry.name}\.{f.name} counts only where {other} is"):
            build({"part": entry.name, other: elsewhere[0], f.name: value})
        build({"part": entry.name, other: elsewhere[0], f.name: default})


def test_the_test_would_notice() -> None:
    """A part with an idle option has the same effect whatever the option says."""
    with_seed = config_of(build(PARABEL))
    assert effect("learner", with_seed) == effect("learner", PARABEL)
    assert effect("learner", {**PARABEL, "beam": 1}) != effect("learner", PARABEL)
