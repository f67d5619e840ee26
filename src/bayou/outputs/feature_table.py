"""The table of feature strengths: its columns, order and length, for every interface that shows one.

`bayou features`, `bayou.features` and the server's /features call `feature_table`; the report draws the same strengths
(`outputs.features`). The intercept is a row before all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayou.core.checks import check_bool, check_choice, check_int, check_str, suggest
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.printable import printable, shorten
from bayou.outputs.class_features import ClassStrengths
from bayou.outputs.features import FeatureStrengths, feature_strengths, top_rows
from bayou.outputs.pair_features import has_pairs, pair_strengths
from bayou.outputs.plain_model import INTERCEPT, selected_features
from bayou.recipe.feature_counts import FeatureCounts

# Orders, and the quantity that each needs; views of the weights, as `Learner.weight_view` has them.
ORDERS = {"mean": "mean", "z": "sd", "inclusion": "inclusion", "column": "columns"}
VIEWS = {"model": "model", "associated": "associated"}
# The most features to list in all, and for each class; and the most classes.
MAX_FEATURES, MAX_FEATURES_PER_CLASS, MAX_CLASSES = 50, 5, 20


@dataclass(frozen=True)
class FeatureTable:
    """Rows of a table with a cell for each name of `header`; None for empty cells.

    Attributes:
        n_seen: number of features, or pairs, that the learner has seen; n_listed: number of them in the table.
        n_classes, n_listed_classes: the same for classes; 0 unless multiclass.
        strengths: the strengths behind the table; for multiclass those of the last class, None for pairs.
    """

    header: list[str]
    rows: list[list[Any]]
    n_seen: int
    n_listed: int
    strengths: FeatureStrengths | None = None
    n_classes: int = 0
    n_listed_classes: int = 0


def feature_table(
    learner: Learner,
    *,
    top: int | None = MAX_FEATURES,
    by: str = "mean",
    view: str = "model",
    per_class: int | None = MAX_FEATURES_PER_CLASS,
    class_name: str | None = None,
    max_classes: int | None = None,
    selected: bool = False,
    pairs: bool = False,
    index: bool = False,
) -> FeatureTable:
    """Return the strengths of the first features in some order.

    Args:
        learner: the model.
        top: number of features, or columns, to list; None for all.
        by: the order, one of `ORDERS`. "column" lists columns by spread, each with the features that contribute most.
        view: one of `VIEWS`.
        per_class: number of features to list for each class (multiclass without `class_name`).
        class_name: the only class to list (multiclass).
        max_classes: maximum number of classes to list, the most frequent ones; None for all.
        selected: list exactly the features that the model selected.
        pairs: list the feature pairs of a bank with pairs.
        index: add a column for the indices of features.

    >>> from bayou import Batch
    >>> from bayou.learners import Marginal
    >>> learner = Marginal(n_features=4)
    >>> p = learner.learn(Batch.from_rows([{2: 1.0}, {3: 1.0}], labels=[1, 0]))
    >>> table = feature_table(learner, top=1, index=True)
    >>> table.header, [row[:2] for row in table.rows], (table.n_listed, table.n_seen)
    (['feature', 'index', 'mean', 'sd'], [['(intercept)', None], ['3', 3]], (1, 2))
    """
    check_choice("by", by, ORDERS)
    check_choice("view", view, VIEWS)
    top = None if top is None else check_int("top", top, 0)
    per_class = None if per_class is None else check_int("per_class", per_class, 0)
    flags = {"selected": selected, "pairs": pairs, "index": index}
    selected, pairs, index = (check_bool(name, value) for name, value in flags.items())
    if class_name is not None:
        check_str("class_name", class_name)
    if index and by == "column":
        raise BadInput("a table by column lists columns, which have no index; omit the index.")
    selection = selected_features(learner) if selected else None
    if pairs:
        return _table_of_pairs(learner, by, top)
    if learner.record.task == "multiclass":
        return _table_of_classes(learner, by, view, top, per_class, class_name, max_classes, index)
    if class_name is not None:
        subject = f"a {learner.name} model, which does not predict several classes"
        raise BadInput(f"the class is {class_name}, but this is {subject}.")
    # The selected features are a model of their own, so their weights are not centered.
    strengths = feature_strengths(learner, view, replace(learner.extras, uses=FeatureCounts()) if selected else None)
    if selection is not None:
        selection, top = np.flatnonzero(np.isin(strengths.features, selection)), None
    header, rows = _rows_of(learner, strengths, by, top, selection, index)
    return FeatureTable(header, rows, len(strengths), len(rows) - bool(learner.parameters["intercept"]), strengths)


def _table_of_pairs(learner: Learner, by: str, top: int | None) -> FeatureTable:
    if by not in ("mean", "z"):
        raise BadInput(f"pairs have a mean and an sd, but no {by}; order them by mean or z.")
    if not has_pairs(learner):
        dropped = learner.parameters.get("pairs") is not None
        reason = (
            "its lane did not pay and was dropped" if dropped else "the training options pairs and crosses add them"
        )
        raise BadInput(f"the model has no pairs to show: {reason}.")
    strengths = pair_strengths(learner)
    rows = [[strengths.name(k), float(strengths.mean[k]), float(strengths.sd[k])] for k in strengths.top(top, by)]
    return FeatureTable(["pair", "mean", "sd"], rows, len(strengths), len(rows))


def _table_of_classes(
    learner: Any,
    by: str,
    view: str,
    top: int | None,
    per_class: int | None,
    class_name: str | None,
    max_classes: int | None,
    index: bool,
) -> FeatureTable:
    """Return the rows of each class, one class after another, with its name in the first column."""
    names, counts = learner.class_names, learner.counts
    if class_name is not None and class_name not in names:
        choices = ", ".join(printable(shorten(name)) for name in sorted(names, key=_in_order)[:MAX_CLASSES])
        rest = " and more" * (len(names) > MAX_CLASSES)
        raise BadInput(
            f"there is no class {class_name}; the model's classes are {choices}{rest}.{suggest(class_name, names)}"
        )
    listed = list(range(len(names))) if class_name is None else [names.index(class_name)]
    if max_classes is not None and len(listed) > max_classes:
        listed = sorted(listed, key=lambda k: -counts[k])[:max_classes]
    strengths, header = ClassStrengths(learner, view=view), ["class"]
    rows: list[list[Any]] = []
    of_class: FeatureStrengths | None = None
    for k in sorted(listed, key=lambda k: _in_order(names[k])):
        of_class = strengths.of(k)
        columns, cells = _rows_of(learner, of_class, by, per_class if class_name is None else top, None, index)
        header = ["class", *columns]
        rows += [[names[k], *row] for row in cells]
    return FeatureTable(header, rows, len(strengths.features), len(rows), of_class, len(names), len(listed))


def _in_order(name: str) -> tuple[float, str]:
    """Return the sort key of a class name: numbers first, by size."""
    try:
        return float(name), name
    except ValueError:
        return float("inf"), name


def _rows_of(
    learner: Learner, strengths: FeatureStrengths, by: str, top: int | None, subset: np.ndarray | None, index: bool
) -> tuple[list[str], list[list[Any]]]:
    """Return the header and the rows of the chosen features, of all if `subset` is None."""
    if by == "column":
        return ["column", "spread", "values", "feature", "mean", "sd", "seen"], list(_rows_by_column(strengths, top))
    key = strengths.key(by)
    if key is None:
        raise BadInput(f"{learner.name} models have no {ORDERS[by]} to order features by; order them by mean.")
    subset = np.arange(len(key)) if subset is None else subset
    listed = subset[top_rows(key[subset], len(subset) if top is None else top)]
    columns = {"mean": strengths.mean, "sd": strengths.sd, "inclusion": strengths.inclusion}
    available = {name: column for name, column in columns.items() if column is not None}
    cells = zip(*(column[listed].tolist() for column in available.values()), strict=True)
    names = [[strengths.name(row), *([feature] if index else [])] for row, feature in
             zip(listed.tolist(), strengths.features[listed].tolist(), strict=True)]  # fmt: skip
    rows = [[*name, *values] for name, values in zip(names, cells, strict=True)]
    if learner.parameters["intercept"]:
        intercept = shown_intercept(learner, strengths)
        rows.insert(0, [INTERCEPT, *([None] if index else []), *(intercept[name] for name in available)])
    return ["feature", *(["index"] if index else []), *available], rows


def shown_intercept(learner: Learner, strengths: FeatureStrengths) -> dict[str, float]:
    """Return the cells of the intercept, corrected for downsampled negatives."""
    mean = strengths.intercept
    if learner.record.task != "multiclass":
        mean += learner.score_rule.shift(learner.negative_rate)
    return {"mean": float(mean), "sd": strengths.intercept_sd, "inclusion": 1.0}


def _rows_by_column(strengths: FeatureStrengths, top: int | None) -> Iterable[list[Any]]:
    """Yield a row for each top feature of each column; a column without any gets a row without a feature."""
    columns = strengths.columns()[:top]
    if not columns:
        reason = "its data have no columns" if strengths.moments is not None else "it has no feature counts"
        raise BadInput(f"ordering by column needs a model trained from a table: {reason}.")
    for column in columns:
        head = [column.name, column.spread, column.features]
        for row in column.top_features.tolist():
            sd = None if strengths.sd is None else float(strengths.sd[row])
            yield [*head, strengths.name(row), float(strengths.mean[row]), sd, float(strengths.seen[row])]
        if not len(column.top_features):
            yield [*head, None, None, None, None]
