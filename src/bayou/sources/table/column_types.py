"""What a table's columns are: decided once, from its first FIT_ROWS rows, and then part of the recipe.

A column that no option names is taken for what it looks like (`deciding`). In text (CSV, TSV) cells are judged by how
they are written; where values have types (Parquet, Arrow, JSON) a text is never taken for a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from bayou.core.checks import did_you_mean
from bayou.core.errors import BadInput
from bayou.core.recipe import NAMING, Recipe
from bayou.sources.labels import FEW, SHARE
from bayou.sources.table.deciding import columns_for
from bayou.sources.table.summary import ColumnSummary

# A label's column, if none is named and there is one called so.
LABELS = ("label", "target", "y")

_FEATURES = ("category", "flag", "code", "bins", "whole", "values", "numeric", "date", "text")


def fit(
    recipe: Recipe,
    summaries: Mapping[str, ColumnSummary],
    *,
    usual: Mapping[str, str] | None = None,
    labels: bool = True,
) -> Recipe:
    """The recipe with its columns decided.

    Args:
        recipe: what was asked for.
        summaries: what the first rows showed of each column, in the table's order.
        usual: roles that the columns of a known layout have unless an option names them.
        labels: whether a label is needed.
    """
    names = list(summaries)
    for option in NAMING:
        given = getattr(recipe, option)
        _check_known(option, (given,) if isinstance(given, str) else given or (), names)
    _check_known("cross", (name for pair in recipe.cross for name in pair if name != "*"), names)
    label = recipe.label or next((name for name in LABELS if name in summaries), None)
    if label is None and labels:
        raise BadInput(f"say with --label which column is to be predicted; the columns are {_listed(names)}.")
    if label is not None and labels:
        _check_label(recipe, label, summaries[label])
    fitted = replace(recipe, label=label, columns=columns_for(replace(recipe, label=label), summaries, usual or {}))
    crosses(fitted)
    return fitted


def _check_known(option: str, given: Iterable[str], names: Sequence[str]) -> None:
    for name in given:
        if name not in names:
            raise BadInput(
                f"{option} names the column {name!r}, which is not there; the columns are {_listed(names)}."
                + did_you_mean(name, names)
            )


def _check_label(recipe: Recipe, name: str, summary: ColumnSummary) -> None:
    if recipe.numbers and (summary.kind == "flag" or summary.strange > 0.5):
        raise BadInput(f"the label, column {name!r}, holds {summary.odd!r}, but what is to be predicted are numbers.")
    if recipe.positive is None and summary.strange > 0.5:  # a few such cells are bad rows
        raise BadInput(
            f"the label, column {name!r}, is text ({_listed(summary.values)}); say which is positive with --positive."
        )
    classes = not (recipe.numbers or recipe.positive is not None or recipe.label_above is not None)
    others = np.count_nonzero(~np.isin(summary.numbers, (1, 0, -1))) if classes else 0
    if others > max(FEW, SHARE * len(summary.numbers)):
        raise BadInput(
            f"the label, column {name!r}, holds {_listed(summary.values)}; 1 is positive and 0 or -1 is not, so say "
            "with --positive or --label-above which others are. To predict the number itself, train with --learner "
            "gaussian."
        )
    if recipe.label_above is not None and summary.kind == "flag":
        raise BadInput(f"--label-above needs numbers, but the label, column {name!r}, holds {summary.odd!r}.")


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
