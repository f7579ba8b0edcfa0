"""How far a planned run is and how long it will still take: the plan's seconds, corrected by those seen so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longtail.plan import Plan

#: What a run calls the stages of a plan; those that are not listed are no stages of a run.
STAGES = {
    "read": "read", "features": "features", "tokens": "features", "join": "features", "cluster": "cluster",
    "train": "train", "network": "train", "tree": "train", "shortlists": "train", "folds": "rerank",
    "re-rank": "rerank", "save": "save", "generator": "generate", "generate": "generate", "filter": "filter",
}  # fmt: skip
#: Bars of what a network reads before it is trained: they say nothing about how far its training is.
PREPARING = ("Vocabulary", "Tokens", "Frozen layers", "Encoder", "Scoring")
#: Share of the whole plan that what was seen must outweigh before it corrects the rest.
DOUBT = 0.2


@dataclass
class Done:
    """What a bar says: how much is done, how much of that an earlier run did, and since when it is open."""

    title: str
    total: float | None
    started: float
    done: float = 0.0
    before: float = 0.0

    @property
    def share(self) -> float | None:
        return None if not self.total else min(1.0, self.done / self.total)

    def rate(self, now: float) -> float:
        """Per second, in this run."""
        return (self.done - self.before) / max(now - self.started, 1e-9)

    def left(self, now: float) -> float | None:
        """Seconds to go at this rate; None where nothing tells."""
        rate = self.rate(now)
        return None if not self.total or rate <= 0 else max(0.0, self.total - self.done) / rate


@dataclass
class _Chunk:
    """Planned stages that are one stage of the run; trainings  networks among them, each with a bar of its own."""

    owner: str
    stage: str
    seconds: float
    trainings: int = 0


@dataclass
class Ahead:
    """Chunks of the plan in their order; those before `place` are done or were skipped."""

    chunks: list[_Chunk]
    place: int = 0
    started: float | None = None  # when the chunk at `place` began, None while none is under way
    depth: int = 0  # stages of the same name within it that have not ended
    seen: float = 0.0  # seconds of finished chunks
    seen_planned: float = 0.0  # what was planned for them
    highest: float = 0.0  # share that was told last

    @classmethod
    def of(cls, plan: Plan, read_seconds: float) -> Ahead:
        """Of a plan made when documents have been read."""
        chunks: list[_Chunk] = []
        for stage in plan.stages:
            owner, _, name = stage.name.rpartition(": ")
            kind = STAGES.get(name.rpartition(" ")[2], "")
            if owner.split(": ")[-1] == "second stage":
                owner, kind = owner.rpartition(": ")[0], "retune"
            if not chunks or (chunks[-1].owner, chunks[-1].stage) != (owner, kind):
                chunks.append(_Chunk(owner, kind, 0.0))
            chunks[-1].seconds += stage.seconds
            chunks[-1].trainings += name.endswith("train")
        read = chunks.pop(0)
        return cls([_Chunk("", "read", read_seconds), *chunks], 1, seen=read_seconds, seen_planned=read.seconds)

    @property
    def planned(self) -> float:
        return sum(chunk.seconds for chunk in self.chunks)

    @property
    def current(self) -> _Chunk | None:
        return self.chunks[self.place] if self.place < len(self.chunks) else None

    def _is_current(self, owner: str, stage: str) -> bool:
        chunk = self.current
        return chunk is not None and (chunk.owner, chunk.stage) == (owner, stage)

    # what happens
    def begin(self, owner: str, stage: str, now: float) -> None:
        """A stage begins; chunks between were quick, or need not be done again."""
        if self.started is not None:
            self.depth += self._is_current(owner, stage)
            return
        for place in range(self.place, len(self.chunks)):
            if (self.chunks[place].owner, self.chunks[place].stage) == (owner, stage):
                self.place, self.started = place, now
                return

    def end(self, owner: str, stage: str, now: float, before: float = 0.0) -> None:
        """A stage ends; before  the share of it that an earlier run did."""
        chunk = self.current
        if chunk is None or self.started is None or not self._is_current(owner, stage):
            return
        if self.depth:
            self.depth -= 1
            return
        if before < 0.5:
            self.seen += now - self.started
            self.seen_planned += chunk.seconds * (1 - before)
        self.place, self.started = self.place + 1, None

    # how far it is
    def left(self, now: float, bars: list[Done]) -> float:
        """Seconds until the command is done."""
        return self._left_here(now, bars) + self._correction(now, bars) * sum(
            chunk.seconds for chunk in self.chunks[self.place + 1 :]
        )

    def share(self, now: float, bars: list[Done]) -> float:
        """How much of the whole is done, 0 to 1; never goes back."""
        chunk = self.current
        done = sum(other.seconds for other in self.chunks[: self.place])
        if chunk is not None and self.started is not None:
            bar = self._bar(bars)
            if bar is not None and bar.share is not None:
                done += chunk.seconds * bar.share
            else:
                spent = now - self.started
                done += chunk.seconds * spent / max(spent + self._left_here(now, bars), 1e-9)
        self.highest = max(self.highest, min(1.0, done / max(self.planned, 1e-9)))
        return self.highest

    def _bar(self, bars: list[Done]) -> Done | None:
        """The bar that tells how far the current chunk is, where one alone does."""
        chunk = self.current
        telling = [bar for bar in bars if bar.title.rpartition(": ")[2] not in PREPARING]
        several = chunk is not None and (chunk.trainings > 1 or not chunk.stage)
        return None if several or not telling else telling[-1]

    def _left_here(self, now: float, bars: list[Done]) -> float:
        """Seconds until the current chunk is done: as planned at first, then at the rate of its bar."""
        chunk = self.current
        if chunk is None:
            return 0.0
        spent = 0.0 if self.started is None else now - self.started
        planned = chunk.seconds * self._seen_correction()
        bar = self._bar(bars)
        if bar is None or bar.share is None or not bar.total:
            others = [left for other in bars if (left := other.left(now)) is not None]
            return max([planned - spent, 0.1 * spent, *others])
        own = bar.left(now)
        sure = min(1.0, (bar.done - bar.before) / bar.total / 0.05)
        return planned * (1 - bar.share) if own is None else sure * own + (1 - sure) * planned * (1 - bar.share)

    def _seen_correction(self) -> float:
        doubt = DOUBT * self.planned
        return (self.seen + doubt) / max(self.seen_planned + doubt, 1e-9)

    def _correction(self, now: float, bars: list[Done]) -> float:
        """What planned seconds of later chunks are to be multiplied by: what the current one shows counts, too."""
        chunk, bar, doubt = self.current, self._bar(bars), DOUBT * self.planned
        if chunk is None or self.started is None or bar is None or not bar.total or bar.done <= bar.before:
            return self._seen_correction()
        seen = now - self.started
        planned = chunk.seconds * (bar.done - bar.before) / bar.total
        return (self.seen + seen + doubt) / max(self.seen_planned + planned + doubt, 1e-9)
