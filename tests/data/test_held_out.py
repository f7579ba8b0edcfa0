"""Documents set aside to test on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from longtail import Corpus, LabelIndex, read
from longtail.data.held_out import hold_out, write_parts
from longtail.errors import UsageError


def corpus(texts: list[str], *, soft: bool = False) -> Corpus:
    Y = sp.csr_matrix(np.eye(3, dtype=np.float32)[np.arange(len(texts)) % 3] * (0.5 if soft else 1.0))
    labels = LabelIndex(["a", "b", "c"], texts=["first", "", "third"])
    return Corpus(labels=labels, Y=Y, texts=texts, ids=[f"d{row}" for row in range(len(texts))])


def test_parts_are_disjoint_in_order_and_of_the_share_asked_for() -> None:
    whole = corpus([f"text {row}" for row in range(100)])
    train, test = hold_out(whole, 0.2, np.random.default_rng(0))
    assert (len(train), len(test)) == (80, 20)
    assert sorted([*train.ids, *test.ids]) == sorted(whole.ids)
    for part in (train, test):
        numbers = [int(each[1:]) for each in part.ids]
        assert numbers == sorted(numbers)


def test_documents_of_one_text_stay_together() -> None:
    whole = corpus([f"Text  number {row % 10}" if row % 2 else f"text number {row % 10} " for row in range(100)])
    train, test = hold_out(whole, 0.3, np.random.default_rng(1))
    plain = [{text.casefold().split()[-1] for text in part.texts} for part in (train, test)]
    assert plain[0].isdisjoint(plain[1]) and all(plain)


def test_seeds_draw_other_documents_and_one_seed_the_same() -> None:
    whole = corpus([f"text {row}" for row in range(50)])
    drawn = [hold_out(whole, 0.2, np.random.default_rng(seed))[1].ids for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(("texts", "share"), [(["only one"], 0.5), (["same", "Same "], 0.5), ([], 0.1)])
def test_a_part_without_documents_is_refused(texts: list[str], share: float) -> None:
    with pytest.raises(UsageError, match="leaves one part empty"):
        hold_out(corpus(texts), share, np.random.default_rng(0))


def test_features_are_refused() -> None:
    whole = Corpus(labels=LabelIndex(["a"]), Y=sp.csr_matrix(np.ones((4, 1))), X=sp.csr_matrix(np.ones((4, 2))))
    with pytest.raises(UsageError, match="features"):
        hold_out(whole, 0.5, np.random.default_rng(0))


@pytest.mark.parametrize("soft", [False, True])
def test_what_is_written_is_read_back(tmp_path: Path, soft: bool) -> None:
    whole = corpus([f'Zeile\n{row}, "ü" \u2028' for row in range(30)], soft=soft)
    train, test = hold_out(whole, 0.2, np.random.default_rng(0))
    write_parts(tmp_path / "parts", train, test)
    for split, part in (("train", train), ("test", test)):
        again = read(tmp_path / "parts", split=split)
        assert list(again.texts) == list(part.texts) and list(again.ids) == list(part.ids)
        assert [again.labels.names[column] for column in again.Y.indices] == [
            part.labels.names[column] for column in part.Y.indices
        ]
        assert np.array_equal(again.Y.data, part.Y.data)
        assert again.labels.texts[0] == "first"


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    train, test = hold_out(corpus([f"text {row}" for row in range(30)]), 0.2, np.random.default_rng(0))
    write_parts(tmp_path / "parts", train, test)
    with pytest.raises(UsageError, match="exists"):
        write_parts(tmp_path / "parts", train, test)
    write_parts(tmp_path / "parts", train, test, overwrite=True)
    (tmp_path / "parts" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"it holds notes\.txt"):
        write_parts(tmp_path / "parts", train, test, overwrite=True)
    assert (tmp_path / "parts" / "notes.txt").read_text() == "mine"
