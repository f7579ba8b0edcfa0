"""What documents will take in memory, told from their file before it is read."""

from __future__ import annotations

from pathlib import Path

#: Bytes in memory per byte of text in a file: texts, ids and labels as Python holds them.
HELD = 1.2
#: Bytes of text that a byte of a packed file stands for, about, by what such files begin with.
UNPACKED = {b"\x1f\x8b": 3.5, b"\x28\xb5\x2f\xfd": 4.0, b"PAR1": 3.0}


def corpus_bytes(source: str | Path) -> int:
    """Bytes that the documents of a file will take, about; of a folder its largest one's; 0 for what is not there."""
    path = Path(source)
    try:
        if path.is_dir():
            return max((corpus_bytes(file) for file in path.iterdir() if file.is_file()), default=0)
        if not path.is_file():
            return 0
        with path.open("rb") as handle:
            head = handle.read(4)
        times = next((factor for magic, factor in UNPACKED.items() if head.startswith(magic)), 1.0)
        return int(HELD * times * path.stat().st_size)
    except OSError:  # whoever reads it says what is wrong
        return 0
