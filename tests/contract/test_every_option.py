"""No option is accepted and ignored: each one, set to another value, changes what a run does, or is refused.

Every option of every part is changed in a small run in which the part is used; what the run learns and predicts must
change with at least one of the values tried. Options that count only beside others (`option(only=...)`) are tried where
they count, and must be refused elsewhere.
"""

from __future__ import annotations

import hashlib
import json
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
from longtail.registry import Entry, build, config_of, entries, find
from longtail.tagger import Tagger
from tiny_seq2seq import save_tiny_seq2seq
from tiny_transformer import save_tiny_transformer

Config = dict[str, Any]
#: Words that word vectors know: 40 of labels, 7 that labels share, and others.
WORDS = """
    ship harbour anchor sail captain storm island coast whale lantern bread butter cheese apple wine kitchen oven salt
    garden tree flower rain cloud winter summer spring forest river mountain valley music piano guitar song concert
    dance theatre actor stage poem water earth fire stone metal glass paper house door window street market church
    school teacher student book letter story king queen soldier war peace law court judge money bank trade engine train
    bridge road horse dog cat bird fish doctor nurse hospital science number star moon sun light colour lighthouse dream
""".split()  # noqa: SIM905


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
        words = [word for label in own for word in (WORDS[label], WORDS[40 + label % 7], WORDS[label])]
        words += [WORDS[number] for number in rng.integers(47, len(WORDS), rng.integers(1, 7))]
        texts.append(" ".join(rng.permutation(words)))
    names = [f"name{j:02d}" for j in range(labels)]
    index = LabelIndex(names, [f"{WORDS[j]} {WORDS[40 + j % 7]} {WORDS[47 + j % 30]}" for j in range(labels)])
    return Corpus(labels=index, Y=sp.csr_matrix(Y), texts=texts, ids=[f"d{n}" for n in range(160)]).counted()


PARABEL: Config = {"part": "parabel", "trees": 2, "max_leaf": 6}
BAG: Config = {"part": "bag", "size": 12}
BILSTM: Config = {"part": "bilstm", "size": 12, "hidden": 6}
WEIGHTED: Config = {"part": "weighted-bag", "size": 12}
INCEPTION: Config = {"part": "inception", "size": 80, "channels": 2, "window": 6}
FEW_STEPS: Config = {"least_steps": 8, "epochs": 1, "batch": 32, "warm_up": 3, "retune_epochs": 1}
SAMPLED: Config = {"part": "sampled-labels", "negatives": 5}
ATTENTION: Config = {"part": "attentionxml", "encoder": BAG, "shortlist": SAMPLED, **FEW_STEPS}
TEXT_ATTENTION: Config = {"part": "text-attention", "bias": -3.0, "inner": 5}
LSAN: Config = {**ATTENTION, "part": "lsan", "head": TEXT_ATTENTION}
UNIT_VECTOR: Config = {"part": "unit-vector", "size": 6, "bias": -3.0}
HTTN: Config = {**ATTENTION, "part": "httn", "head": UNIT_VECTOR, "rarest": 5, "retune_epochs": None, "draws": 2,
                "documents": 2}  # fmt: skip
