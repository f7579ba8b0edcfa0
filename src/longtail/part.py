"""What every part (features, learner, augmenter, re-ranker) has in common: its fields are its hyper-parameters.

Constructor, `--set`, recipe files, the manifest of a saved model, the docs tables and `get_params` all read the
dataclass fields; fitted state ends in `_` and is never a field.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from longtail.capabilities import Capabilities
from longtail.errors import UsageError, nearest

if TYPE_CHECKING:
    from longtail.plan import Sizes, Stage
    from longtail.run import Run

Arrays = Mapping[str, NDArray[Any]]

#: Registered names by "module:Class"; the registry fills it, for it knows parts and parts know nothing of it.
NAMES: dict[str, str] = {}


_CHECKED_BEFORE = ContextVar("checked before", default=False)


@contextmanager
def restoring_checked_arrays(checked: bool) -> Iterator[None]:
    """Around `restore`: whether the very same arrays went through all checks before."""
    before = _CHECKED_BEFORE.set(checked)
    try:
        yield
    finally:
        _CHECKED_BEFORE.reset(before)


def checked_before() -> bool:
    """For `restore`: whether checks that read whole arrays can be left out; those of types and sizes cannot."""
    return _CHECKED_BEFORE.get()


def shown_name(part: Part | type[Part]) -> str:
    """What messages call a part: its registered name, or that of its class."""
    cls = part if isinstance(part, type) else type(part)
    return NAMES.get(f"{cls.__module__}:{cls.__qualname__}", cls.__name__)


def option(
    default: Any,
    help: str,  # noqa: A002
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] | None = None,
    only: Mapping[str, Any] | None = None,
) -> Any:
    """A hyper-parameter: its default, what it means and where the default comes from, and what values it may take.

    only  other options and the values (one, or a tuple of several) they must have for this one to count: where they
          differ, a value other than the default is refused, for it would be ignored
    """
    metadata = {"help": help, "low": low, "high": high, "choices": choices, "only": dict(only or {})}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(kw_only=True)
class Part:
    """Base of all parts; subclasses are `@dataclass(kw_only=True)` with `option` fields."""

    kind: ClassVar[str] = "part"
    #: Options that need less memory with these values, most telling first; a fit that does not fit names them.
    leaner: ClassVar[Mapping[str, Any]] = {}
    #: Bytes that its libraries hold beside those of the core install.
    libraries: ClassVar[int] = 0

    @property
    def libraries_alone(self) -> int:
        """Those bytes where nothing acts inside its fit, and no second stage follows."""
        return self.libraries

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Refuses values out of range, naming the field, before any work is done."""
        hints = typing.get_type_hints(type(self))
        for f in fields(self):
            setattr(self, f.name, _checked(self, f, hints[f.name], getattr(self, f.name)))
        for f in fields(self):
            if f.metadata.get("only") and getattr(self, f.name) != default_of(f):
                _refuse_idle(self, f)

    @property
    def capabilities(self) -> Capabilities:
        """What it takes and gives; parts that hold parts make it up from theirs."""
        return Capabilities()

    # what a fit needs
    def plan(self, sizes: Sizes, run: Run) -> list[Stage]:
        """The stages of its fit on a corpus of these sizes; nothing for parts that hardly need time or memory."""
        return []

    def planned(self, sizes: Sizes) -> Sizes:
        """What it makes of these sizes: those of the corpus that the parts behind it see."""
        return sizes

    def acted(self) -> dict[str, Any]:
        """What its fit did, in plain values, for the report of a training and `inspect`; nothing for most parts."""
        return {}

    # scikit-learn's habits
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def set_params(self, **params: Any) -> Self:
        for name, value in params.items():
            require_field(self, name)
            setattr(self, name, value)
        self.__post_init__()
        return self

    def unfitted(self) -> Self:
        """A new part with the same options, parts inside it included, and nothing learnt."""
        return type(self)(**{name: _unfitted(value) for name, value in self.get_params().items()})

    # what a model directory keeps
    def state(self) -> dict[str, NDArray[Any]]:
        """Fitted state as named arrays; nothing for parts that have none."""
        return {}

    def restore(self, arrays: Arrays) -> None:
        """Takes back what `state` gave, checking every shape and index before it is used."""
        if arrays:
            raise ValueError(f"{type(self).__name__} keeps no arrays, the file has {sorted(arrays)[:3]}")


def _refuse_idle(part: Part, f: Field[Any]) -> None:
    """Refuses an option that the part's other options leave without any effect."""
    for other, wanted in f.metadata["only"].items():
        allowed = wanted if isinstance(wanted, tuple) else (wanted,)
        if getattr(part, other) not in allowed:
            shown = " or ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in allowed)
            raise UsageError(f"{shown_name(part)}.{f.name} counts only where {other} is {shown}; leave it out")


def _unfitted(value: Any) -> Any:
    if isinstance(value, Part):
        return value.unfitted()
    return [_unfitted(item) for item in value] if isinstance(value, list) else value


def require_field(part: Part | type[Part], name: str) -> None:
    known = {f.name for f in fields(part)}
    if name not in known:
        raise UsageError(
            f"'{shown_name(part)}' has no option '{name}'; {nearest(name, known) if known else 'it has none'}"
        )


def default_of(f: Field[Any]) -> Any:
    return f.default_factory() if f.default_factory is not MISSING else f.default


def prefixed(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Names put under a prefix: how a part that holds parts keeps their state apart."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def under(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The arrays kept under a prefix, with the prefix taken off."""
    start = f"{prefix}."
    return {name[len(start) :]: array for name, array in arrays.items() if name.startswith(start)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _checked(part: Part, f: Field[Any], hint: Any, value: Any) -> Any:
    """The value as its declared type (an int is welcome where a float is meant), or a UsageError naming the field."""

    def refuse(wanted: str) -> UsageError:
        return UsageError(f"{shown_name(part)}.{f.name} must be {wanted}, not {value!r}")

    accepted = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    plain = [t for t in accepted if t in (int, float, str, bool)]
    if value is None and type(None) in accepted:
        return None
    if list[float] in accepted:
        if not isinstance(value, list) or not all(_is_number(inner) for inner in value):
            raise refuse("a list of numbers")
        return value
    if plain and len(plain) == len([t for t in accepted if t is not type(None)]):
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise refuse("a number of at most 63 bits")
        if float in plain and isinstance(value, int) and not isinstance(value, bool) and int not in plain:
            value = float(value)
        if type(value) not in plain:
            names = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}
            raise refuse(" or ".join(names[t] for t in plain))
        low, high, choices = (f.metadata.get(key) for key in ("low", "high", "choices"))
        if isinstance(value, float) and not np.isfinite(value):
            raise refuse("a finite number")
        if isinstance(value, int | float) and low is not None and value < low:
            raise refuse(f"at least {low}")
        if isinstance(value, int | float) and high is not None and value > high:
            raise refuse(f"at most {high}")
        if choices is not None and value not in choices:
            raise UsageError(f"{shown_name(part)}.{f.name} cannot be {value!r}; {nearest(str(value), choices)}")
    return value
