"""Models in shards, each with a share of the labels, and models that other processes open to score.

A model in shards is a folder with one model directory per shard, shard-1-of-2 and so on. Opened as one it is searched
shard by shard and the lists are put together; with an engine of several machines, each shard is searched by processes
that open that shard only.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.errors import ModelError, UsageError
from longtail.keep.shard_folders import Shard, shard_folders
from longtail.learners.linear.base import LinearLearner
from longtail.learners.linear.shards import Lists, merged
from longtail.learners.pipeline import Pipeline
from longtail.registry import name_of
from longtail.run import Run
from longtail.scores import Scores

if TYPE_CHECKING:
    from longtail.tagger import Tagger

#: Documents that another process scores in one task.
SENT = 2048

_DIGEST = re.compile(r"[0-9a-f]{1,128}")


class Share(NamedTuple):
    """Which shard a model is; corpus  the fingerprint of what all shards are trained on"""

    shard: Shard
    corpus: str

    def to_dict(self) -> dict[str, Any]:
        return {"number": self.shard.number, "count": self.shard.total, "corpus": self.corpus}

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any], path: str | Path) -> Share | None:
        kept = manifest.get("shard")
        if kept is None:
            return None
        if not isinstance(kept, dict) or set(kept) != {"number", "count", "corpus"}:
            raise ModelError(f"{path}: the manifest names a shard without number, count and corpus")
        number, count, corpus = kept["number"], kept["count"], kept["corpus"]
        whole = type(number) is int and type(count) is int and 1 <= number <= count < 1_000_000
        if not whole or not isinstance(corpus, str) or not _DIGEST.fullmatch(corpus):
            raise ModelError(f"{path}: the manifest names a shard that cannot be")
        return cls(Shard(number, count), corpus)


# training
def check_shard(pipeline: Pipeline, shard: Shard | None) -> None:
    """Refuses parts that cannot be trained on a share of the labels."""
    if shard is None:
        return
    if not pipeline.learner.capabilities.shards:
        raise UsageError(
            f"'{name_of(pipeline.learner)}' cannot be trained in shards; bonsai, parabel and one-vs-all can"
        )
    for part in [*pipeline.augment, *pipeline.rerank]:
        if part.capabilities.judge or part.capabilities.learns:
            raise UsageError(f"'{name_of(part)}' asks a model of all labels, and a shard has only some of them")


# opening
def joined(path: str | Path, taggers: Sequence[Tagger]) -> Any:
    """The first of the taggers, which has the others beside it and scores with all of them."""
    first = taggers[0]
    for number, tagger in enumerate(taggers, 1):
        share = tagger.share_
        if share is None or share.shard != (number, len(taggers)):
            raise ModelError(f"{path}: shard-{number}-of-{len(taggers)} holds another model")
        assert first.share_ is not None
        if tagger.config() != first.config() or share.corpus != first.share_.corpus:
            raise ModelError(f"{path}: shards 1 and {number} were trained with other options or on other documents")
    learners = [tagger.learner for tagger in taggers]
    cast(LinearLearner, first.learner).shards_ = cast(list[LinearLearner], learners)
    first.directory_, first.share_ = Path(path), None
    return first


def in_shards(tagger: Tagger) -> bool:
    return bool(getattr(tagger.learner, "shards_", ()))


# scoring elsewhere
class _Asked(NamedTuple):
    """What other processes do: open a model by this function, and find so many labels.

    rare  strength of inverse propensity where it is not the model's own
    """

    open: Callable[..., Tagger]
    k: int
    rare: float | None = None


class _Documents(NamedTuple):
    """Some documents on their way to another process, and the model directory it is to open."""

    directory: str
    texts: list[str] | None
    X: sp.csr_matrix | None


def score_elsewhere(tagger: Tagger, directory: Path, corpus: Corpus, k: int, run: Run) -> Scores:
    """Scores by the processes of the run's engine, which open the model themselves; those of a shard open that only."""
    directories = shard_folders(directory) or [directory]
    texts, X = corpus.texts, corpus.X
    pieces = [slice(start, start + SENT) for start in range(0, len(corpus), SENT)]
    # shard by shard, so that a process opens few of them
    tasks = [
        _Documents(str(each.absolute()), None if texts is None else list(texts[piece]), None if X is None else X[piece])
        for each in directories
        for piece in pieces
    ]
    pipeline, opened = tagger.pipeline, type(tagger).load
    if not in_shards(tagger):
        return Scores.stacked(run.map_shared(_score_rows, _Asked(opened, k, tagger.rare_), tasks, title="Scoring"), k)
    wide = max(k, pipeline.depth)
    lists = run.map_shared(_list_rows, _Asked(opened, wide), tasks, title="Scoring")
    found = [merged(lists[p :: len(pieces)], wide, pipeline.n_labels_) for p in range(len(pieces))]
    return pipeline.reranked(Scores.stacked(found, wide), corpus, k).top(k)


def _score_rows(asked: _Asked, documents: _Documents) -> Scores:
    tagger = _opened(asked.open, documents.directory)
    if asked.rare is not None:
        tagger = tagger.favouring_rare(asked.rare)
    return tagger.score(_corpus(tagger, documents), asked.k)


def _list_rows(asked: _Asked, documents: _Documents) -> Lists:
    tagger = _opened(asked.open, documents.directory)
    corpus = tagger.pipeline.with_features(_corpus(tagger, documents), Run(threads=1))
    learner = cast(LinearLearner, tagger.learner)
    return learner.lists(learner.rows_of(corpus), 0, len(corpus), asked.k)


def _corpus(tagger: Tagger, documents: _Documents) -> Corpus:
    texts, X = documents.texts, documents.X
    count = len(texts) if texts is not None else cast(sp.csr_matrix, X).shape[0]
    return Corpus.unlabelled(tagger.labels_, count, texts=texts, X=X, name="the documents")


@lru_cache(maxsize=1)
def _opened(load: Callable[..., Tagger], directory: str) -> Tagger:
    """The model, which the process that asks has verified; its files are mapped, once for all on one machine."""
    try:
        return load(directory, verify=False, threads=1)
    except ModelError as error:
        raise ModelError(f"{error} (on {platform.node()}: every machine must see the model under this path)") from None
