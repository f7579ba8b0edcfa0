"""scikit-learn's own checks of estimators, all of them; none is expected to fail."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import check_classifier_multioutput, parametrize_with_checks

from longtail import LongtailClassifier


@parametrize_with_checks([LongtailClassifier(threads=1), LongtailClassifier("one-vs-all", threshold=0.5, threads=1)])
def test_as_scikit_learn_has_it(estimator: Any, check: Any) -> None:
    check(estimator)


def test_several_labels_as_several_outputs() -> None:
    """A check for targets of several classes each, which takes 0.5 as the threshold; it holds for indicators, too."""
    check_classifier_multioutput("LongtailClassifier", LongtailClassifier(threshold=0.5, threads=1))
