"""Options and their checks, the registry, and configurations of parts inside parts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from longtail import registry
from longtail.errors import UsageError
from longtail.learners.decoupled import Decoupled
from longtail.learners.ensemble import Ensemble
from longtail.learners.linear.label_tree import Bonsai, Parabel
from longtail.part import Part, default_of, option, prefixed, under
from longtail.recipe import Recipe
from longtail.registry import Entry, build, config_of, entries, find, name_of, register
from longtail.settings import parse_value


@dataclass(kw_only=True)
class Sample(Part):
    """One option of every sort."""

    trees: int = option(3, "a whole number", low=1, high=9)
    cost: float = option(1.0, "a number", low=0)
    loss: str = option("hinge", "one of two words", choices=("hinge", "logistic"))
    sublinear: bool = option(True, "a switch")
    depth: int | None = option(None, "a number or nothing", low=1)
    weights: list[float] | None = option(None, "a list or nothing")
    names: list[Any] = option(["a"], "a list")


@dataclass(kw_only=True)
class Bare(Part):
    pass


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Entries made by a test are gone after it."""
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    names = dict(registry.NAMES)
    monkeypatch.setattr(registry, "NAMES", names)
    monkeypatch.setattr("longtail.part.NAMES", names)
    yield


# options
def test_options_carry_default_help_and_range() -> None:
    by_name = {f.name: f for f in fields(Sample)}
    assert default_of(by_name["trees"]) == 3
    assert by_name["trees"].metadata == {"help": "a whole number", "low": 1, "high": 9, "choices": None, "only": {}}
    assert default_of(by_name["names"]) == ["a"]


def test_lists_are_not_shared_between_parts() -> None:
    first, second = Sample(), Sample()
    first.names.append("b")
    assert second.names == ["a"]


@pytest.mark.parametrize(
    ("field", "value", "kept"),
    [
        ("trees", 9, 9),
        ("trees", np.int64(4), 4),
        ("cost", 2, 2.0),
        ("cost", np.float32(0.5), 0.5),
        ("loss", "logistic", "logistic"),
        ("sublinear", False, False),
        ("sublinear", np.bool_(False), False),
        ("depth", None, None),
        ("depth", 2, 2),
        ("weights", [1, 0.5], [1, 0.5]),
        ("weights", None, None),
    ],
)
def test_values_that_fit_are_kept_as_plain_values(field: str, value: Any, kept: Any) -> None:
    part = Sample(**{field: value})
    assert getattr(part, field) == kept
    assert type(getattr(part, field)) is type(kept)
    assert getattr(Sample().set_params(**{field: value}), field) == kept


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("trees", 0, "Sample.trees must be at least 1, not 0"),
        ("trees", 10, "Sample.trees must be at most 9, not 10"),
        ("trees", 1.5, "Sample.trees must be a whole number, not 1.5"),
        ("trees", True, "Sample.trees must be a whole number, not True"),
        ("trees", "three", "Sample.trees must be a whole number, not 'three'"),
        ("trees", None, "Sample.trees must be a whole number, not None"),
        ("trees", 1 << 70, "Sample.trees must be a number of at most 63 bits, not 1180591620717411303424"),
        ("cost", 10**25, f"Sample.cost must be a number of at most 63 bits, not {10**25}"),
        ("cost", -0.5, "Sample.cost must be at least 0, not -0.5"),
        ("cost", float("nan"), "Sample.cost must be a finite number, not nan"),
        ("cost", float("inf"), "Sample.cost must be a finite number, not inf"),
        ("cost", "1", "Sample.cost must be a number, not '1'"),
        ("loss", "hing", "Sample.loss cannot be 'hing'; did you mean 'hinge'?"),
        ("loss", "qqq", "Sample.loss cannot be 'qqq'; there are: hinge, logistic"),
        ("loss", 1, "Sample.loss must be a word, not 1"),
        ("sublinear", 1, "Sample.sublinear must be true or false, not 1"),
        ("depth", 0, "Sample.depth must be at least 1, not 0"),
        ("depth", "none", "Sample.depth must be a whole number, not 'none'"),
        ("weights", 5, "Sample.weights must be a list of numbers, not 5"),
        ("weights", "ab", "Sample.weights must be a list of numbers, not 'ab'"),
        ("weights", [1, "a"], "Sample.weights must be a list of numbers, not [1, 'a']"),
        ("weights", [True], "Sample.weights must be a list of numbers, not [True]"),
        ("weights", [float("nan")], "Sample.weights must be a list of numbers, not [nan]"),
    ],
)
def test_values_that_do_not_fit_are_refused_in_one_sentence(field: str, value: Any, message: str) -> None:
    for make in (lambda: Sample(**{field: value}), lambda: Sample().set_params(**{field: value})):
        with pytest.raises(UsageError) as caught:
            make()
        assert str(caught.value) == message


