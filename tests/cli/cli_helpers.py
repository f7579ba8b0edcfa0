"""Small records, and the command line run outside this process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TOPICS = {
    "fruit & vegetables": "apple banana cherry orchard juice",
    "music": "guitar piano chord melody concert",
    "boats": "sail harbour anchor deck mast",
    "Sterne, Ümläute": "telescope orbit comet galaxy lens",
}


def documents(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Records of one or two topics, five words of each."""
    rng = np.random.default_rng(seed)
    names = list(TOPICS)
    records = []
    for number in range(n):
        chosen = sorted(rng.choice(len(names), size=rng.integers(1, 3), replace=False))
        words = [" ".join(rng.choice(TOPICS[names[c]].split(), size=5)) for c in chosen]
        records.append({"id": f"d{number}", "text": " ".join(words), "labels": [names[c] for c in chosen]})
    return records


def write_jsonl(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line on stderr that a failure consists of."""
        assert self.out == ""
        assert self.err.startswith("longtail: ") and self.err.endswith("\n") and self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return self.err[len("longtail: ") : -1]


Command = Callable[..., Result]


def outside(*arguments: object, **given: Any) -> subprocess.CompletedProcess[str]:
    """Runs the command line as a user does, in a process of its own."""
    line = [sys.executable, "-m", "longtail", *(str(argument) for argument in arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, **given)
