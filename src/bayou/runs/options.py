"""What runs can be told: data, and the options that make a recipe."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypedDict

from bayou.core.durations import seconds_of
from bayou.core.errors import BadInput

# Data as runs take them: a path or glob, several, "-"; a table (pandas, polars, Arrow, whatever has
# `__arrow_c_stream__`); or an iterable of tables, which are taken for the parts of one.
Data = Any


class RecipeOptions(TypedDict, total=False):
    """How a raw row becomes an example, by the names of `bayou.sources.Recipe`; what is not given has its default."""

    bits: int | None  # 2^bits weights
    label: str | None  # the column to predict
    task: str | None  # "binary", "multiclass", "regression"; or "auto", and the labels decide
    positive: str | None  # the label that counts as positive
    label_above: float | None  # labels above this number are positive
    weight: str | None  # the column with the examples' weights
    ignore: Sequence[str] | None  # columns to leave out; of VW text, first letters of namespaces
    numeric: Sequence[str] | None  # columns to take as numbers, scaled
    category: Sequence[str] | None  # columns to take as names, numbers too
    text: Sequence[str] | None  # columns to take as bags of words
    date: Sequence[str] | None  # columns of dates or points in time
    missing: Sequence[str] | None  # what else says that a value is not there; "" clears the usual marks
    decimal: str | None  # "point" or "comma": numbers with separators and signs of currency
    ngrams: int | None  # runs of up to so many words of texts
    char_ngrams: int | None  # runs of so many characters of their words
    bins: int | None  # quantile bins for numbers
    cross: Sequence[tuple[str, ...]] | None  # pairs of columns or namespaces, or three of them
    interactions: Sequence[str] | None  # the same by first letters, as Vowpal Wabbit has them: "ab", "::", "abc"
    ranges: Sequence[tuple[str, int, int]] | None  # svmlight: (name, first, last) of features that are a namespace
    exact: bool | None  # number features as they come; hash nothing
    hash_all: bool | None  # VW: hash names that are numbers, too
    negative_rate: float | None  # the share of negatives that were kept in the data


@dataclass(frozen=True)
class Note:
    """Something that a run has to say; a detail is what `--quiet` leaves out."""

    text: str
    detail: bool = False


class RunOptions(RecipeOptions, total=False):
    """What every run that learns can be told."""

    format: str  # of files; "auto" goes by the name and the beginning of the data
    on_error: str  # "skip" bad lines, counting them, or "raise" a sentence at the first
    threads: int | None  # how many other threads read ahead
    on_note: Callable[[Note], Any] | None  # called with each thing there is to say


_DEFAULTS: dict[str, Any] = {"format": "auto", "on_error": "skip", "threads": None, "on_note": None}


@dataclass(frozen=True)
class Given:
    """The options of a run: its own by name, those for opening the data, and those that make a recipe."""

    own: Any
    opening: dict[str, Any]
    recipe: dict[str, Any]
    note: Callable[[Note], Any]


def options_of(given: Mapping[str, Any], **own: Any) -> Given:
    """The options that were given; `own` has the names and defaults of those that this run has for itself."""
    from bayou.core.checks import did_you_mean, function  # which loads NumPy, and `bayou --help` does not

    known = [*own, *_DEFAULTS, *RecipeOptions.__annotations__]
    for name in given:
        if name not in known:
            raise BadInput(f"there is no option {name!r}; there are: {', '.join(known)}.{did_you_mean(name, known)}")
    opening = {**_DEFAULTS, **{name: value for name, value in given.items() if name in _DEFAULTS}}
    note = function("on_note", opening.pop("on_note")) or (lambda note: None)
    recipe = {
        name: value for name, value in given.items() if name in RecipeOptions.__annotations__ and value is not None
    }
    return Given(SimpleNamespace(**own | {n: v for n, v in given.items() if n in own}), opening, recipe, note)


def names_of(data: Data) -> list[str]:
    """The names of files as they were given; none of a table in memory."""
    if isinstance(data, str | os.PathLike):
        return [os.fspath(data)]
    if isinstance(data, list | tuple) and all(isinstance(name, str | os.PathLike) for name in data):
        return [os.fspath(name) for name in data]
    return []


def checkpoint_every(checkpoint: int | str | None) -> tuple[int | None, float | None]:
    """(examples, seconds) between checkpoints."""
    if checkpoint is None:
        return None, None
    text = str(checkpoint).replace("_", "").replace(",", "")
    seconds = seconds_of(text)
    if seconds is not None and seconds < 1e18:
        return None, seconds
    if not re.fullmatch(r"\d+(?:\.\d+)?", text) or not 0 < float(text) < 1e18:
        raise BadInput(
            f"--checkpoint is {checkpoint!r}; expected a number of examples, or a time such as 90s or 10min."
        )
    return int(float(text)), None
