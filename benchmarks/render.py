"""Renders docs/benchmarks.md from benchmarks/results/*.json, and the figures in README.md.

    python benchmarks/render.py            writes the page and fills the blocks
    python benchmarks/render.py --check    writes nothing; exit code 1 when something is out of date

A block in README.md, docs or docs/methods is filled when it is marked so:

    <!-- figures:peers-summary -->
    <!-- /figures -->

Names: peers-summary, peers-CORPUS, promises-CORPUS, tfidf, metrics, headline, quality, taug, ranknet, forests,
label-text, and learners and methods by name.
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

import render_features as features
import render_label_text as label_text
import render_memory as memory
import render_neural as neural
import render_quality as quality
from common import REPOSITORY, RESULTS, read_json, write_text
from longtail.errors import LongtailError, UsageError, nearest

Results = dict[str, Any]

#: longtail against the peer with the same kind and number of trees.
TRAIN_PAIRS = (
    ("longtail parabel 1 tree", "omikuji parabel 1 tree"),
    ("longtail parabel 3 trees", "omikuji parabel 3 trees"),
    ("longtail bonsai 3 trees", "omikuji bonsai 3 trees"),
)
#: PECOS predicts with one tree: the promise is about one tree of ours, forests are shown beside it.
PREDICT_PEER = "pecos xr-linear (16-way)"
PREDICT_PROMISED = ("longtail parabel 1 tree", "longtail bonsai 1 tree")
PREDICT_SHOWN = ("longtail parabel 3 trees", "longtail bonsai 3 trees")

#: Characters per line of prose.
WIDTH = 116
_BLOCK = re.compile(r"(<!-- figures:([\w.-]+) -->).*?(<!-- /figures -->)", re.DOTALL)


# the peers
def rows_of(results: Results) -> dict[str, dict[str, Any]]:
    return {row["system"]: row for row in results["rows"]}


def ratio(results: Results, figure: str, ours: str, theirs: str) -> float | None:
    """Ours divided by theirs, below 1 where we need less; None when one of them is not measured."""
    rows = rows_of(results)
    if ours not in rows or theirs not in rows or not rows[theirs][figure]:
        return None
    return float(rows[ours][figure] / rows[theirs][figure])


def promises(results: Results) -> list[str]:
    """The ratios, one a line, then each promise with PASS, FAIL or "not measured"."""
    lines, verdicts = [], []
    train = [(ours, theirs, True) for ours, theirs in TRAIN_PAIRS]
    predict = [(ours, PREDICT_PEER, ours in PREDICT_PROMISED) for ours in (*PREDICT_PROMISED, *PREDICT_SHOWN)]
    for what, promise, figure, pairs in (
        ("training time", "train no slower than omikuji", "train_s", train),
        ("prediction time", "predict no slower than PECOS, one tree against its one", "predict_ms", predict),
    ):
        counted = []
        for ours, theirs, promised in pairs:
            value = ratio(results, figure, ours, theirs)
            # what the threads burnt says more than the clock when the machine has other work
            burnt = ratio(results, figure.replace("_", "_cpu_"), ours, theirs)
            beside = "" if burnt is None else f" (processor time {burnt:.2f})"
            shown = "not measured" if value is None else f"{value:.2f}{beside}"
            lines.append(f"{what}: {ours} / {theirs} = {shown}{'' if promised else ', not part of the promise'}")
            counted += [value] if promised else []
        if None in counted:
            verdict = "FAIL" if any(value is not None and value > 1 for value in counted) else "not measured"
        else:
            verdict = "PASS" if max(v for v in counted if v is not None) <= 1 else "FAIL"
        verdicts.append(f"{verdict}: {promise}")
    runs = {row["run"] for row in results["rows"]}
    if len(runs) > 1:
        lines.append(f"the rows come from {len(runs)} runs: measure all systems in one run before quoting ratios")
    return lines + verdicts


def peers_table(results: Results) -> str:
    """All systems on one corpus as a Markdown table."""
    head = "| system | train s | predict ms/doc | peak MB | model MB | P@1/3/5 | PSP@1/3/5 | nDCG@5 | tail recall@5 |"
    lines = [head, "|---|--:|--:|--:|--:|---|---|--:|--:|"]
    for row in results["rows"]:
        metrics = row["metrics"]
        cells = [
            f"**{row['system']}**" if row["system"].startswith("longtail") else row["system"],
            f"{row['train_s']:.1f}",
            f"{row['predict_ms']:.3f}",
            f"{row['peak_mb']:.0f}",
            f"{row['model_mb']:.1f}",
            "/".join(f"{metrics[f'P@{k}']:.2f}" for k in (1, 3, 5)),
            "/".join(f"{metrics[f'PSP@{k}']:.2f}" for k in (1, 3, 5)),
            f"{metrics['nDCG@5']:.2f}",
            _number(row.get("tail_recall@5")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def peers_conditions(results: Results) -> str:
    """Machine, versions and command in one paragraph, plus a warning where the figures are not fit to quote."""
    machine, run, data = results["machine"], results["run"], results["data"]
    loads = [each["load_before"] for row in results["rows"] for each in row["runs"] if each["load_before"] is not None]
    versions = dict(sorted({name: v for row in results["rows"] for name, v in row["versions"].items()}.items()))
    repeats = "-".join(map(str, sorted({len(row["runs"]) for row in results["rows"]})))
    counted = "one training run" if repeats == "1" else f"best of {repeats} training runs"
    text = (
        f"{data['train_documents']:,} documents to train on, {data['test_documents']:,} to test on, "
        f"{data['labels']:,} labels, {data['features']:,} features. "
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}, "
        f"{run['threads']} threads each; {counted}; "
        f"{run['started'][:10]}, commit {results['commit']}. "
        + ", ".join(f"{name} {v}" for name, v in versions.items() if name in _NAMED)
        + f". Made by `{results['command']}`."
    )
    solvers = {(each["eps"], each["max_passes"]) for each in _settings(results) if {"eps", "max_passes"} <= set(each)}
    text += "".join(f" longtail's solver: eps {eps:g}, at most {passes} passes." for eps, passes in sorted(solvers))
    others = max(loads, default=0.0) - run["threads"]
    if others > 0.5:
        text += (
            f"\n\nThe load average reached {max(loads):.1f} before a system started: the machine had other work, "
            "and these times are not fit to quote."
        )
    return text


def _settings(results: Results) -> list[dict[str, Any]]:
    """Every option of longtail's learners as they ran, defaults included."""
    return [each["settings"] for row in results["rows"] for each in row["runs"] if each.get("settings")]


