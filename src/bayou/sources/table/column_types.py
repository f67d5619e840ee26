"""What a table's columns are: decided once, from its first FIT_ROWS rows, and then part of the recipe.

A column that no option names is taken for what it looks like. In text (CSV, TSV) cells are judged by how they are
written; where values have types (Parquet, Arrow, JSON) a text is never taken for a number.

    all whole numbers              whole: its quantile bin, and its exact value
    all numbers                    bins (with bins=0: numeric, and so are whole numbers)
    all true or false              flag
    more than WORDS words a cell   text: its words
    anything else                  category

Cells that are empty, or say that they are (`MISSING`), count for nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bayou.core.checks import did_you_mean
from bayou.core.errors import BadInput
from bayou.core.recipe import Column, Recipe
from bayou.sources.labels import Labels, Tell, decide

# How tables write that a number is not there. Category columns take them as they stand: NA is also Namibia.
MISSING = ("NA", "na", "N/A", "n/a", "NaN", "nan", "NAN", "null", "NULL", "Null", "None", "none", "NONE", "?", "\\N")
# A label's column, if none is named and there is one called so.
LABELS = ("label", "target", "y")
# With more words than this in a cell, on average, no two cells will be equal, but their words will.
WORDS = 5

_FEATURES = ("category", "flag", "code", "bins", "whole", "numeric", "text")


@dataclass
class ColumnSummary:
    """What the first rows showed of a column.

    Attributes:
        kind: "number", "flag", "text", or "nothing" if all cells are empty.
        numbers: those that are there, if all are numbers.
        words: the mean number of words in a cell that is not empty, if it is text.
        values: how often each value comes, as text, if it may be the label.
        odd: the first value that is not a number, if there is one.
    """

    kind: str = "nothing"
    numbers: np.ndarray = field(default_factory=lambda: np.empty(0))
    words: float = 0.0
    values: Mapping[str, int] = field(default_factory=dict)
    odd: str | None = None
    as_written: bool = False  # numbers that stand there as text, so that 007 can be told from 7

    @property
    def whole(self) -> bool:
        return self.kind == "number" and bool((self.numbers == np.floor(self.numbers)).all())


def fit(
    recipe: Recipe,
    summaries: Mapping[str, ColumnSummary],
    *,
    usual: Mapping[str, str] | None = None,
    labels: bool = True,
    tell: Tell | None = None,
) -> Recipe:
    """The recipe with its columns decided.

    Args:
        recipe: what was asked for.
        summaries: what the first rows showed of each column, in the table's order.
        usual: roles that the columns of a known layout have unless an option names them.
        labels: whether a label is needed.
        tell: told what the label was found to be.
    """
    names = list(summaries)
    for option in ("label", "weight", "ignore", "numeric", "category", "text"):
        given = getattr(recipe, option)
        _check_known(option, (given,) if isinstance(given, str) else given or (), names)
    _check_known("cross", (name for pair in recipe.cross for name in pair if name != "*"), names)
    label = recipe.label or next((name for name in LABELS if name in summaries), None)
    if label is None and labels:
        raise BadInput(f"say with --label which column is to be predicted; the columns are {_listed(names)}.")
    if label is not None and labels:
        recipe = decide(recipe, Labels(summaries[label].values, f"the label, column {label!r},"), tell)
    roles = {**(usual or {}), **_asked(recipe, summaries), **({label: "label"} if label else {})}
    columns = tuple(_column(name, roles.get(name), summary, recipe.bins) for name, summary in summaries.items())
    fitted = replace(recipe, label=label, columns=columns)
    crosses(fitted)
    return fitted


def _asked(recipe: Recipe, summaries: Mapping[str, ColumnSummary]) -> dict[str, str]:
    """The roles that the recipe's options give."""
    roles = dict.fromkeys(recipe.ignore, "ignored") | dict.fromkeys(recipe.text, "text")
    roles |= dict.fromkeys(recipe.numeric, "numeric")
    for name in recipe.category:
        summary = summaries[name]
        typed = {"number": "category" if summary.as_written else "code", "flag": "flag"}
        roles[name] = typed.get(summary.kind, "category")
    if recipe.weight is not None:
        roles[recipe.weight] = "weight"
    return roles


