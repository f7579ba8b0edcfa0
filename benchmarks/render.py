"""Renders docs/benchmarks.md and docs/papers from benchmarks/results/*.json, and the figures in README.md.

    python benchmarks/render.py            writes the page and fills the blocks
    python benchmarks/render.py --check    writes nothing; exit code 1 when something is out of date

A block in README.md, docs or docs/methods is filled when it is marked so:

    <!-- figures:peers-summary -->
    <!-- /figures -->

Names: peers-summary, peers-targets, peers-CORPUS, tfidf, metrics, headline, quality, taug, ranknet, calibration,
forests, rare, label-text, gandalf-strength, labelmix-strength, decision-rule, scale-rows, scale-model,
scale-far, scale-limits, languages-trees, languages-networks, languages-told, defaults, annif, start-STEP, and learners
and methods by name.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import render_annif as annif
import render_decision_rule as decision_rule
import render_defaults as defaults
import render_features as features
import render_first_steps as first_steps
import render_label_strength as label_strength
import render_label_text as label_text
import render_languages as languages
import render_lsfa as lsfa
import render_memory as memory
import render_neural as neural
import render_papers as of_papers
import render_peers as peers
import render_pictures as drawn
import render_quality as quality
import render_rare as rare
import render_scale as scale
import render_solver as solver
import render_tailmix as tailmix
import render_tradeoff as tradeoff
import render_xda as xda
from common import REPOSITORY, RESULTS, read_json, write_text
from longtail.errors import LongtailError, UsageError, nearest

Results = dict[str, Any]

#: Characters per line of prose.
WIDTH = 116
_BLOCK = re.compile(r"(<!-- figures:([\w.-]+) -->).*?(<!-- /figures -->)", re.DOTALL)


# the other benchmarks
def tfidf_section(results: Results) -> str:
    lines = [
        "| words | what | longtail s | scikit-learn s | times faster | largest difference |",
        "|--:|---|--:|--:|--:|--:|",
    ]
    for each in results["comparisons"]:
        for what in ("fit_transform", "transform"):
            ours, theirs = (each["seconds"][f"{who} {what}"]["wall"] for who in ("longtail", "scikit-learn"))
            lines.append(
                f"| {each['ngrams']} | {what}, {each['documents'][what]:,} documents | {ours:.2f} | {theirs:.2f} "
                f"| {theirs / ours:.1f} | {each['largest_difference'][what]:.0e} |"
            )
    conditions = (
        f"{results['corpus']}, {results['threads']} thread{'s' * (results['threads'] > 1)} for longtail (scikit-learn "
        f"has one), best of "
        f"{results['repeats']}, wall time. Made by `{results['command']}`."
    )
    if "languages" in results:
        conditions += (
            " Words as they stand (language none). Times as long with language auto, by processor time, as without "
            "languages now, and as TF-IDF took in version 0.1.0, which knew none: "
            + "; ".join(
                f"{corpus} {', '.join(_beside(found, what) for what in found['times_as_long'])}"
                for corpus, found in results["languages"]["corpora"].items()
            )
            + f" (`{results['languages']['command']}`)."
        )
    return "\n".join([*lines, "", conditions])


def _beside(found: dict[str, Any], what: str) -> str:
    both = [found[name][what] for name in ("times_as_long", "times_as_long_as_before") if name in found]
    return f"{what} {' and '.join(f'{times:.2f}' for times in both)}"


def metrics_section(results: Results) -> str:
    largest = max(value for value in results["max_difference"].values() if isinstance(value, float))
    seconds = results["seconds"]
    return (
        f"On {results['documents']:,} random rankings over {results['labels']:,} labels the largest difference to "
        f"napkinXC {results['napkinxc']} over nine metrics is {largest:.0e} percentage points. "
        f"longtail's whole report takes {seconds['longtail_report_with_bands']:.2f} s, napkinXC's nine metrics "
        f"{seconds['napkinxc_nine_metrics']:.2f} s. Made by `{results['command']}`."
    )


# page and blocks
def page(all_results: dict[str, Results]) -> str:
    parts = [
        "# Benchmarks",
        "Figures from `benchmarks/results/*.json`, written by `python benchmarks/render.py`; do not edit by hand.",
    ]
    if "peers" in all_results:
        parts += [
            "## Compared with omikuji, PECOS, napkinXC and LibMultiLabel",
            peers.peers_section(all_results["peers"]),
        ]
    if "solver" in all_results:
        parts += ["### What bounds training", solver.solver_section(all_results["solver"], all_results.get("peers"))]
    if "quality" in all_results:
        parts += ["## From raw text with two commands", quality.quality_section(all_results["quality"])]
    if "tail" in all_results:
        parts += [
            "## Tail methods",
            "On and off: [Taug](methods/taug.md), [calibrated propensity](methods/calibrated-propensity.md), "
            "[RankNet](methods/ranknet.md), [FastXML](methods/fastxml.md).",
            "![Precision against rare labels](images/tradeoff.png)",
        ]
    if "neural" in all_results:
        parts += [
            "## Neural learners",
            "See [AttentionXML](methods/attentionxml.md), [LaRoBERTa](methods/laroberta.md), "
            "[TailMix](methods/tailmix.md) and [its rivals](methods/mixup.md).",
        ]
    if "label-text" in all_results:
        parts += [
            "## Short texts with label texts",
            "See [Gandalf](methods/gandalf.md), [LabelMix](methods/labelmix.md), [Astec](methods/astec.md), "
            "[InceptionXML](methods/inceptionxml.md), [InceptionXML-LF](methods/inceptionxml-lf.md), "
            "[DECAF](methods/decaf.md) and [ECLARE](methods/eclare.md).",
            label_text.recipe_section(all_results["label-text"]),
        ]
    if "label-text-speed" in all_results:
        parts += ["### Time and memory", label_text.speed_section(all_results["label-text-speed"])]
    if "tfidf" in all_results:
        parts += ["## TF-IDF compared with scikit-learn", tfidf_section(all_results["tfidf"])]
    if "metrics" in all_results:
        parts += ["## Metrics compared with napkinXC", metrics_section(all_results["metrics"])]
    return "\n\n".join(parts) + "\n"


def blocks(all_results: dict[str, Results]) -> dict[str, Callable[[], str]]:
    """What a marked block may ask for, by name."""
    known: dict[str, Callable[[], str]] = {"peers-summary": lambda: peers.peers_summary(all_results.get("peers"))}
    if "peers" in all_results:
        known["peers-targets"] = partial(peers.targets_table, all_results["peers"])
        for corpus in peers.corpora_of(all_results["peers"]):
            known[f"peers-{corpus}"] = partial(peers.peers_table, all_results["peers"], corpus)
    if "tfidf" in all_results:
        known["tfidf"] = lambda: tfidf_section(all_results["tfidf"])
    if "features" in all_results:
        known["features"] = lambda: features.features_section(all_results["features"])
    if "decision-rule" in all_results:
        known["decision-rule"] = lambda: decision_rule.decision_rule_section(all_results["decision-rule"])
    if "annif" in all_results:
        known["annif"] = lambda: annif.annif_section(all_results["annif"])
    if "defaults" in all_results:
        known["defaults"] = lambda: defaults.defaults_section(all_results["defaults"])
    if "languages" in all_results:
        for name in ("trees", "networks", "told"):
            known[f"languages-{name}"] = partial(getattr(languages, f"{name}_section"), all_results["languages"])
    if "first-steps" in all_results:
        known |= {
            f"start-{step}": partial(first_steps.shown, step, all_results["first-steps"]) for step in first_steps.SHOWN
        }
        known["start-cost"] = lambda: first_steps.cost(all_results["first-steps"])
        known["start-predict"] = lambda: first_steps.predicted(all_results["first-steps"])
    if "memory" in all_results:
        known["memory"] = lambda: memory.memory_section(all_results["memory"])
    if "metrics" in all_results:
        known["metrics"] = lambda: metrics_section(all_results["metrics"])
    if "quality" in all_results:
        known["headline"] = lambda: quality.headline(all_results["quality"])
        known["quality"] = lambda: quality.quality_section(all_results["quality"])
    if "tail" in all_results:
        known["taug"] = lambda: quality.taug_section(all_results["tail"])
        known["forests"] = lambda: quality.forest_section(all_results["tail"])
        if {"label-text", "tradeoff"} <= set(all_results):
            known["rare"] = lambda: rare.rare_section(
                all_results["tail"], all_results["label-text"], all_results["tradeoff"]
            )
    if "tradeoff" in all_results:
        known["ranknet"] = lambda: tradeoff.tradeoff_section(all_results["tradeoff"])
        known["ranknet-search"] = lambda: tradeoff.ranknet_search_section(all_results["tradeoff"])
        known["calibration"] = lambda: tradeoff.calibration_section(all_results["tradeoff"])
    if "neural" in all_results:
        for name in ("attentionxml", "tailmix", "mixup", "laroberta"):
            known[name] = partial(getattr(neural, f"{name}_section"), all_results["neural"])
    if "tail-rivals" in all_results:
        known["proxml"] = partial(quality.proxml_section, all_results["tail-rivals"])
    for name in ("tailmix", "glas"):
        if name in all_results:
            known[f"{name}-search"] = partial(tailmix.tailmix_search_section, all_results[name])
            known[f"{name}-test"] = partial(tailmix.tailmix_test_section, all_results[name])
    if "lsfa" in all_results:
        known["lsfa"] = partial(lsfa.lsfa_section, all_results["lsfa"])
        known["lsfa-search"] = partial(lsfa.lsfa_search_section, all_results["lsfa"])
    if "lsfa-reason" in all_results:
        known["lsfa-reason"] = partial(lsfa.lsfa_reason_section, all_results["lsfa-reason"])
    if "xda" in all_results:
        known["xda"] = partial(xda.xda_section, all_results["xda"])
        known["xda-held-out"] = partial(xda.held_out_section, all_results["xda"])
        known["lightxml"] = partial(xda.lightxml_section, all_results["xda"])
    if "label-text" in all_results:
        for name in ("gandalf", "labelmix"):
            known[name] = partial(label_text.method_section, name, all_results["label-text"])
        for name in ("astec", "inceptionxml", "inceptionxml-lf", "decaf", "eclare"):
            known[name] = partial(label_text.learner_section, name, all_results["label-text"])
        known["label-text"] = partial(label_text.recipe_section, all_results["label-text"])
    if "label-strength" in all_results:
        for name in ("gandalf", "labelmix"):
            known[f"{name}-strength"] = partial(label_strength.strength_section, name, all_results["label-strength"])
    if "scale" in all_results:
        for name in ("rows", "model", "far", "limits"):
            known[f"scale-{name}"] = partial(getattr(scale, f"{name}_section"), all_results["scale"])
    if "nearest" in all_results:
        known["nearest"] = partial(label_text.nearest_section, all_results["nearest"])
    if "label-text-facts" in all_results:
        known["label-text-facts"] = partial(label_text.facts_section, all_results["label-text-facts"])
    if "label-text-speed" in all_results:
        known["label-text-speed"] = partial(label_text.speed_section, all_results["label-text-speed"])
        known["gandalf-time"] = partial(label_text.gandalf_time_section, all_results["label-text-speed"])
    return known


def filled(text: str, known: dict[str, Callable[[], str]], where: str) -> str:
    """The text with every marked block filled; what lies outside the blocks stays as it is."""

    def fill(match: re.Match[str]) -> str:
        name = match[2]
        if name not in known:
            raise UsageError(f"{where}: there are no figures '{name}'; {nearest(name, known)}")
        return f"{match[1]}\n{wrapped(known[name]())}\n{match[3]}"

    result, number = _BLOCK.subn(fill, text)
    if number != text.count("<!-- figures:"):
        raise UsageError(f"{where}: a block <!-- figures:NAME --> is not closed by <!-- /figures -->")
    return result


def wrapped(text: str) -> str:
    """Prose in lines that a person can read in an editor; tables, headings, pictures and marks as they are."""
    lines = []
    for line in text.split("\n"):
        prose = len(line) > WIDTH and not line.startswith(("|", "#", "<", "!", " ", "```"))
        indent = "  " if line.startswith("- ") else ""
        options = {"subsequent_indent": indent, "break_long_words": False, "break_on_hyphens": False}
        lines += textwrap.wrap(line, WIDTH, **options) if prose else [line]
    return "\n".join(lines)


def load_results(folder: Path) -> dict[str, Results]:
    return {path.stem: read_json(path) for path in sorted(folder.glob("*.json"))}


def render(results: Path, docs: Path, readme: Path, *, check: bool = False) -> list[Path]:
    """Writes what is out of date (or only finds it) and gives the paths."""
    all_results = load_results(results)
    if not all_results:
        raise UsageError(f"{results} has no results yet; run benchmarks/peers.py first")
    wanted = {docs: wrapped(page(all_results))}
    folder = docs.parent / "papers"
    if folder.is_dir():
        wanted |= {folder / name: wrapped(text) for name, text in of_papers.pages(all_results).items()}
    others = [page for page in sorted(docs.parent.glob("*.md")) if page != docs]
    for marked in (readme, *others, *sorted(docs.parent.glob("methods/*.md"))):
        if marked.exists():
            wanted[marked] = filled(marked.read_text(encoding="utf-8"), blocks(all_results), marked.name)
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if not check:
        for path in stale:
            write_text(path, wanted[path])
        for name, picture in pictures(all_results).items():
            target = docs.parent / "images" / name
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(picture)
    return stale


def pictures(all_results: dict[str, Results]) -> dict[str, bytes]:
    made: dict[str, bytes | None] = {}
    if "peers" in all_results:
        made["peers.png"] = drawn.peers_picture(all_results["peers"])
    if "tradeoff" in all_results:
        made["tradeoff.png"] = tradeoff.tradeoff_picture(all_results["tradeoff"])
    return {name: picture for name, picture in made.items() if picture is not None}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, default=REPOSITORY / "docs" / "benchmarks.md")
    parser.add_argument("--readme", type=Path, default=REPOSITORY / "README.md")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 when something is out of date")
    options = parser.parse_args()
    try:
        stale = render(options.results, options.docs, options.readme, check=options.check)
    except LongtailError as error:
        print(f"render: {error}", file=sys.stderr)
        return 2
    for path in stale:
        print(f"{path.name} {'is out of date' if options.check else 'written'}")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
