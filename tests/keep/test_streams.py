"""Streams: compression by content, line numbers, damage."""

from __future__ import annotations

import gzip
import io
import random

import pytest
import zstandard

from longtail.errors import InputError
from longtail.keep import streams
from longtail.keep.encodings import is_encoding
from longtail.keep.streams import Stream, bare_name, open_stream

LINES = [b"first", b"", b"third \xc3\xa9" + b"x" * 300, b"last"]
CONTENT = b"\n".join(LINES)


def pack(content: bytes, how: str) -> bytes:
    half = len(content) // 2
    return {
        "plain": content,
        "gz": gzip.compress(content),
        "two gz members": gzip.compress(content[:half]) + gzip.compress(content[half:]) + b"\0" * 20,
        "zst": zstandard.compress(content),
        "two zst frames": zstandard.compress(content[:half]) + zstandard.compress(content[half:]),
    }[how]


HOW = ["plain", "gz", "two gz members", "zst", "two zst frames"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_lines_are_the_same_whatever_the_packing_and_chunk(tmp_path, monkeypatch, how, chunk):
    monkeypatch.setattr(streams, "CHUNK", max(chunk, 4))
    monkeypatch.setattr(streams, "HEAD", chunk)
    path = tmp_path / "data.bin"
    path.write_bytes(pack(CONTENT, how))
    with open_stream(path) as stream:
        assert list(stream.lines()) == [(number + 1, line) for number, line in enumerate(LINES)]
    with open_stream(path) as stream:
        blocks = list(stream.blocks_of_lines())
    assert b"".join(blocks) == CONTENT + b"\n"
    assert all(block.endswith(b"\n") for block in blocks)


@pytest.mark.parametrize("how", HOW)
def test_unpacking_is_bounded_by_the_chunk(tmp_path, how):
    path = tmp_path / "bomb"
    path.write_bytes(pack(b"\n" * 20_000_000, how))
    with open_stream(path) as stream:
        sizes = [len(chunk) for chunk in stream.chunks()]
    assert sum(sizes) == 20_000_000
    if "gz" in how or how == "plain":
        assert max(sizes) <= streams.CHUNK + streams.HEAD


@pytest.mark.parametrize("how", ["gz", "zst"])
def test_a_truncated_file_says_so_with_a_line(tmp_path, how):
    path = tmp_path / "data.jsonl"
    letters = random.Random(0).choices(b"abcdefgh ", k=500_000)
    whole = pack(bytes(letters) + b"\nsecond", how)
    path.write_bytes(whole[:-5])
    with pytest.raises(InputError, match=r"data.jsonl:\d+: .*truncated"), open_stream(path) as stream:
        list(stream.lines())


def test_damaged_gzip(tmp_path):
    path = tmp_path / "data.gz"
    whole = bytearray(gzip.compress(bytes(random.Random(0).choices(range(256), k=5000))))
    whole[-6] ^= 255  # the checksum
    path.write_bytes(whole)
    with pytest.raises(InputError, match="damaged gzip"), open_stream(path) as stream:
        list(stream.lines())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04rest", "zip"),
        (b"BZh9rest", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "old or locked Office file"),
        ("text".encode("utf-16"), "UTF-16"),
        (gzip.compress("text".encode("utf-16"), mtime=0), "UTF-16"),
    ],
)
def test_what_cannot_be_read_is_named(content, message):
    with pytest.raises(InputError, match=message):
        list(Stream(io.BytesIO(content), "x").lines())


GERMAN = "Nr;Titel;Schlagwörter\n" + "7;Über Öl und „Käse“ für 3 €;Öl|Käse\n" * 40


@pytest.mark.parametrize(
    ("encoding", "mark", "found", "remark"),
    [
        ("utf-8", b"", "utf-8", ""),
        ("utf-8-sig", b"", "utf-8", ""),
        ("cp1252", b"", "cp1252", "not UTF-8: read as cp1252, as in 'Schlagwörter'; if that looks wrong"),
        ("utf-16", b"", "utf-16", "read as UTF-16"),
        ("utf-16-be", b"\xfe\xff", "utf-16", "read as UTF-16"),
        ("utf-16-le", b"", "utf-16-le", "read as UTF-16-LE"),
        ("utf-16-be", b"", "utf-16-be", "read as UTF-16-BE"),
        ("utf-32", b"", "utf-32", "read as UTF-32"),
    ],
)
@pytest.mark.parametrize("chunk", [7, 300, 1 << 20])
def test_the_encoding_is_found(monkeypatch, encoding, mark, found, remark, chunk):
    monkeypatch.setattr(streams, "CHUNK", chunk)
    stream = Stream(io.BytesIO(mark + GERMAN.encode(encoding)), "x", encoding=None)
    if chunk > 64:  # a shorter beginning says too little
        assert found in (stream.encoding.name, "cp1252")
    assert b"\n".join(line for _, line in stream.lines()).decode() == GERMAN[:-1]
    assert stream.encoding.name == found and stream.encoding.remark.startswith(remark)


