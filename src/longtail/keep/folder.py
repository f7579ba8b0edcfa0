"""A model directory held open, and its files as memory maps."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from longtail.errors import ModelError
from longtail.keep.files import aside, shown_directory

#: What to do about a model that is not whole.
AGAIN = "copy the whole directory again or train the model again"

Bytes = mmap.mmap | bytes


class Folder:
    """A directory held open: what is read from it belongs together even while another process replaces it."""

    def __init__(self, place: Path, shown: Path) -> None:
        self.place, self.shown = place, shown
        self.statuses: dict[str, os.stat_result] = {}  # of the files that were mapped
        self.descriptor: int | None = None
        if os.open in os.supports_dir_fd:
            self.descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        elif not place.is_dir():
            raise NotADirectoryError if place.exists() else FileNotFoundError

    @classmethod
    def hold(cls, path: Path) -> Self:
        # Where directories cannot be exchanged in one step, the old one stands aside while the new one comes in.
        for place in (path, aside(path), path):
            try:
                return cls(place, path)
            except FileNotFoundError:
                continue
            except NotADirectoryError:
                raise ModelError(f"{path} is not a directory; give the directory that holds the model") from None
            except OSError as error:
                raise ModelError(f"{shown_directory(path)} cannot be read: {error.strerror}") from None
        raise ModelError(f"{shown_directory(path)} does not exist; give the directory that holds the model")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def replaced(self) -> bool:
        """Whether the name now belongs to another directory."""
        if self.descriptor is None:
            return False
        try:
            return not os.path.samestat(os.fstat(self.descriptor), self.place.stat())
        except OSError:
            return True

    def where(self, name: str) -> str:
        return shown_file(self.shown, name)

    def map(self, name: str, most: int | None = None, missing: str | None = None) -> Bytes:
        """A plain file's bytes as a memory map; links, pipes and files above `most` bytes are refused.

        missing  what to say where the file is not there
        """
        where = self.where(name)
        flags = os.O_RDONLY
        for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
            flags |= getattr(os, flag, 0)
        try:
            if self.descriptor is None:
                if (self.place / name).is_symlink():
                    raise OSError(errno.ELOOP, "")
                descriptor = os.open(self.place / name, flags)
            else:
                descriptor = os.open(name, flags, dir_fd=self.descriptor)
        except FileNotFoundError:
            raise ModelError(missing or f"{where} is missing; {AGAIN}") from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise ModelError(f"{where} is a link; a model holds only files of its own") from None
            raise ModelError(f"{where} cannot be read: {error.strerror}") from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ModelError(f"{where} is not a plain file")
            if most is not None and status.st_size > most:
                raise ModelError(f"{where} has {status.st_size} bytes; at most {most} are read")
            self.statuses[name] = status
            return map_file(descriptor)
        except OSError as error:
            raise ModelError(f"{where} cannot be read: {error.strerror}") from None
        finally:
            os.close(descriptor)


def map_file(descriptor: int) -> Bytes:
    """The file's bytes, mapped read-only; an empty file cannot be mapped."""
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) if os.fstat(descriptor).st_size else b""


def let_go(array: NDArray[Any]) -> None:
    """Gives back the memory behind a stretch of a mapped file, which is read again if needed; other arrays stay."""
    owner = map_behind(array)
    if owner is None or not array.flags.c_contiguous:
        return
    begin = _address(array) - _address(np.frombuffer(owner, dtype=np.uint8))
    page = begin - begin % mmap.PAGESIZE
    owner.madvise(mmap.MADV_DONTNEED, page, begin + array.nbytes - page)


def read_past_map(path: Path, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]] | None:
    """Copies of stretches of a mapped file, read from the file itself; None where that cannot be done.

    A look at a map may bring megabytes around it into the process, as much as the system has cached in one piece:
    whoever looks here and there at many large maps would soon hold all of them.
    """
    if not hasattr(os, "preadv"):
        return None
    copies = []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for array in arrays:
                copies.append(np.empty(array.shape, array.dtype))
                owner = map_behind(array)
                if owner is None:  # an empty one
                    continue
                begin = _address(array) - _address(np.frombuffer(owner, dtype=np.uint8))
                if os.preadv(descriptor, [copies[-1].data], begin) < array.nbytes:
                    return None
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return copies


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def map_behind(array: NDArray[Any]) -> mmap.mmap | None:
    """The map whose pages may be given back, if an array lies in one: changes of a private map would be lost."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    owner = owner.obj if isinstance(owner, memoryview) else owner
    if not (isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and array.nbytes):
        return None
    return None if np.frombuffer(owner, dtype=np.uint8).flags.writeable else owner


def shown_file(directory: str | Path, name: str) -> str:
    return shown_directory(directory) + name
