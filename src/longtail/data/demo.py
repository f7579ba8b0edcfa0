"""The embedded corpus: 'see also' tagging of the docstrings of numpy, scipy, scikit-learn and matplotlib.

A document is a public function, class, method or attribute: its name and what its docstring says. Its labels are the
objects that its 'See Also' section names, and a label's text is that object's own name and summary. Everything comes
from libraries that are installed wherever longtail is, so the corpus needs no download; it follows the versions of
those libraries, and is the same on every run with the same versions.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import pkgutil
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import GenericAlias, ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp

from longtail.corpus import Corpus
from longtail.data.docstrings import long_text, readable, see_also, summary_of
from longtail.errors import UsageError, nearest
from longtail.labels import LabelIndex

LIBRARIES = ("numpy", "scipy", "sklearn", "matplotlib", "mpl_toolkits")
VARIANTS = ("short", "long")

#: Share of the groups of aliases that are held out.
TEST_SHARE = 0.2

# Modules with no public objects of their own, and those whose import touches the user's environment: a graphical
# backend (pyplot only repeats the docstrings of Axes and Figure), compilers, or a test framework.
_SKIPPED = re.compile(
    "backends|conftest|core|distutils|estimator_checks|externals|f2py|matlib|mypy_plugin|pylab|pyplot|setup|sphinxext"
    "|testing|tests|testutils|_.*"
)


def demo(variant: str = "short", *, unseen: bool = False) -> tuple[Corpus, Corpus]:
    """The training and the test part of the embedded corpus: texts, label texts, ids; counts are the training part's.

    variant  "short": name and summary. "long": also the rest of the docstring but its code and its 'See Also'
    unseen   keep the test labels that no training document has, after the training labels with a count of 0, and
             the test documents that have only such labels. Without it both are left out

    Names of one object never fall on both sides of the split. `reciprocal` marks each document's own label.
    """
    if variant not in VARIANTS:
        raise UsageError(f"unknown variant '{variant}' of the embedded corpus; {nearest(variant, VARIANTS)}")
    records, summaries = _records()
    train = _corpus([r for r in records if not r.held_out], summaries, variant, "train").counted()
    test = _corpus([r for r in records if r.held_out], summaries, variant, "test")
    test = test.aligned(train.labels, keep_unknown=unseen)
    test = test.rows(np.flatnonzero(np.diff(test.Y.indptr)))
    train.reciprocal, test.reciprocal = _own_labels(train), _own_labels(test)
    return train, test


@dataclass(frozen=True)
class _Record:
    """A document: its canonical name, its two texts, the canonical names of its labels, and its side of the split."""

    name: str
    short: str
    long: str
    labels: tuple[str, ...]
    held_out: bool


_Rank = tuple[bool, bool, bool, int, int, str]


@dataclass
class _Object:
    """A documented object under every public name it has."""

    paths: dict[str, _Rank] = field(default_factory=dict)  # smaller is a better name
    doc: str = ""
    name: str = ""  # the best of the paths

    @cached_property
    def summary(self) -> str:
        return summary_of(self.doc)[0]


def _corpus(records: list[_Record], summaries: dict[str, str], variant: str, part: str) -> Corpus:
    names = sorted({label for record in records for label in record.labels})
    labels = LabelIndex(names, [summaries[name] for name in names])
    columns = [sorted(labels.ids[label] for label in record.labels) for record in records]
    indptr = np.cumsum([0, *map(len, columns)])
    indices = np.fromiter((c for row in columns for c in row), dtype=np.int32, count=int(indptr[-1]))
    Y = sp.csr_matrix((np.ones(len(indices), dtype=np.float32), indices, indptr), (len(records), len(names)))
    texts = [record.long if variant == "long" else record.short for record in records]
    return Corpus(labels=labels, Y=Y, texts=texts, ids=[r.name for r in records], name=f"demo ({variant}, {part})")


def _own_labels(corpus: Corpus) -> sp.csr_matrix:
    """Bool (n, L): the pairs in which the document is the label itself."""
    own = [corpus.labels.ids.get(name, -1) for name in corpus.ids or ()]
    rows = np.flatnonzero(np.array(own) >= 0)
    columns = np.array(own)[rows]
    return sp.csr_matrix((np.ones(len(rows), dtype=bool), (rows, columns)), corpus.Y.shape)


# ---------------------------------------------------------------------------------------------------------------------
# from objects to documents


@cache
def _records() -> tuple[list[_Record], dict[str, str]]:
    """All documents in the order of their names, and the text of every label. Kept: importing takes seconds."""
    if sys.flags.optimize >= 2:
        raise UsageError("the embedded corpus is made of docstrings, which python -OO takes away; run without -OO")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        objects = _objects()
    index = _Index(objects)
    documents = []
    for o in objects:
        named = {found.name: found for name in see_also(o.doc) if (found := index.find(name, o)) and found is not o}
        if named:
            documents.append((o, tuple(sorted(named))))
    held_out = _split([o for o, _ in documents])
    records = [
        _Record(o.name, _titled(o), long_text(o.name, o.doc), labels, held_out[o.name]) for o, labels in documents
    ]
    used = {label for record in records for label in record.labels}
    return records, {o.name: _titled(o) for o in objects if o.name in used}


def _titled(o: _Object) -> str:
    return f"{readable(o.name)}: {o.summary}" if o.summary else readable(o.name)


def _split(objects: list[_Object]) -> dict[str, bool]:
    """Whether each object is held out. Objects that share their docstring or their summary stay together."""
    groups = _Groups()
    for o in objects:
        groups.join(("object", o.name), ("doc", o.doc))
        groups.join(("object", o.name), ("summary", o.summary.lower()))
    key: dict[Any, str] = {}
    for o in objects:  # in the order of names, so a group is known by its first name
        key.setdefault(groups.find(("object", o.name)), o.name)
    return {o.name: _share(key[groups.find(("object", o.name))]) < TEST_SHARE for o in objects}


def _share(key: str) -> float:
    """A number in [0, 1) that depends on the key alone."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:6], "big") / 2**48


