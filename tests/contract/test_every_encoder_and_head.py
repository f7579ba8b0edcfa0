"""What holds for every encoder and every head of a neural learner, and for any two that go together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning")
pytest.importorskip("transformers")

import scipy.sparse as sp
import torch
from contract_cases import (
    ATTENDED,
    ATTENTION,
    BILSTM,
    CONVOLUTIONS,
    INCEPTION,
    LABEL_TEXT,
    RESIDUAL,
    TEXT_ATTENTION,
    TITLES,
    UNIT_VECTOR,
    WEIGHTED,
    laroberta,
    lightxml,
)
from test_every_learner import check_scores, same_arrays

from longtail.capabilities import SPACES
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.learners.neural.encoders.base import Encoder
from longtail.learners.neural.encoders.network import EncoderNetwork
from longtail.learners.neural.encoders.short import ShortTextEncoder
from longtail.learners.neural.heads.base import Head, LabelFacts
from longtail.learners.neural.heads.label_text import LabelText
from longtail.learners.neural.heads.network import HeadNetwork
from longtail.learners.neural.training.batches import Batch, token_tensors
from longtail.registry import build, config_of, entries
from longtail.run import Run

TEXTS = ["word01 word02 word03 word04 word05", "word06", "", "word07 neverseen word08"]
RUN = Run(threads=1)
HEADS = {
    "label-attention": {"part": "label-attention"},
    "label-attention, shared": {"part": "label-attention", "classifier": "shared", "hidden": 16},
    "label-attention, two layers": {"part": "label-attention", "classifier": "shared", "hidden": 16, "second": 8},
    "text-attention": TEXT_ATTENTION,
    "text-attention, as published": {
        **TEXT_ATTENTION,
        "classifier": "shared",
        "hidden": 16,
        "text_scores": "plain",
        "train_texts": False,
    },
    "unit-vector": UNIT_VECTOR,
    "bottleneck": {"part": "bottleneck", "size": 5},
    "pooled": {"part": "pooled"},
    "label-text": LABEL_TEXT,
    "label-text, graph and attention": {**ATTENDED, "gelu": True, "start": "graph"},
    "label-text, no free vectors": {**RESIDUAL, "free": False},
}
ENCODERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "bilstm": lambda folder: BILSTM,
    "bag": lambda folder: {"part": "bag", "size": 16},
    "convolutions": lambda folder: CONVOLUTIONS,
    "convolutions, as published": lambda folder: {**CONVOLUTIONS, "skip": False},
    "weighted-bag": lambda folder: WEIGHTED,
    "weighted-bag, as published": lambda folder: {**WEIGHTED, "rectified": True, "residual": True},
    "inception": lambda folder: INCEPTION,
    "inception, as published": lambda folder: {**INCEPTION, "skip": False, "enhance": True, "channels": 40},
    "inception, routed": lambda folder: {**INCEPTION, "routed": True},
    "first-tokens": lambda folder: lightxml(folder)["encoder"],
    "first-tokens, frozen": lambda folder: {**lightxml(folder)["encoder"], "frozen": 1},
    "transformer": lambda folder: laroberta(folder)["encoder"],
    "transformer, frozen": lambda folder: {**laroberta(folder)["encoder"], "frozen": 1},
}


def test_every_one_has_a_case() -> None:
    assert {name.partition(",")[0] for name in ENCODERS} == {entry.name for entry in entries("encoder")}
    assert {name.partition(",")[0] for name in HEADS} == {entry.name for entry in entries("head")}


@pytest.fixture(params=list(ENCODERS))
def encoder(request: pytest.FixtureRequest, corpus: Corpus) -> Encoder:
    part = build(ENCODERS[request.param](request.getfixturevalue("tiny_transformer")), "encoder")
    assert isinstance(part, Encoder)
    part.fit_tokeniser(corpus.texts or [], RUN)
    return part


@pytest.fixture(params=list(HEADS))
def head(request: pytest.FixtureRequest) -> Head:
    part = build(HEADS[request.param], "head")
    assert isinstance(part, Head)
    return part


def drawn(part: Encoder) -> EncoderNetwork:
    torch.manual_seed(1)
    return part.network().eval()


def batch_of(part: Encoder, texts: list[str]) -> Batch:
    tokens = part.tokens(texts, RUN)
    ids, mask = token_tensors(tokens, np.arange(len(texts)))
    return Batch(np.arange(len(texts)), ids, mask, torch.arange(1), torch.empty(0))


# encoders
def test_encoders_give_a_vector_a_token_or_a_document(encoder: Encoder) -> None:
    assert set(encoder.capabilities.spaces) <= set(SPACES)
    network, batch = drawn(encoder), batch_of(encoder, TEXTS)
    with torch.inference_mode():
        hidden = network(batch)
        alone = [network(batch_of(encoder, [text])) for text in TEXTS]
    vectors = batch.tokens.shape if encoder.capabilities.per_token else len(TEXTS)
    assert hidden.shape == (*np.atleast_1d(vectors), network.width)
    assert torch.isfinite(hidden[batch.mask] if encoder.capabilities.per_token else hidden).all()
    assert 0 < network.word_width <= network.width and 0 <= network.frozen <= network.layers
    assert batch.mask.any(dim=1).all(), "a document without words has a token, too"
    for number, one in enumerate(alone):
        among = hidden[number, : one.shape[1]] if encoder.capabilities.per_token else hidden[number]
        torch.testing.assert_close(among, one[0], rtol=0, atol=1e-5)  # padding has no say


def test_encoders_start_from_torchs_seed_and_train_what_is_not_frozen(encoder: Encoder) -> None:
    first, second = drawn(encoder), drawn(encoder)
    assert all(torch.equal(one, other) for one, other in zip(first.parameters(), second.parameters(), strict=True))
    batch = batch_of(encoder, TEXTS)
    first.train()
    trained = [parameter for parameter in first.parameters() if parameter.requires_grad]
    if trained:
        hidden = first(batch)
        (hidden[batch.mask] if encoder.capabilities.per_token else hidden).square().sum().backward()
        assert all(parameter.grad is not None for parameter in trained)


def test_encoders_are_kept(encoder: Encoder) -> None:
    state = encoder.state()
    for array in state.values():
        array.flags.writeable = False
    again = build(config_of(encoder), "encoder")
    again.restore(state)
    assert same_arrays(again.state(), state)
    first, second = encoder.tokens(TEXTS, RUN), again.tokens(TEXTS, RUN)
    assert first.ids.tolist() == second.ids.tolist() and first.indptr.tolist() == second.indptr.tolist()
    assert {n: w.shape for n, w in drawn(again).state_dict().items()} == {
        n: w.shape for n, w in drawn(encoder).state_dict().items()
    }
    for key, array in state.items():
        for wrong in (None, array[:-1], array.astype(np.complex128)):
            changed = {name: value for name, value in state.items() if name != key}
            with pytest.raises((ValueError, KeyError, TypeError)):
                build(config_of(encoder), "encoder").restore(changed if wrong is None else {**changed, key: wrong})


def test_long_texts_are_cut(encoder: Encoder) -> None:
    cut = build({**config_of(encoder), "max_length": 3}, "encoder")
    cut.fit_tokeniser(TEXTS, RUN)
    assert cut.tokens([TEXTS[0] * 50], RUN).lengths.tolist() == [3]


# heads
B, T, WIDTH, PLAIN, L = 3, 4, 6, 4, 30


class Words(torch.nn.Module):
    """What a head reads the labels' texts with: the word vectors of an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(12, WIDTH, sparse=True)


