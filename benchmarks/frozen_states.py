"""What frozen encoders make of texts, kept from row to row: LightXML's rows read the same documents again and again.

A text goes through a Transformer whose layers are all frozen once, in bfloat16 (more than twice as fast as single
precision where the processor can), and the first token's states are kept under benchmarks/.work/states. Rows, seeds,
held-out documents and texts that the filter has read take them from there.
"""

from __future__ import annotations

import atexit
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common import WORK
from longtail.learners.neural.encoders.first_tokens import FirstTokens, FirstTokensNetwork

#: Texts after which what is new is written.
WRITTEN_AFTER = 4000


class Kept:
    """float16 (texts, places, width) by the texts' tokens, in a file of their own."""

    def __init__(self, file: Path) -> None:
        self.file, self.new = file, 0
        self.places: dict[bytes, NDArray[np.float16]] = {}
        if file.exists():
            with np.load(file, allow_pickle=False) as found:
                self.places = dict(zip(map(bytes, found["keys"]), found["states"], strict=True))
        atexit.register(self.write)

    def write(self) -> None:
        if not self.new:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        half = self.file.with_suffix(".half")
        keys = np.frombuffer(b"".join(self.places), dtype=np.uint8).reshape(len(self.places), -1)
        with half.open("wb") as handle:
            np.savez(handle, keys=keys, states=np.stack(list(self.places.values())))
        half.replace(self.file)
        self.new = 0

    def of(self, keys: list[bytes], make: Callable[[list[int]], NDArray[np.float16]]) -> NDArray[np.float16]:
        """The states of texts; `make` makes those of some of them, by number."""
        missing = list({key: number for number, key in enumerate(keys) if key not in self.places}.values())
        if missing:
            self.places |= dict(zip([keys[number] for number in missing], make(missing), strict=True))
            self.new += len(missing)
            if self.new >= WRITTEN_AFTER:
                self.write()
        return np.stack([self.places[key] for key in keys])


def keep_states() -> None:
    """From now on networks whose layers are all frozen take first tokens from what is kept."""
    if hasattr(FirstTokensNetwork.low, "keeps"):
        return
    once, kept = FirstTokensNetwork.low, dict[str, Kept]()

    def low(self: FirstTokensNetwork, tokens: Tensor, mask: Tensor) -> Tensor:
        # while it is built it is compared with the library's own, token by token
        if self.frozen < self.layers or not hasattr(self, "lowest"):
            return once(self, tokens, mask)
        read = self.places + 1  # behind the first token of the highest layer nothing is read

        def make(some: list[int]) -> NDArray[np.float16]:
            with torch.autocast("cpu", torch.bfloat16):
                return once(self, tokens[some], mask[some])[:, :read].half().numpy()

        keys = [
            hashlib.sha256(row[inside].numpy().tobytes()).digest() for row, inside in zip(tokens, mask, strict=True)
        ]
        name = f"{type(self.model).__name__}-{self.layers}-{self.lowest}-{self.state_width}"
        if name not in kept:
            kept[name] = Kept(WORK / "states" / f"{name}.npz")
        states = torch.zeros(*tokens.shape, self.state_width)
        states[:, :read] = torch.from_numpy(kept[name].of(keys, make)).float()
        return states

    low.keeps = True  # type: ignore[attr-defined]
    FirstTokensNetwork.low = low  # type: ignore[method-assign]
    # a file of every token's states for every corpus is not needed then
    FirstTokens._states_file = lambda self, network, tokens: None  # type: ignore[method-assign]
