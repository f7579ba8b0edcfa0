"""Encoder-decoders small enough for tests, kept as the library keeps large ones."""

from __future__ import annotations

from pathlib import Path


def save_tiny_seq2seq(folder: Path, words: list[str], family: str = "t5", sentinels: int = 12) -> str:
    """A T5 or BART of random weights with a tokeniser of whole words; BART's texts have at most 40 places."""
    import tokenizers
    import torch
    import transformers

    gaps = [f"<extra_id_{n}>" for n in range(sentinels)] if family == "t5" else ["<mask>"]
    special = ["<pad>", "</s>", "<unk>", *gaps]
    known = [*special, *dict.fromkeys(words)]
    tokeniser = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(known)}, unk_token="<unk>")
    )
    tokeniser.add_special_tokens(special)
    tokeniser.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokeniser.post_processor = tokenizers.processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    folder.mkdir(parents=True, exist_ok=True)
    tokeniser.save(str(folder / "tokenizer.json"))
    ids = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if family == "t5":
            config = transformers.T5Config(
                vocab_size=len(known), d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, dropout_rate=0.0, **ids
            )
            transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
        else:
            options = transformers.BartConfig(
                vocab_size=len(known), d_model=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
                decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=40,
                dropout=0.0, forced_eos_token_id=1, bos_token_id=0, init_std=0.5, **ids,
            )  # fmt: skip
            transformers.BartForConditionalGeneration(options).save_pretrained(folder)
    return str(folder)
