"""A fixed random part of a corpus's training documents: how eurlex57k-4k is made.

    python benchmarks/subset.py ../shared/data/eurlex57k/train.jsonl.gz eurlex57k-4k.jsonl.gz --documents 4000 --seed 0

The same documents for the same seed, in the order of the file.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import numpy as np


def chosen(lines: int, documents: int, seed: int) -> np.ndarray:
    """Numbers of the documents, rising."""
    return np.sort(np.random.default_rng(seed).permutation(lines)[:documents])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--documents", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with gzip.open(options.source, "rt", encoding="utf-8") as handle:
        lines = handle.readlines()
    with gzip.open(options.target, "wt", encoding="utf-8") as handle:
        handle.writelines(lines[number] for number in chosen(len(lines), options.documents, options.seed))
    print(f"{min(len(lines), options.documents)} of {len(lines)} documents in {options.target}")


if __name__ == "__main__":
    main()