def test_unknown_options() -> None:
    with pytest.raises(UsageError, match=r"'Sample' has no option 'tree'; did you mean 'trees'\?"):
        Sample().set_params(tree=1)
    with pytest.raises(UsageError, match="'Bare' has no option 'trees'; it has none"):
        Bare().set_params(trees=1)


def test_parameters_as_scikit_learn_has_them() -> None:
    part = Sample(trees=5)
    assert part.get_params() == {
        "trees": 5,
        "cost": 1.0,
        "loss": "hinge",
        "sublinear": True,
        "depth": None,
        "weights": None,
        "names": ["a"],
    }
    assert part.set_params(trees=6) is part


def test_parts_without_state_keep_and_take_none() -> None:
    assert Bare().state() == {}
    Bare().restore({})
    with pytest.raises(ValueError, match=r"Bare keeps no arrays, the file has \['a', 'b', 'c'\]"):
        Bare().restore({name: np.zeros(1) for name in "dcba"})


def test_state_under_a_prefix() -> None:
    arrays = {"weight": np.array([1]), "tree0.bias": np.array([2])}
    kept = prefixed("head", arrays)
    assert list(kept) == ["head.weight", "head.tree0.bias"]
    assert under("head", {**kept, **prefixed("header", arrays), "head": np.zeros(1)}) == arrays


# the registry
def test_a_registered_part_is_found_by_name(clean_registry: None) -> None:
    register("sample", "learner", f"{__name__}:Sample", "features", "-", "A sample")
    assert name_of(Sample) == name_of(Sample()) == "sample"
    assert find("sample").load() is Sample
    assert build({"part": "sample", "trees": 7}) == Sample(trees=7)
    with pytest.raises(UsageError, match=r"sample\.trees must be at least 1"):
        build({"part": "sample", "trees": 0})


def test_parts_that_are_not_registered_go_by_their_class() -> None:
    assert name_of(Sample) == "Sample"


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("parabel", "somewhere:Else", "'parabel' .* is registered already"),
        ("other", "longtail.learners.linear.label_tree:Parabel", "'other' .*:Parabel.* is registered already"),
        ("Upper", "a:B", "'Upper' is not kebab-case"),
        ("snake_case", "a:B", "is not kebab-case"),
        ("two words", "a:B", "is not kebab-case"),
        ("", "a:B", "is not kebab-case"),
        ("-front", "a:B", "is not kebab-case"),
        ("back-", "a:B", "is not kebab-case"),
        ("a--b", "a:B", "is not kebab-case"),
        ("dot.ted", "a:B", "is not kebab-case"),
    ],
)
def test_names_that_are_taken_or_bad_are_refused(clean_registry: None, name: str, target: str, message: str) -> None:
    before = [entry.name for entry in entries()]
    with pytest.raises(ValueError, match=message):
        register(name, "learner", target, "features", "-", "-")
    assert [entry.name for entry in entries()] == before


def test_kinds_are_known(clean_registry: None) -> None:
    with pytest.raises(ValueError, match="unknown kind 'teacher'"):
        register("sample", "teacher", "a:B", "features", "-", "-")
    assert {entry.name for entry in entries("learner")} >= {"one-vs-all", "parabel", "bonsai"}
    assert {entry.name for entry in entries("wrapper")} >= {"decoupled", "ensemble"}
    assert len(entries()) > len(entries("learner"))


