"""The race beside the peers as Markdown: targets, tables per corpus, growth, single texts, a user's commands."""

from __future__ import annotations

from typing import Any

from longtail.errors import UsageError
from peers_checks import OMIKUJI, PECOS, Check, checks, summary

Results = dict[str, Any]
Row = dict[str, Any]

_NAMED = ("longtail", "libpecos", "omikuji", "napkinxc", "libmultilabel", "numba")
_OTHER_WORKERS = ("tagger", "command")

NOTES = """\
Every system gets the same TF-IDF matrices (longtail's, min_df 2, max_df 0.5, sublinear; training documents \
without a feature are left out) and runs in its own process, one system at a time; with several repeats the \
systems take turns, each turn with a seed of its own (omikuji has none: its runs differ), times are the best and \
metrics the means. germeval-gnd is tested on its validation split. The synthetic corpora have as many documents as \
labels, with 8 words each.

- *train s*: wall-clock seconds including clustering, but without TF-IDF, reading, imports and longtail's \
compilation (a fit on 500 documents comes first). napkinXC writes its model at the same time.
- *predict ms/doc*: the 5 best labels for all test documents in one batch, after loading the model from disk; the best \
of three passes, divided by the number of documents. omikuji takes one document at a time, since its Python interface \
offers nothing else.
- *one row, ms*: from one row of the matrix to its 5 labels, one call per document on one thread; median and 99th \
percentile over 1,000 test documents. Rows are converted to what each system expects beforehand.
- *memory MB*: what the process holds after imports (for longtail also after compilation), what the training data \
add, and what training adds to that at its peak. PECOS and LibMultiLabel import torch or scikit-learn.
- *model MB*: bytes on disk, without label names and vocabulary.
- All metrics are computed by longtail: labels never seen in training are dropped, test documents without a label are \
not counted, and propensities use A=0.55, B=1.5.
- PECOS: PIFA embeddings, 16-way hierarchical k-means, leaves of 100, its defaults. omikuji's Bonsai: unbalanced, \
k 100, max_depth 3. napkinXC: PLT with its defaults, which search the tree exactly. LibMultiLabel: `train_tree` \
with its defaults (after Bonsai, 100-way); it uses as many threads as the machine has physical cores, and \
predicts a dense row of all labels. All but napkinXC use a beam of 10.
- Solver tolerance: omikuji, PECOS, napkinXC and LibMultiLabel stop at LIBLINEAR's eps 0.1 (after at most \
20, 100, 100 and 300 passes), longtail at the eps given below the tables, after at most 20 passes. Rows named \
*eps 0.1* are longtail at the tolerance of the other systems; all other rows use each system's defaults."""

TARGETS_NOTE = """\
Each cell shows how many times less longtail needs than the best of the other systems (or the figure itself, if the \
target is a limit), and whether that is enough. Among longtail's systems with the same number of trees, the best one \
counts whose P@1 is at most 0.2 points (model on disk: 0.1) below that of the other system. Only rows of one run are \
compared."""


# targets
def targets_table(results: Results) -> str:
    """A line per target, a column per corpus."""
    found = checks(results)
    corpora = list(dict.fromkeys(check.corpus for check in found))
    cells = {(check.target, check.need, check.corpus): check for check in found}
    lines = [f"| target | must be | {' | '.join(corpora)} |", f"|---|---|{'---|' * len(corpora)}"]
    for target, need in dict.fromkeys((check.target, check.need) for check in found):
        shown = (_cell(cells.get((target, need, corpus))) for corpus in corpora)
        lines.append(f"| {target} | {need} | {' | '.join(shown)} |")
    return "\n".join([*lines, "", f"{summary(found)}."]) if found else "No row of the last run yet."


def _cell(check: Check | None) -> str:
    if check is None or check.value is None:
        return "" if check is None else check.verdict
    return f"{check.value:.4g} {check.verdict}" if check.value >= 100 else f"{check.value:.2g} {check.verdict}"


