"""Model files made to do harm, and models damaged at random: each ends in a ModelError, soon and in little memory."""

from __future__ import annotations

import gc
import hashlib
import io
import json
import os
import pickle
import shutil
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtail.errors import ModelError
from longtail.keep.manifest import manifest_digest
from longtail.keep.model import load_model, save_model
from longtail.keep.safetensors import BLOCK, MOST_ARRAYS, read_arrays, write_arrays
from longtail.labels import LabelIndex

LABELS = LabelIndex(["cats", "dogs", "Zürich"], ["felis", "", "a town"], np.array([3, 0, 12]), 14)
WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)
MANIFEST = {"recipe": {"part": "parabel", "trees": 3}, "seed": 7}
FILES = ["manifest.json", "labels.safetensors", "learner.safetensors"]


def save(directory: Path) -> Path:
    states = {"learner": {"weights": WEIGHTS, "rows": np.arange(3)}}
    save_model(directory, manifest=MANIFEST, labels=LABELS, states=states)
    return directory


def refused(directory: Path) -> str:
    """The complaint, which must come within 2 s and 64 MB and be one line."""
    gc.freeze()  # what other tests left in memory is not for the collector to walk through here
    begin = time.thread_time()
    with pytest.raises(ModelError) as caught:
        load_model(directory)
    spent = time.thread_time() - begin
    gc.unfreeze()
    assert spent < 2
    tracemalloc.start()  # a second time, as tracing is slow
    try:
        with pytest.raises(ModelError):
            load_model(directory)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert message.startswith(str(directory))
    assert "\n" not in message
    assert len(message) < 500
    return message


def forge(directory: Path, change: Callable[[dict[str, Any]], object] = lambda content: None) -> Path:
    """Makes the manifest agree with the files again: an attacker can compute checksums too."""
    content = json.loads((directory / "manifest.json").read_text())
    del content["sha256"]
    for name, entry in content["files"].items():
        data = (directory / name).read_bytes()
        entry["bytes"] = len(data)
        entry["sha256"] = [hashlib.sha256(data[i : i + BLOCK]).hexdigest() for i in range(0, len(data), BLOCK)]
    change(content)
    content["sha256"] = manifest_digest(content)
    (directory / "manifest.json").write_text(json.dumps(content))
    return directory


def with_header(header: Any, data: bytes = b"") -> bytes:
    packed = header if isinstance(header, bytes) else json.dumps(header).encode()
    packed += b" " * (-len(packed) % 8)
    return struct.pack("<Q", len(packed)) + packed + data


def entry(dtype: Any = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_forged_models_load_when_nothing_else_is_wrong(tmp_path: Path) -> None:
    """The other tests would prove nothing if `forge` itself were refused."""
    model = save(tmp_path / "model")
    (model / "learner.safetensors").write_bytes(with_header({"a": entry()}, b"\0\0\0\0"))
    assert load_model(forge(model)).states["learner"]["a"].tolist() == [0.0]


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("exploded"),))


