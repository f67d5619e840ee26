"""Options of runs: the data, the recipe options, and their help texts."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple, TypedDict, TypeVar, get_args, get_type_hints

from bayou.core.docstrings import descriptions
from bayou.core.durations import seconds_of
from bayou.core.errors import BadInput
from bayou.core.spelling import option

# Data that runs accept: a path or glob, or several; "-"; a table (pandas, polars, Arrow or any object with
# `__arrow_c_stream__`); or an iterable of tables, which are treated as parts of one.
Data = Any


class Help(NamedTuple):
    """Help of an option, shared by the command's help and the docstrings. {name} refers to another option.

    Attributes:
        text: one or two sentences.
        low, high: bounds of an integer option.
        python: form of each value in Python, where the command takes text.
    """

    text: str = ""
    low: int | None = None
    high: int | None = None
    python: str = ""


class RecipeOptions(TypedDict, total=False):
    """Options that determine how a row becomes an example, named as in `bayou.sources.Recipe`; all are optional.

    This is the only list of these options: the command's options and the docstring of `bayou.train` are built from it.

    Attributes:
        bits: 2^bits weights; 22 if not given.
        label: The column to predict.
        task: binary, multiclass or regression; if not given, the labels decide, and it is said how.
        positive: The label that counts as positive; all others are not.
        label_above: Labels above this number are positive.
        weight: The column with the examples' weights.
        ignore: Columns to leave out; of VW text, first letters of namespaces to leave out.
        numeric: Columns to take as numbers, scaled.
        category: Columns to take as names, numbers too.
        date: Columns of dates, points in time, or seconds since 1970.
        text: Columns to split into words, each word a feature. For titles, queries, reviews; cells of more than five
            words are split anyway.
        ngrams: Texts also give runs of up to so many words, such as free_entry.
        char_ngrams: Texts also give runs of so many characters of each word; for names.
        bins: Quantile bins for numbers; 20 if not given.
        slope: raw: columns of numbers also have a slope by the number itself, not only by its rank.
        missing: What else says that a value is not there, such as -999, besides NA, n/a, NaN, null, none, -, ? and
            unknown; several of them, if need be; "" clears the usual ones.
        decimal: point: numbers such as 1,400.5, $12 or 7%. comma: 1.400,5 or 12 €.
        cross: A,B: a weight for each pair of values of two columns or namespaces. For what matters only together, such
            as user,ad; A,* crosses A with all others, auto all with all; A,B,C crosses three.
        interactions: As Vowpal Wabbit has them: ab crosses all namespaces or columns whose names begin with a and with
            b; a colon is any letter.
        ranges: svmlight: a=1-10,b=11-500 makes namespaces of features, for {cross}, {pairs} and {interactions}; names
            may be left out.
        exact: Number features as they come instead of hashing them, so that no two share a weight. For data with at
            most 2^bits features; more are refused.
        hash_all: VW: hash names that are numbers, too.
        negative_rate: The share of negatives that was kept when the data were made, such as 0.1. Use it if most of them
            were thrown away: predictions are then those of the full data.
    """

    bits: Annotated[int | None, Help(low=1, high=31)]
    label: str | None
    task: str | None
    positive: str | None
    label_above: float | None
    weight: str | None
    ignore: Sequence[str] | None
    numeric: Sequence[str] | None
    category: Sequence[str] | None
    date: Sequence[str] | None
    text: Sequence[str] | None
    ngrams: Annotated[int | None, Help(low=1, high=8)]
    char_ngrams: Annotated[int | None, Help(low=1, high=8)]
    bins: Annotated[int | None, Help(low=0)]
    slope: str | None
    missing: Sequence[str] | None
    decimal: str | None
    cross: Annotated[Sequence[tuple[str, ...]] | None, Help(python='("user", "ad")')]
    interactions: Sequence[str] | None
    ranges: Annotated[Sequence[tuple[str, int, int]] | None, Help(python="(name, first, last)")]
    exact: bool | None
    hash_all: bool | None
    negative_rate: float | None


def recipe_options() -> dict[str, tuple[Any, Help]]:
    """Return the type and the help of each recipe option."""
    types, help_texts = get_type_hints(RecipeOptions, include_extras=True), descriptions(RecipeOptions)
    options: dict[str, tuple[Any, Help]] = {}
    for name, hint in types.items():
        kind, help_ = get_args(hint) if hasattr(hint, "__metadata__") else (hint, Help())
        options[name] = kind, help_._replace(text=help_texts.get(name, ""))
    return options


_Function = TypeVar("_Function", bound=Callable[..., Any])


def documented(function: _Function) -> _Function:
    """Replace {recipe} in a function's docstring with the help of the recipe options."""
    lines: list[str] = []
    for name, (_, entry) in recipe_options().items():
        text = re.sub(r"{(\w+)}", r"`\1`", entry.text) + (entry.python and f" In Python each is {entry.python}.")
        lines += textwrap.wrap(f"{name}: {text}", 120, initial_indent=" " * 8, subsequent_indent=" " * 12)
    function.__doc__ = function.__doc__ and function.__doc__.replace("        {recipe}", "\n".join(lines))
    return function