def test_the_encoding_is_found_late(monkeypatch):
    """Text may look like ASCII for a long time."""
    monkeypatch.setattr(streams, "CHUNK", 100)
    monkeypatch.setattr(streams, "HEAD", 100)
    for encoding in ("cp1252", "utf-8"):
        content = ("plain\n" * 100 + "naïve\n").encode(encoding)
        stream = Stream(io.BytesIO(content), "x", encoding=None)
        assert stream.encoding.name == "utf-8"
        assert list(stream.lines())[-1] == (101, "naïve".encode())
        assert stream.encoding.name == encoding and stream.encoding.example == ("naïve" if encoding == "cp1252" else "")


@pytest.mark.parametrize(
    "content",
    [
        ("naïve\n" * 5).encode() + b"na\xefve\n",  # one bad line of a file that is UTF-8
        "Привет, мир\n".encode("cp1251") * 5,  # not Western
        b"\xff\x00\x01\x02" * 20,
    ],
)
def test_what_is_no_western_text_is_not_taken_for_it(content):
    stream = Stream(io.BytesIO(content), "x", encoding=None)
    lines = [line for _, line in stream.lines()]
    assert stream.encoding.name == "utf-8" and b"\n".join(lines) == content.removesuffix(b"\n")
    with pytest.raises(ValueError, match=r"is not UTF-8 \(0x.*--encoding"):
        stream.decode(lines[-1])


def test_an_encoding_that_is_given():
    cyrillic = "Привет, мир\n".encode("cp1251")
    stream = Stream(io.BytesIO(cyrillic), "x", encoding="cp1251")
    assert [stream.decode(line) for _, line in stream.lines()] == ["Привет, мир"]
    assert stream.encoding.remark == ""
    stream = Stream(io.BytesIO(b"good\nb\x81d\n\x9d"), "x", encoding="cp1252")
    good, bad, last = [line for _, line in stream.lines()]
    assert stream.decode(good) == "good"
    with pytest.raises(ValueError, match="character 2 of the line is not cp1252"):
        stream.decode(bad)
    with pytest.raises(ValueError, match="character 1 of the line"):
        stream.decode(last)
    stream = Stream(io.BytesIO("aé\n".encode("utf-16")[:-1]), "x", encoding=None)
    assert next(stream.lines())[1].startswith("aé".encode())


def test_names_of_encodings():
    assert all(map(is_encoding, ("cp1252", "latin-1", "UTF-16", "utf8", "mac_roman")))
    assert not any(map(is_encoding, ("cp1253x", "hex", "rot13", "", "a\0b", "undefined")))


def test_byte_order_mark_is_dropped():
    assert list(Stream(io.BytesIO(b"\xef\xbb\xbfa\n"), "x").lines()) == [(1, b"a")]


def test_overlong_line(monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_LINE", 100)
    monkeypatch.setattr(streams, "CHUNK", 64)
    monkeypatch.setattr(streams, "HEAD", 64)
    with pytest.raises(InputError, match="x:2: a line of more than"):
        list(Stream(io.BytesIO(b"a\n" + b"b" * 300), "x").lines())


def test_missing_and_unopenable(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        open_stream(tmp_path / "none")
    with pytest.raises(InputError, match="folder"):
        open_stream(tmp_path)
    with pytest.raises(InputError, match="null byte"):
        open_stream("a\0b")


def test_progress_counts_bytes_on_disk(tmp_path):
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(CONTENT * 100))
    moved = []

    class Bar:
        def advance(self, amount: float = 1) -> None:
            moved.append(amount)

    with open_stream(path) as stream:
        stream.bar = Bar()
        list(stream.lines())
        assert sum(moved) == path.stat().st_size == stream.size


def test_bare_name():
    assert bare_name("a/Train.JSONL.gz") == "train.jsonl"
    assert bare_name("x.csv.zst") == "x.csv"