# tables
def peers_table(results: Results, corpus: str) -> str:
    """All systems on one corpus."""
    head = "| system | train s | predict ms/doc | one row, ms: p50, p99 | memory MB: interpreter + data + training "
    lines = [head + "| model MB | P@1/3/5 | PSP@1/3/5 |", "|---|--:|--:|--:|--:|--:|---|---|"]
    for row in _rows(results, corpus):
        if row["part"] > 1 or row["peer"] in _OTHER_WORKERS:
            continue
        name = f"**{row['system']}**" if row["peer"] == "longtail" else row["system"]
        if "failed" in row:
            lines.append(f"| {name} | {row['failed']} | | | | | | |")
            continue
        cells = [
            name,
            f"{row['train_s']:.1f}",
            f"{row['predict_ms']:.3f}",
            f"{row['one_p50_ms']:.3f}, {row['one_p99_ms']:.3f}" if "one_p50_ms" in row else "",
            _memory(row),
            f"{row['model_mb']:.1f}",
            *("/".join(f"{row['metrics'][f'{metric}@{k}']:.2f}" for k in (1, 3, 5)) for metric in ("P", "PSP")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _memory(row: Row) -> str:
    if "beyond_mb" not in row:  # measured before memory was told apart
        return f"{row['peak_mb']:.0f}"
    parts = (row["interpreter_mb"], row["data_mb"], row["beyond_mb"])
    return f"{' + '.join(f'{part:.0f}' for part in parts)} = {row['peak_mb']:.0f}"


def growth_table(results: Results, corpus: str) -> str | None:
    """Seconds and memory of training at parts of the documents."""
    rows = _rows(results, corpus)
    growing = list(dict.fromkeys(row["system"] for row in rows if row["part"] > 1))
    if not growing:
        return None
    lines = ["| training s, MB beyond interpreter and data | 1/4 of the documents | 1/2 | all |", "|---|--:|--:|--:|"]
    found = {(row["system"], row["part"]): row for row in rows}
    for system in growing:
        cells = (_growth(found.get((system, part))) for part in (4, 2, 1))
        lines.append(f"| {system} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _growth(row: Row | None) -> str:
    if row is None:
        return ""
    return row["failed"] if "failed" in row else f"{row['train_s']:.1f}, {row['beyond_mb']:.0f}"


def texts_table(results: Results) -> str | None:
    """From a text to names, one text at a time."""
    rows = [row for row in results["rows"] if row["peer"] == "tagger"]
    if not rows:
        return None
    lines = [
        "| text to names (default) | one, ms: p50, p99 | batch, ms/doc | opening, ms: first, again | train s | P@1 |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['corpus']} | {row['failed']} | | | | |")
            continue
        lines.append(
            f"| {row['corpus']} | {row['one_p50_ms']:.3f}, {row['one_p99_ms']:.3f} | {row['predict_ms']:.3f} "
            f"| {row['first_open_ms']:.0f}, {row['open_ms']:.0f} | {row['train_s']:.1f} | {row['metrics']['P@1']:.2f} |"
        )
    return "\n".join(lines)


def commands_table(results: Results) -> str | None:
    """Whole processes, as a user starts them."""
    rows = [row for row in results["rows"] if row["peer"] == "command"]
    if not rows:
        return None
    lines = [
        "| from texts to a saved model, one command | corpus | seconds | peak MB | model MB |",
        "|---|---|--:|--:|--:|",
    ]
    for row in rows:
        figures = (
            f"{row['failed']} | | "
            if "failed" in row
            else (f"{row['train_s']:.0f} | {row['peak_mb']:.0f} | {row['model_mb']:.0f}")
        )
        lines.append(f"| `{row['system']}` | {row['corpus']} | {figures} |")
    return "\n".join(lines)


def conditions(results: Results) -> str:
    """Machine, versions and command in one paragraph, plus warnings where the figures are not fit to quote."""
    machine, run = results["machine"], results["run"]
    rows = [row for row in results["rows"] if "failed" not in row]
    loads = [each["load_before"] for row in rows for each in row["runs"] if each["load_before"] is not None]
    versions = dict(sorted({name: v for row in rows for name, v in row["versions"].items()}.items()))
    repeats = "-".join(map(str, sorted({len(row["runs"]) for row in rows})))
    counted = "one training run" if repeats == "1" else f"best of {repeats} training runs"
    commits = ", ".join(dict.fromkeys(row["commit"] for row in results["rows"]))
    text = (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']:.0f} GB, {machine['system']}, "
        f"Python {machine['python']}, {run['threads']} threads each; {counted}; {run['started'][:10]}, "
        f"commit {commits}. " + ", ".join(f"{name} {v}" for name, v in versions.items() if name in _NAMED) + ". "
        f"Made by {', '.join(f'`{command}`' for command in run['commands'])}."
    )
    solvers = {(each["eps"], each["max_passes"]) for each in _settings(rows) if {"eps", "max_passes"} <= set(each)}
    text += "".join(f" longtail's default solver: eps {eps:g}, at most {n} passes." for eps, n in sorted(solvers))
    kept = sorted({each["weights"] for each in _settings(rows) if "weights" in each})
    text += f" longtail's weights are kept as {', '.join(kept)}." if kept else ""
    if len({row["run"] for row in results["rows"]}) > 1:
        text += "\n\nNot all rows come from one run: measure all systems in one run before quoting ratios."
    if max(loads, default=0.0) - run["threads"] > 0.5:
        text += (
            f"\n\nThe load average reached {max(loads):.1f} before a system started: the machine had other work, "
            "and these times are not fit to quote."
        )
    return text


def _settings(rows: list[Row]) -> list[dict[str, Any]]:
    """Every option of longtail's learners as they ran by default."""
    return [each["settings"] for row in rows if not row["matched"] for each in row["runs"] if each.get("settings")]


def _rows(results: Results, corpus: str) -> list[Row]:
    return [row for row in results["rows"] if row["corpus"] == corpus]


def corpora_of(results: Results) -> list[str]:
    return list(dict.fromkeys(row["corpus"] for row in results["rows"]))


def corpus_section(results: Results, corpus: str) -> str:
    data = results["data"][corpus]
    about = (
        f"{data['train_documents']:,} documents to train on, {data['test_documents']:,} to test on, "
        f"{data['labels']:,} labels, {data['features']:,} features."
    )
    parts = [f"### {corpus}", about, peers_table(results, corpus), growth_table(results, corpus)]
    return "\n\n".join(part for part in parts if part)


def peers_section(results: Results) -> str:
    """The whole race."""
    parts = ["### Targets", TARGETS_NOTE, targets_table(results), conditions(results)]
    parts += [corpus_section(results, corpus) for corpus in corpora_of(results)]
    beside = [part for part in (texts_table(results), commands_table(results)) if part]
    parts += ["### One text, one command", *beside] if beside else []
    return "\n\n".join([NOTES, *parts])


SUMMARY_NOTE = (
    "Predicting, P@1 and PSP@5: longtail's Bonsai with 1 tree / PECOS XR-Linear. Made by `python benchmarks/peers.py`; "
    "conditions in docs/benchmarks.md."
)


def peers_summary(results: Results | None) -> str:
    """One line per corpus: what a reader of the README wants to know."""
    if results is None or not results["rows"]:
        raise UsageError("there are no results of benchmarks/peers.py yet; run it first")
    head = ["corpus", "training: longtail / omikuji (Parabel, 1 tree)", "predicting: longtail / PECOS", "P@1", "PSP@5"]
    lines = [f"| {' | '.join(head)} |", "|---|---|---|---|---|"]
    parabel, bonsai = "longtail parabel 1 tree", "longtail bonsai 1 tree"
    for corpus in corpora_of(results):
        rows = {row["system"]: row for row in _rows(results, corpus) if row["part"] == 1 and "failed" not in row}
        if not {bonsai, PECOS} <= set(rows):
            continue
        train = " / ".join(f"{rows[s]['train_s']:.1f} s" if s in rows else "-" for s in (parabel, OMIKUJI))
        predict = " / ".join(f"{rows[system]['predict_ms']:.3f} ms" for system in (bonsai, PECOS))
        quality = (
            " / ".join(f"{rows[system]['metrics'][metric]:.1f}" for system in (bonsai, PECOS))
            for metric in ("P@1", "PSP@5")
        )
        lines.append(f"| {corpus} | {train} | {predict} per document | {' | '.join(quality)} |")
    return "\n".join([*lines, "", SUMMARY_NOTE])
