"""What holds for all tests: nothing is kept in the user's cache, processes do not spin, interrupts arrive."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

# torch's threads wait busily by default, which makes tests in two processes wait for each other
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# a shell starts work in the background with interrupts ignored, which tests of interrupts would inherit
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get("LONGTAIL_CACHE")
    os.environ["LONGTAIL_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["LONGTAIL_CACHE"]
    else:
        os.environ["LONGTAIL_CACHE"] = before
