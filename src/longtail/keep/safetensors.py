"""Reading files nobody vouches for: strict JSON, and safetensors as read-only views of a memory map.

Every count, size and offset is checked against a bound before anything of that size is allocated, and nothing in a
file can name code to run. All complaints are `ModelError`s that begin with `where`, the file as the user knows it.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from longtail.errors import LongtailError, ModelError

#: Bounds on what a file may declare. Real models stay far below: a tree ensemble has tens of arrays.
MOST_HEADER_BYTES = 2 << 20
MOST_ARRAYS = 10_000
MOST_DIMENSIONS = 32
#: Opening brackets in a header: three per array and some to spare. Counting them takes no time; a parsed million does.
MOST_BRACKETS = 4 * MOST_ARRAYS

#: Array data starts at a multiple of this many bytes, so that vector instructions find it aligned.
ALIGNMENT = 64

#: What is written and hashed in one go.
BLOCK = 32 << 20

_DTYPES = {
    "BOOL": np.dtype("?"),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
}
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def strict_json(data: bytes | memoryview, where: str) -> Any:
    """The JSON value, without the freedoms that hide things: no key twice, no NaN or infinity, no
    bytes that are not text, no endless nesting."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ValueError(f"the key {_quoted(key)} stands twice")
            found[key] = value
        return found

    def finite(digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            raise ValueError(f"{digits[:60]} is not a finite number")
        return number

    try:
        text = bytes(data).decode("utf-8")
        found = json.loads(text, object_pairs_hook=unique, parse_float=finite, parse_constant=finite)
        if "\\u" in text:  # half of a surrogate pair is no character: nothing could print it
            json.dumps(found, ensure_ascii=False).encode("utf-8")
        return found
    except RecursionError:
        raise ModelError(f"{where} is not valid: it is nested too deeply") from None
    except UnicodeError:
        raise ModelError(f"{where} is not valid: it is not UTF-8 text") from None
    except ValueError as error:
        raise ModelError(f"{where} is not valid JSON: {error}") from None


def read_arrays(data: mmap.mmap | bytes, where: str) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file as read-only views of its bytes; nothing is copied.

    The arrays must lie back to back from the end of the header to the end of the file, each aligned to its type.
    """
    size = len(data)
    if size < 8:
        raise ModelError(f"{where} is not a safetensors file: it has only {size} bytes")
    header_bytes = int.from_bytes(data[:8], "little")
    if header_bytes > min(MOST_HEADER_BYTES, size - 8):
        raise ModelError(f"{where} is not a safetensors file: its header would take {header_bytes} bytes")
    packed = data[8 : 8 + header_bytes]
    if _brackets(packed) > MOST_BRACKETS:
        raise ModelError(f"{where} is not a safetensors file: its header has more than {MOST_BRACKETS} brackets")
    header = strict_json(packed, where)
    if not isinstance(header, dict):
        raise ModelError(f"{where} is not a safetensors file: its header is not an object")
    header.pop("__metadata__", None)
    if len(header) > MOST_ARRAYS:
        raise ModelError(f"{where} declares {len(header)} arrays; at most {MOST_ARRAYS} are read")
    start = 8 + header_bytes
    spans = sorted((*_checked(name, entry, where), name) for name, entry in header.items())
    expected = 0
    arrays = {}
    for begin, end, dtype, shape, name in spans:
        if begin != expected:
            raise ModelError(f"{where}: array {_quoted(name)} begins at {begin}, the one before ends at {expected}")
        if end > size - start:
            raise ModelError(f"{where}: array {_quoted(name)} ends at {end}, the data at {size - start}")
        expected = end
        arrays[name] = _view(data, start + begin, np.dtype(dtype), shape, f"{where}: array {_quoted(name)}")
    if expected != size - start:
        raise ModelError(f"{where}: {size - start - expected} bytes at its end belong to no array")
    return arrays


def read_file(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file, mapped into memory."""
    with path.open("rb") as handle:
        return read_arrays(mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ), str(path))


def read_kept(path: Path | None) -> dict[str, NDArray[Any]] | None:
    """The arrays of a file on which nothing but time depends: None where there is none, or a damaged one."""
    try:
        return None if path is None or not path.exists() else read_file(path)
    except (LongtailError, OSError):
        return None


