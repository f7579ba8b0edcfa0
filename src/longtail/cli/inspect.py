"""longtail inspect: what a corpus or a model is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli import options
from longtail.cli.console import directory_megabytes, print_json, start_run, stdout_console
from longtail.cli.data import DataOptions
from longtail.errors import InputError, UsageError, printable

if TYPE_CHECKING:
    from longtail.corpus import Corpus
    from longtail.run import Run

MANIFEST = "manifest.json"


def inspect(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A data file or folder, or a model directory.", show_default=False)
    ],
    png: Annotated[
        Path | None, typer.Option("--png", help="Draw the label frequencies into this file.", show_default=False)
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label", help="Show this label and its neighbours; may be given several times.", show_default=False
        ),
    ] = None,
    labels: options.LabelsFile = None,
    text_field: options.TextField = None,
    labels_field: options.LabelsField = None,
    separator: options.Separator = None,
    split: options.Split = None,
    skip_bad: options.SkipBad = False,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Describe a corpus (documents, labels, how long the tail is), some of its labels, or a model."""
    if png is not None and label:
        raise UsageError("--png draws the frequencies of all labels; leave out --label")
    if png is not None:
        from longtail.keep.files import check_output

        check_output(png, overwrite=overwrite)
    if not path.exists():
        raise InputError(path, "no such file or folder")
    if (path / MANIFEST).is_file():
        if png is not None:
            raise UsageError("--png draws the label frequencies of a corpus; this is a model")
        if label:
            raise UsageError("--label shows neighbours in the label graph of a corpus; this is a model")
        _inspect_model(path, json)
        return
    run = start_run(quiet=quiet)
    how = DataOptions(labels, text_field, labels_field, separator, split, skip_bad)
    corpus = how.read(path, run)
    if label:
        _inspect_labels(corpus, label, json, run)
    else:
        _inspect_corpus(corpus, png, overwrite, json, run)


def _inspect_corpus(corpus: Corpus, png: Path | None, overwrite: bool, json: bool, run: Run) -> None:
    facts = corpus_facts(corpus)
    if png is not None:
        from longtail.report.frequency import save_png

        save_png(corpus.labels, png, title=Path(corpus.name).name, overwrite=overwrite)
    if json:
        print_json(facts)
        return
    from longtail.report.frequency import terminal_plot
    from longtail.report.tables import facts_table

    console = stdout_console()
    shown = {
        "documents": facts["documents"],
        "without labels": facts["documents_without_labels"],
        "labels": facts["labels"],
        "labels a document": f"{facts['labels_a_document']:.2f} on average, at most {facts['most_labels']:,}",
        "documents a label": f"{facts['documents_a_label']:.2f} on average, at most {facts['most_documents']:,}",
        "label texts": facts["label_texts"],
        "soft targets": facts["soft_targets"],
    }
    if facts["texts_that_are_label_texts"]:
        shown["texts that are label texts"] = f"{facts['texts_that_are_label_texts']:.1%}"
    if facts["words_a_document"] is not None:
        shown["words a document"] = f"{facts['words_a_document']:.1f} on average"
    if facts["features"] is not None:
        shown["features"] = facts["features"]
    console.print(facts_table({name: value for name, value in shown.items() if value}))
    console.print()
    console.print(terminal_plot(corpus.labels), end="")
    if png is not None:
        console.print(f"drawn into {png}", markup=False)


def corpus_facts(corpus: Corpus) -> dict[str, Any]:
    """What `inspect --json` prints for a corpus; shares from 0 to 1."""
    import numpy as np

    each = np.diff(corpus.Y.indptr)
    counts = corpus.labels.frequency
    used = max(int((counts > 0).sum()), 1)
    texts = corpus.texts
    bands = [
        {
            "name": band.name,
            "counts": band.range,
            "labels": int(band.members.sum()),
            "pairs": int(counts[band.members].sum()),
        }
        for band in corpus.labels.bands()
    ]
    return {
        "name": corpus.name,
        "documents": len(corpus),
        "documents_without_labels": int((each == 0).sum()),
        "labels": corpus.n_labels,
        "labels_a_document": round(float(each.mean()), 4),
        "most_labels": int(each.max(initial=0)),
        "documents_a_label": round(corpus.Y.nnz / used, 4),
        "most_documents": int(counts.max(initial=0)),
        "tail_share": round(float(((counts >= 1) & (counts <= 5)).sum() / used), 4),
        "label_texts": 0 if corpus.labels.texts is None else sum(bool(text) for text in corpus.labels.texts),
        "soft_targets": int((corpus.Y.data < 1).sum()),
        "words_a_document": None if texts is None else round(sum(len(t.split()) for t in texts) / len(texts), 2),
        "texts_that_are_label_texts": None if texts is None else _share_of_label_texts(corpus),
        "features": None if corpus.X is None else int(corpus.X.shape[1]),
        "bands": bands,
    }


