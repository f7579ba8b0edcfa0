"""Predictions as a list of lists, and as a table."""

from __future__ import annotations

import sys

import pandas as pd
import polars as pl
import pytest

from longtail import Prediction
from longtail.errors import UsageError
from longtail.predictions import PredictionLists

ART, MUSIC = Prediction("a1", "Art", 0.75), Prediction("m2", "Music", 0.5)


def test_a_prediction_is_a_tuple_with_names() -> None:
    label, text, score = ART
    assert (label, text, score) == ("a1", "Art", 0.75) == (ART.label, ART.text, ART.score)
    assert ART == ("a1", "Art", 0.75)


def test_a_list_of_lists() -> None:
    found = PredictionLists.of([[ART, MUSIC], []], ["x", "y"])
    assert found == [[ART, MUSIC], []] and len(found) == 2 and found[0][1] is MUSIC
    assert found.ids == ["x", "y"]
    assert list(PredictionLists([[ART]]).ids) == [0]


def test_one_row_per_document_and_label() -> None:
    found = PredictionLists.of([[ART, MUSIC], [], [MUSIC]], [7, 8, 9])
    frame = found.to_frame()
    assert list(frame.columns) == ["id", "rank", "label", "text", "score"]
    assert frame.to_dict("records") == [
        {"id": 7, "rank": 1, "label": "a1", "text": "Art", "score": 0.75},
        {"id": 7, "rank": 2, "label": "m2", "text": "Music", "score": 0.5},
        {"id": 9, "rank": 1, "label": "m2", "text": "Music", "score": 0.5},
    ]
    joined = pd.DataFrame({"id": [7, 8, 9], "title": ["one", "two", "three"]}).merge(frame, on="id")
    assert joined["title"].tolist() == ["one", "one", "three"], "ids are those that were given"
    assert pl.DataFrame(found.to_columns()).rows() == [tuple(row) for row in frame.itertuples(index=False)]


def test_a_table_without_rows() -> None:
    for found in (PredictionLists(), PredictionLists.of([[]], ["x"])):
        frame = found.to_frame()
        assert list(frame.columns) == ["id", "rank", "label", "text", "score"] and len(frame) == 0
        assert frame["score"].dtype == "float64" and frame["rank"].dtype == "int64"


def test_pandas_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        PredictionLists([[ART]]).to_frame()
