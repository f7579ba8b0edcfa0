"""DECAF trained without autograd: the steps of the general way, for what goes that way and for nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from short_text_cases import LABEL_TEXT, QUICK, WEIGHTED, titles  # noqa: E402

from longtail.corpus import Corpus  # noqa: E402
from longtail.fit import Fit  # noqa: E402
from longtail.learners.neural import by_hand  # noqa: E402
from longtail.learners.neural.memory import goes_by_hand  # noqa: E402
from longtail.learners.neural.training import checkpoints  # noqa: E402
from longtail.registry import build  # noqa: E402
from longtail.run import Hardware, Run  # noqa: E402

DECAF: dict[str, Any] = {**QUICK, "part": "decaf", "head": LABEL_TEXT, "encoder": {**WEIGHTED, "dropout": 0.5}}


class Cut(Exception):  # noqa: N818
    """What cuts a run off."""


def masked(corpus: Corpus) -> Corpus:
    """Some stored pairs without any say, and some targets that are soft."""
    draw = np.random.default_rng(5)
    Y = corpus.Y.copy()
    Y.data = np.where(draw.random(Y.nnz) < 0.3, np.float32(0.4), Y.data).astype(np.float32)
    return replace(corpus, Y=Y, pair_weight=draw.integers(0, 2, Y.nnz).astype(np.float32))


def learnt(config: dict[str, Any], corpus: Corpus, **options: Any) -> dict[str, Any]:
    state: dict[str, Any] = build(config).fit(corpus, run=Run(seed=3, threads=1, **options)).state()  # type: ignore[attr-defined]
    return state


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


def ways(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Which way each training goes from now on."""
    seen: list[bool] = []
    suits = by_hand.suits

    def watched(*given: Any) -> bool:
        seen.append(suits(*given))
        return seen[-1]

    monkeypatch.setattr(by_hand, "suits", watched)
    return seen


@pytest.mark.parametrize("made", [titles, lambda: masked(titles())], ids=["plain", "masked and soft"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"shortlist": {"part": "sampled-labels", "negatives": 3}}, {"clip": 0.01}, {"clip": 0.0, "decay": 0.1}],
    ids=["all labels", "sampled", "clipped", "decayed"],
)
def test_the_same_as_with_autograd(made: Any, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = ways(monkeypatch)
    config = {**DECAF, "least_steps": 12, **changes}
    one = learnt(config, made())
    monkeypatch.setattr(by_hand, "suits", lambda *given: False)
    other = learnt(config, made())
    assert seen == [True]
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-3, atol=2e-5, err_msg=name)


