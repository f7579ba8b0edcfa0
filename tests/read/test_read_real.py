"""The benchmark corpora, read whole; the expected figures are those of their SOURCE.md files."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from longtail.read import read, read_with_report

DATA = Path(os.environ.get("LONGTAIL_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="the benchmark corpora are not here (set LONGTAIL_DATA)"),
]


@pytest.mark.parametrize(
    ("name", "train", "test", "labels", "empty"),
    [
        ("eurlex57k", 45_000, 6_000, 4_108, 0),
        ("gutenberg-lcsh-titles", 52_204, 13_052, 31_350, 0),
        ("citeulike-t", 20_756, 5_188, 46_316, 0),
        ("vuln-libraries", 6_017, 1_649, None, 3),
    ],
)
def test_published_figures(name, train, test, labels, empty):
    corpus, report = read_with_report(DATA / name)
    assert len(corpus) == train and len(read(DATA / name, split="test")) == test
    assert labels is None or corpus.n_labels == labels
    assert (report.empty_texts, report.unlabelled, report.skipped) == (empty, 0, 0)
    assert corpus.labels.texts is not None and all(corpus.labels.texts)


@pytest.mark.parametrize("name", ["vuln-libraries", "gutenberg-lcsh-titles"])
def test_parity_with_the_json_module(name):
    corpus = read(DATA / name, split="test")
    counts: Counter[str] = Counter()
    with gzip.open(DATA / name / "test.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row, line in enumerate(lines):
            record = json.loads(line)
            assert corpus.texts[row] == record["text"] and corpus.ids[row] == str(record["id"])
            assert [corpus.labels.names[c] for c in corpus.Y[row].indices] == sorted(set(record["labels"]))
            counts.update(set(record["labels"]))
    assert corpus.labels.frequency.tolist() == [counts[name] for name in sorted(counts)]


@pytest.mark.parametrize("split", ["train", "test"])
def test_both_forms_of_citeulike_agree(split):
    folder = DATA / "citeulike-t"
    words = read(folder, split=split)
    counts = read(folder / f"{split}.svm.gz", labels=folder / "labels.jsonl.gz")
    assert len(words) == len(counts) and words.Y.nnz == counts.Y.nnz
    assert counts.n_labels == 52_946 and counts.X.shape[1] == 20_000
    renamed = counts.aligned(words.labels)
    assert (renamed.Y != words.Y).nnz == 0
    assert np.array_equal(renamed.Y.indices, words.Y.indices)
    with gzip.open(folder / "vocab.txt.gz", "rt", encoding="utf-8") as lines:
        vocabulary = [line.strip() for line in lines]
    for row in range(0, len(words), 97):
        expected = Counter(words.texts[row].split(" "))
        document = counts.X[row]
        assert {vocabulary[c]: v for c, v in zip(document.indices, document.data, strict=True)} == expected


def test_short_texts_by_field():
    titles = read(DATA / "eurlex57k", split="valid", text_field="title")
    both = read(DATA / "eurlex57k", split="valid", text_field=["title", "text"])
    assert len(titles) == len(both) == 6_000
    assert all(b.startswith(t + " ") for t, b in zip(titles.texts, both.texts, strict=True) if t)
