"""Recipes: read, refused, overridden, turned into taggers."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.errors import InputError, UsageError
from longtail.part import Part
from longtail.recipe import Recipe, named
from longtail.registry import build, config_of, entries
from longtail.settings import parse_value
from longtail.tagger import Tagger


def write(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(content)
    return path


NAMES = ["attentionxml", "bonsai", "calibrated-propensity", "decaf", "gandalf", "inverse-propensity", "label-text",
         "label-trees", "laroberta", "one-vs-all", "parabel", "taug"]  # fmt: skip


def test_named_recipes_are_whole_and_differ() -> None:
    assert named() == NAMES
    taggers = {}
    for name in named():
        recipe = Recipe.find(name)
        assert recipe.title and recipe.when and recipe.paper and recipe.note
        assert recipe.when.endswith(".") and ". " not in recipe.when, "one sentence"
        taggers[name] = repr(recipe.tagger())
        assert isinstance(recipe.tagger(), Tagger)
    assert len(set(taggers.values())) == len(taggers)
    assert Recipe.find("parabel").learner["trees"] == Recipe.find("bonsai").learner["trees"] == 3
    assert Recipe.find("bonsai").to_dict() == Recipe().to_dict(), "the default has a name"


def test_single_models_and_ensembles_are_kept_apart() -> None:
    assert [name for name in named() if Recipe.find(name).learner["part"] == "ensemble"] == [
        "label-text",
        "label-trees",
    ]


def test_recipes_of_networks_say_what_they_need() -> None:
    neural = {entry.name for entry in entries("learner") if entry.extra}
    for name in named():
        recipe = Recipe.find(name)
        if recipe.learner["part"] in neural:
            assert ("needs longtail[neural]" in recipe.when) == (recipe.learner["part"] != "decaf")
            assert recipe.features == "auto" and recipe.tagger().features is None


def test_summaries_need_no_parts() -> None:
    code = (
        "import sys; from longtail.recipe import summaries; found = summaries(); "
        "assert 'torch' not in sys.modules and all(each['when'] for each in found); print(len(found))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "12\n"


def test_a_file_with_parts_inside_parts(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        'title = "two"\n[features]\npart = "tfidf"\n[learner]\npart = "ensemble"\n'
        '[[learner.members]]\npart = "parabel"\ntrees = 2\n[[learner.members]]\npart = "bonsai"\n',
    )
    recipe = Recipe.find(str(path))
    assert [member["part"] for member in recipe.learner["members"]] == ["parabel", "bonsai"]
    recipe.override(settings=["learner.members.1.trees=7", "parabel.trees=5"])
    tagger = recipe.tagger(seed=3, threads=2)
    assert [member.trees for member in tagger.learner.members] == [5, 7]
    assert (tagger.seed, tagger.threads) == (3, 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[lerner]\npart = 'parabel'\n", "a recipe has no 'lerner'; did you mean 'learner'?"),
        ("[learner]\npart = 'parable'\n", "unknown learner 'parable'; did you mean 'parabel'?"),
        ("[learner]\npart = 'tfidf'\n", "unknown learner 'tfidf'"),
        ("[learner]\ntrees = 1\n", "a part needs its name"),
        ("[learner]\npart = 'parabel'\ntree = 1\n", "'parabel' has no option 'tree'; did you mean 'trees'?"),
        ("[learner]\npart = 'parabel'\ntrees = 'many'\n", "parabel.trees must be a whole number, not 'many'"),
        ("[learner]\npart = 'parabel'\ntrees = 0\n", "parabel.trees must be at least 1, not 0"),
        ("learner = 3\n", "learner is one part"),
        ("[augment]\npart = 'x'\n", "augment is a list of parts: write [[augment]]"),
        ("title = 3\n", "title must be a text"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputError) as caught:
        Recipe.find(str(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_broken_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"own.toml:2: is not valid TOML"):
        Recipe.find(str(write(tmp_path, "title = 'x'\n[learner\n")))
    with pytest.raises(InputError, match="no such recipe file"):
        Recipe.find(str(tmp_path / "gone.toml"))
    (tmp_path / "own.toml").write_bytes(b"title = '\xff'\n")
    with pytest.raises(InputError, match="not UTF-8"):
        Recipe.find(str(tmp_path / "own.toml"))
    with pytest.raises(InputError, match="cannot be read"):
        Recipe.find(str(tmp_path))
    with pytest.raises(UsageError, match="unknown recipe 'parabell'; did you mean 'parabel'"):
        Recipe.find("parabell")


def test_options_take_the_place_of_the_recipe() -> None:
    recipe = Recipe.find("parabel").override(learner="bonsai", settings=["learner.trees=2", "tfidf.min_df=1"])
    assert recipe.learner["part"] == "bonsai" and recipe.learner["trees"] == 2
    assert recipe.features["min_df"] == 1
    recipe = Recipe.find("calibrated-propensity").override(rerank=["inverse-propensity"])
    assert recipe.rerank[0]["part"] == "inverse-propensity"
    with pytest.raises(UsageError, match="unknown augmenter 'gandalff'"):
        Recipe().override(augment=["gandalff"])
    with pytest.raises(UsageError, match="unknown re-ranker 'ranknett'"):
        Recipe().override(rerank=["ranknett"])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("learner.trees", "--set takes path=value"),
        ("=3", "--set takes path=value"),
        ("learner=bonsai", "name one of its options"),
        ("learner.part=bonsai", "parts are chosen by --learner"),
        ("learner.tres=3", "'parabel' has no option 'tres'; did you mean 'trees'?"),
        ("parabel.tres=3", "'parabel' has no option 'tres'; did you mean 'trees'?"),
        ("lerner.trees=3", "this run has no 'lerner'; did you mean 'learner'?"),
        ("bonsai.trees=3", "this run has no 'bonsai'"),
        ("learner.trees.deep=3", "'trees' is a single value"),
        ("augment.0.p=3", "'0' is not one of the parts there (none)"),
        ("learner.trees=many", "parabel.trees must be a whole number"),
        ("learner.trees=1.5", "parabel.trees must be a whole number"),
        ("learner.trees=0", "parabel.trees must be at least 1"),
    ],
)
def test_settings_that_do_not_fit(setting: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Recipe.find("parabel").override(settings=[setting])
    assert message in str(caught.value)


def test_settings_reach_defaults_of_wrappers() -> None:
    recipe = Recipe().override(learner="ensemble", settings=["learner.members.0.trees=1"])
    assert recipe.learner["members"][0]["trees"] == 1
    assert recipe.learner["members"][1]["trees"] != 1
    with pytest.raises(UsageError, match="'9' is not one of the parts there"):
        recipe.override(settings=["learner.members.9.trees=1"])


def test_settings_reach_features_that_are_left_to_the_learner() -> None:
    assert Recipe().override(settings=["features.ngrams=2"]).features == config_of(
        build({"part": "tfidf", "language": "auto", "ngrams": 2})
    )
    assert Recipe().override(settings=["tfidf.ngrams=2"]).tagger().features.ngrams == 2  # type: ignore[union-attr]
    inner = Recipe({"part": "ensemble", "members": ["decaf", {"part": "pipeline", "learner": "parabel"}]})
    assert inner.override(settings=["learner.members.1.features.ngrams=2"]).features == "auto"
    assert inner.learner["members"][1]["features"]["ngrams"] == 2
    inner.override(settings=["tfidf.ngrams=3"])
    assert inner.learner["members"][1]["features"]["ngrams"] == 3 and inner.tagger().features is None
    with pytest.raises(UsageError, match=r"--set features.ngrams=2: 'decaf' reads texts as they are: it has no use"):
        Recipe("decaf").override(settings=["features.ngrams=2"])
    with pytest.raises(UsageError, match="this run has no 'tfidf'"):
        Recipe("decaf").override(settings=["tfidf.ngrams=2"])


def test_recipes_without_features(tmp_path: Path) -> None:
    recipe = Recipe.read(write(tmp_path, 'features = "none"\n[learner]\npart = "parabel"\n'))
    assert recipe.features is None and recipe.tagger().features is None
    with pytest.raises(UsageError, match="'features' is none"):
        recipe.override(settings=["features.ngrams=2"])
    with pytest.raises(InputError, match=r"own.toml: 'decaf' reads texts as they are: it has no use for features"):
        Recipe.read(write(tmp_path, 'features = "tfidf"\nlearner = "decaf"\n'))
    inside = 'learner = { part = "pipeline", learner = "parabel", features = "none" }\n'
    assert Recipe.read(write(tmp_path, inside)).learner["features"] is None


def test_parts_that_do_not_go_together_are_refused_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"own.toml: 'tailmix' works in the space 'context', which 'parabel' does not"):
        Recipe.read(write(tmp_path, 'learner = "parabel"\naugment = ["tailmix"]\n'))


def test_a_re_ranker_is_added_to_a_recipe_that_has_none() -> None:
    recipe = Recipe.find("label-text")
    assert not recipe.rerank
    recipe.override(rerank=["inverse-propensity"], settings=["inverse-propensity.strength=0.2"])
    (reranker,) = recipe.tagger().rerank
    assert config_of(reranker) == config_of(build({"part": "inverse-propensity", "strength": 0.2}))


def test_an_override_that_is_refused_changes_nothing() -> None:
    recipe = Recipe.find("parabel")
    before = repr(recipe)
    with pytest.raises(UsageError, match=r"parabel.trees must be at least 1"):
        recipe.override(rerank=["ranknet"], settings=["learner.max_leaf=5", "learner.trees=0"])
    assert repr(recipe) == before


def test_parts_are_built_as_often_for_many_settings_as_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    built: Counter[str] = Counter()
    check = Part.validate

    def counted(part: Part) -> None:
        built[type(part).__name__] += 1
        check(part)

    monkeypatch.setattr(Part, "validate", counted)
    recipe = Recipe.find("label-text")
    twice = {name for name, count in built.items() if count != 1}
    assert twice == {"Ensemble", "Pipeline"} and max(built.values()) == 2, "as many as there are"
    built.clear()
    recipe.override()
    without = Counter(built)
    built.clear()
    many = ["bonsai.trees=2", "bonsai.eps=0.3", "parabel.trees=2", "decaf.epochs=3", "learner.weights=[1, 2]"]
    recipe.override(settings=many)
    assert built == without


def test_options_that_may_hold_a_part_take_one_by_name() -> None:
    settings = ["learner.tail=parabel", "learner.tail.trees=7"]
    recipe = Recipe().override(learner="decoupled", settings=settings)
    assert recipe.learner["tail"] == config_of(build({"part": "parabel", "trees": 7}))
    assert Recipe().override(learner="decoupled", settings=["learner.tail=none"]).learner["tail"] is None


ROWS = """
paper = "A paper"
[rows.small]
title = "One tree"
learner = { part = "parabel", trees = 1 }
[rows.large]
paper = "Another"
learner = { part = "parabel", trees = 9 }
"""


def test_one_of_many_recipes_in_a_file(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS)
    small, large = (Recipe.find(f"{path}#{row}") for row in ("small", "large"))
    assert (small.learner["trees"], large.learner["trees"]) == (1, 9)
    assert (small.title, small.paper, large.paper) == ("One tree", "A paper", "Another")
    assert Recipe.row_names(path) == ["small", "large"]
    odd = tmp_path / "odd#1.toml"
    odd.write_text('learner = "parabel"\n')
    assert Recipe.find(str(odd)).learner["part"] == "parabel"


@pytest.mark.parametrize(
    ("content", "row", "message"),
    [
        (ROWS, "#smal", "own.toml: has no row 'smal'; did you mean 'small'?"),
        (ROWS, "", "own.toml: holds 2 recipes: name one, as in"),
        (ROWS.replace("trees = 1", "trees = 0"), "#small", "own.toml#small: parabel.trees must be at least 1, not 0"),
        (ROWS.replace("title", "titel"), "#small", "own.toml#small: a recipe has no 'titel'"),
        ('learner = "bonsai"\n' + ROWS, "#small", "own.toml: 'learner' belongs below one of [rows.NAME]"),
        ('learner = "bonsai"\n', "#small", "own.toml: has no rows: write each under [rows.NAME]"),
        ("rows = 3\n", "#small", "own.toml: has no rows"),
        ("[rows]\n", "#small", "own.toml: has no rows"),
        ("rows.small = 3\n", "", "own.toml: has no rows"),
    ],
)
def test_rows_that_are_not_there(tmp_path: Path, content: str, row: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Recipe.find(f"{write(tmp_path, content)}{row}")
    assert message in str(caught.value)


def test_the_word_none_is_no_value() -> None:
    recipe = Recipe().override(learner="decoupled", settings=["learner.head_above=7"])
    assert recipe.learner["head_above"] == 7
    assert recipe.override(settings=["learner.head_above=none"]).learner["head_above"] is None
    ensemble = Recipe().override(learner="ensemble", settings=["learner.scale=none"])
    assert ensemble.learner["scale"] == "none", "a choice that is called none stays a word"


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("0.5", 0.5), ("true", True), ("word", "word"), ('"1"', "1"), ("[1, 2]", [1, 2]), ("1e-3", 1e-3),
     ("2020-01-01", "2020-01-01"), ("", ""), ("1\nother = 2", "1\nother = 2"), ("squared-hinge", "squared-hinge")],
)  # fmt: skip
def test_values(text: str, value: object) -> None:
    parsed = parse_value(text)
    assert parsed == value and type(parsed) is type(value)


@given(st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans())
def test_plain_values_survive(value: float) -> None:
    parsed = parse_value(str(value).lower())
    assert parsed == value and type(parsed) is type(value)


@given(st.text())
def test_any_text_is_some_value(text: str) -> None:
    parse_value(text)
