"""One fit and the fits nested in it: what is handed down from a pipeline to the last tree or network.

`fit.child("member/1")` is the context of a part inside a part: seeds of its own, titles and a checkpoint folder of its
own. What a nested fit has finished is kept there, so that a run that was killed trains it only once.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import orjson

from longtail.keep.shard_folders import Shard
from longtail.part import Arrays, Part
from longtail.registry import config_of
from longtail.run import Run

if TYPE_CHECKING:
    from longtail.augment.base import Augmenter
    from longtail.corpus import Corpus

#: Nested fits that took fewer seconds are not kept: doing them again is as quick.
KEPT_FROM = 5.0


@dataclass(frozen=True, eq=False)
class Fit:
    """What a part is told when it learns, beside its documents.

    run    seed, threads, progress, hardware, and the folder for checkpoints
    valid  documents to check on, or None
    hooks  augmenters that work inside the fit, for learners that open their spaces
    shard  the share of the labels to keep, for learners that can be trained in shards; None for all
    """

    run: Run = field(default_factory=Run)
    valid: Corpus | None = None
    hooks: Sequence[Augmenter] = ()
    shard: Shard | None = None

    def child(self, name: str, title: str | None = None) -> Fit:
        """A nested fit with seeds, titles and checkpoints of its own; data and hooks are those of this one."""
        return replace(self, run=self.run.child(name, title))

    def apart(self) -> Fit:
        """The same fit with a clock of its own."""
        return replace(self, run=self.run.apart())

    def with_valid(self, valid: Corpus | None) -> Fit:
        return replace(self, valid=valid)

    def with_hooks(self, hooks: Sequence[Augmenter]) -> Fit:
        return replace(self, hooks=tuple(hooks))

    # what a killed run does not do again
    def train(self, part: Any, corpus: Corpus) -> Any:
        """Lets the part learn in this fit, or gives it back what the same fit learnt before it was killed.

        part  has `learn`, `state` and `restore`, and is a `Part` or has a `config`
        """
        if self.run.checkpoints is None:
            part.learn(corpus, self)
            return part
        key = self.key(config_of(part) if isinstance(part, Part) else part.config(), corpus)
        found = self.recall(key)
        if found is not None:
            try:
                with self.run.earlier():
                    part.restore(found)
                return part
            except (ValueError, KeyError):  # damaged in a way that the file format does not show
                pass
        start = time.perf_counter()
        part.learn(corpus, self)
        if time.perf_counter() - start >= KEPT_FROM:
            self.keep(key, part.state())
        return part

    def key(self, what: Any, corpus: Corpus) -> str:
        """A name that only the same work on the same data with the same programs has."""
        hooks = [config_of(hook) for hook in self.hooks]
        programs = [_version(name) for name in ("longtail", "numpy", "numba", "torch")]
        hardware = [self.run.hardware.devices, self.run.hardware.nodes, self.run.hardware.precision]
        parts = [what, hooks, self.run.seed, self.run.workers, programs, hardware, corpus.fingerprint]
        parts.append("" if self.valid is None else self.valid.fingerprint)
        if self.shard is not None:
            parts.append(["shard", *self.shard])
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SERIALIZE_NUMPY)).hexdigest()[:24]

    def recall(self, key: str) -> Arrays | None:
        """The arrays kept under a key, or None; a file that was damaged is as good as none."""
        from longtail.keep.safetensors import read_kept

        return read_kept(self.file(key))

    def keep(self, key: str, arrays: Arrays) -> None:
        """Keeps arrays of a finished piece of work until the whole run is done."""
        from longtail.keep.files import atomic_file
        from longtail.keep.safetensors import write_arrays

        path = self.file(key)
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path, overwrite=True) as handle:
            write_arrays(handle, arrays)

    def file(self, key: str) -> Path | None:
        """Where the arrays of a key are kept, if they are."""
        return None if self.run.checkpoints is None or not key else self.run.checkpoints / f"{key}.finished"

    @classmethod
    def of(cls, run: Run | None = None, valid: Corpus | None = None) -> Self:
        return cls(run or Run(), valid)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
