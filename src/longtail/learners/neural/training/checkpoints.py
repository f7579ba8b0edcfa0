"""Checkpoints of one fit: a folder of files named after the step they were written at."""

from __future__ import annotations

from pathlib import Path

#: Seconds between checkpoints of a run that keeps any.
CHECKPOINT_SECONDS = 30


def latest(folder: Path | None) -> Path | None:
    """The newest checkpoint of a folder that can be read; one that was damaged is as good as none."""
    import torch

    for file in newest_first(folder):
        try:
            torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        except Exception:  # torch has no one error for files that are cut short or hold something else
            continue
        return file
    return None


def only(new: Path) -> None:
    """Takes away the checkpoints that a new one stands for."""
    for file in new.parent.glob("*.ckpt"):
        if file.name != new.name:
            file.unlink(missing_ok=True)


def newest_first(folder: Path | None) -> list[Path]:
    """All checkpoints of a folder."""
    found = [] if folder is None else [file for file in folder.glob("*.ckpt") if file.stem.isdecimal()]
    return sorted(found, key=lambda file: int(file.stem), reverse=True)