@pytest.mark.parametrize(
    "changes",
    [{"average": 0.5}, {"valid_share": 0.2}, {"head": {**LABEL_TEXT, "residual": True}},
     {"head": {**LABEL_TEXT, "graph": True}}, {"head": {**LABEL_TEXT, "free": False}},
     {"encoder": {**WEIGHTED, "rectified": True}}, {"encoder": {**WEIGHTED, "dropout_words": 0.1}}],
)  # fmt: skip
def test_what_goes_the_general_way(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = ways(monkeypatch)
    learnt({**DECAF, **changes}, titles())
    assert seen == [False]


def test_plans_know_which_way_it_goes() -> None:
    assert goes_by_hand(build(DECAF))  # type: ignore[arg-type]
    assert not goes_by_hand(build({**DECAF, "head": {**LABEL_TEXT, "residual": True}}))  # type: ignore[arg-type]
    assert not goes_by_hand(build({**QUICK, "part": "astec"}))  # type: ignore[arg-type]


def test_other_hardware_goes_the_general_way(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = ways(monkeypatch)
    learnt(DECAF, titles(), hardware=Hardware(precision="bf16-mixed"))
    assert seen == [False]


def test_no_gradient_of_masked_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other targets of pairs that have no say change no byte."""
    seen = ways(monkeypatch)
    corpus = masked(titles())
    Y = corpus.Y.copy()
    assert corpus.pair_weight is not None
    Y.data = np.where(corpus.pair_weight == 0, np.float32(0.9), Y.data).astype(np.float32)
    config = {**DECAF, "prior": 0.0}
    assert same(learnt(config, corpus), learnt(config, replace(corpus, Y=Y))) and seen == [True, True]


def test_the_same_bytes_with_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_hand, "PIECE", 50)
    seen = ways(monkeypatch)
    one, other = (build(DECAF).fit(titles(), run=Run(seed=3, threads=threads)) for threads in (1, 3))
    assert same(one.state(), other.state()) and seen == [True, True]  # type: ignore[attr-defined]


def test_labels_that_start_from_their_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = ways(monkeypatch)
    config = {**DECAF, "head": {**LABEL_TEXT, "start": "text"}}
    one = learnt(config, titles())
    monkeypatch.setattr(by_hand, "suits", lambda *given: False)
    other = learnt(config, titles())
    assert seen == [True]
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-3, atol=2e-5, err_msg=name)


def test_a_second_stage_behind_it() -> None:
    """What was trained without torch becomes a network of torch's, and is scored as it was tuned."""
    learner: Any = build(DECAF).fit(titles(), run=Run(seed=3, threads=1))
    before = learner.state()
    first = learner.score(titles(), 3)
    learner.retune(titles(), Fit.of(Run(seed=3, threads=1)))
    after = learner.state()
    assert same({"words": before["network.encoder.words.weight"]}, {"words": after["network.encoder.words.weight"]})
    assert not same(before, after)
    again: Any = build(DECAF)
    again.restore(after)
    one, other = learner.score(titles(), 3), again.score(titles(), 3)
    assert one.values.tobytes() == other.values.tobytes() != first.values.tobytes()


def test_scores_as_torch_scores() -> None:
    learner: Any = build(DECAF).fit(titles(), run=Run(seed=3, threads=1))
    tokens = learner.encoder.tokens(titles().texts, Run())
    wanted = learner.shortlist.best(learner.network_, tokens, learner.n_labels_, 4)
    found = learner.score(titles(), 4)
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-4)
    assert (found.ids == wanted.ids).mean() > 0.95, "but for ties"


def test_weights_of_a_file_are_checked() -> None:
    learner: Any = build(DECAF).fit(titles(), run=Run(seed=3, threads=1))
    kept = learner.state()
    for name in ("words.weight", "idf"):
        with pytest.raises(ValueError, match="must be"):
            build(DECAF).restore({**kept, f"network.encoder.{name}": kept[f"network.encoder.{name}"][:-1]})
    for name, array in (("vectors.weight", np.zeros((1, 24), np.float32)), ("bias.weight", np.zeros(3, np.float64))):
        with pytest.raises(ValueError, match="not float32"):
            build(DECAF).restore({**kept, f"network.head.{name}": array})
    with pytest.raises(ValueError, match="missing or too many"):
        build(DECAF).restore({name: array for name, array in kept.items() if name != "network.head.bias.weight"})


@pytest.mark.parametrize("at", [1, 5, 7])
def test_goes_on_where_it_was_cut(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {**DECAF, "least_steps": 9}
    whole = learnt(config, titles())
    monkeypatch.setattr(checkpoints, "CHECKPOINT_SECONDS", 0)
    take, taken = by_hand._Steps.take, [0]

    def cut(self: Any, *given: Any) -> None:
        if taken[0] == at:
            raise Cut
        taken[0] += 1
        take(self, *given)

    monkeypatch.setattr(by_hand._Steps, "take", cut)
    with pytest.raises(Cut):
        learnt(config, titles(), checkpoints=tmp_path)
    assert [file.stem for file in tmp_path.rglob("*.ckpt")] == [str(at)]
    taken[0] = at + 1
    assert same(whole, learnt(config, titles(), checkpoints=tmp_path))
    assert not list(tmp_path.rglob("*.ckpt")), "nothing is left when it is done"


def test_what_is_not_imported() -> None:
    """Neither Lightning nor torch, which take seconds to import: fit, keep, restore and score do without."""
    import os
    import subprocess
    import sys

    code = (
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from short_text_cases import LABEL_TEXT, QUICK, titles\n"
        "from longtail.registry import build\n"
        "learner, again = (build({**QUICK, 'part': 'decaf', 'head': LABEL_TEXT}) for _ in range(2))\n"
        "again.restore(learner.fit(titles()).state())\n"
        "one, other = (made.score(titles(), 3) for made in (learner, again))\n"
        "assert one.ids.tobytes() == other.ids.tobytes() and one.values.tobytes() == other.values.tobytes()\n"
        "print([name for name in ('lightning', 'torch') if name in sys.modules])\n"
        "assert again.network_.head.bias.weight.numel() == titles().n_labels, 'a network for whoever wants one'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == "[]"
