"""What the runners measure: taggers follow from the names of rows, and every runner starts."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import common
import glas
import label_strength
import label_text
import lsfa
import neural_tail
import peers_rows
import quality
import render_tradeoff
import tail
import tailmix
import tradeoff
import xda
from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.recipe import Recipe
from longtail.registry import config_of
from longtail.scores import Scores

BENCHMARKS = Path(tail.__file__).parent


@pytest.mark.parametrize("setting", neural_tail.SETTINGS)
def test_shorter_texts_change_nothing_else_of_the_encoder(setting: str) -> None:
    row: dict[str, Any] = {"learner": "attentionxml", "setting": setting, "seed": 0}
    long, short = (
        config_of(neural_tail.tagger_of({**row, "corpus": corpus}).learner)
        for corpus in ("vuln-libraries", "eurlex57k-4k")
    )
    assert short["encoder"]["max_length"] == neural_tail.SHORTER["eurlex57k-4k"] != long["encoder"]["max_length"]
    short["encoder"]["max_length"] = long["encoder"]["max_length"]
    assert short == long


@pytest.mark.parametrize("row", neural_tail.rows(), ids=lambda row: row["row"])
def test_neural_rows_have_taggers(row: dict[str, Any]) -> None:
    if row["setting"] != neural_tail.ENSEMBLE:
        assert config_of(neural_tail.tagger_of(row).learner)["part"] == row["learner"]


@pytest.mark.parametrize("row", lsfa.rows(), ids=lambda row: row["row"])
def test_lsfa_rows_have_taggers(row: dict[str, Any]) -> None:
    tagger = lsfa.tagger_of(row)
    assert config_of(tagger.learner)["part"] == row["learner"] and tagger.threads == 1
    assert bool(tagger.augment) == (row["setting"] not in ("plain", "pooled"))
    shorter = neural_tail.SHORTER.get(lsfa.source_of(row["corpus"]))
    linear = row["learner"] == lsfa.LINEAR
    assert linear or shorter is None or tagger.learner.encoder.max_length == shorter


def test_searched_settings_differ_and_are_not_measured_on_test_documents() -> None:
    searched = [row for row in lsfa.rows() if row["setting"] in set(lsfa.SEARCHED) - set(lsfa.SETTINGS)]
    assert searched and all(row["corpus"].endswith(lsfa.HELD_OUT) for row in searched)
    held_out = [row for row in lsfa.rows() if row["corpus"].endswith(lsfa.HELD_OUT) and row["seed"] == 0]
    assert len({repr(lsfa.tagger_of(row)) for row in held_out}) == len(held_out) == 2 + len(lsfa.SEARCHED)


def test_a_row_of_lsfa_takes_the_first_stage_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from longtail import Tagger
    from longtail import fit as fits
    from longtail.data.synthetic import synthetic

    def small(name: str, data: Path) -> tuple[Corpus, Corpus]:
        made = synthetic(documents=160, labels=20, words=200, words_per_document=8, texts=True, seed=0)
        return made.rows(range(120)).counted(), made.rows(range(120, 160))  # type: ignore[arg-type]

    def quick(row: dict[str, Any]) -> Tagger:
        learner = {"part": "attentionxml", "encoder": {"part": "bag", "size": 8}, "epochs": 2, "retune_epochs": 1}
        augment = [] if row["setting"] == "plain" else [{"part": "lsfa", "generator": "copies", "contrastive": None}]
        return Tagger(learner, augment=augment, threads=1)

    monkeypatch.setattr(lsfa, "corpora", small)
    monkeypatch.setattr(lsfa, "tagger_of", quick)
    monkeypatch.setattr(lsfa, "WORK", tmp_path)
    monkeypatch.setattr(fits, "KEPT_FROM", 0.0)
    row = {"row": "x", "corpus": "small", "learner": "attentionxml", "setting": "plain", "seed": 0}
    plain = lsfa.measure(row, Path())
    assert plain["seconds"]["train"] > 0
    other = lsfa.measure({**row, "setting": "copies"}, Path())
    assert "train" not in other["seconds"] and other["seconds"]["retune"] > 0, "the first stage is taken as it was"
    assert set(other["figures"]) == set(plain["figures"]) and "seconds" in other


@pytest.mark.parametrize("row", label_text.rows(), ids=lambda row: row["row"])
def test_label_text_rows_have_taggers(row: dict[str, Any]) -> None:
    tagger = label_text.tagger_of(row, 1000)
    assert (tagger.seed, tagger.threads) == (row["seed"], 1)
    assert bool(tagger.augment) == (row["setting"] not in ("plain", "published", "published-before"))


@pytest.mark.parametrize("learner", label_text.PUBLISHED)
def test_published_pipelines_have_parts_that_they_had_not_before(learner: str) -> None:
    now, before = (label_text.published(learner, more).learner for more in ("", "-before"))
    assert now != before and now["part"] == before["part"]


def test_strengths_are_searched_on_titles_held_out() -> None:
    rng = np.random.default_rng(0)
    starts = ["the life of a man", "on the origin of species", "a history of the world", "poems"]
    texts = [f"{starts[n % 4]} {n}" for n in range(40)] + [f"title {n}" for n in range(60)]
    Y = sp.csr_matrix(rng.random((100, 5)) < 0.5, dtype=np.float32)
    train, asked = label_strength.divided(Corpus(labels=LabelIndex(list("abcde")), Y=Y, texts=texts), 1)
    assert len(train) + len(asked) == 100 and 15 <= len(asked) <= 40 and train.labels.documents == len(train)
    first = {" ".join(text.split()[:5]) for text in train.texts or []}
    assert not first & {" ".join(text.split()[:5]) for text in asked.texts or []}
    for row in label_strength.rows():
        assert row["setting"] in label_strength.AUGMENT and row["learner"] in label_strength.KINDS.values()


def test_recall_of_labels_that_nobody_learnt() -> None:
    """Label 2 has no training document: of its two documents one has it among the two best."""
    labels = LabelIndex(list("abc")).with_counts(np.array([3, 1, 0]), 4)
    Y = sp.csr_matrix(np.array([[1, 0, 1], [0, 0, 1]], dtype=np.float32))
    scores = Scores(np.array([[0, 2], [0, 1]], np.int32), np.array([[2, 1], [2, 1]], np.float32))
    assert label_strength.unseen_recall(scores, Corpus(labels=labels, Y=Y, texts=["x", "y"]), 2) == 50


def test_one_tree_is_a_setting_of_the_recipes() -> None:
    for name, (recipe, *options) in quality.RECIPES.items():
        trees = Recipe.find(recipe).override(settings=options[1:]).learner["trees"]
        assert trees == (1 if name.endswith("-1") else 3)


def test_sources_behind_the_times_are_there() -> None:
    package = BENCHMARKS.parent / "src" / "longtail"
    assert all((package / source).exists() for source in peers_rows.TIMED_SOURCES)


@pytest.mark.parametrize("setting", ["plain", "taug-gate0.5"])
def test_a_row_of_the_tail_methods(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from longtail.data.synthetic import synthetic

    def small(name: str, data: Path) -> tuple[Corpus, Corpus]:
        made = synthetic(documents=260, labels=20, words=300, words_per_document=12, seed=0)
        return made.rows(range(200)).counted(), made.rows(range(200, 260))  # type: ignore[arg-type]

    monkeypatch.setattr(tail, "corpora", small)
    row = {"row": "x", "corpus": "small", "learner": "bonsai-1", "setting": setting, "seed": 0}
    measured = tail.measure(row, Path())
    assert set(measured["curves"]["inverse-propensity"]) == {"0.0", "0.25", "0.5", "0.75", "1.0"}
    assert measured["curves"]["inverse-propensity"]["0.0"]["P@5"] == measured["figures"]["P@5"], (
        "strength 0 is as it was"
    )


def test_rows_of_the_trade_off_say_what_the_re_rankers_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from longtail.data.synthetic import synthetic

    def small(name: str, data: Path) -> tuple[Corpus, Corpus]:
        made = synthetic(documents=460, labels=40, words=300, words_per_document=12, signal=0.15, seed=0)
        train = made.rows(np.arange(300)).counted()
        return train, made.rows(np.arange(300, 460)).aligned(train.labels)

    monkeypatch.setattr(tradeoff, "corpora", small)
    monkeypatch.setattr(tradeoff, "WORK", tmp_path)
    made = [row for row in tradeoff.rows() if row["corpus"] == "eurlex57k" and row["learner"] == "parabel"]
    assert {row["setting"] for row in made} == {*tradeoff.SETTINGS, "calibration"}
    rows = [tradeoff.measure(row, tmp_path) for row in made if row["seed"] == 0]
    assert len(list((tmp_path / "shortlists").iterdir())) == 1, "scored once, whatever is put behind"
    for row in rows:
        if "ranknet" in row["setting"]:
            said = row["acted"]["ranknet"]
            assert said["blocks kept"] == (said["norm"] > 0)
    bands = next(row["bands"] for row in rows if row["setting"] == "calibration")
    assert list(bands) == ["1", "2", "3-5", "6-20", "21+"]
    results = {"command": "x", "machine": {"cpu": "c", "cores": 2, "python": "3"}, "rows": rows}
    section = render_tradeoff.tradeoff_section(results)
    assert "| ranknet |" in section and "blocks kept" in section
    assert "| eurlex57k, parabel | 3-5 |" in render_tradeoff.calibration_section(results)
    assert render_tradeoff.tradeoff_picture(results)[:4] == b"\x89PNG"
    held_out = {**results, "rows": [{**row, "corpus": "eurlex57k-held-out"} for row in rows]}
    assert "Of 4 settings the blocks of " in render_tradeoff.ranknet_search_section(held_out)
    assert "**eurlex57k, parabel**" not in render_tradeoff.tradeoff_section(held_out)


def test_no_two_settings_of_ranknets_search_are_the_same() -> None:
    made = [repr(parts) for parts in tradeoff.SEARCHED.values()]
    assert len(set(made)) == len(made) > 90
    assert [tradeoff.CHOSEN] in tradeoff.SEARCHED.values()
    assert ["calibrated-propensity", tradeoff.CHOSEN] in tradeoff.SEARCHED.values()


def test_how_far_a_point_lies_beyond_a_curve() -> None:
    def row(precision: float, worth: float, seed: int = 0) -> dict[str, Any]:
        return {"seed": seed, "figures": {"P@1": precision, "PSP@1": worth}}

    # from (60, 10) over (58, 20) to (50, 22): at P@1 59 a line has 15, at 54 it has 21; a point within does not count
    curve = {"a": [row(60, 10), row(60, 0, seed=1)], "b": [row(58, 20)], "c": [row(50, 22)], "d": [row(52, 12)]}
    for precision, worth, beyond in ((59, 16, 1), (54, 20, -1), (58, 20, 0), (61, 11, 1), (49, 23, 1)):
        assert render_tradeoff.beyond_curve([row(precision, worth)], curve, "PSP@1")[0] == pytest.approx(beyond)
    # each seed by the curve of its own
    mean, spread = render_tradeoff.beyond_curve([row(60, 11), row(60, 3, seed=1)], curve, "PSP@1")
    assert (mean, spread) == pytest.approx((2, 2**0.5))


def test_held_out_documents_of_a_corpus() -> None:
    texts = [f"document {row % 50}" for row in range(100)]  # each twice
    Y = sp.csr_matrix(np.eye(7, dtype=np.float32)[np.arange(100) % 50 % 7])
    train = Corpus(Y=Y, labels=LabelIndex([f"label {label}" for label in range(7)]), texts=texts).counted()
    rest, held = common.carved(train)
    assert 15 <= len(held) <= 16 and len(rest) + len(held) == 100
    assert not set(rest.texts or ()) & set(held.texts or ())
    assert (rest.labels.frequency > 0).all() and held.labels.names == rest.labels.names
    assert common.source_of("eurlex57k-held-out") == common.source_of("eurlex57k") == "eurlex57k"


@pytest.mark.parametrize(
    "script", [path.name for path in sorted(BENCHMARKS.glob("*.py")) if "__main__" in path.read_text()]
)
def test_runners_start(script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In this process: what one of them imports, the next one need not import again."""
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    monkeypatch.setattr(os, "environ", {**os.environ})
    with pytest.raises(SystemExit) as done:
        runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
    assert not done.value.code and "usage:" in capsys.readouterr().out


