"""Rules that infer the role of each column, with thresholds measured on some twenty tables.

    numbers, at most `bins` values    values: an indicator for each; also a slope, if there are more than two values
                                      and none of them has half of the rows, or if it is a month or a day of the month
                                      that has one value so far
    numbers, more values              bins; also, for integers that mostly repeat, an indicator for each value
                                      (whole), for others a slope unless one value has half of the rows; and an
                                      indicator for each integer beside both (whole) where the label differs by value
    dates and times                   date: the hour, weekday, month, and the hour of weekends and of other days, each
                                      unless it is constant (hours) or another column determines it
    true and false                    flag
    more than WORDS words per cell    text: its words; also cells that all differ and have more than SOME_WORDS words
    anything else                     category
    nearly as many values as rows     id: no features; of numbers, only integers that only rise or only fall

With bins=0 numbers are numeric, scaled. A column has the kind of a fraction MIN_KIND_FRACTION of its nonmissing cells;
the others count as missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayou.core.errors import BadInput
from bayou.core.spelling import option
from bayou.recipe.recipe import Column, Recipe
from bayou.sources.table.binning import centre_and_scale, knots_and_levels, quantile_edges, raw_knots_and_levels
from bayou.sources.table.column_summary import ColumnSummary, is_id, labels_by_row, only_moves_one_way
from bayou.sources.table.column_warnings import Doubt, column_warnings
from bayou.sources.table.dates import HOURS, MONTH, PARTS, WEEKEND_HOUR, parts_of
from bayou.sources.table.value_evidence import MAX_BIN_EVIDENCE, MIN_VALUE_EVIDENCE, value_evidence

# With more words per cell than this, on average, hardly two cells are equal, but words repeat.
WORDS = 5
# Where nearly every cell is different, more words than this are enough: a title, a query.
SOME_WORDS = 2.5
# A value that occurs this often repeats; if more than half of the rows have such values, each value gets an indicator.
REPEATED = 20
# A part of a date is redundant if a column predicts it in a fraction TOLD of the rows, with at most half the errors of
# always predicting its most common value. The column must have TELLING values, each OFTEN rows on average.
TELLING, OFTEN, TOLD = (2, 200), 10, 0.9
# Integers are Unix seconds (or milliseconds) if the column's name says so and all lie between 1990 and 2100.
_UNIX = re.compile(r"unix|epoch|timestamp", re.IGNORECASE)
_BETWEEN = 6.3e8, 4.1e9
# Largest value of a day of the month and of a month, by what the column's name says. Where such a column has one value
# so far, a slope around it tells later months apart from the first: indicators are new then, and say nothing.
_CALENDAR = {
    31: re.compile(r"(?<![a-z])(day|mday|day_?of_?(the_?)?month)(?![a-z])", re.IGNORECASE),
    12: re.compile(r"(?<![a-z])mo?nth(?![a-z])", re.IGNORECASE),
}
# Columns with more values than this, in all rows to come, get no indicator for each.
MAX_VALUES = 1 << 16
# A row's value must occur this often, on average over the rows, unless the label does not follow the number: values of
# quantities nearly never come again, and an indicator for each would be learned from a row or two.
MIN_REPEATS = 1.5
# If that alone is the evidence, this many rows must show it, and values must occur this often.
MIN_FLAT_ROWS, MIN_FLAT_REPEATS = 1000, 2.5
# Integers up to here are exact in float64.
_EXACT = 2.0**53


def columns_for(recipe: Recipe, summaries: Mapping[str, ColumnSummary], usual: Mapping[str, str]) -> tuple[Column, ...]:
    """Return the columns of a table with their roles; `usual` holds default roles of a known layout, by column."""
    asked = _requested_roles(recipe, summaries)
    crossed = {name for pair in recipe.cross for name in pair}
    labels = labels_by_row(recipe, summaries)
    warnings = column_warnings(recipe, summaries, labels)
    columns = []
    for name, summary in summaries.items():
        role = asked.get(name, usual.get(name))
        decided = role or _role(name, summary, recipe, keep=name in crossed)
        if decided in ("bins", "whole") and not recipe.bins:
            decided = "numeric"
        fitted = _fitted(name, decided, summary, recipe, role is None)
        by_value = _why_by_value(summary, labels, fitted["edges"]) if role is None and decided == "bins" else ""
        decided = "whole" if by_value else decided
        why = "; ".join(filter(None, ["as asked" if name in asked else "", _role_reason(decided, summary), by_value]))
        shown: dict[str, Any] = {"why": why, "examples": [value for value in summary.values if value != "..."]}
        doubts = sorted([*warnings.get(name, []), *_may_be_date(decided, summary)], reverse=True)
        shown |= {"remark": "; ".join(text for _, text in doubts), "doubt": max(doubts, default=(0.0, ""))[0]}
        shown["missing"] = summary.missing / max(summary.rows, 1)
        columns.append(Column(name, decided, **fitted, **shown))
    return tuple(_dated(column, columns, summaries) if column.role == "date" else column for column in columns)


def _requested_roles(recipe: Recipe, summaries: Mapping[str, ColumnSummary]) -> dict[str, str]:
    """Return the roles that the recipe's options set, by column."""
    roles = dict.fromkeys(recipe.ignore, "ignored") | dict.fromkeys(recipe.text, "text")
    roles |= dict.fromkeys(recipe.numeric, "numeric") | dict.fromkeys(recipe.date, "date")
    for name in recipe.category:
        summary = summaries[name]
        typed = {"number": "category" if summary.as_written else "code", "flag": "flag"}
        roles[name] = typed.get(summary.kind, "category")
    roles |= {name: role for name, role in ((recipe.weight, "weight"), (recipe.label, "label")) if name is not None}
    return roles


