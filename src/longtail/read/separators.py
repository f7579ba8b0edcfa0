"""Labels that stand in one text: which sign separates them, and what they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import orjson

from longtail.read.flaws import RecordError

#: Separates labels where nothing else is found.
DEFAULT = "|"

#: Signs that seldom stand inside a label, and signs that often do.
STRONG = ("|", ";", "\n", "\t")
WEAK = (",", "/")

#: Share of the texts in which a strong sign must stand to be taken for a separator.
_SELDOM = 0.01
#: A weak sign must stand in this share of them, and cutting at it must bring out labels that occur again and again.
_OFTEN = 0.2

_ENTITY = re.compile(r"&#?\w{1,10};")
_ANGLES = re.compile(r"<([^<>]+)>\s*")
_ITEM = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?\d+)"""
_PYTHON_LIST = re.compile(rf"\[\s*+{_ITEM}(?:\s*+,\s*+{_ITEM})*\s*+(?:,\s*+)?\]", re.DOTALL)


def shown(sign: str) -> str:
    """A separator in a message."""
    return {"\n": "line breaks", "\t": "tabs"}.get(sign, f"'{sign}'")


def find_separator(texts: Sequence[str]) -> str | None:
    """The sign between the labels of these texts, or None if each seems to be a single label."""
    cells = [_ENTITY.sub("", text.strip()) for text in texts]
    cells = [cell for cell in cells if cell and not _is_written_out(cell)]
    if not cells:
        return None
    share = {sign: sum(sign in cell for cell in cells) / len(cells) for sign in (*STRONG, *WEAK)}
    strong = max(STRONG, key=lambda sign: share[sign])
    if share[strong] >= _SELDOM:
        return strong
    if any("://" in cell for cell in cells):
        share["/"] = 0.0
    weak = max(WEAK, key=lambda sign: share[sign])
    return weak if share[weak] >= _OFTEN and _cuts_well(cells, weak) else None


def kept_whole(texts: Sequence[str]) -> tuple[str, str] | None:
    """A sign that many labels hold and that might separate them, though nothing says so, and a text with it."""
    for sign in WEAK:
        marked = [text for text in texts if sign in text and not _is_written_out(text.strip()) and "://" not in text]
        if len(marked) >= _OFTEN * len(texts) and marked:
            return sign, marked[0]
    return None


def _cuts_well(cells: list[str], sign: str) -> bool:
    """Whether what the sign cuts out occurs again more often than whole texts do, or most texts are long lists."""
    marked = [cell for cell in cells if sign in cell]
    lists = [[piece.strip() for piece in cell.split(sign)] for cell in marked]
    pieces = [piece for parts in lists for piece in parts if piece]
    if not pieces or sum(len(piece.split()) for piece in pieces) > 5 * len(pieces):
        return False
    whole = len(set(marked)) / len(marked)
    cut = len(set(pieces)) / len(pieces)
    long_lists = sum(len(parts) > 2 for parts in lists) / len(cells)
    return cut <= 0.8 * whole or (len(marked) > 0.5 * len(cells) and long_lists > 0.25 and whole > 0.5)


def _is_written_out(cell: str) -> bool:
    """Whether it says by itself what its labels are."""
    return (cell[0], cell[-1]) in (("[", "]"), ("{", "}")) or _in_angles(cell)


def _in_angles(cell: str) -> bool:
    return cell[0] == "<" and cell[-1] == ">" and not _ANGLES.sub("", cell)


def split_cell(cell: str, separator: str) -> Any:
    """Labels of a text: a JSON or Python list, an object, <names> <in angles>, else what stands between separators.

    Nothing between two separators, or before or after them, is no label.
    """
    cell = cell.strip()
    if not cell:
        return None
    if (cell[0], cell[-1]) in (("[", "]"), ("{", "}")):
        return _written_out(cell)
    if _in_angles(cell):
        return _ANGLES.findall(cell)
    return [name for part in cell.split(separator) if (name := part.strip())]


def _written_out(cell: str) -> Any:
    try:
        return orjson.loads(cell)
    except orjson.JSONDecodeError:
        pass
    if cell == "[]" or _PYTHON_LIST.fullmatch(cell):
        try:
            names = ast.literal_eval(cell)
            "".join(map(str, names)).encode()  # half surrogates are no text
            return names
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            pass
    raise RecordError(f"the labels {cell[:40]} look like a list but are not JSON (names go in double quotes)")
