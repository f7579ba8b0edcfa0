"""An encoder-decoder that fills gaps in texts: its tokeniser, how it is trained, and how it generates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longtail.augment.generate.prompt import DeepPrompt
from longtail.augment.generate.spans import Window
from longtail.errors import UsageError
from longtail.run import Run

#: Windows trained on, and filled, at once: many are filled in about the time of a few.
BATCH, FILLED = 16, 64
#: New tokens per token that was masked, and beside: what a gap may grow to.
GROWTH, BESIDE = 2, 16


@dataclass(eq=False)
class Filler:
    """tokeniser  one of the library `tokenizers`
    signs      what marks gaps, the first first; several of the same where the model knows only one (BART)
    prompt     soft vectors, or None
    limit      tokens of a text, at most: one that is much longer than others would slow down its whole batch
    """

    tokeniser: Any
    model: Any
    signs: list[str]
    limit: int
    prompt: DeepPrompt | None = None

    @classmethod
    def of(cls, tokeniser: Any, model: Any, name: str, most: int) -> Filler:
        """most  tokens of a text that are wanted, where the network could read more"""
        sentinels: list[str] = []
        while tokeniser.token_to_id(f"<extra_id_{len(sentinels)}>") is not None:
            sentinels.append(f"<extra_id_{len(sentinels)}>")
        tokeniser.no_padding()
        tokeniser.no_truncation()
        config = model.config
        positions = getattr(config, "max_position_embeddings", None)
        if positions is None or config.model_type in ("t5", "mt5", "umt5"):
            positions = most
        limit = min(int(positions), most)
        if len(sentinels) > 1:
            return cls(tokeniser, model, sentinels, limit)
        if tokeniser.token_to_id("<mask>") is None:
            raise UsageError(f"'{name}' knows no sign for gaps (<extra_id_0> as T5, <mask> as BART)")
        return cls(tokeniser, model, ["<mask>"] * 100, limit)

    @property
    def sentinels(self) -> bool:
        return self.signs[0] != self.signs[1]

    @property
    def most_gaps(self) -> int:
        return len(self.signs) - 1

    @property
    def separator(self) -> str:
        found: str = self.tokeniser.id_to_token(self.model.config.eos_token_id)
        return found

    def fits(self, window: Window) -> bool:
        """Whether the encoder can read it, and the decoder write it, whole."""
        room = self.limit - 2 - (0 if self.prompt is None else self.prompt.count)
        read, written = self._encoded([window.source(self.signs, self.separator), " ".join(window.words)])
        return max(len(read), len(written)) <= room

    # numbers of texts
    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        return [found.ids for found in self.tokeniser.encode_batch(list(texts))]

    def _padded(self, rows: Sequence[Sequence[int]], fill: int) -> Tensor:
        length = max(map(len, rows))
        return torch.tensor([[*row, *[fill] * (length - len(row))] for row in rows], dtype=torch.int64)

    def _sources(self, windows: Sequence[Window]) -> tuple[Tensor, Tensor]:
        encoded = self._encoded([window.source(self.signs, self.separator) for window in windows])
        ids = self._padded(encoded, self.model.config.pad_token_id)
        mask = self._padded([[1] * len(row) for row in encoded], 0)
        return (ids, mask) if self.prompt is None else self.prompt.lengthened(ids, mask)

    def _targets(self, windows: Sequence[Window]) -> list[list[int]]:
        if self.sentinels:
            return self._encoded([window.target(self.signs) for window in windows])
        return self._encoded([" ".join(window.words) for window in windows])

    @contextmanager
    def _prompted(self) -> Iterator[None]:
        with nullcontext() if self.prompt is None else self.prompt.attached(self.model):
            yield

    # training
    def loss(self, windows: Sequence[Window]) -> Tensor:
        ids, mask = self._sources(windows)
        with self._prompted():
            found: Tensor = self.model(
                input_ids=ids, attention_mask=mask, labels=self._padded(self._targets(windows), -100)
            ).loss
        return found

    def train(
        self, batches: Iterable[Sequence[Window]], optimiser: torch.optim.Optimizer, steps: int, until: float, bar: Any
    ) -> int:
        """Optimiser steps until there are enough, or it is late (`until`, of time.monotonic); how many were done.

        bar  is moved on by 100 in all, by steps or by time, whichever is sooner done
        """
        self.model.train()
        done, shown, began = 0, 0.0, time.monotonic()
        for windows in batches:
            if done >= steps or time.monotonic() >= until:
                break
            optimiser.zero_grad()
            self.loss(windows).backward()  # type: ignore[no-untyped-call]
            parameters = [p for group in optimiser.param_groups for p in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            done += 1
            spent = (time.monotonic() - began) / max(until - began, 1e-9)
            share = min(100.0, 100 * max(done / steps, spent))
            bar.advance(share - shown)
            shown = share
        self.model.eval()
        return done

    # generating
    @torch.inference_mode()
    def fill(self, windows: Sequence[Window], *, temperature: float | None) -> list[str]:
        """The texts of the windows with their gaps filled; temperature  of the draw, None for the likeliest words."""
        texts = [window.filled([None] * len(window.gaps)) for window in windows]
        asked = [place for place, window in enumerate(windows) if window.gaps and self.fits(window)]
        # windows of like length together, so that there is little padding
        asked.sort(key=lambda place: len(windows[place].words))
        for first in range(0, len(asked), FILLED):
            some = asked[first : first + FILLED]
            chosen = [windows[place] for place in some]
            for place, ids in zip(some, self._generated(chosen, temperature), strict=True):
                texts[place] = self._read(windows[place], ids) or texts[place]
        return texts

    def _generated(self, windows: Sequence[Window], temperature: float | None) -> list[list[int]]:
        ids, mask = self._sources(windows)
        longest = max(map(len, self._targets(windows)))
        drawn = {"do_sample": False} if temperature is None else {"do_sample": True, "temperature": temperature}
        most = min(GROWTH * longest + BESIDE if self.sentinels else longest + BESIDE, self.limit - 2)
        with self._prompted():
            found = self.model.generate(
                input_ids=ids, attention_mask=mask, max_new_tokens=most, min_new_tokens=1, num_beams=1,
                no_repeat_ngram_size=3, **drawn,
            )  # fmt: skip
        rows: list[list[int]] = found.tolist()
        return rows

    def _read(self, window: Window, ids: Sequence[int]) -> str:
        """The text of a window with what was generated in its gaps; gaps that were not filled keep their words."""
        if not self.sentinels:
            return " ".join(self.tokeniser.decode(list(ids), skip_special_tokens=True).split())
        known = {self.tokeniser.token_to_id(sign): number for number, sign in enumerate(self.signs)}
        filling: dict[int, list[int]] = {}
        current = -1
        end = self.model.config.eos_token_id
        for token in ids:
            if token in known:
                current = known[token]
                filling.setdefault(current, [])
            elif token == end:
                break
            elif current >= 0:
                filling[current].append(token)
        found: list[str | None] = []
        for number in range(len(window.gaps)):
            text = self.tokeniser.decode(filling.get(number, []), skip_special_tokens=True).strip()
            found.append(text or None)
        return window.filled(found)


@contextmanager
def torch_seed(seed: int, run: Run) -> Iterator[None]:
    """Random numbers of torch that follow from the seed alone, on the run's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(run.workers)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(before)


def endless(draw: Callable[[np.random.Generator], Window], rng: np.random.Generator) -> Iterator[list[Window]]:
    """Batches of windows drawn anew, without end."""
    while True:
        yield [draw(rng) for _ in range(BATCH)]
