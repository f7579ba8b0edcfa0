"""Which documents are scored together: shared out evenly, and without a say in what is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.data.synthetic import synthetic
from longtail.learners.linear import search
from longtail.learners.linear.label_tree import Bonsai
from longtail.run import Run


@given(st.integers(0, 100_000), st.integers(1, 16))
def test_chunks_cover_all_documents_evenly_and_keep_all_threads_busy(n: int, threads: int) -> None:
    found = search.chunks(n, Run(threads=threads))
    assert [edge for chunk in found for edge in chunk][1:-1] == [e for c in found[1:] for e in (c[0], c[0])]
    assert sum(map(search.size_of, found)) == n
    sizes = [search.size_of(chunk) for chunk in found]
    assert max(sizes, default=0) <= search.CHUNK
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    if n >= threads * search.SMALLEST_CHUNK:
        assert len(found) % threads == 0 or len(found) > n // search.SMALLEST_CHUNK - threads


def test_two_threads_get_as_much_each() -> None:
    assert search.chunks(5188, Run(threads=2)) == [(0, 2594), (2594, 5188)]
    assert len(search.chunks(19_949, Run(threads=2))) == 2
    assert len(search.chunks(30_000, Run(threads=2))) == 4
    assert search.chunks(100, Run(threads=2)) == [(0, 100)]


def test_what_is_found_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = synthetic(documents=700, labels=300, words=500, words_per_document=8)
    learner = Bonsai(trees=2).fit(corpus, run=Run(threads=1))
    whole = learner.score(corpus, 5, run=Run(threads=1))
    monkeypatch.setattr(search, "SMALLEST_CHUNK", 7)
    parts = learner.score(corpus, 5, run=Run(threads=9))
    assert len(search.chunks(700, Run(threads=9))) == 9
    np.testing.assert_array_equal(whole.ids, parts.ids)
    np.testing.assert_array_equal(whole.values, parts.values)
