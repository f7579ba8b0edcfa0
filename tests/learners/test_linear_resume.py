"""A fit of trees that was killed does not train finished pieces again, and ends with the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail.data.synthetic import synthetic
from longtail.learners.base import Learner
from longtail.learners.linear import fastxml
from longtail.learners.linear.fastxml import FastXML, PfastreXML
from longtail.learners.linear.label_tree import Bonsai, Parabel
from longtail.learners.linear.nodes import Separators
from longtail.learners.linear.one_vs_all import OneVsAll
from longtail.learners.linear.resume import Pieces
from longtail.run import Run, Watch

CORPUS = synthetic(documents=300, labels=40, words=300, words_per_document=12, seed=3).counted()


class KilledError(Exception):
    pass


class Bar(Watch):
    """A progress that adds up what its bar was moved by, and by how much of that in an earlier run."""

    def __init__(self) -> None:
        self.total = self.done = self.before = 0.0
        self.skipping = False

    def bar(self, title: str, total: float | None) -> Any:
        if title == "Training":
            assert total is not None and not self.total, "one bar for all pieces"
            self.total = total
            return self
        return Run().bar(title, total)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def advance(self, amount: float = 1) -> None:
        self.done += amount
        self.before += amount * self.skipping

    @contextmanager
    def earlier(self) -> Iterator[None]:
        self.skipping = True
        yield
        self.skipping = False


@dataclass
class Pieced:
    """Counts the pieces that are made, and kills the run when one too many begins."""

    most: int = 1000
    trained: int = 0


@pytest.fixture
def pieced(monkeypatch: pytest.MonkeyPatch) -> Pieced:
    counted, made = Pieced(), Pieces.made

    def watched(self: Pieces, name: Any, make: Any, *others: Any) -> Any:
        def one() -> Any:
            if counted.trained == counted.most:
                raise KilledError
            counted.trained += 1
            return make()

        return made(self, name, one, *others)

    monkeypatch.setattr(Pieces, "made", watched)
    return counted


def bytes_of(learner: Learner) -> bytes:
    return b"".join(np.ascontiguousarray(array).tobytes() for array in learner.state().values())


@pytest.fixture(autouse=True)
def _everything_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longtail.fit.KEPT_FROM", 0.0)
    monkeypatch.setattr(fastxml, "GROUP", 2)
    monkeypatch.setattr("longtail.learners.linear.tasks.COST_PER_BATCH", 15_000)


CASES = {
    "parabel": (lambda: Parabel(trees=3, max_leaf=8), 3),
    "bonsai": (lambda: Bonsai(trees=3, branches=5, max_leaf=8), 3),
    "one-vs-all": (OneVsAll, 1),
    "fastxml": (lambda: FastXML(trees=5), 3),  # groups of two
    "pfastrexml": (lambda: PfastreXML(trees=5), 3),
}  # and the pieces that each has at least


@pytest.mark.parametrize("case", CASES)
def test_finished_trees_are_not_trained_again(case: str, tmp_path: Path, pieced: Pieced) -> None:
    make, least = CASES[case]
    whole = make().fit(CORPUS, run=Run(seed=5, threads=2))
    pieced.trained = 0
    make().fit(CORPUS, run=Run(seed=5, threads=2, checkpoints=tmp_path / "count"))
    pieces = pieced.trained
    assert pieces >= least

    def fit(most: int = 1000, seed: int = 5) -> tuple[Learner, Bar]:
        pieced.most, pieced.trained, bar = most, 0, Bar()
        run = Run(seed=seed, threads=2, progress=bar, checkpoints=tmp_path / "killed", watch=bar)
        return make().fit(CORPUS, run=run), bar

    for done in range(pieces):  # killed again and again, one piece further each time
        if done < pieces - 1:
            with pytest.raises(KilledError):
                fit(most=1)
        else:
            again, bar = fit(most=1)
            assert bytes_of(again) == bytes_of(whole)
            assert bar.done == pytest.approx(bar.total)
            assert (0 < bar.before < bar.total) == (pieces > 1), "pieces of earlier runs are told apart"
        assert pieced.trained == 1
    again, bar = fit()
    assert bytes_of(again) == bytes_of(whole) and pieced.trained == 0
    assert bar.before == pytest.approx(bar.total), "nothing is left to do"
    other, bar = fit(seed=6)
    assert bytes_of(other) != bytes_of(whole) and pieced.trained > 0, "another seed, other trees"
    assert bar.before == 0 and bar.done == pytest.approx(bar.total)


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, pieced: Pieced) -> None:
    run = Run(seed=5, threads=2, checkpoints=tmp_path)
    whole = Parabel(trees=2, max_leaf=8).fit(CORPUS, run=run)
    kept = sorted(tmp_path.rglob("*.finished"))
    assert len(kept) >= 2
    kept[0].write_bytes(kept[0].read_bytes()[:-100])
    pieced.trained = 0
    again = Parabel(trees=2, max_leaf=8).fit(CORPUS, run=run)
    assert bytes_of(again) == bytes_of(whole) and pieced.trained == 1


def test_quick_trees_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longtail.fit.KEPT_FROM", 1000.0)
    Parabel(trees=2, max_leaf=8).fit(CORPUS, run=Run(checkpoints=tmp_path))
    assert not list(tmp_path.rglob("*.finished"))


def test_what_is_kept_is_mapped_and_not_held(tmp_path: Path) -> None:
    """Finished blocks take no memory once they are in a file; the trees are the same."""
    from longtail.fit import Fit
    from longtail.learners.linear.nodes import Piece
    from longtail.learners.linear.resume import Pieces, packed, unpacked

    made: list[Piece] = []
    plain = Parabel(trees=1).fit(CORPUS, run=Run())
    real = Pieces.made

    def watched(self: Pieces, *given: Any) -> Any:
        made.extend(found := real(self, *given))
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Pieces, "made", watched)
        spilt = Parabel(trees=1).fit(CORPUS, run=Run(checkpoints=tmp_path / "run"))
    assert made and all(not piece.separators.weight.flags.writeable for piece in made)
    assert bytes_of(spilt) == bytes_of(plain)
    # a file that cannot be written or read leaves what was made
    pieces = Pieces(Fit(Run(checkpoints=tmp_path / "other")), Parabel(), CORPUS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Fit, "recall", lambda *_: None)
        assert pieces.made(["batch"], lambda: made[:1], packed, unpacked, lambda: None) == made[:1]


def test_large_pieces_are_kept_however_quickly_they_were_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On many cores a batch takes no time, and its memory is needed all the same."""
    monkeypatch.setattr("longtail.fit.KEPT_FROM", 1000.0)
    monkeypatch.setattr("longtail.learners.linear.resume.LARGE", 1000)
    Parabel(trees=2, max_leaf=8).fit(CORPUS, run=Run(checkpoints=tmp_path))
    assert list(tmp_path.rglob("*.finished"))


