"""Documents and labels as people have them in Python: every kind gives the same corpus, and what is none is refused."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import warnings
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from longtail import as_corpus
from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.inputs import documents_of

TITLES = ["Apple and pear", "Piano lessons", "Sailing home", "Cider songs"]
SUBJECTS = [["fruit"], ["music"], ["boats"], ["fruit", "music"]]
MIXED = [("fruit",), {"music"}, frozenset(["boats"]), SUBJECTS[3]]
NUMBERS = [11, 12, 13, 14]
COLUMNS: dict[str, Any] = {"id": NUMBERS, "title": TITLES, "subjects": SUBJECTS, "year": [1999, 2000, 2001, 2002]}
ROWS = [dict(zip(COLUMNS, values, strict=True)) for values in zip(*COLUMNS.values(), strict=True)]
Record = namedtuple("Record", list(COLUMNS))

NAMED = {"text": "title", "labels": "subjects"}


def pairs(corpus: Corpus) -> list[tuple[str, list[str]]]:
    texts = corpus.texts if corpus.texts is not None else [""] * len(corpus)
    return [
        (text, [corpus.labels.names[column] for column in row.indices])
        for text, row in zip(texts, corpus.Y, strict=True)
    ]


WANTED = list(zip(TITLES, SUBJECTS, strict=True))


def database() -> sqlite3.Connection:
    """Subjects in one cell, as databases have them."""
    base = sqlite3.connect(":memory:")
    base.execute("create table books (id integer, title text, subjects text)")
    base.executemany(
        "insert into books values (?, ?, ?)",
        [(n, t, "; ".join(s)) for n, t, s in zip(NUMBERS, TITLES, SUBJECTS, strict=True)],
    )
    return base


def cursor(factory: Any = None) -> sqlite3.Cursor:
    base = database()
    base.row_factory = factory
    return base.execute("select id, title, subjects from books order by id")


def generated() -> Iterator[dict[str, Any]]:
    yield from ROWS


# --- tables and rows

TABLES: dict[str, Any] = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas, arrays in cells": lambda: pd.DataFrame({**COLUMNS, "subjects": [np.array(each) for each in SUBJECTS]}),
    "pandas, tuples and sets": lambda: pd.DataFrame({**COLUMNS, "subjects": MIXED}),
    "pandas, another column that is nothing": lambda: pd.DataFrame({**COLUMNS, "year": [object(), 1, "x", None]}),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars, lazy": lambda: pl.DataFrame(COLUMNS).lazy(),
    "polars, another column of objects": lambda: pl.DataFrame(COLUMNS).with_columns(
        pl.Series("year", [object()] * 4, dtype=pl.Object)
    ),
    "Arrow table": lambda: pa.table(COLUMNS),
    "Arrow batch": lambda: pa.table(COLUMNS).to_batches()[0],
    "Arrow reader": lambda: pa.table(COLUMNS).to_reader(),
    "Hugging Face": lambda: datasets.Dataset.from_dict(COLUMNS),
    "Hugging Face, streamed": lambda: datasets.Dataset.from_dict(COLUMNS).to_iterable_dataset(),
    "Hugging Face, another format": lambda: datasets.Dataset.from_dict(COLUMNS).with_format("numpy"),
    "dict of columns": lambda: COLUMNS,
    "dict of arrays": lambda: {**COLUMNS, "title": np.array(TITLES)},
    "dicts": lambda: ROWS,
    "generator": generated,
    "named tuples": lambda: [Record(*row.values()) for row in ROWS],
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table(kind: str) -> None:
    corpus = as_corpus(TABLES[kind](), **NAMED)
    assert pairs(corpus) == WANTED
    assert corpus.labels.frequency.tolist() == [1, 2, 2] and corpus.labels.documents == 4
    assert list(corpus.ids or []) == ["11", "12", "13", "14"]


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_to_predict(kind: str) -> None:
    found = documents_of(TABLES[kind](), "title")
    assert found.texts == TITLES and found.ids == NUMBERS


@pytest.mark.parametrize("factory", [None, sqlite3.Row])
def test_results_of_a_query(factory: Any) -> None:
    assert pairs(as_corpus(cursor(factory), separator="; ", **NAMED)) == WANTED
    assert documents_of(cursor(factory), "title").ids == NUMBERS
    if factory is not None:
        assert pairs(as_corpus(cursor(factory).fetchall(), separator="; ", **NAMED)) == WANTED
        assert pairs(as_corpus(iter(cursor(factory)), separator="; ", **NAMED)) == WANTED


def test_a_cursor_that_gives_dicts() -> None:
    def as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
        return {entry[0]: value for entry, value in zip(cursor.description, row, strict=True)}

    assert pairs(as_corpus(cursor(as_dict), separator="; ", **NAMED)) == WANTED


def test_more_rows_than_are_read_at_once() -> None:
    many = {"text": [f"text {n}" for n in range(3000)], "labels": [[f"label {n % 7}"] for n in range(3000)]}
    wanted = as_corpus(many["text"], many["labels"])
    for given in (pd.DataFrame(many), pl.DataFrame(many), pa.table(many), datasets.Dataset.from_dict(many),
                  [{"text": t, "labels": l} for t, l in zip(*many.values(), strict=True)]):  # fmt: skip # noqa: E741
        assert as_corpus(given).fingerprint == wanted.fingerprint


def test_usual_columns_need_no_names() -> None:
    frame = pd.DataFrame(COLUMNS).rename(columns={"title": "text", "subjects": "labels"})
    assert pairs(as_corpus(frame)) == WANTED
    assert documents_of(frame, None).texts == TITLES


def test_several_columns_are_put_together() -> None:
    frame = pd.DataFrame({**COLUMNS, "more": [["x"], [], None, ["film"]], "author": ["A", None, "C", "D"]})
    corpus = as_corpus(frame, text=["author", "title"], labels=["subjects", "more"])
    assert list(corpus.texts or [])[:2] == ["A Apple and pear", "Piano lessons"]
    assert pairs(corpus)[0][1] == ["fruit", "x"] and pairs(corpus)[3][1] == ["film", "fruit", "music"]
    assert documents_of(frame, ["author", "title"]).texts == list(corpus.texts or [])


def test_rows_of_a_pandas_table_have_names_of_their_own() -> None:
    frame = pd.DataFrame(COLUMNS).drop(columns="id").set_index(pd.Index(["a", "b", "c", "d"]))
    assert documents_of(frame, "title").ids == ["a", "b", "c", "d"]


@pytest.mark.parametrize("nothing", [None, float("nan"), pd.NA, pd.NaT])
def test_missing_values(nothing: Any) -> None:
    frame = pd.DataFrame({"text": ["one", nothing, "three"], "labels": [["a"], ["b"], nothing]}, dtype=object)
    with pytest.warns(UserWarning, match="the DataFrame: 1 document without text, 1 document without labels"):
        corpus = as_corpus(frame)
    assert pairs(corpus) == [("one", ["a"]), ("", ["b"]), ("three", [])]
    assert documents_of(frame["text"], None).texts == ["one", "", "three"]


def test_class_names_of_a_dataset() -> None:
    features = datasets.Features(
        {"text": datasets.Value("string"), "labels": datasets.Sequence(datasets.ClassLabel(names=["a", "b", "c"]))}
    )
    dataset = datasets.Dataset.from_dict({"text": ["x", "y"], "labels": [[0, 2], [1]]}, features=features)
    assert pairs(as_corpus(dataset)) == [("x", ["a", "c"]), ("y", ["b"])]
    single = datasets.Features({"text": datasets.Value("string"), "labels": datasets.ClassLabel(names=["a", "b"])})
    dataset = datasets.Dataset.from_dict({"text": ["x", "y"], "labels": [0, 1]}, features=single)
    assert pairs(as_corpus(dataset)) == [("x", ["a"]), ("y", ["b"])]


# --- texts and labels


@pytest.mark.parametrize(
    "texts",
    [TITLES, tuple(TITLES), np.array(TITLES), np.array(TITLES, dtype=object), pd.Series(TITLES), pl.Series(TITLES),
     pa.array(TITLES), pa.chunked_array([TITLES]), (text for text in TITLES),
     datasets.Dataset.from_dict(COLUMNS)["title"]],
    ids=lambda texts: type(texts).__name__,
)  # fmt: skip
def test_texts_and_labels_apart(texts: Any) -> None:
    assert pairs(as_corpus(texts, SUBJECTS)) == WANTED


@pytest.mark.parametrize(
    "labels",
    [tuple(SUBJECTS), (each for each in SUBJECTS), pd.Series(SUBJECTS), pl.Series(SUBJECTS), pa.array(SUBJECTS),
     np.array(SUBJECTS, dtype=object), [set(each) for each in SUBJECTS], [np.array(each) for each in SUBJECTS],
     [dict.fromkeys(each, 1.0) for each in SUBJECTS]],
    ids=lambda labels: type(labels).__name__,
)  # fmt: skip
def test_labels_of_every_kind(labels: Any) -> None:
    assert pairs(as_corpus(TITLES, labels)) == WANTED


def test_labels_beside_a_table() -> None:
    assert pairs(as_corpus(pd.DataFrame(COLUMNS), pd.Series(SUBJECTS), text="title")) == WANTED


def test_weights_and_numbers() -> None:
    corpus = as_corpus(["x", "y"], [{"a": 0.5, "b": 1}, {"a": 1.0}])
    assert corpus.Y.toarray().tolist() == [[0.5, 1.0], [1.0, 0.0]]
    numbered = as_corpus(["x", "y"], [[3, np.int64(7)], [np.int32(3)]])
    assert list(numbered.labels.names) == ["3", "7"]
    assert list(as_corpus(["x", "y"], np.array([3, 7])).labels.names) == ["3", "7"]


def test_features_in_place_of_texts() -> None:
    X = np.arange(12, dtype=np.float64).reshape(4, 3)
    for given in (X, sp.csr_matrix(X), sp.csc_array(X)):
        corpus = as_corpus(given, SUBJECTS)
        assert corpus.texts is None and np.allclose(corpus.features.toarray(), X)
        assert [labels for _, labels in pairs(corpus)] == SUBJECTS
        assert documents_of(given, None).X.toarray().tolist() == X.tolist()  # type: ignore[union-attr]


def test_texts_of_labels() -> None:
    corpus = as_corpus(TITLES, SUBJECTS, label_texts={"fruit": "Fruit of any kind", "trees": "unknown here"})
    assert corpus.labels.text(corpus.labels.ids["fruit"]) == "Fruit of any kind"
    assert corpus.labels.text(corpus.labels.ids["music"]) == "music"
    again = as_corpus(corpus, label_texts={"music": "Music"})
    assert again.labels.texts == ["", "Fruit of any kind", "Music"]


# --- labels in one text


def test_one_name_is_one_label() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corpus = as_corpus(["x", "y", "z"], ["art", "folk music", " art "])
    assert pairs(corpus) == [("x", ["art"]), ("y", ["folk music"]), ("z", ["art"])]


def test_labels_in_one_text_are_cut_where_it_is_said() -> None:
    frame = pd.DataFrame({"text": ["x", "y", "z"], "labels": ["art; music", "art", '["art", "film"]']})
    assert [labels for _, labels in pairs(as_corpus(frame, separator=";"))] == [["art", "music"], ["art"], ["art", "film"]]  # fmt: skip # noqa: E501


@pytest.mark.parametrize("sign", [";", "|", ",", "\n", "\t"])
def test_and_refused_where_it_is_not(sign: str) -> None:
    with pytest.raises(UsageError, match=r"2 of 3 labels hold .* cuts them there; if each is one label") as caught:
        as_corpus(["x", "y", "z"], [f"art{sign}music", f"film{sign}art", "art"])
    assert f"separator={sign!r}" in str(caught.value) and "\n" not in str(caught.value)
    assert len(as_corpus(["x", "y", "z"], [[f"art{sign}music"], [f"film{sign}art"], ["art"]]).labels) == 3


def test_or_warned_of_where_some_might_be() -> None:
    with pytest.warns(
        UserWarning, match="1 of 3 labels hold ';', such as 'art; music', and each counts as one"
    ) as said:
        as_corpus(["x", "y", "z"], ["art; music", "film", "art"])
    assert said[0].filename == __file__, "the warning points at whoever called"


def test_labels_that_are_all_different_are_warned_of() -> None:
    texts, labels = [f"text {n}" for n in range(200)], [[f"label {n}"] for n in range(200)]
    with pytest.warns(UserWarning, match=r"nearly every label is unique: .* with labels=, .* with separator=") as said:
        corpus = as_corpus(texts, labels)
    assert len(said) == 1 and "--" not in str(said[0].message) and len(corpus.labels) == 200


def test_lists_that_were_turned_into_texts() -> None:
    with pytest.raises(UsageError, match=r"look like lists: turn them into lists first"):
        as_corpus(["x", "y"], ["['art', 'music']", "['art']"])


def test_a_separator_that_cuts_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="these are lists already"):
        as_corpus(TITLES, SUBJECTS, separator=";")
    with pytest.raises(UsageError, match="must not be empty"):
        as_corpus(TITLES, ["a;b"] * 4, separator="")
    with pytest.raises(UsageError, match="separator takes what stands between labels"):
        as_corpus(TITLES, ["a;b"] * 4, separator=3)  # type: ignore[arg-type]


# --- what is refused


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "not None"),
        (3, "not the value 3"),
        (b"text", "no documents but"),
        ("articles.jsonl", 'longtail.read("articles.jsonl")'),
        (Path("articles.jsonl"), 'longtail.read("articles.jsonl")'),
        ({"one", "two"}, "not a set"),
        (object(), "not an object"),
        ([], "there are no documents"),
        (["x", 3], "document 1 is the value 3, not a text"),
        ([None], "document 0 is None, not a text"),
        ([3], "document 0 is the value 3, not a text"),
        ([("x", "a")], "the rows have no column names: give the cursor itself"),
        (np.array([["x", "y"]]), "holds numbers"),
        ({"text": "x", "labels": ["a"]}, "a single document goes into a list"),
        ({"text": ["x"], "labels": [["a"], ["b"]]}, "differ in length: 1 of 'text', 2 of 'labels'"),
        ([{"text": "x", "labels": ["a"]}, {"text": "y"}], "row 1 has no column 'labels'; there are 'text'"),
        ([{"text": "x", "labels": ["a"]}, "y"], "row 1 is the text 'y'"),
        ([{"text": 3, "labels": ["a"]}], "the rows, row 0: field 'text' must be text, found the number 3"),
        ([{"text": "x", "labels": [None]}], "the rows, row 0: field 'labels' must hold text or whole numbers"),
        ([{"text": "x", "labels": [""]}], "row 0: field 'labels' has an empty label"),
        ([{"text": "x", "labels": []}], "no document has a label"),
        ([{"text": "x", "labels": {"a": 2}}], "weights must be above 0"),
        (sqlite3.connect(":memory:").cursor(), "execute a SELECT first"),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "two columns of the DataFrame are called 'text'"),
        (datasets.DatasetDict({"train": datasets.Dataset.from_dict(COLUMNS)}), r"dataset\['train'\]"),
    ],
)  # fmt: skip
def test_one_sentence_for_what_is_no_corpus(given: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("(", r"\(").replace(")", r"\)")) as caught:
        as_corpus(given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (None, "the labels are missing"),
        ("subjects", "labels='subjects' names a column, and texts have none"),
        (3, "not the value 3"),
        ({"a": ["b"]}, "not a dict"),
        ([["a"]], "there are 4 documents and labels for 1"),
        (np.eye(4), "LongtailClassifier takes one"),
        (sp.eye(4), "LongtailClassifier takes one"),
        ([["a"], 2.5, ["b"], []], "row 1: field 'labels' must hold text or whole numbers, found the number 2.5"),
    ],
)
def test_one_sentence_for_what_are_no_labels(labels: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        as_corpus(TITLES, labels)
    assert "\n" not in str(caught.value)


def test_columns_that_are_not_there() -> None:
    with pytest.raises(UsageError, match=r"no column 'text' in the DataFrame; there are 'id', .*: name one with text="):
        as_corpus(pd.DataFrame(COLUMNS))
    with pytest.raises(UsageError, match="name one with labels="):
        as_corpus(pl.DataFrame(COLUMNS), text="title")
    with pytest.raises(UsageError, match="no column 'text' in the rows"):
        as_corpus(ROWS)
    with pytest.raises(UsageError, match="no column 'nope' in the query"):
        as_corpus(cursor(), text="nope")


def test_arguments_without_use_are_refused() -> None:
    corpus = as_corpus(TITLES, SUBJECTS)
    assert as_corpus(corpus) is corpus
    for given in ({"labels": "x"}, {"text": "x"}, {"separator": ";"}):
        with pytest.raises(UsageError, match="has no use here"):
            as_corpus(corpus, **given)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="text has no use here: it names a column"):
        as_corpus(TITLES, SUBJECTS, text="title")
    with pytest.raises(UsageError, match="text has no use here"):
        documents_of(TITLES, "title")
    with pytest.raises(UsageError, match="a dict from label name to text"):
        as_corpus(TITLES, SUBJECTS, label_texts=["fruit"])  # type: ignore[arg-type]


def test_libraries_that_were_not_given_are_not_imported() -> None:
    code = (
        "import sys\n"
        "from longtail import as_corpus\n"
        "as_corpus(['x'], [['a']]); as_corpus([{'text': 'x', 'labels': ['a']}])\n"
        "print(sorted({'pandas', 'polars', 'datasets', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", done.stdout