def test_names_that_do_not_exist() -> None:
    with pytest.raises(UsageError, match=r"unknown part 'parabell'; did you mean 'parabel'\?"):
        find("parabell")
    with pytest.raises(UsageError, match="unknown learner 'tfidf'"):
        find("tfidf", "learner")
    with pytest.raises(UsageError, match="unknown teacher 'x'; there is no teacher yet"):
        find("x", "teacher")


def test_a_missing_extra_is_announced() -> None:
    entry = Entry("sample", "learner", "no_such_module_at_all:Thing", "tokens", "-", "-", extra="neural")
    with pytest.raises(UsageError) as caught:
        entry.load()
    assert str(caught.value).startswith("'sample' needs the extra 'neural': pip install 'longtail[neural]' (")
    assert "no_such_module_at_all" in str(caught.value)


def test_an_import_that_fails_without_an_extra_is_our_own_mistake() -> None:
    with pytest.raises(ImportError):
        Entry("sample", "learner", "no_such_module_at_all:Thing", "tokens", "-", "-").load()


# configurations
@pytest.mark.parametrize(
    "part",
    [
        Parabel(trees=1, loss="logistic"),
        Bonsai(depth=2, discount=0.98),
        Ensemble(members=[Parabel(trees=1), Decoupled(learner=Bonsai(), tail=Parabel(cost=2))], weights=[1.0, 2.5]),
        Decoupled(learner=Ensemble(members=["parabel"]), head_above=4),
    ],
    ids=name_of,
)
def test_a_configuration_makes_the_same_part_again(part: Part) -> None:
    config = json.loads(json.dumps(config_of(part)))
    assert config == config_of(part)
    again = build(config)
    assert again == part
    assert config_of(again) == config


def test_configurations_are_written_out_in_full() -> None:
    config = config_of(build({"part": "ensemble", "members": ["parabel", {"part": "bonsai", "trees": 1}]}))
    assert [member["part"] for member in config["members"]] == ["parabel", "bonsai"]
    assert [member["trees"] for member in config["members"]] == [3, 1]
    assert set(config["members"][0]) == {"part", *(f.name for f in fields(Parabel))}


def test_a_part_is_built_from_itself() -> None:
    part = Parabel()
    assert build(part) is part


@pytest.mark.parametrize("config", [{}, {"trees": 1}, {"part": 3}, 5, ["parabel"], None])
def test_a_configuration_needs_a_name(config: Any) -> None:
    with pytest.raises(UsageError, match=r'a part needs its name, as in part = "parabel"; got '):
        build(config)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["learner.tres=1"], "'bonsai' has no option 'tres'; did you mean 'trees'"),
        (["learner.trees=0"], "bonsai.trees must be at least 1, not 0"),
        (["bonsay.trees=1"], "this run has no 'bonsay'; did you mean 'bonsai'"),
        (["learner.loss=hinge"], "bonsai.loss cannot be 'hinge'; did you mean 'squared-hinge'"),
        (["trees"], "--set takes path=value"),
        ([f"learner.max_passes={10**25}"], "bonsai.max_passes must be a number of at most 63 bits"),
        ([f"learner.cost={'9' * 5000}"], "bonsai.cost must be a number, not '999"),
        (["learner.cost=" + "[" * 5000], "bonsai.cost must be a number, not '\\[\\["),
    ],
)
def test_settings_that_do_not_fit(settings: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Recipe().override(settings=settings)


@pytest.mark.parametrize("weights", ["5", "ab", '[1, "a"]', "[1]", "[0, 0]", "[-1, 2]"])
def test_weights_of_an_ensemble_are_numbers_one_a_member(weights: str) -> None:
    with pytest.raises(UsageError, match=r"ensemble\.weights must be "):
        Recipe().override(learner="ensemble", settings=[f"learner.weights={weights}"])


def test_a_value_beyond_reading_stays_a_word() -> None:
    assert parse_value("9" * 5000) == "9" * 5000
    assert parse_value("[1, 2]") == [1, 2]
