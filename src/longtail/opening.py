"""Taggers to model directories and back: what of a tagger is written, and how one is made from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from longtail.errors import ModelError, UsageError
from longtail.keep.cache import remember
from longtail.keep.model import Loaded, configuration_of, load_model, reason, restoring, save_model
from longtail.keep.older import has_older_ranknet, modern, outgrown
from longtail.keep.shard_folders import shard_folder, shard_folders
from longtail.part import restoring_checked_arrays
from longtail.registry import check_bounds, check_registered
from longtail.shards import Share, in_shards, joined

if TYPE_CHECKING:
    from longtail.tagger import Tagger

Kind = TypeVar("Kind", bound="Tagger")


def save(tagger: Tagger, path: str | Path, *, overwrite: bool) -> None:
    """Writes a model directory, whole or not at all; that of a shard lies in `path`, beside those of the others."""
    if tagger.rare_ is not None:
        raise UsageError("save the model itself: what favours rare labels is chosen anew at every prediction")
    if in_shards(tagger):
        raise UsageError("this model lies in shards already, and each was saved when it was trained")
    pipeline, config = tagger.pipeline, tagger.config()
    check_registered(pipeline)
    check_bounds(config)
    manifest = {"config": config, "n_features": pipeline.width_, "makes_features": pipeline.features_ is not None}
    if acted := pipeline.acted():
        manifest["acted"] = acted
    if tagger.share_ is not None:
        manifest["shard"] = tagger.share_.to_dict()
        path = shard_folder(path, tagger.share_.shard)
        path.parent.mkdir(parents=True, exist_ok=True)
    states = {stem: part.state() for stem, part in pipeline.fitted_parts().items()}
    labels, threads = tagger.labels_, tagger.threads
    save_model(path, manifest=manifest, labels=labels, states=states, overwrite=overwrite, threads=threads)


def opened(kind: type[Kind], path: str | Path, *, verify: bool, threads: int) -> Kind:
    """The tagger of a model directory, or of a folder with all shards of a model; arguments as of `Tagger.load`."""
    if shards := shard_folders(path):
        whole: Kind = joined(path, [opened(kind, each, verify=verify, threads=threads) for each in shards])
        return whole
    loaded = load_model(path, verify=verify, threads=threads)
    try:
        with _fitting_this_version(path):
            manifest = modern(loaded)
        tagger = _restored(kind, path, replace(loaded, manifest=manifest), threads)
    except (ModelError, UsageError) as error:
        if loaded.outdated or has_older_ranknet(loaded.manifest.get("config")):
            raise outgrown(path, loaded, error) from error
        raise
    if not loaded.checked:
        loaded.let_go()
        remember(loaded.key)
    return tagger


def _restored(kind: type[Kind], path: str | Path, loaded: Loaded, threads: int) -> Kind:
    tagger = _configured(kind, path, loaded.manifest, threads)
    tagger.labels_, tagger.directory_ = loaded.labels, Path(path)
    tagger.share_ = Share.from_manifest(loaded.manifest, path)
    parts = tagger.pipeline.fitted_parts()
    if set(loaded.states) != set(parts):
        raise ModelError(f"{path}: files for {sorted(loaded.states)} where {sorted(parts)} are needed")
    for stem, part in parts.items():
        with restoring(path, stem), restoring_checked_arrays(loaded.checked):
            part.restore(loaded.states[stem])
    with restoring(path, "learner"):
        tagger.pipeline.finish_restoring()
    if (own := tagger.pipeline.n_labels_) != len(tagger.labels_):
        raise ModelError(f"{path}: the learner has {own} labels, the rest of the model has {len(tagger.labels_)}")
    return tagger


def _configured(kind: type[Kind], path: str | Path, manifest: Mapping[str, Any], threads: int) -> Kind:
    """The tagger a manifest describes, its parts not yet fitted; names are looked up in the registry only."""
    with _fitting_this_version(path):
        config, n_features, makes_features = configuration_of(manifest)
        check_bounds(config)
        tagger = kind(**config, threads=threads)
        tagger.pipeline.begin_restoring(makes_features, n_features)
    return tagger


@contextmanager
def _fitting_this_version(path: str | Path) -> Iterator[None]:
    """Around what reads a manifest: whatever is wrong with it is said of the model."""
    try:
        yield
    except KeyError as error:
        raise ModelError(f"{path}: the manifest has no {error}") from None
    except (TypeError, ValueError, UsageError) as error:
        raise ModelError(f"{path}: the manifest does not fit this version of longtail: {reason(error)}") from None