HOSTILE_ARRAYS = {
    "pickle": pickle.dumps(Bomb()),
    "npy with pickle": b"\x93NUMPY\x01\x00" + pickle.dumps(Bomb()),
    "empty": b"",
    "seven bytes": b"\0" * 7,
    "header longer than the file": struct.pack("<Q", 1000) + b"{}",
    "header of 2^63 bytes": struct.pack("<Q", 1 << 63) + b"{}",
    "header of 3 MB": with_header(b"{" + b" " * (3 << 20) + b"}"),
    "10^6 entries": with_header(
        b"{" + b",".join(b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % i for i in range(10**6)) + b"}"
    ),
    "more entries than allowed, within the size allowed": with_header(
        {str(i): entry("U8", [0], [0, 0]) for i in range(MOST_ARRAYS + 1)}
    ),
    "a million lists": with_header(b"[" + b"[]," * 600_000 + b"[]]"),
    "nested too deeply": with_header(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "lists nested too deeply": with_header(b"[" * 1_000_000),
    "key twice": with_header(b'{"a":%s,"a":%s}' % ((json.dumps(entry()).encode(),) * 2), b"\0" * 4),
    "key twice within an entry": with_header(
        b'{"a":{"dtype":"U8","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', b"\0" * 4
    ),
    "NaN": with_header(b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}', b"\0" * 4),
    "infinity": with_header(b'{"a":{"dtype":"F32","shape":[1e999],"data_offsets":[0,4]}}', b"\0" * 4),
    "not UTF-8": with_header(b'{"\xff":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
    "half a character": with_header(b'{"\\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
    "not an object": with_header([1, 2]),
    "entry not an object": with_header({"a": [1]}),
    "entry with more keys": with_header({"a": {**entry(), "code": "import os"}}, b"\0" * 4),
    "entry without offsets": with_header({"a": {"dtype": "F32", "shape": [1]}}, b"\0" * 4),
    "unknown type": with_header({"a": entry("O")}, b"\0" * 4),
    "type no string": with_header({"a": entry({"F32": 1})}, b"\0" * 4),
    "negative side": with_header({"a": entry(shape=[-1])}, b"\0" * 4),
    "two negative sides": with_header({"a": entry(shape=[-1, -1])}, b"\0" * 4),
    "side no number": with_header({"a": entry(shape=["1"])}, b"\0" * 4),
    "side true": with_header({"a": entry(shape=[True])}, b"\0" * 4),
    "side 1.0": with_header({"a": entry(shape=[1.0])}, b"\0" * 4),
    "shape no list": with_header({"a": entry(shape=1)}, b"\0" * 4),
    "product wraps to 4 bytes": with_header({"a": entry(shape=[(1 << 62) + 1])}, b"\0" * 4),
    "product wraps to 0 bytes": with_header({"a": entry(shape=[1 << 32, 1 << 32], offsets=[0, 0])}),
    "empty but endless": with_header({"a": entry(shape=[0, 1 << 61], offsets=[0, 0])}),
    "number of 4000 digits": with_header({"a": entry(shape=[10**4000])}, b"\0" * 4),
    "number of 5000 digits": with_header(b'{"a":%s}' % (b"9" * 5000)),
    "a thousand dimensions": with_header({"a": entry(shape=[1] * 1000)}, b"\0" * 4),
    "shape larger than its span": with_header({"a": entry(shape=[2])}, b"\0" * 4),
    "terabytes declared": with_header({"a": entry(shape=[1 << 40], offsets=[0, 4 << 40])}, b"\0" * 4),
    "offsets backwards": with_header({"a": entry(offsets=[4, 0])}, b"\0" * 4),
    "negative offset": with_header({"a": entry(offsets=[-4, 0])}, b"\0" * 4),
    "three offsets": with_header({"a": entry(offsets=[0, 4, 8])}, b"\0" * 4),
    "overlap": with_header({"a": entry(offsets=[0, 4]), "b": entry(offsets=[2, 6])}, b"\0" * 6),
    "same span twice": with_header({"a": entry(), "b": entry()}, b"\0" * 4),
    "gap": with_header({"a": entry(), "b": entry(offsets=[8, 12])}, b"\0" * 12),
    "gap at the start": with_header({"a": entry(offsets=[4, 8])}, b"\0" * 8),
    "past the end": with_header({"a": entry(shape=[2], offsets=[0, 8])}, b"\0" * 4),
    "bytes at the end": with_header({"a": entry()}, b"\0" * 8),
    "not aligned": with_header({"a": entry("U8", [1], [0, 1]), "b": entry(offsets=[1, 5])}, b"\0" * 5),
    "not a number": with_header({"a": entry("F32", [1], [0, 4])}, struct.pack("<f", float("nan"))),
    "endless": with_header({"a": entry("F64", [1], [0, 8])}, struct.pack("<d", float("-inf"))),
    "truth value 2": with_header({"a": entry("BOOL", [1], [0, 1])}, b"\2"),
}


def test_what_would_not_be_read_back_is_not_written() -> None:
    """A header full of brackets is refused unparsed, so names must not bring them."""
    with pytest.raises(ValueError, match="brackets"):
        write_arrays(io.BytesIO(), {"[" * 50_000: np.zeros(1)})


@pytest.mark.parametrize("attack", HOSTILE_ARRAYS)
def test_hostile_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: str) -> None:
    monkeypatch.chdir(tmp_path)
    model = save(tmp_path / "model")
    (model / "learner.safetensors").write_bytes(HOSTILE_ARRAYS[attack])
    assert "learner.safetensors" in refused(forge(model))
    assert not Path("exploded").exists()


def listed(name: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        content["files"][name] = content["files"].pop("learner.safetensors")

    return change


HOSTILE_MANIFESTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "name that climbs": listed("../learner.safetensors"),
    "absolute name": listed("/etc/passwd"),
    "name in a folder": listed("folder/learner.safetensors"),
    "name with a zero byte": listed("learner\0.safetensors"),
    "name with a line end": listed("learner\n.safetensors"),
    "dots": listed(".."),
    "hidden name": listed(".safetensors"),
    "name with a backslash": listed("..\\learner.safetensors"),
    "other kind of file": listed("learner.pkl"),
    "its own name": listed("manifest.json"),
    "no files": lambda content: content.pop("files"),
    "files a list": lambda content: content.update(files=[]),
    "no labels file": lambda content: content["files"].pop("labels.safetensors"),
    "10^4 files": lambda content: content["files"].update({f"f{i}.safetensors": {} for i in range(10**4)}),
    "size below zero": lambda content: content["files"]["learner.safetensors"].update(bytes=-1),
    "size no number": lambda content: content["files"]["learner.safetensors"].update(bytes="8"),
    "size endless": lambda content: content["files"]["learner.safetensors"].update(bytes=10**30),
    "checksum missing": lambda content: content["files"]["learner.safetensors"].pop("sha256"),
    "no checksums": lambda content: content["files"]["learner.safetensors"].update(sha256=[]),
    "checksums no strings": lambda content: content["files"]["learner.safetensors"].update(sha256=[None]),
    "entry no object": lambda content: content["files"].update({"learner.safetensors": 3}),
    "labels no object": lambda content: content.update(labels=3),
    "count endless": lambda content: content["labels"].update(count=10**15),
    "count one more": lambda content: content["labels"].update(count=4),
    "count below zero": lambda content: content["labels"].update(count=-3),
    "documents no number": lambda content: content["labels"].update(documents="many"),
    "texts no truth value": lambda content: content["labels"].update(texts=1),
    "model no object": lambda content: content.update(model=[1]),
    "no library": lambda content: content.pop("library"),
    "library no version": lambda content: content.update(library="0.1.0\n\x1b[2J"),
    "library endless": lambda content: content.update(library="1" * 10**6),
    "other format": lambda content: content.update(format="other-model"),
    "version true": lambda content: content.update(format_version=True),
    "version 0": lambda content: content.update(format_version=0),
    "version endless": lambda content: content.update(format_version=10**1000),
    "version a text": lambda content: content.update(format_version="1\n2"),
}


@pytest.mark.parametrize("attack", HOSTILE_MANIFESTS)
def test_hostile_manifests(tmp_path: Path, attack: str) -> None:
    refused(forge(save(tmp_path / "model"), HOSTILE_MANIFESTS[attack]))


HOSTILE_TEXTS = {
    "empty": b"",
    "not JSON": b"manifest",
    "pickle": pickle.dumps(Bomb()),
    "NaN": b'{"format": "longtail-model", "format_version": NaN}',
    "minus infinity": b'{"format": "longtail-model", "x": -Infinity}',
    "nested too deeply": b'{"format": ' + b"[" * 500_000,
    "nested too deeply, well formed": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "key twice": b'{"format": "other", "format": "longtail-model", "format_version": 1}',
    "too long": b'{"format": "longtail-model", "x": "' + b"x" * (3 << 20) + b'"}',
    "10^6 entries": b"{" + b",".join(b'"%d":1' % i for i in range(10**6)) + b"}",
    "10^5 entries within the size": b"{" + b",".join(b'"%d":{}' % i for i in range(10**5)) + b"}",
    "not UTF-8": b'{"format": "\xff"}',
    "a list": b"[]",
}


@pytest.mark.parametrize("attack", HOSTILE_TEXTS)
def test_hostile_manifest_texts(tmp_path: Path, attack: str) -> None:
    model = save(tmp_path / "model")
    (model / "manifest.json").write_bytes(HOSTILE_TEXTS[attack])
    assert "manifest.json" in refused(model)


HOSTILE_LINES = {
    "missing": b"",
    "too few": b'{"label":"cats","count":3}\n',
    "no line end": b'{"label":"cats","count":3}\n{"label":"dogs","count":0}\n{"label":"c","count":12}',
    "bare line ends": b"\n" * 3,
    "millions of line ends": b"\n" * (8 << 20),
    "not JSON": b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n" * 3,
    "lists": b"[1,2,3,4,5,6,7,8,9,10,11,12,13]\n" * 3,
    "strings": b'"a string that is long enough"\n' * 3,
    "label twice": b'{"label":"cats","count":3}\n' * 3,
    "empty label": b'{"label":"","count":3       }\n{"label":"b","count":3}\n{"label":"c","count":3}\n',
    "label a number": b'{"label":1,"count":3       }\n{"label":"b","count":3}\n{"label":"c","count":3}\n',
    "text a number": b'{"label":"a","count":3,"text":1}\n{"label":"b","count":3}\n{"label":"c","count":3}\n',
    "count missing": b'{"label":"a","text":"felis"}\n{"label":"b","count":3}\n{"label":"c","count":3}\n',
    "count negative": b'{"label":"a","count":-1}\n{"label":"b","count":3}\n{"label":"c","count":3}\n',
    "count a fraction": b'{"label":"a","count":1.5}\n{"label":"b","count":3}\n{"label":"c","count":3}\n',
    "count true": b'{"label":"a","count":true}\n{"label":"b","count":3}\n{"label":"c","count":3}\n',
    "count endless": b'{"label":"a","count":18446744073709551615}\n{"label":"b","count":3}\n{"label":"c","count":3}\n',
    "two on one line": b'{"label":"a","count":1},{"label":"b","count":3}\n{"label":"c","count":3}\n{"label":"d"}\n',
    "nested too deeply": (b'{"label":' + b"[" * 100_000 + b"\n") * 3,
    "not UTF-8": b'{"label":"\xff","count":1}\n{"label":"b","count":3}\n{"label":"c","count":3}\n',
}


@pytest.mark.parametrize("attack", HOSTILE_LINES)
def test_hostile_lines_of_labels(tmp_path: Path, attack: str) -> None:
    """Formats 1 and 2 keep labels as JSON, line by line."""
    model = save(tmp_path / "model")
    (model / "labels.safetensors").unlink()
    (model / "labels.jsonl").write_bytes(HOSTILE_LINES[attack])
    content = json.loads((model / "manifest.json").read_text())
    content["files"]["labels.jsonl"] = content["files"].pop("labels.safetensors")
    (model / "manifest.json").write_text(json.dumps(content | {"format_version": 2}))
    assert "labels.jsonl" in refused(forge(model))


def offsets(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.int64)


HOSTILE_LABELS: dict[str, dict[str, Any]] = {
    "no names": {"names": None},
    "no texts": {"texts": None},
    "one array more": {"extra": np.zeros(3)},
    "too few names": {"names_offsets": offsets(0, 4, 15)},
    "too many names": {"names_offsets": offsets(0, 4, 8, 14, 15)},
    "no offsets": {"names_offsets": offsets()},
    "too few texts": {"texts_offsets": offsets(0, 11)},
    "too few counts": {"counts": offsets(3, 0)},
    "count negative": {"counts": offsets(3, -1, 12)},
    "count endless": {"counts": offsets(3, 0, 2**62)},
    "counts of another type": {"counts": np.array([3.0, 0.0, 12.0])},
    "names of another type": {"names": np.zeros(15, dtype=np.int8)},
    "names a table": {"names": np.zeros((3, 5), dtype=np.uint8)},
    "offsets of another type": {"names_offsets": np.array([0, 4, 8, 15], dtype=np.int32)},
    "empty name": {"names_offsets": offsets(0, 0, 8, 15)},
    "falling offsets": {"names_offsets": offsets(0, 8, 4, 15)},
    "offsets before the names": {"names_offsets": offsets(-4, 4, 8, 15)},
    "offsets that begin late": {"names_offsets": offsets(1, 4, 8, 15)},
    "offsets behind the names": {"names_offsets": offsets(0, 4, 8, 1 << 60)},
    "offsets that end early": {"names_offsets": offsets(0, 4, 8, 14)},
    "name twice": {"names": np.frombuffer(b"catscatsZ\xc3\xbcrich", dtype=np.uint8)},
    "names not UTF-8": {"names": np.frombuffer(b"catsdogsZ\xff\xfcrich", dtype=np.uint8)},
    "texts not UTF-8": {"texts": np.frombuffer(b"\xed\xa0\x80lis a town"[:11], dtype=np.uint8)},
    "a character cut in two": {"names_offsets": offsets(0, 4, 10, 15)},
}


@pytest.mark.parametrize("attack", HOSTILE_LABELS)
def test_hostile_labels(tmp_path: Path, attack: str) -> None:
    model = save(tmp_path / "model")
    arrays = read_arrays((model / "labels.safetensors").read_bytes(), "labels") | HOSTILE_LABELS[attack]
    with (model / "labels.safetensors").open("wb") as handle:
        write_arrays(handle, {name: array for name, array in arrays.items() if array is not None})
    assert "labels.safetensors" in refused(forge(model))


@pytest.mark.parametrize("name", FILES)
def test_links_are_refused(tmp_path: Path, name: str) -> None:
    model = save(tmp_path / "model")
    (model / name).rename(tmp_path / "elsewhere")
    (model / name).symlink_to(tmp_path / "elsewhere")
    assert f"{name} is a link" in refused(model)
    (model / name).unlink()
    (model / name).symlink_to("/dev/zero")
    assert f"{name} is a link" in refused(model)


@pytest.mark.parametrize("name", FILES)
def test_pipes_and_directories_are_refused_without_waiting(tmp_path: Path, name: str) -> None:
    model = save(tmp_path / "model")
    (model / name).unlink()
    if hasattr(os, "mkfifo"):
        os.mkfifo(model / name)
        assert "not a plain file" in refused(model)
        (model / name).unlink()
    (model / name).mkdir()
    refused(model)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("whole") / "model")


def assert_refused_or_the_same(directory: Path) -> None:
    """A change that means nothing (white space in the manifest) may pass; a different model may not."""
    try:
        loaded = load_model(directory)
    except ModelError:
        return
    assert loaded.manifest == MANIFEST
    assert list(loaded.labels.names) == list(LABELS.names)
    assert loaded.labels.texts == LABELS.texts
    assert loaded.labels.frequency.tolist() == LABELS.frequency.tolist()
    assert loaded.labels.documents == LABELS.documents
    assert set(loaded.states) == {"learner"}
    assert loaded.states["learner"].keys() == {"weights", "rows"}
    np.testing.assert_array_equal(loaded.states["learner"]["weights"], WEIGHTS)
    np.testing.assert_array_equal(loaded.states["learner"]["rows"], np.arange(3))


@pytest.mark.parametrize("name", FILES)
def test_truncation_at_every_byte(whole: Path, tmp_path: Path, name: str) -> None:
    model = Path(shutil.copytree(whole, tmp_path / "model"))
    data = (model / name).read_bytes()
    for size in range(len(data)):
        (model / name).write_bytes(data[:size])
        if name == "manifest.json" and size == len(data) - 1:
            load_model(model)  # only the line end is gone
            continue
        with pytest.raises(ModelError):
            load_model(model)


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit(whole: Path, tmp_path: Path, name: str) -> None:
    model = Path(shutil.copytree(whole, tmp_path / "model"))
    data = (model / name).read_bytes()
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position * 5 % 8)
        (model / name).write_bytes(flipped)
        assert_refused_or_the_same(model)
        if name != "manifest.json":
            with pytest.raises(ModelError, match="was altered: its checksum differs"):
                load_model(model)


