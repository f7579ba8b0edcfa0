"""Words as bytes one after the other, numbered and looked up by their stable hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from longtail.features import kernels
from longtail.part import Arrays, checked_before
from longtail.sparse import starts_of


def power_of_two(least: int) -> int:
    return 1 << max(least - 1, 1).bit_length()


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array read-only. Kernels are compiled once for it, whether it is a memory map or not."""
    array = array.view()
    array.flags.writeable = False
    return array


class Growing:
    """An array that grows at its end, doubling its room."""

    def __init__(self, dtype: type, width: int | None = None) -> None:
        self._room: NDArray[Any] = np.empty((0,) if width is None else (0, width), dtype=dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(self, values: NDArray[Any]) -> None:
        end = self._size + len(values)
        self.with_room(len(values))[self._size : end] = values
        self._size = end

    def with_room(self, more: int) -> NDArray[Any]:
        """All of it, and room for so many values more at least."""
        end = self._size + more
        if end > len(self._room):
            larger = np.empty((max(end, 2 * len(self._room)), *self._room.shape[1:]), dtype=self._room.dtype)
            larger[: self._size] = self._room[: self._size]
            self._room = larger
        return self._room

    def filled(self, size: int) -> None:
        """Of the room so much is filled now."""
        self._size = size

    @property
    def values(self) -> NDArray[Any]:
        return self._room[: self._size]


class Slots:
    """Hashes of things numbered from 0, with an open-addressing table over them that is at most half full."""

    def __init__(self) -> None:
        self.hashes = Growing(np.uint64)
        self.slots = np.full(1024, -1, dtype=np.int32)

    def add(self, hashes: NDArray[np.uint64]) -> None:
        kernels.place(hashes, len(self.hashes), self.with_room(len(hashes)))
        self.hashes.append(hashes)

    def with_room(self, more: int) -> NDArray[np.int32]:
        """The table, with room for so many more."""
        most = len(self.hashes) + more
        if 2 * most > len(self.slots):
            self.slots = table(self.hashes.values, 4 * most)
        return self.slots


def table(hashes: NDArray[np.uint64], room: int) -> NDArray[np.int32]:
    """int32 (a power of 2, at least `room`,): an open-addressing table of the numbers 0, 1, ... by their hashes."""
    slots = np.full(power_of_two(room), -1, dtype=np.int32)
    kernels.place(hashes, 0, slots)
    return slots


def gather(blob: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Pieces of the blob one after the other."""
    pieces = np.empty(int(lengths.sum()), dtype=np.uint8)
    kernels.copy_pieces(frozen(blob), starts, lengths, 0, pieces)
    return pieces


class Spelled(Protocol):
    """Words: their UTF-8 bytes, int64 (words + 1,), where each begins, and uint64 (words,), their stable hashes."""

    @property
    def blob(self) -> NDArray[np.uint8]: ...
    @property
    def offsets(self) -> NDArray[np.int64]: ...
    @property
    def hashes(self) -> NDArray[np.uint64]: ...


class Spelling(NamedTuple):
    """Words and no more."""

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    hashes: NDArray[np.uint64]


class GrowingWords:
    """Different words that become more: their UTF-8 bytes, where each begins, and their stable hashes."""

    def __init__(self) -> None:
        self.blob, self.offsets, self._slots = Growing(np.uint8), Growing(np.int64), Slots()
        self.offsets.append(np.zeros(1, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def values(self) -> Spelling:
        return Spelling(self.blob.values, self.offsets.values, self._slots.hashes.values)

    def numbered(self, words: Spelled) -> NDArray[np.int32]:
        """int32 (words,): the number here of each word; those that are not here yet are taken in."""
        known, more = len(self), len(words.hashes)
        slots = self._slots.with_room(more)
        blob, offsets = self.blob.with_room(len(words.blob)), self.offsets.with_room(more)
        room = kernels.WordRoom(blob, offsets, self._slots.hashes.with_room(more), slots)
        numbers = np.empty(more, dtype=np.int32)
        count = kernels.take_in(frozen(words.blob), words.offsets, words.hashes, known, room, numbers)
        self.blob.filled(int(offsets[count]))
        self.offsets.filled(count + 1)
        self._slots.hashes.filled(count)
        return numbers


@dataclass(frozen=True)
class WordTable:
    """Words to look up: UTF-8 bytes, where each begins, and an open-addressing table by stable hash, as in
    `Vocabulary`."""

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    slots: NDArray[np.int32]

    def __post_init__(self) -> None:
        for name, array in vars(self).items():
            object.__setattr__(self, name, frozen(array))

    @classmethod
    def of(cls, words: Sequence[bytes]) -> WordTable:
        """Of different words, numbered as they come."""
        lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
        blob = np.frombuffer(b"".join(words), dtype=np.uint8)
        _, firsts, hashes = numbered(blob, np.cumsum(lengths) - lengths, lengths)
        if len(firsts) != len(words):
            raise ValueError("a word is there twice")
        return cls(blob, starts_of(lengths), table(hashes, 2 * len(words)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def find(self, words: Spelled) -> NDArray[np.int32]:
        """int32 (words,): the number of each word here, or -1."""
        found = np.empty(len(words.hashes), dtype=np.int32)
        kernels.find_words(words.blob, words.offsets, words.hashes, self.blob, self.offsets, self.slots, found)
        return found

    @classmethod
    def restored(cls, arrays: Arrays) -> WordTable:
        """From the arrays that a model kept; ValueError if they cannot be those of a table."""
        wanted = {"blob": np.uint8, "offsets": np.int64, "slots": np.int32}
        kept = {name: plain_array(name, arrays[name], dtype) for name, dtype in wanted.items()}
        check_words(kept["blob"], kept["offsets"], kept["slots"])
        return cls(**kept)


def plain_array(name: str, array: NDArray[Any], dtype: type, dimensions: int = 1) -> NDArray[Any]:
    """The array as plain, aligned numpy (a view where it already is), after checking its type and shape."""
    array = np.asarray(array)
    if array.dtype != dtype or array.ndim != dimensions or (dimensions == 2 and array.shape[1] != 2):
        shape = "(n,)" if dimensions == 1 else "(n, 2)"
        raise ValueError(f"'{name}' must be {np.dtype(dtype)} {shape}, the file has {array.dtype} {array.shape}")
    return np.require(array, requirements=["C", "A"])


def check_words(blob: NDArray[np.uint8], offsets: NDArray[np.int64], slots: NDArray[np.int32]) -> None:
    """Refuses words of which an entry points where it must not."""
    if not len(offsets):
        raise ValueError("the vocabulary's offsets are empty")
    check_slots("slots", slots, len(offsets) - 1)
    if checked_before():
        return
    if offsets[0] != 0 or offsets[-1] != len(blob) or (offsets[1:] <= offsets[:-1]).any():
        raise ValueError("the vocabulary's offsets do not rise from 0 to the end of its words")


def check_slots(name: str, slots: NDArray[np.int32], most: int) -> None:
    """Refuses a table that is not of the numbers below `most`, each once, with room to spare."""
    if not len(slots) or len(slots) & (len(slots) - 1) or len(slots) < 2 * most:
        raise ValueError(f"the vocabulary's {name} has {len(slots)} places, which does not fit {most} terms")
    if not checked_before() and not each_once(slots, most):
        raise ValueError(f"the vocabulary's {name} does not hold each term once")


def each_once(numbers: NDArray[np.int32], n: int) -> bool:
    """Whether 0 to n - 1 are there once each, and else only -1."""
    if len(numbers) and (numbers.min() < -1 or numbers.max() >= n):
        return False
    return bool((np.bincount(numbers + 1, minlength=n + 1)[1:] == 1).all())


def looked_up(places: NDArray[np.integer], numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """numbers[places], for places of which none is negative; numpy takes thrice as long."""
    found = np.empty(len(places), dtype=np.int32)
    kernels.look_up(places, numbers, found)
    return found


def taken(words: Spelled, chosen: NDArray[np.integer]) -> Spelling:
    """Some of the words."""
    starts, lengths = words.offsets[chosen], words.offsets[chosen + 1] - words.offsets[chosen]
    return Spelling(gather(words.blob, starts, lengths), starts_of(lengths), words.hashes[chosen])


def spelled(words: Spelled, chosen: NDArray[np.integer]) -> list[bytes]:
    """Some of the words as bytes."""
    starts, lengths = words.offsets[chosen], words.offsets[chosen + 1] - words.offsets[chosen]
    # cutting at newlines is quicker than taking out piece by piece; no word has any
    lines = np.full(int(lengths.sum()) + len(chosen), 0x0A, dtype=np.uint8)
    kernels.copy_pieces(frozen(words.blob), starts, lengths, 1, lines)
    return lines.tobytes().split(b"\n")[:-1]


def hashes_of(blob: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """uint64 (words,): the stable hashes of words, given where each begins."""
    hashes = np.empty(len(offsets) - 1, dtype=np.uint64)
    kernels.hash_words(frozen(blob), offsets, hashes)
    return hashes


def numbered(
    blob: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint64]]:
    """The numbers of words, equal ones having the same, the first word with each number, and its stable hash."""
    numbers = np.empty(len(starts), dtype=np.int32)
    firsts = np.empty(len(starts), dtype=np.int64)
    hashes = np.empty(len(starts), dtype=np.uint64)
    slots = np.full(power_of_two(2 * len(starts)), -1, dtype=np.int32)
    known = kernels.number_words(frozen(blob), starts, lengths, slots, numbers, firsts, hashes)
    return numbers, firsts[:known].copy(), hashes[:known].copy()
