"""Which features matter: how much of the scores' spread each carries, and what is believed of its weight.

A feature of weight w and value x (0 where it is absent) adds w x to the score. What it carries is the variance of that,
w^2 Var(x), over the rows: a large weight of a rare feature carries little, and so does that of a feature whose value is
always the same. Weights are as `outputs.shown_weights` has them, and so is what the values of a column carry. Rows are
those that the model has counted, or else the remembered ones of the run's second half. Shares are of the sum over
features; that features come together does not enter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayou.core.learner import Learner
from bayou.outputs.shown_weights import ShownWeights, shown_weights
from bayou.recipe.feature_counts import Uses
from bayou.recipe.recipe import Recipe
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


def counted(sample: Sample) -> Uses:
    """The features of the rows that are remembered; of very long rows they are not."""
    uses, known = Uses(), {k: row for k, row in enumerate(sample.features) if row is not None}
    if known:
        features, values = (np.concatenate(parts) for parts in zip(*known.values(), strict=True))
        uses.add(np.array([len(row[0]) for row in known.values()]), features, values, sample.mass[list(known)])
    return uses


class Influence:
    """What all touched features carry, with their beliefs; `shown` has their weights as they are read."""

    def __init__(self, shown: ShownWeights, names: Any = None, inclusion: Any = None) -> None:
        self.shown, self._names = shown, names
        self.touched, self.mean, self.sd = shown.features, shown.mean, shown.sd
        self.inclusion = None if inclusion is None else np.asarray(inclusion, np.float64)[self.touched]
        self.seen = np.zeros(len(self.touched)) if shown.uses is None else shown.uses.seen
        carried = shown.carried
        self.share = carried / carried.sum() if carried.sum() > 0 else np.zeros(len(carried))

    @classmethod
    def of(cls, learner: Learner, sample: Sample, names: Any = None, recipe: Recipe | None = None) -> Influence:
        """In a learner, by the rows that it has counted, or by those of a sample."""
        uses = learner.extras.uses or counted(sample)
        shown = shown_weights(learner, recipe=recipe, names=names, uses=uses)
        return cls(shown, names, getattr(learner, "inclusion", None))

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