def test_tables_of_lsfa() -> None:
    import render_lsfa

    bands = {band: {"recall@5": 50.0} for band in ("tail", "middle", "head")}
    names = [f"{metric}@{k}" for metric in ("P", "PSP", "PSnDCG") for k in (1, 3, 5)]
    made = {"figures": {**dict.fromkeys(names, 12.345), "bands": bands}, "train_s": 9.0}
    checks = dict.fromkeys(render_lsfa.CHECKS, 0.987)
    rows = [{**row, **made, "checks": checks if row["setting"] == "lsfa" else {}} for row in lsfa.rows()]
    machine = {"cores": 2, "cpu": "a CPU", "memory_gb": 4.0, "system": "Linux", "python": "3.11"}
    results = {"command": "python benchmarks/papers.py lsfa", "machine": machine, "rows": rows}
    shown = render_lsfa.lsfa_section(results)
    assert "| LSFA (A) | 3 | 12.35/12.35/12.35 |" in shown.replace("12.34", "12.35") and "0.99" in shown
    assert lsfa.HELD_OUT not in shown
    search = render_lsfa.lsfa_search_section(results)
    assert all(f"| {setting} | 3 |" in search for setting in lsfa.SEARCHED)


def test_labels_are_made_rare_by_setting_documents_aside() -> None:
    pytest.importorskip("torch")
    import lsfa_reason

    rng = np.random.default_rng(0)
    Y = np.zeros((600, 40), dtype=np.float32)
    Y[np.arange(600), np.arange(600) % 30] = 1  # twenty documents each, and ten labels with many more
    Y[:, 30:] = rng.random((600, 10)) < 0.3
    names = LabelIndex([f"label {label}" for label in range(40)])
    train = Corpus(Y=sp.csr_matrix(Y), labels=names, texts=[f"text {row}" for row in range(600)]).counted()
    rest, aside, rare = lsfa_reason.made_rare(train, 0)
    assert len(rest) + len(aside) == 600 and not set(rest.texts or ()) & set(aside.texts or ())
    assert len(rare) == 30 and rest.labels.frequency[rare].tolist() == [lsfa_reason.LEFT] * 30
    assert aside.labels.names == rest.labels.names
    assert (np.diff(aside.positives().tocsc().indptr)[rare] == 20 - lsfa_reason.LEFT).all()


