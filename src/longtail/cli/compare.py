"""longtail compare: what several taggers say of the same documents, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli import options
from longtail.cli.console import note, print_json, start_run, stdout_console
from longtail.cli.data import DataOptions
from longtail.cli.evaluate import Reciprocal
from longtail.errors import UsageError, printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console
    from rich.text import Text

    from longtail.corpus import Corpus
    from longtail.run import Run
    from longtail.scores import Scores
    from longtail.tagger import Tagger

FIGURES = ("P@1", "PSP@1")
LONGEST_TEXT = 300  # characters of a document that are shown


def compare(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL", help="Model directories.", show_default=False)],
    data: Annotated[
        Path | None, typer.Option("--data", help="Documents, best with labels: some of them are shown.")
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="A document given here instead of --data; may be repeated.", show_default=False),
    ] = None,
    examples: Annotated[
        int, typer.Option("--examples", min=1, help="How many documents of --data, those on which models differ first.")
    ] = 5,
    k: Annotated[int, typer.Option("-k", min=1, help="How many labels of each model.")] = 5,
    propensity: Annotated[
        str, typer.Option("--propensity", help="Preset of A and B for PSP@1: default, wikipedia, amazon.")
    ] = "default",
    reciprocal: Reciprocal = False,
    labels: options.LabelsFile = None,
    text_field: options.TextField = None,
    labels_field: options.LabelsField = None,
    separator: options.Separator = None,
    split: options.Split = None,
    skip_bad: options.SkipBad = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which documents are drawn.")] = 0,
    threads: options.Threads = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show the labels that several taggers give the same documents, side by side, right and rare ones marked.

    Documents are drawn from those where one model is right and another is not;
    if they are too few, from those where the models say different things.
    """
    if (data is None) == (not text):
        raise UsageError("give documents by --data FILE or --text TEXT, one of the two")
    from longtail.labels import propensity_parameters
    from longtail.read import read_texts
    from longtail.tagger import Tagger

    A, B = propensity_parameters(propensity)
    run = start_run(seed=seed, threads=threads, quiet=quiet)
    # all of them before any work: the last one may be the one that is missing
    taggers = [Tagger.load(path, threads=threads) for path in models]
    if data is None:
        corpus = read_texts(text or [])
    else:
        how = DataOptions(labels, text_field, labels_field, separator, split, skip_bad)
        corpus = how.read(data, run, split="test", need_labels=False)
    found = compared(taggers, corpus, k, A=A, B=B, reciprocal=reciprocal, run=run)
    if reciprocal and found.corpus.reciprocal is None:
        note(f"{corpus.name}: no document is itself a label, so --reciprocal changes nothing")
    rows = found.draw(examples, run) if data is not None else list(range(len(corpus)))
    names = [path.resolve().name for path in models]
    shown = found.describe(rows, [n if names.count(n) == 1 else str(p) for n, p in zip(names, models, strict=True)])
    for model, path in zip(shown["models"], models, strict=True):
        model["model"] = str(path)
    shown = {"data": None if data is None else str(data), "k": k, "A": A, "B": B, **shown}
    if json:
        print_json(shown)
    else:
        _show(shown, stdout_console(), drawn=data is not None)


