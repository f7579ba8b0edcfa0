"""All-or-nothing output: files and directories are written beside their target, synced to disk, then renamed.

A reader finds what was there before or what is there now, never something half written, even after a kill or a
power cut. Whatever a killed run leaves behind has a name of its own (`.<name>.longtail-partial-...`) and is removed
by the next write to the same target.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal

from longtail.errors import LongtailError, UsageError

try:
    import fcntl
except ImportError:  # Windows has no advisory locks: writers do not wait for each other, leftovers are left alone
    fcntl = None  # type: ignore[assignment]


Refusal = Callable[[Path], str]


def check_output(
    path: str | Path, *, overwrite: bool = False, directory: bool = False, refusal: Refusal | None = None
) -> None:
    """Refuses an output path that exists or cannot be written: to be asked before the work, not only after it.

    `refusal(directory)` says why a directory that is there must not be replaced, or "" if it may.
    """
    path = Path(path)
    shown = shown_directory(path) if directory else str(path)
    reason = ""
    with writing(path):
        with _one_at_a_time(_real(path).parent):
            standing = aside(path) if directory and _mode(path) is None else path
            found = _mode(standing)
            if refusal is not None and standing.is_dir():
                reason = refusal(standing)
        place = _real(path).parent
        while _mode(place) is None:
            place = place.parent
        if not place.is_dir():
            raise LongtailError(f"{shown} cannot be written: {place} is not a directory")
    if found is not None:
        if directory and not stat.S_ISDIR(found):
            raise UsageError(f"{path} exists and is not a directory; choose another name")
        if not directory and stat.S_ISDIR(found):
            raise UsageError(f"{shown_directory(path)} is a directory; give the name of a file")
        if not directory and not stat.S_ISREG(found):
            return  # a device or a pipe is written to, not replaced
        if not overwrite:
            raise UsageError(f"{shown} exists; --overwrite replaces it")
        if reason:
            raise UsageError(f"{shown} is not replaced: {reason}; choose another name")
    if not os.access(place, os.W_OK | os.X_OK):
        raise LongtailError(f"{shown} cannot be written: no permission to write in {shown_directory(place)}")


@contextmanager
def atomic_file(path: str | Path, *, overwrite: bool = False, mode: Literal["wb", "w"] = "wb") -> Iterator[IO[Any]]:
    """A handle (bytes, or UTF-8 text for mode "w") whose content becomes the file when the block ends well.

    When the block raises, the target stays as it was. A device or pipe is written to directly.
    """
    path = Path(path)
    check_output(path, overwrite=overwrite)
    found = _mode(path)
    target = _real(path)
    replaces = found is None or stat.S_ISREG(found)
    text = {"encoding": "utf-8", "newline": "\n"} if mode == "w" else {}
    lock = None
    with writing(path):
        if replaces:
            new, lock = _partial(target, _new_file)
        handle: IO[Any] = (new if replaces else path).open(mode, **text)  # type: ignore[call-overload]
    try:
        with _disk_trouble(path):
            yield handle
        with writing(path):
            handle.flush()
            if replaces:
                os.fsync(handle.fileno())
            handle.close()
        if replaces:
            check_output(path, overwrite=overwrite)
            with writing(path):
                if found is not None:
                    new.chmod(stat.S_IMODE(found))
                new.replace(target)
                sync_directory(target.parent)
    except BaseException:
        with suppress(OSError):  # what is still buffered may not fit either
            handle.close()
        if replaces:
            with suppress(OSError):
                new.unlink(missing_ok=True)
        raise
    finally:
        _unlock(lock)


@contextmanager
def atomic_directory(path: str | Path, *, overwrite: bool = False, refusal: Refusal | None = None) -> Iterator[Path]:
    """A new directory to fill with plain files; it takes the target's place when the block ends well.

    `refusal` is as in `check_output`; without one only an empty directory is replaced, so that overwriting never
    deletes what it does not know. Systems that exchange two directories in
    one step never show a reader a missing target; elsewhere the old one stands at `aside(path)` for an instant.
    """
    path = Path(path)
    check_output(path, overwrite=overwrite, directory=True, refusal=refusal or _not_empty)
    target = _real(path)
    with writing(path):
        found = _mode(target)
        new, lock = _partial(target, Path.mkdir)
    try:
        with _disk_trouble(path):
            yield new
        with writing(path):
            for file in new.iterdir():
                with file.open("rb+") as handle:
                    os.fsync(handle.fileno())
            if found is not None:
                new.chmod(stat.S_IMODE(found))
            sync_directory(new)
            _put_in_place(new, path, overwrite=overwrite)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    finally:
        _unlock(lock)


def aside(path: str | Path) -> Path:
    """Where the old directory stands while a new one is put in its place, on systems that cannot exchange the two."""
    target = _real(Path(path))
    return target.with_name(f".{target.name}.longtail-old")


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turns a full disk, a read-only directory and the like into one line that names the output."""
    try:
        yield
    except OSError as error:
        raise LongtailError(f"{path} cannot be written: {error.strerror or error}") from error


