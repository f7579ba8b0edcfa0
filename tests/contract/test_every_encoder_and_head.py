"""What holds for every encoder and every head of a neural learner, and for any two of them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning")
pytest.importorskip("transformers")

import torch
from contract_cases import ATTENTION, BILSTM, laroberta
from test_every_learner import check_scores, same_arrays

from longtail.corpus import Corpus
from longtail.learners.base import SPACES
from longtail.learners.neural.batches import Batch, token_tensors
from longtail.learners.neural.encoders import Encoder, EncoderNetwork
from longtail.learners.neural.heads import Head, HeadNetwork
from longtail.registry import build, config_of, entries
from longtail.run import Run

TEXTS = ["word01 word02 word03 word04 word05", "word06", "", "word07 neverseen word08"]
RUN = Run(threads=1)
HEADS = {
    "label-attention": {"part": "label-attention"},
    "label-attention, shared": {"part": "label-attention", "classifier": "shared", "hidden": 16},
    "pooled": {"part": "pooled"},
}
ENCODERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "bilstm": lambda folder: BILSTM,
    "bag": lambda folder: {"part": "bag", "size": 16},
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
def test_encoders_give_a_vector_a_token(encoder: Encoder) -> None:
    assert set(encoder.spaces) <= set(SPACES)
    network, batch = drawn(encoder), batch_of(encoder, TEXTS)
    with torch.inference_mode():
        hidden = network(batch)
        alone = [network(batch_of(encoder, [text])) for text in TEXTS]
    assert hidden.shape == (*batch.tokens.shape, network.width) and torch.isfinite(hidden[batch.mask]).all()
    assert 0 < network.plain <= network.width and 0 <= network.frozen <= network.layers
    assert batch.mask.any(dim=1).all(), "a document without words has a token, too"
    for number, one in enumerate(alone):
        torch.testing.assert_close(hidden[number, : one.shape[1]], one[0], rtol=0, atol=1e-5)  # padding has no say


def test_encoders_start_from_torchs_seed_and_train_what_is_not_frozen(encoder: Encoder) -> None:
    first, second = drawn(encoder), drawn(encoder)
    assert all(torch.equal(one, other) for one, other in zip(first.parameters(), second.parameters(), strict=True))
    batch = batch_of(encoder, TEXTS)
    first.train()
    trained = [parameter for parameter in first.parameters() if parameter.requires_grad]
    if trained:
        first(batch)[batch.mask].square().sum().backward()
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


def drawn_head(head: Head) -> HeadNetwork:
    torch.manual_seed(2)
    return head.network(WIDTH, PLAIN, L).eval()


def vectors() -> tuple[Any, Any]:
    hidden = torch.randn(B, T, WIDTH, generator=torch.Generator().manual_seed(3))
    return hidden, torch.arange(T)[None, :] < torch.tensor([4, 1, 2])[:, None]


def test_heads_give_a_logit_a_label(head: Head) -> None:
    assert set(head.spaces) <= set(SPACES)
    network, (hidden, mask) = drawn_head(head), vectors()
    everything = network(hidden, mask, torch.arange(L))
    assert everything.shape == (B, L)
    some = torch.tensor([29, 0, 7])
    torch.testing.assert_close(network(hidden, mask, some), everything[:, some])
    own = torch.tensor([[1, 2], [2, 29], [0, 2]])
    torch.testing.assert_close(network(hidden, mask, own), everything.gather(1, own))
    longer = torch.nn.functional.pad(hidden, (0, 0, 0, 2), value=7.0)
    padded = torch.nn.functional.pad(mask, (0, 2))
    torch.testing.assert_close(network(longer, padded, torch.arange(L)), everything)


def test_heads_touch_only_the_labels_of_the_batch(head: Head) -> None:
    network, (hidden, mask) = drawn_head(head), vectors()
    assert all(rows.shape[0] == L for rows in network.rows()) and network.rows()
    network(hidden, mask, torch.tensor([3, 5])).sum().backward()
    for rows in network.rows():
        assert rows.grad is not None and rows.grad.is_sparse, "a step must not cost as much as there are labels"
        assert set(rows.grad.coalesce().indices()[0].tolist()) <= {3, 5}


# together
@pytest.mark.parametrize("encoder_name", list(ENCODERS))
@pytest.mark.parametrize("head_name", list(HEADS))
def test_any_encoder_with_any_head(encoder_name: str, head_name: str, tiny_transformer: str, corpus: Corpus) -> None:
    options = {"encoder": ENCODERS[encoder_name](tiny_transformer), "head": HEADS[head_name]}
    learner = build({**ATTENTION, **options, "least_steps": 6}).fit(corpus, run=RUN)
    assert set(learner.spaces) == {"texts", *learner.encoder.spaces, *learner.head.spaces}
    scores = learner.score(corpus, 4, run=RUN)
    check_scores(scores, len(corpus), 4, corpus.n_labels)
    again = build(config_of(learner))
    again.restore(learner.state())
    assert again.score(corpus, 4, run=RUN).values.tobytes() == scores.values.tobytes()