def _share_of_label_texts(corpus: Corpus) -> float:
    """Documents whose text is a label's, whatever the case and the spaces: methods that train on both may leak."""

    def folded(text: str) -> str:
        return " ".join(text.casefold().split())

    known = {folded(corpus.labels.text(column)) for column in range(corpus.n_labels)} - {""}
    same = sum(folded(text) in known for text in corpus.texts or [])
    return round(same / max(len(corpus), 1), 6)


def label_facts(corpus: Corpus, names: Sequence[str], run: Run) -> list[dict[str, Any]]:
    """What `inspect --label --json` prints: each label with its neighbours, weights as shares of its own visits."""
    from longtail.graphs.walk import expected_visits

    labels = corpus.labels
    columns = [_column(corpus, name) for name in names]
    graph = expected_visits(corpus.Y, run=run)
    found = []
    for column in columns:
        row = graph[column]
        own = float(graph[column, column])
        edges = sorted((-float(w) / own, int(m)) for m, w in zip(row.indices, row.data, strict=True) if m != column)
        neighbours = [
            {"label": labels.names[m], "weight": round(-weight, 4), "documents": int(labels.frequency[m])}
            for weight, m in edges
        ]
        found.append(
            {
                "label": labels.names[column],
                "text": labels.text(column),
                "documents": int(labels.frequency[column]),
                "neighbours": neighbours,
            }
        )
    return found


def _column(corpus: Corpus, name: str) -> int:
    from difflib import get_close_matches

    if name in corpus.labels.ids:
        return corpus.labels.ids[name]
    close = get_close_matches(name, corpus.labels.names, n=1, cutoff=0.5)
    raise UsageError(f"{corpus.name} has no label '{name}'" + (f"; did you mean '{close[0]}'?" if close else ""))


def _inspect_labels(corpus: Corpus, names: Sequence[str], json: bool, run: Run) -> None:
    facts = label_facts(corpus, names, run)
    if json:
        print_json({"name": corpus.name, "labels": facts})
        return
    from rich.markup import escape

    from longtail.report.tables import plain_table

    console = stdout_console()
    for number, one in enumerate(facts):
        documents = f"{one['documents']:,} document{'' if one['documents'] == 1 else 's'}"
        console.print(f"{chr(10) if number else ''}[bold]{escape(printable(one['label']))}[/bold]  {documents}")
        if one["text"] != one["label"]:
            console.print(f"[dim]{escape(printable(one['text']))}[/dim]")
        if not one["neighbours"]:
            console.print("[dim]no neighbours: it stands alone, or has too many documents to be walked over[/dim]")
            continue
        table = plain_table("neighbour", "", "weight", "documents", left=2)
        top = max(1.0, *(edge["weight"] for edge in one["neighbours"]))
        for edge in one["neighbours"]:
            bar = f"[cyan]{_bar(edge['weight'] / top)}[/cyan]"
            name = escape(_cut(printable(edge["label"])))
            table.add_row(name, bar, f"{edge['weight']:.2f}", f"{edge['documents']:,}")
        console.print(table)


def _bar(share: float, width: int = 30) -> str:
    """A bar of that share of the width, in eighths of a sign."""
    eighths = max(1, round(share * width * 8))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _cut(name: str, width: int = 48) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"


def _inspect_model(path: Path, json: bool) -> None:
    from longtail.keep.model import load_model

    loaded = load_model(path)
    manifest = loaded.manifest
    labels = loaded.labels
    facts = {
        "model": str(path),
        "format_version": loaded.format_version,
        "library": loaded.library,
        "labels": len(labels),
        "trained_on": labels.documents,
        "tail_share": round(float(((labels.frequency >= 1) & (labels.frequency <= 5)).mean()), 4),
        "features": manifest.get("n_features"),
        "megabytes": round(directory_megabytes(path), 2),
        "config": manifest["config"],
        "files": loaded.sizes,
    }
    if json:
        print_json(facts)
        return
    from rich.markup import escape

    from longtail.report.tables import facts_table

    console = stdout_console()
    config = facts["config"]
    parts = {
        "learner": [config["learner"]],
        "features": [config["features"]] if config["features"] and manifest.get("makes_features") else [],
        "augment": config["augment"],
        "rerank": config["rerank"],
    }
    shown: dict[str, Any] = {}
    for key, configs in parts.items():
        for number, part in enumerate(configs):
            shown[key if number == 0 else f"{key} {number + 1}"] = escape(_one_line(part))
    shown |= {
        "labels": f"{facts['labels']:,}, {facts['tail_share']:.0%} of them with 1 to 5 documents",
        "trained on": f"{facts['trained_on']:,} documents",
        "seed": config["seed"],
        "size": f"{facts['megabytes']:,.1f} MB in {len(facts['files'])} files",
        "written by": f"longtail {facts['library']}, model format {facts['format_version']}",
    }
    console.print(facts_table(shown))


def _one_line(config: Any) -> str:
    """A part and its options as in parabel(trees=3, ...)."""
    if isinstance(config, dict) and "part" in config:
        inner = ", ".join(f"{key}={_one_line(value)}" for key, value in config.items() if key != "part")
        return f"{config['part']}({inner})"
    if isinstance(config, list):
        return f"[{', '.join(_one_line(value) for value in config)}]"
    return str(config)
