"""Tables of benchmarks/xda.py; `render.py` puts them in their places."""

from __future__ import annotations

from typing import Any

from render_neural import table
from render_quality import machine_line

Results = dict[str, Any]
HELD_OUT = "-held-out"
NAMES = {
    "plain": "plain",
    "xda": "XDA (default)",
    "xda-no-filter": "XDA, no filter",
    "xda-no-mask": "XDA, no mask",
    "xda-no-labels": "XDA, words of any document",
    "xda-local": "XDA, a small T5 of our own",
    "xda-no-prompt": "XDA, the same T5 without prompt",
    "xda-retuned": "control: tuned again, nothing added",
    "xda-duplicates": "control: duplicates",
    "xda-duplicates-masked": "control: duplicates with the mask",
}
LEARNERS = ("bonsai", "lightxml", "label-trees", "label-text")
#: LightXML with one thing changed: names of rows in benchmarks/papers/lightxml.toml.
LIGHTXML = {
    "one-vs-all": "one-vs-all (linear)",
    "bonsai": "bonsai (linear)",
    "lightxml": "lightxml, all layers frozen",
    "lightxml-frozen-first": "first tokens alone, as in the paper",
    "lightxml-frozen-scale": "first tokens as they are, not scaled",
    "lightxml-frozen-64": "64 word pieces",
    "lightxml-frozen-random": "label vectors start at random",
    "lightxml-frozen-all": "loss over all labels",
}


def xda_section(results: Results) -> str:
    """Every learner with and without XDA, on test documents."""
    wanted = [(learner, setting, f"{learner}: {name}") for learner in LEARNERS for setting, name in NAMES.items()]
    parts = [table(results, corpus, wanted) for corpus in _corpora(results)]
    return "\n\n".join([*parts, _made(results)])


def lightxml_section(results: Results) -> str:
    """LightXML beside linear learners on test documents, and what it owes to what, on held-out ones."""
    wanted = [(learner, "plain", name) for learner, name in LIGHTXML.items()]
    parts = [table(results, corpus, wanted) for corpus in _corpora(results)]
    # draws of held-out documents differ by more than learners do: all are compared on the first
    first = {**results, "rows": [row for row in results["rows"] if row["seed"] == 0]}
    held = sorted({row["corpus"] for row in results["rows"] if row["corpus"].endswith(HELD_OUT)}, reverse=True)
    return "\n\n".join([*parts, *(table(first, corpus, wanted) for corpus in held), _made(results)])


def _corpora(results: Results) -> list[str]:
    return sorted({row["corpus"] for row in results["rows"] if not row["corpus"].endswith(HELD_OUT)}, reverse=True)


def _made(results: Results) -> str:
    return (
        "One core per row; tail: labels with 1 to 5 training documents, middle 6 to 20. Rows that share a first stage "
        "train it once, and seconds are wall time with other work on the same two cores. "
        f"{machine_line(results)} Made by `{results['command']}`."
    )
