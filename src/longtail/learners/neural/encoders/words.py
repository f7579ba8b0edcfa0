"""Encoders that read words: BiLSTM and a bag of embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.errors import UsageError
from longtail.features.analyser import NONE, WHICH, check_language
from longtail.features.estimate import Words
from longtail.features.tokens import FIRST_WORD, PAD, Tokens, WordTokeniser
from longtail.features.vectors import word_vectors
from longtail.learners.neural.encoders.base import Cost, Encoder
from longtail.part import Arrays, option, shown_name
from longtail.run import Run

if TYPE_CHECKING:
    from torch import nn

    from longtail.learners.neural.encoders.network import EncoderNetwork


@dataclass(kw_only=True)
class WordEncoder(Encoder):
    """An encoder of words it finds in the training texts."""

    vectors: str | None = option(
        None, "start of the word embeddings: glove-6b-50d, a GloVe or word2vec text file, or none"
    )
    size: int = option(200, "width of the word embeddings, of which given vectors fill the first", low=1, high=4096)
    min_df: int = option(1, "minimum documents per word (measured: rare labels depend on rare words)", low=1)
    max_words: int = option(500_000, "words kept, the most frequent (AttentionXML)", low=1)
    language: str = option("none", f"stems in place of words, not with vectors: {WHICH}")
    train_vectors: bool = option(True, "whether word embeddings are trained (AttentionXML: not on small corpora)")

    leaner: ClassVar[Mapping[str, Any]] = {"min_df": 2, "size": 100}

    def validate(self) -> None:
        super().validate()
        check_language(self, self.language)
        if self.language != NONE and self.vectors is not None:
            name = shown_name(self)
            raise UsageError(f"{name}.vectors are those of words, and {name}.language makes stems; set one of them")

    @property
    def trains_words(self) -> bool:
        return self.train_vectors

    def vocabulary(self, words: Words) -> int:
        return min(words.in_at_least(self.min_df), self.max_words) + FIRST_WORD

    def cost(self, vocabulary: int) -> Cost:
        return self.layers(vocabulary * self.size, width=self.size, word_width=self.size, layers=0, per_token=0)

    def layers(self, words: int, *, width: int, word_width: int, layers: int, per_token: int) -> Cost:
        """Word vectors, of which a batch has sparse gradients, and layers behind them."""
        trained = layers + words * self.train_vectors
        return Cost(width, word_width, words + layers, trained, 8 * self.size + per_token, 3 * layers + self.size)

    def fit_tokeniser(self, texts: Sequence[str], run: Run) -> None:
        self.tokeniser_ = WordTokeniser.fitted(
            texts, min_df=self.min_df, max_words=self.max_words, run=run, language=self.language
        )
        self.rarity_ = _rarity(self.tokens(texts, run), self.tokeniser_.size)

    def tokens(self, texts: Sequence[str], run: Run, *, keep: bool = False) -> Tokens:
        return self.tokeniser_.tokens(texts, self.max_length, run=run)

    def embedding(self) -> nn.Embedding:
        """Random directions, or what is known of the words, as long as the words are rare (idf)."""
        from torch import nn

        words = nn.Embedding(self.tokeniser_.size, self.size, padding_idx=PAD, sparse=True)
        words.weight.requires_grad_(self.train_vectors)
        if hasattr(self, "rarity_"):  # while a model is restored its weights come from the file
            nn.init.normal_(words.weight, 0, self.size**-0.5)
            self.tell_words(words.weight.detach().numpy())
        return words

    def tell_words(self, random: NDArray[np.float32]) -> None:
        """Random numbers (V, size) of deviation size^-0.5 become word vectors before training, in place."""
        if self.vectors is not None:
            found, known = word_vectors(self.vectors, self.tokeniser_.words())
            width = min(self.size, known.shape[1])
            # numbers as large as the random ones', so that known and unknown words weigh the same
            scale = self.size**-0.5 / max(float(known[found].std()), 1e-9) if found.any() else 1.0
            random[np.flatnonzero(found) + FIRST_WORD, :width] = known[found, :width] * np.float32(scale)
        random *= self.word_lengths()[:, None]

    def word_lengths(self) -> NDArray[np.float32]:
        """How long each word's vector is before training: as long as the word is rare."""
        return self.rarity_

    def state(self) -> dict[str, NDArray[Any]]:
        return self.tokeniser_.arrays()

    def restore(self, arrays: Arrays) -> None:
        self.tokeniser_ = WordTokeniser.restored(arrays, self.language)
        self.language = self.language if self.tokeniser_.analyser else NONE


def _rarity(tokens: Tokens, size: int) -> NDArray[np.float32]:
    """Inverse document frequency of each token (size,), 1 on average over words; 0 for padding and unknown words."""
    shape = (len(tokens), size)
    words = sp.csr_matrix((np.ones(len(tokens.ids), np.int8), tokens.ids.copy(), tokens.indptr.copy()), shape=shape)
    words.sum_duplicates()  # in place
    idf = np.log((1 + len(tokens)) / (1 + np.bincount(words.indices, minlength=size))) + 1
    idf[:FIRST_WORD] = 0
    return (idf / max(float(idf[FIRST_WORD:].mean()) if size > FIRST_WORD else 1.0, 1e-9)).astype(np.float32)


@dataclass(kw_only=True)
class BiLSTM(WordEncoder):
    """AttentionXML's encoder (https://arxiv.org/abs/1811.01727): a bidirectional LSTM with a learnt initial state."""

    hidden: int = option(64, "width of each direction (AttentionXML: 256; 64 is quick on a CPU)", low=1, high=4096)
    depth: int = option(1, "LSTM layers (AttentionXML: 1)", low=1, high=16)
    dropout_words: float = option(0.2, "dropout of word embeddings (AttentionXML)", low=0, high=0.99)
    dropout: float = option(0.5, "dropout of the LSTM's output (AttentionXML)", low=0, high=0.99)
    skip: bool = option(True, "word embeddings beside the LSTM's output: rare names keep their identity (measured)")

    def network(self) -> EncoderNetwork:
        from longtail.learners.neural.encoders.word_networks import BiLSTMNetwork

        return BiLSTMNetwork(self)

    def cost(self, vocabulary: int) -> Cost:
        both, width = 2 * self.hidden, 2 * self.hidden + self.size * self.skip
        layers = 8 * self.hidden * (self.size + self.hidden + 2) + (self.depth - 1) * 8 * self.hidden * (both + 2)
        # gates, cells and outputs of either direction, forwards and back
        per_token = self.depth * 28 * self.hidden + 6 * width
        word_width = self.size if self.skip else width
        words = vocabulary * self.size
        return self.layers(words, width=width, word_width=word_width, layers=layers, per_token=per_token)


@dataclass(kw_only=True)
class Bag(WordEncoder):
    """Word embeddings as they are: no order, no context, and by far the quickest."""

    dropout: float = option(0.2, "dropout of word embeddings (AttentionXML)", low=0, high=0.99)

    def network(self) -> EncoderNetwork:
        from longtail.learners.neural.encoders.word_networks import BagNetwork

        return BagNetwork(self)
