"""Column roles of a table, inferred once from its first FIT_ROWS rows and then stored in the recipe.

The role of a column that no option names is inferred from its values (`column_roles`). In text formats (CSV, TSV)
cells are classified by their spelling; in typed formats (Parquet, Arrow, JSON) a string is never treated as a number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bayou.core.checks import suggest
from bayou.core.errors import BadInput
from bayou.core.spelling import option
from bayou.recipe.crosses import check_column_crosses
from bayou.recipe.labels import LabelCounts, Tell, choose_task
from bayou.recipe.recipe import NAMING, Recipe
from bayou.sources.table.column_roles import columns_for
from bayou.sources.table.column_summary import ColumnSummary

# Default names of the label column, in order of preference.
LABELS = ("label", "target", "y")


def fit(
    recipe: Recipe,
    summaries: Mapping[str, ColumnSummary],
    *,
    usual: Mapping[str, str] | None = None,
    labels: bool = True,
    tell: Tell | None = None,
) -> Recipe:
    """Return the recipe with the roles of its columns decided.

    Args:
        recipe: the requested recipe.
        summaries: a summary of the first rows of each column, in the table's order.
        usual: default roles for the columns of a known layout; options override them.
        labels: whether a label is needed.
        tell: called with a note on how the label was interpreted.
    """
    names = list(summaries)
    for naming in NAMING:
        given = getattr(recipe, naming)
        _check_known(naming, (given,) if isinstance(given, str) else given or (), names)
    _check_known("cross", (name for pair in recipe.cross for name in pair if name != "*"), names)
    label = recipe.label or next((name for name in LABELS if name in summaries), None)
    if label is None and labels:
        raise BadInput(f"specify the column to predict with {option('label')}; the columns are {_listed(names)}.")
    decided = recipe = replace(recipe, label=label)
    if label is not None:
        with contextlib.nullcontext() if labels else contextlib.suppress(BadInput):
            named = LabelCounts(summaries[label].by_text(), f"the label, column {label!r},")
            decided = choose_task(recipe, named, tell if labels else None)
    fitted = replace(decided if labels else recipe, columns=columns_for(decided, summaries, usual or {}))
    check_column_crosses(fitted)
    return fitted


def _check_known(naming: str, given: Iterable[str], names: Sequence[str]) -> None:
    for name in given:
        if name not in names:
            raise BadInput(
                f"{naming} names the column {name!r}, which does not exist; the columns are {_listed(names)}."
                + suggest(name, names)
            )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(str, names)) if names else "none"
