"""What the commands of docs/start.md print, cut to what the page talks about."""

from __future__ import annotations

import json
import re
from typing import Any

#: Lines that are shown; what lies between is an ellipsis.
SHOWN = {
    "inspect": r"longtail:|documents  |labels|documents per|words per document| +█",
    "split": r"[\d,]+ documents to train on",
    "train": r"longtail: recipe",
    "evaluate": r"Never|Without labels|%|P |PSP |R | +documents|band|head|middle|tail",
}
#: A table that repeats what the one before it shows, by another convention.
REPEATED = "With labels never seen"
WIDTH = 100


def shown(step: str, results: dict[str, Any]) -> str:
    """A command and what it prints, as a block of code."""
    found = results["steps"][step]
    paragraphs = [each for each in found["printed"].split("\n\n") if not each.startswith(REPEATED)]
    lines: list[str] = []
    for line in "\n".join(paragraphs).rstrip("\n").split("\n"):
        if re.match(SHOWN[step], line):
            lines.append(line.rstrip() if len(line) <= WIDTH else line[:WIDTH].rpartition(" ")[0] + " ...")
        elif lines and lines[-1] != "...":
            lines.append("...")
    return "\n".join(["```", f"$ {found['command']}", *lines, "```"])


def predicted(results: dict[str, Any]) -> str:
    """The line of a document, broken after each label."""
    found = results["steps"]["predict"]
    line = json.loads(found["printed"])
    each = [json.dumps(label, separators=(",", ":"), ensure_ascii=False) for label in line["labels"]]
    begun = f'{{"id":"{line["id"]}","labels":['
    return "\n".join(["```", f"$ {found['command']}", begun + ",\n  ".join(each) + "]}", "```"])


def cost(results: dict[str, Any]) -> str:
    """What training took, in a sentence."""
    steps = results["steps"]
    return (
        f"This took {steps['train']['seconds']:.0f} seconds and {steps['train']['peak_mb_so_far'] / 1000:.1f} GB on "
        f"{results['machine']['cores']} cores; `--recipe bonsai` took {steps['train-bonsai']['seconds']:.0f} seconds, "
        f"and is less precise. Made by `{results['command']}`, as is what the commands print."
    )
