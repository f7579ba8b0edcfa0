"""Tables of benchmarks/lsfa.py; `render.py` puts them in their places."""

from __future__ import annotations

from typing import Any

from common import HELD_OUT
from render_neural import table
from render_quality import machine_line, mean_and_spread, tail_groups

Results = dict[str, Any]
NAMES = {
    "plain": "plain (C)",
    "lsfa": "LSFA (A)",
    "no-contrastive": "LSFA without the contrastive loss (B)",
    "pooled": "plain, one vector per document (D)",
    "retuned": "control: classifier tuned again, nothing made up",
    "copies": "control: real features again",
    "noise": "control: noise around prototypes",
    "covariance": "control: the head's covariance around prototypes",
    "only-retuned": "classifier tuned again, no contrastive loss",
    "only-copies": "real features again, no contrastive loss",
    "printed": "LSFA as printed",
    "code": "LSFA as its code has it",
}
#: Learners beside it.
RIVALS = {"httn": "HTTN", "lsan": "LSAN", "xml-cnn": "XML-CNN", "one-vs-all": "one-vs-all (linear)"}
#: Settings of benchmarks/lsfa_reason.py.
REASON = {
    "plain": "plain, nothing made up",
    "covariance": "the head's covariance around prototypes",
    "pvae": "PVAE around prototypes",
    "covariance-oracle": "the head's covariance around the oracle's prototypes",
    "pvae-oracle": "PVAE around the oracle's prototypes",
}
#: How like real features the made-up ones were.
PHASES = ("train", "features", "pvae", "retune")
CHECKS = ("spread", "spread_low", "spread_high", "cosine", "cosine_low")


def lsfa_section(results: Results) -> str:
    """Tables on test documents, and whether made-up features are like real ones."""
    corpora = sorted({row["corpus"] for row in results["rows"] if not row["corpus"].endswith(HELD_OUT)}, reverse=True)
    if not corpora:
        return f"No row on test documents is measured yet: `{results['command']}` does it."
    wanted = [("attentionxml", setting, name) for setting, name in NAMES.items()]
    wanted += [(learner, "plain", name) for learner, name in RIVALS.items()]
    parts = [table(results, corpus, wanted) for corpus in corpora]
    return "\n\n".join([*parts, *_checks(results, corpora), *_times(results, corpora), _made(results)])


def lsfa_search_section(results: Results) -> str:
    """What was tried on documents held out of training."""
    found = list(dict.fromkeys((row["corpus"], row["learner"], row["setting"]) for row in results["rows"]))
    corpora = sorted({corpus for corpus, *_ in found if corpus.endswith(HELD_OUT)}, reverse=True)
    parts = []
    for corpus in corpora:
        settings = [(learner, setting) for own, learner, setting in found if own == corpus]
        named = [(learner, setting, RIVALS.get(learner, setting)) for learner, setting in settings]
        parts.append(table(results, corpus, named))
    return "\n\n".join([*parts, *_checks(results, corpora), _made(results)])


def lsfa_reason_section(results: Results) -> str:
    """What made-up features are worth around prototypes of few documents, and around those that the others give."""
    lines = [
        "| features made up of labels made rare | seeds | recall@1/5 of these labels | sd | P@1/5 | PSP@5 | believed |",
        "|---|--:|---|--:|---|--:|--:|",
    ]
    groups = {setting: rows for (*_, setting), rows in tail_groups(results).items()}
    for setting, rows in ((each, groups[each]) for each in REASON if each in groups):

        def mean(where: str, metric: str, rows: list[Results] = rows, form: str = ".1f") -> str:
            return f"{mean_and_spread(row[where][metric] for row in rows)[0]:{form}}"

        spread = f"{mean_and_spread(row['rare']['recall@5'] for row in rows)[1]:.1f}" if len(rows) > 1 else "-"
        lines.append(
            f"| {REASON[setting]} | {len(rows)} | {mean('rare', 'recall@1')}/{mean('rare', 'recall@5')} | {spread} "
            f"| {mean('figures', 'P@1')}/{mean('figures', 'P@5')} | {mean('figures', 'PSP@5')} "
            f"| {'' if setting == 'plain' else mean('believed', 'drawn', form='.2f')} |"
        )
    return "\n\n".join(["\n".join(lines), _places(groups["plain"]), _reason_made(results, groups["plain"])])