def test_batches_end_where_their_separators_take_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longtail.learners.linear.tasks.COST_PER_BATCH", 1e12)
    whole = Parabel(trees=3, max_leaf=8).fit(CORPUS, run=Run(threads=1, checkpoints=tmp_path / "one"))
    assert len(list((tmp_path / "one").rglob("*.finished"))) == 1
    monkeypatch.setattr("longtail.learners.linear.tasks.BYTES_PER_BATCH", 1000)
    small = Parabel(trees=3, max_leaf=8).fit(CORPUS, run=Run(threads=1, checkpoints=tmp_path / "many"))
    assert len(list((tmp_path / "many").rglob("*.finished"))) > 3
    assert bytes_of(small) == bytes_of(whole)


def test_kept_pieces_are_laid_out_without_a_look_at_their_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a map brings whatever the system has cached around it into the process."""
    whole = Parabel(trees=2, max_leaf=8).fit(CORPUS, run=Run())
    read: list[bool] = []
    real = Pieces.read

    def watched(self: Pieces, separators: Separators) -> Separators:
        found = real(self, separators)
        read.append(found is not separators and found.weight.flags.owndata and found.weight.flags.writeable)
        return found

    monkeypatch.setattr(Pieces, "read", watched)
    for name in ("new", "new", "other"):  # the second has it all from the first
        read.clear()
        again = Parabel(trees=2, max_leaf=8).fit(CORPUS, run=Run(checkpoints=tmp_path / name))
        assert len(read) == sum(len(tree.leaf) for tree in again.trees_) and all(read)
        assert bytes_of(again) == bytes_of(whole)
    read.clear()
    monkeypatch.setattr("longtail.learners.linear.resume.read_past_map", lambda *_: None)
    again = Parabel(trees=2, max_leaf=8).fit(CORPUS, run=Run(checkpoints=tmp_path / "new"))
    assert not any(read) and bytes_of(again) == bytes_of(whole), "where a system cannot, they are mapped"
