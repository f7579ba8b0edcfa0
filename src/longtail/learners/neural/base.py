"""What neural learners have in common: options, tokens, training, scoring, and how they are kept."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from longtail import fit as fits
from longtail.augment.base import LabelVectors
from longtail.capabilities import Capabilities
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features.tokens import Tokens
from longtail.fit import Fit
from longtail.learners.base import Learner
from longtail.learners.neural.encoders.base import Encoder
from longtail.learners.neural.heads.base import Head
from longtail.learners.neural.shortlists.base import LabelChoice, Shortlist
from longtail.learners.neural.training.data import Schedule, TrainingData
from longtail.learners.neural.training.task import Passes, Task, texts_of
from longtail.part import Arrays, default_of, option, prefixed, under
from longtail.plan import Sizes, Stage
from longtail.registry import build, config_of, name_of
from longtail.run import Run
from longtail.scores import Scores

if TYPE_CHECKING:
    from longtail.learners.neural.encoders.network import EncoderNetwork
    from longtail.learners.neural.training.network import Network

#: Documents held out to find the best epoch, at most: more would cost rare labels their only examples.
MOST_VALID = 200


@dataclass(kw_only=True)
class NeuralLearner(Learner):
    """An encoder and a head trained together by Lightning; reads texts."""

    encoder: Any = option("bilstm", "what turns a text into one vector per token")
    head: Any = option("label-attention", "what turns those into one score per label")
    shortlist: Any = option("sampled-labels", "which labels a loss is taken over: sampled-labels, all-labels")
    epochs: int | None = option(
        None,
        "passes over the documents; none: 6, more on small corpora, see least_steps (measured; AttentionXML: 30)",
        low=1, high=100_000, only={"steps": None},
    )  # fmt: skip
    least_steps: int | None = option(
        None, "minimum number of optimiser steps; none: 300 where the number of epochs is not set, else no minimum",
        low=1, only={"steps": None},
    )  # fmt: skip
    steps: int | None = option(None, "optimiser steps in place of epochs, to compare what sees more documents", low=1)
    batch: int = option(32, "documents per step (AttentionXML: 40)", low=1, high=65_536)
    rate: float = option(0.002, "learning rate of layers (measured; AttentionXML: 0.001 for all)", low=0, high=10)
    word_rate: float = option(0.002, "learning rate of word vectors (measured)", low=0, high=10)
    label_rate: float = option(0.005, "learning rate of label vectors (measured)", low=0, high=10)
    start: str = option("documents", "label vectors start from the label's documents (measured best), or at random",
                        choices=("documents", "random"))  # fmt: skip
    decay: float = option(0.0, "weight decay of layers (AttentionXML: 0)", low=0, high=10)
    warm_up: int = option(50, "steps over which learning rates rise", low=0)
    falling: bool = option(True, "whether learning rates fall linearly after that (measured)")
    clip: float = option(5.0, "largest norm of a gradient, 0 for any (AttentionXML: practically 5)", low=0)
    average: float | None = option(
        None, "share of the training after which weights are averaged (AttentionXML: a third), or none", low=0, high=1
    )
    average_every: int = option(1, "steps between the weights that enter the average", low=1)
    valid_share: float = option(
        0.0,
        f"share of documents held out to find the best epoch, at most {MOST_VALID} (measured: none, "
        "because rare labels need them; validation data that is given is always used)",
        low=0,
        high=0.5,
    )
    metric: str = option("nDCG@5", "what the best epoch is best at", choices=("nDCG@5", "PSP@5", "P@1", "PSP@1"))
    patience: int = option(0, "epochs without a better one before training stops, 0 for never", low=0)
    retune_start: str = option("kept", "second stage: the classifier is kept, or started anew",
                               choices=("kept", "anew"))  # fmt: skip
    retune_epochs: int | None = option(
        None, "second stage: passes over the documents; none: 2, more on small corpora", low=1, high=100_000
    )

    #: Passes over the documents where nobody asks for a number.
    default_epochs: ClassVar[int] = 6
    #: torch, Lightning and what they import.
    libraries: ClassVar[int] = 385 << 20
    leaner: ClassVar[Mapping[str, Any]] = {"batch": 16}
    #: Whether there are steps written down by hand for what it trains by default, see `by_hand`.
    has_hand_written_steps: ClassVar[bool] = False
    #: Whether heads and shortlists are told of the labels' texts.
    gives_label_texts: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.encoder = build(self.encoder, "encoder")
        self.head = build(self.head, "head")
        self.shortlist = build(self.shortlist, "shortlist")
        self._check_parts(self.encoder, self.head, self.shortlist)

    def _check_parts(self, encoder: Encoder, head: Head, shortlist: Shortlist) -> None:
        """Refuses parts that do not go together, and options that they leave without any effect."""
        if head.capabilities.reads_tokens and not encoder.capabilities.per_token:
            raise UsageError(
                f"the head '{name_of(head)}' looks at single words, and the encoder '{name_of(encoder)}' gives one "
                "vector per document: take the head 'pooled'"
            )
        for part in (head, shortlist):
            if "label texts" in part.capabilities.needs and not self.gives_label_texts:
                raise UsageError(f"'{name_of(self)}' does not read the labels' texts, which '{name_of(part)}' needs")
        head.check_encoder(encoder)
        shortlist.check_encoder(encoder)
        if not head.starts_from_documents:
            self._refuse_idle("start", f"the head '{name_of(head)}' starts its label vectors from documents")
        if not encoder.trains_words:
            self._refuse_idle("word_rate", f"the encoder trains word vectors, and '{name_of(encoder)}' does not")
        if self.average is None:
            self._refuse_idle("average_every", "average is set")

    def _refuse_idle(self, option_name: str, where: str) -> None:
        """Refuses an option that counts only where something else holds."""
        (own,) = (f for f in fields(self) if f.name == option_name)
        if getattr(self, option_name) != default_of(own):
            raise UsageError(f"{name_of(self)}.{option_name} counts only where {where}; leave it out")

    @property
    def capabilities(self) -> Capabilities:
        encoder: Encoder = self.encoder
        head: Head = self.head
        spaces = ("texts", *encoder.capabilities.spaces, *head.capabilities.spaces)
        return Capabilities(
            needs=("texts",), spaces=spaces, retunes=True, hardware=True, validation=True, side_by_side=False
        )

    # what a fit needs
    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        from longtail.learners.neural.memory import stages_of

        return stages_of(self, sizes, run)

    def plan_retune(self, sizes: Sizes, run: Run) -> list[Stage]:
        from longtail.learners.neural.memory import second_stage

        return second_stage(self, sizes)

    @property
    def starts_from_documents(self) -> bool:
        return self.start == "documents" and bool(self.head.starts_from_documents)

    def planned_steps(self, sizes: Sizes) -> int:
        """Optimiser steps on that many documents."""
        return self.steps or self.passes.steps(-(-sizes.documents // self.batch))

    @property
    def passes(self) -> Passes:
        return Passes.of(self.epochs, self.default_epochs, self.least_steps)

    # fitting
    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        run = fit.run
        texts = texts_of(corpus)
        with run.stage("features"):
            self.encoder.fit_tokeniser(self._read_words(corpus, texts), run)
            corpus = self._without_unread(corpus, run)
        train_on, fit = self._held_out(corpus, fit)
        if fit.valid is None and (self.patience or self.metric != "nDCG@5"):
            name = "patience" if self.patience else "metric"
            raise UsageError(f"{name} needs documents to check on: give validation data or set valid_share, as 0.05")
        with run.stage("train"):
            self._train(train_on, fit)
        self.n_labels_, self.n_features_ = corpus.n_labels, None
        return self

    def _read_words(self, corpus: Corpus, texts: Sequence[str]) -> Sequence[str]:
        """Texts whose words the encoder is to know."""
        return texts

    def _without_unread(self, corpus: Corpus, run: Run) -> Corpus:
        """The corpus without rows that an augmenter made of a document by words behind those that are read.

        The encoder would see the document itself, with targets of words that it does not see.
        """
        if corpus.made is None or not corpus.made.any():
            return corpus
        texts, origin, tokens = texts_of(corpus), corpus.origins(), self.encoder.tokens(texts_of(corpus), run)
        document_of = {int(origin[row]): int(row) for row in corpus.documents}
        unread = []
        for row in map(int, np.flatnonzero(corpus.made)):
            source = document_of.get(int(origin[row]))
            if source is None or texts[row] == texts[source] or tokens.lengths[row] != tokens.lengths[source]:
                continue
            start, begin, length = tokens.indptr[row], tokens.indptr[source], tokens.lengths[row]
            if np.array_equal(tokens.ids[start : start + length], tokens.ids[begin : begin + length]):
                unread.append(row)
        return corpus.rows(np.setdiff1d(np.arange(len(corpus)), unread)) if unread else corpus

    def _held_out(self, corpus: Corpus, fit: Fit) -> tuple[Corpus, Fit]:
        """What to train on and what to check on; documents without labels teach which labels do not hold."""
        if fit.valid is not None:
            return corpus, (fit if fit.valid.Y.nnz else fit.with_valid(None))
        documents = corpus.documents
        count = min(MOST_VALID, int(self.valid_share * len(documents)))
        labelled = documents[np.diff(corpus.positives().indptr)[documents] > 0]
        if count < 1 or len(labelled) < 2 * count:
            return corpus, fit
        held = np.sort(fit.run.rng("validation").permutation(labelled)[:count])
        return corpus.without_documents(corpus.origins()[held]), fit.with_valid(corpus.rows(held))

    def _train(self, corpus: Corpus, fit: Fit) -> None:
        """Trains all that is to be trained."""
        from longtail.learners.neural.training.weights import own_randomness

        with own_randomness():
            self._fit_networks(corpus, fit)

    def _fit_networks(self, corpus: Corpus, fit: Fit) -> None:
        """Trains one network over all labels."""
        network = self.new_network(corpus.n_labels, fit.run)
        self.network_ = self.shortlist.train(self, network, Task(corpus, fit))

    def new_network(self, n_labels: int, run: Run, name: str = "network") -> Network:
        import torch

        from longtail.learners.neural.training.network import Network

        torch.manual_seed(run.seed_of(name))
        encoder: EncoderNetwork = self.encoder.network()
        return Network(encoder, self.head.network(encoder.width, encoder.word_width, n_labels))

    def train_network(self, network: Network, task: Task) -> None:
        """Trains a network in place, or gives it the weights it had when a run that was killed had finished it."""
        fit = task.fit
        key = self.key_of(task)
        kept = fit.recall(key) if task.nested else None
        if kept is not None:
            from longtail.learners.neural.training.weights import fill

            with fit.run.earlier():
                fill(network, kept)
            network.eval()
            return
        begun = time.perf_counter()
        tokens = self.encoder.tokens(texts_of(task.corpus), fit.run, keep=True)
        assert task.choice is not None
        data = TrainingData(tokens, task.choice, self.states_of(network, tokens, fit.run))
        if self.starts_from_documents:
            network.start(tokens, task.corpus.positives(), data.states)
        self.train_on(network, data, task, key)
        if task.nested and time.perf_counter() - begun >= fits.KEPT_FROM:
            from longtail.learners.neural.training.weights import weights_of

            fit.keep(key, weights_of(network))

    def train_on(self, network: Network, data: TrainingData, task: Task, key: str = "") -> None:
        """The training itself, on data that is made already."""
        from longtail.learners.neural.training.one_training import train_on

        train_on(self, network, data, task, key)

    def key_of(self, task: Task) -> str:
        """A name that only the same training on the same data with the same programs has."""
        if task.fit.run.checkpoints is None:
            return ""
        hardware = task.fit.run.hardware
        programs = [version(name) for name in ("torch", "lightning")]
        machine = [hardware.devices, hardware.nodes, hardware.precision]
        return task.fit.key([config_of(self), task.title, task.passes, task.begun_with, machine, programs], task.corpus)

    def steps_per_epoch(self, task: Task) -> int:
        hardware = task.fit.run.hardware
        batches = -(-len(task.corpus) // self.batch)
        return -(-batches // (hardware.devices * hardware.nodes))

    def schedule_of(self, task: Task) -> Schedule:
        per_epoch = self.steps_per_epoch(task)
        if self.steps is not None and task.passes is None:
            steps = self.steps
        else:
            steps = (task.passes or self.passes).steps(per_epoch)
        return Schedule(
            rate=self.rate,
            word_rate=self.word_rate,
            label_rate=self.label_rate,
            decay=self.decay,
            steps=steps,
            warm_up=self.warm_up,
            falling=self.falling,
            clip=self.clip if task.clipped else 0.0,
            batch=self.batch,
            seed=task.fit.run.seed_of("batches"),
        )

    def states_of(self, network: Network, tokens: Tokens, run: Run) -> NDArray[np.float16] | None:
        return self.encoder.states(network.encoder, tokens, run)

    # the second stage
    def retune(self, corpus: Corpus, fit: Fit, vectors: LabelVectors | None = None) -> Self:
        """Tunes the classifier once more; encoder and label queries stay as they are, and hooks have no part in it."""
        from longtail.learners.neural.second_stage import retuned
        from longtail.learners.neural.training.weights import own_randomness

        corpus = self._without_unread(corpus, fit.run)
        with self._threads(fit.run), own_randomness():
            retuned(self, self.network_, corpus, fit.with_hooks(()), vectors)
        return self

    def contexts(
        self, corpus: Corpus, documents: NDArray[np.int64], labels: NDArray[np.int64], *, run: Run | None = None
    ) -> NDArray[np.float32]:
        """float32 (P, width): the context vectors of P pairs of a document and a label, for heads that make such."""
        return self._of_pairs(corpus, documents, labels, run or Run())

    def label_features(
        self, corpus: Corpus, documents: NDArray[np.int64], labels: NDArray[np.int64], into: Any, *, run: Run
    ) -> None:
        """The same with all that the classifier reads, into (P, `feature_size`) that may be mapped from a file."""
        self._of_pairs(corpus, documents, labels, run, into)

    @property
    def feature_size(self) -> int:
        """Numbers of a label's feature, once there is a network."""
        size: int = self.network_.head.feature_size(self.network_.encoder.width)
        return size

    def _of_pairs(self, corpus: Corpus, documents: Any, labels: Any, run: Run, into: Any = None) -> NDArray[Any]:
        from longtail.learners.neural.second_stage import vectors_of_pairs

        tokens = self.encoder.tokens(texts_of(corpus), run, keep=True)
        with self._threads(run):
            states = self.encoder.states(self.network_.encoder, tokens, run)
            return vectors_of_pairs(self.network_, tokens, states, documents, labels, into)

    def retune_choice(self, corpus: Corpus, tokens: Tokens, run: Run) -> LabelChoice:
        """Which labels the loss of the second stage is taken over."""
        return self.shortlist.retune_choice(self.network_, corpus, tokens)

    def _threads(self, run: Run) -> AbstractContextManager[None]:
        """Around all arithmetic: as many threads as the run has."""
        from longtail.features.pretrained import torch_threads

        return torch_threads(run.workers)

    # scoring
    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        run = run or Run()
        if not len(corpus):
            return Scores.empty(0, min(k, self.n_labels_))
        with self._threads(run):
            return self._score(self.encoder.tokens(texts_of(corpus), run), min(k, self.n_labels_), run)

    def _score(self, tokens: Tokens, k: int, run: Run) -> Scores:
        return self.shortlist.best(self.network_, tokens, self.n_labels_, k)

    # keeping
    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "labels": np.array([self.n_labels_]),
            **prefixed("encoder", self.encoder.state()),
            **prefixed("shortlist", self.shortlist.state()),
            **prefixed("network", self._weights()),
        }

    def _weights(self) -> dict[str, NDArray[Any]]:
        """Those of the network that is kept."""
        from longtail.learners.neural.training.weights import weights_of

        return weights_of(self.network_)

    def restore(self, arrays: Arrays) -> None:
        self._restore_common(arrays)
        self.network_ = self._restored_network(self.n_labels_, under("network", arrays))

    def _restore_common(self, arrays: Arrays) -> None:
        labels = arrays["labels"]
        if labels.shape != (1,) or labels.dtype != np.int64 or labels[0] < 1:
            raise ValueError("the number of labels is not a number")
        self.n_labels_, self.n_features_ = int(labels[0]), None
        self.encoder.restore(under("encoder", arrays))
        self.shortlist.restore_for(self.n_labels_, under("shortlist", arrays))
        self._kept_encoder().check_weights(arrays)

    def _kept_encoder(self) -> Encoder:
        """The encoder of the networks that are kept."""
        encoder: Encoder = self.encoder
        return encoder

    def _restored_network(self, n_labels: int, arrays: Arrays) -> Network:
        from longtail.learners.neural.training.network import Network
        from longtail.learners.neural.training.weights import filled

        def empty() -> Network:
            encoder: EncoderNetwork = self.encoder.network()
            return Network(encoder, self.shortlist.kept_head(self, encoder, n_labels))

        return filled(empty, n_labels, arrays)
