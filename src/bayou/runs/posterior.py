"""`bayou.posterior`: mean and covariance of a model's joint posterior. `bayou features --posterior` writes the same."""

from __future__ import annotations

import os

import numpy as np

from bayou.core.arrow import pa, pq
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.spelling import setting
from bayou.core.storage import load
from bayou.outputs.features import seen_features
from bayou.outputs.plain_model import INTERCEPT
from bayou.outputs.text import output


def posterior(model: str | os.PathLike[str] | Learner) -> pa.Table:
    """Return the joint posterior of the weights whose correlations a model keeps.

    Those are the weights in the head of a bank, and all that `Joint(covariance="full")` has seen.

    A draw from a normal distribution with this mean and covariance is one weight for each row of the table. Weights are
    as they add up to a score (the log-odds), not centered as `bayou.features` shows them; the intercept is the score of
    a row without features.

    Args:
        model: a file, or a learner.

    Returns:
        A table with one row per weight, in ascending order of index, after a row for the intercept if the model has
        one. Columns: `feature`, the name that `bayou.features` lists; `index`, null for the intercept; `mean`; and
        `covariance`, a list with one number for each row of the table, in the same order.

    Raises:
        BadInput: if the model has no joint posterior.

    >>> import pyarrow as pa
    >>> from bayou.runs.train import train
    >>> clicks = pa.table({"site": ["a", "b"] * 50, "clicked": [1, 0] * 50})
    >>> joint = posterior(train(clicks, label="clicked", settings={"head": 8}, bits=10).learner)
    >>> joint["feature"].to_pylist(), np.array(joint["covariance"].to_pylist()).shape
    (['(intercept)', 'site=a', 'site=b'], (3, 3))
    """
    learner = model if isinstance(model, Learner) else load(model)
    seen = seen_features(learner)
    view = None if learner.record.task == "multiclass" else learner.weight_view(seen.features)
    if view is None or view.joint is None:
        dropped = "; its head was dropped" * bool(learner.parameters.get("head"))
        raise BadInput(
            f"this {learner.name} model has no joint posterior: it keeps no correlations of its weights{dropped}. "
            f"Train a bank for two classes with {setting('head', 256)}, or joint with {setting('covariance', 'full')}."
        )
    rows, start = view.joint.positions.tolist(), 0 if learner.parameters["intercept"] else 1
    names = [INTERCEPT, *(seen.names[k] or str(seen.features[k]) for k in rows)]
    mean = np.append(view.intercept + learner.score_rule.shift(learner.negative_rate), np.asarray(view.mean)[rows])
    covariance = view.joint.covariance[start:, start:]
    columns = {
        "feature": names[start:],
        "index": [None, *seen.features[rows].tolist()][start:],
        "mean": mean[start:],
        "covariance": pa.FixedSizeListArray.from_arrays(covariance.ravel(), len(covariance)),
    }
    return pa.table(columns)


def write_posterior(path: str | os.PathLike[str], model: str | os.PathLike[str] | Learner) -> int:
    """Write the table of `posterior` to a Parquet file, and return its number of rows."""
    table = posterior(model)
    with output(path) as file:
        pq.write_table(table, file)
    return int(table.num_rows)
