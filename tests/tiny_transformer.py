"""A Transformer small enough for tests, kept as the library keeps large ones."""

from __future__ import annotations

from pathlib import Path

#: What a tokeniser's words begin with.
SPECIAL = ["[UNK]", "[PAD]", "[CLS]", "[SEP]"]


def save_word_tokeniser(folder: Path, words: list[str]) -> None:
    """A tokeniser of whole words, the special ones first."""
    import tokenizers
    import transformers

    model = tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    tokeniser = tokenizers.Tokenizer(model)
    tokeniser.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokeniser.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokeniser, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)


def save_tiny_transformer(folder: Path, words: list[str], layers: int = 1) -> str:
    """A BERT of random weights with a tokeniser of whole words, as the library keeps them."""
    import torch
    import transformers

    words = [*SPECIAL, *words]
    save_word_tokeniser(folder, words)
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=layers, num_attention_heads=2, intermediate_size=32, vocab_size=len(words),
        max_position_embeddings=32, pad_token_id=1, initializer_range=0.3,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(folder)
    return str(folder)