def test_an_oracle_moves_prototypes_of_labels_made_rare_alone() -> None:
    pytest.importorskip("torch")
    import lsfa_reason
    from longtail.augment.label_features import LabelFeatures
    from longtail.run import Run

    own = LabelFeatures(np.array([0, 2, 4, 6]), np.array([[0], [2], [4], [6], [1], [3]], np.float16))
    unseen = LabelFeatures(np.array([0, 6, 6, 7]), np.array([[9], [9], [9], [9], [9], [9], [5]], np.float16))
    nothing: Any = None
    made = lsfa_reason.Setup(nothing, nothing, np.array([0]), np.array([1, 2]), own, unseen)
    assert made.prototypes().tolist() == [[(2 * 1 + 6 * 9) / 8], [5], [2]]
    for setting, centre in (("covariance", 1), ("covariance-oracle", 7)):
        drawn = made.source(setting, Run(threads=1)).draw(np.zeros(4000, np.int64), np.random.default_rng(0))
        assert drawn.mean() == pytest.approx(centre, abs=0.1)


def test_tables_of_lsfas_reason() -> None:
    pytest.importorskip("torch")
    import lsfa_reason
    import render_lsfa

    places = {"few": {"1": [0.9, 0.6], "2": [0.6, 0.5]}, "rare": [0.8, 0.6]}
    found = {"figures": dict.fromkeys(("P@1", "P@5", "PSP@5"), 70.0), "places": places, "labels": 78}
    rare = {"pairs": 341, "recall@1": 7.0, "recall@5": 26.0}
    rows = [
        {**row, **found, "rare": rare, "believed": {"own": 0.9, "unseen": 0.2, "drawn": 0.4}}
        for row in lsfa_reason.rows()
    ]
    machine = {"cores": 2, "cpu": "a CPU", "memory_gb": 4.0, "system": "Linux", "python": "3.11"}
    shown = render_lsfa.lsfa_reason_section({"command": "a command", "machine": machine, "rows": rows})
    assert set(render_lsfa.REASON) == set(lsfa_reason.SETTINGS)
    assert all(f"| {name} | 3 | 7.0/26.0 | 0.0 | 70.0/70.0 | 70.0 |" in shown for name in render_lsfa.REASON.values())
    assert "| 2 documents of a head label | 0.60 | 50 % |" in shown and "78 labels" in shown and "341 pairs" in shown


