"""Rows of papers' tables: the configurations are those of the papers, and notes quote no figures of other corpora."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import papers
import xda
from longtail.errors import InputError, UsageError
from longtail.recipe import Recipe
from longtail.registry import build, config_of

ROWS = papers.rows()


def test_rows_are_whole_and_differ() -> None:
    taggers = {name: repr(row.tagger()) for name, row in ROWS.items()}
    assert all(row.title and row.paper and row.note for row in ROWS.values())
    assert len(set(taggers.values())) == len(taggers)


def test_single_models_and_ensembles_are_kept_apart() -> None:
    for name, row in ROWS.items():
        assert (row.learner["part"] == "ensemble") == ("ensemble" in name)


def test_an_unknown_row_gets_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"no paper has the row 'decaf-publish'; did you mean 'decaf-published'\?"):
        papers.find("decaf-publish")
    file = papers.FILES[0].parent / "tailmix.toml"
    assert Recipe.find(f"{file}#tailmix-attentionxml") == papers.find("tailmix-attentionxml")
    with pytest.raises(InputError, match=r"has no row 'tailmix-attentionxm'; did you mean 'tailmix-attentionxml'\?"):
        Recipe.find(f"{file}#tailmix-attentionxm")


#: The rows of RankNet's and Taug's tables 2 to 6: row -> (learner, augmenters, re-rankers).
BONSAI = {"part": "bonsai", "trees": 3}
APART = {"part": "decoupled", "tau": 0.1, "gate": 0.0, "learner": BONSAI}
NOISE = [{"part": "input-dropout", "n_aug": 4, "tau": 0.1}, {"part": "input-swap", "n_aug": 4, "tau": 0.1}]
TREES: dict[str, Any] = {"bonsai": BONSAI, "parabel": {"part": "parabel", "trees": 3}, "fastxml": {"part": "fastxml"}}
RANKNET_TAUG_ROWS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "fastxml": (TREES["fastxml"], [], []),
    "pfastrexml": ({"part": "pfastrexml"}, [], []),
    **{
        f"{reranker}-{name}": (tree, [], [{"part": reranker}])
        for name, tree in TREES.items()
        for reranker in ("inverse-propensity", "ranknet")
    },
    "ranknet-printed-bonsai": (BONSAI, [], [{"part": "ranknet", "start": "scores"}]),
    "decoupled-bonsai": (APART, [], []),
    "taug-d-bonsai": (APART, NOISE[:1], []),
    "taug-s-bonsai": (APART, NOISE[1:], []),
    "taug-bonsai": (APART, NOISE, []),
    "ranknet-taug-bonsai": (APART | {"gate": 0.5}, NOISE, [{"part": "ranknet"}]),
}


@pytest.mark.parametrize("name", RANKNET_TAUG_ROWS)
def test_rows_of_ranknet_and_taug(name: str) -> None:
    learner, augment, rerank = RANKNET_TAUG_ROWS[name]
    row = ROWS[name]
    assert row.learner == config_of(build(learner))
    assert row.augment == [config_of(build(part)) for part in augment]
    assert row.rerank == [config_of(build(part)) for part in rerank]


TAILMIX = {"part": "tailmix"}
PRINTED = {"alpha": 0.2, "rule": "literal", "folded": False, "rarest": None, "neighbours": 100_000}
#: The rows of TailMix's tables 2, 3 and 4: recipe -> (learner, augmenter with the options that are not its defaults).
TAILMIX_ROWS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "attentionxml": ("attentionxml", None),
    "laroberta": ("laroberta", None),
    "tailmix-attentionxml": ("attentionxml", TAILMIX),
    "tailmix-laroberta": ("laroberta", TAILMIX),
    "wordmix-attentionxml": ("attentionxml", {"part": "wordmix"}),
    "hiddenmix-attentionxml": ("attentionxml", {"part": "hiddenmix"}),
    "ssmix-attentionxml": ("attentionxml", {"part": "ssmix"}),
    "tmix-laroberta": ("laroberta", {"part": "tmix"}),
    "tailmix-no-similarity-attentionxml": ("attentionxml", TAILMIX | {"similar": False}),
    "tailmix-no-graph-attentionxml": ("attentionxml", TAILMIX | {"graph": False}),
    "tailmix-neither-attentionxml": ("attentionxml", TAILMIX | {"similar": False, "graph": False}),
    **{
        f"tailmix-{name}-attentionxml": ("attentionxml", TAILMIX | PRINTED | {"form": form})
        for name, form in (("printed", "in-place"), ("equation-4", "equation-4"), ("additive", "additive"))
    },
}
TAILMIX_ENSEMBLES = {"tailmix-ensemble-attentionxml": "attentionxml", "tailmix-ensemble-laroberta": "laroberta"}


@pytest.mark.parametrize("name", TAILMIX_ROWS)
def test_rows_of_tailmix_differ_in_the_augmenter_only(name: str) -> None:
    learner, augmenter = TAILMIX_ROWS[name]
    recipe = ROWS[name]
    assert recipe.learner == Recipe.find(learner).learner and recipe.learner["part"] == learner
    assert recipe.augment == ([] if augmenter is None else [config_of(build(augmenter))])
    assert not recipe.rerank


@pytest.mark.parametrize("name", TAILMIX_ENSEMBLES)
def test_ensembles_of_tailmix_average_its_two_single_rows(name: str) -> None:
    plain, augmented = ROWS[name].learner["members"]
    single = ROWS[f"tailmix-{TAILMIX_ENSEMBLES[name]}"]
    assert plain == single.learner
    assert augmented == {
        "part": "pipeline",
        "learner": single.learner,
        "augment": single.augment,
        "features": "auto",
        "rerank": [],
    }
    assert ROWS[name].learner["scale"] == "none", "probabilities are averaged as they are"


@pytest.mark.parametrize("name", [*TAILMIX_ROWS, *TAILMIX_ENSEMBLES, "attentionxml-published"])
def test_figures_of_other_corpora_are_not_quoted(name: str) -> None:
    note = ROWS[name].note
    assert "do not compare" in note and not re.search(r"\d\.\d", note)
    if name != "attentionxml-published":
        assert "EURLex-4K" in note and re.search(r"[Tt]ables? [234]|Algorithm 1", note)


def test_the_published_attentionxml_lacks_what_is_added_here() -> None:
    learner = ROWS["attentionxml-published"].learner
    assert learner["start"] == "random" and not learner["encoder"]["skip"] and not learner["head"]["document"]
    assert learner["head"]["classifier"] == "shared"
    assert (learner["head"]["hidden"], learner["head"]["second"]) == (512, 256)
    assert learner["rate"] == learner["word_rate"] == learner["label_rate"] == 0.001
    ours = Recipe.find("attentionxml").learner
    assert {key: learner[key] for key in ("epochs", "batch", "shortlist")} == {
        key: ours[key] for key in ("epochs", "batch", "shortlist")
    }, "both take as long"


def test_every_recipe_of_a_neural_learner_is_a_row_or_the_published_network() -> None:
    neural = {name for name in ROWS if "attentionxml" in name or "laroberta" in name}
    assert neural == {*TAILMIX_ROWS, *TAILMIX_ENSEMBLES, "attentionxml-published"}


def test_glas_differs_from_its_plain_row_in_the_regulariser_only() -> None:
    held, plain = ROWS["glas"], ROWS["glas-plain"]
    assert held.learner == plain.learner and not plain.augment and held.augment == [config_of(build("glas"))]


LSFA = {"part": "lsfa"}
#: The rows of LSFA's tables, its ablation and its controls: recipe -> what differs from lsfa's defaults.
LSFA_ROWS: dict[str, dict[str, Any] | None] = {
    "lsfa": {},
    "lsfa-no-contrastive": {"contrastive": None},
    "lsfa-pooled": None,
    "lsfa-retuned": {"generator": "none"},
    **{f"lsfa-{generator}": {"generator": generator} for generator in ("copies", "noise", "covariance")},
}


@pytest.mark.parametrize("name", LSFA_ROWS)
def test_rows_of_lsfa_differ_in_one_thing(name: str) -> None:
    options, recipe = LSFA_ROWS[name], ROWS[name]
    assert recipe.augment == ([] if options is None else [config_of(build(LSFA | options))])
    plain = Recipe.find("attentionxml").learner
    pooled = {**plain, "head": config_of(build("pooled"))}
    assert recipe.learner == (pooled if options is None else plain) and not recipe.rerank


@pytest.mark.parametrize("name", [*LSFA_ROWS, "lsfa-printed", "lsfa-code"])
def test_rows_of_lsfa_quote_no_figures_of_other_corpora(name: str) -> None:
    assert "do not compare" in ROWS[name].note and not re.search(r"\d\.\d", ROWS[name].note)


SHORT_TEXT = ("astec", "decaf", "eclare", "inceptionxml", "inceptionxml-lf")
LABELMIX_PRINTED = {"part": "labelmix", "strength": 1.0, "scaled": True}
GANDALF_PRINTED = {"part": "gandalf", "strength": 1.0, "scaled": True, "all_labels": True}
#: The rows of Gandalf's tables 2 and 3: recipe -> (learner, augmenter with the options that are not its defaults).
GANDALF_ROWS: dict[str, tuple[str, dict[str, Any] | None]] = {
    **{learner: (learner, None) for learner in SHORT_TEXT},
    **{f"{learner}-{part}": (learner, {"part": part}) for learner in SHORT_TEXT for part in ("labelmix", "gandalf")},
    **{
        f"inceptionxml-{part}-no-soft": ("inceptionxml", {"part": part, "soft": False})
        for part in ("labelmix", "gandalf")
    },
    **{f"{learner}-gandalf-printed": (learner, GANDALF_PRINTED) for learner in SHORT_TEXT},
    **{f"{learner}-labelmix-printed": (learner, LABELMIX_PRINTED) for learner in SHORT_TEXT},
}
CLUSTERS = config_of(build("label-clusters"))
TEXT_CLUSTERS = CLUSTERS | {"texts": True, "surrogate": 3, "blocks": False, "anew": True}
#: Pipelines as published: recipe -> (learner, options that make it so).
PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {
    "astec-published": ("astec-modules", {"documents": 100, "centroids": 300}),
    "inceptionxml-published": ("inceptionxml", {"start": "random"}),
    "inceptionxml-plus": ("inceptionxml", {"shortlist": CLUSTERS | {"detached": 0.22}}),
    "decaf-published": ("decaf", {"shortlist": TEXT_CLUSTERS}),
    "decaf-lite": ("decaf", {"shortlist": TEXT_CLUSTERS | {"frozen": True}}),
    "eclare-published": ("eclare", {"shortlist": TEXT_CLUSTERS | {"frozen": True}, "traverse": 0.5}),
    "inceptionxml-lf-published": ("inceptionxml-lf", {"shortlist": CLUSTERS, "first_phase": 0.5}),
}
#: Published pipelines with the augmenters as printed: recipe -> (the pipeline's recipe, augmenter).
PUBLISHED_WITH: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"{name}-{part['part']}": (name, part)
        for name in PUBLISHED
        for part in (LABELMIX_PRINTED, GANDALF_PRINTED)
        if name != "decaf-lite"
    },
    "inceptionxml-published-labelmix-no-soft": ("inceptionxml-published", {"part": "labelmix", "soft": False}),
    "inceptionxml-published-gandalf-no-soft": (
        "inceptionxml-published",
        {"part": "gandalf", "soft": False, "all_labels": True},
    ),
}


@pytest.mark.parametrize("name", GANDALF_ROWS)
def test_rows_of_gandalf_differ_in_the_augmenter_only(name: str) -> None:
    learner, augmenter = GANDALF_ROWS[name]
    recipe = ROWS[name]
    assert recipe.learner == config_of(build(learner))
    assert recipe.augment == ([] if augmenter is None else [config_of(build(augmenter))])
    assert not recipe.rerank
    table, sets = ("3", 2) if name.endswith("no-soft") else ("2", 3)
    assert f"Table {table}, row" in recipe.note and recipe.note.count("LF-") == sets
    assert "a single model" in recipe.note


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_pipelines_differ_from_the_learners_defaults(name: str) -> None:
    part, options = PUBLISHED[name]
    learner, ours = ROWS[name].learner, config_of(build(part))
    changed = {key for key in ours if learner[key] != ours[key]}
    assert set(options) <= changed <= {*options, "encoder", "head"}, "both take as many epochs"
    assert {key: learner[key] for key in options} == options
    if "inception" in part:
        assert learner["encoder"]["enhance"] and not learner["encoder"]["skip"]
        assert learner["encoder"]["partner"] == "embeddings"
        assert learner["encoder"]["decoupled"] == (part == "inceptionxml-lf")
    if part in ("decaf", "eclare", "inceptionxml-lf"):
        assert learner["head"]["residual"] and learner["head"]["free"] and learner["head"]["start"] != "zero"
        assert learner["head"]["join"] == ("gates" if part == "decaf" else "attention")


@pytest.mark.parametrize("name", PUBLISHED_WITH)
def test_published_pipelines_with_the_printed_augmenters(name: str) -> None:
    pipeline, augmenter = PUBLISHED_WITH[name]
    assert ROWS[name].learner == ROWS[pipeline].learner and not ROWS[name].rerank
    assert ROWS[name].augment == [config_of(build(augmenter))]
    assert f"Table {'3' if 'no-soft' in name else '2'}, row" in ROWS[name].note


@pytest.mark.parametrize("name", [*GANDALF_ROWS, *PUBLISHED, *PUBLISHED_WITH])
def test_figures_of_the_lf_corpora_are_not_quoted(name: str) -> None:
    note = ROWS[name].note
    assert "LF-AmazonTitles-131K" in note and "do not compare" in note and not re.search(r"\d\.\d", note)


def test_every_recipe_of_a_short_text_learner_is_a_row_or_a_published_pipeline() -> None:
    found = {name for name in ROWS if ROWS[name].learner["part"] in (*SHORT_TEXT, "astec-modules")}
    assert found == {*GANDALF_ROWS, *PUBLISHED, *PUBLISHED_WITH, "glas", "glas-plain"}
    trees = ROWS["parabel-gandalf"]
    assert trees.learner == Recipe.find("parabel").learner and [part["part"] for part in trees.augment] == ["gandalf"]


XDA = {"part": "xda"}
DUPLICATES = {"part": "retune", "rows": "duplicates", "copies": 2}
#: The rows of XDA's tables, its ablations and its controls: recipe -> the augmenter.
XDA_ROWS: dict[str, dict[str, Any]] = {
    "xda": XDA,
    "xda-local": XDA | {"generator": "local"},
    "xda-no-prompt": XDA | {"generator": {"part": "local", "prompt": False}},
    "xda-no-filter": XDA | {"filter": False, "copies": 2},
    "xda-no-mask": XDA | {"mask": False},
    "xda-no-labels": XDA | {"generator": {"part": "words", "labels": False}},
    "xda-class-weights": XDA | {"mask": False, "class_weights": True},
    "xda-retuned": {"part": "retune", "rows": "none"},
    "xda-duplicates": DUPLICATES,
    "xda-duplicates-masked": DUPLICATES | {"mask": True},
}


@pytest.mark.parametrize("name", XDA_ROWS)
def test_rows_of_xda_differ_in_the_augmenter_only(name: str) -> None:
    recipe = ROWS[name]
    assert recipe.learner == ROWS["xda"].learner and recipe.augment == [config_of(build(XDA_ROWS[name]))]
    assert papers.find(name).override(learner="one-vs-all").learner["part"] == "one-vs-all", (
        "any learner may take its place"
    )


def test_controls_of_xda_copy_as_much_as_it_keeps() -> None:
    (part,) = ROWS["xda"].augment
    assert round(part["copies"] * part["keep"]) == 2 == ROWS["xda-no-filter"].augment[0]["copies"]
    assert part["rarest"] == config_of(build(DUPLICATES))["rarest"]


@pytest.mark.parametrize("name", [*XDA_ROWS, "xda-printed"])
def test_rows_of_xda_quote_no_figures_of_other_corpora(name: str) -> None:
    assert "do not compare" in ROWS[name].note and not re.search(r"\d\.\d", ROWS[name].note)


def test_published_figures_are_kept_apart_from_rows_and_stand_on_the_page() -> None:
    found = xda.published()
    assert list(found) == ["x-transformer", "xlnet-aplc", "depl-c", "lightxml", "xda"]
    page = (Path(__file__).resolve().parents[2] / "docs" / "methods" / "xda.md").read_text(encoding="utf-8")
    for method in found.values():
        title, *figures = method.values()
        row = " | ".join([title, *("/".join(f"{figure:.2f}" for figure in own) for own in figures)])
        assert row in page
