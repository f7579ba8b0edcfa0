"""What a model may say about its Transformer: sizes, names and shares from a list, nothing that steers a library.

A configuration of the Hugging Face library can name repositories, kernels, quantisers and code. A model keeps the few
numbers its encoder is built from; they are checked, one by one and against the stored weights, before anything is
built, and the classes are named here, so that opening a model never reaches for a hub.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from longtail.errors import first_line
from longtail.part import Arrays

#: Bytes of a tokeniser and of a configuration; the largest known tokeniser takes 17 million.
MOST_TOKENISER_BYTES = 32 << 20
MOST_CONFIG_BYTES = 1 << 16
#: Steps of a tokeniser that rewrite texts, and characters that one of them puts in place of one: both bound growth.
MOST_REWRITES = 4
MOST_SIGNS = 4
#: Items of a template that puts special tokens around a text.
MOST_TEMPLATE = 16
#: Fewest positions an encoder may have: a text begins and ends with a special token.
FEWEST_POSITIONS = 3

ACTIVATIONS = ("gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_pytorch_tanh", "quick_gelu", "relu", "silu",
               "swish", "tanh", "mish")  # fmt: skip


@dataclass(frozen=True)
class Whole:
    """A whole number from `low` to `high`, or none where that is allowed."""

    low: int
    high: int
    empty: bool = False

    def fits(self, value: Any) -> bool:
        return (value is None and self.empty) or (type(value) is int and self.low <= value <= self.high)

    def __str__(self) -> str:
        return f"a whole number from {self.low} to {self.high}"


@dataclass(frozen=True)
class Number:
    """A finite number from `low` to `high`."""

    low: float
    high: float

    def fits(self, value: Any) -> bool:
        return type(value) in (int, float) and math.isfinite(value) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class OneOf:
    choices: tuple[Any, ...]

    def fits(self, value: Any) -> bool:
        return any(type(value) is type(choice) and value == choice for choice in self.choices)

    def __str__(self) -> str:
        return " or ".join(map(str, self.choices))


Rule = Whole | Number | OneOf
_SHARE = Number(0, 0.99)
_SIZES: dict[str, Rule] = {
    "vocab_size": Whole(1, 1 << 24),
    "hidden_size": Whole(1, 1 << 16),
    "num_hidden_layers": Whole(1, 1000),
    "num_attention_heads": Whole(1, 1 << 12),
    "intermediate_size": Whole(1, 1 << 18),
    "max_position_embeddings": Whole(FEWEST_POSITIONS, 1 << 20),
}
_BERT: dict[str, Rule] = _SIZES | {
    "type_vocab_size": Whole(1, 1 << 16),
    "hidden_act": OneOf(ACTIVATIONS),
    "hidden_dropout_prob": _SHARE,
    "attention_probs_dropout_prob": _SHARE,
    "initializer_range": Number(0, 10),
    "layer_norm_eps": Number(1e-20, 1),
    "pad_token_id": Whole(0, 1 << 24, empty=True),
}
_ROBERTA = _BERT | {"pad_token_id": Whole(0, 1 << 24)}
_DISTILBERT: dict[str, Rule] = {
    "vocab_size": _SIZES["vocab_size"],
    "dim": _SIZES["hidden_size"],
    "n_layers": _SIZES["num_hidden_layers"],
    "n_heads": _SIZES["num_attention_heads"],
    "hidden_dim": _SIZES["intermediate_size"],
    "max_position_embeddings": _SIZES["max_position_embeddings"],
    "sinusoidal_pos_embds": OneOf((False, True)),
    "activation": OneOf(ACTIVATIONS),
    "dropout": _SHARE,
    "attention_dropout": _SHARE,
    "initializer_range": Number(0, 10),
    "pad_token_id": Whole(0, 1 << 24, empty=True),
}


@dataclass(frozen=True)
class Family:
    """The classes of a family of encoders, and the options that make one of them.

    shifted  whether positions are numbered from the padding token's number + 1 on
    layers   where the layers' weights are kept
    inner    the first weight of a layer whose rows are its inner width
    """

    classes: str
    rules: Mapping[str, Rule]
    shifted: bool = False
    layers: str = "encoder.layer"
    inner: str = "intermediate.dense.weight"


FAMILIES = {
    "bert": Family("Bert", _BERT),
    "electra": Family("Electra", _BERT | {"embedding_size": _SIZES["hidden_size"]}),
    "roberta": Family("Roberta", _ROBERTA, shifted=True),
    "camembert": Family("Camembert", _ROBERTA, shifted=True),
    "xlm-roberta": Family("XLMRoberta", _ROBERTA, shifted=True),
    "data2vec-text": Family("Data2VecText", _ROBERTA, shifted=True),
    "distilbert": Family("DistilBert", _DISTILBERT, layers="transformer.layer", inner="ffn.lin1.weight"),
}
#: Options under other names.
_COMMON_NAMES = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
                 "intermediate_size": "hidden_dim"}  # fmt: skip
#: What other settings would make another network of; encoders that have them are not taken.
_ONLY_AS = {"is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute"}


def kept_options(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a model keeps of a library's configuration, or None for encoders that cannot be kept."""
    family = FAMILIES.get(str(config.get("model_type")))
    if family is None or any(config.get(key, value) != value for key, value in _ONLY_AS.items()):
        return None
    options = {"model_type": config["model_type"], **{key: config.get(key) for key in family.rules}}
    try:
        check_options(options)
    except ValueError:
        return None
    return options


