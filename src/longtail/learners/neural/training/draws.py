"""The numbers that torch's generator draws on a CPU, without torch, whose import takes as long as a small training.

It is a Mersenne Twister, as numpy has one. Networks that are trained without torch so begin and drop what they would
with it, up to the rounding of logarithms and sines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Numbers that torch makes normal ones of at a time, from two halves.
GROUP = 16


class Draws:
    """What `torch.manual_seed` and then its tensors' methods give, in the same order."""

    def __init__(self, seed: int) -> None:
        self.twister = np.random.RandomState(seed & 0xFFFFFFFF)

    def bytes(self, count: int) -> NDArray[np.uint8]:
        """uint8 (count,): as of 64 bit numbers over their whole range, whose first half is drawn first."""
        words = self.twister.randint(0, 1 << 32, ((count + 7) // 8, 2), dtype=np.uint32)
        return words[:, ::-1].astype("<u4").view(np.uint8).ravel()[:count]

    def normal(self, shape: tuple[int, int], deviation: float) -> NDArray[np.float32]:
        """float32: as of `normal_`."""
        count = shape[0] * shape[1]
        whole = count // GROUP * GROUP
        uniform = self._uniform(count)
        made = np.empty(max(count, GROUP), dtype=np.float32)
        made[:whole] = _normal(uniform[:whole])
        if whole < count:  # the last ones are made anew
            made[-GROUP:] = _normal(self._uniform(GROUP))
        made *= np.float32(deviation)
        return made[:count].reshape(shape)

    def skip_normal(self, shape: tuple[int, int]) -> None:
        """What `normal` draws, for nothing."""
        count = shape[0] * shape[1]
        self._uniform(count + (GROUP if count % GROUP else 0))

    def _uniform(self, count: int) -> NDArray[np.float32]:
        """float32 in [0, 1), of 24 bits each."""
        drawn = self.twister.randint(0, 1 << 32, count, dtype=np.uint32)
        return (drawn & np.uint32(0xFFFFFF)).astype(np.float32) * np.float32(2**-24)


def _normal(uniform: NDArray[np.float32]) -> NDArray[np.float32]:
    """Box and Muller's way, in groups: lengths from their first halves, angles from their second."""
    halves = uniform.reshape(-1, 2, GROUP // 2)
    length = np.sqrt(np.float32(-2) * np.log(np.float32(1) - halves[:, 0]))
    angle = np.float32(2 * np.pi) * halves[:, 1]
    return np.stack([length * np.cos(angle), length * np.sin(angle)], axis=1).ravel()
