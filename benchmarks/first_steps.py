"""The commands of docs/start.md, as a newcomer gives them, and what they print.

    python benchmarks/first_steps.py [--data DIR]

books.csv has the titles and subject headings of gutenberg-lcsh-titles' training documents. What the commands print, how
long training takes and the memory it holds at its peak go to benchmarks/results/first-steps.json; benchmarks/render.py
fills docs/start.md and README.md from there. It takes some minutes, and is best run on a quiet machine.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import RESULTS, data_folder, machine, write_json

RESULT = RESULTS / "first-steps.json"
CORPUS = "gutenberg-lcsh-titles"
TITLE = "Lighthouses of the Scottish coast"
#: The commands, by the name of the block that shows what they print.
STEPS = {
    "inspect": "longtail inspect books.csv",
    "split": "longtail split books.csv -o books/",
    "train": "longtail train books/ -o model/",
    "train-bonsai": "longtail train books/ -o model-bonsai/ --recipe bonsai",
    "evaluate": "longtail evaluate model/ books/",
    "predict": f'echo "{TITLE}" | longtail predict model/ -k 3 -',
}


def books(data: Path, target: Path) -> None:
    with (
        gzip.open(data / CORPUS / "train.jsonl.gz", "rt", encoding="utf-8") as source,
        target.open("w", encoding="utf-8", newline="") as made,
    ):
        table = csv.writer(made)
        table.writerow(("id", "title", "subjects"))
        for line in source:
            record = json.loads(line)
            table.writerow((record["id"], record["text"], "; ".join(record["labels"])))


def given(command: str, folder: Path) -> dict[str, Any]:
    """What a command prints, with the seconds it took and, where it is the most so far, the memory it held."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "120",
    }
    start = time.perf_counter()
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, check=True, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    return {"command": command, "seconds": round(seconds, 1), "peak_mb_so_far": round(peak), "printed": done.stdout}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    data = data_folder(parser.parse_args().data)
    with tempfile.TemporaryDirectory() as name:
        books(data, Path(name) / "books.csv")
        steps = {step: given(command, Path(name)) for step, command in STEPS.items()}
    write_json(RESULT, {"command": "python benchmarks/first_steps.py", "machine": machine(), "steps": steps})


if __name__ == "__main__":
    main()