def check_options(options: Any) -> Family:
    """The family of the encoder that a model describes; what is not on the list is refused."""
    name = options.get("model_type") if isinstance(options, dict) else None
    family = FAMILIES.get(name) if isinstance(name, str) else None
    if family is None:
        raise ValueError(f"the encoder is of none of the families {', '.join(FAMILIES)}")
    if unknown := options.keys() - family.rules.keys() - {"model_type"}:
        raise ValueError(f"{min(unknown)[:60]!r} is not an option of {name}")
    for key, rule in family.rules.items():
        if key not in options or not rule.fits(options[key]):
            raise ValueError(f"{key} of the encoder must be {rule}")
    if size_of(options, "hidden_size") % size_of(options, "num_attention_heads"):
        raise ValueError("the encoder's width is not a multiple of its heads")
    if options.get("embedding_size", size_of(options, "hidden_size")) != size_of(options, "hidden_size"):
        raise ValueError("the encoder's word vectors must be as wide as its layers")
    if (options["pad_token_id"] or 0) >= options["vocab_size"]:
        raise ValueError("the encoder's padding is none of its tokens")
    if positions(options) < FEWEST_POSITIONS:
        raise ValueError(f"the encoder must have at least {FEWEST_POSITIONS} positions")
    return family


def positions(options: Mapping[str, Any]) -> int:
    """How many tokens an encoder reads at most."""
    shift = options["pad_token_id"] + 1 if FAMILIES[options["model_type"]].shifted else 0
    return int(options["max_position_embeddings"]) - shift


def size_of(options: Mapping[str, Any], name: str) -> int:
    return int(options[name] if name in options else options[_COMMON_NAMES[name]])


def library_config(options: Mapping[str, Any]) -> Any:
    """The library's configuration of checked options; the attention is torch's own, whatever else there is."""
    import transformers

    family = FAMILIES[options["model_type"]]
    numbers = {key: value for key, value in options.items() if key != "model_type"}
    return getattr(transformers, f"{family.classes}Config")(**numbers, attn_implementation=_attention(family))


def empty_model(options: Mapping[str, Any], config: Any) -> Any:
    """The library's model of a configuration, its weights still to come."""
    import transformers

    return getattr(transformers, f"{FAMILIES[options['model_type']].classes}Model")(config)


def _attention(family: Family) -> str:
    import transformers

    return "sdpa" if getattr(transformers, f"{family.classes}Model")._supports_sdpa else "eager"


