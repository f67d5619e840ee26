"""Warnings about suspicious columns, from the first rows of a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from bayou.core.spelling import option
from bayou.recipe.recipe import Recipe
from bayou.sources.table.cell_format import missing_numbers
from bayou.sources.table.column_summary import ColumnSummary, is_id, only_moves_one_way

# A column with an AUC above LEAK, over at least EACH rows of each class, probably leaks the label. Where the AUC is
# computed from the label's rate per value, each value must occur OFTEN times on average.
LEAK, EACH, OFTEN = 0.999, 20, 10
# Labels come in runs if chance would give RUNS times as many, or RUNS times the squared differences of neighbors, if
# they are numbers. Other doubts: a fraction CODES of a column's cells is no
# number; more than FEW values come in blocks; all but a fraction STILL of the cells are alike.
RUNS, CODES, FEW, STILL = 5, 0.02, 20, 0.99
# The start of a warning that `train` gives more precisely at its end, for two classes.
LABEL_IN_RUNS = "the label comes in runs"
# A warning, after how doubtful it makes the column, from 0 to 1.
Doubt = tuple[float, str]


def column_warnings(
    recipe: Recipe, summaries: Mapping[str, ColumnSummary], labels: np.ndarray
) -> dict[str, list[Doubt]]:
    """Return the warnings on columns, by column; the recipe must have the name of the label's column."""
    binary = recipe.label_above is not None or summaries.get(recipe.label or "", ColumnSummary()).distinct == 2
    positive = labels[0] if binary and len(labels) else np.empty(0)
    warnings = _warnings_on_marks(recipe, summaries)
    for name, summary in summaries.items():
        if name == recipe.label:
            warnings[name] += _doubts_on_label(summary)
        elif name not in (*recipe.ignore, recipe.weight):
            warnings[name] += _doubts(summary, positive)
    return warnings


def _warnings_on_marks(recipe: Recipe, summaries: Mapping[str, ColumnSummary]) -> defaultdict[str, list[Doubt]]:
    """Return warnings, by column, on marks of `missing` that look like several joined by commas.

    "-999,none" is one mark; it was probably meant as two if it does not occur in the first rows, but its parts do.
    """
    warnings: defaultdict[str, list[Doubt]] = defaultdict(list)
    joined = {mark: [part for part in map(str.strip, mark.split(",")) if part] for mark in recipe.missing}
    joined = {mark: parts for mark, parts in joined.items() if "," in mark}
    if not joined:
        return warnings
    gaps = {text.lower() for summary in summaries.values() for text in summary.gaps()}
    for name, summary in summaries.items():
        texts = {text.lower() for text in summary.by_text()}
        for mark, parts in joined.items():
            came = [part for part in parts if part.lower() in texts or _occurs(part, summary)]
            if came and mark.strip().lower() not in gaps and name not in recipe.ignore:
                what = (
                    f"{option('missing', mark)} does not occur in the first rows, but {' and '.join(came)} "
                    f"{'do' if len(came) > 1 else 'does'}; for several marks give {option('missing', list(parts))}"
                )
                warnings[name].append((0.7, what))
    return warnings


def _occurs(mark: str, summary: ColumnSummary) -> bool:
    """Return whether a mark is a number that occurs in the column, in any spelling."""
    return bool(np.isin(missing_numbers([mark]), summary.numbers).any())


def _doubts_on_label(summary: ColumnSummary) -> Iterator[Doubt]:
    """Yield the warnings on the label."""
    if is_id(summary) and (summary.kind == "text" or (summary.whole and only_moves_one_way(summary))):
        yield 0.9, f"{summary.distinct:,} different labels in {summary.n_present:,} rows: is it an id?"
        return
    if summary.distinct == 1:
        yield 0.9, "all labels are the same so far"
    by_chance = summary.n_present + 1 - float(np.square(summary.counts).sum()) / max(summary.n_present, 1)
    order = ""
    if summary.distinct > 1 and summary.n_present >= EACH * summary.distinct and RUNS * _runs(summary) < by_chance:
        order = f"{_runs(summary):,} runs of equal labels, {by_chance:,.0f} by chance"
    elif summary.distinct > FEW and summary.kind == "number":
        with np.errstate(all="ignore"):  # labels may be huge or tiny; they then show nothing
            ratio = np.square(np.diff(summary.numbers)).mean() / (2 * summary.numbers.var())
        if RUNS * ratio < 1:
            order = f"squared differences of neighbors are {ratio:.1%} of those by chance"
    if order:
        yield 0.8, f"{LABEL_IN_RUNS} ({order}): if the order of the rows means nothing, shuffle them"


def _doubts(summary: ColumnSummary, positive: np.ndarray) -> Iterator[Doubt]:
    """Yield the warnings on a column; `positive` has the labels of two classes, if there are two."""
    most = int(summary.counts.max(initial=0))
    if not summary.n_present:
        yield 0.1, "no value so far"
    elif summary.distinct == 1 and not summary.missing:
        yield 0.2, "it is constant so far"
    elif (auc := _auc_alone(summary, positive)) > LEAK:
        leak = f"it alone predicts the label (AUC {auc:.4f}): is it known before the label is?"
        yield 1.0, f"{leak} {option('ignore')} excludes it"
    if summary.kind == "number" and summary.n_others >= CODES * summary.n_present:
        some = ", ".join(map(repr, summary.others))
        codes = f"{summary.n_others / summary.n_present:.1%} of its cells are not numbers ({some})"
        yield 0.5, f"{codes}: are these codes? {option('category')} treats each value as a name"
    if (
        summary.distinct > FEW
        and summary.n_present > 2 * OFTEN * summary.distinct
        and _runs(summary) < 2 * summary.distinct
    ):
        blocks = f"its {summary.distinct:,} values come in blocks of {summary.n_present / _runs(summary):.0f} rows"
        yield 0.4, f"{blocks} (a subject, a session?): later rows may have others; {option('ignore')} excludes it"
    if summary.kind == "number" and 2 < summary.distinct and most >= STILL * summary.n_present:
        share = f"{summary.n_present - most:,} of {summary.n_present:,} cells differ from the others"
        yield 0.2, f"it is nearly constant: {share}; {option('ignore')} excludes it"


def _runs(summary: ColumnSummary) -> int:
    """Return the number of runs of equal values; the number of rows if there are more than FEW_VALUES values."""
    if summary.which is None:
        return summary.rows
    there = summary.which[summary.which > 0]
    return 1 + int(np.count_nonzero(np.diff(there)))


def _auc_alone(summary: ColumnSummary, positive: np.ndarray) -> float:
    """Return the AUC of a column alone: by the label's rate per value, if there are few values, or by its number.

    If there is nothing to compute it from, return 0.5.
    """
    labelled = ~np.isnan(positive)
    label = positive[labelled]
    if min(np.count_nonzero(label), np.count_nonzero(label == 0)) < EACH:
        return 0.5
    if summary.which is not None and OFTEN * (summary.distinct + 1) <= len(label):
        which = summary.which[labelled].astype(np.int64)
        rates = np.bincount(which, label) / np.maximum(np.bincount(which), 1)
        return _auc(rates[which], label)
    if summary.by_row is None:
        return 0.5
    there = ~np.isnan(summary.by_row[labelled])
    if not EACH <= np.count_nonzero(label[there]) <= np.count_nonzero(there) - EACH:
        return 0.5
    auc = _auc(summary.by_row[labelled][there], label[there])
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