_NAMED = ("longtail", "libpecos", "omikuji", "napkinxc", "numba")

PEERS_NOTES = """\
Every system gets the same TF-IDF matrices (longtail's, min_df 2, max_df 0.5, sublinear; training documents without a
feature left out) and runs in a process of its own, one after the other; with several repeats the systems take turns.

- *train s*: wall seconds, clustering included; TF-IDF, reading, imports and longtail's compiling (a fit on 500
  documents comes first) excluded. napkinXC writes its model meanwhile.
- *predict ms/doc*: top 5 of all test documents in one batch, model loaded back from disk beforehand, best of three
  passes, divided by the documents. omikuji goes one document at a time, its only way from Python.
- *peak MB*: the most memory the process held, with its interpreter, libraries and matrices. PECOS imports torch.
- *model MB*: bytes on disk, without label names and vocabulary.
- Metrics are longtail's for all: labels never seen in training dropped, test documents without a label not counted,
  propensities A=0.55, B=1.5. *tail recall@5*: share of the true pairs of labels with at most five training documents
  that are among the five best.
- PECOS: PIFA embeddings, 16-way hierarchical k-means, leaves of 100. omikuji's Bonsai: unbalanced, k 100, max_depth 3.
  napkinXC: PLT with its defaults, which search the tree exactly; the others keep a beam of 10.
- Not the same settings: each system runs with its own defaults otherwise. omikuji's solver stops at eps 0.1 or after 20
  passes, PECOS's at 0.1 or after 100; longtail's are given below each table. Where longtail's eps is larger, part of a
  difference in training time is that choice. longtail's Bonsai has one level of clusters up to 50,000 labels, omikuji's
  up to three levels of nodes. PECOS's tree is 16-way, so it is shallower than Parabel's."""


def peers_section(results: Results) -> str:
    lines = "\n".join(f"- {line}" for line in promises(results))
    return f"### {results['corpus']}\n\n{peers_table(results)}\n\n{lines}\n\n{peers_conditions(results)}"


SUMMARY_NOTE = (
    "Predicting, P@1 and PSP@5: longtail's Bonsai with 1 tree / PECOS XR-Linear. Made by `python benchmarks/peers.py`; "
    "conditions in docs/benchmarks.md."
)


