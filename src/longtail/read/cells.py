"""Values of spreadsheets and databases as texts: what people see there, where a file has numbers and dates."""

from __future__ import annotations

import datetime
from typing import Any


def as_text(value: Any) -> Any:
    """The value as a text; None stays None, and what has no text stays as it is, for others to complain."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        return str(value)
    return value
