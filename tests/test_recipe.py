"""Recipes: read, refused, overridden, turned into taggers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.errors import InputError, UsageError
from longtail.recipe import Recipe, named, parse_value
from longtail.registry import build, config_of
from longtail.tagger import Tagger


def write(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(content)
    return path


def test_named_recipes_are_whole_and_differ() -> None:
    assert {"parabel-1", "parabel", "bonsai", "one-vs-all"} <= set(named())
    taggers = {}
    for name in named():
        recipe = Recipe.find(name)
        assert recipe.title and recipe.paper
        taggers[name] = repr(recipe.tagger())
        assert isinstance(recipe.tagger(), Tagger)
    assert len(set(taggers.values())) == len(taggers)
    assert Recipe.find("parabel-1").learner["trees"] == 1
    assert Recipe.find("parabel").learner["trees"] == 3


def test_single_models_and_ensembles_are_kept_apart() -> None:
    for name in named():
        learner = Recipe.find(name).learner["part"]
        assert (learner == "ensemble") == ("ensemble" in name or name == "label-text")


TAILMIX = {"part": "tailmix"}
#: The rows of TailMix's tables 2, 3 and 4: recipe -> (learner, augmenter with the options that are not its defaults).
TAILMIX_ROWS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "attentionxml": ("attentionxml", None),
    "laroberta": ("laroberta", None),
    "tailmix-attentionxml": ("attentionxml", TAILMIX),
    "tailmix-laroberta": ("laroberta", TAILMIX),
    "wordmix-attentionxml": ("attentionxml", {"part": "wordmix"}),
    "hiddenmix-attentionxml": ("attentionxml", {"part": "hiddenmix"}),
    "ssmix-attentionxml": ("attentionxml", {"part": "ssmix"}),
    "wordmix-laroberta": ("laroberta", {"part": "wordmix"}),
    "tmix-laroberta": ("laroberta", {"part": "tmix"}),
    "ssmix-laroberta": ("laroberta", {"part": "ssmix"}),
    "tailmix-no-similarity-attentionxml": ("attentionxml", TAILMIX | {"similar": False}),
    "tailmix-no-graph-attentionxml": ("attentionxml", TAILMIX | {"graph": False}),
    "tailmix-neither-attentionxml": ("attentionxml", TAILMIX | {"similar": False, "graph": False}),
    "tailmix-printed-attentionxml": (
        "attentionxml",
        TAILMIX | {"alpha": 0.2, "rule": "literal", "folded": False, "rarest": None, "neighbours": 100_000},
    ),
}
TAILMIX_ENSEMBLES = {"tailmix-ensemble-attentionxml": "attentionxml", "tailmix-ensemble-laroberta": "laroberta"}


@pytest.mark.parametrize("name", TAILMIX_ROWS)
def test_rows_of_tailmix_differ_in_the_augmenter_only(name: str) -> None:
    learner, augmenter = TAILMIX_ROWS[name]
    recipe = Recipe.find(name)
    assert recipe.learner == Recipe.find(learner).learner and recipe.learner["part"] == learner
    assert recipe.augment == ([] if augmenter is None else [config_of(build(augmenter))])
    assert not recipe.rerank


@pytest.mark.parametrize("name", TAILMIX_ENSEMBLES)
def test_ensembles_of_tailmix_average_its_two_single_rows(name: str) -> None:
    plain, augmented = Recipe.find(name).learner["members"]
    single = Recipe.find(f"tailmix-{TAILMIX_ENSEMBLES[name]}")
    assert plain == single.learner
    assert augmented == {
        "part": "augmented",
        "learner": single.learner,
        "augment": single.augment,
        "features": None,
    }
    assert Recipe.find(name).learner["scale"] == "none", "probabilities are averaged as they are"


@pytest.mark.parametrize("name", [*TAILMIX_ROWS, *TAILMIX_ENSEMBLES, "attentionxml-published"])
def test_figures_of_other_corpora_are_not_quoted(name: str) -> None:
    note = Recipe.find(name).note
    assert "do not compare" in note and not re.search(r"\d\.\d", note)
    if name != "attentionxml-published":
        assert "EURLex-4K" in note and re.search(r"[Tt]ables? [234]|Algorithm 1", note)


def test_the_published_attentionxml_lacks_what_is_added_here() -> None:
    learner = Recipe.find("attentionxml-published").learner
    assert learner["start"] == "random" and not learner["encoder"]["skip"] and not learner["head"]["document"]
    assert learner["head"]["classifier"] == "shared"
    assert learner["rate"] == learner["word_rate"] == learner["label_rate"] == 0.001
    ours = Recipe.find("attentionxml").learner
    assert {key: learner[key] for key in ("epochs", "batch", "negatives")} == {
        key: ours[key] for key in ("epochs", "batch", "negatives")
    }, "both take as long"


def test_every_recipe_of_a_neural_learner_is_a_row_or_the_published_network() -> None:
    neural = {name for name in named() if "attentionxml" in name or "laroberta" in name}
    assert neural == {*TAILMIX_ROWS, *TAILMIX_ENSEMBLES, "attentionxml-published"}


SHORT_TEXT = ("astec", "decaf", "eclare", "inceptionxml", "inceptionxml-lf")
#: The rows of Gandalf's tables 2 and 3: recipe -> (learner, augmenter with the options that are not its defaults).
GANDALF_ROWS: dict[str, tuple[str, dict[str, Any] | None]] = {
    **{learner: (learner, None) for learner in SHORT_TEXT},
    **{f"{learner}-{part}": (learner, {"part": part}) for learner in SHORT_TEXT for part in ("labelmix", "gandalf")},
    **{
        f"inceptionxml-{part}-no-soft": ("inceptionxml", {"part": part, "soft": False})
        for part in ("labelmix", "gandalf")
    },
}
#: Pipelines as published: recipe -> (learner, options that make it so).
PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {
    "astec-published": ("astec", {"modules": True}),
    "inceptionxml-plus": ("inceptionxml", {"shortlist": "clusters", "detached": 0.22}),
    "decaf-published": ("decaf", {"shortlist": "clusters", "surrogate": 3, "blocks": False}),
    "eclare-published": ("eclare", {"shortlist": "clusters", "surrogate": 3, "blocks": False, "traverse": 0.5}),
    "inceptionxml-lf-published": ("inceptionxml-lf", {"shortlist": "clusters", "first_phase": 0.5}),
}


@pytest.mark.parametrize("name", GANDALF_ROWS)
def test_rows_of_gandalf_differ_in_the_augmenter_only(name: str) -> None:
    learner, augmenter = GANDALF_ROWS[name]
    recipe = Recipe.find(name)
    assert recipe.learner == config_of(build(learner))
    assert recipe.augment == ([] if augmenter is None else [config_of(build(augmenter))])
    assert not recipe.rerank
    table, sets = ("3", 2) if name.endswith("no-soft") else ("2", 3)
    assert f"Table {table}, row" in recipe.note and recipe.note.count("LF-") == sets
    assert "a single model" in recipe.note


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_pipelines_differ_from_the_learners_defaults(name: str) -> None:
    part, options = PUBLISHED[name]
    learner, ours = Recipe.find(name).learner, config_of(build(part))
    changed = {key for key in ours if learner[key] != ours[key]}
    assert set(options) <= changed <= {*options, "encoder", "head"}, "both take as many epochs"
    assert {key: learner[key] for key in options} == options
    if "inception" in part:
        assert learner["encoder"]["enhance"] and not learner["encoder"]["skip"]
    if part in ("decaf", "eclare", "inceptionxml-lf"):
        assert learner["head"]["residual"] and learner["head"]["free"] and learner["head"]["start"] != "zero"
        assert learner["head"]["join"] == ("gates" if part == "decaf" else "attention")


@pytest.mark.parametrize("name", [*GANDALF_ROWS, *PUBLISHED])
def test_figures_of_the_lf_corpora_are_not_quoted(name: str) -> None:
    note = Recipe.find(name).note
    assert "LF-AmazonTitles-131K" in note and "do not compare" in note and not re.search(r"\d\.\d", note)


def test_every_recipe_of_a_short_text_learner_is_a_row_or_a_published_pipeline() -> None:
    found = {name for name in named() if Recipe.find(name).learner["part"] in SHORT_TEXT}
    assert found == {*GANDALF_ROWS, *PUBLISHED}
    trees = Recipe.find("parabel-gandalf")
    assert trees.learner == Recipe.find("parabel").learner and [part["part"] for part in trees.augment] == ["gandalf"]


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
    recipe = Recipe.find("parabel-1").override(learner="bonsai", settings=["learner.trees=2", "tfidf.min_df=1"])
    assert recipe.learner["part"] == "bonsai" and recipe.learner["trees"] == 2
    assert recipe.features["min_df"] == 1
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
