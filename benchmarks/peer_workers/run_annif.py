"""Annif, in a venv of its own: its sentence splitter, and the labels it suggests.

    python run_annif.py punkt TRAIN.tsv LANGUAGE NLTK-FOLDER
    python run_annif.py suggest PROJECT TEST.tsv TOP.npz K

Its analysers split texts by NLTK's Punkt, whose parameters NLTK would download. They are learnt from the training texts
instead, by NLTK's own trainer: it needs no labels, and nothing but full stops depends on it.
"""

import sys
from itertools import islice
from pathlib import Path

import numpy as np

#: Texts that the sentence splitter learns from.
TEXTS = 5000


def make_punkt(train, language, folder):
    from nltk.tokenize.punkt import PunktTrainer, save_punkt_params

    home = Path(folder) / "tokenizers" / "punkt_tab"
    home.mkdir(parents=True, exist_ok=True)
    with Path(train).open(encoding="utf-8") as lines:
        texts = [line.split("\t")[0] for line in islice(lines, TEXTS)]
    params = PunktTrainer("\n".join(texts)).get_params()
    for name in {language, "english"}:  # Annif does not tell NLTK which language it is
        save_punkt_params(params, dir=str(home / name))


def suggest(project_id, test, output, k):
    from annif.corpus.types import Document

    from annif import create_flask_app, registry

    app = create_flask_app()
    registry.initialize_projects(app)
    with app.app_context():
        project = registry.get_project(project_id)
        with Path(test).open(encoding="utf-8") as lines:
            documents = [Document(text=line.rstrip("\n")) for line in lines]
        ids = np.full((len(documents), k), -1, dtype=np.int32)
        values = np.zeros((len(documents), k), dtype=np.float32)
        limit = {project.backend.backend_id: {"limit": k}}
        for first in range(0, len(documents), 32):
            for row, found in enumerate(project.suggest(documents[first : first + 32], limit), first):
                best = sorted(found, key=lambda each: (-each.score, each.subject_id))[:k]
                for place, each in enumerate(best):
                    uri = project.subjects[each.subject_id].uri
                    ids[row, place], values[row, place] = int(uri.rpartition("/")[2]), each.score
    np.savez(output, ids=ids, values=values)


if __name__ == "__main__":
    if sys.argv[1] == "punkt":
        make_punkt(*sys.argv[2:5])
    else:
        suggest(*sys.argv[2:5], int(sys.argv[5]))
