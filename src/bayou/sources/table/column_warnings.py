"""Warnings about suspicious columns, from the first rows of a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from bayou.core.spelling import option
from bayou.recipe.recipe import Recipe
from bayou.sources.table.cell_format import missing_numbers
from bayou.sources.table.column_summary import ColumnSummary, is_id, only_moves_one_way

# A column with an AUC above LEAK, over at least EACH rows of each class, probably leaks the label. Where the AUC is
# computed from the label's rate per value, each value must occur OFTEN times on average.
LEAK, EACH, OFTEN = 0.999, 20, 10


def column_warnings(recipe: Recipe, summaries: Mapping[str, ColumnSummary]) -> dict[str, str]:
    """Return the warnings on columns, by column; the recipe must have the name of the label's column."""
    positive = _positive(recipe, summaries)
    remarks = _remarks_on_marks(recipe, summaries)
    for name, summary in summaries.items():
        if name == recipe.label:
            remarks[name].append(_remark_on_label(summary))
        elif name not in (*recipe.ignore, recipe.weight):
            remarks[name].append(_remark(summary, positive))
    return {name: "; ".join(filter(None, said)) for name, said in remarks.items() if any(said)}


def _remarks_on_marks(recipe: Recipe, summaries: Mapping[str, ColumnSummary]) -> defaultdict[str, list[str]]:
    """Return warnings, by column, on marks of `missing` that look like several joined by commas.

    "-999,none" is one mark; it was probably meant as two if it does not occur in the first rows, but its parts do.
    """
    remarks: defaultdict[str, list[str]] = defaultdict(list)
    joined = {mark: [part for part in map(str.strip, mark.split(",")) if part] for mark in recipe.missing}
    joined = {mark: parts for mark, parts in joined.items() if "," in mark}
    if not joined:
        return remarks
    gaps = {text.lower() for summary in summaries.values() for text in summary.gaps()}
    for name, summary in summaries.items():
        texts = {text.lower() for text in summary.by_text()}
        for mark, parts in joined.items():
            came = [part for part in parts if part.lower() in texts or _occurs(part, summary)]
            if came and mark.strip().lower() not in gaps and name not in recipe.ignore:
                remarks[name].append(
                    f"{option('missing', mark)} does not occur in the first rows, but {' and '.join(came)} "
                    f"{'do' if len(came) > 1 else 'does'}; for several marks give {option('missing', list(parts))}"
                )
    return remarks


def _occurs(mark: str, summary: ColumnSummary) -> bool:
    """Return whether a mark is a number that occurs in the column, in any spelling."""
    return bool(np.isin(missing_numbers([mark]), summary.numbers).any())


def _remark_on_label(summary: ColumnSummary) -> str:
    if is_id(summary) and (summary.kind == "text" or (summary.whole and only_moves_one_way(summary))):
        return f"{summary.distinct:,} different labels in {summary.n_present:,} rows: is it an id?"
    return "all labels are the same so far" if summary.distinct == 1 else ""


def _remark(summary: ColumnSummary, positive: np.ndarray | None) -> str:
    if not summary.n_present:
        return "no value so far"
    if summary.distinct == 1 and not summary.missing:
        return "it stands still so far"
    if positive is not None and (auc := _auc_alone(summary, positive)) > LEAK:
        known = f"it tells the label alone (AUC {auc:.4f}): is it known before the label is?"
        return f"{known} {option('ignore')} leaves it out"
    return ""


def _positive(recipe: Recipe, summaries: Mapping[str, ColumnSummary]) -> np.ndarray | None:
    """Return 1, 0 or -1 for each row whose label is positive, negative or missing; None if the label is not binary.

    Of two labels, the larger number counts as positive, or for texts one of them. None also if a class has few rows.
    """
    label = summaries.get(recipe.label or "")
    if label is None:
        return None
    if recipe.label_above is not None and label.by_row is not None:
        found = np.where(np.isnan(label.by_row), -1, label.by_row > recipe.label_above)
    elif label.distinct == 2 and label.which is not None and recipe.label_above is None:
        found = label.which.astype(np.int64) - 1
    else:
        return None
    enough = min(np.count_nonzero(found == 0), np.count_nonzero(found == 1)) >= EACH
    return found if enough else None


def _auc_alone(summary: ColumnSummary, positive: np.ndarray) -> float:
    """Return the AUC of a column alone: by the label's rate per value, if there are few values, or by its number.

    If there is nothing to compute it from, return 0.5.
    """
    known = positive >= 0
    label = positive[known]
    if summary.which is not None and OFTEN * (summary.distinct + 1) <= len(label):
        which = summary.which[known].astype(np.int64)
        rates = np.bincount(which, label) / np.maximum(np.bincount(which), 1)
        return _auc(rates[which], label)
    if summary.by_row is None:
        return 0.5
    there = ~np.isnan(summary.by_row[known])
    if not EACH <= np.count_nonzero(label[there]) <= np.count_nonzero(there) - EACH:
        return 0.5
    auc = _auc(summary.by_row[known][there], label[there])
    return max(auc, 1.0 - auc)


def _auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Return the area under the ROC curve.

    >>> _auc(np.array([1.0, 2.0, 2.0, 3.0]), np.array([0, 0, 1, 1]))
    0.875
    """
    _, place = np.unique(scores, return_inverse=True)
    ones = np.bincount(place, positive)
    zeros = np.bincount(place) - ones
    below = np.cumsum(zeros) - zeros
    return float(ones @ (below + zeros / 2) / (ones.sum() * zeros.sum()))
