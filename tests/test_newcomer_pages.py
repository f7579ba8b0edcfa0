"""README, the docs' start page, Start and Tuning for rare labels: every command and block of code runs as it stands."""

from __future__ import annotations

import csv
import io
import random
import re
import shlex
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
PAGES = ("README.md", "docs/index.md", "docs/start.md", "docs/rare-labels.md")

#: Subjects, and words that titles about them have.
SUBJECTS = {
    "Whaling -- Fiction": "whale harpoon captain voyage blubber",
    "Beekeeping": "bees honey hive queen swarm",
    "Scotland -- History": "highland clan edinburgh jacobite glen",
    "Folk songs": "ballad tune fiddle singer chorus",
    "Whaling": "fishery arctic whaler oil ships",
}


def write_books(path: Path, count: int, seed: int) -> None:
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["id", "title", "subjects"])
        for number in range(count):
            chosen = draw.sample(sorted(SUBJECTS), draw.choice((1, 1, 2)))
            words = [word for subject in chosen for word in draw.sample(SUBJECTS[subject].split(), 3)]
            writer.writerow([number, " ".join(words), "; ".join(chosen)])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files of the pages are, as a reader would have them."""
    monkeypatch.chdir(tmp_path)
    write_books(tmp_path / "books.csv", 150, seed=0)
    write_books(tmp_path / "new-books.csv", 10, seed=1)
    lines = [f"{name},All about {words.split()[0]}\n" for name, words in SUBJECTS.items()]
    (tmp_path / "subjects.csv").write_text("label,text\n" + "".join(lines), encoding="utf-8")
    return tmp_path


def steps(page: str) -> list[tuple[str, str]]:
    """(kind, content) of what a page has its reader do, from top to bottom: commands, and blocks of Python."""
    found = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", (REPOSITORY / page).read_text("utf-8"), re.M | re.S):
        if language == "python":
            found.append(("python", block))
        else:
            lines = (re.match(r"(?:\$ )?((?:echo [^|]*\| )?longtail .*)", line) for line in block.splitlines())
            found += [("command", line[1].partition("  #")[0]) for line in lines if line]
    return found


def run(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    from longtail.cli import run

    said, _, command = command.rpartition(" | ")
    given = " ".join(shlex.split(said)[1:]) + "\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8"))
    return run(shlex.split(command)[1:])


@pytest.mark.parametrize("page", PAGES)
def test_everything_on_the_page_runs(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, object] = {}
    assert len(steps(page)) > 3
    if page == "docs/rare-labels.md":  # it begins where Start ends
        for command in ("longtail split books.csv -o books/", "longtail train books/ -o model/"):
            assert run(command, monkeypatch) == 0
    for kind, content in steps(page):
        if kind == "python":
            exec(compile(content, page, "exec"), names)
        else:
            more = " --overwrite" if re.search(r" -o (books|model)/", content) and page == "docs/rare-labels.md" else ""
            assert run(content + more, monkeypatch) == 0, content


@pytest.mark.parametrize("page", PAGES)
def test_commands_show_what_they_print(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Tags carry the names of labels, and what was found in the file is said."""
    for kind, content in steps(page):
        if kind == "command" and content.startswith(("longtail inspect books.csv", "longtail split books.csv")):
            capfd.readouterr()
            assert run(content + (" --overwrite" if " split " in content else ""), monkeypatch) == 0
            said = capfd.readouterr()
            assert "title" in said.err or "--text-field" in content
            assert "150" in said.out or "135 documents to train on, 15 to test on" in said.out


def test_the_first_block_of_python_tags_sensibly(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block = next(content for kind, content in steps("README.md") if kind == "python")
    exec(compile(block, "README.md", "exec"), {})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["Bees", "Gardening"]
