"""Strengths of feature pairs: the weights of a bank's lane of crosses, in units of the log-odds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayou.core.learner import Learner
from bayou.learners.bank import Bank
from bayou.learners.bank.pair_explanations import has_live_pairs, pair_weights
from bayou.outputs.features import AND, top_rows, z_scores


class PairStrengths(NamedTuple):
    """The pairs that a bank has seen, and their weights: changes of the log-odds where both features occur.

    >>> from bayou import Batch
    >>> bank = Bank(n_features=4, pairs="crosses")
    >>> rows = [{0: 1.0, 2: 1.0}, {0: 1.0, 3: 1.0}, {1: 1.0, 2: 1.0}, {1: 1.0, 3: 1.0}] * 50
    >>> p = bank.learn(Batch.from_rows(rows, labels=[1, 0, 0, 1] * 50))
    >>> strengths = pair_strengths(bank)
    >>> [(strengths.name(k), bool(strengths.mean[k] > 0)) for k in sorted(strengths.top(4))]
    [('0 & 2', True), ('0 & 3', False), ('1 & 2', False), ('1 & 3', True)]
    """

    features: np.ndarray  # (pairs, 2)
    names: list[str | None]  # names of the distinct features in pairs, indexed by `of`
    of: np.ndarray  # (pairs, 2)
    mean: np.ndarray
    sd: np.ndarray

    def name(self, k: int) -> str:
        """Return the names of both features, joined."""
        names = (self.names[i] or str(f) for i, f in zip(self.of[k].tolist(), self.features[k].tolist(), strict=True))
        return AND.join(names)

    def top(self, n: int | None, by: str = "mean") -> list[int]:
        """Return the pairs with the n largest absolute weights or, by "z", |mean| / sd; all if n is None."""
        key = z_scores(self.mean, self.sd) if by == "z" else np.abs(self.mean)
        rows: list[int] = top_rows(key, len(key) if n is None else n).tolist()
        return rows


def has_pairs(learner: Any) -> bool:
    """Return whether a learner has a lane of crosses that is still used in predictions."""
    return isinstance(learner, Bank) and has_live_pairs(learner)


def pair_strengths(learner: Learner) -> PairStrengths:
    """Return the pair strengths of a bank, in the order of their features; empty for other learners."""
    pairs = pair_weights(learner) if isinstance(learner, Bank) else None
    if pairs is None:
        nothing = np.empty(0)
        return PairStrengths(np.empty((0, 2), np.int64), [], np.empty((0, 2), np.int64), nothing, nothing)
    features_seen, of = np.unique(pairs.features, return_inverse=True)
    names = learner.extras.names
    names_seen: list[str | None] = [None] * len(features_seen) if names is None else list(names.name_of(features_seen))
    return PairStrengths(pairs.features, names_seen, of.reshape(pairs.features.shape), pairs.mean, pairs.sd)
