"""Vectors of documents in files of one's own, found by document id.

vectors.npz                      two arrays: `ids`, n texts, and `vectors`, (n, D) numbers
vectors.npy and vectors.ids.txt  the matrix, which is mapped into memory, and one id per line
a folder                         all of such files in it
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.errors import InputError, UsageError

#: Where the ids of a matrix without any stand: beside it, under its name with this ending.
IDS = ".ids.txt"


def vectors_of(source: str, ids: Sequence[str]) -> NDArray[np.float32]:
    """float32 (n, D): the vector of each id; refused where one is missing, or has a number that is not finite."""
    wanted = set(ids)
    place: dict[str, tuple[int, int]] = {}
    files = _files(source)
    matrices = []
    for number, path in enumerate(files):
        known, matrix = _read(path)
        matrices.append(matrix)
        if matrix.shape[1] != matrices[0].shape[1]:
            raise InputError(path, f"vectors of {matrix.shape[1]} numbers, those of {files[0]} have {_width(matrices)}")
        for row, ident in enumerate(known):
            if ident in wanted and place.setdefault(ident, (number, row)) != (number, row):
                raise InputError(path, f"a second vector of the document {ident!r}")
    missing = [ident for ident in ids if ident not in place]
    if missing:
        raise UsageError(
            f"{source} has no vector for {len(missing):,} of {len(ids):,} documents, such as the id {missing[0]!r}"
        )
    found = np.empty((len(ids), _width(matrices)), dtype=np.float32)
    for number, matrix in enumerate(matrices):
        here = [(i, place[ident][1]) for i, ident in enumerate(ids) if place[ident][0] == number]
        with np.errstate(over="ignore"):  # said below
            found[[i for i, _ in here]] = matrix[[row for _, row in here]]
    wrong = np.flatnonzero(~np.isfinite(found).all(axis=1))
    if len(wrong):
        raise UsageError(f"{source} has a number that is not finite in the vector of {ids[wrong[0]]!r}")
    return found


def _width(matrices: list[NDArray[Any]]) -> int:
    return int(matrices[0].shape[1])


def _files(source: str) -> list[Path]:
    path = Path(source).expanduser()
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.suffix in (".npz", ".npy"))
        if not found:
            raise UsageError(f"there is no .npz or .npy file in {source}")
        return found
    if path.suffix not in (".npz", ".npy"):
        raise UsageError(f"vectors are read from .npz or .npy files or a folder of them, not from {source!r}")
    if not path.is_file():
        raise UsageError(f"there is no file {source}")
    return [path]


def _read(path: Path) -> tuple[Sequence[str], NDArray[Any]]:
    """The ids of a file and its matrix."""
    ids: Sequence[str]
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                if set(arrays.files) != {"ids", "vectors"}:
                    raise InputError(path, f"it needs the arrays 'ids' and 'vectors', it has {sorted(arrays.files)}")
                kept, matrix = arrays["ids"], arrays["vectors"]
            if kept.ndim != 1 or kept.dtype.kind not in "Uiu":
                raise InputError(path, f"'ids' must be texts (n,), not {kept.dtype} {kept.shape}")
            ids = kept.astype(str).tolist()
        else:
            matrix = np.load(path, mmap_mode="r", allow_pickle=False)
            ids = path.with_suffix(IDS).read_text(encoding="utf-8").split("\n")
            ids = ids[:-1] if ids and not ids[-1] else ids
    except FileNotFoundError:
        raise InputError(path, f"its ids are missing: one per line in {path.with_suffix(IDS).name}") from None
    except UnicodeDecodeError:
        raise InputError(path.with_suffix(IDS), "it is not UTF-8 text") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        pickled = "pickle" in str(error)
        why = "it holds Python objects; make ids texts: np.array(ids, dtype=str)" if pickled else str(error)
        raise InputError(path, f"it cannot be read: {why}") from None
    if matrix.ndim != 2 or not matrix.shape[1] or matrix.dtype.kind not in "fiu":
        raise InputError(path, f"vectors must be numbers (n, D), not {matrix.dtype} {matrix.shape}")
    if len(ids) != len(matrix):
        raise InputError(path, f"{len(ids)} ids for {len(matrix)} vectors")
    return ids, matrix
