"""Training speed and memory of AttentionXML beside the published network's arithmetic in plain PyTorch.

    python benchmarks/neural.py [--steps N] [--turns N]

Every row trains on the same made-up texts (as many labels, words and tokens as vuln-libraries has) with batches of 32,
each in a process of its own, which says how much memory it took. The rows take turns, and the best turn of each
counts: on a busy machine the others say more about the neighbours. Steps before `--warm` are not timed. All cores.

plain       the published network as one would write it: packed bidirectional LSTM of 256 a direction, attention of
            all labels at once (documents x labels x 512 numbers), one classifier for all labels, Adam
same        ours with the same sizes and the same arithmetic: same weights, same logits (`largest_difference`)
shortlist   the same with a loss over the batch's labels and 400 random ones
default     ours as it comes
tailmix     ours as it comes, with TailMix
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from common import RESULTS, load_average, machine, versions, write_json
from longtail.corpus import Corpus
from longtail.data.synthetic import synthetic
from longtail.fit import Fit
from longtail.learners.neural.base import NeuralLearner
from longtail.learners.neural.shortlists.base import SharedLabels
from longtail.learners.neural.training.batches import Batch, Batches
from longtail.learners.neural.training.network import Network
from longtail.registry import build
from longtail.run import Run, available_cores

RESULT = RESULTS / "neural-speed.json"
SIZES = {"documents": 6000, "labels": 2782, "words": 10_000, "words_per_document": 60, "labels_per_document": 2.6}
BATCH, EMBEDDING, HIDDEN = 32, 300, 256  # of a direction, and of the classifier's hidden layer
SAME: dict[str, Any] = {
    "part": "attentionxml",
    "batch": BATCH,
    "shortlist": "all-labels",
    "start": "random",
    "rate": 0.001,
    "word_rate": 0.001,
    "label_rate": 0.001,
    "encoder": {"part": "bilstm", "size": EMBEDDING, "hidden": HIDDEN, "skip": False},
    "head": {"part": "label-attention", "classifier": "shared", "hidden": HIDDEN, "document": False},
}
#: Our rows: the learner and its hooks.
OURS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "same": (SAME, []),
    "shortlist": ({**SAME, "shortlist": "sampled-labels"}, []),
    "default": ({"part": "attentionxml", "batch": BATCH}, []),
    "tailmix": ({"part": "attentionxml", "batch": BATCH}, ["tailmix"]),
}
ROWS = ("plain", *OURS)


class PlainNetwork(nn.Module):
    """AttentionXML without a label tree (https://arxiv.org/abs/1811.01727), nothing saved, nothing shared."""

    def __init__(self, words: int, labels: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, EMBEDDING, padding_idx=0, sparse=True)
        self.lstm = nn.LSTM(EMBEDDING, HIDDEN, batch_first=True, bidirectional=True)
        self.initial = nn.Parameter(torch.zeros(2, 2, 1, HIDDEN))
        self.attention = nn.Linear(2 * HIDDEN, labels, bias=False)
        self.inner = nn.Linear(2 * HIDDEN, HIDDEN)
        self.outer = nn.Linear(HIDDEN, 1)

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, L)."""
        embedded = functional.dropout(self.words(batch.tokens), 0.2, self.training)
        packed = pack_padded_sequence(embedded, batch.mask.sum(dim=1), batch_first=True, enforce_sorted=False)
        state = self.initial.expand(-1, -1, len(batch), -1).contiguous()
        hidden, _ = pad_packed_sequence(self.lstm(packed, (state[0], state[1]))[0], batch_first=True)
        hidden = functional.dropout(hidden, 0.5, self.training)
        scores = self.attention(hidden).transpose(1, 2).masked_fill(~batch.mask[:, None, :], -torch.inf)
        contexts = scores.softmax(dim=2) @ hidden
        return self.outer(functional.relu(self.inner(contexts)))[..., 0]

    def like(self, network: Network) -> PlainNetwork:
        """With the weights of ours."""
        encoder: Any = network.encoder
        head: Any = network.head
        pairs = [(self.words.weight, encoder.words.weight), (self.attention.weight, head.queries.weight)]
        for own, other in ((self.inner, head.inner), (self.outer, head.outer)):
            pairs += [(own.weight, other.weight), (own.bias, other.bias)]
        for ending, lstm in (("", encoder.onwards[0]), ("_reverse", encoder.backwards[0])):
            pairs += [(getattr(self.lstm, f"{name}{ending}"), weight) for name, weight in lstm.named_parameters()]
        with torch.no_grad():
            for own, other in pairs:
                own.copy_(other)
        return self


class EnoughError(Exception):
    """So many steps were asked for."""


class Clock:
    """A progress bar that notes when each step of a training ends, and stops it after the last."""

    def __init__(self, steps: int) -> None:
        self.steps, self.times, self.training = steps, [], False

    def bar(self, title: str, total: float | None) -> Clock:
        self.training = title.startswith("Training")
        return self

    def __enter__(self) -> Clock:
        return self

    def __exit__(self, *exception: object) -> None:
        self.training = False

    def advance(self, amount: float = 1) -> None:
        if not self.training or not amount:
            return
        self.times.append(time.perf_counter())
        if len(self.times) >= self.steps:
            raise EnoughError


def corpus() -> Corpus:
    return synthetic(**SIZES, texts=True, seed=0)  # type: ignore[arg-type]


def learner_of(row: str) -> NeuralLearner:
    learner = build(OURS[row][0])
    assert isinstance(learner, NeuralLearner)
    return learner


def plain_steps(data: Corpus, steps: int) -> list[float]:
    """When each step of the plain network's training ended."""
    learner, run = learner_of("same"), Run()
    learner.encoder.fit_tokeniser(data.texts, run)
    tokens = learner.encoder.tokens(data.texts, run)
    torch.manual_seed(0)
    network = PlainNetwork(learner.encoder.tokeniser_.size, data.n_labels)
    others = [weight for name, weight in network.named_parameters() if not name.startswith("words.")]
    optimisers = [torch.optim.SparseAdam([network.words.weight], lr=0.001), torch.optim.Adam(others, lr=0.001)]
    batches = Batches(tokens, SharedLabels(data.Y, None, 0), BATCH, seed=0)
    times: list[float] = []
    while True:
        for batch in batches:
            for optimiser in optimisers:
                optimiser.zero_grad()
            functional.binary_cross_entropy_with_logits(network(batch), batch.targets).backward()
            for optimiser in optimisers:
                optimiser.step()
            times.append(time.perf_counter())
            if len(times) == steps:
                return times


