"""Transformer encoders: what the Hugging Face model gives, frozen layers run once, and errors in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from longtail.augment.hooks import Hook, Hooks  # noqa: E402
from longtail.errors import UsageError  # noqa: E402
from longtail.features.tokens import PAD  # noqa: E402
from longtail.learners.neural.encoders.transformer import PACKAGED, Transformer, TransformerNetwork, find_model  # noqa: E402
from longtail.learners.neural.training.batches import Batch, state_tensor, token_tensors  # noqa: E402
from longtail.run import Run  # noqa: E402
from tiny_transformer import SPECIAL, save_word_tokeniser  # noqa: E402

RUN = Run(threads=1)
WORDS = [*SPECIAL, *(f"w{number}" for number in range(20))]
TEXTS = ["w1 w2 w3 w4 w5 w6 w7", "w8", "", "w9 elsewhere w3"]
LAYERS = 3
SIZES = {"hidden_size": 16, "num_hidden_layers": LAYERS, "num_attention_heads": 2, "intermediate_size": 20}
SIZES |= {"vocab_size": len(WORDS), "max_position_embeddings": 12, "pad_token_id": 1}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": SIZES,
    "roberta": SIZES,
    "distilbert": {"dim": 16, "n_layers": LAYERS, "n_heads": 2, "hidden_dim": 20, "vocab_size": len(WORDS)}
    | {"max_position_embeddings": 12, "pad_token_id": 1},
    "mpnet": SIZES,
    "electra": SIZES | {"embedding_size": 8},
    "deberta-v2": SIZES | {"relative_attention": True},
}
KNOWN = ["bert", "roberta", "distilbert"]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    # what HF_HUB_OFFLINE=1 sets; the library reads that variable once, when it is imported
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("LONGTAIL_CACHE", "")


def save_model(folder: Path, family: str) -> str:
    """A tiny encoder of random weights with a tokeniser of whole words, as the library keeps them."""
    save_word_tokeniser(folder, WORDS)
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(family, **FAMILIES[family]))
    with torch.no_grad():
        for parameter in model.parameters():  # the library's start is close to nothing
            parameter.add_(torch.randn(parameter.shape) * 0.2)
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {family: save_model(tmp_path_factory.mktemp(family), family) for family in FAMILIES}


def opened(**options: Any) -> tuple[Transformer, TransformerNetwork]:
    encoder = Transformer(**{"max_length": 10, **options})
    encoder.fit_tokeniser(TEXTS, RUN)
    network = encoder.network()
    assert isinstance(network, TransformerNetwork)
    return encoder, network


def batch_of(encoder: Transformer, states: Any = None, texts: list[str] = TEXTS) -> Batch:
    tokens = encoder.tokens(texts, RUN)
    rows = np.arange(len(texts))
    ids, mask = token_tensors(tokens, rows)
    return Batch(rows, ids, mask, torch.arange(1), torch.empty(0), None, state_tensor(states, tokens, rows))


def check_like_the_library(model: str, encoder: Transformer, network: TransformerNetwork, texts: list[str]) -> None:
    reference = transformers.AutoModel.from_pretrained(model).eval()
    tokeniser = transformers.AutoTokenizer.from_pretrained(model)
    asked = tokeniser(texts, padding=True, truncation=True, max_length=10, return_tensors="pt")
    batch = batch_of(encoder, texts=texts)
    assert torch.equal(batch.mask, asked["attention_mask"].bool())
    assert torch.equal(batch.tokens[batch.mask] - 1, asked["input_ids"][batch.mask])
    with torch.no_grad():
        expected = reference(input_ids=asked["input_ids"], attention_mask=asked["attention_mask"]).last_hidden_state
        found = network.eval()(batch)
    assert found.shape == expected.shape and network.width == found.shape[2]
    torch.testing.assert_close(found[batch.mask], expected[batch.mask], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("frozen", [0, 2])
@pytest.mark.parametrize("family", KNOWN)
def test_like_the_library(folders: dict[str, str], family: str, frozen: int) -> None:
    encoder, network = opened(model=folders[family], frozen=frozen)
    check_like_the_library(folders[family], encoder, network, TEXTS)
    assert (network.layers, network.frozen) == (LAYERS, frozen)
    assert not any("pooler" in name for name in network.state_dict())


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - set(KNOWN)))
def test_families_that_do_more_are_refused(folders: dict[str, str], family: str) -> None:
    """Some would run and give something else than the model does."""
    with pytest.raises(UsageError, match="not an encoder of a known family"):
        opened(model=folders[family])


@pytest.mark.parametrize("family", KNOWN)
def test_long_texts_are_cut_to_what_the_encoder_reads(folders: dict[str, str], family: str) -> None:
    """RoBERTa has two positions fewer than its config says."""
    encoder, network = opened(model=folders[family], max_length=500)
    batch = batch_of(encoder, texts=["w1 " * 600])
    assert batch.tokens.shape[1] == (10 if family == "roberta" else 12)
    assert torch.isfinite(network(batch)).all()


def test_padding_changes_nothing(folders: dict[str, str]) -> None:
    encoder, network = opened(model=folders["bert"])
    network.eval()
    short, long = batch_of(encoder, texts=["w1 w2"]), batch_of(encoder, texts=["w1 w2", "w1 w2 w3 w4 w5"])
    torch.testing.assert_close(network(short)[0], network(long)[0][long.mask[0]], rtol=0, atol=1e-5)


@pytest.mark.parametrize("frozen", [1, 2, LAYERS])
def test_frozen_layers(folders: dict[str, str], frozen: int) -> None:
    encoder, network = opened(model=folders["bert"], frozen=frozen, dropout=0.0)
    assert encoder.capabilities.spaces == ("hidden",)
    tokens = encoder.tokens(TEXTS, RUN)
    states = encoder.states(network, tokens, RUN)
    assert states is not None and states.dtype == np.float16 and states.shape == (len(tokens.ids), network.width)
    network.eval()
    batch, kept = batch_of(encoder), batch_of(encoder, states)
    torch.testing.assert_close(network(kept)[batch.mask], network(batch)[batch.mask], rtol=0, atol=0.02)
    network.train()
    for given in (batch, kept):
        network.zero_grad()
        if frozen < LAYERS:
            network(given)[given.mask].square().sum().backward()
        trained = {name for name, parameter in network.named_parameters() if parameter.grad is not None}
        expected = {f"model.encoder.layer.{number}" for number in range(frozen, LAYERS)}
        assert {".".join(name.split(".")[:4]) for name in trained} == expected
        assert trained == {name for name, parameter in network.named_parameters() if parameter.requires_grad}


def test_what_frozen_layers_give_does_not_change_while_training(folders: dict[str, str]) -> None:
    encoder, network = opened(model=folders["bert"], frozen=2)
    tokens = encoder.tokens(TEXTS, RUN)
    as_made = encoder.states(network, tokens, RUN)
    network.train()
    assert np.array_equal(as_made, encoder.states(network, tokens, RUN))
    network.eval()
    assert np.array_equal(as_made, encoder.states(network, tokens, RUN))


def test_layers_that_are_trained_drop(folders: dict[str, str]) -> None:
    """The library hands out models without dropout, ready to predict."""
    encoder, network = opened(model=folders["bert"], dropout=0.0)
    batch = batch_of(encoder)
    assert not torch.equal(network(batch), network(batch))
    encoder, network = opened(model=folders["bert"], frozen=2, dropout=0.0)
    assert [layer.training for layer in network.stack] == [False, False, True]
    assert not network.model.embeddings.training
    embedded = network.embed(batch.tokens)
    assert torch.equal(embedded, network.embed(batch.tokens))


def test_too_many_frozen(folders: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=f"frozen is 4, but .* has {LAYERS} layers"):
        opened(model=folders["bert"], frozen=4)


def test_hooks_see_the_layers_that_are_trained(folders: dict[str, str]) -> None:
    seen = []

    class Look(Hook):
        def apply_at(self, point: str, values: Any) -> Any:
            seen.append(point)
            return values

    encoder, network = opened(model=folders["bert"], frozen=1)
    network(batch_of(encoder), Hooks([Look()]))
    assert seen == ["embedded", "layer 2", "layer 3"]


def test_all_parameters_are_trained_without_frozen_layers(folders: dict[str, str]) -> None:
    for family in KNOWN:
        encoder, network = opened(model=folders[family])
        assert encoder.capabilities.spaces == ("tokens", "hidden")
        batch = batch_of(encoder)
        network(batch)[batch.mask].square().sum().backward()
        assert all(parameter.grad is not None for parameter in network.parameters()), family


def test_restored_reads_the_same(folders: dict[str, str], tmp_path: Path) -> None:
    encoder, network = opened(model=folders["roberta"], frozen=1)
    again = Transformer(model="long gone", max_length=10, frozen=1)
    state = encoder.state()
    assert folders["roberta"] not in bytes(state["config"]).decode(), "where the model lay is nobody's business"
    again.restore(state)
    one, other = encoder.tokens(TEXTS, RUN), again.tokens(TEXTS, RUN)
    assert np.array_equal(one.ids, other.ids) and np.array_equal(one.indptr, other.indptr)
    restored = again.network()  # without the folder, whose weights the model keeps
    assert {name: value.shape for name, value in restored.state_dict().items()} == {
        name: value.shape for name, value in network.state_dict().items()
    }
    restored.load_state_dict(network.state_dict())
    batch = batch_of(encoder)
    assert torch.equal(restored.eval()(batch), network.eval()(batch))


@pytest.mark.parametrize("change", ["no config", "no json", "unknown type", "numbers", "no tokeniser"])
def test_damaged_state_is_a_value_error(folders: dict[str, str], change: str) -> None:
    state = dict(opened(model=folders["bert"])[0].state())
    config = json.loads(bytes(state["config"]))
    if change == "no config":
        del state["config"]
    elif change == "no json":
        state["config"] = state["config"][:-5]
    elif change == "unknown type":
        state["config"] = np.frombuffer(json.dumps(config | {"model_type": "no such"}).encode(), dtype=np.uint8)
    elif change == "numbers":
        state["config"] = state["config"].astype(np.int64)
    else:
        state["tokeniser"] = state["tokeniser"][:40]
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        Transformer(model="elsewhere").restore(state)


@pytest.mark.parametrize("name", ["no-such-model", "nobody/no-such-model", "../nowhere", ""])
def test_unknown_names_are_told_in_one_line(name: str) -> None:
    with pytest.raises(UsageError, match=r"^transformer\.model '.*' cannot be opened: [^\n]+$"):
        opened(model=name)


def test_folders_that_lack_something(folders: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^transformer\.model '.*' cannot be opened: [^\n]+$"):
        opened(model=str(tmp_path))
    for file in Path(folders["bert"]).iterdir():
        data = file.read_bytes()
        (tmp_path / file.name).write_bytes(data[:200] if file.suffix == ".safetensors" else data)
    with pytest.raises(UsageError, match=r"^transformer\.model '.*' cannot be opened: [^\n]+$"):
        opened(model=str(tmp_path))
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UsageError, match=r"^transformer\.model '.*' cannot be opened: [^\n]+$"):
        opened(model=str(tmp_path))


def test_opening_says_nothing(folders: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    opened(model=folders["bert"])
    assert capfd.readouterr() == ("", "")


def test_pad_is_no_piece(folders: dict[str, str]) -> None:
    encoder, _ = opened(model=folders["bert"])
    assert encoder.tokens(["elsewhere"], RUN).ids.tolist() == [3, 1, 4], "[UNK] has number 0 in this vocabulary"
    assert (encoder.tokens(TEXTS, RUN).ids != PAD).all()
    assert len(encoder.tokens([], RUN)) == 0


class TestPackaged:
    def test_like_the_library(self) -> None:
        pytest.importorskip(PACKAGED["all-minilm-l6-v2"])
        encoder, network = opened()
        texts = ["Rare labels hang on rare words.", "Yes", "", "Größe ist nicht alles 漢字"]
        check_like_the_library(find_model("all-minilm-l6-v2"), encoder, network, texts)

    def test_frozen_states(self) -> None:
        pytest.importorskip(PACKAGED["all-minilm-l6-v2"])
        encoder, network = opened(frozen=5)
        texts = ["Rare labels hang on rare words.", "Yes"]
        tokens = encoder.tokens(texts, RUN)
        kept, batch = batch_of(encoder, encoder.states(network, tokens, RUN), texts), batch_of(encoder, texts=texts)
        network.eval()
        with torch.no_grad():
            one, other = network(kept), network(batch)
        torch.testing.assert_close(one[batch.mask], other[batch.mask], rtol=0, atol=2e-3)

    def test_package_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(PACKAGED, "all-minilm-l6-v2", "no_such_package")
        with pytest.raises(UsageError, match="comes with a package: pip install no-such-package"):
            opened()
