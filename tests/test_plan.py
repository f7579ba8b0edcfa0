"""Plans: what stages add up to, what there is of memory, and how well sizes are told beforehand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.errors import UsageError, out_of_memory
from longtail.features.estimate import words_of
from longtail.features.tfidf import Tfidf
from longtail.learners import planning
from longtail.memory import free_memory, peak, resident
from longtail.plan import (
    Plan,
    Sizes,
    Stage,
    holding,
    narrowed,
    parse_size,
    peak_of,
    refusal,
    shown_size,
    side_by_side,
)
from longtail.registry import build, entries
from longtail.run import Run
from longtail.tagger import Tagger


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return synthetic(documents=3000, labels=800, words=20_000, words_per_document=40, texts=True)


# adding up
def test_what_is_kept_is_held_by_all_stages_behind() -> None:
    stages = [Stage("a", 1, 100, 40), Stage("b", 1, 30, 10), Stage("c", 1, 60, -50)]
    assert peak_of(stages) == 110  # 40 + 10 + 60
    assert Plan(_no_sizes(), tuple(stages), base=1000, at_once=1).peaks() == [1100, 1070, 1110]
    assert peak_of(stages[:2]) == 100


def test_what_goes_on_at_the_same_time_adds_up() -> None:
    both = side_by_side("both", [Stage("a", 1, 100, 40), Stage("b", 2, 80)], [Stage("c", 4, 10, 5)])
    assert (both.seconds, both.peak, both.kept) == (7, 130, 45)


def test_what_is_made_for_some_stages_is_gone_behind_them() -> None:
    stages = holding("rows", 50, [Stage("a", 1, 10, 3), Stage("b", 1, 10, 4)])
    assert peak_of(stages) == 63 and sum(stage.kept for stage in stages) == 7


def test_as_many_tasks_at_once_as_fit() -> None:
    def make(run: Run) -> list[Stage]:
        return [Stage("train", 1, 100 * run.tasks)]

    def chosen(memory: int | None) -> Plan:
        return narrowed(make, _no_sizes(), 50, Run(threads=8, memory=memory))

    assert chosen(None).at_once == 8
    assert (chosen(460).at_once, chosen(460).peak) == (4, 450)
    assert (chosen(150).at_once, chosen(150).fits) == (1, True)
    assert (chosen(149).at_once, chosen(149).fits) == (1, False)


def _no_sizes() -> Sizes:
    return Sizes(documents=0, labels=0, pairs=0)


# sizes
@pytest.mark.parametrize(
    ("text", "size"),
    [("500MB", 500_000_000), ("4GB", 4 * 10**9), ("1.5GiB", 3 << 29), ("4 gb", 4 * 10**9), ("2g", 2 * 10**9),
     ("100", 100), ("64KiB", 65536), ("10B", 10)],
)  # fmt: skip
def test_sizes_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "4 parsecs", "-1GB", "0", "1e9", "4GBB", "nan"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="500MB"):
        parse_size(text)


def test_sizes_for_a_person() -> None:
    assert [shown_size(size) for size in (730e6, 5.14e9, 999.9e6)] == ["730 MB", "5.1 GB", "1.0 GB"]


def test_words_of_all_texts_are_told_from_a_sample() -> None:
    corpus = synthetic(documents=3000, labels=800, words=300_000, words_per_document=40, texts=True)
    assert corpus.texts is not None
    sizes = Sizes.of(corpus)
    part = Sizes(
        documents=sizes.documents,
        labels=sizes.labels,
        pairs=sizes.pairs,
        characters=sizes.characters,
        sample=tuple(corpus.texts[::10]),
    )
    made = Tfidf(max_df=1.0)
    X = made.fit_transform(list(corpus.texts))
    found = words_of(part)
    assert 0.8 < found.terms / X.shape[1] < 1.25
    assert 0.9 < found.entries / X.nnz < 1.1
    twice = int((np.bincount(X.indices) >= 2).sum())
    assert 0.75 < found.in_at_least(2) / twice < 1.33


# what there is
def test_control_groups_of_either_version(tmp_path: Path) -> None:
    held = resident()
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable: {64 << 20} kB\n")
    assert abs(int(free_memory(tmp_path) or 0) - (64 << 30) - held) < 64 << 20
    (tmp_path / "proc/self/cgroup").write_text("4:cpu,memory:/job/inner\n0::/user\n")
    first = tmp_path / "sys/fs/cgroup/memory/job"
    (first / "inner").mkdir(parents=True)
    (first / "inner/memory.limit_in_bytes").write_text(str(1 << 62))
    (first / "inner/memory.usage_in_bytes").write_text("1000")
    (first / "memory.limit_in_bytes").write_text(str(8 << 30))
    (first / "memory.usage_in_bytes").write_text(str(3 << 30))
    (first / "memory.stat").write_text(f"cache 5\ntotal_inactive_file {1 << 30}\n")
    assert abs(int(free_memory(tmp_path) or 0) - (6 << 30) - held) < 64 << 20
    second = tmp_path / "sys/fs/cgroup/user"
    second.mkdir()
    (second / "memory.max").write_text("max\n")
    (second / "memory.current").write_text("77\n")
    assert abs(int(free_memory(tmp_path) or 0) - (6 << 30) - held) < 64 << 20
    (second / "memory.max").write_text(f"{2 << 30}\n")
    (second / "memory.current").write_text(f"{1 << 30}\n")
    assert abs(int(free_memory(tmp_path) or 0) - (1 << 30) - held) < 64 << 20


def test_this_process_knows_what_it_holds() -> None:
    before = resident()
    block = np.ones(8_000_000)
    assert resident() - before > 30_000_000
    assert peak() >= resident() - 1_000_000
    assert len(block)


@pytest.mark.parametrize(
    "said",
    [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
     RuntimeError("can't start new thread"), ImportError("libtorch.so: failed to map segment from shared object"),
     OSError(12, "Cannot allocate memory")],
)  # fmt: skip
def test_libraries_that_run_out_of_memory(said: Exception) -> None:
    outer = ValueError("something else")
    outer.__cause__ = said
    assert out_of_memory(said) and out_of_memory(outer)
    assert not out_of_memory(ValueError("no such label"))


# fits
@pytest.fixture(scope="module")
def larger() -> Corpus:
    """Large enough that what is planned shows beside the libraries."""
    return synthetic(documents=30_000, labels=20_000, words=400_000, words_per_document=60, texts=True)


def test_a_fit_that_does_not_fit_is_refused_before_any_work(larger: Corpus) -> None:
    run = Run(memory=resident() + (4 << 20))
    tagger = Tagger("bonsai")
    with pytest.raises(UsageError, match=r"needs about .* are allowed: give --memory .*GB, or --set [\w-]+\.\w+="):
        tagger.fit(larger, run=run)
    assert not run.seconds and not hasattr(tagger, "labels_")


def test_advice_does_not_depend_on_what_the_process_comes_to_hold(
    larger: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter(range(100))
    monkeypatch.setattr(planning, "resident", lambda: 800_000_000 + (next(looks) << 28))
    with pytest.raises(UsageError, match=r"give --memory .*GB, or --set [\w-]+\.\w+="):
        Tagger("bonsai").fit(larger, run=Run(memory=810_000_000))


def test_less_memory_means_fewer_tasks_at_once(larger: Corpus) -> None:
    tagger = Tagger("bonsai", threads=8)
    wide, one = tagger.plan(larger), tagger.plan(larger, run=Run(threads=1))
    assert one.peak < wide.peak
    narrow = tagger.plan(larger, run=Run(threads=8, memory=(one.peak + wide.peak) // 2))
    assert narrow.fits and narrow.at_once < 8


def test_tasks_at_once_change_no_byte_of_a_model(corpus: Corpus, tmp_path: Path) -> None:
    for name, at_once in (("wide", 0), ("narrow", 1)):
        run = Run(threads=4, at_once=at_once, memory=1 << 40)
        Tagger({"part": "bonsai", "trees": 2}, augment=["taug"]).fit(corpus, run=run).save(tmp_path / name)
    for file in (tmp_path / "wide").iterdir():
        assert file.read_bytes() == (tmp_path / "narrow" / file.name).read_bytes(), file.name


def test_a_plan_names_its_stages(corpus: Corpus) -> None:
    plan = Tagger("parabel", augment=["gandalf"], rerank=["ranknet"]).plan(corpus)
    names = [stage.name for stage in plan.stages]
    wanted = ["read", "label graph", "augment", "features", "cluster", "train", "re-rank folds", "re-rank", "save"]
    assert [name for name in names if name in wanted] == wanted
    assert plan.to_dict()["peak_bytes"] == plan.peak == max(plan.peaks())
    both = Tagger({"part": "ensemble", "members": ["parabel", "bonsai"]}).plan(corpus)
    assert {"1 parabel: train", "2 bonsai: train"} <= {stage.name for stage in both.stages}


@pytest.mark.parametrize("kind", ["learner", "wrapper", "features", "augmenter", "re-ranker"])
def test_every_part_has_a_plan_that_grows_with_the_corpus(kind: str, corpus: Corpus) -> None:
    sizes = replace(Sizes.of(corpus), features=20_000, nonzeros=100_000)
    more = Sizes.of(corpus)
    more = replace(
        more,
        documents=10 * more.documents,
        pairs=10 * more.pairs,
        frequency=10 * more.frequency,
        characters=10 * more.characters,
        texts_bytes=10 * more.texts_bytes,
        features=60_000,
        nonzeros=1_000_000,
    )
    for entry in entries(kind):
        try:
            part = build(entry.name)
        except UsageError:  # an extra that is not installed
            continue
        small, large = (part.plan(each, Run(threads=2)) for each in (sizes, more))
        assert bool(small) == (kind in ("learner", "wrapper", "features")) or kind in ("augmenter", "re-ranker")
        assert [stage.name for stage in small] == [stage.name for stage in large]
        assert all(stage.seconds >= 0 and stage.peak >= 0 for stage in small), entry.name
        assert peak_of(large) >= peak_of(small) >= sum(stage.kept for stage in small) >= 0, entry.name
        after = part.planned(sizes)
        assert after.documents >= sizes.documents and after.labels == sizes.labels


def test_a_large_process_is_told_what_needs_less_as_well() -> None:
    """What the process holds beside the fit does not hide what an option saves."""
    sizes = Sizes.of(synthetic(documents=50, labels=10, words=100, texts=True))
    large, less = (Plan(sizes, (Stage("train", 1.0, peak),), 2 * 10**9, 1, 10**9) for peak in (60 * 10**6, 30 * 10**6))
    assert "--set tfidf.min_df=2" in str(refusal(large, [("tfidf.min_df=2", less)]))
    assert "--set" not in str(refusal(large, [("tfidf.min_df=2", large)]))


@pytest.mark.parametrize("learner", ["parabel", "bonsai"])
def test_separators_that_are_kept_in_files_need_no_memory(learner: str, tmp_path: Path) -> None:
    sizes = Sizes(
        documents=1_000_000, labels=1_000_000, pairs=3_000_000, features=50_000, nonzeros=7_700_000,
        frequency=np.full(1_000_000, 3),
    )  # fmt: skip
    part = build(learner, "learner")
    held, kept = (peak_of(part.plan(sizes, Run(checkpoints=folder))) for folder in (None, tmp_path))
    assert kept < 0.75 * held


def test_libraries_count_where_they_are_imported() -> None:
    """DECAF's own loop needs no torch; what acts inside its fit, or follows it, does."""
    pytest.importorskip("torch")
    alone = planning._libraries(Tagger("decaf").pipeline)
    for augment in ("labelmix", "retune"):
        assert planning._libraries(Tagger("decaf", augment=[augment]).pipeline) > alone + (300 << 20)
    assert planning._libraries(Tagger("decaf", augment=["gandalf"]).pipeline) == alone
    assert planning._libraries(Tagger({"part": "decaf", "valid_share": 0.1}).pipeline) > alone + (300 << 20)