def _column(name: str, role: str | None, summary: ColumnSummary, bins: int) -> Column:
    if role is None:
        if summary.kind == "number":
            role = "numeric" if not bins else "whole" if summary.whole else "bins"
        elif summary.kind == "flag":
            role = "flag"
        else:
            role = "text" if summary.words > WORDS else "category"
    if role in ("bins", "whole") and not bins:
        role = "numeric"
    if role in ("bins", "whole"):
        return Column(name, role, edges=quantile_edges(summary.numbers, bins))
    if role == "numeric":
        if summary.odd is not None:
            raise BadInput(
                f"column {name!r} cannot be numeric: it holds {summary.odd!r}, which is not a number. "
                "Leave it out of --numeric, or mend the data."
            )
        centre, scale = centre_and_scale(summary.numbers)
        return Column(name, role, centre=centre, scale=scale)
    return Column(name, role)


def _check_known(option: str, given: Iterable[str], names: Sequence[str]) -> None:
    for name in given:
        if name not in names:
            raise BadInput(
                f"{option} names the column {name!r}, which is not there; the columns are {_listed(names)}."
                + did_you_mean(name, names)
            )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(str, names)) if names else "none"


def crosses(recipe: Recipe) -> list[tuple[int, int]]:
    """The pairs of columns (their numbers in the recipe) that are crossed, each pair once, "*" written out.

    "*" stands for every other column that gives features.
    """
    columns = recipe.columns or ()
    places = {column.name: k for k, column in enumerate(columns)}
    features = [k for k, column in enumerate(columns) if column.role in _FEATURES]
    pairs: dict[frozenset[int], tuple[int, int]] = {}
    for pair in recipe.cross:
        if pair[0] == pair[1] != "*":
            raise BadInput(f"cross pairs the column {pair[0]!r} with itself; name two different columns.")
        for name in pair:
            if name != "*" and (name not in places or places[name] not in features):
                role = columns[places[name]].role if name in places else "not there"
                raise BadInput(f"cross names the column {name!r}, which gives no features: it is {role}.")
        left, right = (features if name == "*" else [places[name]] for name in pair)
        for a in left:
            for b in right:
                if a != b:
                    pairs.setdefault(frozenset((a, b)), (a, b))
    return list(pairs.values())


def quantile_edges(numbers: np.ndarray, bins: int) -> tuple[float, ...]:
    """Where to cut numbers into at most `bins` parts that hold about equally many.

    Few values have a bin each. A value so frequent that it fills a bin gets one of its own, and the other bins share
    the rest: of a column that is mostly 0 the numbers above 0 are still told apart. An edge is the smallest number of
    the bin above it.

    >>> quantile_edges(np.array([0, 0, 0, 0, 0, 0, 1, 2, 3, 4]), 3)
    (1.0, 3.0)
    """
    values, counts = np.unique(numbers, return_counts=True)
    if len(values) <= bins:
        return tuple(values[1:].tolist())
    ends = np.cumsum(counts)  # how many numbers are at most each value
    edges: list[float] = []
    first = done = 0
    for left in range(bins, 1, -1):
        if first + 1 >= len(values):
            break
        goal = done + (len(numbers) - done) / left
        last = int(np.searchsorted(ends, goal))  # the last value of this bin, or the one before
        if last > first and goal - ends[last - 1] < ends[last] - goal:
            last -= 1
        if last + 1 >= len(values):
            break
        edges.append(float(values[last + 1]))
        first, done = last + 1, int(ends[last])
    return tuple(edges)


def centre_and_scale(numbers: np.ndarray) -> tuple[float, float]:
    """The middle of some numbers and how far from it two thirds of them lie. A few outliers change neither.

    >>> centre_and_scale(np.append(np.arange(100), 1e9))
    (50.0, 34.0)
    """
    if not len(numbers):
        return 0.0, 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        low, centre, high = np.quantile(numbers, [0.16, 0.5, 0.84])
        for scale in ((high - low) / 2, np.std(numbers), abs(centre)):
            if np.isfinite(scale) and scale > 0:
                return float(centre), float(scale)
    return float(centre), 1.0
