"""scikit-learn's own checks of estimators, all of them, over classifiers of several learners."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from longtail import LongtailClassifier

#: Checks that fail, and why they must.
EXPECTED: dict[str, str] = {}


@parametrize_with_checks(
    [LongtailClassifier(threads=1), LongtailClassifier("one-vs-all", threads=1)],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_as_scikit_learn_has_it(estimator: Any, check: Any) -> None:
    check(estimator)
