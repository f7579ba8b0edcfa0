from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from longtail.data import demo as module
from longtail.data.demo import demo
from longtail.data.docstrings import long_text, prose, readable, see_also
from longtail.errors import UsageError


def summary(text):
    return text.partition("\n")[0].partition(": ")[2].lower()


@pytest.fixture(scope="module", params=["short", "long"])
def parts(request):
    return demo(request.param)


def test_thousands_of_documents_and_a_long_tail(parts):
    train, test = parts
    assert len(train) + len(test) > 1_500
    assert len(test) > 150
    assert len(train.labels) > 1_000
    counts = train.labels.frequency
    assert (counts == np.bincount(train.Y.indices, minlength=train.n_labels)).all()
    assert counts.min() >= 1
    assert (counts <= 5).mean() > 0.8
    assert 1.5 < train.Y.nnz / len(train) < 5


def test_both_parts_have_the_same_labels_and_no_empty_document(parts):
    train, test = parts
    assert test.labels is train.labels
    for corpus in parts:
        assert np.diff(corpus.Y.indptr).min() >= 1
        assert all(text.strip() for text in corpus.texts)
        assert list(corpus.ids) == sorted(set(corpus.ids))


def test_labels_have_texts(parts):
    labels = parts[0].labels
    assert np.mean([len(summary(text)) > 5 for text in labels.texts]) > 0.8
    assert all(text.startswith(name) for name, text in zip(labels.names, labels.texts, strict=True))
    assert list(labels.names) == sorted(labels.names)


def test_unseen_labels_come_behind_the_training_labels():
    train, test = demo(unseen=True)
    L = len(train.labels)
    assert list(test.labels.names[:L]) == list(train.labels.names)
    assert len(test.labels) > L
    assert (test.labels.frequency[L:] == 0).all()
    assert len(test) > len(demo()[1])
    assert test.reciprocal.shape == test.Y.shape


def test_no_object_on_both_sides(parts):
    train, test = parts
    assert not set(train.ids) & set(test.ids)
    assert not set(train.texts) & set(test.texts)
    assert not {summary(t) for t in train.texts} & {summary(t) for t in test.texts}


def test_aliases_are_one_object():
    train, test = demo(unseen=True)
    documents = {*train.ids, *test.ids}
    names = {*documents, *test.labels.names}
    assert np.abs is np.absolute
    assert "numpy.absolute" in names
    assert "numpy.abs" not in names
    assert "numpy.sum" in names
    assert "sklearn.preprocessing.LabelEncoder" in names
    assert not [name for name in names if re.search(r"\bnp\.|pyplot|\._|\btests?\b", name)]


def test_the_labels_are_the_see_also_entries():
    train, test = demo(unseen=True)
    found = {}
    for corpus in (train, test):
        for d, name in enumerate(corpus.ids):
            found[name] = {corpus.labels.names[c] for c in corpus.Y[d].indices}
    assert "numpy.triu" in found["numpy.tril"]
    assert "sklearn.cluster.MiniBatchKMeans" in found["sklearn.cluster.KMeans"]
    assert "matplotlib.axes.Axes.barh" in found["matplotlib.axes.Axes.bar"]


def test_texts_do_not_give_the_labels_away(parts):
    for corpus in parts:
        assert not [text for text in corpus.texts if re.search(r"see\s*also", text, re.IGNORECASE)]
        assert not [text for text in corpus.texts if ">>>" in text]


def test_long_is_longer():
    (short, _), (long, _) = demo("short"), demo("long")
    assert short.ids == long.ids
    assert (short.Y != long.Y).nnz == 0
    assert all(b.startswith(a) for a, b in zip(short.texts, long.texts, strict=True))
    words = [np.mean([len(text.split()) for text in corpus.texts]) for corpus in (short, long)]
    assert words[1] > 5 * words[0]


def test_reciprocal_marks_the_document_itself(parts):
    for corpus in parts:
        rows, columns = corpus.reciprocal.nonzero()
        assert len(rows) > len(corpus) / 4
        assert all(corpus.ids[r] == corpus.labels.names[c] for r, c in zip(rows, columns, strict=True))
        assert corpus.reciprocal.multiply(corpus.Y).nnz == 0


def test_neighbours_know_the_labels(parts):
    train, test = parts
    vectoriser = TfidfVectorizer(sublinear_tf=True)
    X = vectoriser.fit_transform(train.texts)
    nearest = (vectoriser.transform(test.texts) @ X.T).toarray()
    nearest[nearest < np.sort(nearest, axis=1)[:, -10:-9]] = 0
    best = np.asarray(nearest @ train.Y).argmax(axis=1)
    hits = np.asarray(test.Y[np.arange(len(test)), best]).mean()
    frequent = test.Y[:, train.labels.frequency.argmax()].mean()
    assert hits > 0.25
    assert hits > 5 * frequent


