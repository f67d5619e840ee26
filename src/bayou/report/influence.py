"""Which features matter: how much of the scores' spread each carries, and what is believed of its weight.

A feature of weight w and value x (0 where it is absent) adds w x to the score. What it carries is the variance of that,
w^2 Var(x), over the remembered rows of the run's second half: a large weight of a rare feature carries
little, and so does that of a feature whose value is always the same. Shares are of the sum over features; that features
come together does not enter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayou.core.learner import Learner
from bayou.report.recorder import Sample


@dataclass(frozen=True)
class Features:
    """What is believed of some features, the first in some order."""

    index: np.ndarray
    name: list[str]
    mean: np.ndarray
    sd: np.ndarray | None
    inclusion: np.ndarray | None
    share: np.ndarray  # of the scores' spread
    seen: np.ndarray  # share of rows in which it came

    def __len__(self) -> int:
        return len(self.index)


class Influence:
    """What all touched features carry, with their beliefs."""

    def __init__(self, learner: Learner, sample: Sample, names: Any = None) -> None:
        self._names = names
        self.touched = learner.touched
        weights = learner.weights_at(self.touched)
        self.mean, self.sd = weights.mean, weights.sd
        inclusion = getattr(learner, "inclusion", None)
        self.inclusion = None if inclusion is None else np.asarray(inclusion, np.float64)[self.touched]
        self.seen, spread = self._use(sample)
        carried = self.mean**2 * spread
        self.share = carried / carried.sum() if carried.sum() > 0 else np.zeros(len(carried))

    def _use(self, sample: Sample) -> tuple[np.ndarray, np.ndarray]:
        """Of each touched feature: the share of rows that have it, and the variance of its value over all rows."""
        rows = [(mass, row) for mass, row in zip(sample.mass, sample.features, strict=True) if row is not None]
        if not rows or not len(self.touched):
            return np.zeros(len(self.touched)), np.zeros(len(self.touched))
        indices = np.concatenate([row[0] for _, row in rows]).astype(np.int64)
        values = np.concatenate([row[1] for _, row in rows]).astype(np.float64)
        mass = np.repeat([mass for mass, _ in rows], [len(row[0]) for _, row in rows])
        place = np.minimum(np.searchsorted(self.touched, indices), len(self.touched) - 1)
        there = self.touched[place] == indices
        total = sum(mass for mass, _ in rows)
        seen, first, second = (
            np.bincount(place[there], (mass * values**power)[there], minlength=len(self.touched)) / total
            for power in range(3)
        )
        return seen, np.maximum(second - first**2, 0.0)

    def names_of(self, indices: np.ndarray) -> list[str]:
        known = [None] * len(indices) if self._names is None else self._names.name_of(indices)
        return [f"feature {k}" if name is None else name for k, name in zip(indices.tolist(), known, strict=True)]

    def first(self, n: int, key: np.ndarray) -> Features:
        """The n features with the largest keys above 0."""
        order = np.argsort(-key, kind="stable")[:n]
        order = order[key[order] > 0]
        return Features(
            index=self.touched[order],
            name=self.names_of(self.touched[order]),
            mean=self.mean[order],
            sd=None if self.sd is None else self.sd[order],
            inclusion=None if self.inclusion is None else self.inclusion[order],
            share=self.share[order],
            seen=self.seen[order],
        )

    @property
    def surety(self) -> np.ndarray | None:
        """How many standard deviations each weight is away from 0."""
        if self.sd is None:
            return None
        return np.divide(np.abs(self.mean), self.sd, out=np.zeros_like(self.mean), where=self.sd > 0)

    def unsure_of(self, row: tuple[np.ndarray, np.ndarray] | None, n: int) -> list[str]:
        """The features of a row that make its score most unsure, by x^2 v."""
        if row is None or self.sd is None or not len(self.touched):
            return []
        indices, values = row[0].astype(np.int64), row[1].astype(np.float64)
        place = np.minimum(np.searchsorted(self.touched, indices), len(self.touched) - 1)
        there = self.touched[place] == indices
        indices, variance = indices[there], (values**2 * self.sd[place] ** 2)[there]
        return self.names_of(indices[np.argsort(-variance, kind="stable")[:n]])
