"""The command line in processes of its own: start-up, pipes, interrupts, progress, and the whole way round."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_helpers import outside, write_jsonl

HEAVY = ("numpy", "scipy", "numba", "sklearn", "matplotlib", "pyarrow", "pandas", "torch")


def test_importing_stays_light() -> None:
    code = f"import sys, longtail.cli; print([m for m in {HEAVY} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr


@pytest.mark.parametrize(
    ("arguments", "limit"), [(["-m", "longtail", "--help"], 0.5), (["-c", "import longtail"], 0.3)]
)
def test_start_up_is_quick(arguments: list[str], limit: float) -> None:
    """Processor time rather than the clock: a busy machine is not the program's fault."""
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < limit


def test_the_whole_way_round(data: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    trained = outside("train", data / "train.jsonl", "-o", model, "--learner", "parabel", "--set", "learner.trees=1")
    said = [line for line in trained.stderr.splitlines() if "compiling for this computer" not in line]
    assert (trained.returncode, said) == (0, [])
    assert "next:" in trained.stdout and "\x1b" not in trained.stdout, "no colours in a pipe"
    measured = outside("evaluate", model, data / "test.jsonl", "--json")
    assert json.loads(measured.stdout)["P@1"] > 90
    tagged = outside("predict", model, "-", input="a guitar concert\n")
    assert json.loads(tagged.stdout)["labels"][0]["label"] == "music"
    refused = outside("predict", model, tmp_path / "gone.jsonl")
    assert refused.returncode == 2
    assert refused.stderr == f"longtail: {tmp_path / 'gone.jsonl'}: no such file\n"


@pytest.mark.parametrize("verb", ["methods", "predict"])
def test_a_reader_that_has_seen_enough_is_no_failure(verb: str, model: Path, data: Path) -> None:
    arguments = [verb, str(model), str(data / "test.jsonl")] if verb == "predict" else [verb]
    with subprocess.Popen([sys.executable, "-m", "longtail", *arguments], stdout=-1, stderr=-1) as program:
        assert program.stdout is not None and program.stderr is not None
        program.stdout.close()
        said = program.stderr.read()
    assert (program.returncode, said) == (0, b"")


def test_same_seed_same_bytes(data: Path, tmp_path: Path) -> None:
    models = []
    for threads in (1, 2):
        path = tmp_path / f"model{threads}"
        result = outside("train", data / "train.jsonl", "-o", path, "--threads", threads, "--seed", 4, "--quiet")
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
        models.append({file.name: file.read_bytes() for file in path.iterdir()})
    assert models[0] == models[1]


def test_a_reader_that_leaves(model: Path, tmp_path: Path) -> None:
    many = write_jsonl(tmp_path / "many.jsonl", [{"text": "guitar"}] * 20_000)
    line = [sys.executable, "-m", "longtail", "predict", str(model), str(many)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        json.loads(process.stdout.readline())
        process.stdout.close()
        assert process.stderr.read() == ""
        process.wait(timeout=60)


def test_an_interrupt(model: Path) -> None:
    line = [sys.executable, "-m", "longtail", "predict", str(model), "-"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        time.sleep(3)  # it waits for texts that do not come
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stderr.read() == "longtail: interrupted\n"


def on_a_terminal(*arguments: object, **environment: str) -> tuple[int, str]:
    """Exit code and everything a person would see."""
    ours, theirs = pty.openpty()
    line = [sys.executable, "-m", "longtail", *(str(argument) for argument in arguments)]
    given = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", **environment}
    with subprocess.Popen(line, stdout=theirs, stderr=theirs, stdin=theirs, env=given) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                block = os.read(ours, 65536)
            except OSError:
                break
            if not block:
                break
            seen += block
        process.wait(timeout=60)
    os.close(ours)
    return process.returncode, seen.decode()


def test_progress_on_a_terminal(data: Path, tmp_path: Path) -> None:
    code, seen = on_a_terminal("train", data / "train.jsonl", "-o", tmp_path / "m")
    assert code == 0
    for stage in ("Reading", "Features", "Clustering", "Training"):
        assert stage in seen
    assert "100%" in seen and "\x1b[1m" in seen
    code, seen = on_a_terminal("predict", tmp_path / "m", data / "test.jsonl", "-o", tmp_path / "tags.jsonl")
    assert code == 0 and "Predicting" in seen
    code, seen = on_a_terminal("train", data / "train.jsonl", "-o", tmp_path / "m", "--overwrite", "--quiet")
    # where colorama is installed, numba resets the terminal's colours at exit: nothing that shows
    assert (code, seen.replace("\x1b[0m", "")) == (0, "")


def test_no_colour_if_nobody_wants_it(model: Path, data: Path) -> None:
    _, coloured = on_a_terminal("evaluate", model, data / "test.jsonl")
    _, plain = on_a_terminal("evaluate", model, data / "test.jsonl", "--quiet", NO_COLOR="1")
    assert "\x1b[34m" in coloured or "\x1b[32m" in coloured
    assert not any(f"\x1b[{colour}m" in plain for colour in range(30, 38))


def test_demo(tmp_path: Path) -> None:
    """On the embedded corpus, as `make demo` does it: bands, label names, what to do next, in well under a minute."""
    start = time.perf_counter()
    result = outside("demo", "-o", tmp_path / "model")
    assert (result.returncode, result.stderr) == (0, "")
    assert time.perf_counter() - start < 60
    for word in ("head", "middle", "tail", "PSP", "✓", "numpy.", "next:", "longtail train"):
        assert word in result.stdout
    tagged = outside("predict", tmp_path / "model", "-", "-k", 10, input="sort an array\n")
    names = [label["label"] for label in json.loads(tagged.stdout)["labels"]]
    assert any("sort" in name for name in names)


def test_a_program_that_ends_itself_is_no_closed_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Lightning does: an exit with a code is not taken for a reader that left, which would be 0."""
    import typer

    from longtail import cli

    def ends(**_: object) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(cli, "take_types_off", lambda command: None)
    monkeypatch.setattr(
        typer.main,
        "get_command",
        lambda app: type("Command", (), {"params": [], "__call__": lambda self, **given: ends(**given)})(),
    )
    with pytest.raises(SystemExit) as ended:
        cli.run(["methods"])
    assert ended.value.code == 3


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_an_encoding_lacks_is_no_failure(encoding: str, model: Path, data: Path) -> None:
    """Bars, ticks and names of labels on a terminal or in a file that is not UTF-8; JSON loses nothing."""
    given = {**os.environ, "PYTHONIOENCODING": encoding}
    for line in (["inspect", data / "train.jsonl"], ["compare", model, "--data", data / "test.jsonl"], ["methods"]):
        done = outside(*line, env=given, encoding=encoding)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    shown = outside("inspect", data / "train.jsonl", "--label", "Ümläute", "--json", env=given, encoding=encoding)
    assert "Sterne, Ümläute" in str(json.loads(shown.stdout))
