"""Hugging Face datasets: objects in memory, and folders written by save_to_disk, which need no `datasets` to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from longtail.corpus import Corpus
from longtail.errors import InputError, UsageError, first_line
from longtail.keep.streams import Stream
from longtail.read.columns import BATCH, read_batches
from longtail.read.options import ReadOptions
from longtail.read.reading import Reading
from longtail.read.records import with_columns
from longtail.read.splits import choose_split

#: A description of a dataset is small; anything larger is not one.
_LARGEST_JSON = 1 << 26


def is_dataset(source: object, options: ReadOptions) -> bool:
    """Whether it is a Dataset, an IterableDataset, or a mapping of such."""
    if isinstance(source, Mapping):
        return bool(source) and all(is_dataset(part, options) for part in source.values())
    return hasattr(source, "iter") and hasattr(source, "column_names")


def is_saved_dataset(folder: Path, _: ReadOptions) -> bool:
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


def is_arrow(stream: Stream, _: ReadOptions) -> bool:
    return stream.start.startswith(b"ARROW1")


def read_dataset(dataset: Any, reading: Reading) -> Iterator[Corpus]:
    """A Dataset, or the split of a DatasetDict."""
    options, source = reading.options, reading.report.source
    if isinstance(dataset, Mapping):
        dataset = dataset[choose_split(options, list(dataset), source)]
    elif options.split is not None:
        raise UsageError("a split can be chosen from a DatasetDict or a folder; this is a single Dataset")
    there = dataset.column_names
    if there is None:  # an IterableDataset may not know its columns before it is asked
        there = list(next(iter(dataset), {}))
    columns, reading = with_columns(there, reading, source)
    features = getattr(dataset, "features", None) or {}
    names = _class_names(features, reading.options, names_of_feature)
    chosen = dataset.select_columns(columns)
    if hasattr(chosen, "with_format"):
        chosen = chosen.with_format(None)
    total = len(dataset) if hasattr(dataset, "__len__") else None

    def batches() -> Iterator[dict[str, Any]]:
        with reading.run.bar(reading.title, total) as bar:
            for batch in chosen.iter(batch_size=BATCH):
                bar.advance(len(batch[columns[0]]))
                yield {name: batch[name] for name in columns}

    return read_batches(batches(), reading, names)


def _class_names(
    features: Mapping[str, Any], options: ReadOptions, names_of: Callable[[Any], Sequence[str] | None]
) -> dict[str, Sequence[str]]:
    """Class names of the label fields that are numbers with names."""
    found = {name: names_of(features.get(name)) for name in options.labels_fields}
    return {name: names for name, names in found.items() if names is not None}


def read_saved(folder: Path, reading: Reading) -> Iterator[Corpus]:
    """A folder written by save_to_disk, of a Dataset or of a DatasetDict."""
    options = reading.options
    if (folder / "dataset_dict.json").is_file():
        splits = _json(folder / "dataset_dict.json").get("splits")
        if not isinstance(splits, list) or not all(isinstance(name, str) for name in splits):
            raise InputError(folder / "dataset_dict.json", "there is no list of splits")
        folder = folder / _inside(folder, choose_split(options, splits, str(folder)))
    elif options.split is not None:
        raise UsageError(f"{folder} holds a single dataset, so there is no split to choose")
    state = _json(folder / "state.json")
    if state.get("_indices_data_files"):
        raise InputError(folder, "this dataset was saved with row indices; save it again after flatten_indices()")
    files = state.get("_data_files")
    if not isinstance(files, list) or not files:
        raise InputError(folder / "state.json", "there is no list of data files")
    paths = []
    for entry in files:
        name = entry.get("filename") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise InputError(folder / "state.json", "a data file has no name")
        paths.append(folder / _inside(folder, name))
    features = None
    if (folder / "dataset_info.json").is_file():
        features = _json(folder / "dataset_info.json").get("features")
    return _read_arrow(paths, reading, features if isinstance(features, dict) else {})


def read_arrow_file(path: Path, reading: Reading) -> Iterator[Corpus]:
    """One Arrow file, stream or random-access form."""
    return _read_arrow([path], reading, {})


def _read_arrow(paths: list[Path], reading: Reading, features: Mapping[str, Any]) -> Iterator[Corpus]:
    """Files with the same columns, one after the other."""
    parts = _arrow_parts(paths, reading)
    first = next(parts, None)
    if first is None:
        raise InputError(paths[0], "no documents in the file")
    columns, reading = with_columns(first[1].schema.names, reading, str(first[0]))
    names = _class_names(features, reading.options, _names_of_json)

    def batches() -> Iterator[dict[str, Any]]:
        for path, part in chain([first], parts):
            if not set(columns) <= set(part.schema.names):
                raise InputError(path, f"other columns than in {paths[0]}")
            for start in range(0, part.num_rows, BATCH):
                rows = part.slice(start, BATCH)
                try:
                    yield {name: rows.column(name).to_pylist() for name in columns}
                except _failures() as error:
                    raise InputError(path, f"damaged Arrow data: {first_line(error)}") from None

    return read_batches(batches(), reading, names)


def _arrow_parts(paths: list[Path], reading: Reading) -> Iterator[tuple[Path, Any]]:
    import pyarrow

    total = sum(path.stat().st_size for path in paths if path.is_file())
    with reading.run.bar(reading.title, total) as bar:
        for path in paths:
            if not path.is_file():
                raise InputError(path, "no such file")
            try:
                with pyarrow.memory_map(str(path)) as source:
                    for part in _open_arrow(source):
                        yield path, part
            except _failures() as error:
                raise InputError(path, f"damaged Arrow data: {first_line(error)}") from None
            bar.advance(path.stat().st_size)


def _failures() -> tuple[type[Exception], ...]:
    """What pyarrow raises at data that is not what it says."""
    import pyarrow

    return (pyarrow.ArrowException, OSError, ValueError, KeyError, MemoryError, OverflowError)


def _open_arrow(source: Any) -> Iterator[Any]:
    import pyarrow.ipc

    magic = source.read(6)
    source.seek(0)
    if magic == b"ARROW1":
        with pyarrow.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                part = reader.get_batch(number)
                part.validate(full=True)
                yield part
    else:
        with pyarrow.ipc.open_stream(source) as reader:
            for part in reader:
                part.validate(full=True)
                yield part


def _inside(folder: Path, name: str) -> str:
    """The name if it stays in the folder: a description file must not lead elsewhere."""
    if name in ("", ".", "..") or Path(name).name != name or "\0" in name:
        raise InputError(folder, f"the file name '{name}' leads out of the folder")
    return name


def _json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise InputError(path, "too large for a description of a dataset")
        value = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(path, "no such file") from None
    except (OSError, orjson.JSONDecodeError) as error:
        raise InputError(path, f"cannot be read: {first_line(error)}") from None
    if not isinstance(value, dict):
        raise InputError(path, "not a JSON object")
    return value


def names_of_feature(feature: Any) -> Sequence[str] | None:
    """Class names of a labels column of a dataset object: ClassLabel, or a list of ClassLabel."""
    for _ in range(3):
        if feature is None:
            return None
        names = getattr(feature, "names", None)
        if names:
            return list(names)
        feature = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
    return None


def _names_of_json(feature: Any) -> Sequence[str] | None:
    """The same from dataset_info.json."""
    for _ in range(3):
        if isinstance(feature, list) and feature:
            feature = feature[0]
        if not isinstance(feature, dict):
            return None
        names = feature.get("names")
        if feature.get("_type") == "ClassLabel" and isinstance(names, list):
            return [str(name) for name in names]
        feature = feature.get("feature")
    return None
