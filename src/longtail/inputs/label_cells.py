"""Labels of a document as people write them in Python: lists, sets, arrays, weights, a single name, or one text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from longtail.errors import UsageError, printable, warn

#: What people put between labels in one text; never cut at unless asked to.
_USUAL_SEPARATORS = (";", "|", ",", "\n", "\t")


class LabelCells:
    """Brings labels to the lists and dicts that readers know, and watches out for lists that are written as one text.

    separator  what to cut texts at; without it a text is one label
    classes    names for labels that are numbers, or None
    """

    def __init__(self, separator: str | None, classes: Sequence[str] | None = None) -> None:
        if separator is not None and not isinstance(separator, str):
            raise UsageError(f"separator takes what stands between labels, such as ';', not {separator!r}")
        self._separator, self._classes = separator, classes
        self._cells = self._texts = self._brackets = 0
        self._with = dict.fromkeys(_USUAL_SEPARATORS, 0)
        self._example = ""

    def labels_of(self, value: Any) -> Any:
        """A list of labels, a dict from label to weight, a text to be cut, or None for none."""
        self._cells += 1
        if type(value) is str:
            return self._text(value)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        if isinstance(value, Mapping):
            return dict(value)
        if hasattr(value, "tolist"):  # an array or a single number of numpy's
            value = value.tolist()
        if isinstance(value, list | tuple | set | frozenset):
            return [self._label(label) for label in value]
        return [self._label(value)]

    def _label(self, label: Any) -> Any:
        if type(label) is not int and hasattr(label, "item"):
            label = label.item()
        if self._classes is None or type(label) is not int:
            return label
        if not 0 <= label < len(self._classes):
            raise UsageError(f"label number {label} is outside the {len(self._classes)} class names")
        return self._classes[label]

    def _text(self, value: str) -> Any:
        self._texts += 1
        if self._separator is not None:
            return value
        value = value.strip()
        if not value:
            return None
        self._brackets += value[0] == "[" and value[-1] == "]"
        for sign in _USUAL_SEPARATORS:
            if sign in value:
                self._with[sign] += 1
                self._example = self._example or value
        return [value]

    def check(self) -> None:
        """Once all cells were seen: refuses what looks like lists in one text, warns where only some do."""
        if self._separator is not None:
            if self._cells and not self._texts:
                raise UsageError("separator cuts labels that stand in one text, and these are lists already")
            return
        if self._brackets * 2 > self._texts:
            raise UsageError(
                "the labels are texts that look like lists: turn them into lists first, as json.loads or "
                "ast.literal_eval do"
            )
        sign = max(_USUAL_SEPARATORS, key=lambda sign: self._with[sign])
        found = self._with[sign]
        if not found:
            return
        example = printable(self._example)[:60]
        said = f"{found:,} of {self._texts:,} labels hold {sign!r}, such as '{example}'"
        advice = f"separator={sign!r} cuts them there"
        if found * 2 > self._texts:
            raise UsageError(f"{said}; {advice}; if each is one label, put it into a list: ['{example}']")
        warn(f"{said}, and each counts as one label; {advice}")