def shown_directory(path: str | Path) -> str:
    """The path as messages show a directory: with a slash at the end."""
    return f"{str(path).rstrip('/')}/"


def sync_directory(path: Path) -> None:
    """Makes the names inside the directory last, where the system knows how."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _disk_trouble(path: Path) -> Iterator[None]:
    """As `writing`, but only for failed writes to a handle: the caller's block may fail over files of its own."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}:
            raise LongtailError(f"{path} cannot be written: {error.strerror}") from error
        raise


def _not_empty(directory: Path) -> str:
    return "it is not empty" if any(directory.iterdir()) else ""


def _real(path: Path) -> Path:
    """The place behind links, so that a link to a model or file stays a link."""
    return Path(os.path.realpath(path))


def _mode(path: Path) -> int | None:
    """Type and permissions of what is there, or None."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _new_file(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))  # the user's umask decides


def _partial(target: Path, make: Callable[[Path], None]) -> tuple[Path, int | None]:
    """A new, locked sibling of the target; siblings that no living process holds are removed first."""
    target.parent.mkdir(parents=True, exist_ok=True)
    start = f".{target.name}.longtail-partial-"
    for sibling in target.parent.iterdir():
        if sibling.name.startswith(start):
            with suppress(OSError):
                _remove_if_abandoned(sibling)
    while True:
        path = target.with_name(start + secrets.token_hex(6))
        make(path)
        lock = _lock(path, wait=True)
        # Another process may have taken the sibling for a leftover before the lock was there.
        if path.exists() and (lock is None or _still(lock, path)):
            return path, lock
        _unlock(lock)


def _remove_if_abandoned(path: Path) -> None:
    lock = _lock(path, wait=False)
    if lock is None:
        return
    try:
        _remove(path)
    finally:
        _unlock(lock)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _lock(path: Path, *, wait: bool) -> int | None:
    """A descriptor that holds an exclusive lock on a file or directory for as long as it is open.

    None where the system has no such locks or, without `wait`, where another process holds it.
    """
    if fcntl is None:
        return None
    try:
        # A planted link must not be followed, nor a planted pipe waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def _one_at_a_time(parent: Path) -> Iterator[None]:
    """A lock on the parent directory, so that nobody looks while a directory in it changes places."""
    lock = _lock(parent, wait=True)
    try:
        yield
    finally:
        _unlock(lock)


def _unlock(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def _still(descriptor: int, path: Path) -> bool:
    """Whether the path still names what the descriptor has open."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _put_in_place(new: Path, path: Path, *, overwrite: bool) -> None:
    """Renames the finished directory to its target."""
    target, old = _real(path), aside(path)
    with _one_at_a_time(target.parent):
        if old.is_dir():  # a writer was killed between its two renames, or before it removed the old directory
            if target.exists():
                _remove(old)
            else:
                old.rename(target)
        if not target.exists():
            new.rename(target)
        elif not overwrite:  # it came into being meanwhile
            raise UsageError(f"{shown_directory(path)} exists; --overwrite replaces it")
        else:
            if _exchange(new, target):
                old = new
            else:
                target.rename(old)
                try:
                    new.rename(target)
                except BaseException:
                    with suppress(OSError):
                        old.rename(target)
                    raise
            sync_directory(target.parent)
            shutil.rmtree(old, ignore_errors=True)
        sync_directory(target.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Swaps two names in one step (Linux's renameat2); False, with nothing done, where that cannot be."""
    import ctypes

    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    renameat2.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return bool(renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)