class _Groups:
    """Union-find over hashable keys."""

    def __init__(self) -> None:
        self.parent: dict[Any, Any] = {}

    def find(self, key: Any) -> Any:
        while (parent := self.parent.setdefault(key, key)) != key:
            self.parent[key] = self.parent[parent]
            key = parent
        return key

    def join(self, one: Any, other: Any) -> None:
        self.parent[self.find(one)] = self.find(other)


class _Index:
    """Finds objects by the names that docstrings use for them."""

    def __init__(self, objects: Iterable[_Object]) -> None:
        self.by_path = {path: o for o in objects for path in o.paths}
        self.by_ending: dict[str, set[str]] = defaultdict(set)
        for path, o in self.by_path.items():
            parts = path.split(".")
            for start in range(1, len(parts)):
                self.by_ending[".".join(parts[start:])].add(o.name)

    def find(self, name: str, source: _Object) -> _Object | None:
        """The object that `name` means inside the docstring of `source`: searched outwards from where it stands."""
        name = re.sub(r"^np\.", "numpy.", name)
        if pyplot := re.match(r"^(?:matplotlib\.)?(?:pyplot|plt)\.(.+)", name):
            name = pyplot[1]
            for home in ("matplotlib.axes.Axes", "matplotlib.figure.Figure"):  # what pyplot's functions call
                if (found := self.by_path.get(f"{home}.{name}")) is not None:
                    return found
        if name in self.by_path:
            return self.by_path[name]
        scope = source.name
        while "." in scope:
            scope = scope.rpartition(".")[0]
            found = self.by_path.get(f"{scope}.{name}")
            if found is not None and found is not source:  # a method may name the function of the same name
                return found
        library = source.name.partition(".")[0]
        candidates = self.by_ending.get(name, set())
        near = [c for c in candidates if c.partition(".")[0] == library]
        return self._nearest(near or list(candidates), source.name)

    def _nearest(self, names: list[str], source: str) -> _Object | None:
        """The one that shares most of its path with the source; nothing if several do."""
        scopes = {source[:end] for end, letter in enumerate(f"{source}.") if letter == "."}
        shared = {name: sum(name.startswith(f"{scope}.") for scope in scopes) for name in names}
        closest = [name for name in names if shared[name] == max(shared.values())]
        return self.by_path[closest[0]] if len(closest) == 1 else None


# ---------------------------------------------------------------------------------------------------------------------
# from libraries to objects


