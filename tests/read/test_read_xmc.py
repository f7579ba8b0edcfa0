"""The XMC repository's text format."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from longtail.errors import InputError
from longtail.keep import streams
from longtail.read import read, read_texts, read_with_report
from longtail.read.xmc import header_of, parse_line


def dense(matrix):
    return matrix.toarray().tolist()


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def file(tmp_path):
    return tmp_path / "data.svm"


def test_hand_worked(file):
    write(file, "5 4 3", "0,2 0:1 3:2.5", " 1:-0.5", "1", "", "2:7")
    corpus, report = read_with_report(file)
    assert dense(corpus.Y) == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert dense(corpus.X) == [[1, 0, 0, 2.5], [0, -0.5, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 7, 0]]
    assert corpus.labels.names == ["0", "1", "2"] and corpus.ids == ["0", "1", "2", "3", "4"]
    assert corpus.labels.frequency.tolist() == [1, 1, 1] and corpus.texts is None
    assert corpus.X.dtype == np.float32 and corpus.X.has_canonical_format
    assert (report.format, report.unlabelled, report.empty_texts) == ("xmc", 3, 2)


def test_order_duplicates_zeros_and_spaces(file):
    write(file, "2 5 5", "4,1,4  3:1 0:2\t3:0.5 4:0  ", "2,0 1:1\r")
    corpus, report = read_with_report(file)
    assert dense(corpus.Y) == [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]]
    assert dense(corpus.X) == [[2, 0, 0, 1.5, 0], [0, 1, 0, 0, 0]]
    assert corpus.X.nnz == 3 and report.duplicate_labels == 1


def test_lines_of_a_labels_file_name_the_columns(file, tmp_path):
    write(file, "1 1 2", "1 0:1")
    labels = write(tmp_path / "labels.jsonl", '{"label": "zero", "text": "z"}', '{"label": "a"}')
    corpus = read(file, labels=labels)
    assert corpus.labels.names == ["zero", "a"] and corpus.labels.texts == ["z", ""]
    assert dense(corpus.Y) == [[0, 1]]
    assert read(file, labels=write(tmp_path / "names.txt", "zero", "one", "")).labels.names == ["zero", "one"]
    with pytest.raises(InputError, match=r"1 labels, but the header of .* says 2"):
        read(file, labels=write(tmp_path / "short.txt", "zero"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 5:1", "feature 5 is out of range: the header says D = 5, ids count from 0"),
        ("3 1:1", "label 3 is out of range: the header says L = 3, ids count from 0"),
        ("0 -1:1", "'-1' is not a feature id"),
        ("-1 1:1", "'-1' is not a label id"),
        ("0 1:nan", "feature 1 has the value 'nan', which is not a finite number"),
        ("0 1:-inf", "'-inf', which is not a finite number"),
        ("0 1:1e39", "too large for single precision"),
        ("0 1:1e999", "too large for single precision"),
        ("0 1:", "the value ''"),
        ("0 1:.", "the value '.'"),
        ("0 1:1e", "the value '1e'"),
        ("0 1:1_0", "the value '1_0'"),
        ("0 1:1x", "the value '1x'"),
        ("0 1", "'1' is not feature:value"),
        ("0, 1:1", "'' is not a label id"),
        ("0,1,x 1:1", "'x' is not a label id"),
        ("0 99999999999999999999:1", "is out of range"),
        ("0 1:1 \xff", "'ÿ' is not feature:value"),
        ("0 ١:1", "is not a feature id"),
    ],
)
def test_bad_lines(file, line, message):
    try:
        content = line.encode("latin-1")
    except UnicodeEncodeError:
        content = line.encode()
    file.write_bytes(b"3 5 3\n0 1:1\n" + content + b"\n2 4:1\n")
    with pytest.raises(InputError) as caught:
        read(file)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{file}:3: ")
    corpus, report = read_with_report(file, skip_bad=True)
    assert dense(corpus.Y) == [[1, 0, 0], [0, 0, 1]] and corpus.ids == ["0", "2"]
    assert report.skipped == 1 and report.documents == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("3 5 3\n0 1:1\n", ":1: the header says 3 documents, the file has 1"),
        ("1 5 3\n0 1:1\n\n1 2:1\n", ":4: the header says 1 documents, here is one more"),
        ("0 5 3\n", ": no documents in the file"),
        ("1 5 3\n 1:1\n", ": no document has a label"),
        ("1 5\n0 1:1\n", ":1: the first line must be the header"),
        ("0 1:1\n", ":1: the first line must be the header"),
        ("1 5 999999999999\n0 1:1\n", ":1: the header's numbers are implausibly large"),
        ("1 99999999999 5\n0 1:1\n", ":1: the header's numbers are implausibly large"),
        ("1 5 3\n0 1:3e38 1:3e38\n", ":2: the values of a feature given twice add up to infinity"),
    ],
)
def test_bad_files(file, content, message):
    file.write_text(content)
    with pytest.raises(InputError) as caught:
        read(file)
    assert str(caught.value).startswith(f"{file}{message}")


def test_blank_lines_behind_the_last_document(file):
    file.write_text("2 2 2\n0 1:1\n1 0:1\n\n \n\n")
    assert len(read(file)) == 2
    file.write_text("2 2 2\n0 1:1\n1 0:1")
    assert len(read(file)) == 2


def test_found_by_its_header_whatever_the_name(tmp_path):
    for name in ("train.txt", "train", "train.dat"):
        path = write(tmp_path / name, "1 2 2", "0 1:1")
        assert read_with_report(path)[1].format == "xmc"
    assert read_texts(path).X is not None


def test_header_of():
    assert header_of(b"3 4 5\r") == (3, 4, 5)
    assert header_of(b"3 4") == (3, 4)
    assert header_of(b"3") is None and header_of(b"3 4 5 6") is None and header_of(b"3 4 -5") is None


def decimal(sign, whole, fraction, power):
    return f"{sign}{whole}.{fraction}" + (f"e{power}" if power else "")


numbers = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(-(2.0**100), 2.0**100, width=32).map(repr),
    st.floats(-1e30, 1e30).map(repr),
    st.builds(
        decimal, st.sampled_from(["", "+", "-"]), st.integers(0, 10**22), st.integers(0, 10**22), st.integers(-60, 20)
    ),
)
rows = st.tuples(st.lists(st.integers(0, 9), max_size=5), st.lists(st.tuples(st.integers(0, 6), numbers), max_size=5))
gaps = st.sampled_from([" ", "  ", "\t", " \t "])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(rows, min_size=1, max_size=5), gaps, st.integers(4, 50))
@example([([], [(0, "1.000000059604644775390625")])], " ", 9)  # a midpoint of two floats
@example([([1], [(0, "16777217")]), ([2], [(1, "0.1e-22")])], " ", 9)
@example([([1], [(0, ".5"), (1, "5."), (2, "1E+3")])], " ", 9)
@example([([1], [(0, "1e-46"), (1, "1.2e-40"), (2, "-0")])], " ", 9)
def test_parity_with_a_slow_reader(tmp_path_factory, documents, gap, chunk):
    """Every line through `float` and dictionaries, at any cut between chunks."""
    file = tmp_path_factory.mktemp("xmc") / "data.svm"
    lines = [
        gap.join([",".join(map(str, labels)), *(f"{f}:{v}" for f, v in features)]) for labels, features in documents
    ]
    file.write_text("\n".join([f"{len(lines)} 7 10", *lines]) + "\n")
    X = np.zeros((len(lines), 7), dtype=np.float64)
    Y = np.zeros((len(lines), 10))
    too_large = False
    for row, (labels, features) in enumerate(documents):
        Y[row, labels] = 1
        for feature, value in features:
            with np.errstate(over="ignore"):
                single = np.float32(float(value))
            too_large |= not np.isfinite(single)
            X[row, feature] += single

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "CHUNK", chunk)
        patch.setattr(streams, "HEAD", 32)  # the header must be in it
        if too_large:
            with pytest.raises(InputError, match="too large"):
                read(file, need_labels=False)
            return
        corpus = read(file, need_labels=False)
    assert np.array_equal(corpus.Y.toarray(), Y)
    once = [len({f for f, _ in features}) == len(features) for _, features in documents]
    assert np.array_equal(corpus.X.toarray()[once], X[once].astype(np.float32))  # to the last bit
    np.testing.assert_allclose(corpus.X.toarray(), X, rtol=1e-5, atol=abs(X).max(initial=0) * 1e-5)


def test_usual_lines_never_reach_the_slow_path(file, monkeypatch):
    rng = np.random.default_rng(0)
    lines = [
        f"{row % 3} " + " ".join(f"{f}:{v!r}" for f, v in zip(range(9), rng.random(9).tolist(), strict=True))
        for row in range(200)
    ]
    write(file, "200 9 3", *lines)
    calls = []
    monkeypatch.setattr("longtail.read.xmc.parse_line", lambda *a: calls.append(a) or parse_line(*a))
    corpus = read(file)
    assert corpus.X.shape == (200, 9) and len(calls) <= 1