changes = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=4)), min_size=1, max_size=4)


@settings(max_examples=150, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), changes=changes)
def test_bytes_put_in_anywhere(whole: Path, tmp_path: Path, name: str, changes: list[tuple[float, bytes]]) -> None:
    model = tmp_path / "model"
    shutil.copytree(whole, model, dirs_exist_ok=True)
    data = bytearray((whole / name).read_bytes())
    for place, new in changes:
        begin = int(place * len(data))
        data[begin : begin + len(new)] = new
    (model / name).write_bytes(data)
    assert_refused_or_the_same(model)


header_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["F32", "U8", "BOOL", "I64", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=2000)
@given(
    header=st.dictionaries(
        st.text(max_size=3),
        st.fixed_dictionaries(
            {
                "dtype": st.sampled_from(["F32", "U8", "BOOL", "I64"]) | header_values,
                "shape": st.lists(st.integers(-1, 3), max_size=3) | header_values,
                "data_offsets": st.lists(st.integers(-1, 24), min_size=2, max_size=2) | header_values,
            }
        )
        | header_values,
        max_size=3,
    ),
    data=st.binary(max_size=24),
)
def test_any_header_gives_arrays_within_the_data_or_an_error(header: Any, data: bytes) -> None:
    """Structure alone, without the checksums in the way."""
    try:
        arrays = read_arrays(with_header(header, data), "x")
    except ModelError as error:
        assert "\n" not in str(error)
    else:
        assert sum(array.nbytes for array in arrays.values()) == len(data)


@settings(max_examples=200, deadline=2000)
@given(data=st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    with pytest.raises(ModelError):
        read_arrays(data, "x")
