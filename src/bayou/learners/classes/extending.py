"""A learner of two classes that is to know further ones."""

from __future__ import annotations

import copy
from typing import Any

from bayou.core.learner import Learner
from bayou.learners.bank import Bank
from bayou.learners.bank.merging import mirror_combination, mirror_lanes
from bayou.learners.classes.learner import Classes


def extends(learner: Learner) -> bool:
    """Whether `extended` has an answer."""
    return isinstance(learner, Classes | Bank)


def extended(learner: Any) -> Classes:
    """The same for further classes. A bank becomes that of class 1, and its mirror image that of class 0.

    >>> from bayou import Batch
    >>> bank = Bank(n_features=4)
    >>> p = bank.learn(Batch.from_rows([{0: 1.0}, {1: 1.0}], labels=[0, 1]))
    >>> rows = Batch.from_rows([{0: 1.0}])
    >>> two, one = extended(bank).predict(rows).probability[0], bank.predict(rows).probability[0]
    >>> bool(abs(two[1] - one) < 0.01)
    True
    """
    if isinstance(learner, Classes):
        return learner
    many = Classes(classes=2, **learner.parameters)
    mirror = copy.copy(learner)
    mirror_lanes(mirror._lanes)
    for combination in (mirror._combination, mirror._later):
        mirror_combination(combination)
    return many.divided([mirror, copy.copy(learner)], rests=False)
