"""What neural learners have in common: options, tokens, training, scoring, and how they are kept."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import orjson
import torch
from numpy.typing import NDArray

from longtail.augment.hooks import Hook, Setting
from longtail.capabilities import Capabilities
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.features.tokens import Tokens
from longtail.fit import Fit
from longtail.labels import LabelIndex
from longtail.learners.base import Learner
from longtail.learners.neural.batches import LabelChoice, SharedLabels
from longtail.learners.neural.encoders import Encoder, EncoderNetwork
from longtail.learners.neural.heads import Head, HeadNetwork
from longtail.learners.neural.module import Schedule, TrainingData, best_labels
from longtail.learners.neural.network import Network
from longtail.learners.neural.training import torch_threads, train
from longtail.part import Arrays, option, prefixed, under
from longtail.registry import build, config_of, name_of
from longtail.run import Run
from longtail.scores import Scores

#: Documents held out to find the best epoch, at the most: more would cost rare labels their only examples.
MOST_VALID = 200


@dataclass(kw_only=True)
class NeuralLearner(Learner):
    """An encoder and a head trained together by Lightning; reads texts."""

    encoder: Any = option("bilstm", "what turns a text into one vector a token")
    head: Any = option("label-attention", "what turns those into one score a label")
    epochs: int = option(6, "passes over the documents (measured; AttentionXML: 30)", low=1, high=100_000)
    least_steps: int = option(300, "optimiser steps at the least: small corpora are passed over more often", low=1)
    steps: int | None = option(None, "optimiser steps in place of epochs, to compare what sees more documents", low=1)
    batch: int = option(32, "documents a step (AttentionXML: 40)", low=1, high=65_536)
    rate: float = option(0.002, "learning rate of layers (measured; AttentionXML: 0.001 for all)", low=0, high=10)
    word_rate: float = option(0.002, "learning rate of word vectors (measured)", low=0, high=10)
    label_rate: float = option(0.005, "learning rate of label vectors (measured)", low=0, high=10)
    start: str = option("documents", "label vectors start from the label's documents (measured best), or at random",
                        choices=("documents", "random"))  # fmt: skip
    decay: float = option(0.0, "weight decay of layers (AttentionXML: 0)", low=0, high=10)
    warm_up: int = option(50, "steps over which learning rates rise", low=0)
    falling: bool = option(True, "whether learning rates fall linearly after that (measured)")
    clip: float = option(5.0, "largest norm of a gradient, 0 for any (AttentionXML: practically 5)", low=0)
    negatives: int = option(
        400, "random labels beside the batch's own that a loss is taken over, 0 for all (measured: as good)", low=0
    )
    average: float | None = option(
        None, "share of the training after which weights are averaged (AttentionXML: a third), or none", low=0, high=1
    )
    valid_share: float = option(
        0.0,
        f"share of documents held out to find the best epoch, {MOST_VALID} at the most (measured: none, "
        "for rare labels miss them; data given as validation is used in any case)",
        low=0,
        high=0.5,
    )
    metric: str = option("nDCG@5", "what the best epoch is best at", choices=("nDCG@5", "PSP@5", "P@1", "PSP@1"))
    patience: int = option(0, "epochs without a better one before training stops, 0 for never", low=0)
    precision: str = option("32-true", "numbers of the arithmetic: 32-true, bf16-mixed, 16-mixed",
                            choices=("32-true", "bf16-mixed", "16-mixed"))  # fmt: skip
    devices: int = option(1, "processors of the kind found (GPUs, or processes on a CPU); more than 1 share batches",
                          low=1, high=1024)  # fmt: skip
    nodes: int = option(1, "machines that train together", low=1, high=1024)
    logs: str | None = option(None, "folder for CSV and TensorBoard logs of the training, or none")

    #: Whether heads are bound to the labels' texts.
    tells_texts: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.encoder = build(self.encoder, "encoder")
        self.head = build(self.head, "head")
        self._check_parts(self.encoder, self.head)

    def _check_parts(self, encoder: Encoder, head: Head) -> None:
        """Refuses an encoder and a head that do not go together."""
        if encoder.whole and head.reads_tokens:
            raise UsageError(
                f"the head '{name_of(head)}' looks at single words, and the encoder '{name_of(encoder)}' gives one "
                "vector a document: take the head 'pooled'"
            )
        if head.reads_texts and not self.tells_texts:
            raise UsageError(f"'{name_of(self)}' tells no head of the labels' texts, which '{name_of(head)}' reads")

    def set_params(self, **params: Any) -> Self:
        super().set_params(**params)
        self.__post_init__()
        return self

    @property
    def capabilities(self) -> Capabilities:
        encoder: Encoder = self.encoder
        head: Head = self.head
        return Capabilities(needs=("texts",), spaces=("texts", *encoder.spaces, *head.spaces), side_by_side=False)

    # fitting
    def learn(self, corpus: Corpus, fit: Fit) -> Self:
        run, valid, hooks = fit.run, fit.valid, fit.hooks
        texts = texts_of(corpus)
        with run.stage("features"), torch_threads(run.workers):
            self.encoder.fit_tokeniser(self._read_words(corpus, texts), run)
        train_on, valid = self._held_out(corpus, valid, run)
        if self.patience and valid is None:
            raise UsageError("patience needs documents to check on: give validation data or set valid_share, as 0.05")
        with run.stage("train"), _own_randomness():
            self._fit_networks(train_on, valid, list(hooks), run)  # type: ignore[arg-type]
        self.n_labels_, self.n_features_ = corpus.n_labels, None
        return self

    def _read_words(self, corpus: Corpus, texts: Sequence[str]) -> Sequence[str]:
        """Texts whose words the encoder is to know."""
        return texts

    def _fit_networks(self, corpus: Corpus, valid: Corpus | None, hooks: list[Hook], run: Run) -> None:
        """Trains one network over all labels."""
        choice = SharedLabels(corpus.Y, corpus.pair_weight, self.negatives)
        self.network_ = self._new_network(corpus.n_labels, run)
        self._train(self.network_, corpus, valid, choice, hooks, run, "Training")

    def _new_network(self, n_labels: int, run: Run, name: str = "network") -> Network:
        torch.manual_seed(run.seed_of(name))
        encoder: EncoderNetwork = self.encoder.network()
        return Network(encoder, self.head.network(encoder.width, encoder.plain, n_labels))

    def _train(
        self,
        network: Network,
        corpus: Corpus,
        valid: Corpus | None,
        choice: LabelChoice,
        hooks: list[Hook],
        run: Run,
        title: str,
        valid_candidates: NDArray[np.int32] | None = None,
        epochs: int | None = None,
    ) -> None:
        tokens = self.encoder.tokens(texts_of(corpus), run, keep=True)
        data = TrainingData(tokens, choice, self._states(network, tokens, run))
        positives = corpus.positives()
        if self.start == "documents":
            network.start(tokens, positives, data.states)
        if valid is not None:
            data.valid, data.valid_tokens = valid, self.encoder.tokens(texts_of(valid), run, keep=True)
            data.valid_states = self._states(network, data.valid_tokens, run)
            data.valid_candidates = valid_candidates
        schedule = self._schedule(len(corpus), run, epochs)
        frozen, layers = network.encoder.frozen, network.encoder.layers
        train(
            network,
            data,
            schedule,
            hooks,
            Setting(
                corpus.labels,
                positives,
                np.isin(np.arange(len(corpus)), corpus.documents),
                layers,
                frozen + 1,
                schedule.steps,
                self.encoder.tokens(label_texts(corpus.labels), run) if hooks else None,
                self.encoder.max_length,
            ),
            epochs=-(-schedule.steps // self._steps_an_epoch(len(corpus))),
            metric=self.metric,
            patience=self.patience,
            average_from=None if self.average is None else int(self.average * schedule.steps),
            precision=self.precision,
            devices=self.devices,
            nodes=self.nodes,
            logs=self.logs,
            title=title,
            checkpoints=self._checkpoints(corpus, valid, hooks, title, run),
            run=run,
        )

    def _steps_an_epoch(self, documents: int) -> int:
        batches = -(-documents // self.batch)
        return -(-batches // (self.devices * self.nodes))

    def _schedule(self, documents: int, run: Run, epochs: int | None = None) -> Schedule:
        an_epoch = self._steps_an_epoch(documents)
        epochs = max(epochs or self.epochs, -(-self.least_steps // an_epoch))
        steps = epochs * an_epoch if self.steps is None else self.steps
        return Schedule(
            rate=self.rate,
            word_rate=self.word_rate,
            label_rate=self.label_rate,
            decay=self.decay,
            steps=steps,
            warm_up=self.warm_up,
            falling=self.falling,
            clip=self.clip,
            batch=self.batch,
            seed=run.seed_of("batches"),
        )

    def _held_out(self, corpus: Corpus, valid: Corpus | None, run: Run) -> tuple[Corpus, Corpus | None]:
        """What to train on and what to check on; documents without labels teach which labels do not hold."""
        if valid is not None:
            return corpus, (valid if valid.Y.nnz else None)
        count = min(MOST_VALID, int(self.valid_share * len(corpus.documents)))
        documents = corpus.documents
        labelled = documents[np.diff(corpus.Y.indptr)[documents] > 0]
        if count < 1 or len(labelled) < 2 * count:
            return corpus, None
        held = np.sort(run.rng("validation").permutation(labelled)[:count])
        return corpus.without_documents(corpus.origins()[held]), corpus.rows(held)

    def _states(self, network: Network, tokens: Tokens, run: Run) -> NDArray[np.float16] | None:
        return self.encoder.states(network.encoder, tokens, run)

    def _checkpoints(
        self, corpus: Corpus, valid: Corpus | None, hooks: Sequence[Hook], title: str, run: Run
    ) -> Path | None:
        """A folder that only the same fit on the same data with the same programs finds again."""
        if run.checkpoints is None:
            return None
        state = hashlib.sha256()
        programs = [version(name) for name in ("longtail", "torch", "lightning")]
        parts = [config_of(self), [config_of(hook) for hook in hooks], title, run.seed, run.workers, programs]
        state.update(orjson.dumps(parts))
        for data in (corpus, valid):
            if data is None:
                continue
            state.update(repr(data.Y.shape).encode())
            for array in (data.Y.indptr, data.Y.indices, data.Y.data, data.pair_weight):
                state.update(b"" if array is None else np.ascontiguousarray(array).data)
            for text in texts_of(data):
                state.update(f"{len(text)}:".encode())
                state.update(text.encode("utf-8", "surrogatepass"))
        return run.checkpoints / state.hexdigest()[:24]

    # scoring
    def score(self, corpus: Corpus, k: int, *, run: Run | None = None) -> Scores:
        run = run or Run()
        if not len(corpus):
            return Scores.empty(0, min(k, self.n_labels_))
        with torch_threads(run.workers):
            return self._score(self.encoder.tokens(texts_of(corpus), run), min(k, self.n_labels_), run)

    def _score(self, tokens: Tokens, k: int, run: Run) -> Scores:
        return best_labels(self.network_, tokens, self.n_labels_, k)

    # keeping
    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "labels": np.array([self.n_labels_]),
            **prefixed("encoder", self.encoder.state()),
            **prefixed("network", weights_of(self.network_)),
        }

    def restore(self, arrays: Arrays) -> None:
        self._restore_common(arrays)
        self.network_ = self._restored_network(self.n_labels_, under("network", arrays))

    def _restore_common(self, arrays: Arrays) -> None:
        labels = arrays["labels"]
        if labels.shape != (1,) or labels.dtype != np.int64 or labels[0] < 1:
            raise ValueError("the number of labels is not a number")
        self.n_labels_, self.n_features_ = int(labels[0]), None
        self.encoder.restore(under("encoder", arrays))
        self.encoder.check_weights(arrays)

    def _restored_network(self, n_labels: int, arrays: Arrays) -> Network:
        def empty() -> Network:
            encoder: EncoderNetwork = self.encoder.network()
            return Network(encoder, self._kept_head(encoder, n_labels))

        return filled(empty, n_labels, arrays)

    def _kept_head(self, encoder: EncoderNetwork, n_labels: int) -> HeadNetwork:
        """The head of a network as it is kept, its weights still to come."""
        head: Head = self.head
        return head.folded_network(encoder.width, encoder.plain, n_labels)


def filled(empty: Callable[[], Network], n_labels: int, arrays: Arrays) -> Network:
    """A network with the weights of a file, which must fit it."""
    if n_labels > max((len(array) for array in arrays.values() if array.ndim), default=0):
        raise ValueError(f"no weights have a row for each of {n_labels} labels")  # before room is made for them
    # shapes follow from the options, and what the file holds must fit them
    with _own_randomness():
        network = empty()
    own = network.state_dict()
    if set(own) != set(arrays):
        raise ValueError(f"weights {sorted(set(own) ^ set(arrays))[:3]} are missing or too many")
    for name, weight in own.items():
        given = arrays[name]
        if tuple(weight.shape) != given.shape or given.dtype != weight.numpy().dtype:
            raise ValueError(f"'{name}' is {given.dtype} {given.shape}, not {weight.dtype} {tuple(weight.shape)}")
    network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
    return network.eval()


def weights_of(network: Network) -> dict[str, NDArray[Any]]:
    return {name: weight.numpy() for name, weight in network.state_dict().items()}


@contextlib.contextmanager
def _own_randomness() -> Iterator[None]:
    """Draws from torch's generator, which dropout knows no other than, and leaves it to others as it was."""
    with torch.random.fork_rng(devices=[]):
        yield


def label_texts(labels: LabelIndex) -> list[str]:
    """Each label's text, or its name where it has none."""
    return [labels.text(column) for column in range(len(labels))]


def texts_of(corpus: Corpus) -> Sequence[str]:
    if corpus.texts is None:
        raise UsageError(f"{corpus.name} has no texts, which neural learners read")
    return corpus.texts
