"""Pairs of features as people read them: those of a bank's lane of crosses, in units of the log-odds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayou.core.learner import Learner
from bayou.learners.bank import Bank
from bayou.outputs.shown_weights import AND


class ShownPairs(NamedTuple):
    """The pairs that a bank has met, and their weights: changes of the log-odds where both features come together.

    >>> from bayou import Batch
    >>> bank = Bank(n_features=4, pairs="crosses")
    >>> rows = [{0: 1.0, 2: 1.0}, {0: 1.0, 3: 1.0}, {1: 1.0, 2: 1.0}, {1: 1.0, 3: 1.0}] * 50
    >>> p = bank.learn(Batch.from_rows(rows, labels=[1, 0, 0, 1] * 50))
    >>> shown = shown_pairs(bank)
    >>> [(shown.name(k), bool(shown.mean[k] > 0)) for k in sorted(shown.largest(4))]
    [('0 & 2', True), ('0 & 3', False), ('1 & 2', False), ('1 & 3', True)]
    """

    features: np.ndarray  # (pairs, 2)
    names: list[str | None]  # of the features met in pairs, `of` says which
    of: np.ndarray  # (pairs, 2)
    mean: np.ndarray
    sd: np.ndarray

    def name(self, k: int) -> str:
        """What a pair is called."""
        known = (self.names[i] or str(f) for i, f in zip(self.of[k].tolist(), self.features[k].tolist(), strict=True))
        return AND.join(known)

    def largest(self, top: int | None, by: str = "mean") -> list[int]:
        """The pairs of the largest weights, or, by "z", those that are surest not to be 0."""
        size = np.abs(self.mean) / (np.maximum(self.sd, 1e-300) if by == "z" else 1.0)
        found: list[int] = np.argsort(-size, kind="stable")[:top].tolist()
        return found


def has_pairs(learner: Any) -> bool:
    """Whether a learner has a lane of crosses that it still listens to."""
    return isinstance(learner, Bank) and learner.has_live_pairs


def shown_pairs(learner: Learner) -> ShownPairs:
    """Those of a bank with pairs, in the order of their features; none of any other learner."""
    pairs = learner.pair_weights() if isinstance(learner, Bank) else None
    if pairs is None:
        nothing = np.empty(0)
        return ShownPairs(np.empty((0, 2), np.int64), [], np.empty((0, 2), np.int64), nothing, nothing)
    met, of = np.unique(pairs.features, return_inverse=True)
    names = learner.extras.names
    known: list[str | None] = [None] * len(met) if names is None else list(names.name_of(met))
    return ShownPairs(pairs.features, known, of.reshape(pairs.features.shape), pairs.mean, pairs.sd)