@dataclass(frozen=True, eq=False)
class Compared:
    """What the models say of every document, in columns that all labels of models and documents share.

    corpus   the documents, with a column for every label
    true     the pairs that count as true, csr bool (n, L)
    taggers  the models
    scores   of each model the k best labels, own labels of the document taken out
    right    bool (n, k) of each model: which of them are true
    figures  P@1 and PSP@1 of each model in per cent, and the documents counted; None where no label is known
    """

    corpus: Corpus
    true: Any
    taggers: list[Tagger]
    scores: list[Scores]
    right: list[NDArray[np.bool_]]
    figures: list[dict[str, Any] | None]

    @property
    def labelled(self) -> bool:
        return bool(self.true.nnz)

    def differing(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Documents of which models say different things, and of which they find different true labels, bool (n,)."""
        import numpy as np

        everything = [scores.ids for scores in self.scores]
        hits = [np.where(right, scores.ids, -1) for scores, right in zip(self.scores, self.right, strict=True)]
        said, true = ([np.sort(each, axis=1) for each in kind] for kind in (everything, hits))
        differs = np.zeros((2, len(self.corpus)), dtype=bool)
        for own_said, own_true in zip(said[1:], true[1:], strict=True):
            differs |= np.stack([(own_said != said[0]).any(axis=1), (own_true != true[0]).any(axis=1)])
        return differs[0], differs[1]

    def draw(self, count: int, run: Run) -> list[int]:
        """Rows of documents drawn at random, those with different hits before those with different labels at all."""
        import numpy as np

        said, true = self.differing()
        order = run.rng("compare").permutation(len(self.corpus))
        best = np.argsort(-(said.astype(int) + true)[order], kind="stable")
        return sorted(order[best][:count].tolist())

    def describe(self, rows: list[int], names: list[str]) -> dict[str, Any]:
        """The object `--json` prints, for the documents of some rows."""
        said, true = self.differing()
        shown = [self._example(row, names) for row in rows]
        models = []
        for number, (name, tagger) in enumerate(zip(names, self.taggers, strict=True)):
            given = [label for example in shown for label in example["predictions"][number]["labels"]]
            figures = self.figures[number] or dict.fromkeys((*FIGURES, "documents"))
            hits = sum(label["right"] for label in given) if self.labelled else None
            models.append({"name": name, "labels": len(tagger.labels_), "shown": len(given), "right": hits, **figures})
        return {
            "documents": len(self.corpus),
            "labels_differ": int(said.sum()),
            "right_labels_differ": int(true.sum()) if self.labelled else None,
            "models": models,
            "examples": shown,
        }

    def _example(self, row: int, names: list[str]) -> dict[str, Any]:
        corpus = self.corpus
        known = corpus.labels.names
        predictions = []
        for name, tagger, scores, right in zip(names, self.taggers, self.scores, self.right, strict=True):
            labels = [
                {
                    "label": known[label],
                    "score": round(value, 4),
                    "right": hit if self.labelled else None,
                    "training_documents": _count(tagger, known[label]),
                }
                for label, value, hit in zip(
                    scores.ids[row].tolist(), scores.values[row].tolist(), right[row].tolist(), strict=True
                )
                if label >= 0
            ]
            predictions.append({"model": name, "labels": labels})
        true = None
        if self.labelled:
            true = [
                {"label": known[c], "training_documents": max(_count(tagger, known[c]) for tagger in self.taggers)}
                for c in self.true[[row]].indices.tolist()
            ]
        return {
            "id": str(row) if corpus.ids is None else corpus.ids[row],
            "text": None if corpus.texts is None else corpus.texts[row],
            "labels": true,
            "predictions": predictions,
        }


def compared(
    taggers: list[Tagger], corpus: Corpus, k: int, *, A: float, B: float, reciprocal: bool, run: Run
) -> Compared:
    """Scores and figures of every model on the corpus."""
    import numpy as np

    from longtail.evaluate import evaluate
    from longtail.scores import Scores

    shared = corpus.with_reciprocal() if reciprocal else corpus
    for tagger in taggers:
        shared = shared.aligned(tagger.labels_, keep_unknown=True)
    if reciprocal:
        shared = shared.with_reciprocal()
    true = _true(shared)
    own = shared.reciprocal
    depth = k + (int(np.diff(own.indptr).max(initial=0)) if own is not None else 0)
    scores, right, figures = [], [], []
    for tagger in taggers:
        aligned = shared.aligned(tagger.labels_).without_unseen()
        found = tagger.score(aligned, depth, run=run)
        measured = None
        if _true(aligned).nnz:
            report = evaluate(found, aligned, ks=(1,), A=A, B=B)
            measured = {**{name: round(report[name], 4) for name in FIGURES}, "documents": report.documents}
        figures.append(measured)
        column = np.array([shared.labels.ids[name] for name in tagger.labels_.names], dtype=np.int32)
        ids = np.where(found.ids >= 0, column[found.ids], -1)
        if own is not None:
            ids[_stored(own, ids)] = -1
        best = Scores(ids, found.values).sorted().top(k)
        scores.append(best)
        right.append(_stored(true, best.ids))
    return Compared(shared, true, taggers, scores, right, figures)


def _true(corpus: Corpus) -> Any:
    """The pairs that count as true, csr (n, L): targets from one half on, without own labels of documents."""
    from longtail.evaluate.metrics import TRUE_FROM

    true = corpus.Y >= TRUE_FROM
    if corpus.reciprocal is not None:
        true = true > corpus.reciprocal.astype(bool)
    true.eliminate_zeros()
    return true


def _stored(matrix: Any, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which of the columns ids (n, k) the rows of a csr matrix (n, L) hold; never -1."""
    import numpy as np

    from longtail.sparse import pair_keys

    n, width = matrix.shape
    return np.isin(np.arange(n)[:, None] * width + ids, pair_keys(matrix)) & (ids >= 0)


def _count(tagger: Tagger, name: str) -> int:
    """Training documents of a label, 0 for one the model does not know."""
    column = tagger.labels_.ids.get(name)
    return 0 if column is None else int(tagger.labels_.frequency[column])


# on the terminal
def _show(shown: dict[str, Any], console: Console, *, drawn: bool) -> None:
    from rich.text import Text

    headings = [printable(model["name"]) for model in shown["models"]]
    room = max(12, (console.width - 2 * (len(headings) - 1)) // len(headings))
    widths = []
    for number, heading in enumerate(headings):  # the same for every document, so that columns stand below each other
        labels = [label for example in shown["examples"] for label in example["predictions"][number]["labels"]]
        widths.append(min(room, max([len(heading), *(_cell(label).cell_len for label in labels)])))
    for example in shown["examples"]:
        line = Text(f"{printable(example['id'])}  ", style="dim")
        if example["text"] is not None:
            words = printable(" ".join(example["text"].split()))
            cut = words if len(words) <= LONGEST_TEXT else f"{words[: LONGEST_TEXT - 3]}..."
            line.append(f"“{cut}”", style="not dim italic")
        console.print(line)
        if example["labels"] is not None:
            true = Text(", ").join(_named(label) for label in example["labels"]) if example["labels"] else Text("none")
            console.print(Text("true: ", style="dim").append_text(true))
        console.print(_predictions(example, headings, widths))
        console.print()
    if shown["models"][0]["right"] is not None:
        console.print(_figures(shown))
        console.print()
    if drawn and len(shown["models"]) > 1:
        other = shown["right_labels_differ"]
        hits = "" if other is None else f", on {other:,} in the true labels they find"
        console.print(
            f"[dim]the models differ on {shown['labels_differ']:,} of {shown['documents']:,} documents{hits}[/dim]"
        )
    marks = "✓ right, " if shown["models"][0]["right"] is not None else ""
    console.print(f"[dim]{marks}(n) rare: n training documents[/dim]")


def _predictions(example: dict[str, Any], headings: list[str], widths: list[int]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading, width in zip(headings, widths, strict=True):
        table.add_column(Text(heading), width=width, overflow="fold")
    columns = [[_cell(label) for label in each["labels"]] for each in example["predictions"]]
    for place in range(max(len(column) for column in columns)):
        table.add_row(*(column[place] if place < len(column) else "" for column in columns))
    return table


def _figures(shown: dict[str, Any]) -> Any:
    """What is right among the labels shown, and the figures over all documents, a line a model."""
    from rich.markup import escape

    from longtail.report.tables import plain_table

    table = plain_table("", "right of those shown", *FIGURES, "documents")
    for model in shown["models"]:
        figures = ["-" if model[name] is None else f"{model[name]:.2f}" for name in FIGURES]
        counted = "-" if model["documents"] is None else f"{model['documents']:,}"
        table.add_row(escape(printable(model["name"])), f"{model['right']} of {model['shown']}", *figures, counted)
    return table


def _cell(label: dict[str, Any]) -> Text:
    """A predicted label: green and ticked if it is right, with its training count if it is rare."""
    from rich.text import Text

    cell = Text("✓ " if label["right"] else "· " if label["right"] is not None else "")
    cell.append_text(_named(label))
    cell.stylize("green" if label["right"] else "")
    return cell


def _named(label: dict[str, Any]) -> Text:
    from rich.text import Text

    from longtail.labels import BAND_EDGES

    name = Text(printable(label["label"]))
    if label["training_documents"] <= BAND_EDGES[0]:
        name.append(f" ({label['training_documents']})", style="bold")
    return name
