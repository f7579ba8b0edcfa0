"""Astec (https://arxiv.org/abs/2111.06685), short texts as weighted bags of words.

`Astec` is one network that learns all labels at once, with random labels beside the batch's own: measured better, and
quicker, than the published pipeline of four modules (DeepXML), which is `AstecModules`:

    I    surrogate   word vectors are learnt on clusters of labels
    II   shortlist   a document's labels are those whose centroids are nearest to its vector (see `shortlists.nearest`)
    III  classifier  word vectors stand still; a residual block and a separator per label learn from the shortlists
    IV   re-ranker   a second network, words and all, learns from what module III takes for true
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from longtail.augment.base import LabelVectors
from longtail.capabilities import Capabilities
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features.tokens import Tokens
from longtail.fit import Fit
from longtail.learners.neural.encoders.base import Encoder
from longtail.learners.neural.encoders.short import WeightedBag
from longtail.learners.neural.heads.base import Head
from longtail.learners.neural.heads.pooled import Pooled
from longtail.learners.neural.memory import grouped, network_stages, token_stage
from longtail.learners.neural.short_text import ShortTextLearner
from longtail.learners.neural.shortlists.base import ListedLabels, Shortlist
from longtail.learners.neural.shortlists.grouping import grouped_labels
from longtail.learners.neural.shortlists.label_clusters import LabelClusters
from longtail.learners.neural.shortlists.nearest import NearestLabels, Nearness, Search
from longtail.learners.neural.training.network import Network, score_batches, vectors_of
from longtail.learners.neural.training.task import Passes, Task, texts_of
from longtail.learners.neural.training.weights import filled, weights_of
from longtail.part import Arrays, option, prefixed, under
from longtail.plan import Sizes, Stage, kept_of
from longtail.registry import name_of
from longtail.run import Run
from longtail.scores import Scores

#: Documents scored together: their shortlists are held at once.
CHUNK = 2048
#: Passes over the documents where nobody asks for a number.
SURROGATE_EPOCHS, RERANK_EPOCHS = 4, 3


@dataclass(kw_only=True)
class Astec(ShortTextLearner):
    """One network over all labels."""


@dataclass(kw_only=True)
class AstecModules(ShortTextLearner):
    """The four modules as published."""

    shortlist: Any = option(
        {"part": "sampled-labels", "negatives": 2000},
        "which clusters the surrogate task's loss is taken over: sampled-labels, all-labels",
    )
    cluster_size: int = option(8, "maximum number of labels per cluster of the surrogate task", low=1, high=65_535)
    surrogate: int | None = option(
        None, "epochs of the surrogate task; none: 4, more on small corpora (Astec: 20)", low=1
    )
    nearest: int = option(200, "labels per shortlist (Astec: 500)", low=1, high=100_000)
    random: int = option(100, "random labels beside a shortlist in training (Astec: 200)", low=0, high=100_000)
    documents: int = option(
        0, "nearest training documents whose labels have a say in a shortlist, 0 for none (Astec: 100)", low=0,
        high=100_000,
    )  # fmt: skip
    documents_share: float = option(0.075, "what they say beside the centroids (Astec: 0.075)", low=0, high=1)
    centroids: int = option(1, "centroids of a label with many documents (Astec: 300, where configured)", low=1,
                            high=10_000)  # fmt: skip
    many: int = option(7500, "a label with more documents than this has that many (Astec: 7,500)", low=1)
    rerank_epochs: int | None = option(
        None, "epochs of the re-ranker, 0 for no re-ranker; none: 3, more on small corpora (Astec: 10)", low=0
    )
    hard: int = option(
        100, "labels that the classifier ranks first, which the re-ranker learns from (Astec: 200)", low=1
    )
    rerank_share: float = option(
        0.6, "weight of the re-ranker's logit beside the classifier's (Astec: 0.6)", low=0, high=1
    )
    beta: float = option(
        0.9, "weight of the classifier beside the shortlist's similarity (Astec: 0.1 to 0.6)", low=0, high=1
    )

    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """Three networks, the first of which is gone in the end; lists of candidates of all documents beside."""
        lists = 16 * self.nearest * sizes.documents
        documents = 4 * self.encoder.size * sizes.documents * (self.documents > 0)
        words = network_stages(self, grouped(sizes, -(-sizes.labels // self.cluster_size)), "words")
        listed = self.nearest + self.random
        near = Stage("shortlists", sizes.documents / 1e4, 2 * (lists + documents), lists + documents)
        stages = [token_stage(self, sizes), *words, near]
        stages += network_stages(self, sizes, "classifier", listed)
        if self._reranks:
            stages += network_stages(self, sizes, "re-ranker", self.hard + self.random)
        return [*stages[:-1], replace(stages[-1], kept=stages[-1].kept - lists - kept_of(words))]

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, retunes=False)

    @property
    def _reranks(self) -> bool:
        return self.rerank_epochs != 0

    def _check_parts(self, encoder: Encoder, head: Head, shortlist: Shortlist) -> None:
        super()._check_parts(encoder, head, shortlist)
        if not (isinstance(encoder, WeightedBag) and isinstance(head, Pooled)):
            raise UsageError("'astec-modules' needs the encoder 'weighted-bag' and the head 'pooled'")
        if encoder.residual:
            raise UsageError("weighted-bag.residual has no effect in 'astec-modules', leave it out")
        if isinstance(shortlist, LabelClusters):
            raise UsageError(f"'astec-modules' has shortlists of its own, and no use for '{name_of(shortlist)}'")
        if not self._reranks:
            for name in ("hard", "rerank_share"):
                self._refuse_idle(name, "rerank_epochs is at least 1")
        if not self.documents:
            self._refuse_idle("documents_share", "documents is at least 1")
        if self.centroids == 1:
            self._refuse_idle("many", "centroids is at least 2")
        for name in ("retune_start", "retune_epochs"):
            self._refuse_idle(name, "there is a second stage, which astec-modules has not")

    def retune(self, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None) -> Self:
        raise UsageError("'astec-modules' has no second stage")

    def _fit_networks(self, corpus: Corpus, fit: Fit) -> None:
        run = fit.run
        tokens = self.encoder.tokens(texts_of(corpus), run)
        # I
        with run.stage("cluster"):
            facts = self._label_facts(corpus, run)
            cluster = grouped_labels(self.encoder, corpus, facts, self.cluster_size, run)
        above = corpus.by_group(cluster)
        words = self._module(int(cluster.max()) + 1, run, "surrogate")
        alone = fit.child("surrogate").with_valid(None).with_hooks(())
        choice = self.shortlist.choice(above)
        passes = Passes.of(self.surrogate, SURROGATE_EPOCHS, self.least_steps)
        self.train_network(words, Task(above, alone, choice, "Words by clusters", passes, nested=True))
        # II
        with run.stage("shortlists"):
            self.near_ = NearestLabels.of(vectors_of(words, tokens), corpus, self._nearness, run)
            lists, _ = self._nearest(self.near_.opened(run), words, tokens)
        # III
        self.network_ = self._module(corpus.n_labels, run, "classifier", residual=True)
        self._take_words(self.network_, words)
        self._start_bias(self.network_.head, corpus.labels)
        own = ListedLabels(corpus.Y, corpus.pair_weight, lists, self.random)
        self.train_network(self.network_, Task(corpus, fit, own, nested=True))
        # IV
        self.reranker_: Network | None = None
        if self._reranks:
            found = self._ranked(tokens, lists, None, self.hard)
            self.reranker_ = self._module(corpus.n_labels, run, "re-ranker", residual=True)
            self._start_bias(self.reranker_.head, corpus.labels)
            hard = ListedLabels(corpus.Y, corpus.pair_weight, found.ids, self.random)
            passes = Passes.of(self.rerank_epochs, RERANK_EPOCHS, self.least_steps)
            again = Task(corpus, fit.child("re-ranker"), hard, "Re-ranker", passes, nested=True)
            self.train_network(self.reranker_, again)

    def _kept_encoder(self) -> WeightedBag:
        """The encoder with the residual block that belongs to the classifier."""
        options: WeightedBag = copy.copy(self.encoder)
        options.residual = True
        return options

    def _module(self, n_labels: int, run: Run | None, name: str, *, residual: bool = False) -> Network:
        """The encoder with or without its residual block, and a separator per label."""
        options = self._kept_encoder() if residual else self.encoder
        if run is not None:
            torch.manual_seed(run.seed_of(name))
        encoder = options.network()
        return Network(encoder, self.head.network(encoder.width, encoder.word_width, n_labels))

    @staticmethod
    def _take_words(network: Network, source: Network) -> None:
        to: Any = network.encoder
        given: Any = source.encoder
        to.words.load_state_dict(given.words.state_dict())
        to.words.weight.requires_grad_(False)

    # shortlists
    @property
    def _nearness(self) -> Nearness:
        return Nearness(self.documents, self.documents_share, self.centroids, self.many)

    def _nearest(
        self, search: Search, network: Network, tokens: Tokens
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Labels (n, nearest) and how near they are, by the sum of the words alone."""
        return search.nearest(vectors_of(network, tokens), self.nearest)

    # scoring
    def _ranked(self, tokens: Tokens, lists: NDArray[np.int32], cosine: NDArray[np.float32] | None, k: int) -> Scores:
        """The best labels of shortlists: classifier, re-ranker and similarity, each as strong as it is weighted."""
        candidates = np.maximum(lists, 0)
        total = _logits(self.network_, tokens, candidates)
        if cosine is not None and self.reranker_ is not None:
            again = _logits(self.reranker_, tokens, candidates)
            total = self.rerank_share * again + (1 - self.rerank_share) * total
        values = _largest_is_one(total)
        if cosine is not None:
            values = self.beta * values + (1 - self.beta) * _largest_is_one(cosine)
        values = np.where(lists >= 0, np.maximum(values, 1e-30), 0).astype(np.float32)
        return Scores(np.where(lists >= 0, lists, -1), values).sorted().top(k)

    def _score(self, tokens: Tokens, k: int, run: Run) -> Scores:
        ids, values = [], []
        search = self.near_.opened(run)
        for start in range(0, len(tokens), CHUNK):
            part = tokens.rows(np.arange(start, min(start + CHUNK, len(tokens))))
            best = self._ranked(part, *self._nearest(search, self.network_, part), k)
            ids.append(best.ids)
            values.append(best.values)
        return Scores(np.concatenate(ids), np.concatenate(values))

    # keeping
    def state(self) -> dict[str, NDArray[Any]]:
        state = super().state() | self.near_.state()
        return state if self.reranker_ is None else state | prefixed("reranker", weights_of(self.reranker_))

    def restore(self, arrays: Arrays) -> None:
        self._restore_common(arrays)
        self.near_ = NearestLabels.restored(self._nearness, self.n_labels_, self.encoder.size, arrays)

        def empty() -> Network:
            return self._module(self.n_labels_, None, "", residual=True)

        self.network_ = filled(empty, self.n_labels_, under("network", arrays))
        again = under("reranker", arrays)
        if bool(again) != self._reranks:
            raise ValueError("the re-ranker is missing, or there should be none")
        self.reranker_ = filled(empty, self.n_labels_, again) if again else None


def _logits(network: Network, tokens: Tokens, candidates: NDArray[np.int32]) -> NDArray[np.float32]:
    """float32 (n, S) of candidates (n, S)."""
    found = np.empty(candidates.shape, dtype=np.float32)
    for rows, _, logits in score_batches(network.eval(), tokens, 0, candidates=candidates):
        found[rows] = logits.numpy()
    return found


def _largest_is_one(logits: NDArray[Any]) -> NDArray[Any]:
    """Probabilities of logits (n, S), each row brought to a largest one of 1."""
    values = 1 / (1 + np.exp(-logits.astype(np.float64)))
    return values / np.maximum(values.max(axis=1, keepdims=True, initial=0), 1e-30)