def write_arrays(handle: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes a safetensors file: the header, then the arrays by falling alignment and by name, back to back.

    Data go straight from the arrays to the handle. Equal arrays give equal bytes.
    """
    if len(arrays) > MOST_ARRAYS:
        raise ValueError(f"{len(arrays)} arrays in one file; at most {MOST_ARRAYS} are read back")
    ready = {name: _portable(name, array) for name, array in arrays.items()}
    order = sorted(ready, key=lambda name: (-ready[name].itemsize, name))
    header, begin = {}, 0
    for name in order:
        array = ready[name]
        end = begin + array.nbytes
        header[name] = {
            "dtype": _DTYPE_NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    packed = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    packed += b" " * (-(8 + len(packed)) % ALIGNMENT)
    if len(packed) > MOST_HEADER_BYTES:
        raise ValueError(f"the names of the arrays take {len(packed)} bytes; at most {MOST_HEADER_BYTES} are read back")
    if _brackets(packed) > MOST_BRACKETS:
        raise ValueError(f"the names of the arrays have brackets; at most {MOST_BRACKETS} are read back")
    handle.write(len(packed).to_bytes(8, "little"))
    handle.write(packed)
    for name in order:
        content = ready[name].reshape(-1).view(np.uint8)
        for position in range(0, len(content), BLOCK):
            handle.write(content[position : position + BLOCK].data)


def _brackets(header: bytes) -> int:
    return header.count(b"[") + header.count(b"{")


def _portable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array in C order and little-endian, itself if it is so already."""
    array = np.asarray(array, order="C")
    dtype = array.dtype.newbyteorder("<")
    if not name or name == "__metadata__" or dtype not in _DTYPE_NAMES:
        raise ValueError(f"array {name!r} of type {array.dtype} cannot be kept in a model file")
    return array.astype(dtype, copy=False)


def _checked(name: str, entry: Any, where: str) -> tuple[int, int, str, tuple[int, ...]]:
    """begin, end, dtype and shape of one header entry, checked against each other."""
    what = f"{where}: array {_quoted(name)}"
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ModelError(f"{what} is not declared by dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in _DTYPES:
        raise ModelError(f"{what} has the unknown type {_quoted(kind)}")
    dtype = _DTYPES[kind]
    if not _are_whole_numbers(shape, MOST_DIMENSIONS):
        raise ModelError(f"{what} has the impossible shape {_quoted(shape)}")
    if not _are_whole_numbers(offsets, 2) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ModelError(f"{what} has the impossible offsets {_quoted(offsets)}")
    # Python's integers do not overflow; an empty array may still declare sides that numpy cannot address.
    if math.prod(side or 1 for side in shape) * dtype.itemsize >= 1 << 62:
        raise ModelError(f"{what} has the impossible shape {_quoted(shape)}")
    begin, end = offsets
    if math.prod(shape) * dtype.itemsize != end - begin:
        raise ModelError(f"{what} of shape {_quoted(shape)} and type {kind} does not take {end - begin} bytes")
    return begin, end, dtype.str, tuple(shape)


def _are_whole_numbers(values: Any, most: int) -> bool:
    """Whether it is a list of at most `most` whole numbers that fit 62 bits."""
    return isinstance(values, list) and len(values) <= most and all(type(v) is int and 0 <= v < 1 << 62 for v in values)


def _view(
    data: mmap.mmap | bytes, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...], what: str
) -> NDArray[Any]:
    count = math.prod(shape)
    if count == 0:
        array = np.empty(shape, dtype)
        array.flags.writeable = False
        return array
    if offset % dtype.itemsize:
        raise ModelError(f"{what} is not aligned to its type")
    if dtype == np.bool_ and np.frombuffer(data, np.uint8, count, offset).max() > 1:
        raise ModelError(f"{what} has truth values other than 0 and 1")
    return np.frombuffer(data, dtype, count, offset).reshape(shape)


def _quoted(value: Any) -> str:
    """A value from the file, short enough for a message."""
    text = value if isinstance(value, str) else "?" if _bulky(value) else json.dumps(value)
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _bulky(value: Any) -> bool:
    """Whether writing a value out could take long: numbers of thousands of digits, deep or long lists."""
    if isinstance(value, int):
        return abs(value) >= 1 << 64
    if isinstance(value, list):
        return len(value) > MOST_DIMENSIONS or any(isinstance(v, list | dict) or _bulky(v) for v in value)
    return isinstance(value, dict)
