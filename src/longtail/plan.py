"""What a fit will need, before it starts: seconds and bytes of each stage, and what the machine can give.

Every part that does heavy work says so next to its code: `plan(sizes, run)` gives `Stage`s, from sizes alone. Stages
follow one another: what a stage keeps is held by all behind it, and what it needs beside that is gone when it ends. A
plan never changes a result: it says how many tasks go on at once, or that there is not enough room.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from longtail.errors import UsageError

if TYPE_CHECKING:
    from longtail.corpus import Corpus
    from longtail.run import Run

#: What the interpreter, the libraries of the core install and the compiled kernels hold before there is any data.
CORE = 185 << 20
#: Characters of texts that are looked at to tell how many words there are.
SAMPLE_CHARACTERS = 4_000_000
_UNITS = {"": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
          "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30, "TI": 1 << 40}  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """A piece of work.

    seconds  it takes, roughly
    peak     bytes it holds at most beside what is there when it begins
    kept     bytes that stay behind it; below 0 where it lets go of what others left
    """

    name: str
    seconds: float
    peak: int
    kept: int = 0

    def named(self, owner: str) -> Stage:
        return replace(self, name=f"{owner}: {self.name}")


def peak_of(stages: Iterable[Stage]) -> int:
    """Bytes held at most while these follow one another."""
    held = highest = 0
    for stage in stages:
        highest = max(highest, held + stage.peak)
        held += stage.kept
    return max(highest, held)


def kept_of(stages: Iterable[Stage]) -> int:
    return sum(stage.kept for stage in stages)


def named(owner: str, stages: Iterable[Stage]) -> list[Stage]:
    """The stages of a part inside a part."""
    return [stage.named(owner) for stage in stages]


def side_by_side(name: str, *sides: Sequence[Stage]) -> Stage:
    """Several rows of stages that go on at the same time, as one."""
    seconds = sum(stage.seconds for side in sides for stage in side)
    return Stage(name, seconds, sum(map(peak_of, sides)), sum(map(kept_of, sides)))


def holding(name: str, room: int, stages: Sequence[Stage]) -> list[Stage]:
    """The stages with something made before them and let go of behind them."""
    last = replace(stages[-1], kept=stages[-1].kept - room)
    return [Stage(name, room / 1e9, room, room), *stages[:-1], last]


@dataclass(frozen=True, eq=False)
class Sizes:
    """How large a corpus is: all that a plan looks at.

    documents, labels, pairs   rows and columns of Y, and what it stores
    frequency                  documents of each label, int64 (labels,)
    characters, texts_bytes    of all texts, and what they take in memory; 0 without texts
    sample                     some of the texts, evenly spread
    label_characters           of the labels' texts
    label_sample               some of these, evenly spread
    copies                     noisy copies of documents that are drawn on the fly
    features, nonzeros         columns of X, and what it stores; 0 while there is none
    held                       bytes of the corpus as it was read
    """

    documents: int
    labels: int
    pairs: int
    frequency: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    characters: int = 0
    texts_bytes: int = 0
    sample: tuple[str, ...] = ()
    label_characters: int = 0
    label_sample: tuple[str, ...] = ()
    copies: int = 0
    features: int = 0
    nonzeros: int = 0
    held: int = 0

    @classmethod
    def of(cls, corpus: Corpus) -> Sizes:
        texts, X, Y = corpus.texts, corpus.X, corpus.Y
        characters = sum(map(len, texts)) if texts is not None else 0
        labels = corpus.labels
        text_bytes = 0 if texts is None else sum(text.__sizeof__() for text in texts) + 8 * len(texts)
        held = text_bytes + Y.data.nbytes + Y.indices.nbytes + Y.indptr.nbytes
        held += sum(name.__sizeof__() for name in labels.names) + 16 * len(labels)
        held += 0 if corpus.ids is None else sum(name.__sizeof__() for name in corpus.ids) + 8 * len(corpus)
        named_texts = labels.texts or labels.names
        if labels.texts is not None:
            held += sum(text.__sizeof__() for text in labels.texts) + 8 * len(labels)
        if X is not None:
            held += X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
        return cls(
            documents=len(corpus),
            labels=corpus.n_labels,
            pairs=int(Y.nnz),
            frequency=np.bincount(Y.indices, minlength=corpus.n_labels),
            characters=characters,
            texts_bytes=text_bytes,
            sample=() if texts is None else _spread(texts, characters),
            label_characters=(label_characters := sum(map(len, named_texts))),
            label_sample=_spread(named_texts, label_characters),
            features=0 if X is None else int(X.shape[1]),
            nonzeros=0 if X is None else int(X.nnz),
            held=held,
        )

    @property
    def row(self) -> float:
        """Stored features per document."""
        return self.nonzeros / max(1, self.documents)

    @property
    def X_bytes(self) -> int:
        return 8 * self.nonzeros + 8 * self.documents

    def documents_with(self, labels: NDArray[np.bool_]) -> int:
        """Documents that carry one of these labels, at most."""
        return min(self.documents, int(self.frequency[labels].sum()))

    def tail(self, share: float) -> NDArray[np.bool_]:
        """The labels behind the most frequent share of them."""
        behind = np.ones(self.labels, dtype=bool)
        behind[np.argsort(-self.frequency, kind="stable")[: int(share * self.labels)]] = False
        return behind

    def written_out(self) -> Sizes:
        """With the noisy copies as documents, for learners that do not draw them."""
        more = 1 + self.copies / max(1, self.documents)
        return replace(
            self,
            documents=self.documents + self.copies,
            pairs=int(self.pairs * more),
            frequency=(self.frequency * more).astype(np.int64),
            nonzeros=int(self.nonzeros * more),
            copies=0,
        )

    def part(self, documents: int, frequency: NDArray[np.int64]) -> Sizes:
        """Some of the documents with some of the labels: sides, folds, levels of a tree."""
        share = min(1.0, documents / max(1, self.documents))
        return replace(
            self,
            documents=documents,
            labels=len(frequency),
            pairs=int(frequency.sum()),
            frequency=frequency,
            characters=int(self.characters * share),
            texts_bytes=int(self.texts_bytes * share),
            nonzeros=int(self.nonzeros * share),
            copies=int(self.copies * share),
        )

    def with_documents(self, count: int, characters: int, pairs: int, texts: Sequence[str] = ()) -> Sizes:
        """With rows that an augmenter makes."""
        added = self.labels and pairs / self.labels
        return replace(
            self,
            documents=self.documents + count,
            pairs=self.pairs + pairs,
            frequency=self.frequency + int(added),
            characters=self.characters + characters,
            texts_bytes=self.texts_bytes + characters + 60 * count,
            sample=(*self.sample, *texts),
            nonzeros=int(self.nonzeros * (1 + count / max(1, self.documents))),
        )


def _spread(texts: Sequence[str], characters: int) -> tuple[str, ...]:
    """Texts from all over the corpus, of about SAMPLE_CHARACTERS together."""
    step = max(1, -(-characters // SAMPLE_CHARACTERS))
    return tuple(texts[i] for i in range(0, len(texts), step))


@dataclass(frozen=True, eq=False)
class Plan:
    """The stages of a fit in their order.

    base     bytes held before there is any data: interpreter, libraries, compiled kernels
    at_once  tasks that go on at the same time
    memory   bytes allowed, or None for any number
    """

    sizes: Sizes
    stages: tuple[Stage, ...]
    base: int
    at_once: int
    memory: int | None = None

    @property
    def peak(self) -> int:
        """Bytes the process holds at most."""
        return self.base + peak_of(self.stages)

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    @property
    def fits(self) -> bool:
        return self.memory is None or self.peak <= self.memory

    def peaks(self) -> list[int]:
        """Bytes the process holds at most in each stage."""
        found, held = [], self.base
        for stage in self.stages:
            found.append(held + max(stage.peak, stage.kept, 0))
            held += stage.kept
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        sizes = self.sizes
        return {
            "documents": sizes.documents,
            "labels": sizes.labels,
            "pairs": sizes.pairs,
            "features": sizes.features or None,
            "nonzeros": sizes.nonzeros or None,
            "base_bytes": self.base,
            "stages": [
                {"stage": stage.name, "seconds": round(stage.seconds, 1), "peak_bytes": peak}
                for stage, peak in zip(self.stages, self.peaks(), strict=True)
            ],
            "seconds": round(self.seconds, 1),
            "peak_bytes": self.peak,
            "memory": self.memory,
            "at_once": self.at_once,
            "fits": self.fits,
        }


def narrowed(make: Callable[[Run], Sequence[Stage]], sizes: Sizes, base: int, run: Run) -> Plan:
    """The plan with as many tasks at once as fit into the run's memory; with one, where none fits."""
    at_once = run.tasks
    while True:
        plan = Plan(sizes, tuple(make(replace(run, at_once=at_once))), base, at_once, run.memory)
        if plan.fits or at_once == 1:
            return plan
        at_once = max(1, at_once // 2)


def refusal(plan: Plan, options: Sequence[tuple[str, Plan]]) -> UsageError:
    """What to do about a plan that does not fit; options  settings that need less, with their plans."""
    assert plan.memory is not None
    worth_it = plan.peak - 0.02 * (plan.peak - plan.base)
    less = [(f"--set {setting} ({shown_size(other.peak)})", other) for setting, other in options
            if other.peak < worth_it]  # fmt: skip
    enough = [said for said, other in less if other.fits] or [said for said, _ in less]
    advice = ", or ".join([f"give --memory {-(-plan.peak // 10**8) / 10:g}GB", *enough[:3]])
    return UsageError(f"this needs about {shown_size(plan.peak)}, and {shown_size(plan.memory)} are allowed: {advice}")


# sizes as people write them
def parse_size(text: str) -> int:
    """Bytes of "500MB", "4GB", "1.5GiB" or a plain number."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = found[2].upper() if found else ""
    unit = unit[:-1] if unit.endswith("B") and unit != "B" else unit
    if found is None or unit not in _UNITS or float(found[1]) <= 0:
        raise UsageError(f"'{text}' is no size; write 500MB, 4GB or 1.5GiB")
    return int(float(found[1]) * _UNITS[unit])


def shown_size(size: float) -> str:
    """A number of bytes for a person: 730 MB, 5.1 GB."""
    return f"{size / 1e9:,.1f} GB" if size >= 999.5e6 else f"{size / 1e6:,.0f} MB"
