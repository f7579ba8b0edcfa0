"""What holds for every registered part, whatever it is."""

from __future__ import annotations

import json
import re
from dataclasses import fields

import pytest
from contract_cases import without_torch
from sklearn.base import clone

from longtail.errors import UsageError
from longtail.part import Part
from longtail.registry import Entry, build, config_of, entries, find, name_of, register

ALL = [pytest.param(entry, id=entry.name, marks=[without_torch] if entry.extra else []) for entry in entries()]
#: The kind a class declares for each kind in the registry: a wrapper is a learner made of learners.
DECLARED = {"wrapper": "learner"}


@pytest.mark.parametrize("entry", ALL)
def test_entry_and_class_agree(entry: Entry) -> None:
    part = build(entry.name)
    assert isinstance(part, Part)
    assert name_of(part) == entry.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", entry.name)
    assert part.kind == DECLARED.get(entry.kind, entry.kind)
    assert entry.summary and entry.paper and entry.space


@pytest.mark.parametrize("entry", ALL)
def test_every_option_says_what_it_means(entry: Entry) -> None:
    for f in fields(entry.load()):
        assert len(f.metadata.get("help", "")) >= 10, f"{entry.name}.{f.name} has no help"
        assert not f.name.endswith("_"), "names that end in _ are for fitted state"


@pytest.mark.parametrize("entry", ALL)
def test_configuration_round_trip(entry: Entry) -> None:
    part = build(entry.name)
    config = config_of(part)
    assert config["part"] == entry.name
    assert json.loads(json.dumps(config)) == config, "a manifest keeps configurations as JSON"
    again = build(config)
    assert type(again) is type(part)
    assert config_of(again) == config


@pytest.mark.parametrize("entry", ALL)
def test_clone_and_parameters(entry: Entry) -> None:
    part = build(entry.name)
    copy = clone(part)
    assert copy is not part
    assert config_of(copy) == config_of(part)
    assert set(part.get_params()) == {f.name for f in fields(part)}
    assert config_of(build(entry.name).set_params(**part.get_params())) == config_of(part)


@pytest.mark.parametrize("entry", ALL)
def test_a_changed_option_is_kept(entry: Entry) -> None:
    """Every number can be changed within its range, and the change travels through the configuration."""
    for f in fields(entry.load()):
        default = getattr(build(entry.name), f.name)
        if type(default) not in (int, float):
            continue
        low, high = f.metadata.get("low"), f.metadata.get("high")
        value = default + 1 if high is None or default + 1 <= high else default - 1
        if low is not None and value < low:
            value = low
        try:
            part = build({"part": entry.name, f.name: value})
        except UsageError as error:
            assert f.name in str(error), "only a rule that names the option may refuse it"
            continue
        assert config_of(part)[f.name] == value


@pytest.mark.parametrize("entry", ALL)
def test_unknown_option_is_refused_with_the_nearest_name(entry: Entry) -> None:
    names = [f.name for f in fields(entry.load())]
    for name in names:
        wrong = f"{name}x"
        if wrong in names:
            continue
        with pytest.raises(UsageError, match=rf"'{entry.name}' has no option '{wrong}'; did you mean '\w+'\?"):
            build({"part": entry.name, wrong: 1})
    with pytest.raises(UsageError, match="has no option 'qqqq'"):
        build(entry.name).set_params(qqqq=1)


@pytest.mark.parametrize("entry", ALL)
def test_values_out_of_range_are_refused_by_name(entry: Entry) -> None:
    for f in fields(entry.load()):
        low, high, choices = (f.metadata.get(key) for key in ("low", "high", "choices"))
        wrong = []
        if low is not None:
            wrong.append(low - 1)
        if high is not None:
            wrong.append(high + 1)
        if choices:
            wrong.append("no such choice")
        if type(getattr(build(entry.name), f.name)) in (int, float):
            wrong += ["a word", float("nan")]
        for value in wrong:
            with pytest.raises(UsageError, match=rf"{entry.name}\.{f.name} "):
                build({"part": entry.name, f.name: value})


def test_unknown_parts_and_wrong_kinds() -> None:
    with pytest.raises(UsageError, match="unknown learner 'bonzai'; did you mean 'bonsai'"):
        find("bonzai", "learner", "wrapper")
    with pytest.raises(UsageError, match="unknown learner 'tfidf'"):
        find("tfidf", "learner", "wrapper")
    with pytest.raises(UsageError, match="needs its name"):
        build({"trees": 3})


def test_names_are_taken_once() -> None:
    with pytest.raises(ValueError, match="already"):
        register("parabel", "learner", "somewhere:Else", "features", "-", "-")
    with pytest.raises(ValueError, match="kebab"):
        register("Not_Kebab", "learner", "somewhere:Else", "features", "-", "-")
