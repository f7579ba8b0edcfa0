"""Opening data files: gzip and zstd seen by content, read as a stream, lines counted from 1."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self

from longtail.errors import InputError

if TYPE_CHECKING:
    from longtail.run import Bar

#: Bytes read, and at most unpacked, at a time.
CHUNK = 1 << 20

#: zstd has no bound on what one call unpacks, but a slice of this size cannot become more than about 128 MB.
ZSTD_SLICE = 1 << 12

#: A line above this is a file that is not what it says, or an attack on memory.
LONGEST_LINE = 1 << 28

#: Bytes kept for a look at the content before reading.
HEAD = 1 << 16

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_UTF8_MARK = b"\xef\xbb\xbf"
_REFUSED = {
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"BZh": "compressed with bzip2; use gzip or zstd",
    b"\xfd7zXZ": "compressed with xz; use gzip or zstd",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
}


class Stream:
    """A file's unpacked bytes, once, in order.

    name  how the file is called in messages
    size  bytes on disk, or None where that is unknown
    head  the first unpacked bytes, for finding out the format; they are part of `chunks` all the same
    bar   is advanced by the bytes taken from disk
    """

    def __init__(self, raw: BinaryIO, name: str, size: int | None = None) -> None:
        self._raw, self.name, self.size = raw, name, size
        self._bar: Bar | None = None
        self._unreported = 0
        first = self._take()
        for magic, what in _REFUSED.items():
            if first.startswith(magic):
                raise InputError(name, f"this is {what}")
        blocks = self._blocks(first)
        if first.startswith(_GZIP):
            blocks = self._gunzip(blocks)
        elif first.startswith(_ZSTD):
            blocks = self._unzstd(blocks)
        self._rest = blocks
        self.head = b""
        self._damage: InputError | None = None  # met while looking ahead; raised where reading comes to it
        try:
            for block in blocks:
                self.head += block
                if len(self.head) >= HEAD:
                    break
        except InputError as error:
            if not self.head:
                raise
            self._damage = error
        self.empty = not self.head.strip()
        if self.head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError(name, "this is UTF-16 text; save it as UTF-8")
        self.head = self.head.removeprefix(_UTF8_MARK)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._raw is not sys.stdin.buffer:
            self._raw.close()

    def _take(self) -> bytes:
        try:
            data = self._raw.read(CHUNK)
        except OSError as error:
            raise InputError(self.name, f"cannot be read: {error.strerror or error}") from None
        self._unreported += len(data)
        self._report()
        return data

    @property
    def first_line(self) -> bytes:
        return self.head.split(b"\n", 1)[0]

    @property
    def bar(self) -> Bar | None:
        return self._bar

    @bar.setter
    def bar(self, bar: Bar) -> None:
        self._bar = bar
        self._report()

    def _report(self) -> None:
        if self._bar is not None and self._unreported:
            self._bar.advance(self._unreported)
            self._unreported = 0

    def _blocks(self, first: bytes) -> Iterator[bytes]:
        while first:
            yield first
            first = self._take()

    def _gunzip(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Members one after the other, as gzip itself reads them; never more than CHUNK bytes at once."""
        unpack = zlib.decompressobj(31)
        for block in blocks:
            data = block
            while data:
                if unpack.eof:
                    data = data.lstrip(b"\0")  # padding after a member, as tape writers leave it
                    if not data:
                        break
                    unpack = zlib.decompressobj(31)
                full = True
                while full and not unpack.eof:
                    try:
                        out = unpack.decompress(data, CHUNK)
                    except zlib.error as error:
                        raise InputError(self.name, f"damaged gzip data ({error})") from None
                    if out:
                        yield out
                    data = unpack.unconsumed_tail
                    full = bool(data) or len(out) == CHUNK
                data = unpack.unused_data if unpack.eof else b""
        if not unpack.eof:
            raise InputError(self.name, "the gzip data ends too early; the file is truncated")

    def _unzstd(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        import zstandard

        factory = zstandard.ZstdDecompressor()
        unpack = factory.decompressobj()
        for block in blocks:
            for start in range(0, len(block), ZSTD_SLICE):
                data = block[start : start + ZSTD_SLICE]
                while data:
                    if unpack.eof:
                        unpack = factory.decompressobj()
                    try:
                        out = unpack.decompress(data)
                    except (zstandard.ZstdError, MemoryError) as error:
                        raise InputError(self.name, f"damaged zstd data ({error})") from None
                    if out:
                        yield out
                    data = unpack.unused_data if unpack.eof else b""
        if not unpack.eof:
            raise InputError(self.name, "the zstd data ends too early; the file is truncated")

    def chunks(self) -> Iterator[bytes]:
        """All unpacked bytes; to be gone through once."""
        if self.head:
            yield self.head
        if self._damage is not None:
            raise self._damage
        yield from self._rest

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Lines without their end, numbered from 1."""
        number = 0
        begun: list[bytes] = []  # pieces of a line that goes on in the next chunk
        length = 0
        try:
            for chunk in self.chunks():
                pieces = chunk.split(b"\n")
                begun.append(pieces[0])
                length += len(pieces[0])
                if length > LONGEST_LINE:
                    raise InputError(self.name, f"a line of more than {LONGEST_LINE >> 20} MB")
                if len(pieces) == 1:
                    continue
                number += 1
                yield number, b"".join(begun)
                for piece in pieces[1:-1]:
                    number += 1
                    yield number, piece
                begun = [pieces[-1]]
                length = len(pieces[-1])
        except InputError as error:
            if error.line is None:
                raise InputError(error.path, error.reason, number + 1) from None
            raise
        last = b"".join(begun)
        if last:
            yield number + 1, last

    def blocks_of_lines(self) -> Iterator[bytes]:
        """Chunks cut after line ends; the last line gets an end if it has none."""
        begun: list[bytes] = []
        length = 0
        for chunk in self.chunks():
            cut = chunk.rfind(b"\n") + 1
            begun.append(chunk[:cut] if cut else chunk)
            length += len(begun[-1])
            if cut:
                yield b"".join(begun)
                begun, length = [chunk[cut:]], len(chunk) - cut
            if length > LONGEST_LINE:
                raise InputError(self.name, f"a line of more than {LONGEST_LINE >> 20} MB")
        last = b"".join(begun)
        if last:
            yield last + b"\n"


def open_stream(path: str | Path) -> Stream:
    """The file as a stream; "-" is standard input."""
    if str(path) == "-":
        return Stream(sys.stdin.buffer, "standard input")
    try:
        raw = Path(path).open("rb")  # noqa: SIM115  the stream closes it
        size = Path(path).stat().st_size or None  # a pipe has none to tell
    except FileNotFoundError:
        raise InputError(path, "no such file") from None
    except IsADirectoryError:
        raise InputError(path, "this is a folder, not a file") from None
    except (OSError, ValueError) as error:
        raise InputError(path, f"cannot be opened: {getattr(error, 'strerror', None) or error}") from None
    try:
        return Stream(raw, str(path), size)
    except BaseException:
        raw.close()
        raise


def decode(line: bytes) -> str:
    """UTF-8 to text; the ValueError says which byte is wrong."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} of the line is not UTF-8 (0x{line[error.start]:02x})") from None


def bare_name(path: str | Path) -> str:
    """The file name in lower case without a compression ending: 'Train.JSONL.gz' is 'train.jsonl'."""
    name = Path(path).name.lower()
    for ending in (".gz", ".gzip", ".zst", ".zstd"):
        name = name.removesuffix(ending)
    return name