DIGEST = """
import hashlib, sys
from longtail.data.demo import demo
digest = hashlib.sha256()
for variant in ("short", "long"):
    for part in demo(variant, unseen=True):
        digest.update(repr((part.texts, part.ids, part.labels.names, part.labels.texts)).encode())
        digest.update(part.Y.indices.tobytes() + part.Y.indptr.tobytes() + part.reciprocal.indices.tobytes())
print(digest.hexdigest(), "matplotlib.pyplot" in sys.modules)
"""


def digest(hash_seed, before):
    done = subprocess.run(
        [sys.executable, "-c", before + DIGEST],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_the_corpus_depends_on_neither_hash_seed_nor_imports():
    alone, pyplot = digest("1", "")
    assert pyplot == "False"
    other, _ = digest("2", "import scipy.stats, sklearn.svm, matplotlib.pyplot")
    assert other == alone


def test_docstrings_must_be_there():
    code = "from longtail.data.demo import demo; demo()"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True)
    assert "UsageError: the embedded corpus is made of docstrings" in done.stderr


def test_unknown_variant():
    with pytest.raises(UsageError, match="did you mean 'short'"):
        demo("shrot")


DOC = """frob(x, /, out=None)

Frobs an *array* with `x`.

It does so in place, see also `frobbed`. More prose.

.. seealso:: :func:`barrel`

.. math:: x^2

Parameters
----------
x : array_like
    What to frob. ``x ** 2`` is fine.

See Also
--------
numpy.sum : Adds :func:`up`.
    nothing : but a description
mean, np.median : Two of them.
:meth:`~Frob.fit`, :obj:`frobs`
.Axes.plot : A leading dot.
:ref:`a_page` : Not an object.
`~scipy.special.erf`
    Described below.
Prose that names nothing.
twice()

Notes
-----
A note.

Examples
--------
>>> frob(1)
2
"""


def test_see_also_of_a_docstring():
    expected = ["numpy.sum", "mean", "np.median", "Frob.fit", "frobs", "Axes.plot", "scipy.special.erf", "twice"]
    assert see_also(DOC) == [*expected, "frobbed"]
    assert see_also("Sum.\n\n.. seealso::\n\n    :func:`barrel`\n        Rolls.\n    `.Tub`") == ["barrel", "Tub"]
    assert see_also("Nothing here.") == []


def test_long_text_of_a_docstring():
    assert long_text("a.frob", DOC).splitlines() == [
        "a.frob: Frobs an array with x.",
        "It does so in place, More prose.",
        "x : array_like What to frob. x ** 2 is fine.",
        "A note.",
    ]


def test_names_in_words():
    assert readable("numpy.sum") == "numpy.sum"
    assert readable("a.MiniBatchKMeans") == "a.MiniBatchKMeans (mini batch k means)"
    assert readable("a.train_test_split") == "a.train_test_split (train test split)"
    assert readable("a.SVDResult") == "a.SVDResult (svd result)"


def test_plain_text():
    assert prose("See :class:`~a.B` or `c` and ``d``, *e* and **f**; 2*3*4") == "See a.B or c and d, e and f; 2*3*4"


def objects(**names):
    found = []
    for name, paths in names.items():
        rank = (False, False, False, 0, 0, "")
        found.append(module._Object(dict.fromkeys(paths, rank), "doc", paths[0]))
        found[-1].tag = name
    return found


def test_names_are_searched_outwards():
    everything = objects(
        total=["numpy.sum", "numpy.add_up"],
        method=["numpy.ndarray.sum"],
        masked=["numpy.ma.sum"],
        special=["scipy.special.sum"],
        plot=["matplotlib.axes.Axes.plot"],
        one=["numpy.a.only"],
        two=["numpy.b.both"],
        three=["numpy.c.both"],
    )
    index = module._Index(everything)
    by_tag = {o.tag: o for o in everything}

    def find(name, source):
        found = index.find(name, by_tag[source])
        return found and found.tag

    assert find("np.add_up", "special") == "total"
    assert find("sum", "one") == "total"
    assert find("sum", "method") == "total"  # not itself
    assert find("ma.sum", "total") == "masked"
    assert find("numpy.ndarray.sum", "special") == "method"
    assert find("plt.plot", "special") == "plot"
    assert find("only", "total") == "one"
    assert find("both", "total") is None
    assert find("both", "two") == "two"
    assert find("nothing", "total") is None
