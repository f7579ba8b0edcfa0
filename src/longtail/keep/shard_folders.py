"""Where the shards of a model lie: a folder with one model directory for each, shard-1-of-2 and so on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from longtail.errors import ModelError, UsageError
from longtail.keep.manifest import MANIFEST

_FOLDER = re.compile(r"shard-([1-9][0-9]{0,5})-of-([1-9][0-9]{0,5})")


class Shard(NamedTuple):
    """One of several parts of a model, each with a share of the labels; number counts from 1."""

    number: int
    total: int

    @classmethod
    def of(cls, number: int, count: int) -> Shard:
        if count < 2 or not 1 <= number <= count:
            raise UsageError(f"a shard is one of at least 2, as in 1/2, not {number}/{count}")
        return cls(number, count)

    @classmethod
    def parse(cls, text: str) -> Shard:
        number, slash, count = text.partition("/")
        if not slash or not number.isdecimal() or not count.isdecimal() or len(text) > 20:
            raise UsageError(f"--shard takes a number and how many there are, as in 1/2, not '{text}'")
        return cls.of(int(number), int(count))


def shard_folder(path: str | Path, shard: Shard) -> Path:
    """Where a shard lies in the folder of its model."""
    if (Path(path) / MANIFEST).exists():
        raise UsageError(f"{path} is a model that is not in shards; choose another folder")
    return Path(path) / f"shard-{shard.number}-of-{shard.total}"


def shard_folders(path: str | Path) -> list[Path]:
    """The directories of all shards of a model; none for a model that is not in shards."""
    folder = Path(path)
    if not folder.is_dir() or (folder / MANIFEST).exists():
        return []
    found = {}
    for each in folder.iterdir():
        if match := _FOLDER.fullmatch(each.name):
            found[Shard(int(match[1]), int(match[2]))] = each
    counts = {shard.total for shard in found}
    if len(counts) > 1:
        raise ModelError(f"{path}: shards of {' and '.join(map(str, sorted(counts)))} lie in one folder")
    for count in counts:
        missing = [number for number in range(1, count + 1) if Shard(number, count) not in found]
        if missing:
            raise ModelError(f"{path}: shard {missing[0]} of {count} is not there yet")
    return [found[shard] for shard in sorted(found)]
