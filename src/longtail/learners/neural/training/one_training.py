"""How one network of a learner is trained by Lightning: on what, for how long, and with whom watching."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtail.augment.hooks import TrainingPlan
from longtail.learners.neural.training.data import Checked, Course, TrainingData
from longtail.learners.neural.training.network import Network
from longtail.learners.neural.training.task import Task, label_texts, texts_of
from longtail.learners.neural.training.trainer import train

if TYPE_CHECKING:
    from longtail.learners.neural.base import NeuralLearner


def train_on(learner: NeuralLearner, network: Network, data: TrainingData, task: Task, key: str) -> None:
    """Trains a network in place, on data that is made already."""
    corpus, fit = task.corpus, task.fit
    run, hooks = fit.run, list(fit.hooks)
    if fit.valid is not None:
        tokens = learner.encoder.tokens(texts_of(fit.valid), run, keep=True)
        data.valid = Checked(fit.valid, tokens, learner.states_of(network, tokens, run))
    schedule = learner.schedule_of(task)
    course = Course(
        schedule,
        epochs=-(-schedule.steps // learner.steps_per_epoch(task)),
        metric=learner.metric,
        patience=learner.patience,
        average_from=None if learner.average is None else int(learner.average * schedule.steps),
        average_every=learner.average_every,
        title=task.title,
        checkpoints=None if run.checkpoints is None or not key else run.checkpoints / key,
    )
    plan = TrainingPlan(
        corpus,
        network.encoder.layers,
        schedule.steps,
        learner.encoder.tokens(label_texts(corpus.labels), run) if hooks else None,
        learner.encoder.max_length,
        run,
    )
    train(network, data, course, hooks, plan, run)  # type: ignore[arg-type]
