"""Parts of other distributions are found by entry point, saved and loaded; parts nobody registers are not saved."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.errors import UsageError
from longtail.labels import LabelIndex
from longtail.learners.ensemble import Ensemble
from longtail.learners.linear.one_vs_all import OneVsAll
from longtail.tagger import Tagger

MODULE = '''
"""Somebody's own learner."""
from dataclasses import dataclass
from typing import Any

import numpy as np

from longtail.capabilities import Capabilities
from longtail.learners.base import Learner
from longtail.part import option
from longtail.scores import Scores

print("imported", __name__)


@dataclass(kw_only=True)
class Popular(Learner):
    """The most frequent labels, whatever the text"""

    paper = "none"
    least: int = option(1, "documents a label must have", low=0)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(needs=("texts",))

    def learn(self, corpus, fit):
        self.counts_ = np.asarray(corpus.Y.sum(axis=0)).reshape(-1).astype(np.float32)
        self.n_labels_, self.n_features_ = corpus.n_labels, None
        return self

    def score(self, corpus, k, *, run=None):
        order = np.argsort(-self.counts_, kind="stable")[:k].astype(np.int32)
        values = self.counts_[order] / max(self.counts_.max(), 1)
        return Scores(np.tile(order, (len(corpus), 1)), np.tile(values, (len(corpus), 1)))

    def state(self) -> dict[str, Any]:
        return {"counts": self.counts_}

    def restore(self, arrays) -> None:
        self.counts_ = np.asarray(arrays["counts"])
        self.n_labels_, self.n_features_ = len(self.counts_), None
