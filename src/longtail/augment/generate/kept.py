"""Generating copies of many documents: in batches, each kept on disk by its content until nobody needs it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longtail.augment.generate.base import Generator
from longtail.corpus import Corpus
from longtail.errors import LongtailError
from longtail.fit import Fit
from longtail.keep.cache import cache_folder
from longtail.keep.files import atomic_file
from longtail.part import Arrays
from longtail.run import Run


def generated(generator: Generator, corpus: Corpus, rows: NDArray[np.int64], copies: int, fit: Fit) -> list[str]:
    """`copies` texts of each of these documents, those of one document after the other.

    A batch's random numbers follow from its content, so that one that is found on disk is the one that would be made.
    """
    writer = generator.opened(corpus, fit)
    texts: list[str] = []
    with fit.run.bar("Generating", len(rows) * copies) as bar:
        for first in range(0, len(rows), generator.batch):
            some = np.repeat(rows[first : first + generator.batch], copies)
            key = _key(writer.identity, corpus, some, fit.run.seed_of("generate"))
            file = _file(key, fit.run) if writer.identity else None
            found = None if file is None else _read(file, len(some))
            if found is None:
                found = writer.write(some, int(key[:15], 16))
                if file is not None:
                    _keep(file, found)
                bar.advance(len(some))
            else:
                with fit.run.earlier():
                    bar.advance(len(some))
            texts += found
    return texts


def kept_folder(run: Run) -> Path | None:
    """Where what generators make is kept: the user's cache or, without one, among the checkpoints of the run."""
    folder = cache_folder() or run.checkpoints
    return None if folder is None else folder / "generated"


def _key(identity: str, corpus: Corpus, rows: NDArray[np.int64], seed: int) -> str:
    digest = hashlib.sha256(f"{seed}/{len(rows)}/{identity}".encode("utf-8", "surrogatepass"))
    assert corpus.texts is not None
    for row in rows:
        labels = corpus.Y.indices[corpus.Y.indptr[row] : corpus.Y.indptr[row + 1]]
        for piece in (corpus.texts[row], *(corpus.labels.title(label) for label in labels)):
            digest.update(f"{len(piece)}:{piece}".encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()


def _file(key: str, run: Run) -> Path | None:
    folder = kept_folder(run)
    return None if folder is None else folder / f"{key}.json"


def _read(file: Path, count: int) -> list[str] | None:
    with suppress(OSError, ValueError):
        found = json.loads(file.read_bytes())
        if isinstance(found, list) and len(found) == count and all(isinstance(text, str) for text in found):
            return found
    return None


def _keep(file: Path, texts: Sequence[str]) -> None:
    """No trouble with the cache is ever an error."""
    with suppress(OSError, LongtailError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(file, overwrite=True) as handle:
            handle.write(json.dumps(texts).encode())


# what generators have learnt
def kept_arrays(key: str, run: Run) -> Arrays | None:
    """What a generator that was trained on the same documents has learnt, or None."""
    from longtail.keep.safetensors import read_kept

    folder = kept_folder(run)
    return read_kept(None if folder is None else folder / f"{key}.safetensors")


def keep_arrays(key: str, arrays: Arrays, run: Run) -> None:
    from longtail.keep.safetensors import write_arrays

    folder = kept_folder(run)
    if folder is None:
        return
    with suppress(OSError, LongtailError):
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(folder / f"{key}.safetensors", overwrite=True) as handle:
            write_arrays(handle, arrays)
