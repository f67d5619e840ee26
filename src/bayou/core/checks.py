"""Checks of parameters: each gives back what it was given, in the right type, or a sentence that names it."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from bayou.core.errors import BadInput

_Choice = TypeVar("_Choice")
# How much of a value that is refused is shown.
_SHOWN = 200


def whole_number(name: str, value: Any, low: int, high: int = 2**63 - 1) -> int:
    """A whole number in [low, high]."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    if not whole or not low <= value <= high:
        upper = f" to {high}" if high < 2**63 - 1 else " on"
        raise BadInput(f"{name} is {shown(value)}; it must be a whole number from {low}{upper}.")
    return int(value)


def positive_number(name: str, value: Any, zero: bool = False, high: float = math.inf) -> float:
    """A finite number > 0 (or >= 0), at most `high`."""
    number = as_number(value)
    if not (math.isfinite(number) and (number > 0 or (zero and number == 0)) and number <= high):
        upper = f" and at most {high:g}" if high < math.inf else ""
        raise BadInput(f"{name} is {shown(value)}; it must be a number {'>=' if zero else '>'} 0{upper}.")
    return number


def finite_number(name: str, value: Any) -> float:
    """Any number but NaN and infinity."""
    number = as_number(value)
    if not math.isfinite(number):
        raise BadInput(f"{name} is {shown(value)}; it must be a finite number.")
    return number


def as_number(value: Any) -> float:
    """A number as a float; NaN if it is none, infinity if no float is as large."""
    if not isinstance(value, int | float | np.number) or isinstance(value, np.complexfloating | np.timedelta64):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def is_share(value: Any) -> bool:
    """Whether it is a number between 0 and 1, and neither of them."""
    return 0.0 < as_number(value) < 1.0


def share(name: str, value: Any) -> float:
    """A number between 0 and 1, and neither of them."""
    if not is_share(value):
        raise BadInput(f"{name} is {shown(value)}; it must be between 0 and 1.")
    return float(value)


def yes_or_no(name: str, value: Any) -> bool:
    """True or False, and nothing that merely counts as such."""
    if not isinstance(value, bool | np.bool_):
        raise BadInput(f"{name} is {shown(value)}; it must be True or False.")
    return bool(value)


def path(name: str, value: Any) -> str:
    """The path of a file."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    with contextlib.suppress(UnicodeEncodeError):
        if isinstance(text, str) and b"\0" not in os.fsencode(text):
            return text
    raise BadInput(f"{name} is {shown(value)}; it must be the path of a file.")


def plain_text(name: str, value: Any) -> None:
    """A text that can be written down."""
    if not isinstance(value, str):
        raise BadInput(f"{name} is {shown(value)}; it must be text.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{name} is {value!r}; it must be text in whole characters, as UTF-8 has them.") from None


def texts(name: str, value: Any, what: str) -> tuple[str, ...]:
    """Several texts; one alone is none."""
    parts = () if isinstance(value, str) else several(name, value, what)
    if isinstance(value, str) or not all(isinstance(part, str) for part in parts):
        raise BadInput(f"{name} is {shown(value)}; it must be {what}.")
    return tuple(parts)


def several(name: str, value: Any, what: str) -> list[Any]:
    """Anything that can be gone through, as a list."""
    try:
        return list(value)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        raise BadInput(f"{name} is {shown(value)}; it must be {what}.") from None


def function(name: str, value: Any) -> Callable[..., Any] | None:
    """Something to call, or None."""
    if value is not None and not callable(value):
        raise BadInput(f"{name} is {shown(value)}; it must be a function.")
    return value


def float_type(value: Any) -> str:
    """The name of a type of numbers: float32 or float64."""
    try:
        found = np.dtype(value).name
    except (TypeError, ValueError):
        found = ""
    if value is None or found not in ("float32", "float64"):
        raise BadInput(f"dtype is {found or shown(value)}; it must be float32 or float64.")
    return found


def one_of(name: str, value: Any, choices: Mapping[str, _Choice]) -> _Choice:
    """One of some words; what it stands for."""
    if not isinstance(value, str) or value not in choices:
        near = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise BadInput(f"{name} is {shown(value)}; it must be one of {', '.join(map(repr, choices))}.{near}")
    return choices[value]


def shown(value: Any) -> str:
    """A value as Python would write it, for a sentence that refuses it; not all of a long one."""
    try:
        text = repr(value)
    except Exception:  # whatever is wrong with it, the sentence must be said
        text = f"some {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """A question to put behind a sentence that refuses a name; nothing, where no choice is near it.

    >>> did_you_mean("bnak", ["bank", "marginal"])
    ' Did you mean bank?'
    """
    from difflib import get_close_matches

    as_written = {choice.lower(): choice for choice in choices}
    near = get_close_matches(name.lower(), as_written, n=1)
    return f" Did you mean {as_written[near[0]]}?" if near else ""
