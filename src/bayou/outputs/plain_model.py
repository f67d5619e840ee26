"""Export of a sparse model's selected features as plain text, for use without bayou.

    P(y = 1) = F(intercept + sum of weight * value over the features listed),  F = Phi (link "probit") or S ("logistic")

A .json file is complete; a .csv file has one row per feature, after a first row for the intercept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bayou.core import links
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.outputs.text import write_csv, write_json

INTERCEPT = "(intercept)"
NameOf = Callable[[np.ndarray], Sequence[str | None]]


def selected_features(learner: Any) -> np.ndarray:
    """Return the indices of the features that a sparse model selected, in ascending order.

    Raises:
        BadInput: if the learner does not select features.
    """
    selected = getattr(learner, "selected", None)
    if selected is None:
        raise BadInput(f"{learner.name} models select no features; spike-slab and ftrl do.")
    return np.asarray(selected)


def plain_model(learner: Learner, name_of: NameOf | None = None) -> dict[str, Any]:
    """Return the selected features of a sparse learner and their weights as a JSON-compatible dict.

    `name_of` returns the names of features, None for unnamed ones, which appear by index. If only a fraction of the
    negatives was learned (`Learner.negative_rate`), the odds are too high by the factor 1 / negative_rate: the logistic
    intercept is corrected for it, and a probit model has an entry `negative_rate` to multiply the odds by.

    >>> from bayou import Batch
    >>> from bayou.learners import FTRL
    >>> learner = FTRL(3, l1=0.6, intercept=False, dtype="float64")
    >>> p = learner.learn(Batch.from_rows([{1: 2.0, 2: 1.0}], labels=[1]))
    >>> plain_model(learner, lambda chosen: ["abc"[k] for k in chosen])["features"]
    [{'feature': 'b', 'weight': 0.02}]
    """
    selected, negative_rate = selected_features(learner), learner.negative_rate
    columns = {"weight": learner.weights_at(selected).mean}
    inclusion = getattr(learner, "inclusion", None)
    if inclusion is not None:
        columns["inclusion"] = inclusion[selected]
    names = [None] * len(selected) if name_of is None else name_of(selected)
    link = learner.parameters.get("link", "logistic")
    plain = {
        "learner": learner.name,
        "link": link,
        "intercept": learner.intercept[0] + learner.score_rule.shift(negative_rate),
        "features": [
            {"feature": str(feature if names[k] is None else names[k])}
            | {name: float(f"{column[k]:.12g}") for name, column in columns.items()}
            for k, feature in enumerate(selected.tolist())
        ],
    }
    shifts = links.find(link).is_log_odds or negative_rate == 1.0
    return plain if shifts else plain | {"negative_rate": negative_rate}


def write_plain(path: str | os.PathLike[str], learner: Learner, name_of: NameOf | None = None) -> None:
    """Write `plain_model` to a .json or .csv file."""
    plain = plain_model(learner, name_of)
    if str(path).endswith(".json"):
        write_json(path, plain)
    elif str(path).endswith(".csv"):
        columns = ["feature", "weight", *(["inclusion"] if hasattr(learner, "inclusion") else [])]
        rows = [{"feature": INTERCEPT, "weight": plain["intercept"], "inclusion": 1.0}, *plain["features"]]
        write_csv(path, columns, ([row[name] for name in columns] for row in rows))
    else:
        raise BadInput(f"the output file is {path}; its name must end in .csv or .json.")
