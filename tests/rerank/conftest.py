"""One problem for all re-rankers: shortlists of documents that the learner did not see."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.fit import Fit
from longtail.learners.folds import out_of_fold
from longtail.learners.pipeline import Pipeline
from longtail.rerank.held_out import Folds
from longtail.run import Run
from longtail.scores import Scores

Problem = tuple[Scores, Corpus, Folds, Scores, Corpus]


@pytest.fixture(scope="session")
def problem() -> Problem:
    """Shortlists out of fold with their documents and folds, and those of test documents."""
    whole = synthetic(documents=3000, labels=300, words=2000, words_per_document=15, signal=0.12, seed=6)
    train, test = whole.split(0.3, np.random.default_rng(0))
    train = train.counted()
    pipeline = Pipeline(learner={"part": "parabel", "trees": 1}, rerank=[{"part": "ranknet", "depth": 40}])
    pipeline.features_ = None
    held_out = out_of_fold(pipeline, train, train, Fit(Run()))
    test = test.aligned(train.labels)
    return *held_out, pipeline.learner.fit(train).score(test, 40), test