def peers_summary(all_results: dict[str, Results]) -> str:
    """One line a corpus: what a reader of the README wants to know."""
    head = ["corpus", "training: longtail / omikuji (Parabel, 1 tree)", "predicting: longtail / PECOS", "P@1", "PSP@5"]
    lines = [f"| {' | '.join(head)} |", "|---|---|---|---|---|"]
    one, omikuji = TRAIN_PAIRS[0]
    bonsai = "longtail bonsai 1 tree"
    for name, results in all_results.items():
        if not name.startswith("peers-"):
            continue
        rows = rows_of(results)
        train = [_figure(rows, system, "train_s", ".1f") for system in (one, omikuji)]
        predict = [_figure(rows, system, "predict_ms", ".3f") for system in (bonsai, PREDICT_PEER)]
        quality = [
            " / ".join(f"{rows[s]['metrics'][metric]:.1f}" if s in rows else "-" for s in (bonsai, PREDICT_PEER))
            for metric in ("P@1", "PSP@5")
        ]
        lines.append(
            f"| {results['corpus']} | {train[0]} s / {train[1]} s | {predict[0]} ms / {predict[1]} ms per document "
            f"| {quality[0]} | {quality[1]} |"
        )
    if len(lines) == 2:
        raise UsageError("there are no results of benchmarks/peers.py yet; run it first")
    return "\n".join([*lines, "", SUMMARY_NOTE])


def _figure(rows: dict[str, dict[str, Any]], system: str, figure: str, form: str) -> str:
    return format(rows[system][figure], form) if system in rows else "-"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


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
        f"{results['corpus']}, {results['threads']} threads for longtail (scikit-learn has one), best of "
        f"{results['repeats']}, wall time. Made by `{results['command']}`."
    )
    return "\n".join([*lines, "", conditions])


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
        "Figures of `benchmarks/results/*.json`, put here by `python benchmarks/render.py`; do not edit by hand.",
    ]
    peers = [results for name, results in all_results.items() if name.startswith("peers-")]
    if peers:
        parts += ["## Beside omikuji, PECOS and napkinXC", PEERS_NOTES, *map(peers_section, peers)]
    if "quality" in all_results:
        parts += ["## From raw text by two commands", quality.quality_section(all_results["quality"])]
    if "tail" in all_results:
        parts += [
            "## Tail methods",
            "On and off: see [Taug](methods/taug.md), [RankNet](methods/ranknet.md) and [FastXML](methods/fastxml.md).",
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
        parts += ["## TF-IDF beside scikit-learn", tfidf_section(all_results["tfidf"])]
    if "metrics" in all_results:
        parts += ["## Metrics beside napkinXC", metrics_section(all_results["metrics"])]
    return "\n\n".join(parts) + "\n"


def blocks(all_results: dict[str, Results]) -> dict[str, Callable[[], str]]:
    """What a marked block may ask for, by name."""
    known: dict[str, Callable[[], str]] = {"peers-summary": lambda: peers_summary(all_results)}
    for name, results in all_results.items():
        if name.startswith("peers-"):
            known[name] = lambda results=results: f"{peers_table(results)}\n\n{peers_conditions(results)}"  # type: ignore[misc]
            known[f"promises-{results['corpus']}"] = lambda results=results: "\n".join(  # type: ignore[misc]
                f"- {line}" for line in promises(results)
            )
    if "tfidf" in all_results:
        known["tfidf"] = lambda: tfidf_section(all_results["tfidf"])
    if "features" in all_results:
        known["features"] = lambda: features.features_section(all_results["features"])
    if "memory" in all_results:
        known["memory"] = lambda: memory.memory_section(all_results["memory"])
    if "metrics" in all_results:
        known["metrics"] = lambda: metrics_section(all_results["metrics"])
    if "quality" in all_results:
        known["headline"] = lambda: quality.headline(all_results["quality"])
        known["quality"] = lambda: quality.quality_section(all_results["quality"])
    if "tail" in all_results:
        known["taug"] = lambda: quality.taug_section(all_results["tail"])
        known["ranknet"] = lambda: quality.ranknet_section(all_results["tail"])
        known["forests"] = lambda: quality.forest_section(all_results["tail"])
    if "neural" in all_results:
        for name in ("attentionxml", "tailmix", "mixup", "laroberta"):
            known[name] = partial(getattr(neural, f"{name}_section"), all_results["neural"])
    if "label-text" in all_results:
        for name in ("gandalf", "labelmix"):
            known[name] = partial(label_text.method_section, name, all_results["label-text"])
        for name in ("astec", "inceptionxml", "inceptionxml-lf", "decaf", "eclare"):
            known[name] = partial(label_text.learner_section, name, all_results["label-text"])
        known["label-text"] = partial(label_text.recipe_section, all_results["label-text"])
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
    made = {}
    if any(name.startswith("peers-") for name in all_results):
        made["peers.png"] = quality.peers_picture(all_results)
    if "tail" in all_results:
        made["tradeoff.png"] = quality.tradeoff_picture(all_results["tail"])
    return made


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
