"""`bayou.features`: a model's feature strengths as an Arrow table. `bayou features` shows and writes the same."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bayou.core.learner import Learner
from bayou.core.storage import load
from bayou.outputs.feature_table import MAX_FEATURES, MAX_FEATURES_PER_CLASS, FeatureTable, feature_table

if TYPE_CHECKING:
    import pyarrow as pa

_TEXTS = {"class", "feature", "pair", "column"}
_INTEGERS = {"index", "values"}


def features(
    model: str | os.PathLike[str] | Learner,
    top: int | None = MAX_FEATURES,
    *,
    by: str = "mean",
    view: str = "model",
    per_class: int | None = MAX_FEATURES_PER_CLASS,
    class_name: str | None = None,
    selected: bool = False,
    pairs: bool = False,
    index: bool = False,
) -> pa.Table:
    """Return a model's largest weights, by name: what `bayou features` writes.

    The first row is the intercept, the score of the mean row. Features that were never seen in the data are left out.

    Args:
        model: a file, or a learner.
        top: number of features, columns or pairs to list; None for all.
        by: "mean" lists the largest weights first, whatever their sign; "z" the largest mean / sd; "inclusion" those
            that are most probably needed; "column" the columns that move the score most, each with its strongest
            features.
        view: "model" for the weights that predict; of a bank "associated" for what went with the labels so far, whether
            or not that is trusted to continue.
        per_class: of several classes, the number of features of each; None for all.
        class_name: of several classes, the one to list, with `top` features.
        selected: list all features that the model selected (spike-slab, ftrl), and no others.
        pairs: of a bank with pairs, list the pairs of features with the largest weights.
        index: add a column for the index that each feature was hashed to.

    Returns:
        A table with the columns `feature`, `mean`, `sd` and `inclusion`, as far as the learner knows them: with several
        classes after `class`, with `index` before `mean`. By column: `column`, `spread`, `values`, `feature`, `mean`,
        `sd`, `seen`. Of pairs: `pair`, `mean`, `sd`.

    Raises:
        BadInput: if the model has nothing of what is asked for.

    >>> import pyarrow as pa
    >>> from bayou.runs.train import train
    >>> clicks = pa.table({"site": ["a", "b"] * 50, "clicked": [1, 0] * 50})
    >>> model = train(clicks, label="clicked", learner="marginal", bits=10).learner
    >>> sorted(features(model)["feature"].to_pylist())  # the two sites are as strong as each other
    ['(intercept)', 'site=a', 'site=b']
    """
    learner = model if isinstance(model, Learner) else load(model)
    table = feature_table(
        learner,
        top=top,
        by=by,
        view=view,
        per_class=per_class,
        class_name=class_name,
        selected=selected,
        pairs=pairs,
        index=index,
    )
    return _as_arrow(table)


def _as_arrow(table: FeatureTable) -> pa.Table:
    import pyarrow as pa

    columns = zip(*table.rows, strict=True) if table.rows else [() for _ in table.header]
    return pa.table(
        {
            name: pa.array(cells, pa.string() if name in _TEXTS else pa.int64() if name in _INTEGERS else pa.float64())
            for name, cells in zip(table.header, columns, strict=True)
        }
    )
