"""A model directory gives back what was saved, and says what is wrong with it otherwise."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from longtail import __version__
from longtail.errors import LongtailError, ModelError, UsageError
from longtail.keep import files, manifest, model
from longtail.keep.model import States, check_model_output, load_model, restoring, save_model
from longtail.labels import LabelIndex

LABELS = LabelIndex(["cats", 'do"gs', "Zürich\n"], ["felis", "", "a town"], np.array([3, 0, 12]), 14)
STATES = {
    "features": {"idf": np.linspace(0, 1, 7), "terms": np.frombuffer(b"some words", dtype=np.uint8)},
    "learner": {
        "weights": np.arange(12, dtype=np.float32).reshape(3, 4),
        "rows": np.arange(3, dtype=np.int64),
        "head": np.array([True, False, True]),
        "empty": np.zeros((0, 4), dtype=np.int32),
        "scalar": np.array(2.5),
    },
    "rerank-0": {},
}
MANIFEST = {"recipe": {"learner": {"part": "parabel", "trees": 3}}, "seed": 7, "share": 0.1}


def save(directory: Path, **changes: Any) -> Path:
    save_model(directory, **{"manifest": MANIFEST, "labels": LABELS, "states": STATES, **changes})
    return directory


def complaint(directory: Path, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(directory, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def assert_same_states(found: States, expected: States) -> None:
    assert {s: set(a) for s, a in found.items()} == {s: set(a) for s, a in expected.items()}
    for stem, arrays in expected.items():
        for name, array in arrays.items():
            assert found[stem][name].dtype == array.dtype
            assert found[stem][name].shape == array.shape
            np.testing.assert_array_equal(found[stem][name], array)


def test_round_trip(tmp_path: Path) -> None:
    loaded = load_model(save(tmp_path / "model"))
    assert loaded.manifest == MANIFEST
    assert list(loaded.labels.names) == list(LABELS.names)
    assert loaded.labels.texts is not None
    assert list(loaded.labels.texts) == list(LABELS.texts or [])
    assert loaded.labels.frequency.tolist() == [3, 0, 12]
    assert loaded.labels.documents == 14
    assert loaded.library == __version__
    assert loaded.sizes["labels.safetensors"] == (tmp_path / "model" / "labels.safetensors").stat().st_size
    assert_same_states(loaded.states, STATES)


@settings(max_examples=30, deadline=None)
@given(
    arrays=st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"),
        hnp.arrays(
            st.sampled_from(["?", "u1", "i1", "<u2", "<i2", "<f2", "<u4", "<i4", "<f4", "<u8", "<i8", "<f8", ">f4"]),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
            elements={"allow_nan": False, "allow_infinity": False},
        ),
        max_size=4,
    ),
    names=st.lists(st.text(min_size=1, max_size=6), unique=True, max_size=5),
)
def test_any_arrays_and_labels_come_back(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, Any], names: list[str]
) -> None:
    directory = tmp_path_factory.mktemp("any") / "model"
    labels = LabelIndex(names)
    save_model(directory, manifest={}, labels=labels, states={"learner": arrays})
    loaded = load_model(directory)
    assert list(loaded.labels.names) == names
    assert loaded.labels.texts is None
    assert set(loaded.states["learner"]) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded.states["learner"][name], array)
        assert loaded.states["learner"][name].shape == array.shape
    # The reference library reads the same file the same way.
    theirs = safetensors.numpy.load_file(directory / "learner.safetensors")
    assert set(theirs) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(theirs[name], array)


def test_files_of_the_reference_library_are_read(tmp_path: Path) -> None:
    from longtail.keep.safetensors import read_arrays

    data = safetensors.numpy.save(STATES["learner"], metadata={"made": "elsewhere"})
    assert_same_states({"learner": read_arrays(data, "x")}, {"learner": STATES["learner"]})


def test_arrays_are_mapped_not_copied_and_read_only(tmp_path: Path) -> None:
    weights = load_model(save(tmp_path / "model")).states["learner"]["weights"]
    base = weights
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert isinstance(base, memoryview) or type(base).__name__ == "mmap"
    assert weights.flags.aligned
    with pytest.raises(ValueError, match="read-only"):
        weights[0, 0] = 1
    assert not load_model(tmp_path / "model").states["learner"]["empty"].flags.writeable


def test_arrays_outlive_the_directory(tmp_path: Path) -> None:
    loaded = load_model(save(tmp_path / "model"))
    save(tmp_path / "model", states={"learner": {"weights": np.zeros(5)}}, overwrite=True)
    assert_same_states(loaded.states, STATES)


def test_arrays_in_other_orders_keep_their_values(tmp_path: Path) -> None:
    grid = np.arange(24, dtype=np.float32).reshape(4, 6)
    given_ = {"fortran": np.asfortranarray(grid), "strided": grid[::2, ::3], "big": grid.astype(">f4")}
    loaded = load_model(save(tmp_path / "model", states={"learner": given_})).states["learner"]
    for name, array in given_.items():
        np.testing.assert_array_equal(loaded[name], array)
    assert loaded["big"].dtype == np.dtype("<f4")


def test_same_model_same_bytes(tmp_path: Path) -> None:
    save(tmp_path / "one")
    save(tmp_path / "two", states={stem: dict(reversed(arrays.items())) for stem, arrays in STATES.items()})
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


def test_several_blocks_are_hashed_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (model, manifest):
        monkeypatch.setattr(module, "BLOCK", 64)
    data = (save(tmp_path / "model") / "learner.safetensors").read_bytes()
    digests = json.loads((tmp_path / "model" / "manifest.json").read_text())["files"]["learner.safetensors"]["sha256"]
    assert digests == [hashlib.sha256(data[i : i + 64]).hexdigest() for i in range(0, len(data), 64)]
    assert len(digests) > 3
    assert_same_states(load_model(tmp_path / "model").states, STATES)
    (tmp_path / "model" / "learner.safetensors").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert "was altered" in complaint(tmp_path / "model")


def test_numpy_scalars_in_the_manifest_become_plain(tmp_path: Path) -> None:
    loaded = load_model(save(tmp_path / "model", manifest={"n": np.int64(3), "x": np.float32(0.5)}))
    assert loaded.manifest == {"n": 3, "x": 0.5}


@pytest.mark.parametrize(
    "changes",
    [
        {"manifest": {"x": float("nan")}},
        {"manifest": {"x": object()}},
        {"states": {"../learner": {}}},
        {"states": {".hidden": {}}},
        {"states": {"learner": {"x": np.array([object()])}}},
        {"states": {"learner": {"x": np.array([1j])}}},
        {"states": {f"s{i}": {} for i in range(256)}},
    ],
)
def test_what_cannot_be_kept_is_refused_and_nothing_stays(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        save(tmp_path / "model", **changes)
    assert list(tmp_path.iterdir()) == []


def test_label_that_is_not_unicode_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(LongtailError, match=r"label '\\ud800' cannot be saved"):
        save(tmp_path / "model", labels=LabelIndex(["\ud800"]))
    assert list(tmp_path.iterdir()) == []


# overwriting


def test_existing_model_is_refused_unless_overwrite(tmp_path: Path) -> None:
    save(tmp_path / "model")
    with pytest.raises(UsageError, match="model/ exists; --overwrite replaces it"):
        save(tmp_path / "model")
    save(tmp_path / "model", manifest={"seed": 8}, overwrite=True)
    assert load_model(tmp_path / "model").manifest == {"seed": 8}
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_only_models_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "manifest.json").write_text("{}")
    with pytest.raises(UsageError, match="it is not a model"):
        save(tmp_path / "notes", overwrite=True)
    save(tmp_path / "model")
    (tmp_path / "model" / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match=r"thesis\.tex in it is not part of a model"):
        save(tmp_path / "model", overwrite=True)
    with pytest.raises(UsageError, match=r"thesis\.tex"):
        check_model_output(tmp_path / "model", overwrite=True)
    assert (tmp_path / "model" / "thesis.tex").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="empty/ exists; --overwrite"):
        check_model_output(tmp_path / "empty")
    save(tmp_path / "empty", overwrite=True)


def test_damaged_model_can_be_replaced(tmp_path: Path) -> None:
    manifest = save(tmp_path / "model") / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:100])
    save(tmp_path / "model", overwrite=True)
    load_model(tmp_path / "model")


def test_model_left_aside_by_a_kill_is_found(tmp_path: Path) -> None:
    save(tmp_path / "model").rename(files.aside(tmp_path / "model"))
    assert load_model(tmp_path / "model").manifest == MANIFEST


def test_model_replaced_while_it_is_read_gives_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "model")
    checked = model.checked_manifest
    replaced = []

    def replace_once(data: bytes, folder: Any) -> dict[str, Any]:
        content = checked(data, folder)
        if not replaced:
            replaced.append(True)
            save(tmp_path / "model", manifest={"seed": 8}, states={"other": {}}, overwrite=True)
        return content

    monkeypatch.setattr(model, "checked_manifest", replace_once)
    loaded = load_model(tmp_path / "model", verify=False)
    assert loaded.manifest == {"seed": 8}
    assert set(loaded.states) == {"other"}


def test_full_disk_is_one_line_and_keeps_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "model")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(model, "write_arrays", full)
    with pytest.raises(LongtailError, match="model cannot be written: No space left on device"):
        save(tmp_path / "model", overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]
    load_model(tmp_path / "model")


# what is wrong with a directory


def test_no_directory(tmp_path: Path) -> None:
    assert complaint(tmp_path / "model").startswith(f"{tmp_path}/model/ does not exist")
    (tmp_path / "file").write_text("")
    assert "file is not a directory" in complaint(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert complaint(tmp_path / "empty").endswith("empty/ is no longtail model, as it has no manifest.json")


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("name", ["labels.safetensors", "learner.safetensors", "features.safetensors"])
def test_missing_truncated_and_grown_files(tmp_path: Path, name: str, verify: bool) -> None:
    file = save(tmp_path / "model") / name
    data = file.read_bytes()
    file.write_bytes(data[:-3])
    message = complaint(tmp_path / "model", verify=verify)
    assert message.startswith(f"{file} is truncated: {len(data) - 3} of {len(data)} bytes; ")
    file.write_bytes(data + b"x")
    assert f"{name} was altered: {len(data) + 1} bytes" in complaint(tmp_path / "model", verify=verify)
    file.unlink()
    assert complaint(tmp_path / "model", verify=verify).startswith(f"{file} is missing; ")


def test_altered_file(tmp_path: Path) -> None:
    file = save(tmp_path / "model") / "learner.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert complaint(tmp_path / "model").startswith(f"{file} was altered: its checksum differs; ")


def test_altered_manifest(tmp_path: Path) -> None:
    manifest = save(tmp_path / "model") / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"trees": 3', '"trees": 1'))
    assert complaint(tmp_path / "model").startswith(f"{manifest} was altered: its checksum differs; ")


@pytest.mark.parametrize("version", [4, 99])
def test_later_format_versions(tmp_path: Path, version: int) -> None:
    manifest = save(tmp_path / "model") / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format_version": 3', f'"format_version": {version}'))
    message = complaint(tmp_path / "model")
    newer = f"longtail {__version__} reads formats 1 to 3, a newer longtail reads this model"
    assert f"has model format {version}; {newer}" in message


def test_other_files_in_the_directory_are_no_business_of_the_model(tmp_path: Path) -> None:
    (save(tmp_path / "model") / "README.md").write_text("mine")
    assert load_model(tmp_path / "model").manifest == MANIFEST


def test_restoring_turns_what_does_not_fit_into_a_model_error() -> None:
    with pytest.raises(ModelError) as caught, restoring("model/", "learner"):
        raise ValueError("4 rows for 3 labels")
    assert str(caught.value) == "model/learner.safetensors does not fit its part: 4 rows for 3 labels"
    with pytest.raises(ModelError, match="'weights' is missing"), restoring("model", "learner"):
        {}["weights"]
    with pytest.raises(ModelError, match=r"does not fit its part: frozen is 4"), restoring("model", "learner"):
        raise UsageError("frozen is 4")
    with pytest.raises(ModelError, match=r"^altered$"), restoring("model", "learner"):
        raise ModelError("altered")
    with pytest.raises(ModelError) as caught, restoring("model", "learner"):
        raise RuntimeError("size mismatch\n" + "of weights" * 1000)
    assert str(caught.value) == "model/learner.safetensors does not fit its part: size mismatch"
    with pytest.raises(ModelError) as caught, restoring("model", "learner"):
        raise RuntimeError("long" * 1000)
    assert len(str(caught.value)) < 400


# numbers that are not finite


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8"])
def test_numbers_that_are_not_finite_are_neither_saved_nor_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: float, dtype: str
) -> None:
    for module in (model, manifest):
        monkeypatch.setattr(module, "BLOCK", 100)
    weights = np.zeros((7, 50), dtype=dtype)
    weights[6, 49] = bad
    states = {"learner": {"fine": np.zeros(3), "weights": weights}}
    with pytest.raises(LongtailError, match="not saved: 'weights' of its learner has numbers that are not finite"):
        save(tmp_path / "model", states=states)
    assert list(tmp_path.iterdir()) == []
    with monkeypatch.context() as patch:
        patch.setattr(model, "_not_finite", lambda *_: None)
        save(tmp_path / "model", states=states)
    message = complaint(tmp_path / "model")
    assert message == f"{tmp_path}/model/learner.safetensors: array 'weights' has numbers that are not finite"


def test_arrays_in_column_order_are_looked_at_whole(tmp_path: Path) -> None:
    weights = np.asfortranarray(np.zeros((40, 30)))
    weights[3, 29] = np.nan
    for array in (weights, weights[:, ::-1], weights[1::2, 1::2]):
        with pytest.raises(LongtailError, match="not finite"):
            save(tmp_path / "model", states={"learner": {"weights": array}})


# threads


@pytest.mark.parametrize("threads", [1, 3])
def test_files_are_hashed_on_as_many_threads_as_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    for module in (model, manifest):
        monkeypatch.setattr(module, "BLOCK", 64)
    seen, most = set(), []
    running, lock = [0], threading.Lock()
    sha256 = hashlib.sha256

    class Watched:
        def sha256(self, data: Any) -> Any:
            if not isinstance(data, memoryview):
                return sha256(data)
            with lock:
                running[0] += 1
                most.append(running[0])
                seen.add(threading.get_ident())
            time.sleep(0.02)
            with lock:
                running[0] -= 1
            return sha256(data)

    monkeypatch.setattr(model, "hashlib", Watched())
    save(tmp_path / "model", threads=threads)
    assert (max(most), len(seen)) == (threads, threads)
    seen.clear()
    most.clear()
    load_model(tmp_path / "model", threads=threads)
    assert (max(most), len(seen)) == (threads, threads)


def test_a_tagger_hands_its_threads_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from longtail.corpus import Corpus
    from longtail.tagger import Tagger

    asked = []
    run = model.thread_map

    def watched(function: Any, tasks: Any, *, workers: int) -> Any:
        asked.append(workers)
        return run(function, tasks, workers=workers)

    Y = sp.csr_matrix(np.eye(3, dtype=np.float32))
    tagger = Tagger("one-vs-all", threads=3).fit(
        Corpus(labels=LABELS, Y=Y, texts=["cats purr", "dogs bark", "towns grow"])
    )
    monkeypatch.setattr(model, "thread_map", watched)
    tagger.save(tmp_path / "model")
    assert asked and set(asked) == {3}
    asked.clear()
    Tagger.load(tmp_path / "model", threads=2)
    assert asked and set(asked) == {2}
