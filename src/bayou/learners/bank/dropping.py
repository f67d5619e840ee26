"""Outputs of the bank that are dropped on the way: by narrowing, or because a lane of pairs does not pay.

The evidence that an output is worth its coefficient is the density of c_k = 0 in a stacker before the data over that
after them, as a logarithm. Both looks are taken after fixed numbers of examples, so that they depend on nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayou.learners.bank.combination import Combination, drop_outputs, reset_shares
from bayou.learners.bank.lanes import KEEP, LIVE, PER_SQUARE, PRECISION, PRIOR, STAYS, LaneState
from bayou.learners.bank.merging import losses_of
from bayou.learners.bank.pairs import WORTH, PairLanes

# After that many examples, that many outputs are kept.
NARROWING = {4096: 12, 16384: 8}


class Dropping:
    """What a `Bank` can do without."""

    _lanes: LaneState
    _combination: Combination
    _later: Combination
    _static: np.ndarray
    _pairs: PairLanes | None
    _parameters: dict[str, Any]
    _fill_held: Any

    def _next_stop(self, examples: int) -> int:
        """After how many examples outputs may be dropped; -1 for never."""
        stops = [at for at in NARROWING if at > examples] if self._parameters["narrowing"] else []
        if self._pairs is not None and (look := self._pairs.next_look(examples)) > 0:
            stops.append(look)
        return min(stops, default=-1)

    def _stopped(self, examples: int) -> None:
        if self._parameters["narrowing"] and examples in NARROWING:
            self._narrow(NARROWING[examples])
        if self._pairs is not None and self._pairs.looks:
            self._drop_pairs()

    def _narrow(self, keep: int) -> None:
        """Keep the outputs with most evidence, summed over the stackers; the others as if they had never been."""
        slots = np.flatnonzero(self._combination.kept)
        evidence = np.sum(self._evidence(slots), axis=0)
        self._drop(slots[np.argsort(-evidence, kind="stable")[keep:]])

    def _evidence(self, slots: np.ndarray) -> np.ndarray:
        """That c_k != 0 in each stacker: the density of c_k = 0 before the data over that after them, as logarithms."""
        combination, found = self._combination, []
        for mean, covariance in zip(combination.stacker_mean, combination.stacker_covariance, strict=True):
            now, before = np.diag(covariance)[slots], combination.stacker_prior[slots]
            found.append((mean[slots] ** 2 / now - np.log(before / now)) / 2.0)
        return np.array(found)

    def _drop_pairs(self) -> None:
        """Let go of lanes of pairs that do not pay, the worst first: without it others may."""
        combination, pairs = self._combination, self._pairs
        assert pairs is not None
        losses = losses_of(combination)
        total = losses[combination.shares.size]
        while any(pairs.live):
            kept = np.flatnonzero(combination.kept)
            slots = kept[combination.lane_of[kept - 2] >= pairs.column]
            ahead = np.array([min(losses[kept[kept != slot]]) - losses[slot] for slot in slots.tolist()])
            worth = np.maximum(self._evidence_in_mean(slots), ahead)
            if worth.min() >= WORTH * total:
                break
            self._drop(slots[[int(np.argmin(worth))]])

    def _evidence_in_mean(self, slots: np.ndarray) -> np.ndarray:
        shares = self._combination.final_shares[1:]
        return shares @ self._evidence(slots) / shares.sum() if shares.size else np.full(len(slots), -np.inf)

    def _drop(self, slots: np.ndarray) -> None:
        """Condition the stackers on c_k = 0, and let lanes rest none of whose outputs is left."""
        drop_outputs(self._combination, slots)
        static = np.flatnonzero(self._static)
        drop_outputs(self._later, 2 + np.flatnonzero(np.isin(static, slots - 2)))
        if self._later.kept.any():  # one that had all of the shares may be gone
            reset_shares(self._later)
        self._rest()

    def _rest(self) -> None:
        """What follows from which outputs are kept."""
        combination, settings = self._combination, self._lanes.settings
        combination.stacker_prior[2:] *= combination.kept[2:]
        self._later.stacker_prior[2:] *= self._later.kept[2:]
        kept = combination.kept[combination.slots]
        live = np.bincount(combination.lane_of, kept, minlength=self._lanes.width) > 0
        if self._pairs is not None:
            self._pairs.live, live = live[self._pairs.column :].tolist(), live[: self._pairs.column]
        settings[LIVE] = live
        settings[KEEP, ~live] = 1.0
        settings[PRIOR, ~live], settings[PER_SQUARE, ~live] = settings[PRECISION, ~live], 0.0  # no prior moves
        settings[STAYS, ~live] = 1.0
        self._fill_held()
