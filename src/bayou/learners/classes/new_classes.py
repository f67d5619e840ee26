"""Turning a binary learner into a multiclass one."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from bayou.core.learner import Learner
from bayou.core.model_file import nonzero_rows
from bayou.learners.bank import Bank
from bayou.learners.bank.dropping import without_head
from bayou.learners.bank.merging import mirror_combination, negate_lanes
from bayou.learners.classes.learner import Classes


def can_extend(learner: Learner) -> bool:
    """Return whether `extend` supports a learner: `Classes`, banks, and learners with a location per weight."""
    if isinstance(learner, Classes | Bank):
        return True
    arrays = learner._arrays()
    pairs = arrays.keys() == {"state", "intercept"} and all(array.shape[-1] == 2 for array in arrays.values())
    return pairs and not np.any(learner.parameters.get("prior_mean", 0.0))


def extend(learner: Any) -> Classes:
    """Return a multiclass learner made from a binary one, which serves for class 1 and its mirror image for class 0.

    >>> from bayou import Batch
    >>> bank = Bank(n_features=4)
    >>> p = bank.learn(Batch.from_rows([{0: 1.0}, {1: 1.0}], labels=[0, 1]))
    >>> rows = Batch.from_rows([{0: 1.0}])
    >>> two, one = extend(bank).predict(rows).probability[0], bank.predict(rows).probability[0]
    >>> bool(abs(two[1] - one) < 0.01)
    True
    """
    if isinstance(learner, Classes):
        return learner
    many = Classes(learner=learner.name, classes=2, **learner.parameters)
    learner = without_head(learner) if isinstance(learner, Bank) else learner
    return many.divided([_negated(learner), copy.copy(learner)], rests=False)


def _negated(learner: Any) -> Any:
    """Return the learner that the opposite labels would have given, up to rounding: all means are negated."""
    twin = copy.copy(learner)
    if isinstance(twin, Bank):
        negate_lanes(twin._lanes)
        for combination in (twin._combination, twin._later_combination):
            mirror_combination(combination)
        return twin
    for array in twin._arrays().values():
        rows = nonzero_rows(array)
        array[rows, 0] = 0.0 - array[rows, 0]  # which leaves no -0.0: zero bytes mean the prior
    return twin
