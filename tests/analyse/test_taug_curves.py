"""Where a model stands on Taug's two scales, and the curves that several models make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from longtail.analyse.taug import FIGURES, Measured, TaugSettings, slices
from longtail.data.synthetic import synthetic
from longtail.labels import LabelIndex
from longtail.tagger import Tagger

LABELS = LabelIndex([f"l{i}" for i in range(10)], counts=np.arange(10, 0, -1), documents=20)


def setting(*arguments: Any, **given: Any) -> TaugSettings:
    return TaugSettings.of(Tagger(*arguments, **given).config(), LABELS)


def taug(n_aug: int = 4, tau: float = 0.1, **more: Any) -> dict[str, Any]:
    return {"part": "taug", "n_aug": n_aug, "tau": tau, **more}


def test_a_plain_model() -> None:
    found = setting("parabel")
    assert found == TaugSettings("parabel", (), False, None, 0, ())
    assert found.is_plain and found.describe() == "plain"


def test_taug_and_its_parts() -> None:
    found = setting("bonsai", augment=[taug(8, 0.2)], rerank=["inverse-propensity"])
    assert found == TaugSettings("bonsai", ("inverse-propensity",), True, 0.2, 8, ("dropout", "swap"))
    assert found.describe() == "n_aug 8, tau 0.2, inverse-propensity"
    assert setting(augment=[taug(share=0)]).noise == ("dropout",)
    without = setting("bonsai", augment=[taug(0)])
    assert without == setting("decoupled") and without.describe() == "decoupled, tau 0.1"
    assert not without.is_plain
    alone = setting("parabel", augment=[{"part": "input-swap", "n_aug": 2, "tau": 0.3}])
    assert (alone.decoupled, alone.tau, alone.n_aug, alone.noise) == (False, 0.3, 2, ("swap",))


def test_a_head_given_by_a_count_and_wrappers_inside_wrappers() -> None:
    assert setting({"part": "decoupled", "head_above": 7}).tau == 0.3, "3 of 10 labels have more than 7 documents"
    nested = setting({"part": "ensemble", "members": [{"part": "decoupled", "learner": "parabel"}, "bonsai"]})
    assert (nested.learner, nested.decoupled, nested.tau) == ("ensemble(parabel, bonsai)", True, 0.1)
    assert setting({"part": "decoupled", "learner": "bonsai", "tail": "one-vs-all"}).learner == "bonsai and one-vs-all"


def measured(psp: float | None, *arguments: Any, **given: Any) -> Measured:
    return Measured(setting(*arguments, **given), dict.fromkeys(FIGURES, psp))


def curve(one: Any) -> dict[float, float | None]:
    return {value: figures["PSP@1"] for value, figures in one.points.items()}


def test_copies_from_the_plain_model_on() -> None:
    (one,) = slices([measured(5, augment=[taug(8)]), measured(3), measured(4, augment=[taug(1)])])
    assert one.against == "n_aug" and one.fixed == "bonsai, dropout+swap, tau 0.1"
    assert curve(one) == {0: 3, 1: 4, 8: 5}
    assert one.to_dict()["points"][0] == {"n_aug": 0.0, "models": 1, **dict.fromkeys(FIGURES, 3)}


def test_the_decoupled_model_without_copies_comes_before_the_plain_one() -> None:
    (one,) = slices([measured(3), measured(3.5, "decoupled"), measured(5, augment=[taug(4)])])
    assert curve(one) == {0: 3.5, 4: 5}


def test_seeds_are_averaged() -> None:
    models = [measured(3), measured(4, seed=1), measured(None, seed=2), measured(5, augment=[taug()])]
    (one,) = slices(models)
    assert curve(one) == {0: 3.5, 4: 5} and one.models == {0: 3, 4: 1}


def test_the_head_s_share() -> None:
    models = [measured(3), measured(5, augment=[taug(4, 0.1)]), measured(4, augment=[taug(4, 0.5)])]
    (share,) = slices(models)
    assert share.against == "tau" and share.fixed == "bonsai, dropout+swap, n_aug 4"
    assert curve(share) == {0.1: 5, 0.5: 4, 1: 3}, "the plain model has all labels in the head"
    found = slices([*models, measured(4.5, augment=[taug(1, 0.1)])])
    assert [(one.against, curve(one)) for one in found] == [
        ("n_aug", {0: 3, 1: 4.5, 4: 5}), ("tau", {0.1: 5, 0.5: 4, 1: 3})
    ]  # fmt: skip


def test_models_that_differ_in_more_than_one_thing_make_no_curve() -> None:
    assert slices([measured(3), measured(4, "parabel", augment=[taug()])]) == []
    assert slices([measured(3), measured(4, augment=[taug()], rerank=["inverse-propensity"])]) == []
    assert slices([measured(3)]) == []
    found = slices([measured(3), measured(4, augment=[taug()]), measured(6, augment=[taug(share=0)])])
    assert [one.fixed for one in found] == ["bonsai, dropout+swap, tau 0.1", "bonsai, dropout, tau 0.1"]


def test_the_figures_are_those_of_evaluate() -> None:
    corpus = synthetic(documents=200, labels=100, words=200, seed=1)
    tagger = Tagger({"part": "parabel", "trees": 1}, features=None).fit(corpus)
    report = tagger.evaluate(corpus)
    tail = report.bands[0]
    assert tail.name == "tail" and tail.pairs > 0
    expected = {name: report[name] for name in FIGURES[:-1]} | {"tail_recall@5": tail.figures["recall@5"]}
    assert Measured.of(setting(), report).figures == pytest.approx(expected, abs=1e-4)
