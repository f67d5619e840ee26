"""Dropping outputs of the bank as it learns: by narrowing, or because a lane of pairs or the head does not pay off.

The evidence that an output is worth its coefficient is the logarithm of the density of c_k = 0 in a stacker before the
data over that after them. The head (`judge_head`) is compared with combinations that do without it: it is dropped if it
has not lowered the live loss by `Head.pays`, and predicts later rows if it has lowered their loss by WORTH_LATER. All
checks happen after fixed numbers of examples, so that they depend on nothing else.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayou.core.model_file import packed
from bayou.core.state import contents_of, restore
from bayou.learners.bank.combination import Combination, drop_outputs, reset_shares
from bayou.learners.bank.groups import GroupPriors
from bayou.learners.bank.head import Head
from bayou.learners.bank.lanes import (
    INITIAL_PRECISION,
    IS_ACTIVE,
    PRECISION_PER_SQUARE,
    PRIOR_PRECISION,
    TIME_DECAY,
    USE_DECAY,
    LaneState,
)
from bayou.learners.bank.pairs import MIN_LANE_GAIN, PairLanes

if TYPE_CHECKING:
    from bayou.learners.bank.learner import Bank

# The head predicts later rows if it has lowered their delayed loss by this share.
WORTH_LATER = 1e-3
TINY = 1e-300
# Number of outputs that are kept, by the number of examples after which the others are dropped.
NARROWING = {4096: 12, 16384: 8}


# Progress of a twin.
#   MEASURES      1 while the live one learns
#   GAPS          sum over measured rows of the live loss without the head less that with it
#   GAP_SQUARES   the same of its square
#   LOSS          sum over measured rows of the live loss with the head
MEASURES, GAPS, GAP_SQUARES, LOSS, PROGRESS = range(5)


class HeadTwin(NamedTuple):
    """Combinations of the same lanes without the head, for measuring what the head is worth."""

    live: Combination  # learns from some rows of each doubling
    later: Combination  # learns from the same delayed rows as that with the head
    progress: np.ndarray
    predicts: np.ndarray  # 1 if `later` predicts later rows

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays, keyed by their names in the model file."""
        named = {f"twin {name}": array for name, array in self.live.arrays().items()}
        named |= {f"later twin {name}": array for name, array in self.later.arrays().items()}
        named |= {"twin progress": self.progress, "later twin predicts": self.predicts}
        return {name: array.reshape(1, -1) for name, array in named.items()}