def _objects() -> list[_Object]:
    """Every public object of the libraries once, whatever its number of names, in the order of its best name."""
    groups = _Groups()
    found: list[tuple[str, _Rank, Any, str]] = []
    alive = []  # identities are compared, so nothing may be freed on the way
    for module in _modules():
        for path, value, doc, inherited in _public(module):
            alive.append(value)
            identity = ("id", id(value))
            # one docstring under one name is one object: wrappers and subclasses copy methods that way
            groups.join(identity, ("doc", path.rpartition(".")[2], doc))
            found.append((path, _rank(path, value, module, inherited), identity, doc))
    objects: dict[Any, _Object] = defaultdict(_Object)
    for path, rank, identity, doc in found:
        o = objects[groups.find(identity)]
        o.paths[path] = min(rank, o.paths.get(path, rank))
        o.doc = o.doc or doc
    for o in objects.values():
        o.name = min(o.paths, key=o.paths.__getitem__)
    # a name that two modules give to different objects belongs to the first
    return sorted({o.name: o for o in reversed(list(objects.values()))}.values(), key=lambda o: o.name)


def _rank(path: str, value: Any, module: ModuleType, inherited: bool) -> _Rank:
    """Smaller is better: where it was defined, by its own name, at the top of the library, short, alphabetical."""
    qualified = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    return (
        not _home(value).startswith(module.__name__),
        inherited,
        not path.endswith(f".{qualified}"),
        path.count("."),
        len(path),
        path,
    )


def _home(value: Any) -> str:
    """The module an object says it was defined in; "" where it does not say."""
    home = getattr(value, "__module__", None)
    return home if isinstance(home, str) else ""


def _modules() -> Iterator[ModuleType]:
    """The public modules of the libraries, in the order of their names; those that cannot be imported are left out."""
    names = list(LIBRARIES)
    while names:
        try:
            module = importlib.import_module(names.pop(0))
        except Exception:  # an optional dependency, a backend: whatever a module demands that is not there
            continue
        yield module
        inner = sorted(m.name for m in pkgutil.iter_modules(getattr(module, "__path__", ())))
        public = [n for n in inner if not _SKIPPED.fullmatch(n)]
        names[:0] = [f"{module.__name__}.{n}" for n in public]


def _public(module: ModuleType, alias: str = "") -> Iterator[tuple[str, Any, str, bool]]:
    """(path, object, docstring, inherited) of what a module offers, and of the members of its classes.

    alias  the name of the module to use in the paths instead of its own
    """
    listed = getattr(module, "__all__", None)
    for name in sorted(set(listed if listed is not None else vars(module))):
        try:
            value = getattr(module, name)
        except Exception:  # a deprecated name may raise
            continue
        path = f"{alias or module.__name__}.{name}"
        if isinstance(value, ModuleType) and listed is not None and not alias and value.__name__ != path:
            yield from _public(value, path)  # as numpy.emath, which is numpy.lib.scimath
        if name.startswith("_") or isinstance(value, ModuleType | GenericAlias):
            continue
        within = module.__name__ if listed is None else LIBRARIES  # an imported name is public only where it is listed
        if not _home(value).startswith(within) and not isinstance(value, np.ufunc):
            continue
        if doc := _docstring(value):
            yield path, value, doc, False
        if inspect.isclass(value):
            yield from _members(path, value)


def _members(path: str, cls: type) -> Iterator[tuple[str, Any, str, bool]]:
    seen = set()
    for base in cls.__mro__:
        if not _home(base).startswith(LIBRARIES):
            continue
        for name, member in sorted(vars(base).items()):
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            value = getattr(member, "__func__", member)
            if (callable(value) or inspect.isdatadescriptor(value)) and (doc := _docstring(value)):
                yield f"{path}.{name}", value, doc, base is not cls


def _docstring(value: Any) -> str:
    """The object's docstring without indentation; "" if it is only what Python says of all objects of its type."""
    doc = getattr(value, "__doc__", None)
    kind = type(value)
    if not isinstance(doc, str) or (doc == kind.__doc__ and not _home(kind).startswith(LIBRARIES)):
        return ""
    return _clean(doc)


_clean = cache(inspect.cleandoc)  # inherited members turn up again in every subclass
