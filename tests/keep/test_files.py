"""Files and directories appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from longtail.errors import LongtailError, UsageError
from longtail.keep import files
from longtail.keep.files import aside, atomic_directory, atomic_file, check_output


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def anything_may_go(directory: Path) -> str:
    return ""


@pytest.fixture(params=["exchange", "two renames"])
def swap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to replace a directory: in one step, and by the fallback."""
    if request.param == "two renames":
        monkeypatch.setattr(files, "_exchange", lambda one, other: False)
    return str(request.param)


# files


def test_file_appears_only_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "tags.jsonl"
    with atomic_file(target) as handle:
        handle.write(b"one\n")
        handle.flush()
        assert not target.exists()
    assert target.read_bytes() == b"one\n"
    assert names(tmp_path) == ["tags.jsonl"]


def test_text_mode_is_utf8_with_plain_line_ends(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "a", mode="w") as handle:
        handle.write("Zürich\n")
    assert (tmp_path / "a").read_bytes() == b"Z\xc3\xbcrich\n"


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "tags.jsonl"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_file(target, overwrite=True) as handle:
        handle.write(b"new")
        raise KeyboardInterrupt
    assert target.read_text() == "old"
    assert names(tmp_path) == ["tags.jsonl"]


def test_existing_file_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    target = tmp_path / "tags.jsonl"
    target.write_text("old")
    with pytest.raises(UsageError) as caught, atomic_file(target) as handle:
        handle.write(b"new")
    assert str(caught.value) == f"{target} exists; --overwrite replaces it"
    with atomic_file(target, overwrite=True) as handle:
        handle.write(b"new")
    assert target.read_text() == "new"


