"""Opening data files: gzip, zstd and encodings seen by content, read as a stream of UTF-8, lines counted from 1."""

from __future__ import annotations

import sys
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self

from longtail.errors import InputError
from longtail.keep.encodings import FALLBACK, Encoding, is_utf8, to_utf8

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
_REFUSED = {
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"BZh": "compressed with bzip2; use gzip or zstd",
    b"\xfd7zXZ": "compressed with xz; use gzip or zstd",
    b"7z\xbc\xaf": "a 7z archive; unpack it first",
    b"\xd0\xcf\x11\xe0": "an old or locked Office file; save it as .xlsx or CSV, without a password",
}


class Stream:
    """A file's unpacked bytes, once, in order, as UTF-8.

    name      how the file is called in messages
    size      bytes on disk, or None where that is unknown
    start     the first unpacked bytes as they stand in the file, for formats that are no text
    head      the first unpacked bytes of the text, for finding out the format; they are part of `chunks` all the same
    encoding  the text's encoding in the file
    bar       is advanced by the bytes taken from disk
    """

    def __init__(
        self,
        raw: BinaryIO,
        name: str,
        size: int | None = None,
        encoding: str | None = "utf-8",
        fallback: str = FALLBACK,
    ) -> None:
        self._raw, self.name, self.size = raw, name, size
        self._bar: Bar | None = None
        self._unreported = 0
        first = self._take()
        self._refused = next((what for magic, what in _REFUSED.items() if first.startswith(magic)), "")
        blocks = self._blocks(first)
        if first.startswith(_GZIP):
            blocks = self._gunzip(blocks)
        elif first.startswith(_ZSTD):
            blocks = self._unzstd(blocks)
        self._damage: InputError | None = None  # met while looking ahead; raised where reading comes to it
        self.start = self._begun(blocks)
        if encoding is not None and is_utf8(encoding) and self.start.startswith((BOM_UTF16_BE, BOM_UTF16_LE)):
            raise InputError(name, "this is UTF-16 text, not UTF-8")
        self.encoding = Encoding()
        self._rest = to_utf8(self._again(blocks), self.encoding, encoding, fallback)
        self.head = next(self._rest, b"")
        self.empty = not self.start.strip() or not (self.head.strip() or self._refused)

    def _begun(self, blocks: Iterator[bytes]) -> bytes:
        """The first bytes, enough for a look."""
        start = b""
        try:
            for block in blocks:
                start += block
                if len(start) >= HEAD:
                    break
        except InputError as error:
            if not start:
                raise
            self._damage = error
        return start

    def _again(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        yield self.start
        if self._damage is not None:
            raise self._damage
        yield from blocks

    def require_text(self) -> None:
        """Refuses files that are known to be something else."""
        if self._refused:
            raise InputError(self.name, f"this is {self._refused}")

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
    def length(self) -> float | None:
        """The size as the total of a bar, which shows whole numbers as counts of things: bytes are none to a person."""
        return None if self.size is None else float(self.size)

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
        self.require_text()
        if self.head:
            yield self.head
        yield from self._rest

    def decode(self, line: bytes) -> str:
        """The text of a line; the ValueError says what in it is wrong."""
        if is_utf8(self.encoding.name):
            try:
                return decode(line)
            except ValueError as wrong:
                raise ValueError(f"{wrong}; another encoding is set with --encoding, as in cp1252") from None
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            place = len(line[: error.start].decode()) + 1
            raise ValueError(f"character {place} of the line is not {self.encoding.name}") from None

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


def open_stream(path: str | Path, encoding: str | None = "utf-8", fallback: str = FALLBACK) -> Stream:
    """The file as a stream; "-" is standard input.

    encoding  of the text in it; None to find it
    fallback  what to take for text that turns out not to be UTF-8 when the encoding is to be found
    """
    if str(path) == "-":
        return Stream(sys.stdin.buffer, "standard input", None, encoding, fallback)
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
        return Stream(raw, str(path), size, encoding, fallback)
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
