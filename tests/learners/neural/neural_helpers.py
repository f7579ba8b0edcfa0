"""Small corpora and fits that tests of neural learners share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from longtail.augment.hooks import Hook, TrainingPlan
from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.learners.neural.base import NeuralLearner
from longtail.learners.neural.encoders.words import BiLSTM
from longtail.learners.neural.heads.label_attention import LabelAttention
from longtail.learners.neural.shortlists.base import SharedLabels
from longtail.learners.neural.training.data import Checked, Course, Schedule, TrainingData
from longtail.learners.neural.training.network import Network
from longtail.learners.neural.training.trainer import train
from longtail.run import Hardware, Run

DOCUMENTS, LABELS, BATCH = 24, 6, 8
AN_EPOCH = DOCUMENTS // BATCH

Weights = dict[str, torch.Tensor]


def topics(documents: int = DOCUMENTS, labels: int = LABELS, seed: int = 0) -> Corpus:
    """One label a document, and one word that gives it away."""
    rng = np.random.default_rng(seed)
    label = np.arange(documents) % labels
    noise = rng.integers(0, 10, (documents, 4))
    texts = [
        f"topic{own} " + " ".join(f"noise{n}" for n in row[: 1 + own % 4])
        for own, row in zip(label, noise, strict=True)
    ]
    Y = sp.csr_matrix(
        (np.ones(documents, np.float32), label.astype(np.int32), np.arange(documents + 1)), shape=(documents, labels)
    )
    return Corpus(labels=LabelIndex([f"label {n}" for n in range(labels)]), Y=Y, texts=texts, name="topics").counted()


def copied(network: torch.nn.Module) -> Weights:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def same(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class Watch:
    """A progress that calls a function after every optimiser step with the number of steps done."""

    def __init__(self, after_step: Callable[[int], None]) -> None:
        self.after_step = after_step
        self.steps = 0
        self.open = 0

    def bar(self, title: str, total: float | None) -> Any:
        return self

    def __enter__(self) -> Any:
        self.open += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self.open -= 1

    def advance(self, amount: float = 1) -> None:
        self.steps += int(amount)
        if amount:
            self.after_step(self.steps)


def fitted(
    *,
    steps: int = 3 * AN_EPOCH,
    batch: int = BATCH,
    valid: bool = True,
    after_step: Callable[[Network, int], None] = lambda network, step: None,
    seed: int = 0,
    hooks: list[Hook] | None = None,
    **options: Any,
) -> Network:
    """A tiny BiLSTM trained by `train`; after_step sees its weights after every optimiser step."""
    corpus, held = topics(), topics(12, seed=1)
    quiet = Run(threads=1)
    encoder = BiLSTM(size=6, hidden=3, min_df=1)
    encoder.fit_tokeniser(corpus.texts or [], quiet)
    torch.manual_seed(seed)
    made = encoder.network()
    network = Network(made, LabelAttention().network(made.width, made.word_width, LABELS))
    data = TrainingData(encoder.tokens(corpus.texts or [], quiet), SharedLabels(corpus.Y, None, 0))
    if valid:
        data.valid = Checked(held, encoder.tokens(held.texts or [], quiet))
    schedule = Schedule(
        rate=0.01,
        word_rate=0.01,
        label_rate=0.02,
        decay=0.0,
        steps=steps,
        warm_up=2,
        falling=True,
        clip=5.0,
        batch=batch,
        seed=seed,
    )
    hardware = Hardware(**{name: options.pop(name) for name in ("devices", "logs", "precision") if name in options})
    course = Course(schedule, **{"epochs": steps * batch // DOCUMENTS, **options})
    run = Run(threads=1, progress=Watch(lambda step: after_step(network, step)), hardware=hardware)
    return train(network, data, course, hooks or [], TrainingPlan(corpus, 1, steps), run)


def small_learner(**options: Any) -> NeuralLearner:
    from longtail.learners.neural.attentionxml import AttentionXML

    encoder = {"part": "bilstm", "size": 8, "hidden": 4}
    length = {} if "steps" in options else {"epochs": 2, "least_steps": 1}
    return AttentionXML(**{"encoder": encoder, **length, "batch": BATCH, **options})


def checkpoint_files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("*.ckpt"))
