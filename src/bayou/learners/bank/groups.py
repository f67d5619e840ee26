"""Groups of a bank's features, the prior learned for each, and the upkeep of lanes that fade."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from bayou.core import threads
from bayou.core.arrays import read_only
from bayou.core.batch import Batch
from bayou.core.model_file import nonzero_rows
from bayou.learners.bank.lanes import HAS_LEARNED_PRIOR, PRIOR_PRECISION, STREAM_NON_UNIT_ROWS, TIME_DECAY, LaneState
from bayou.learners.bank.priors import FADE_REBASE_THRESHOLD, MIN_FADE, fill_prior_precisions, rebase_fade
from bayou.learners.bank.row_scaling import rebuild_tracked

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
        fill_prior_precisions(
            lanes.prior_precisions,
            lanes.settings[PRIOR_PRECISION],
            lanes.priors,
            np.flatnonzero(lanes.settings[HAS_LEARNED_PRIOR]),
        )

    def restore(self) -> None:
        """Recompute the state that files do not store, after the arrays were loaded."""
        lanes = self._lanes
        self.has_groups = bool(lanes.groups.any())
        np.clip(lanes.fade[0], MIN_FADE, 1.0, out=lanes.fade[0])
        if lanes.stream[STREAM_NON_UNIT_ROWS]:
            rebuild_tracked(lanes.tracked, lanes.squares)

    def of_batch(self, batch: Batch, learns: bool = False) -> np.ndarray:
        """Return the group of each non-zero, from the batch or else from the table; an empty array without groups.

        A bank that has learned without groups predicts without them, even if the batch has some.
        """
        self.has_groups |= learns and batch.groups is not None
        if batch.groups is not None and self.has_groups:
            return batch.groups
        return read_only(self._lanes.groups[batch.indices]) if self.has_groups else NO_GROUPS

    def rebase_fade(self) -> None:
        """Fold factors that have become small into the tables. This is memory-bound, so large tables use threads."""
        state, (fade, folds) = self._lanes.state, self._lanes.fade
        while (fade < FADE_REBASE_THRESHOLD).any():
            parts = [part.reshape(-1) for part in np.array_split(state, N_PARTS)]
            threads.run_all(
                [partial(rebase_fade, part, fade) for part in parts], parallel=state.nbytes > THREADED_BYTES
            )
            folds += fade < FADE_REBASE_THRESHOLD
            fade /= np.where(fade < FADE_REBASE_THRESHOLD, FADE_REBASE_THRESHOLD, 1.0)

    def will_rebase(self, examples: int) -> bool:
        """Return whether `rebase_fade` will change the tables after this many more examples."""
        return bool((self._lanes.fade[0] * self._lanes.settings[TIME_DECAY] ** examples < FADE_REBASE_THRESHOLD).any())

    def learned(self) -> list[LearnedPrior]:
        """Return the prior of each group seen, from the first lane that learns priors; empty if no lane does."""
        lanes, learned = self._lanes, np.flatnonzero(self._lanes.settings[HAS_LEARNED_PRIOR])
        if not len(learned):
            return []
        met = np.bincount(lanes.groups[nonzero_rows(lanes.state)], minlength=len(lanes.prior_precisions))
        sds = lanes.factors()[learned[0]] / np.sqrt(lanes.prior_precisions[:, learned[0]].astype(np.float64))
        return [LearnedPrior(group, float(sds[group]), int(met[group])) for group in np.flatnonzero(met).tolist()]