def check_weights(options: Mapping[str, Any], names_and_shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Compares sizes with the stored weights of one encoder, by names without a prefix, before room is made for any."""
    family = FAMILIES[options["model_type"]]
    width, inner = size_of(options, "hidden_size"), size_of(options, "intermediate_size")
    expected = {
        "embeddings.word_embeddings.weight": (options["vocab_size"], width),
        "embeddings.position_embeddings.weight": (options["max_position_embeddings"], width),
    }
    if "type_vocab_size" in options:
        expected["embeddings.token_type_embeddings.weight"] = (options["type_vocab_size"], width)
    layers, stem = size_of(options, "num_hidden_layers"), f"{family.layers}."
    found = {name.removeprefix(stem).partition(".")[0] for name in names_and_shapes if name.startswith(stem)}
    if len(found) != layers:
        raise ValueError(f"weights of {len(found)} layers, the encoder has {layers}")
    expected |= {f"{family.layers}.{number}.{family.inner}": (inner, width) for number in range(layers)}
    for name, shape in expected.items():
        if names_and_shapes.get(name) != shape:
            raise ValueError(f"'{name}' must be stored as {shape}, and is {names_and_shapes.get(name)}")


def check_all_weights(options: Mapping[str, Any], arrays: Arrays) -> None:
    """The same for every network of a learner: a label tree keeps one per level."""
    mark = ".encoder.model."
    groups: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, array in arrays.items():
        owner, found, own = name.partition(mark)
        if found:
            groups.setdefault(owner, {})[own] = array.shape
    if not groups:
        raise ValueError("the encoder has no weights")
    for shapes in groups.values():
        check_weights(options, shapes)


def read_options(packed: bytes) -> dict[str, Any]:
    """The stored options, checked."""
    if len(packed) > MOST_CONFIG_BYTES:
        raise ValueError(f"the encoder's options take {len(packed)} bytes; at most {MOST_CONFIG_BYTES} are read")
    try:
        options = json.loads(packed)
    except RecursionError:
        raise ValueError("the encoder's options are nested too deeply") from None
    check_options(options)
    return dict(options)


def open_tokeniser(packed: bytes) -> Any:
    """The tokeniser of a JSON text; one that could make texts grow without bound is refused."""
    from tokenizers import Tokenizer

    if len(packed) > MOST_TOKENISER_BYTES:
        raise ValueError(f"the tokeniser takes {len(packed)} bytes; at most {MOST_TOKENISER_BYTES} are read")
    try:
        text = packed.decode()
        content = json.loads(text)
        _check_growth(content)
        tokeniser = Tokenizer.from_str(text)
        tokeniser.no_padding()
    except RecursionError:
        raise ValueError("the tokeniser is nested too deeply") from None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises plain Exception, and its panics are no Exception at all
        raise ValueError(f"the tokeniser cannot be read: {first_line(error)}") from None
    return tokeniser


def limit_tokens(tokeniser: Any, options: Mapping[str, Any], max_length: int) -> None:
    """Cuts texts to what the encoder reads; what the tokeniser gives must be tokens of the encoder, and no more."""
    most, vocabulary = min(max_length, positions(options)), options["vocab_size"]
    try:
        tokeniser.enable_truncation(most)
        known = tokeniser.get_vocab(with_added_tokens=True).values()
        given = tokeniser.encode("a " * (most + 1)).ids  # a post-processor adds tokens by number
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise ValueError(f"the tokeniser cannot be used: {first_line(error)}") from None
    if len(given) > most:
        raise ValueError(f"the tokeniser makes {len(given)} tokens where {most} are read")
    if max((*known, *given), default=0) >= vocabulary:
        raise ValueError(f"the tokeniser gives tokens that an encoder of {vocabulary} tokens does not have")


def _check_growth(content: Any) -> None:
    if not isinstance(content, dict):
        raise ValueError("it is not an object")
    rewrites = templates = 0
    for step in _steps(content.get(key) for key in ("normalizer", "pre_tokenizer", "post_processor")):
        for key in ("content", "prepend", "replacement"):
            sign = step.get(key)
            if isinstance(sign, str):
                rewrites += 1
                if len(sign) > MOST_SIGNS:
                    raise ValueError(
                        f"a step puts {len(sign)} characters in place of one; at most {MOST_SIGNS} are taken"
                    )
        single = step.get("single")
        templates += isinstance(single, list)
        if isinstance(single, list) and (
            templates > 1
            or len(single) > MOST_TEMPLATE
            or sum("Sequence" in item for item in single if isinstance(item, dict)) != 1
        ):
            raise ValueError(f"one template may hold the text, once, among at most {MOST_TEMPLATE} items")
    if rewrites > MOST_REWRITES:
        raise ValueError(f"{rewrites} steps rewrite texts; at most {MOST_REWRITES} are taken")


def _steps(values: Iterable[Any]) -> Iterable[dict[str, Any]]:
    """Every object inside, whatever it is nested in."""
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
