"""Threads of the library behind numpy's matrix products."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


def blas_threads(count: int) -> AbstractContextManager[Any]:
    """While it is open, matrix products take so many threads, in the whole process."""
    return _blas().limit(limits=count, user_api="blas")


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