GROUPS: Config = {"groups": "always", "group_size": 4, "candidates": 2, "bottleneck": 5}
FLAT: Config = {"groups": "never", "group_size": 100, "candidates": 32, "bottleneck": 256}
CONVOLUTIONS: Config = {"part": "convolutions", "size": 6, "maps": 3, "bottleneck": 6}
XML_CNN: Config = {"part": "xml-cnn", "encoder": CONVOLUTIONS, "shortlist": SAMPLED, **FEW_STEPS}
SHORT: Config = {"encoder": WEIGHTED, "shortlist": SAMPLED, **FEW_STEPS}
LABEL_TEXT: Config = {"part": "label-text", "bias": -4.0}
CLUSTERS: Config = {"part": "label-clusters", "size": 4, "candidates": 3}
GRAPH: Config = {"hops": 3, "neighbours": 3, "head": 20}
#: Small runs in which every option can matter: options of a part beside its defaults.
BASES: dict[str, Config] = {
    "parabel": PARABEL,
    "bonsai": {"trees": 2, "max_leaf": 4, "branches": 5, "depth": 2, "beam": 3},
    "fastxml": {"trees": 3, "max_leaf": 4},
    "pfastrexml": {"trees": 3, "max_leaf": 4, "shortlist": 5},
    "xda": {"rarest": 3, "copies": 3},
    # words are drawn, for so little training would fill no gap
    "local": {"steps": 2, "minutes": 1.0, "width": 16, "layers": 1, "vocabulary": 300, "sample": True},
    "encoder-decoder": {"steps": 2, "minutes": 1.0, "sample": True},
    "ensemble": {"members": [PARABEL, {"part": "one-vs-all"}]},
    "decoupled": {"learner": PARABEL},
    "pipeline": {"learner": PARABEL},
    "gandalf": GRAPH,
    "labelmix": GRAPH,
    "labelmix-tokens": {**GRAPH, "probability": 0.9},
    "ranknet": {"form": "bottleneck", "width": 8, "depth": 20, "learning_rate": 0.03, "drawn": 10, "patience": 6},
    "calibrated-propensity": {"depth": 10},
    "inverse-propensity": {"depth": 10},
    "nearest-documents": {"neighbours": 8},
    "tfidf": {"language": "de"},
    "dense": {"source": "words", "vectors": "glove-6b-50d"},
    "join": {"parts": ["tfidf", {"part": "tfidf", "ngrams": 2}]},
    "attentionxml": {**ATTENTION, "tree": "always", "branches": 3, "top": 4, "candidates": 2, "least_steps": 4},
    "laroberta": {**ATTENTION, "part": "laroberta"},
    "lightxml": {"encoder": CONVOLUTIONS, **FEW_STEPS, **GROUPS},
    "lsan": LSAN,
    "httn": HTTN,
    "xml-cnn": XML_CNN,
    "astec": SHORT,
    "astec-modules": {**SHORT, "cluster_size": 3, "nearest": 8, "random": 3, "rerank_epochs": 1, "hard": 5,
                      "surrogate": 1, "least_steps": 4, "retune_epochs": None, "documents": 3, "centroids": 2,
                      "many": 3},
    "inceptionxml": {**SHORT, "encoder": INCEPTION},
    "decaf": {**SHORT, "head": LABEL_TEXT},
    "eclare": {**SHORT, "head": {**LABEL_TEXT, "graph": True}, "traverse": 0.3},
    "inceptionxml-lf": {**SHORT, "encoder": INCEPTION, "head": {**LABEL_TEXT, "graph": True}, "epochs": 2,
                        "least_steps": 4},
    "bilstm": {"size": 12, "hidden": 6},
    "bag": BAG,
    "convolutions": CONVOLUTIONS,
    "weighted-bag": WEIGHTED,
    "inception": INCEPTION,
    "label-attention": {"bias": -3.0},
    "text-attention": TEXT_ATTENTION,
    "unit-vector": UNIT_VECTOR,
    "label-text": LABEL_TEXT,
    "label-clusters": CLUSTERS,
    "sampled-labels": SAMPLED,
    "tailmix": {"rarest": None, "neighbours": 4},
    "lsfa": {"hidden": 16, "latent": 4, "epochs": 3},
    "contrastive": {"start": 0.0},
    "glas": {"most": 5},
    "ssmix": {"warm_up": 0.0},
}  # fmt: skip
#: What must be set beside an option for it to count, where that is for the learner to refuse and not for `only`.
BESIDE: dict[str, Config] = {
    "average_every": {"average": 0.1},
    "divisor": {"hops": 20, "restart": 0.1},  # walks that leave their label, which is not the most visited then
    "metric": {"valid_share": 0.4, "least_steps": 40, "label_rate": 0.05},
    "attentionxml.shortlist": {"tree": "never", "branches": 8, "top": 2048, "candidates": 160},
    **{f"label-clusters.{name}": {"surrogate": 1} for name in ("negatives", "frozen", "anew")},
    "lightxml.shortlist": FLAT,
    **{f"{name}.{rate}": {"encoder": BILSTM} for name in ("attentionxml", "laroberta") for rate in ("rate", "decay")},
    **{f"astec.{rate}": {"encoder": {**WEIGHTED, "residual": True}} for rate in ("rate", "decay")},
    **{f"ranknet.{name}": {"weight": "propensity"} for name in ("A", "B")},
    "tailmix.fixed": {"most": 2},
    "label-text.dropout": {"residual": True},
    "dense.model": {},
}
#: Options that nothing but size or speed depends on, or whose effect no small run shows, each with the reason.
EXCEPTIONS: dict[str, str] = {
    "patience": "spares epochs that are no better; the best one is kept either way",
    "dense.model": "another encoder is a folder or a download; tests/features/test_dense.py opens two",
    "dense.vectors": "needs a second file of vectors; tests/features/test_dense.py has some",
    "dense.file": "needs a file of vectors; tests/features/test_dense.py has some",
    "first-tokens.model": "another encoder is a folder or a download; the fixture has one",
    "transformer.model": "another encoder is a folder or a download; the fixture has one",
    "encoder-decoder.model": "another network is a folder or a download; tests/augment/test_networks_generator.py",
    "ranknet.stop": "the same pass may be the best by both; tests/rerank/test_ranknet.py measures both",
    "attentionxml.flat": "acts where tree is auto; tests/learners/test_attentionxml_tree.py",
}
#: Values to try where the general ones do not show it.
VALUES: dict[str, list[Any]] = {
    "ensemble.members": [[PARABEL, {"part": "bonsai", "trees": 1}]],
    "xda.generator": [{"part": "words", "share": 0.5}],
    "ensemble.weights": [[1.0, 5.0]],
    "decoupled.learner": [{"part": "one-vs-all"}],
    "decoupled.tail": [{"part": "one-vs-all"}],
    "pipeline.learner": [{"part": "one-vs-all"}],
    "pipeline.features": [{"part": "tfidf", "ngrams": 2}],
    "pipeline.augment": [["gandalf"]],
    "pipeline.rerank": [["inverse-propensity"]],
    "join.parts": [["tfidf", {"part": "tfidf", "sublinear": False}]],
    "join.weights": [[1.0, 3.0]],
    "dense.source": ["encoder"],
    "encoder": [{**BAG, "size": 9}, {**CONVOLUTIONS, "maps": 4}, {**WEIGHTED, "size": 9}, {**INCEPTION, "channels": 3}],
    "head": [{"part": "label-attention", "bias": -1.0}, {**TEXT_ATTENTION, "bias": -1.0},
             {**UNIT_VECTOR, "bias": -1.0},             {**LABEL_TEXT, "bias": -1.0, "graph": True},
             {"part": "pooled", "bias": -1.0}],
    "batch": [16, 1],  # the general ones begin with 1, a step per document
    "shortlist": ["all-labels"],
    "lightxml.shortlist": [SAMPLED],
    "vectors": ["glove-6b-50d"],
    "language": ["de", "en"],
    "tmix.layers": [[1], [2]],
    "lsfa.contrastive": [{"part": "contrastive", "weight": 5.0}],
    "dense.model": ["other"],
    "dense.file": ["vectors.npz"],
    "dense.vectors": ["other.txt"],
}  # fmt: skip
#: Learners in which parts of networks are tried.
INSIDE: dict[str, tuple[str, Config]] = {
    "bilstm": ("encoder", ATTENTION),
    "bag": ("encoder", ATTENTION),
    "transformer": ("encoder", {**ATTENTION, "part": "laroberta"}),
    "first-tokens": ("encoder", {**XML_CNN, "part": "lightxml", "average": None}),
    "convolutions": ("encoder", XML_CNN),
    "weighted-bag": ("encoder", {"part": "astec", **SHORT}),
    "inception": ("encoder", {"part": "inceptionxml", **SHORT}),
    "label-attention": ("head", ATTENTION),
    "text-attention": ("head", LSAN),
    "unit-vector": ("head", HTTN),
    "bottleneck": ("head", XML_CNN),
    "pooled": ("head", {"part": "astec", **SHORT}),
    "label-text": ("head", {"part": "decaf", **SHORT}),
    "sampled-labels": ("shortlist", ATTENTION),
    "all-labels": ("shortlist", ATTENTION),
    "label-clusters": ("shortlist", {"part": "decaf", **SHORT, "head": LABEL_TEXT}),
}
#: What generators write for.
UNFILTERED: Config = {"part": "xda", "rarest": 3, "copies": 1, "filter": False}
#: Words in their order, so that what changes their order counts.
PAIRS: Config = {"part": "tfidf", "ngrams": 2}
SHARED_COLUMNS: Config = {"part": "tfidf", "hash_bits": 5}


