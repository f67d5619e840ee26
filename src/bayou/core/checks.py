"""Checks of parameters: each returns its value in the right type, or raises BadInput that names the parameter."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from bayou.core.errors import BadInput

_Choice = TypeVar("_Choice")
# Maximum number of characters of an invalid value in a message.
_MAX_REPR_CHARS = 200


def check_int(name: str, value: Any, low: int, high: int = 2**63 - 1) -> int:
    """Return `value` as an int; raise BadInput if it is not an integer in [low, high]."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    if not is_integer or not low <= value <= high:
        upper = f" to {high}" if high < 2**63 - 1 else " on"
        raise BadInput(f"{name} is {shortened_repr(value)}; it must be a whole number from {low}{upper}.")
    return int(value)


def check_positive(name: str, value: Any, zero: bool = False, high: float = math.inf) -> float:
    """Return `value` as a float; raise BadInput if it is not finite, > 0 (>= 0 if `zero`) and at most `high`."""
    number = as_number(value)
    if not (math.isfinite(number) and (number > 0 or (zero and number == 0)) and number <= high):
        upper = f" and at most {high:g}" if high < math.inf else ""
        raise BadInput(f"{name} is {shortened_repr(value)}; it must be a number {'>=' if zero else '>'} 0{upper}.")
    return number


def check_finite(name: str, value: Any) -> float:
    """Return `value` as a float; raise BadInput if it is not a finite number."""
    number = as_number(value)
    if not math.isfinite(number):
        raise BadInput(f"{name} is {shortened_repr(value)}; it must be a finite number.")
    return number


def as_number(value: Any) -> float:
    """Return `value` as a float: NaN if it is not a number, infinity if it is too large for a float."""
    if not isinstance(value, int | float | np.number) or isinstance(value, np.complexfloating | np.timedelta64):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def number_from_text(text: str) -> float:
    """Return the finite number that a text spells, or NaN, which equals nothing.

    >>> [number_from_text(text) for text in ("-1e3", "inf", "1_000", "spam")]
    [-1000.0, nan, nan, nan]
    """
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) and "_" not in text else math.nan


def is_fraction(value: Any) -> bool:
    """Return whether `value` is a number strictly between 0 and 1."""
    return 0.0 < as_number(value) < 1.0


def check_fraction(name: str, value: Any) -> float:
    """Return `value` as a float; raise BadInput if it is not strictly between 0 and 1."""
    if not is_fraction(value):
        raise BadInput(f"{name} is {shortened_repr(value)}; it must be between 0 and 1.")
    return float(value)


def check_bool(name: str, value: Any) -> bool:
    """Return `value` as a bool; raise BadInput if it is not a bool (0 and 1 are not)."""
    if not isinstance(value, bool | np.bool_):
        raise BadInput(f"{name} is {shortened_repr(value)}; it must be True or False.")
    return bool(value)


def check_path(name: str, value: Any) -> str:
    """Return `value` as a str; raise BadInput if it cannot be the path of a file."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    with contextlib.suppress(UnicodeEncodeError):
        if isinstance(text, str) and b"\0" not in os.fsencode(text):
            return text
    raise BadInput(f"{name} is {shortened_repr(value)}; it must be the path of a file.")


def check_str(name: str, value: Any) -> None:
    """Raise BadInput if `value` is not a string that UTF-8 can encode."""
    if not isinstance(value, str):
        raise BadInput(f"{name} is {shortened_repr(value)}; it must be text.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{name} is {value!r}; it must be text that UTF-8 can encode.") from None


def check_str_list(name: str, value: Any, what: str) -> tuple[str, ...]:
    """Return an iterable of strings as a tuple; raise BadInput for anything else, including a single string."""
    parts = () if isinstance(value, str) else check_iterable(name, value, what)
    if isinstance(value, str) or not all(isinstance(part, str) for part in parts):
        raise BadInput(f"{name} is {shortened_repr(value)}; it must be {what}.")
    return tuple(parts)


def check_iterable(name: str, value: Any, what: str) -> list[Any]:
    """Return an iterable as a list; raise BadInput if `value` is not iterable."""
    try:
        return list(value)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        raise BadInput(f"{name} is {shortened_repr(value)}; it must be {what}.") from None


def check_callable(name: str, value: Any) -> Callable[..., Any] | None:
    """Return `value`; raise BadInput if it is neither callable nor None."""
    if value is not None and not callable(value):
        raise BadInput(f"{name} is {shortened_repr(value)}; it must be a function.")
    return value


def check_dtype(value: Any) -> str:
    """Return the name of a dtype; raise BadInput if it is not float32 or float64."""
    try:
        dtype_name = np.dtype(value).name
    except (TypeError, ValueError):
        dtype_name = ""
    if value is None or dtype_name not in ("float32", "float64"):
        raise BadInput(f"dtype is {dtype_name or shortened_repr(value)}; it must be float32 or float64.")
    return dtype_name


def check_choice(name: str, value: Any, choices: Mapping[str, _Choice]) -> _Choice:
    """Return the choice called `value`; raise BadInput if there is none."""
    if not isinstance(value, str) or value not in choices:
        near = suggest(value, choices) if isinstance(value, str) else ""
        raise BadInput(f"{name} is {shortened_repr(value)}; it must be one of {', '.join(map(repr, choices))}.{near}")
    return choices[value]


def shortened_repr(value: Any) -> str:
    """Return the repr of a value for an error message, cut short if it is long."""
    try:
        text = repr(value)
    except Exception:  # a broken repr must not hide the error message
        text = f"some {type(value).__name__}"
    return text if len(text) <= _MAX_REPR_CHARS else f"{text[:_MAX_REPR_CHARS]}…"


def suggest(name: str, choices: Iterable[str]) -> str:
    """Return a suggestion to append to an error message about an unknown name; "" if no choice is similar.

    >>> suggest("bnak", ["bank", "marginal"])
    ' Did you mean bank?'
    """
    from difflib import get_close_matches

    as_written = {choice.lower(): choice for choice in choices}
    near = get_close_matches(name.lower(), as_written, n=1)
    return f" Did you mean {as_written[near[0]]}?" if near else ""
