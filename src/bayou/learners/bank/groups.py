"""Of what groups a bank's features are, what prior it has learned for each, and lanes that fade, seen from outside."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from bayou.core import threads
from bayou.core.arrays import read_only
from bayou.core.batch import Batch
from bayou.core.model_file import nonzero_rows
from bayou.learners.bank.lanes import NATURAL, OTHER, PRIOR, STAYS, LaneState
from bayou.learners.bank.priors import FOLD, LEAST_FADE, fill_held, fold
from bayou.learners.bank.rows import mark_again

# A table of more bytes is gone through by threads, in so many parts.
THREADED_BYTES, N_PARTS = 4 << 20, 2
NO_GROUPS = read_only(np.zeros(0, np.uint8))


class LearnedPrior(NamedTuple):
    """What a bank has learned of the weights of one group of features before it knows any of them."""

    group: int  # its number in `Batch.groups`
    sd: float  # the prior's standard deviation, in units of the features
    features: int  # that were met


class GroupPriors:
    """The groups of a bank's features, and what lanes know of each group as a whole."""

    def __init__(self, lanes: LaneState) -> None:
        self._lanes = lanes
        self.has_groups = False  # whether any feature is of another group than 0
        self.refresh()

    def refresh(self) -> None:
        """Make the precisions of priors those that settings and learned priors say."""
        lanes = self._lanes
        fill_held(lanes.held, lanes.settings[PRIOR], lanes.priors, np.flatnonzero(lanes.settings[NATURAL]))

    def restore(self) -> None:
        """Make what is not in files follow from the arrays that were put back."""
        lanes = self._lanes
        self.has_groups = bool(lanes.groups.any())
        np.clip(lanes.fade[0], LEAST_FADE, 1.0, out=lanes.fade[0])
        if lanes.stream[OTHER]:
            mark_again(lanes.marks, lanes.squares)

    def of_batch(self, batch: Batch, learns: bool = False) -> np.ndarray:
        """Return the group of each non-zero, as the batch or else the table has it; nothing if all are of one.

        Where a bank has learned without groups, rows that have some are predicted without.
        """
        self.has_groups |= learns and batch.groups is not None
        if batch.groups is not None and self.has_groups:
            return batch.groups
        return read_only(self._lanes.groups[batch.indices]) if self.has_groups else NO_GROUPS

    def rebase_fade(self) -> None:
        """Let tables take up what factors have become small; memory is what it waits for, so it has all cores."""
        state, (fade, folds) = self._lanes.state, self._lanes.fade
        while (fade < FOLD).any():
            parts = [part.reshape(-1) for part in np.array_split(state, N_PARTS)]
            threads.all_done([partial(fold, part, fade) for part in parts], apart=state.nbytes > THREADED_BYTES)
            folds += fade < FOLD
            fade /= np.where(fade < FOLD, FOLD, 1.0)

    def will_rebase(self, examples: int) -> bool:
        """Whether `rebase_fade` will change the tables once so many examples more were learned."""
        return bool((self._lanes.fade[0] * self._lanes.settings[STAYS] ** examples < FOLD).any())

    def learned(self) -> list[LearnedPrior]:
        """Return the prior of each group that was met, as the first lane that learns it has it; or nothing."""
        lanes, learned = self._lanes, np.flatnonzero(self._lanes.settings[NATURAL])
        if not len(learned):
            return []
        met = np.bincount(lanes.groups[nonzero_rows(lanes.state)], minlength=len(lanes.held))
        sds = lanes.factors()[learned[0]] / np.sqrt(lanes.held[:, learned[0]].astype(np.float64))
        return [LearnedPrior(group, float(sds[group]), int(met[group])) for group in np.flatnonzero(met).tolist()]
