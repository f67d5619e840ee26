"""Checks of parameters: each gives back what it was given, in the right type, or a sentence that names it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from bayou.core.errors import BadInput

_Choice = TypeVar("_Choice")


def whole_number(name: str, value: Any, low: int, high: int = 2**63 - 1) -> int:
    """A whole number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        upper = f" to {high}" if high < 2**63 - 1 else " on"
        raise BadInput(f"{name} is {value!r}; it must be a whole number from {low}{upper}.")
    return int(value)


def positive_number(name: str, value: Any, zero: bool = False, high: float = math.inf) -> float:
    """A finite number > 0 (or >= 0), at most `high`."""
    number = float(value) if isinstance(value, int | float | np.number) else math.nan
    if not (math.isfinite(number) and (number > 0 or (zero and number == 0)) and number <= high):
        upper = f" and at most {high:g}" if high < math.inf else ""
        raise BadInput(f"{name} is {value!r}; it must be a number {'>=' if zero else '>'} 0{upper}.")
    return number


def yes_or_no(name: str, value: Any) -> bool:
    """True or False, and nothing that merely counts as such."""
    if not isinstance(value, bool | np.bool_):
        raise BadInput(f"{name} is {value!r}; it must be True or False.")
    return bool(value)


def one_of(name: str, value: Any, choices: Mapping[str, _Choice]) -> _Choice:
    """One of some words; what it stands for."""
    if not isinstance(value, str) or value not in choices:
        near = did_you_mean(str(value), choices)
        raise BadInput(f"{name} is {value!r}; it must be one of {', '.join(map(repr, choices))}.{near}")
    return choices[value]


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """A question to put behind a sentence that refuses a name; nothing, where no choice is near it.

    >>> did_you_mean("bnak", ["bank", "marginal"])
    ' Did you mean bank?'
    """
    from difflib import get_close_matches

    as_written = {choice.lower(): choice for choice in choices}
    near = get_close_matches(name.lower(), as_written, n=1)
    return f" Did you mean {as_written[near[0]]}?" if near else ""