def _role(name: str, summary: ColumnSummary, recipe: Recipe, keep: bool) -> str:
    """Return the inferred role of a column; with `keep` it is never "id"."""
    if summary.kind == "number":
        if _UNIX.search(name) and _like_unix(summary):  # before the test for ids: times in a log rise like row numbers
            return "date"
        if not keep and summary.whole and is_id(summary) and only_moves_one_way(summary):
            return "id"
        return _role_of_number(summary, recipe.bins)
    if summary.kind in ("date", "flag"):
        return summary.kind
    alone = is_id(summary) and not summary.lists and not keep
    if summary.words > (SOME_WORDS if alone else WORDS):
        return "text"
    return "id" if alone else "category"


def _like_unix(summary: ColumnSummary) -> bool:
    """Return whether all numbers of a column may be seconds, or milliseconds, since 1970."""
    if not summary.whole:
        return False
    low, high = float(summary.numbers.min()), float(summary.numbers.max())
    return any(_BETWEEN[0] * unit <= low and high <= _BETWEEN[1] * unit for unit in (1, 1000))


def _may_be_date(role: str, summary: ColumnSummary) -> list[Doubt]:
    """Return the warning for a column that is left out as an id but may hold times."""
    if role != "id" or not _like_unix(summary):
        return []
    what = "it is excluded as an id, but may be seconds or milliseconds since 1970"
    return [(0.6, f"{what}; {option('date')} treats it as points in time")]


def _why_by_value(summary: ColumnSummary, labels: np.ndarray, edges: Sequence[float]) -> str:
    """Return why each value of a column of numbers gets an indicator besides its bin; an empty text if it does not.

    Values must recur: there may be at most MAX_VALUES in all, as estimated (by Chao) from how many came once and
    twice.
    """
    if not summary.whole or is_id(summary) or summary.by_row is None or not len(labels):
        return ""
    _, once, twice = np.bincount(summary.counts, minlength=3)[:3]
    if summary.distinct + once**2 / (2 * max(twice, 1)) > MAX_VALUES:
        return ""
    evidence = value_evidence(summary.by_row, labels, edges)
    repeats, flat = np.square(summary.counts).sum() / summary.n_present, evidence.by_bin < MAX_BIN_EVIDENCE
    if evidence.by_value >= MIN_VALUE_EVIDENCE and (flat or repeats >= MIN_REPEATS):
        return "the label differs by value: values besides bins"
    if flat and repeats >= MIN_FLAT_REPEATS and evidence.rows >= MIN_FLAT_ROWS:
        return "the label does not follow the number: values besides bins"
    return ""


def _role_of_number(summary: ColumnSummary, bins: int) -> str:
    if not bins:
        return "numeric"
    if summary.distinct <= bins:
        return "code" if np.abs(summary.numbers).max() >= _EXACT else "values"
    often = summary.counts[summary.counts >= REPEATED].sum()
    return "whole" if summary.whole and 2 * often > summary.counts.sum() else "bins"


