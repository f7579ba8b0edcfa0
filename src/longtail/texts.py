"""Many texts as two arrays: half the memory of a list, and a model file can be mapped instead of parsed."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

#: Texts decoded in one go when all of them are asked for.
_RUN = 4096


def without_half_surrogates(text: str) -> str:
    """The text with ? for each half surrogate, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()


class PackedTexts(Sequence[str]):
    """A read-only sequence of texts that are decoded when asked for; equal to a list of the same texts.

    blob     uint8, the texts' UTF-8 bytes one after the other
    offsets  int64 (n + 1,), where each begins, and where the last one ends
    """

    __slots__ = ("_bytes", "_cuts", "blob", "offsets")
    __hash__ = None  # type: ignore[assignment]  # as a list has none

    def __init__(self, blob: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.blob, self.offsets = blob, offsets
        self._bytes, self._cuts = blob.data, offsets.data  # a third of the time that arrays take

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedTexts, (self.blob, self.offsets)

    @classmethod
    def of(cls, texts: Iterable[str]) -> PackedTexts:
        packing = Packing()
        for text in texts:
            packing.append(text)
        return packing.packed()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, which: int) -> str: ...
    @overload
    def __getitem__(self, which: slice) -> list[str]: ...
    def __getitem__(self, which: int | slice) -> str | list[str]:
        if isinstance(which, slice):
            return [self[at] for at in range(*which.indices(len(self)))]
        n = len(self._cuts) - 1
        at = which + n if which < 0 else which
        if not 0 <= at < n:
            raise IndexError(f"text {which} of {n}")
        return str(self._bytes[self._cuts[at] : self._cuts[at + 1]], "utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _RUN):
            ends = self.offsets[first : first + _RUN + 1]
            piece = self.blob[ends[0] : ends[-1]].tobytes()
            cuts = (ends - ends[0]).tolist()
            for begin, end in pairwise(cuts):
                yield piece[begin:end].decode("utf-8", "surrogatepass")

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, PackedTexts):
            return np.array_equal(self.offsets, other.offsets) and np.array_equal(self.blob, other.blob)
        if isinstance(other, list | tuple):
            return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))
        return NotImplemented

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"<{len(self)} texts: {shown}{', ...' if len(self) > 3 else ''}>"


class Packing:
    """Texts packed one by one; half surrogates are kept, as `str` keeps them."""

    def __init__(self) -> None:
        self._blob = bytearray()
        self._ends = array("q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def append(self, text: str) -> None:
        self._blob += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._blob))

    def packed(self) -> PackedTexts:
        return PackedTexts(np.frombuffer(self._blob, dtype=np.uint8), np.frombuffer(self._ends, dtype=np.int64))