def drawn_head(head: Head) -> HeadNetwork:
    torch.manual_seed(2)
    network = head.network(WIDTH, PLAIN, L).eval()
    draw = np.random.default_rng(2)
    texts = sp.random(L, 12, density=0.3, format="csr", dtype=np.float32, random_state=draw)
    graph = sp.random(L, L, density=0.2, format="csr", dtype=np.float32, random_state=draw)
    network.bind(Words(), LabelFacts(sp.csr_matrix(texts), sp.csr_matrix(graph)))  # type: ignore[arg-type]
    return network


def vectors(head: Head) -> tuple[Any, Any]:
    """One vector a token with its mask; one a document for heads that take no others."""
    hidden = torch.randn(B, T, WIDTH, generator=torch.Generator().manual_seed(3))
    mask = torch.arange(T)[None, :] < torch.tensor([4, 1, 2])[:, None]
    return (hidden[:, 0] if isinstance(head, LabelText) else hidden), mask


def test_heads_give_a_logit_a_label(head: Head) -> None:
    assert set(head.capabilities.spaces) <= set(SPACES)
    network, (hidden, mask) = drawn_head(head), vectors(head)
    everything = network(hidden, mask, torch.arange(L))
    assert everything.shape == (B, L)
    some = torch.tensor([29, 0, 7])
    torch.testing.assert_close(network(hidden, mask, some), everything[:, some])
    own = torch.tensor([[1, 2], [2, 29], [0, 2]])
    torch.testing.assert_close(network(hidden, mask, own), everything.gather(1, own))
    if hidden.ndim == 3:
        longer = torch.nn.functional.pad(hidden, (0, 0, 0, 2), value=7.0)
        padded = torch.nn.functional.pad(mask, (0, 2))
        torch.testing.assert_close(network(longer, padded, torch.arange(L)), everything)


