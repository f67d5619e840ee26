"""Groups of a bank's features, the prior learned for each, and the upkeep of lanes that fade."""

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
from bayou.learners.bank.row_scaling import mark_again

# A table of more bytes is processed by threads, in N_PARTS parts.
THREADED_BYTES, N_PARTS = 4 << 20, 2
NO_GROUPS = read_only(np.zeros(0, np.uint8))


class LearnedPrior(NamedTuple):
    """Prior that a bank has learned for the weights of one group of features."""

    group: int  # its index in `Batch.groups`
    sd: float  # the prior's standard deviation, in units of the features
    features: int  # number of features seen


class GroupPriors:
    """The groups of a bank's features, and the prior that lanes have for each group."""

    def __init__(self, lanes: LaneState) -> None:
        self._lanes = lanes
        self.has_groups = False  # whether any feature is of another group than 0
        self.refresh()

    def refresh(self) -> None:
        """Recompute the table of prior precisions from settings and learned priors."""
        lanes = self._lanes
        fill_held(lanes.held, lanes.settings[PRIOR], lanes.priors, np.flatnonzero(lanes.settings[NATURAL]))

    def restore(self) -> None:
        """Recompute the state that files do not store, after the arrays were loaded."""
        lanes = self._lanes
        self.has_groups = bool(lanes.groups.any())
        np.clip(lanes.fade[0], LEAST_FADE, 1.0, out=lanes.fade[0])
        if lanes.stream[OTHER]:
            mark_again(lanes.marks, lanes.squares)

    def of_batch(self, batch: Batch, learns: bool = False) -> np.ndarray:
        """Return the group of each non-zero, from the batch or else from the table; an empty array without groups.

        A bank that has learned without groups predicts without them, even if the batch has some.
        """
        self.has_groups |= learns and batch.groups is not None
        if batch.groups is not None and self.has_groups:
            return batch.groups
        return read_only(self._lanes.groups[batch.indices]) if self.has_groups else NO_GROUPS

    def rebase_fade(self) -> None:
        """Fold factors that have become small into the tables; this is bound by memory, so large tables use threads."""
        state, (fade, folds) = self._lanes.state, self._lanes.fade
        while (fade < FOLD).any():
            parts = [part.reshape(-1) for part in np.array_split(state, N_PARTS)]
            threads.all_done([partial(fold, part, fade) for part in parts], apart=state.nbytes > THREADED_BYTES)
            folds += fade < FOLD
            fade /= np.where(fade < FOLD, FOLD, 1.0)

    def will_rebase(self, examples: int) -> bool:
        """Return whether `rebase_fade` will change the tables after this many more examples."""
        return bool((self._lanes.fade[0] * self._lanes.settings[STAYS] ** examples < FOLD).any())

    def learned(self) -> list[LearnedPrior]:
        """Return the prior of each group seen, from the first lane that learns priors; empty if no lane does."""
        lanes, learned = self._lanes, np.flatnonzero(self._lanes.settings[NATURAL])
        if not len(learned):
            return []
        met = np.bincount(lanes.groups[nonzero_rows(lanes.state)], minlength=len(lanes.held))
        sds = lanes.factors()[learned[0]] / np.sqrt(lanes.held[:, learned[0]].astype(np.float64))
        return [LearnedPrior(group, float(sds[group]), int(met[group])) for group in np.flatnonzero(met).tolist()]
