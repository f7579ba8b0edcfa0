"""A fit of trees that was killed does not train finished pieces again, and ends with the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail.data.synthetic import synthetic
from longtail.learners.base import Learner
from longtail.learners.linear import fastxml
from longtail.learners.linear.fastxml import FastXML, PfastreXML
from longtail.learners.linear.label_tree import Bonsai, Parabel
from longtail.learners.linear.one_vs_all import OneVsAll
from longtail.run import Run

CORPUS = synthetic(documents=300, labels=40, words=300, words_per_document=12, seed=3).counted()


class KilledError(Exception):
    pass


class Bars:
    """A progress that counts the bars of training, and kills the run when one too many begins."""

    def __init__(self, most: int = 1000) -> None:
        self.most, self.trained = most, 0

    def bar(self, title: str, total: float | None) -> Any:
        if title == "Training":
            if self.trained == self.most:
                raise KilledError
            self.trained += 1
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def advance(self, amount: float = 1) -> None:
        return None


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
def test_finished_trees_are_not_trained_again(case: str, tmp_path: Path) -> None:
    make, least = CASES[case]
    whole = make().fit(CORPUS, run=Run(seed=5, threads=2))
    count = Bars()
    make().fit(CORPUS, run=Run(seed=5, threads=2, progress=count, checkpoints=tmp_path / "count"))
    pieces = count.trained
    assert pieces >= least

    def fit(progress: Bars, seed: int = 5) -> Learner:
        return make().fit(CORPUS, run=Run(seed=seed, threads=2, progress=progress, checkpoints=tmp_path / "killed"))

    for done in range(pieces):  # killed again and again, one piece further each time
        bars = Bars(most=1)
        if done < pieces - 1:
            with pytest.raises(KilledError):
                fit(bars)
        else:
            assert bytes_of(fit(bars)) == bytes_of(whole)
        assert bars.trained == 1
    bars = Bars()
    assert bytes_of(fit(bars)) == bytes_of(whole) and bars.trained == 0
    other = Bars()
    assert bytes_of(fit(other, seed=6)) != bytes_of(whole) and other.trained > 0, "another seed, other trees"


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    run = Run(seed=5, threads=2, checkpoints=tmp_path)
    whole = Parabel(trees=2, max_leaf=8).fit(CORPUS, run=run)
    kept = sorted(tmp_path.rglob("*.finished"))
    assert len(kept) >= 2
    kept[0].write_bytes(kept[0].read_bytes()[:-100])
    bars = Bars()
    again = Parabel(trees=2, max_leaf=8).fit(CORPUS, run=Run(seed=5, threads=2, checkpoints=tmp_path, progress=bars))
    assert bytes_of(again) == bytes_of(whole) and bars.trained == 1


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
        assert pieces.made(["batch"], lambda: made[:1], packed, unpacked) == made[:1]
