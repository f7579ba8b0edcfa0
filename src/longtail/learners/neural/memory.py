"""What networks need: weights with the optimiser's moments, tokens, and what a batch holds on the way."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from longtail.features.estimate import Words, words_of
from longtail.learners.neural.heads.base import Seen
from longtail.learners.neural.shortlists.shared import AllLabels, SampledLabels
from longtail.plan import Sizes, Stage

if TYPE_CHECKING:
    from longtail.learners.neural.base import NeuralLearner
    from longtail.run import Run

#: Documents scored together while a network is checked.
SCORED = 64
#: Products of two numbers that a core adds up per second, in batches as small as these.
PRODUCTS = 2e9
#: How many times as quick steps are that are written down by hand (see `by_hand`).
BY_HAND = 1.7


def words_read(learner: NeuralLearner, sizes: Sizes) -> tuple[Words, Words]:
    """All words of the texts, and those that are read: the first of each document."""
    if learner.gives_label_texts:  # read beside the documents'
        sizes = sizes.with_documents(sizes.labels, sizes.label_characters, 0, sizes.label_sample)
    language = getattr(learner.encoder, "language", "none")
    read = words_of(sizes, max_length=learner.encoder.max_length, language=language)
    return words_of(sizes, language=language), read


def token_stage(learner: NeuralLearner, sizes: Sizes) -> Stage:
    """The vocabulary is gathered from counts of all texts; how rare words are is told from all tokens, sorted."""
    every, read = words_read(learner, sizes)
    kept = 45 * learner.encoder.vocabulary(every)
    peak = max(8 * every.entries + 150 * every.terms, 40 * read.tokens) + kept
    return Stage("tokens", sizes.characters / 8e6, peak, kept)


def network_stages(learner: NeuralLearner, sizes: Sizes, name: str = "", listed: int = 0) -> list[Stage]:
    """One network over all labels of these sizes; listed  labels that each document is shown of its own, if any."""
    every, read = words_read(learner, sizes)
    encoder, head = learner.encoder, learner.head
    cost = encoder.cost(encoder.vocabulary(every))
    length = min(encoder.max_length, max(1, read.tokens // max(1, sizes.documents)))
    shown = (min(listed, sizes.labels), True) if listed else learner.shortlist.shown(sizes, learner.batch)
    # documents of similar length come together: some batch has the longest
    seen = Seen(learner.batch, read.longest, shown[0], shown[1], cost.width, cost.word_width)
    of_labels = head.weights(cost.width, cost.word_width, sizes.labels) + learner.shortlist.weights(cost.width, sizes)
    weights = 4 * (cost.weights + of_labels)
    averaged = weights if learner.average is not None else 0
    best = weights if learner.valid_share else 0
    moments = 2 * 4 * (cost.trained + of_labels)
    tokens = 4 * read.tokens + 8 * sizes.documents + cost.kept_per_token * read.tokens
    start = 4 * cost.word_width * (3 * sizes.documents + 2 * sizes.labels) if learner.starts_from_documents else 0
    batch = 4 * (seen.documents * (seen.tokens * cost.per_token + cost.per_document) + head.busy(seen))
    scored = 4 * (SCORED * (3 * sizes.labels + seen.tokens * cost.per_token // 3))
    folded = 4 * sizes.labels * cost.width
    steps = learner.planned_steps(sizes)
    products = seen.documents * (length * cost.products + head.busy(seen) // max(1, seen.documents) * 4)
    prefix = f"{name} " if name else ""
    return [
        Stage(f"{prefix}network", weights / 2e8, weights + tokens + start, weights + tokens),
        Stage(
            f"{prefix}train",
            steps * max(0.004, products / PRODUCTS) / (BY_HAND if goes_by_hand(learner) else 1),
            moments + averaged + best + max(batch, scored, folded),
            -tokens,
        ),
    ]


def goes_by_hand(learner: NeuralLearner) -> bool:
    """Whether its steps are written down by hand, where a run asks for nothing that needs the general way."""
    encoder, head = learner.encoder, learner.head
    plain = learner.has_hand_written_steps and learner.average is None and not learner.valid_share
    shared = isinstance(learner.shortlist, AllLabels | SampledLabels)
    return plain and shared and getattr(encoder, "sums_only", False) and getattr(head, "text_and_own", False)


def stages_of(learner: NeuralLearner, sizes: Sizes, run: Run) -> list[Stage]:
    return [token_stage(learner, sizes), *network_stages(learner, sizes)]


def second_stage(learner: NeuralLearner, sizes: Sizes) -> list[Stage]:
    """The classifier alone, on what the encoder makes of all tokens, which is mapped from a file."""
    every, read = words_read(learner, sizes)
    cost = learner.encoder.cost(learner.encoder.vocabulary(every))
    vectors = 2 * cost.width * (read.tokens if learner.encoder.capabilities.per_token else 2 * sizes.documents)
    first = network_stages(learner, sizes)
    moments = 8 * learner.head.weights(cost.width, cost.word_width, sizes.labels)
    return [Stage("vectors", first[-1].seconds / 6, vectors + first[0].kept, vectors),
            Stage("train", first[-1].seconds / 3, moments + first[-1].peak // 3, -vectors)]  # fmt: skip


def grouped(sizes: Sizes, groups: int) -> Sizes:
    """The documents with groups of labels as their labels."""
    size = max(1, math.ceil(sizes.labels / max(1, groups)))
    order = sizes.frequency.copy()
    order.resize(groups * size)
    return replace(sizes, labels=groups, frequency=order.reshape(groups, size).sum(axis=1))
