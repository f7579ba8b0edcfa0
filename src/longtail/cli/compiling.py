"""Says so when kernels are compiled, which is why a first command takes longer than it should."""

from __future__ import annotations

import time
from collections.abc import Callable

from numba.core import event

#: Seconds of compiling before anything is said.
SECONDS = 2.0


class Compiling(event.Listener):  # type: ignore[misc]
    """Hears of every kernel that numba compiles, not of those that it finds compiled."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said = say, False
        self._depth, self._since, self._spent = 0, 0.0, 0.0  # kernels are compiled within others

    def on_start(self, event: object) -> None:
        if not self._depth:
            self._since = time.monotonic()
        self._depth += 1

    def on_end(self, event: object) -> None:
        self._depth -= 1
        if self._depth:
            return
        self._spent += time.monotonic() - self._since
        if self._spent >= SECONDS and not self._said:
            self._said = True
            self._say("compiling for this computer, which happens once and may take half a minute")


def tell_of_compiling(say: Callable[[str], None]) -> None:
    event.register("numba:compile", Compiling(say))