class Note(NamedTuple):
    """A message of a run; `--quiet` suppresses details."""

    text: str
    detail: bool = False


class RunOptions(RecipeOptions, total=False):
    """Options of every run that learns."""

    format: str  # file format; "auto" detects it from the name and the beginning of the data
    on_error: str  # "skip" and count bad lines, or "raise" BadInput at the first
    threads: int | None  # number of additional threads that read ahead
    on_note: Callable[[Note], Any] | None  # called with each message


_DEFAULTS: dict[str, Any] = {"format": "auto", "on_error": "skip", "threads": None, "on_note": None}


class ParsedOptions(NamedTuple):
    """Parsed options of a run: its own by name, those for opening the data, and those of the recipe."""

    own: Any
    opening: dict[str, Any]
    recipe: dict[str, Any]
    note: Callable[[Note], Any]


def options_of(options: Mapping[str, Any], **defaults: Any) -> ParsedOptions:
    """Parse the options of a run; `defaults` has the names and defaults of those that only this run has."""
    from bayou.core.checks import check_callable, suggest  # imports NumPy, which `bayou --help` avoids

    names = [*defaults, *_DEFAULTS, *RecipeOptions.__annotations__]
    for name in options:
        if name not in names:
            raise BadInput(f"there is no option {name!r}; there are: {', '.join(names)}.{suggest(name, names)}")
    opening = {**_DEFAULTS, **{name: value for name, value in options.items() if name in _DEFAULTS}}
    note = check_callable("on_note", opening.pop("on_note")) or (lambda note: None)
    recipe = {
        name: value for name, value in options.items() if name in RecipeOptions.__annotations__ and value is not None
    }
    own = SimpleNamespace(**defaults | {name: value for name, value in options.items() if name in defaults})
    return ParsedOptions(own, opening, recipe, note)


def names_of(data: Data) -> list[str]:
    """Return the file names as the caller gave them; an empty list for tables in memory."""
    if isinstance(data, str | os.PathLike):
        return [os.fspath(data)]
    if isinstance(data, list | tuple) and all(isinstance(name, str | os.PathLike) for name in data):
        return [os.fspath(name) for name in data]
    return []


def checkpoint_every(checkpoint: int | str | None) -> tuple[int | None, float | None]:
    """Return (examples, seconds) between checkpoints; at most one of them is not None."""
    if checkpoint is None:
        return None, None
    text = str(checkpoint).replace("_", "").replace(",", "")
    seconds = seconds_of(text)
    if seconds is not None and seconds < 1e18:
        return None, seconds
    if not re.fullmatch(r"\d+(?:\.\d+)?", text) or not 0 < float(text) < 1e18:
        raise BadInput(
            f"{option('checkpoint', checkpoint)}: expected a number of examples, or a time such as 90s or 10min."
        )
    return int(float(text)), None
