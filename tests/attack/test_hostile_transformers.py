"""A model's Transformer and its tokeniser, changed to reach outside, to take all memory or all time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from attack_cases import forged, no_network, refused

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from longtail.corpus import Corpus  # noqa: E402
from longtail.labels import LabelIndex  # noqa: E402
from longtail.learners.neural import pretrained  # noqa: E402
from longtail.tagger import Tagger  # noqa: E402
from tiny_transformer import SPECIAL, save_word_tokeniser  # noqa: E402

WORDS = [*SPECIAL, "cats", "purr", "dogs", "bark", "towns", "grow"]
TEXTS = ["cats purr", "dogs bark", "towns grow"]
SIZES = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
SIZES |= {"vocab_size": len(WORDS), "max_position_embeddings": 12, "pad_token_id": 1}

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def save_encoder(folder: Path, family: str, **options: Any) -> str:
    save_word_tokeniser(folder, WORDS)
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(family, **(SIZES | options)))
    model.save_pretrained(folder)
    return str(folder)


def trained(folder: str) -> Tagger:
    labels = LabelIndex(["a", "b", "c"])
    corpus = Corpus(labels=labels, Y=sp.csr_matrix(np.eye(3, dtype=np.float32)), texts=TEXTS)
    encoder = {"part": "transformer", "model": folder, "max_length": 10}
    learner = {"part": "laroberta", "encoder": encoder, "epochs": 1, "least_steps": 1, "warm_up": 0}
    return Tagger(learner, threads=1).fit(corpus)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    trained(save_encoder(folder / "encoder", "bert")).save(folder / "model")
    return folder / "model"


@pytest.mark.parametrize("family", pretrained.FAMILIES)
def test_every_family_comes_back_without_the_network(tmp_path: Path, family: str) -> None:
    options: dict[str, Any] = {"embedding_size": 8} if family == "electra" else {}
    if family == "distilbert":
        options = {"dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 12}
    tagger = trained(save_encoder(tmp_path / "encoder", family, **options))
    tagger.save(tmp_path / "model")
    with no_network():
        again = Tagger.load(tmp_path / "model", threads=1)
        assert again.predict(TEXTS, k=3) == tagger.predict(TEXTS, k=3)
    kept = json.loads(bytes(again.learner.encoder.state()["config"]))
    assert set(kept) == {"model_type", *pretrained.FAMILIES[family].rules}


def packed(value: Any) -> Any:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return np.frombuffer(data, dtype=np.uint8)


def configured(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], None]:
    def apply(arrays: dict[str, Any]) -> None:
        config = json.loads(bytes(arrays["encoder.config"]))
        given = change(config)
        arrays["encoder.config"] = packed(config if given is None else given)

    return apply


def test_a_forged_copy_is_read_when_nothing_is_changed(model: Path, tmp_path: Path) -> None:
    """The other tests would prove nothing if forging itself were refused."""
    with no_network():
        Tagger.load(forged(model, tmp_path / "model", arrays=configured(lambda config: None)), threads=1)


#: Options of the library that name something outside, or change what is built.
REACHING: dict[str, Any] = {
    "backbone": "evil/repo",
    "backbone_config": {"model_type": "bert"},
    "use_timm_backbone": True,
    "attn_implementation": "evil/kernel",
    "_attn_implementation": "evil/kernel",
    "_attn_implementation_internal": "evil/kernel",
    "experts_implementation": "evil/kernel",
    "auto_map": {"AutoModel": "evil/repo--modeling.Evil", "AutoConfig": "evil/repo--modeling.Evil"},
    "quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True},
    "torch_dtype": "load",
    "dtype": "compile",
    "per_layer_config": {"0": {"hidden_size": 10**6}},
    "_name_or_path": "evil/repo",
    "name_or_path": "evil/repo",
    "num_labels": 10**9,
    "id2label": {"0": "a"},
    "rope_scaling": {"rope_type": "dynamic"},
    "rope_theta": 1.0,
    "is_decoder": True,
    "add_cross_attention": True,
    "is_encoder_decoder": True,
    "chunk_size_feed_forward": 3,
    "position_embedding_type": "relative_key",
    "output_attentions": True,
    "return_dict": False,
    "gradient_checkpointing": True,
    "torchscript": True,
    "pruned_heads": {"0": [0]},
    "__class__": "evil",
    "to_dict": "evil",
    "x" * 50_000: 1,
}


@pytest.mark.parametrize("key", REACHING, ids=lambda key: key[:40])
def test_options_beside_the_list_are_refused(model: Path, tmp_path: Path, key: str) -> None:
    change = configured(lambda config: config.update({key: REACHING[key]}))
    assert "is not an option of bert" in refused(forged(model, tmp_path / "model", arrays=change))


@pytest.mark.parametrize("key", REACHING, ids=lambda key: key[:40])
def test_options_beside_the_list_are_not_kept(key: str) -> None:
    config = transformers.BertConfig(**SIZES).to_dict()
    kept = pretrained.kept_options({**config, key: REACHING[key]})
    assert kept is None or key not in kept


VALUES: dict[str, list[Any]] = {
    "model_type": ["vit", "deberta-v2", "detr", "gpt2", "", None, 3, ["bert"], {"bert": 1}, "bert\n", "b" * 10**4],
    "hidden_size": [0, -8, 10**6, 10**30, 16, 8.0, True, "8", None, [8]],
    "num_hidden_layers": [0, 1, 3, 999, 10**9, -1, 2.0, True],
    "num_attention_heads": [0, 3, 16, 10**9, -2, None],
    "intermediate_size": [0, 13, 10**5, 10**9, -1],
    "vocab_size": [0, 1, 9, 11, 10**7, 10**9, 10**19],
    "max_position_embeddings": [0, 2, 11, 13, 10**6, 10**9],
    "type_vocab_size": [0, 1, 3, 10**4],
    "hidden_act": ["evil", "", None, 3, "linear\n", ["gelu"], "xielu"],
    "hidden_dropout_prob": [-0.1, 1.0, 2, "0.1", None, True],
    "attention_probs_dropout_prob": [-1, 1.5, float("nan"), float("inf")],
    "layer_norm_eps": [0, -1e-12, 1e9, "1", float("nan")],
    "initializer_range": [-1, 1e9, float("inf")],
    "pad_token_id": [-1, 10, 10**9, 1.0, "1", True],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in VALUES.items() for value in values],
                         ids=lambda value: str(value)[:30])  # fmt: skip
def test_values_beside_the_list_and_sizes_beside_the_weights(model: Path, tmp_path: Path, key: str, value: Any) -> None:
    refused(forged(model, tmp_path / "model", arrays=configured(lambda config: config.update({key: value}))))


@pytest.mark.parametrize("key", VALUES)
def test_no_option_may_be_missing(model: Path, tmp_path: Path, key: str) -> None:
    change = configured(lambda config: config.pop(key) and None)
    refused(forged(model, tmp_path / "model", arrays=change))


WHOLE = {
    "no object": [1],
    "a text": "bert",
    "nothing": b"",
    "no JSON": b"{",
    "no text": b"\xff\xfe\xff",
    "nested": b'{"a":' * 10_000,
    "lists": b"[" * 60_000,
    "long": b" " * (1 << 20),
}


@pytest.mark.parametrize("attack", WHOLE)
def test_configurations_that_are_none(model: Path, tmp_path: Path, attack: str) -> None:
    change = configured(lambda config: WHOLE[attack])
    refused(forged(model, tmp_path / "model", arrays=change))


def tokenised(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], None]:
    def apply(arrays: dict[str, Any]) -> None:
        content = json.loads(bytes(arrays["encoder.tokeniser"]))
        given = change(content)
        arrays["encoder.tokeniser"] = packed(content if given is None else given)

    return apply


def replacing(times: int, content: str) -> dict[str, Any]:
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": content}
    return {"type": "Sequence", "normalizers": [step] * times}


def special(number: int) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        content["post_processor"]["special_tokens"]["[CLS]"]["ids"] = [number]

    return change


HOSTILE_TOKENISERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "nothing": lambda content: b"",
    "no JSON": lambda content: b"{",
    "no text": lambda content: b"\xff" * 100,
    "a list": lambda content: [1],
    "nested": lambda content: b"[" * 100_000,
    "nested objects": lambda content: b'{"normalizer":' * 50_000,
    "too long": lambda content: b" " * (pretrained.MOST_TOKENISER_BYTES + 1),
    "doubling": lambda content: content.update(normalizer=replacing(40, "aa")),
    "a long replacement": lambda content: content.update(normalizer=replacing(1, "a" * 10**6)),
    "doubling, hidden": lambda content: content.update(
        normalizer={"type": "Sequence", "normalizers": [replacing(3, "aa"), replacing(3, "aa")]}
    ),
    "special token beyond the vocabulary": special(10),
    "special token far beyond": special(2**32 - 1),
    "special token below 0": special(-1),
    "word beyond the vocabulary": lambda content: content["model"]["vocab"].update(evil=10),
    "added token beyond the vocabulary": lambda content: content["added_tokens"].append(
        {"id": 77, "content": "evil", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": False}
    ),
    "the text a hundred times": lambda content: content["post_processor"].update(
        single=[{"Sequence": {"id": "A", "type_id": 0}}] * 100
    ),
    "a template within a template": lambda content: content.update(
        post_processor={"type": "Sequence", "processors": [content["post_processor"]] * 30}
    ),
    "more special tokens than positions": lambda content: content["post_processor"].update(
        single=[{"SpecialToken": {"id": "[CLS]", "type_id": 0}}] * 1000
    ),
    "unknown part": lambda content: content.update(normalizer={"type": "Evil", "module": "os"}),
    "words from a file": lambda content: content["model"].update(vocab="/etc/passwd"),
    "no model": lambda content: content.pop("model") and None,
    "bad pattern": lambda content: content.update(
        normalizer={"type": "Replace", "pattern": {"Regex": "("}, "content": ""}
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", HOSTILE_TOKENISERS)
def test_hostile_tokenisers(model: Path, tmp_path: Path, attack: str) -> None:
    refused(forged(model, tmp_path / "model", arrays=tokenised(HOSTILE_TOKENISERS[attack])))


def without_layer(arrays: dict[str, Any]) -> None:
    for name in [name for name in arrays if ".layer.1." in name]:
        del arrays[name]


def without_encoder(arrays: dict[str, Any]) -> None:
    for name in [name for name in arrays if ".encoder.model." in name]:
        del arrays[name]


def renamed_layer(arrays: dict[str, Any]) -> None:
    for name in [name for name in arrays if ".layer.1." in name]:
        arrays[name.replace(".layer.1.", ".layer.10000000.")] = arrays.pop(name)


def not_finite(arrays: dict[str, Any]) -> None:
    next(array for name, array in arrays.items() if name.endswith("word_embeddings.weight"))[3, 3] = np.nan


@pytest.mark.parametrize("change", [without_layer, without_encoder, renamed_layer, not_finite])
def test_hostile_weights(model: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    refused(forged(model, tmp_path / "model", arrays=change))


@pytest.mark.parametrize(("option", "value"), [("frozen", 3), ("frozen", 1000), ("frozen", -1), ("max_length", 0),
                                               ("max_length", 10**9), ("evil", 1), ("part", "os:system")])  # fmt: skip
def test_hostile_options(model: Path, tmp_path: Path, option: str, value: Any) -> None:
    def change(content: dict[str, Any]) -> None:
        content["model"]["config"]["learner"]["encoder"][option] = value

    refused(forged(model, tmp_path / "model", content=change))


def test_the_name_of_the_encoder_is_not_looked_up(model: Path, tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        content["model"]["config"]["learner"]["encoder"]["model"] = "evil/repo"

    with no_network():
        again = Tagger.load(forged(model, tmp_path / "model", content=change), threads=1)
        assert again.predict(TEXTS, k=3) == Tagger.load(model, threads=1).predict(TEXTS, k=3)
