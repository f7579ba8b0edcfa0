"""Models changed on purpose, with checksums that agree again: whoever can change files can compute them too."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail.errors import ModelError
from longtail.keep.manifest import manifest_digest
from longtail.keep.safetensors import BLOCK, read_file, write_arrays
from longtail.tagger import Tagger

#: What refusing may take of this process's time.
SECONDS = 2.0


def forged(
    model: Path,
    target: Path,
    *,
    arrays: Callable[[dict[str, Any]], object] | None = None,
    content: Callable[[dict[str, Any]], object] | None = None,
    stem: str = "learner",
) -> Path:
    """A copy of a model with other arrays or another manifest."""
    shutil.copytree(model, target, dirs_exist_ok=True)
    if arrays is not None:
        kept = {name: np.array(array) for name, array in read_file(target / f"{stem}.safetensors").items()}
        arrays(kept)
        with (target / f"{stem}.safetensors").open("wb") as handle:
            write_arrays(handle, kept)
    manifest = json.loads((target / "manifest.json").read_text())
    del manifest["sha256"]
    for name, entry in manifest["files"].items():
        data = (target / name).read_bytes()
        entry["bytes"] = len(data)
        entry["sha256"] = [hashlib.sha256(data[at : at + BLOCK]).hexdigest() for at in range(0, len(data), BLOCK)]
    if content is not None:
        content(manifest)
    manifest["sha256"] = manifest_digest(manifest)
    (target / "manifest.json").write_text(json.dumps(manifest))
    return target


@contextmanager
def no_network() -> Iterator[None]:
    """Fails where anything looks a name up or opens a connection, even if somebody swallows the error."""
    tried: list[str] = []

    def refuse(what: str) -> Callable[..., Any]:
        def refused(*arguments: Any, **_: Any) -> Any:
            tried.append(f"{what}{arguments[-2:]}")
            raise OSError("no network here")

        return refused

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse("connect"))
        patch.setattr(socket.socket, "connect_ex", refuse("connect_ex"))
        patch.setattr(socket, "create_connection", refuse("create_connection"))
        patch.setattr(socket, "getaddrinfo", refuse("getaddrinfo"))
        patch.setattr(socket, "gethostbyname", refuse("gethostbyname"))
        yield
    assert tried == []


def refused(model: Path) -> str:
    """The complaint: one line, soon, without a look at the network."""
    begin = time.process_time()
    with no_network(), pytest.raises(ModelError) as caught:
        Tagger.load(model, threads=1)
    assert time.process_time() - begin < SECONDS
    message = str(caught.value)
    assert message.startswith(str(model))
    assert "\n" not in message
    assert len(message) < 700
    return message
