"""Of what groups a bank's features are, what prior it has learned for each, and lanes that fade, seen from outside."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from bayou.core import threads
from bayou.core.arrays import read_only
from bayou.core.batch import Batch
from bayou.core.learner import Learner
from bayou.core.model_file import nonzero_rows
from bayou.learners.bank.lanes import NATURAL, OTHER, PRIOR, STAYS, LaneState
from bayou.learners.bank.priors import FOLD, LEAST_FADE, fill_held, fold
from bayou.learners.bank.rows import mark_again

# A table of more bytes is gone through by threads, in so many parts.
WORTH_IT, APART = 4 << 20, 2
NO_GROUPS = read_only(np.zeros(0, np.uint8))


class LearnedPrior(NamedTuple):
    """What a bank has learned of the weights of one group of features before it knows any of them."""

    group: int  # its number in `Batch.groups`
    sd: float  # the prior's standard deviation, in units of the features
    features: int  # that were met


class Grouped(Learner):
    """The part of a `Bank` that knows of groups."""

    _lanes: LaneState
    _grouped = False  # whether any feature is of another group than 0

    def _groups_of(self, batch: Batch, learns: bool = False) -> np.ndarray:
        """Of each non-zero its group, as the batch or else the table has it; nothing if all are of one.

        Where a bank has learned without groups, rows that have some are predicted without.
        """
        self._grouped |= learns and batch.groups is not None
        if batch.groups is not None and self._grouped:
            return batch.groups
        return read_only(self._lanes.groups[batch.indices]) if self._grouped else NO_GROUPS

    def _fill_held(self) -> None:
        """What follows from the settings, and from what was learned of priors."""
        lanes = self._lanes
        fill_held(lanes.held, lanes.settings[PRIOR], lanes.priors, np.flatnonzero(lanes.settings[NATURAL]))

    def _check_state(self) -> None:
        self._grouped = bool(self._lanes.groups.any())
        np.clip(self._lanes.fade[0], LEAST_FADE, 1.0, out=self._lanes.fade[0])
        if self._lanes.stream[OTHER]:
            mark_again(self._lanes.marks, self._lanes.squares)

    def _fold(self) -> None:
        """Let tables take up what factors have become small; memory is what it waits for, so it has all cores."""
        fade, folds = self._lanes.fade
        while (fade < FOLD).any():
            parts = [part.reshape(-1) for part in np.array_split(self._lanes.state, APART)]
            threads.all_done([partial(fold, part, fade) for part in parts], apart=self._lanes.state.nbytes > WORTH_IT)
            folds += fade < FOLD
            fade /= np.where(fade < FOLD, FOLD, 1.0)

    def rewrites(self, examples: int) -> bool:
        return bool((self._lanes.fade[0] * self._lanes.settings[STAYS] ** examples < FOLD).any())

    def priors(self) -> list[LearnedPrior]:
        """The prior of each group that was met, as the first lane that learns it has it; none if there is no such lane.

        >>> from bayou.learners import Bank
        >>> bank = Bank(n_features=4)
        >>> rows = Batch.from_rows([{0: 1.0, 2: 1.0}, {1: 1.0, 3: 1.0}], labels=[1, 0]).with_groups([0, 1, 0, 1])
        >>> p = bank.learn(rows)
        >>> [(prior.group, prior.features) for prior in bank.priors()]
        [(0, 2), (1, 2)]
        """
        with self._lock:
            lanes, learned = self._lanes, np.flatnonzero(self._lanes.settings[NATURAL])
            if not len(learned):
                return []
            met = np.bincount(lanes.groups[nonzero_rows(lanes.state)], minlength=len(lanes.held))
            sds = lanes.factors()[learned[0]] / np.sqrt(lanes.held[:, learned[0]].astype(np.float64))
        return [LearnedPrior(group, float(sds[group]), int(met[group])) for group in np.flatnonzero(met).tolist()]