def test_heads_are_kept_as_what_gives_the_same_logits(head: Head) -> None:
    network, (hidden, mask) = drawn_head(head), vectors(head)
    before = network(hidden, mask, torch.arange(L))
    kept = network.folded().eval()
    torch.testing.assert_close(kept(hidden, mask, torch.arange(L)), before)
    empty = head.folded_network(WIDTH, PLAIN, L)
    assert {n: w.shape for n, w in empty.state_dict().items()} == {n: w.shape for n, w in kept.state_dict().items()}


def test_heads_touch_only_the_labels_of_the_batch(head: Head) -> None:
    network, (hidden, mask) = drawn_head(head), vectors(head)
    assert all(rows.shape[0] == L for rows in network.rows()) and network.rows()
    network(hidden, mask, torch.tensor([3, 5])).sum().backward()
    for rows in network.rows():
        assert rows.grad is not None and rows.grad.is_sparse, "a step must not cost as much as there are labels"
        assert set(rows.grad.coalesce().indices()[0].tolist()) <= {3, 5}


# together
@pytest.mark.parametrize("encoder_name", list(ENCODERS))
@pytest.mark.parametrize("head_name", list(HEADS))
def test_encoders_with_heads(encoder_name: str, head_name: str, tiny_transformer: str, corpus: Corpus) -> None:
    """Those that go together learn and are kept; the others are refused in one sentence, before any work."""
    options = {"encoder": ENCODERS[encoder_name](tiny_transformer), "head": HEADS[head_name]}
    encoder, head = (build(part) for part in options.values())
    assert isinstance(encoder, Encoder) and isinstance(head, Head)
    whole, reads_texts = not encoder.capabilities.per_token, "label texts" in head.capabilities.needs
    short = isinstance(encoder, ShortTextEncoder)
    if reads_texts and head.capabilities.reads_tokens:
        with pytest.raises(UsageError, match="'text-attention'"):
            build({**ATTENTION, **options})
    config = {**TITLES, "part": "inceptionxml"} if short else {**ATTENTION, "part": "lsan"}
    if (head.capabilities.reads_tokens and whole) or (isinstance(head, LabelText) and not short):
        with pytest.raises(UsageError, match=f"'{head_name.partition(',')[0]}'"):
            build({**config, **options})
        return
    learner = build({**config, **options, "least_steps": 6}).fit(corpus, run=RUN)
    opened = {"texts", *learner.encoder.capabilities.spaces, *learner.head.capabilities.spaces}
    assert set(learner.capabilities.spaces) == opened
    scores = learner.score(corpus, 4, run=RUN)
    check_scores(scores, len(corpus), 4, corpus.n_labels)
    again = build(config_of(learner))
    again.restore(learner.state())
    assert again.score(corpus, 4, run=RUN).values.tobytes() == scores.values.tobytes()


def test_learners_of_short_texts_take_encoders_of_short_texts() -> None:
    for name in ("astec", "decaf", "eclare", "inceptionxml", "inceptionxml-lf"):
        with pytest.raises(UsageError, match=f"'{name}' needs an encoder of short texts, .* not 'bilstm'"):
            build({"part": name, "encoder": "bilstm"})
    with pytest.raises(UsageError, match=r"'astec-modules' needs the encoder 'weighted-bag' and the head 'pooled'"):
        build({"part": "astec-modules", "head": "label-text"})
    with pytest.raises(UsageError, match=r"first_phase needs the head 'label-text'"):
        build({"part": "inceptionxml-lf", "first_phase": 0.5, "head": "pooled"})
    with pytest.raises(UsageError, match=r'start = "graph" needs label-text.graph = true'):
        LabelText(start="graph")
