"""TailMix searched on documents held out of training, and its finalists on test documents.

    python benchmarks/tailmix.py [--data DIR] [--rows GLOB] [--fresh] [--budget MINUTES]

A row is one (corpus, learner, setting, seed), trained on one core with the same optimiser steps as its plain row.
Corpora named -held-out are 85 % of the training documents to train on and 15 % to measure on: forms, rules, alpha and M
are searched there, with one seed, on the corpus that trains in a minute. Finalists, the two settings that are best
there by the mean of PSP@3 and PSP@5, are measured on test documents beside the plain network and one-vs-all, with three
seeds; the better one also on other corpora and networks, beside algorithm 1 as printed. They join the rows as soon as
all that is searched is finished, or by --finalists with what there is. A row says how many of the drawn labels were
mixed. LaRoBERTa trains all layers on 2,000 documents, in mixed precision. Finished rows stay in
benchmarks/results/tailmix.json.
"""

from __future__ import annotations

import sys
import time
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import neural_tail
from common import HELD_OUT, RESULTS, carved, read_json, rows_of, run_rows, source_of
from longtail import Corpus, Tagger
from longtail.run import Hardware, Run
from tail import figures

RESULT = RESULTS / "tailmix.json"
SEEDS = (0, 1, 2)
neural_tail.SUBSETS |= {"eurlex57k-15k": ("eurlex57k", 15_000, 0), "vuln-libraries-2k": ("vuln-libraries", 2_000, 0)}
BAG = {"part": "bag"}
#: The networks, which are to come within two points of P@1 of one-vs-all: (corpus, name) -> learner.
LEARNERS: dict[tuple[str, str], dict[str, Any]] = {
    ("vuln-libraries", "bag"): {"part": "attentionxml", "encoder": BAG},
    ("eurlex57k-15k", "bag"): {"part": "attentionxml", "encoder": {**BAG, "max_length": 500}},
    # its texts have no word order
    ("citeulike-t", "bag"): {"part": "attentionxml", "encoder": BAG, "tree": "never"},
    ("vuln-libraries-2k", "laroberta"): {
        "part": "laroberta",
        "epochs": 4,
        "encoder": {"part": "transformer", "model": "all-minilm-l6-v2", "frozen": 0, "max_length": 48},
    },
}
FORMS, RULES, ALPHAS, MS = ("in-place", "additive", "equation-4"), ("literal", "max"), (0.4, 0.2, 0.6), (1, 3)
#: What the paper has beside the forms: any label may be drawn, and lambda is as it is drawn.
PRINTED: dict[str, Any] = {"rarest": None, "folded": False}


def _options(rule: str, form: str, alpha: float, M: int) -> dict[str, Any]:
    """M is the number of labels per document in algorithm 1, and of neighbours per label in section 3.2."""
    counted = {"partners": M} if form == "additive" else {"most": M}
    return {"rule": rule, "form": form, "alpha": alpha, **counted}


#: The grid with the paper's draws, its most telling part first, and the gentler draws that this package has.
GRID = {
    f"{rule} {form} {alpha} M{M}": {**PRINTED, **_options(rule, form, alpha, M)}
    for M, alpha, rule, form in product(MS, ALPHAS, RULES, FORMS)
}
GENTLE = {
    f"gentle {rule} {form} 0.4 M1": _options(rule, form, 0.4, 1)
    for rule, form in product(("max", "literal", "exclude"), FORMS)
}
DOCUMENT = {
    f"gentle max additive 0.4 M1, document {name}": {**_options("max", "additive", 0.4, 1), "document": name}
    for name in ("mixed", "left-out")
}
#: The paper's table 4: what the choice of the neighbour goes by.
ABLATIONS = {
    f"gentle max additive 0.4 M1, {name}": {**_options("max", "additive", 0.4, 1), **options}
    for name, options in {
        "no similarity": {"similar": False},
        "no graph": {"graph": False},
        "neither": {"similar": False, "graph": False},
    }.items()
}
SEARCHED: dict[str, dict[str, Any]] = {
    **{name: options for name, options in GRID.items() if "0.4 M1" in name},
    **{name: options for name, options in GENTLE.items() if "max" in name},
    **{name: options for name, options in GRID.items() if "0.2 M1" in name},
    **GENTLE,
    **DOCUMENT,
    **ABLATIONS,
    **GRID,
}
#: What is searched on: it trains in a minute.
SEARCHED_ON = ("vuln-libraries", "bag")
AS_PRINTED = "literal in-place 0.4 M1"
ONE_VS_ALL, PLAIN, FINALISTS = "one-vs-all", "plain", 2


