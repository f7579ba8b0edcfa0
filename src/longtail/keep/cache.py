"""The user's cache folder, and which models this machine has checked as a whole already."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from longtail import __version__
from longtail.errors import LongtailError
from longtail.keep.files import atomic_file

#: Names the folder that caches live in; empty for none at all.
CACHE_VARIABLE = "LONGTAIL_CACHE"

#: Models remembered; the oldest are forgotten.
_MOST_KNOWN = 256

#: Some file systems keep times in steps of two seconds: a file that young may change again without a trace.
_SETTLED_SECONDS = 2.5


def cache_folder() -> Path | None:
    """Where things that can be made again are kept, or None if nowhere.

    $LONGTAIL_CACHE, and if that is not set longtail in the user's cache folder ($XDG_CACHE_HOME or ~/.cache).
    """
    try:
        chosen = os.environ.get(CACHE_VARIABLE)
        if chosen is not None:
            return Path(chosen).expanduser() if chosen else None
        base = Path(os.environ.get("XDG_CACHE_HOME", ""))
        # The XDG specification has relative paths ignored.
        return (base if base.is_absolute() else Path.home() / ".cache") / "longtail"
    except RuntimeError:  # no home folder
        return None


def files_key(digest: str, statuses: Mapping[str, os.stat_result]) -> str | None:
    """A name for files as they lie on disk now; None where a later change might go unnoticed.

    Whatever writes to a file moves its change time, which no program can set; a copy has another inode and change
    time.

    digest    of the manifest, which names the files and their checksums
    statuses  of all files, taken before any of them is read
    """
    if os.name == "nt" or any(time.time() - status.st_ctime < _SETTLED_SECONDS for status in statuses.values()):
        return None
    marks: list[Any] = [__version__, digest]
    for name, status in sorted(statuses.items()):
        marks.append([name, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns])
    return hashlib.sha256(json.dumps(marks).encode("ascii")).hexdigest()


def is_known(key: str | None) -> bool:
    """Whether these very files were checked as a whole before, by this version and for this user."""
    return key is not None and key in _known()


def remember(key: str | None) -> None:
    """Notes that these very files were checked. No trouble with the cache is ever an error."""
    path = _place()
    if key is None or path is None:
        return
    keys = [*(known for known in _known() if known != key), key][-_MOST_KNOWN:]
    with suppress(OSError, LongtailError), atomic_file(path, overwrite=True, mode="w") as handle:
        handle.writelines(f"{known}\n" for known in keys)


def _known() -> list[str]:
    path = _place()
    with suppress(OSError, UnicodeDecodeError):
        if path is not None and _own(path.stat()):
            return path.read_text("ascii").split()
    return []


def _own(status: os.stat_result) -> bool:
    """Whether nobody else can have written it: what others note is no reason to trust a file."""
    return status.st_uid == os.getuid() and not status.st_mode & 0o002


def _place() -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder / "checked-models.txt"
