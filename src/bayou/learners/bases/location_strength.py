"""Merging and sharded training of learners whose state is a location and a strength per weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bayou.core.gains import (
    RULE_EVIDENCE,
    RULE_RECENT,
    LocationStrength,
    apply_gain,
    changed_rows,
    check_grew_from,
    gain,
)
from bayou.core.learner import Learner
from bayou.core.sharding import Rows, Sharding, ShardingLearner

# Rows merged at a time, to bound the float64 copies.
BLOCK = 1 << 20


def merge_pairs(
    mine: np.ndarray,
    others: Sequence[np.ndarray],
    base: np.ndarray | None,
    prior: Any = 0.0,
    rule: int = RULE_EVIDENCE,
    may_lose: bool = False,
) -> None:
    """Merge `others` into `mine`: states of (location, strength) rows that were all trained from `base`.

    Args:
        base: the common base; None if all were trained from the prior.
        prior: precision of the prior. Locations and strengths are relative to it.
        rule: a rule of `core.gains`.
        may_lose: allow strengths below the base's; otherwise BadModel is raised.
    """
    prior = np.atleast_1d(np.asarray(prior, np.float64))
    for start in range(0, len(mine), BLOCK):
        rows = slice(start, start + BLOCK)
        held = prior if len(prior) == 1 else prior[rows]
        before = _places(np.zeros_like(mine[rows]) if base is None else base[rows], held)
        a: Any = 0.0
        b: Any = 0.0
        met: Any = 0
        for state in (mine, *others):
            now = _places(state[rows], held)
            more, moved = gain(now, before, rule)
            if not may_lose:
                check_grew_from(more, before, rule)
            a, b, met = a + more, b + moved, met + ((now.mean != before.mean) | (more != 0))
        mine[rows, 0], mine[rows, 1] = apply_gain(before, held, a, b, met, 1.0, rule)


def _places(rows: np.ndarray, held: np.ndarray) -> LocationStrength:
    return LocationStrength(rows[:, 0].astype(np.float64), rows[:, 1].astype(np.float64), held)


class LocationStrengthSharding(Sharding):
    """Gains of a learner with the arrays `state`, (location, strength) of each weight, and `intercept`, one such row.

    Args:
        learner: the learner.
        rule: the rule of `core.gains` by which weights are merged.
        prior_at: returns the prior precision of the weights of some features.
        intercept_prior: the prior precision of the intercept.
    """

    def __init__(
        self, learner: Learner, rule: int, prior_at: Callable[[np.ndarray], np.ndarray], intercept_prior: float
    ) -> None:
        super().__init__(learner)
        self._rule, self._prior_at, self._intercept_prior = rule, prior_at, intercept_prior

    def _changed_since(self, base: ShardingLearner) -> np.ndarray:
        return changed_rows([self.learner._arrays()["state"]], [base._arrays()["state"]])

    def _feature_gain(self, base: Rows, features: np.ndarray) -> np.ndarray:
        return self._gain(self.learner._arrays()["state"][features], base["state"], self._prior_at(features))

    def _global_gain(self, base: Rows) -> np.ndarray:
        return self._gain(self.learner._arrays()["intercept"], base["intercept"], self._intercept_prior).ravel()

    def _apply_global_gain(self, gains: np.ndarray, parts: int, weight: float) -> None:
        self._join("intercept", np.zeros(1, np.int64), self._intercept_prior, gains[None], parts, weight)

    def _apply_feature_gain(self, features: np.ndarray, gains: np.ndarray, met: np.ndarray, weight: float) -> None:
        self._join("state", features, self._prior_at(features), gains, met, weight)

    def _discount(self, share: float) -> None:
        if self._rule != RULE_RECENT:
            for name in ("state", "intercept"):
                self.learner._arrays()[name][:, 1] *= share

    def _gain(self, rows: np.ndarray, base: np.ndarray, held: Any) -> np.ndarray:
        now, before = _places(rows, held), _places(base, held)
        a, b = gain(now, before, self._rule)
        check_grew_from(a, before, self._rule)
        return np.stack([a, b], axis=1)

    def _join(self, name: str, rows: np.ndarray, held: Any, gains: np.ndarray, met: Any, weight: float) -> None:
        array = self.learner._arrays()[name]
        joint = apply_gain(_places(array[rows], held), held, gains[:, 0], gains[:, 1], met, weight, self._rule)
        array[rows] = np.stack(joint, axis=1)
