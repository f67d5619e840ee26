"""`bayou.contrast`: a linear combination of a model's weights, by name, with its interval."""

from __future__ import annotations

import os
from collections.abc import Mapping

from bayou.core.checks import check_finite, shortened_repr
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.prediction import Contrast
from bayou.core.storage import load


def contrast(model: str | os.PathLike[str] | Learner, weights: Mapping[str, float], *, level: float = 0.95) -> Contrast:
    """Return a linear combination of weights, such as the difference of two: mean, sd, and an interval.

    `learner.contrast` does the same for features by index.

    Args:
        model: a file, or a learner.
        weights: the factor of each feature, by the name that `bayou.features` lists.
        level: posterior probability of the interval.

    Raises:
        BadInput: if the model has not seen a feature, or predicts several classes.
        NoPosterior: if its weights have no variances.

    >>> import pyarrow as pa
    >>> from bayou.runs.train import train
    >>> clicks = pa.table({"site": ["a", "b"] * 50, "clicked": [1, 0] * 50})
    >>> model = train(clicks, label="clicked", learner="marginal", bits=10).learner
    >>> contrast(model, {"site=a": 1, "site=b": -1}).low > 0
    True
    """
    if not isinstance(weights, Mapping) or not weights:
        raise BadInput(f"weights is {shortened_repr(weights)}; it must map names of features to numbers.")
    factors = [check_finite(f"the weight of {shortened_repr(name)}", factor) for name, factor in weights.items()]
    learner = model if isinstance(model, Learner) else load(model)
    if learner.record.task == "multiclass":
        raise BadInput("a contrast needs the weights of one class; this model predicts several.")
    features, names = learner.touched, learner.extras.names
    names_seen = map(str, features.tolist()) if names is None else names.name_of(features)
    index = dict(zip(names_seen, features.tolist(), strict=True))
    if missing := [name for name in weights if name not in index]:
        raise BadInput(
            f"the model has not seen the feature {shortened_repr(missing[0])}; bayou.features lists those it has."
        )
    return learner.contrast([index[name] for name in weights], factors, level)