@pytest.mark.parametrize("row", xda.rows(), ids=lambda row: row["row"])
def test_xda_rows_have_taggers(row: dict[str, Any]) -> None:
    tagger = xda.tagger_of(row)
    named = "ensemble" if row["learner"] in xda.RECIPES else row["learner"].partition("-frozen")[0]
    assert config_of(tagger.learner)["part"] == named and tagger.threads == 1
    # recipes are trained on a corpus with the copies in it
    assert bool(tagger.augment) == (row["setting"] != "plain" and row["learner"] not in xda.RECIPES)
    searched = row["setting"] in xda.SEARCHED and row["setting"] not in xda.FINALISTS
    assert not searched or row["corpus"].endswith(xda.HELD_OUT), "what is searched never sees test documents"


@pytest.mark.parametrize(("runner", "part"), [(tailmix, "tailmix"), (glas, "glas")])
def test_rows_of_tailmix_and_glas_have_taggers(runner: Any, part: str) -> None:
    for row in runner.rows():
        tagger = runner.tagger_of(row)
        assert tagger.threads == 1 and [config_of(each)["part"] for each in tagger.augment] == (
            [] if row["setting"] == "plain" else [part]
        )


def test_the_search_of_tailmix_covers_its_forms() -> None:
    assert len(tailmix.GRID) == 2 * 3 * 3 * 2 and {tailmix.AS_PRINTED} <= set(tailmix.GRID) <= set(tailmix.SEARCHED)
    row = {"corpus": "vuln-libraries-held-out", "learner": "bag", "seed": 0}
    taggers = {repr(tailmix.tagger_of({**row, "setting": name})) for name in tailmix.SEARCHED}
    assert len(taggers) == len(tailmix.SEARCHED), "no two settings are the same"
    (hook,) = tailmix.tagger_of({**row, "setting": "max additive 0.2 M3"}).augment
    assert (hook.partners, hook.most, hook.alpha, hook.rarest, hook.folded) == (3, 1, 0.2, None, False)