'''

TRAIN = """
import sys
import numpy as np, scipy.sparse as sp
from longtail.corpus import Corpus
from longtail.labels import LabelIndex
from longtail.tagger import Tagger
Y = sp.csr_matrix(np.array([[1, 1, 0], [0, 1, 0], [0, 1, 1]], dtype=np.float32))
corpus = Corpus(labels=LabelIndex(["a", "b", "c"]), Y=Y, texts=["cats", "dogs", "towns"])
Tagger({"part": "popular", "least": 0}, threads=1).fit(corpus).save(sys.argv[1])
"""
LOAD = """
import sys
from longtail.errors import LongtailError
from longtail.tagger import Tagger
try:
    print(Tagger.load(sys.argv[1], threads=1).predict(["anything"], k=1))
except LongtailError as error:
    print(type(error).__name__, error)
"""


def distribution(folder: Path, entry_points: str, version: str = "1.0") -> Path:
    """A distribution as an installer leaves it: a module and its metadata."""
    folder.mkdir()
    (folder / "somebodys_parts.py").write_text(MODULE)
    info = folder / f"somebodys_parts-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: somebodys-parts\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[longtail.parts]\n{entry_points}\n")
    return folder


def python(*arguments: str, parts: Path | None = None) -> str:
    paths = [str(Path(__file__).parents[2] / "src"), *([str(parts)] if parts else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_part_of_another_distribution_is_trained_saved_loaded_and_listed(tmp_path: Path) -> None:
    parts = distribution(tmp_path / "site", "popular = somebodys_parts:Popular")
    model = str(tmp_path / "model")
    python("-c", TRAIN, model, parts=parts)
    config = json.loads((tmp_path / "model" / "manifest.json").read_text())["model"]["config"]
    assert config["learner"] == {"part": "popular", "least": 0}
    assert python("-c", LOAD, model, parts=parts).splitlines()[-1] == "[[Prediction(label='b', text='b', score=1.0)]]"
    listed = python("-m", "longtail", "methods", "--json", parts=parts).partition("\n")[2]
    assert {"part": "popular", "kind": "learner", "space": "-", "paper": "none",
            "summary": "The most frequent labels, whatever the text", "extra": ""} in json.loads(listed)  # fmt: skip
    assert "documents a label must have" in python("-m", "longtail", "methods", "popular", parts=parts)
    # the module lies on the path, but no distribution registers it any more
    (next(parts.glob("*.dist-info")) / "entry_points.txt").unlink()
    told = python("-c", LOAD, model, parts=parts)
    assert "imported" not in told
    assert told.startswith(f"ModelError {model}: the manifest does not fit this version of longtail: unknown learner")


@pytest.mark.parametrize(
    ("entry_points", "message"),
    [
        ("popular = somebodys_parts:Missing", "'popular' (somebodys_parts:Missing) cannot be imported: "),
        ("popular = no_such_module:Popular", "'popular' (no_such_module:Popular) cannot be imported: "),
        ("popular = json:dumps", "'popular' (json:dumps) cannot be used: it is not a learner"),
        ("popular = longtail.part:Part", "'popular' (longtail.part:Part) cannot be used: it is not a learner"),
        ("Popular_1 = somebodys_parts:Popular", "unknown part 'popular'; "),
    ],
)
def test_parts_that_cannot_be_used_say_why_and_do_not_stand_in_the_way(
    tmp_path: Path, entry_points: str, message: str
) -> None:
    parts = distribution(tmp_path / "site", entry_points)
    asked = (
        "from longtail.errors import UsageError\nfrom longtail.registry import entries, find\n"
        "assert len(entries()) > 30\n"
        "try:\n    find('popular')\nexcept UsageError as error:\n    print(error)"
    )
    assert python("-c", asked, parts=parts).splitlines()[-1].startswith(message)


def test_names_of_built_in_parts_are_not_given_away(tmp_path: Path) -> None:
    parts = distribution(tmp_path / "site", "bonsai = somebodys_parts:Popular")
    asked = "from longtail.registry import find, entries\nentries()\nprint(find('bonsai').target)"
    assert python("-c", asked, parts=parts).splitlines() == ["longtail.learners.linear.label_tree:Bonsai"]


def test_two_distributions_with_one_name(tmp_path: Path) -> None:
    parts = distribution(tmp_path / "site", "popular = somebodys_parts:Popular")
    other = parts / "others_parts-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: others-parts\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[longtail.parts]\npopular = json:JSONDecoder\n")
    asked = (
        "from longtail.errors import UsageError\nfrom longtail.registry import find\n"
        "try:\n    find('popular')\nexcept UsageError as error:\n    print(error)"
    )
    told = python("-c", asked, parts=parts)
    assert told.startswith("'popular' (json:JSONDecoder and somebodys_parts:Popular) is registered by several")


def test_entry_points_are_looked_up_only_where_a_name_is_not_built_in() -> None:
    asked = (
        "import sys\nimport longtail\nassert 'importlib.metadata' not in sys.modules\n"
        "from longtail import registry\nfrom longtail.recipe import Recipe\n"
        "registry.build('parabel')\nRecipe.find('bonsai').tagger()\n"
        "print(registry._installed.cache_info().currsize)"
    )
    assert python("-c", asked).split() == ["0"]


# parts nobody registers


@dataclass(kw_only=True)
class Unknown(OneVsAll):
    """A learner of one's own that is not registered."""


@pytest.mark.parametrize("inside", [False, True])
def test_a_part_that_is_not_registered_is_not_saved(tmp_path: Path, inside: bool) -> None:
    Y = sp.csr_matrix(np.eye(3, dtype=np.float32))
    corpus = Corpus(labels=LabelIndex(["a", "b", "c"]), Y=Y, texts=["cats purr", "dogs bark", "towns grow"])
    learner = Ensemble(members=[OneVsAll(), Unknown()]) if inside else Unknown()
    tagger = Tagger(learner, threads=1).fit(corpus)
    with pytest.raises(UsageError) as caught:
        tagger.save(tmp_path / "model")
    assert str(caught.value) == (
        "'Unknown' is not registered, so a model with it could not be loaded again: register it under the entry "
        "points 'longtail.parts'"
    )
    assert list(tmp_path.iterdir()) == []
