"""`bayou.features`: a model's feature strengths as an Arrow table. `bayou features` shows and writes the same."""

from __future__ import annotations

import os
from typing import TypedDict, Unpack

from bayou.core.arrow import pa
from bayou.core.learner import Learner
from bayou.core.storage import load
from bayou.outputs.feature_table import MAX_FEATURES, FeatureTable, feature_table

_TEXTS = {"class", "feature", "pair", "column"}
_INTEGERS = {"index", "values"}


class FeatureOptions(TypedDict, total=False):
    """Options of `features`."""

    by: str
    view: str
    per_class: int | None
    class_name: str | None
    selected: bool
    pairs: bool
    index: bool


def features(
    model: str | os.PathLike[str] | Learner, top: int | None = MAX_FEATURES, **options: Unpack[FeatureOptions]
) -> pa.Table:
    """Return a model's largest weights by name, as `bayou features` writes them.

    The first row is the intercept, the score of the mean row. Features that were never seen in the data are left out.

    Args:
        model: a file, or a learner.
        top: number of features, columns or pairs to list; None for all.
        by: "mean" lists the largest absolute weights first; "z" the largest mean / sd; "inclusion" the highest
            inclusion probabilities; "column" the columns that move the score most, each with its strongest features.
        view: "model" for the weights used to predict; for a bank, "associated" for the association with the labels so
            far, whether or not the bank expects it to last.
        per_class: number of features to list for each class (multiclass only), 5 by default; None for all.
        class_name: the only class to list, with `top` features (multiclass only).
        selected: list exactly the features that the model selected (spike-slab, ftrl).
        pairs: list the feature pairs with the largest weights (banks with pairs only).
        index: add a column for the index that each feature was hashed to.

    Returns:
        A table with the columns `feature`, `mean`, `sd` and `inclusion`, as far as the learner has them, preceded by
        `class` for multiclass models, and with `index` before `mean` if requested. By column: `column`, `spread`,
        `values`, `feature`, `mean`, `sd`, `seen`. For pairs: `pair`, `mean`, `sd`.

    Raises:
        BadInput: if the model cannot provide what is requested.

    >>> import pyarrow as pa
    >>> from bayou.runs.train import train
    >>> clicks = pa.table({"site": ["a", "b"] * 50, "clicked": [1, 0] * 50})
    >>> model = train(clicks, label="clicked", learner="marginal", bits=10).learner
    >>> sorted(features(model)["feature"].to_pylist())  # the two sites are as strong as each other
    ['(intercept)', 'site=a', 'site=b']
    """
    learner = model if isinstance(model, Learner) else load(model)
    return _as_arrow(feature_table(learner, top=top, **options))


def _as_arrow(table: FeatureTable) -> pa.Table:
    columns = zip(*table.rows, strict=True) if table.rows else [() for _ in table.header]
    return pa.table(
        {
            name: pa.array(cells, pa.string() if name in _TEXTS else pa.int64() if name in _INTEGERS else pa.float64())
            for name, cells in zip(table.header, columns, strict=True)
        }
    )