def _fitted(name: str, role: str, summary: ColumnSummary, recipe: Recipe, slope: bool) -> dict[str, Any]:
    """Return the fields of a `Column` that are fitted to its numbers: edges, knots and levels, or center and scale."""
    fitted: dict[str, Any] = {}
    if role in ("bins", "whole"):
        fitted["edges"] = quantile_edges(summary.numbers, recipe.bins)
    if slope and summary.distinct > 2 and 2 * summary.counts.max() < summary.counts.sum():
        knots, levels = knots_and_levels(summary.numbers) if role in ("bins", "values") else ((), ())
        fitted |= {"knots": knots, "levels": levels}
        if role in ("bins", "whole") and recipe.slope == "raw":
            fitted["raw_knots"], fitted["raw_levels"] = raw_knots_and_levels(summary.numbers, knots, levels)
    if role == "values" and slope and summary.distinct == 1 and summary.whole:
        value = float(summary.numbers[0])
        for most in [most for most, called in _CALENDAR.items() if called.search(name) and 1 <= value <= most][:1]:
            fitted["knots"], fitted["levels"] = (value - most, value + most), (0.0, 1.0)
    if role == "numeric":
        if summary.odd is not None and not len(summary.numerals):
            raise BadInput(
                f"column {name!r} cannot be numeric: it holds {summary.odd!r}, which is not a number. "
                f"Remove it from {option('numeric')}, or fix the data."
            )
        fitted["centre"], fitted["scale"] = centre_and_scale(summary.numerals)
    if role == "date" and summary.kind in ("flag", "text") and not summary.dates:
        raise BadInput(
            f"column {name!r} cannot be a date: it holds {summary.odd!r}; expected dates such as 2013-01-31, with or "
            f"without a time such as 10:30. Remove it from {option('date')}, or fix the data."
        )
    return fitted


def _role_reason(role: str, summary: ColumnSummary) -> str:
    """Return a short description of a column's values that explains its role."""
    different = f"{summary.distinct:,} different"
    if role in ("label", "weight", "ignored"):
        return ""
    if summary.kind == "nothing":
        return "nothing but missing values so far"
    if role == "id":
        rises = ", which only rise or only fall" if summary.kind == "number" else ""
        return f"{different} values in {summary.n_present:,} rows{rises}; {option('category')} uses it anyway"
    kind = {"number": "numbers", "date": "dates", "flag": "true and false"}.get(summary.kind, "texts")
    kind = "whole numbers" if summary.whole else kind
    reason = (
        f"texts of {summary.words:.0f} words" if role == "text" else kind if role == "flag" else f"{kind}, {different}"
    )
    if summary.n_others:
        some = ", ".join(map(repr, summary.others))
        reason += f"; {summary.n_others:,} cells are not ({some}) and count as missing"
    elif summary.kind == "text" and 0.5 < summary.number_share < 1 and role == "category":
        reason += f"; {summary.number_share:.0%} are numbers, and {option('numeric')} treats it as numeric"
    return reason


# --- dates -----------------------------------------------------------------------------------------------------------


def _dated(column: Column, columns: list[Column], summaries: Mapping[str, ColumnSummary]) -> Column:
    """Return a date column with the parts that vary and that no other column determines."""
    summary = summaries[column.name]
    if summary.by_row is None:  # mostly not dates, but requested: nothing to infer the parts from
        return replace(column, parts=tuple(PARTS))
    others = [
        (other.name, summaries[other.name])
        for other in columns
        if other.name != column.name and other.role not in ("label", "weight", "ignored", "id", "date")
    ]
    parts, reasons = [], []
    for part, name in enumerate(PARTS):
        values = np.empty(summary.rows, np.int64)
        parts_of(part, summary.by_row, summary.kind != "number", values)
        there = values >= 0
        still = not there.any() or values[there].min() == values[there].max()
        if part in (HOURS, WEEKEND_HOUR) and (still or len(np.unique(values[there] % 24)) < 2):
            continue
        teller = next((other for other, its in others if _is_date_part_implied(its, part, values, still)), None)
        if teller is None:
            parts.append(name)
        else:
            reasons.append(f"{name} is told by column {teller!r}")
    return replace(column, parts=tuple(parts), why="; ".join([column.why, *reasons]))


def _is_date_part_implied(summary: ColumnSummary, part: int, values: np.ndarray, still: bool) -> bool:
    """Return whether a column determines a part of a date.

    A constant part (`still`) is determined by a numeric column that is constant with the same value.
    """
    there = values >= 0
    if still:
        if part not in (HOURS, MONTH) or summary.kind != "number" or summary.distinct != 1 or not there.any():
            return False
        return float(summary.numbers[0]) == float(values[there][0] + (part == MONTH))
    few = TELLING[0] <= summary.distinct <= TELLING[1] and OFTEN * summary.distinct <= len(values)
    if summary.which is None or not few:
        return False
    pairs = np.zeros((summary.distinct + 1, int(values.max()) + 1), np.int64)
    np.add.at(pairs, (summary.which[there], values[there]), 1)
    rows, predicted, guessed = pairs.sum(), pairs.max(axis=1).sum(), pairs.sum(axis=0).max()
    return bool(predicted >= TOLD * rows and rows - predicted <= (rows - guessed) / 2)