def test_file_that_came_into_being_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "tags.jsonl"
    with pytest.raises(UsageError, match="exists; --overwrite"), atomic_file(target) as handle:
        handle.write(b"new")
        target.write_text("of another process")
    assert target.read_text() == "of another process"
    assert names(tmp_path) == ["tags.jsonl"]


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX systems")
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_umask_or_the_file_replaced(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with atomic_file(tmp_path / "a") as handle:
            handle.write(b"")
        with atomic_directory(tmp_path / "d"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~umask
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o777 & ~umask
    (tmp_path / "a").chmod(0o604)
    (tmp_path / "d").chmod(0o705)
    with atomic_file(tmp_path / "a", overwrite=True) as handle:
        handle.write(b"")
    with atomic_directory(tmp_path / "d", overwrite=True):
        pass
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o604
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o705


def test_missing_parents_are_made(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "runs" / "today" / "a") as handle:
        handle.write(b"x")
    assert (tmp_path / "runs" / "today" / "a").read_bytes() == b"x"


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "v1").write_text("old")
    (tmp_path / "current").symlink_to(tmp_path / "store" / "v1")
    with atomic_file(tmp_path / "current", overwrite=True) as handle:
        handle.write(b"new")
    assert (tmp_path / "current").is_symlink()
    assert (tmp_path / "store" / "v1").read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_are_written_to_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with atomic_file(pipe) as handle:
            handle.write(b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_wrong_kinds_of_target(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "f").write_text("")
    with pytest.raises(UsageError, match="d/ is a directory"), atomic_file(tmp_path / "d", overwrite=True):
        pass
    with pytest.raises(UsageError, match="not a directory"), atomic_directory(tmp_path / "f", overwrite=True):
        pass
    with pytest.raises(LongtailError, match="f is not a directory"), atomic_file(tmp_path / "f" / "x"):
        pass
    assert names(tmp_path) == ["d", "f"]


def test_full_disk_is_one_line(tmp_path: Path) -> None:
    target = tmp_path / "tags.jsonl"
    with pytest.raises(LongtailError) as caught, atomic_file(target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert str(caught.value) == f"{target} cannot be written: No space left on device"
    assert names(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
def test_device_that_takes_nothing_is_one_line() -> None:
    with (
        pytest.raises(LongtailError, match="/dev/full cannot be written: No space"),
        atomic_file("/dev/full") as handle,
    ):
        handle.write(b"x")
    assert Path("/dev/full").is_char_device()


def test_errors_of_the_callers_own_files_pass_through(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_file(tmp_path / "out"):
        (tmp_path / "nowhere").open()


def test_read_only_directory_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The superuser may write anywhere, so the answer of the system is played here.
    monkeypatch.setattr(os, "access", lambda *_: False)
    for directory in (False, True):
        with pytest.raises(LongtailError, match="cannot be written: no permission to write in"):
            check_output(tmp_path / "out", directory=directory)


def test_denied_creation_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS), "somewhere")

    monkeypatch.setattr(files, "_new_file", denied)
    with (
        pytest.raises(LongtailError, match="out cannot be written: Read-only file system"),
        atomic_file(tmp_path / "out"),
    ):
        pass


# directories


def fill(directory: Path, text: str) -> None:
    (directory / "a").write_text(text)
    (directory / "b").write_text(text)


def test_directory_appears_only_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with atomic_directory(target) as new:
        fill(new, "one")
        assert not target.exists()
    assert names(target) == ["a", "b"]
    assert names(tmp_path) == ["model"]


def test_directory_is_replaced_whole(tmp_path: Path, swap: str) -> None:
    target = tmp_path / "model"
    with atomic_directory(target) as new:
        fill(new, "old")
    with pytest.raises(UsageError) as caught, atomic_directory(target):
        pytest.fail("the block must not run")
    assert str(caught.value) == f"{target}/ exists; --overwrite replaces it"
    with atomic_directory(target, overwrite=True, refusal=anything_may_go) as new:
        (new / "c").write_text("new")
        assert names(target) == ["a", "b"]
    assert names(target) == ["c"]
    assert names(tmp_path) == ["model"]


def test_failure_leaves_the_old_directory(tmp_path: Path, swap: str) -> None:
    target = tmp_path / "model"
    with atomic_directory(target) as new:
        fill(new, "old")
    with (
        pytest.raises(ZeroDivisionError),
        atomic_directory(target, overwrite=True, refusal=anything_may_go) as new,
    ):
        fill(new, "new")
        raise ZeroDivisionError
    assert (target / "a").read_text() == "old"
    assert names(tmp_path) == ["model"]


def test_failed_second_rename_puts_the_old_directory_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "model"
    with atomic_directory(target) as new:
        fill(new, "old")
    monkeypatch.setattr(files, "_exchange", lambda one, other: False)
    rename = Path.rename

    def fails_for_new(self: Path, to: Path) -> Path:
        if "partial" in self.name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", fails_for_new)
    with (
        pytest.raises(LongtailError, match="model cannot be written"),
        atomic_directory(target, overwrite=True, refusal=anything_may_go) as new,
    ):
        fill(new, "new")
    assert (target / "a").read_text() == "old"
    assert names(tmp_path) == ["model"]


def test_unknown_directories_are_never_deleted(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letters").write_text("dear")
    with pytest.raises(UsageError, match="it is not empty"), atomic_directory(tmp_path / "home", overwrite=True):
        pass
    assert names(tmp_path / "home") == ["letters"]


def test_directory_left_aside_counts_as_there_and_comes_back(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with atomic_directory(target) as new:
        fill(new, "old")
    target.rename(aside(target))  # what a kill between the two renames leaves
    with pytest.raises(UsageError, match="model/ exists"):
        check_output(target, directory=True)
    with atomic_directory(target, overwrite=True, refusal=anything_may_go) as new:
        fill(new, "new")
    assert (target / "a").read_text() == "new"
    assert names(tmp_path) == ["model"]


@pytest.mark.skipif(files.fcntl is None, reason="needs advisory locks")
def test_leftovers_of_killed_writers_are_removed_those_of_living_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / ".model.longtail-partial-dead").mkdir()
    (tmp_path / ".model.longtail-partial-dead" / "a").write_text("half")
    (tmp_path / ".other.longtail-partial-dead").mkdir()  # of another target
    (tmp_path / ".model.longtail-partial-file").write_text("half")
    (tmp_path / ".model.longtail-partial-link").symlink_to(tmp_path)
    script = (
        "import sys\nfrom longtail.keep.files import atomic_directory\n"
        "with atomic_directory(sys.argv[1]) as new:\n    print(new.name, flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "model")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        living = other.stdout.readline().strip()
        assert living.startswith(".model.longtail-partial-")
        with atomic_directory(tmp_path / "model") as new:
            fill(new, "one")
        kept = {living, ".model.longtail-partial-link", ".other.longtail-partial-dead", "model"}
        assert set(names(tmp_path)) == kept
        other.kill()
        other.wait()
    with atomic_directory(tmp_path / "model", overwrite=True, refusal=anything_may_go) as new:
        fill(new, "two")
    assert living not in names(tmp_path)


def test_directory_that_came_into_being_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with pytest.raises(UsageError, match="model/ exists; --overwrite"), atomic_directory(target) as new:
        fill(new, "new")
        target.mkdir()
        fill(target, "of another process")
    assert (target / "a").read_text() == "of another process"
    assert names(tmp_path) == ["model"]


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with atomic_directory("model/") as new:
        fill(new, "one")
    with pytest.raises(UsageError) as caught:
        check_output("model/", directory=True)
    assert str(caught.value) == "model/ exists; --overwrite replaces it"
