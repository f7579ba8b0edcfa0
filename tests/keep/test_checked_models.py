"""A model that was checked as a whole opens without being read again, for as long as its files stay as they are."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from longtail.corpus import Corpus
from longtail.data.demo import demo
from longtail.errors import ModelError
from longtail.keep import cache
from longtail.keep.folder import let_go, map_behind, read_past_map
from longtail.keep.model import load_model, save_model
from longtail.keep.safetensors import read_file, write_arrays
from longtail.labels import LabelIndex
from longtail.tagger import Tagger

MEGABYTE = 1 << 20


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model whose files count as settled at once, and a cache of its own."""
    monkeypatch.setenv("LONGTAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_SETTLED_SECONDS", 0.0)
    Tagger("parabel").fit(small_corpus()).save(tmp_path / "model")
    time.sleep(0.05)  # longer than a step of the file system's clock
    return tmp_path / "model"


def small_corpus() -> Corpus:
    return demo()[0].rows(np.arange(40))


def test_the_second_opening_reads_no_arrays(model: Path) -> None:
    assert not load_model(model).checked
    first = Tagger.load(model)
    assert load_model(model).checked
    texts = ["read a file line by line", ""]
    assert Tagger.load(model).predict(texts) == first.predict(texts)
    assert load_model(model, verify=False).checked is False


@pytest.mark.parametrize("name", ["learner.safetensors", "labels.safetensors", "features.safetensors"])
def test_a_change_in_place_is_noticed_whatever_the_file_says_of_its_age(model: Path, name: str) -> None:
    Tagger.load(model)
    file = model / name
    status = file.stat()
    with file.open("rb+") as handle:
        handle.seek(-1, os.SEEK_END)
        last = handle.read(1)[0]
        handle.seek(-1, os.SEEK_END)
        handle.write(bytes([last ^ 1]))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file.stat().st_mtime_ns == status.st_mtime_ns
    with pytest.raises(ModelError, match="its checksum differs"):
        Tagger.load(model)


def test_a_copy_and_an_overwritten_model_are_checked_anew(model: Path, tmp_path: Path) -> None:
    tagger = Tagger.load(model)
    shutil.copytree(model, tmp_path / "copy", copy_function=shutil.copy2)
    assert not load_model(tmp_path / "copy").checked
    tagger.save(model, overwrite=True)
    assert not load_model(model).checked


def test_a_model_that_was_refused_is_not_remembered(model: Path) -> None:
    with (model / "manifest.json").open("rb+") as handle:
        handle.write(b" ")
    for _ in range(2):
        with pytest.raises(ModelError):
            Tagger.load(model)
    assert not (model.parent / "cache" / "checked-models.txt").exists()


def test_young_files_are_not_remembered(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They might change again within the same step of the clock."""
    monkeypatch.setattr(cache, "_SETTLED_SECONDS", 60.0)
    Tagger.load(model)
    assert not load_model(model).checked


def without_a_cache(noted: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("LONGTAIL_CACHE", "")


def writable_for_all(noted: Path, patch: pytest.MonkeyPatch) -> None:
    noted.chmod(0o666)


def no_text(noted: Path, patch: pytest.MonkeyPatch) -> None:
    noted.write_bytes(b"\xff\xfe")


def a_folder(noted: Path, patch: pytest.MonkeyPatch) -> None:
    noted.unlink()
    noted.mkdir()


@pytest.mark.parametrize("trouble", [without_a_cache, writable_for_all, no_text, a_folder])
def test_trouble_with_the_cache_only_costs_time(
    model: Path, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    Tagger.load(model)
    trouble(model.parent / "cache" / "checked-models.txt", monkeypatch)
    assert not load_model(model).checked
    Tagger.load(model)


def test_the_oldest_models_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_MOST_KNOWN", 3)
    for key in "abcbd":
        cache.remember(key)
    assert [cache.is_known(key) for key in ("a", "b", "c", "d", None)] == [False, True, True, True, False]


def large_model(directory: Path, megabytes: int = 96) -> Path:
    weights = np.random.default_rng(0).random(megabytes * MEGABYTE // 4, dtype=np.float32)
    save_model(directory, manifest={}, labels=LabelIndex(["a"]), states={"learner": {"weights": weights}})
    return directory


def test_saving_makes_no_copy_of_the_arrays(tmp_path: Path) -> None:
    weights = np.zeros(64 * MEGABYTE // 4, dtype=np.float32)
    tracemalloc.start()
    try:
        save_model(tmp_path / "m", manifest={}, labels=LabelIndex(["a"]), states={"learner": {"weights": weights}})
        assert tracemalloc.get_traced_memory()[1] < 8 * MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the memory held")
def test_opening_takes_no_memory_for_the_weights(tmp_path: Path) -> None:
    """Not even the first time, when the files are read as a whole: 32 MB per thread at most."""
    model = large_model(tmp_path / "model")
    code = (
        "import sys; from longtail.keep.model import load_model\n"
        "def held():\n"
        "    with open('/proc/self/status') as lines:\n"
        "        return next(int(line.split()[1]) for line in lines if line.startswith('VmRSS'))\n"
        "before = held(); loaded = load_model(sys.argv[1], threads=1); print(held() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(model)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 24 * 1024


def test_memory_that_is_not_a_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(8192))
    private = np.memmap(tmp_path / "file", dtype=np.uint8, mode="c")
    private[:] = 7
    view = private.view()
    view.flags.writeable = False
    let_go(view)
    assert (private == 7).all()
    own = np.ones(8192, dtype=np.uint8)
    let_go(own)
    assert own.all()


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not say what a process holds")
def test_what_is_read_past_a_map_takes_no_memory_of_it(tmp_path: Path) -> None:
    arrays = {"a": np.arange(1 << 20, dtype=np.float64), "b": np.arange(8, dtype=np.float32), "c": np.empty(0)}
    with (tmp_path / "file").open("wb") as handle:
        write_arrays(handle, arrays)
    found = read_file(tmp_path / "file")

    def held() -> int:
        lines = iter(Path("/proc/self/smaps").read_text().splitlines())
        next(line for line in lines if line.endswith(str(tmp_path / "file")))
        return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))

    owner = map_behind(found["a"])
    assert owner is not None and map_behind(arrays["a"]) is None
    owner.madvise(mmap.MADV_DONTNEED)
    assert held() == 0
    parts = [found["a"][5000:300_000], found["b"][2:5], found["c"]]
    copies = read_past_map(tmp_path / "file", parts)
    assert copies is not None and held() == 0
    assert all(np.array_equal(copy, part) and copy.flags.owndata for copy, part in zip(copies, parts, strict=True))
    assert read_past_map(tmp_path / "gone", parts) is None
    (tmp_path / "short").write_bytes(bytes(100))
    assert read_past_map(tmp_path / "short", parts) is None
