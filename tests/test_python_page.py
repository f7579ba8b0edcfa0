"""docs/python.md: every block of code runs, one after the other, as a reader would type them."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_all_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    printed = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for block in BLOCKS:
            exec(compile(block, "docs/python.md", "exec"), names)
            printed.append(capsys.readouterr().out)
    assert len(BLOCKS) == PAGE.count("```python") and "```\n" in PAGE
    assert printed[-1].strip() == re.findall(r"print\(error\)  # (.*)", PAGE)[0], "what the page says is printed"
    assert {each.label for each in names["found"][0]} & {"numpy.sort", "numpy.argsort", "numpy.lexsort"}
    table = names["table"]
    assert list(table.columns) == ["id", "rank", "label", "text", "score"] and table["id"][0] == "doc-0"
    assert ("numpy.argsort", "Indices that would sort an array") in [(each.label, each.text) for each in names["best"]]
    assert (tmp_path / "model" / "manifest.json").is_file()