@pytest.fixture(scope="session")
def tiny_seq2seq(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of an encoder-decoder that knows the words and nothing about them."""
    return save_tiny_seq2seq(tmp_path_factory.mktemp("seq2seq"), WORDS, "bart")


def run(entry: Entry, config: Config) -> Tagger:
    """A small run in which a part is used."""
    if entry.name in INSIDE:
        slot, learner = INSIDE[entry.name]
        return Tagger({**learner, slot: config}, seed=1, threads=1)
    neural = entry.extra == "neural" and entry.kind in ("learner", "wrapper")
    staged = neural and entry.load()().capabilities.retunes
    vectors = entry.name == "retune" and config.get("vectors")
    twice = {"retune_epochs": 2} if entry.name == "lsfa" else {}  # passes that take turns are two or more
    given: dict[str, Config] = {
        "learner": {"learner": config, "augment": [{"part": "retune", "rows": "none"}] if staged else []},
        "wrapper": {"learner": config},
        # label trees bring rows to unit length by themselves, FastXML does not
        "features": {"learner": {"part": "fastxml", "trees": 2}, "features": config},
        "augmenter": {"learner": {**ATTENTION, "encoder": {**BILSTM, "depth": 2}, **twice}, "augment": [config]}
        if entry.extra or vectors
        else {"learner": PARABEL, "augment": [config], "features": PAIRS},
        "generator": {"learner": PARABEL, "augment": [{**UNFILTERED, "generator": config}], "features": PAIRS},
        # a learner that leaves a re-ranker something to do: words share columns
        "re-ranker": {"learner": {**PARABEL, "trees": 1, "eps": 5.0}, "features": SHARED_COLUMNS, "rerank": [config]},
    }  # fmt: skip
    return Tagger(**given[entry.kind], seed=1, threads=1)


def effect(entry: Entry, config: Config) -> str:
    """A hash of all that a run learnt and of what it predicts, nothing of its configuration."""
    tagger = run(entry, config).fit(corpus())
    state = hashlib.sha256()
    for part in tagger.pipeline.fitted_parts().values():
        for name, array in sorted(part.state().items()):
            state.update(name.encode() + np.ascontiguousarray(array).tobytes())
    for k in (1, 5, 30):
        scores = tagger.score(corpus(), k)
        state.update(scores.ids.tobytes() + scores.values.tobytes())
    return state.hexdigest()


@cache
def _effect_of_base(name: str, config: str) -> str:
    return effect(find(name), json.loads(config))


def candidates(entry: Entry, f: Field[Any], value: Any) -> Iterator[Any]:
    """Other values of an option, the most different first."""
    known = VALUES.get(f"{entry.name}.{f.name}", VALUES.get(f.name))
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
    return [
        pytest.param(entry, f, id=f"{entry.name}.{f.name}", marks=[without_torch] if entry.extra else [])
        for entry in entries()
        for f in fields(entry.load())
    ]


@pytest.fixture(scope="session")
def two_layers(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of an encoder that knows the corpus's words and nothing about them."""
    return save_tiny_transformer(tmp_path_factory.mktemp("layers"), WORDS, layers=2)


@pytest.mark.parametrize(("entry", "f"), cases())
def test_an_option_acts_or_is_refused(entry: Entry, f: Field[Any], request: pytest.FixtureRequest) -> None:
    path = f"{entry.name}.{f.name}"
    if path in EXCEPTIONS or f.name in EXCEPTIONS:
        pytest.skip(EXCEPTIONS.get(path, EXCEPTIONS.get(f.name, "")))
    base = {"part": entry.name, **BASES.get(entry.name, {})}
    if entry.name in ("transformer", "first-tokens"):
        base |= {"model": request.getfixturevalue("two_layers")}
    if entry.name == "encoder-decoder":
        base |= {"model": request.getfixturevalue("tiny_seq2seq")}
    base |= BESIDE.get(path, BESIDE.get(f.name, {}))
    for other, wanted in f.metadata["only"].items():
        allowed = wanted if isinstance(wanted, tuple) else (wanted,)
        if other in base or getattr(build(entry.name), other) not in allowed:
            base[other] = base[other] if base.get(other) in allowed else allowed[0]
    part: Part = build(base)
    plain = _effect_of_base(entry.name, json.dumps(base, sort_keys=True))
    refused = None
    for value in candidates(entry, f, getattr(part, f.name)):
        try:
            changed = effect(entry, {**base, f.name: value})
        except UsageError as error:
            refused = error
            continue
        if changed != plain:
            return
    assert refused is not None and f.name in str(refused), f"{path} is accepted and ignored ({refused})"


@pytest.mark.parametrize(("entry", "f"), [case for case in cases() if case.values[1].metadata["only"]])
def test_an_option_is_refused_where_it_does_not_count(entry: Entry, f: Field[Any]) -> None:
    default = default_of(f)
    for other, wanted in f.metadata["only"].items():
        allowed = wanted if isinstance(wanted, tuple) else (wanted,)
        sibling = next(g for g in fields(entry.load()) if g.name == other)
        choices = sibling.metadata["choices"] or candidates(entry, sibling, allowed[0])
        elsewhere = [value for value in choices if value not in allowed]
        (value, *_) = candidates(entry, f, default)
        with pytest.raises(UsageError, match=rf"{entry.name}\.{f.name} counts only where {other} is"):
            build({"part": entry.name, other: elsewhere[0], f.name: value})
        build({"part": entry.name, other: elsewhere[0], f.name: default})


def test_the_test_would_notice() -> None:
    """A part with an idle option has the same effect whatever the option says."""
    parabel = find("parabel")
    assert effect(parabel, config_of(build(PARABEL))) == effect(parabel, PARABEL)
    assert effect(parabel, {**PARABEL, "beam": 1}) != effect(parabel, PARABEL)