def finalists(done: dict[str, Any], *, complete: bool = True) -> tuple[str, ...]:
    """The best settings on held-out documents, the better one first; none before there is a choice.

    Ablations, which leave out what TailMix chooses neighbours by, are none of them.
    """
    corpus, learner = SEARCHED_ON
    rows = {name: f"{corpus}{HELD_OUT}/{learner}/{name}/0" for name in SEARCHED if name not in ABLATIONS}
    found = {setting: done[row]["figures"] for setting, row in rows.items() if row in done}
    if len(found) < (len(rows) if complete else FINALISTS):
        return ()
    return tuple(sorted(found, key=lambda setting: -(found[setting]["PSP@3"] + found[setting]["PSP@5"]))[:FINALISTS])


def rows(*, complete: bool = True) -> list[dict[str, Any]]:
    """What is run, in this order: the search, then the finalists that it has found by now, corpus by corpus."""
    done = {row["row"]: row for row in (read_json(RESULT) or {"rows": []})["rows"]}
    corpus, learner = SEARCHED_ON
    wanted: list[tuple[str, str, tuple[str, ...], tuple[int, ...]]] = [
        (corpus + HELD_OUT, ONE_VS_ALL, (PLAIN,), SEEDS[:1]),
        (corpus + HELD_OUT, learner, (PLAIN, *SEARCHED), SEEDS[:1]),
    ]
    best = finalists(done, complete=complete)
    for corpus, learner in LEARNERS if best else ():
        taken = best if (corpus, learner) == SEARCHED_ON else best[:1]
        wanted += [
            (corpus, ONE_VS_ALL, (PLAIN,), SEEDS[:1]),
            (corpus, learner, (PLAIN, *taken), SEEDS),
            (corpus, learner, (AS_PRINTED,), SEEDS[:1]),
        ]
    return rows_of(wanted)


@lru_cache(maxsize=1)
def corpora(name: str, data: Path) -> tuple[Corpus, Corpus]:
    """What to train on and what to measure on; only labels that a training document has are counted."""
    train, test = neural_tail.corpora(source_of(name), data)
    return carved(train) if name.endswith(HELD_OUT) else (train, test)


def tagger_of(row: dict[str, Any]) -> Tagger:
    if row["learner"] == ONE_VS_ALL:
        return Tagger(ONE_VS_ALL, seed=row["seed"], threads=1)
    learner = LEARNERS[source_of(row["corpus"]), row["learner"]]
    augment = [] if row["setting"] == PLAIN else [{"part": "tailmix", **SEARCHED[row["setting"]]}]
    return Tagger(learner, augment=augment, seed=row["seed"], threads=1)


def measure(row: dict[str, Any], data: Path) -> dict[str, Any]:
    train, test = corpora(row["corpus"], data)
    mixed = Hardware(precision="bf16-mixed") if row["learner"] == "laroberta" else Hardware()
    tagger, run = tagger_of(row), Run(row["seed"], threads=1, hardware=mixed)
    start = time.process_time()
    tagger.fit(train, run=run)
    result = {**row, "train_s": round(time.process_time() - start, 2)}
    result["figures"] = figures(tagger.score(test, 100, run=run), test)
    for hook in tagger.augment:
        result["statistics"] = hook.statistics_.to_dict()
    return result


def main() -> None:
    complete = "--finalists" not in sys.argv
    sys.argv = [each for each in sys.argv if each != "--finalists"]
    run_rows(__doc__ or "", RESULT, "python benchmarks/tailmix.py", rows(complete=complete), measure)


if __name__ == "__main__":
    main()
