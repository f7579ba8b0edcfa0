"""Word encoders: the BiLSTM is torch's on packed sequences, and padding changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from longtail.augment.hooks import Hook, Hooks  # noqa: E402
from longtail.features.tokens import FIRST_WORD, PAD  # noqa: E402
from longtail.learners.neural.encoders.words import Bag, BiLSTM, WordEncoder  # noqa: E402
from longtail.learners.neural.training.batches import Batch  # noqa: E402
from longtail.run import Run  # noqa: E402

RUN = Run(threads=1)
TEXTS = ["one two three four five", "two three", "one five four", "five", "two two four one"]


def fitted(encoder: WordEncoder) -> Any:
    encoder.fit_tokeniser(TEXTS, RUN)
    torch.manual_seed(0)
    return encoder.network()


def batch_of(encoder: WordEncoder, padding: int = 0) -> Batch:
    tokens = encoder.tokens(TEXTS, RUN)
    ids = torch.from_numpy(tokens.padded(np.arange(len(tokens))))
    ids = nn.functional.pad(ids, (0, padding), value=PAD)
    return Batch(np.arange(len(ids)), ids, ids != PAD, torch.arange(1), torch.empty(0))


@pytest.mark.parametrize("depth", [1, 2])
def test_bilstm_is_torchs_on_packed_sequences(depth: int) -> None:
    encoder = BiLSTM(size=4, hidden=3, depth=depth, skip=False, min_df=1)
    network = fitted(encoder).eval()
    with torch.no_grad():
        network.initial.copy_(torch.randn(network.initial.shape))
    reference = nn.LSTM(4, 3, num_layers=depth, bidirectional=True, batch_first=True)
    with torch.no_grad():
        for layer in range(depth):
            for suffix, own in (("", network.onwards[layer]), ("_reverse", network.backwards[layer])):
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                    getattr(reference, f"{name}_l{layer}{suffix}").copy_(getattr(own, f"{name}_l0"))
    batch = batch_of(encoder)
    # torch lays states out as layers x directions; ours are (layer, direction, h and c, hidden)
    states = network.initial.detach().reshape(2 * depth, 2, 3)[:, :, None, :].expand(-1, -1, len(batch), -1)
    packed = nn.utils.rnn.pack_padded_sequence(
        network.words(batch.tokens), batch.mask.sum(dim=1), batch_first=True, enforce_sorted=False
    )
    expected, _ = reference(packed, (states[:, 0].contiguous(), states[:, 1].contiguous()))
    expected, _ = nn.utils.rnn.pad_packed_sequence(expected, batch_first=True)
    found = network(batch)
    assert found.shape == (*batch.tokens.shape, network.width) == (5, 5, 6)
    torch.testing.assert_close(found[batch.mask], expected[batch.mask], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("encoder", [BiLSTM(size=4, hidden=3, depth=2, min_df=1), Bag(size=4, min_df=1)])
def test_padding_changes_nothing(encoder: WordEncoder) -> None:
    network = fitted(encoder).eval()
    short, long = batch_of(encoder), batch_of(encoder, padding=7)
    torch.testing.assert_close(
        network(short)[short.mask], network(long)[long.mask], rtol=0, atol=1e-7, msg="longer padding"
    )
    # nor do vectors at padded positions, wherever a hook put them
    embedded = network.embed(long.tokens)
    other = torch.where(long.mask[:, :, None], embedded, torch.randn(embedded.shape))
    one, two = (network.encode(values, long.mask, Hooks()) for values in (embedded, other))
    assert torch.equal(one[long.mask], two[long.mask])


def test_gradients_reach_everything() -> None:
    encoder = BiLSTM(size=4, hidden=3, depth=2, min_df=1, dropout=0.0, dropout_words=0.0)
    network = fitted(encoder)
    batch = batch_of(encoder)
    network(batch)[batch.mask].square().sum().backward()
    assert network.initial.grad.shape == (2, 2, 2, 3)
    for name, parameter in network.named_parameters():
        gradient = parameter.grad.to_dense()
        assert gradient.abs().sum() > 0, name
        if name == "initial":
            assert (gradient != 0).all(), "both directions of every layer learn h and c"
    assert network.words.weight.grad.is_sparse
    assert (network.words.weight.grad.to_dense()[PAD] == 0).all()


def test_skip_puts_embeddings_beside() -> None:
    encoder = BiLSTM(size=4, hidden=3, skip=True, min_df=1)
    network = fitted(encoder).eval()
    batch = batch_of(encoder)
    found = network(batch)
    assert network.width == found.shape[2] == 10
    assert torch.equal(found[:, :, 6:], network.words(batch.tokens))


def test_dropout_only_while_training() -> None:
    encoder = BiLSTM(size=4, hidden=3, min_df=1)
    network = fitted(encoder).eval()
    batch = batch_of(encoder)
    assert torch.equal(network(batch), network(batch))
    network.train()
    assert not torch.equal(network(batch), network(batch))


def test_hooks_see_every_layer() -> None:
    seen = []

    class Look(Hook):
        def apply_at(self, point: str, values: Any) -> Any:
            seen.append((point, tuple(values.shape)))
            return values

    encoder = BiLSTM(size=4, hidden=3, depth=2, min_df=1)
    fitted(encoder)(batch_of(encoder), Hooks([Look()]))
    assert seen == [("embedded", (5, 5, 4)), ("layer 1", (5, 5, 6)), ("layer 2", (5, 5, 10))]


def test_given_vectors(tmp_path: Path) -> None:
    """Known words get their numbers, as large as the random ones', and every word is as long as it is rare."""
    file = tmp_path / "vectors.txt"
    file.write_text("two 1 2 3\nfive -3 -2 -1\nelsewhere 9 9 9\n")
    encoder = Bag(size=5, vectors=str(file), train_vectors=False)
    network = fitted(encoder)
    weight = network.words.weight
    assert not weight.requires_grad
    numbers = {word: FIRST_WORD + number for number, word in enumerate(encoder.tokeniser_.words())}
    given = np.array([[1, 2, 3], [-3, -2, -1]], dtype=np.float32)
    idf = {word: np.log(6 / (1 + sum(word in text.split() for text in TEXTS))) + 1 for word in numbers}
    for word, row in zip(("two", "five"), given, strict=True):
        expected = row / given.std() * 5**-0.5 * idf[word] / np.mean(list(idf.values()))
        np.testing.assert_allclose(weight[numbers[word], :3].numpy(), expected, rtol=1e-5)
    assert (weight[FIRST_WORD:] != 0).all() and (weight[:FIRST_WORD] == 0).all()
    # a kept model needs no file
    file.unlink()
    again = Bag(size=5, vectors=str(file))
    again.restore(encoder.state())
    assert again.network().words.weight.shape == weight.shape
    assert np.array_equal(again.tokens(TEXTS, RUN).ids, encoder.tokens(TEXTS, RUN).ids)
