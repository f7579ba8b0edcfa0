"""What frozen encoders make of texts, kept from row to row: LightXML's rows read the same documents again and again.

    python benchmarks/frozen_states.py [--data DIR]     compares states and scores with those of single precision

A text goes through a Transformer whose layers are all frozen once, in bfloat16 (more than twice as fast as single
precision where the processor can), and the first token's states are kept under benchmarks/.work/states. Rows, seeds,
held-out documents and texts that the filter has read take them from there.

On 60 test documents of vuln-libraries states have a cosine of at least 0.99998 with those of single precision, and of
0.996 once the mean of all texts is taken off; scores of the trained LightXML differ by 0.008 at most and by 0.0004 on
average over the five best labels. The best label is the same for all 60, and so are 99.3 % of the five best.
"""

from __future__ import annotations

import argparse
import atexit
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common import WORK, data_folder
from longtail import Corpus
from longtail.fit import Fit
from longtail.learners.neural.encoders.first_tokens import FirstTokens, FirstTokensNetwork
from longtail.learners.neural.training.batches import token_tensors
from longtail.run import Run

#: Texts after which what is new is written.
WRITTEN_AFTER = 4000
#: Documents that are compared with single precision.
COMPARED = 60


class Kept:
    """float16 (texts, places, width) by the texts' tokens, in a file of their own."""

    def __init__(self, file: Path) -> None:
        self.file, self.new = file, 0
        self.places: dict[bytes, NDArray[np.float16]] = {}
        if file.exists():
            with np.load(file, allow_pickle=False) as found:
                self.places = dict(zip(map(bytes, found["keys"]), found["states"], strict=True))
        atexit.register(self.write)

    def write(self) -> None:
        if not self.new:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        half = self.file.with_suffix(".half")
        keys = np.frombuffer(b"".join(self.places), dtype=np.uint8).reshape(len(self.places), -1)
        with half.open("wb") as handle:
            np.savez(handle, keys=keys, states=np.stack(list(self.places.values())))
        half.replace(self.file)
        self.new = 0

    def of(self, keys: list[bytes], make: Callable[[list[int]], NDArray[np.float16]]) -> NDArray[np.float16]:
        """The states of texts; `make` makes those of some of them, by number."""
        missing = list({key: number for number, key in enumerate(keys) if key not in self.places}.values())
        if missing:
            self.places |= dict(zip([keys[number] for number in missing], make(missing), strict=True))
            self.new += len(missing)
            if self.new >= WRITTEN_AFTER:
                self.write()
        return np.stack([self.places[key] for key in keys])


def keep_states() -> None:
    """From now on networks whose layers are all frozen take first tokens from what is kept."""
    if hasattr(FirstTokensNetwork.low, "keeps"):
        return
    once, kept = FirstTokensNetwork.low, dict[str, Kept]()

    def low(self: FirstTokensNetwork, tokens: Tensor, mask: Tensor) -> Tensor:
        # while it is built it is compared with the library's own, token by token
        if self.frozen < self.layers or not hasattr(self, "lowest"):
            return once(self, tokens, mask)
        read = self.places + 1  # behind the first token of the highest layer nothing is read

        def make(some: list[int]) -> NDArray[np.float16]:
            with torch.autocast("cpu", torch.bfloat16):
                return once(self, tokens[some], mask[some])[:, :read].half().numpy()

        keys = [
            hashlib.sha256(row[inside].numpy().tobytes()).digest() for row, inside in zip(tokens, mask, strict=True)
        ]
        name = f"{type(self.model).__name__}-{self.layers}-{self.lowest}-{self.state_width}"
        if name not in kept:
            kept[name] = Kept(WORK / "states" / f"{name}.npz")
        states = torch.zeros(*tokens.shape, self.state_width)
        states[:, :read] = torch.from_numpy(kept[name].of(keys, make)).float()
        return states

    low.keeps = True  # type: ignore[attr-defined]
    FirstTokensNetwork.low = low  # type: ignore[method-assign]
    # a file of every token's states for every corpus is not needed then
    FirstTokens._states_file = lambda self, network, tokens: None  # type: ignore[method-assign]


def compared(learner: Any, corpus: Corpus, run: Run) -> dict[str, float]:
    """How like single precision what is kept is, of a fitted LightXML whose layers are all frozen; keeps from then on.

    cosine, centred  least cosine of a state with its own, as it is and without the mean over all texts
    most, mean       difference of scores: the largest of all, and the average over the five best labels
    first, five      share of the documents with the same best label, and of the five best that are the same
    """
    tokens = learner.encoder.tokens(corpus.texts, run)
    network = learner.network_.encoder

    def seen() -> tuple[NDArray[np.float64], Any]:
        ids, mask = token_tensors(tokens, np.arange(len(corpus)))
        with torch.inference_mode():
            states = network.low(ids, mask)[:, : network.places + 1].double().numpy()
        return states, learner.score(corpus, learner.n_labels_, run=run)

    (one, full), _ = seen(), keep_states()
    other, kept = seen()
    values = [scores.to_csr(learner.n_labels_).toarray() for scores in (full, kept)]
    off = np.abs(values[0] - values[1])
    same = [len({*a[:5]} & {*b[:5]}) for a, b in zip(full.ids.tolist(), kept.ids.tolist(), strict=True)]
    return {
        "cosine": float(_cosines(one, other).min()),
        "centred": float(_cosines(one - one.mean(axis=0), other - other.mean(axis=0)).min()),
        "most": float(off.max()),
        "mean": float(np.take_along_axis(off, full.ids[:, :5].astype(np.int64), axis=1).mean()),
        "first": float((full.ids[:, 0] == kept.ids[:, 0]).mean()),
        "five": float(np.mean(same) / min(5, full.k)),
    }


def _cosines(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    found: NDArray[np.float64] = (one * other).sum(axis=-1) / np.maximum(lengths, 1e-12)
    return found


def main() -> None:
    import xda

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    train, test = xda.corpora("vuln-libraries", 0, data_folder(parser.parse_args().data))
    row = {"corpus": "vuln-libraries", "learner": "lightxml", "setting": "plain", "seed": 0}
    first = Run(0, threads=1, checkpoints=WORK / "xda" / f"{row['corpus']}-{row['learner']}")
    learner = Fit(first).train(xda.tagger_of(row).pipeline.learner, train)
    some = test.rows(np.linspace(0, len(test) - 1, COMPARED).astype(np.int64))
    for name, value in compared(learner, some, Run(0, threads=1)).items():
        print(f"{name} {value:.5f}")


if __name__ == "__main__":
    main()