def our_steps(row: str, data: Corpus, steps: int) -> list[float]:
    """When each step of a fit ended."""
    clock = Clock(steps)
    hooks: Any = [build(name) for name in OURS[row][1]]
    learner = learner_of(row).set_params(least_steps=steps)
    with contextlib.suppress(EnoughError):
        learner.learn(data, Fit(Run(progress=clock), hooks=hooks))
    return clock.times


def measure(row: str, steps: int, warm: int) -> dict[str, Any]:
    """One turn of a row, in this process."""
    torch.set_num_threads(available_cores())
    data = corpus()
    before = peak_mb()
    times = plain_steps(data, warm + steps) if row == "plain" else our_steps(row, data, warm + steps)
    spent = times[-1] - times[warm - 1]
    peak = peak_mb()
    return {
        "seconds_per_document": spent / steps / BATCH,
        "fastest_step_ms": 1000 * float(np.diff(times[warm - 1 :]).min()),
        "peak_mb": peak,
        "peak_mb_of_training": round(peak - before, 1),
    }


def largest_difference() -> float:
    """Between the logits of the plain network and of ours with the same weights, over some batches."""
    data, learner, run = corpus(), learner_of("same"), Run()
    learner.encoder.fit_tokeniser(data.texts, run)
    ours = learner.new_network(data.n_labels, run).eval()
    plain = PlainNetwork(learner.encoder.tokeniser_.size, data.n_labels).like(ours).eval()
    batches = Batches(learner.encoder.tokens(data.texts, run), SharedLabels(data.Y, None, 0), BATCH, seed=0)
    with torch.inference_mode():
        return max(float((plain(batch) - ours(batch)).abs().max()) for batch, _ in zip(batches, range(3), strict=False))


def peak_mb() -> float:
    """The most this process has held so far; getrusage's figure carries over that of the parent process."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return round(int(status.partition("VmHWM:")[2].split()[0]) / 1024, 1)
    except (OSError, IndexError, ValueError):
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def in_a_process_of_its_own(row: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--row", row, "--steps", str(options.steps), "--warm", str(options.warm)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def summary(row: str, turns: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = [turn["seconds_per_document"] for turn in turns]
    return {
        "row": row,
        "seconds_per_document": round(min(seconds), 6),
        "documents_per_second": round(1 / min(seconds), 1),
        "fastest_step_ms": round(min(turn["fastest_step_ms"] for turn in turns), 2),
        "peak_mb": min(turn["peak_mb"] for turn in turns),
        "peak_mb_of_training": min(turn["peak_mb_of_training"] for turn in turns),
        "turns": [round(each, 6) for each in seconds],
    }


def report(options: argparse.Namespace, measured: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    load = load_average()
    turns: dict[str, list[dict[str, Any]]] = {row: [] for row in ROWS}
    for _ in range(options.turns):
        for row in ROWS:
            turns[row].append(measured(row))
    rows = {row: summary(row, found) for row, found in turns.items()}
    seconds = {row: found["seconds_per_document"] for row, found in rows.items()}
    return {
        "command": shlex.join(["python", "benchmarks/neural.py", *sys.argv[1:]]),
        "machine": machine(),
        "versions": versions(("longtail", "torch", "lightning", "numpy")),
        "load_average_before": load,
        "data": {**SIZES, "batch": BATCH},
        "steps": options.steps,
        "warm_up_steps": options.warm,
        "largest_difference": largest_difference(),
        "rows": list(rows.values()),
        "times_faster_than_plain": {row: round(seconds["plain"] / seconds[row], 2) for row in OURS if row != "tailmix"},
        "tailmix_time_ratio": round(seconds["tailmix"] / seconds["default"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30, help="timed steps of a turn")
    parser.add_argument("--warm", type=int, default=5, help="steps before that")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--row", choices=ROWS, help="measure only this, once and in this process")
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    options = parser.parse_args()
    if min(options.steps, options.warm, options.turns) < 1:
        parser.error("--steps, --warm and --turns must be at least 1")
    if options.row is not None:
        print(json.dumps(measure(options.row, options.steps, options.warm)))
        return

    def measured(row: str) -> dict[str, Any]:
        found = in_a_process_of_its_own(row, options)
        print(
            f"{row:10} {1000 * found['seconds_per_document']:8.2f} ms/document {found['peak_mb']:8.0f} MB", flush=True
        )
        return found

    result = report(options, measured)
    write_json(options.output, result)
    print(json.dumps({name: result[name] for name in ("times_faster_than_plain", "tailmix_time_ratio")}))


if __name__ == "__main__":
    main()