def test_finalists_are_the_best_on_held_out_documents() -> None:
    def done(worth: dict[str, float]) -> dict[str, Any]:
        return {
            f"vuln-libraries-held-out/bag/{name}/0": {"figures": {"PSP@3": value, "PSP@5": 50.0}}
            for name, value in worth.items()
        }

    some = {"max additive 0.4 M1": 3.0, "literal in-place 0.4 M1": 1.0, "max in-place 0.4 M1": 2.0}
    best = ("max additive 0.4 M1", "max in-place 0.4 M1")
    assert tailmix.finalists(done(some)) == ()
    assert tailmix.finalists(done(some), complete=False) == best
    everything = dict.fromkeys(tailmix.SEARCHED, 0.0) | some
    assert tailmix.finalists(done(everything)) == best
    assert glas.best("vuln-libraries", {}) == ()


def test_a_row_of_tailmix_says_what_was_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from longtail.data.synthetic import synthetic

    def small(name: str, data: Path) -> tuple[Corpus, Corpus]:
        made = synthetic(documents=120, labels=20, words=200, words_per_document=8, texts=True, seed=0)
        return made.rows(range(90)).counted(), made.rows(range(90, 120))  # type: ignore[arg-type]

    learner = {"part": "attentionxml", "encoder": {"part": "bag", "size": 8}, "epochs": 1}
    for runner, setting, said in ((tailmix, "max additive 0.4 M1", "pairs"), (glas, "weight 10", "steps")):
        monkeypatch.setattr(runner, "corpora", small)
        of_runner = {tailmix: (tailmix.LEARNERS, ("vuln-libraries", "bag")), glas: (glas.NETWORKS, "vuln-libraries")}
        monkeypatch.setitem(*of_runner[runner], learner)
        row = {"row": "x", "corpus": "vuln-libraries-held-out", "learner": "bag", "setting": setting, "seed": 0}
        measured = runner.measure(row, Path())
        assert measured["statistics"][said] > 0 and "PSP@3" in measured["figures"]


def test_tables_of_tailmix() -> None:
    import render_tailmix

    def row(corpus: str, setting: str, seed: int, value: float) -> dict[str, Any]:
        names = [f"{metric}@{k}" for metric in ("P", "PSP") for k in (1, 3, 5)]
        name = f"{corpus}/bag/{setting}/{seed}"
        made = {"row": name, "corpus": corpus, "learner": "bag", "setting": setting, "seed": seed}
        return {**made, "figures": dict.fromkeys(names, value), "statistics": {"without_neighbour": 0.25}}

    held, test = "vuln-libraries-held-out", "vuln-libraries"
    rows = [row(held, "plain", 0, 50), row(held, "best", 0, 51.5)]
    rows += [row(test, "plain", seed, 40) for seed in range(3)] + [
        row(test, "best", seed, 40 + seed) for seed in (0, 2)
    ]
    machine = {"cores": 2, "cpu": "a CPU", "memory_gb": 4.0, "system": "Linux", "python": "3.11"}
    results = {"command": "python benchmarks/tailmix.py", "machine": machine, "rows": rows}
    assert "| bag: best | 51.50/51.50/51.50 | 51.50/51.50/51.50 | +1.50, +1.50, +1.50 | 25 % |" in (
        render_tailmix.tailmix_search_section(results)
    )
    missing = len(tailmix.SEARCHED)  # all but the plain row
    assert f"vuln-libraries, bag: {missing} of {missing + 1} rows" in render_tailmix.tailmix_search_section(results)
    shown = render_tailmix.tailmix_test_section(results)
    assert (
        "| bag: best | 2 | 41.00/41.00/41.00 | 41.00/41.00/41.00 | +1.00 ± 1.41," in shown and "held out" not in shown
    )