def _places(rows: list[Results]) -> str:
    """How far prototypes of few documents lie from where they belong."""
    lines = [
        "| prototype of | distance to the mean of many, in spreads of features | another label's is nearer |",
        "|---|--:|--:|",
    ]
    for count in rows[0]["places"]["few"]:
        far, beyond = (mean_and_spread(row["places"]["few"][count][at] for row in rows)[0] for at in (0, 1))
        name = f"{count} document{'s' * (count != '1')} of a head label"
        lines.append(f"| {name} | {far:.2f} | {100 * beyond:.0f} % |")
    ours, chance = (mean_and_spread(row["places"]["rare"][at] for row in rows)[0] for at in (0, 1))
    lines.append(f"| what is left to a label made rare, to the mean of unseen documents | {ours:.2f} | |")
    lines.append(f"| as many unseen documents, to the mean of the others | {chance:.2f} | |")
    return "\n".join(lines)


def _reason_made(results: Results, plain: list[Results]) -> str:
    labels, pairs = (
        mean_and_spread(each)[0] for each in ([r["labels"] for r in plain], [r["rare"]["pairs"] for r in plain])
    )
    own, unseen = (mean_and_spread(row["believed"][name] for row in plain)[0] for name in ("own", "unseen"))
    return (
        f"{labels:.0f} labels with 12 to 50 documents keep 2 to 5 of them; {pairs:.0f} pairs of theirs are in the "
        "documents that are held out and measured on. Believed: the mean probability that the classifier gives "
        f"these labels at the made-up features before it is tuned; {own:.2f} at features of documents it has learnt "
        f"from, {unseen:.2f} at those of documents that were set aside. A seed is another draw of labels and another "
        f"network. {machine_line(results)} Made by `{results['command']}`."
    )


def _checks(results: Results, corpora: list[str]) -> list[str]:
    """A table of how like real features the made-up ones were: means over seeds, and the widest of any seed."""
    lines = ["| made-up to real | spread | low to high, any seed | cosine | least, any seed |", "|---|--:|---|--:|--:|"]
    for (corpus, _, setting), rows in tail_groups(results).items():
        found = [row["checks"] for row in rows if set(CHECKS) <= set(row.get("checks") or {})]
        if found and corpus in corpora:
            spread, cosine = (mean_and_spread(each[name] for each in found)[0] for name in ("spread", "cosine"))
            low, high = min(each["spread_low"] for each in found), max(each["spread_high"] for each in found)
            least = min(each["cosine_low"] for each in found)
            name = f"{corpus}, {setting if corpus.endswith(HELD_OUT) else NAMES[setting]}"
            lines.append(f"| {name} | {spread:.2f} | {low:.2f} to {high:.2f} | {cosine:.3f} | {least:.3f} |")
    return ["\n".join(lines)] if len(lines) > 2 else []


def _times(results: Results, corpora: list[str]) -> list[str]:
    """Seconds of each phase, of rows that trained all of them."""
    lines = [
        "| LSFA, seconds | first stage | features | PVAE | second stage | phases 2 and 3 add |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for (corpus, _, setting), rows in tail_groups(results).items():
        found = [row["seconds"] for row in rows if set(PHASES) <= set(row.get("seconds", ()))]
        if corpus in corpora and setting == "lsfa" and found:
            first, *later = (mean_and_spread(each[name] for each in found)[0] for name in PHASES)
            shown = " | ".join(f"{seconds:.1f}" for seconds in (first, *later))
            lines.append(f"| {corpus} ({len(found)}) | {shown} | {100 * sum(later) / first:.0f} % |")
    return ["\n".join(lines)] if len(lines) > 2 else []


def _made(results: Results) -> str:
    return (
        "One core per row, of which seconds are the processor's. Networks read words without an LSTM (encoder `bag`; "
        "up to 128 words of a text of eurlex57k-4k), XML-CNN has its own encoder; all take 6 passes. Tail: labels with "
        "1 to 5 training documents, middle 6 to 20. Rows that share a first stage train it "
        f"once, and seconds of all but the first tell of the later stages alone. {machine_line(results)} Made by "
        f"`{results['command']}`."
    )