class Dropping:
    """Drops outputs that do not pay.

    Args:
        live: the combination whose evidence decides.
        later: the combination for later rows, which has the outputs that `static` marks.
        lanes, groups, pairs: where lanes without a remaining output are disabled.
        narrows: whether outputs are dropped by NARROWING.
    """

    def __init__(
        self,
        live: Combination,
        later: Combination,
        static: np.ndarray,
        lanes: LaneState,
        groups: GroupPriors,
        pairs: PairLanes | None,
        narrows: bool,
        head: Head | None = None,
        twin: HeadTwin | None = None,
    ) -> None:
        self._live, self._later, self._static = live, later, static
        self._lanes, self._groups, self._pairs, self._narrows = lanes, groups, pairs, narrows
        self._head, self._twin = head, twin
        self._pairs_of_combinations = [(live, later)] if twin is None else [(live, later), (twin.live, twin.later)]
        if twin is not None:
            self._drop_in(twin.live, twin.later, self._head_slots)
            twin.progress[MEASURES] = 1.0
        self._new_twin = {} if twin is None else {name: array.copy() for name, array in twin.arrays().items()}

    def next_stop(self, examples: int) -> int:
        """Return the number of examples at which outputs may be dropped next; -1 for never."""
        stops = [count for count in NARROWING if count > examples] if self._narrows else []
        if self._pairs is not None and (look := self._pairs.next_check_example(examples)) > 0:
            stops.append(look)
        if (head := self._auto_head) is not None:
            stops += [stop for stop in head.next_look(examples) if stop > examples]
        return min(stops, default=-1)

    @property
    def _auto_head(self) -> Head | None:
        """The head, if it is to be dropped where it does not pay."""
        return self._head if self._head is not None and self._head.is_auto and self._head.live else None

    @property
    def twin(self) -> HeadTwin | None:
        """The combinations without the head, as long as it may be dropped."""
        return None if self._auto_head is None else self._twin

    @property
    def later(self) -> Combination:
        """The combination that predicts later rows."""
        twin = self.twin
        return self._later if twin is None or not twin.predicts[0] else twin.later

    @property
    def _head_slots(self) -> np.ndarray:
        return np.arange(0) if self._head is None else 2 + np.flatnonzero(self._live.lane_of >= self._head.column)

    def at_stop(self, examples: int) -> None:
        """Drop the outputs that do not pay, at a number of examples that `next_stop` returned."""
        if self._narrows and examples in NARROWING:
            self._drop_weakest(NARROWING[examples])
        if self._pairs is not None and self._pairs.looks:
            narrowed = self._narrows and examples in NARROWING
            if narrowed or examples == self._pairs.next_check_example(examples - 1):
                self._drop_pairs(self._pairs)
        if (twin := self.twin) is not None and self._head is not None:
            start, end = self._head.next_look(examples - 1)
            if examples == start:
                twin.live.copy_from(self._live)
                drop_outputs(twin.live, self._head_slots)
                twin.progress[MEASURES] = 1.0
            elif examples == end:
                self.judge_head(twin)

    def drop(self, slots: np.ndarray) -> None:
        """Drop outputs: condition the stackers on c_k = 0, and disable lanes that have no output left."""
        for live, later in self._pairs_of_combinations:
            self._drop_in(live, later, slots)
        self.refresh()

    def drop_auto_head(self) -> None:
        """Drop the head if its size is automatic; later rows are predicted as if it had never existed."""
        if (twin := self.twin) is not None and self._head is not None:
            self._later.copy_from(twin.later)
            self.drop(self._head_slots)
            self._head.clear()
            for name, array in twin.arrays().items():  # as a new one, which files are read into
                array[:] = self._new_twin[name]

    def _drop_in(self, live: Combination, later: Combination, slots: np.ndarray) -> None:
        drop_outputs(live, slots)
        drop_outputs(later, self.later_slots(slots))
        if later.is_kept.any():  # one that had all of the shares may be gone
            reset_shares(later)

    def later_slots(self, slots: np.ndarray) -> np.ndarray:
        """Return the slots that the outputs in `slots` occupy in the combination for later rows."""
        return 2 + np.flatnonzero(np.isin(np.flatnonzero(self._static), slots - 2))

    def refresh(self) -> None:
        """Update settings and priors to the outputs that are kept."""
        live, settings = self._live, self._lanes.settings
        for pair in self._pairs_of_combinations:
            for combination in pair:
                combination.stacker_prior[2:] *= combination.is_kept[2:]
        is_live = np.bincount(live.lane_of, live.is_kept[live.slots], minlength=self._lanes.width) > 0
        if self._pairs is not None:
            self._pairs.live = is_live[self._pairs.column : self._pairs.column + len(self._pairs.lanes)].tolist()
        if self._head is not None:
            self._head.live = bool(is_live[self._head.column :].any())
        is_live = is_live[: self._lanes.width]
        settings[IS_ACTIVE] = is_live
        settings[USE_DECAY, ~is_live] = 1.0
        settings[PRIOR_PRECISION, ~is_live], settings[PRECISION_PER_SQUARE, ~is_live] = (
            settings[INITIAL_PRECISION, ~is_live],
            0.0,
        )  # no prior moves
        settings[TIME_DECAY, ~is_live] = 1.0
        self._groups.refresh()

    def new_twin(self, live: Combination, later: Combination) -> HeadTwin | None:
        """Return a twin of two new combinations, without the head's outputs; None if the head is not to be dropped."""
        if self.twin is None:
            return None
        self._drop_in(live, later, self._head_slots)
        return HeadTwin(live, later, np.zeros(PROGRESS), np.zeros(1))

    def judge_head(self, measured: HeadTwin | None) -> None:
        """Choose the combination for later rows by delayed losses, and drop a head that has not paid live.

        `measured`: the own twin, or one that replaces it.

        If in doubt, it is kept: three standard errors are added to the gain. Delayed losses depend on the rows at
        hand, so only predictions of later rows may depend on them.
        """
        if (twin := self.twin) is None or self._head is None or measured is None:
            return
        for own, theirs in zip((twin.live, twin.later), (measured.live, measured.later), strict=True):
            own.copy_from(theirs)
        twin.progress[:] = measured.progress
        with_head, without = (each.summed_losses()[each.shares.size] for each in (self._later, twin.later))
        twin.predicts[0] = with_head >= (1.0 - WORTH_LATER) * without
        _, gaps, squares, loss = twin.progress.tolist()
        twin.progress[MEASURES] = 0.0
        if not self._head.pays((gaps + 3.0 * math.sqrt(squares)) / max(loss, TINY)):
            self.drop_auto_head()

    def _drop_weakest(self, n_kept: int) -> None:
        """Keep the `n_kept` outputs with the most evidence, summed over the stackers, and drop the others."""
        slots = np.flatnonzero(self._live.is_kept)
        evidence = np.sum(self._log_evidence_nonzero(slots), axis=0)
        self.drop(slots[np.argsort(-evidence, kind="stable")[n_kept:]])

    def _drop_pairs(self, pairs: PairLanes) -> None:
        """Drop lanes of pairs that do not pay, one at a time and the worst first: others may pay without it."""
        live = self._live
        losses, shares = live.summed_losses(), live.final_shares[1:]
        total = losses[live.shares.size]
        while any(pairs.live):
            kept = np.flatnonzero(live.is_kept)
            slots = kept[(live.lane_of[kept - 2] - pairs.column) // len(pairs.lanes) == 0]
            ahead = np.array([min(losses[kept[kept != slot]]) - losses[slot] for slot in slots.tolist()])
            if shares.size:
                ahead = np.maximum(shares @ self._log_evidence_nonzero(slots) / shares.sum(), ahead)
            if ahead.min() >= MIN_LANE_GAIN * total:
                break
            self.drop(slots[[int(np.argmin(ahead))]])

    def _log_evidence_nonzero(self, slots: np.ndarray) -> np.ndarray:
        """Return the log evidence that c_k != 0, one row per stacker."""
        live, evidence = self._live, []
        for mean, covariance in zip(live.stacker_mean, live.stacker_covariance, strict=True):
            variance, prior = np.diag(covariance)[slots], live.stacker_prior[slots]
            evidence.append((mean[slots] ** 2 / variance - np.log(prior / variance)) / 2.0)
        return np.array(evidence)


def without_head(bank: Bank) -> Bank:
    """Return a copy of a bank that has no head; an automatic one is dropped first."""
    if bank._head is None:
        return bank
    bank = copy.copy(bank)
    bank._dropping.drop_auto_head()
    (header, arrays), plain = contents_of(bank), type(bank)(**bank.parameters | {"head": 0})
    for kind, own, before in (
        ("", plain._combination, bank._combination),
        ("later ", plain._later_combination, bank._later_combination),
    ):
        own.copy_first(before)
        arrays |= {f"{kind}{name}": array.reshape(1, -1) for name, array in own.arrays().items()}
    header["parameters"].pop("head", None)
    return restore(type(bank), header, {name: packed(array) for name, array in arrays.items()})
