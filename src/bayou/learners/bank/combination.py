"""The combination on top of the bank's lanes, in three levels: fixed share, two stackers, fixed share.

It reads what the lanes said of each row (`lanes`) and tells them nothing. The equations are in the docstring of
`learner`, the levels in `levels`. All of it is small, dense and in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayou.core.links import C8
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import log
from bayou.kernels.pages import aligned_zeros
from bayou.kernels.vector import LANES, load, padded, store
from bayou.learners.bank.lanes import RATE, Lanes
from bayou.learners.bank.levels import (
    BLOCK,
    CHANCE,
    FLOOR,
    ODDS,
    SHRINK,
    VARIANCE,
    WEIGHT,
    Y,
    conclude,
    fixed_share,
    hear,
    learn_damping,
    learn_losses,
    mix,
    new_block,
    next_shares,
    say,
    stack,
)

STACKER_PRIOR, STACKER_SPREAD, COEFFICIENT_PRIOR = 0.01, 10.0, 0.01
SCORE = 0


class Combination(NamedTuple):
    """The outputs of all lanes and what was learned of them, as kernels take it.

    Slots of a stacker's coefficients: b, A, then one for each output. What is kept of outputs has the same slots.
    """

    lane_of: np.ndarray  # the lane of each output
    knows: np.ndarray  # of each slot, whether the lane knows the variance of what it says
    output_spread: np.ndarray  # C8 kp
    kept: np.ndarray  # 1; 0 for slots of no output, or of one that narrowing has dropped
    shares: np.ndarray  # w
    final_shares: np.ndarray  # of the mixture and the stackers, in the third level
    stacker_prior: np.ndarray  # the diagonal of S0
    stacker_mean: np.ndarray  # a row for each stacker
    stacker_covariance: np.ndarray
    # Losses of outputs and finals, and the products of probabilities that were not yet added to them.
    losses: np.ndarray
    # How much more an output is damped than the score is, lately; less 1. The combination for later rows has apart how
    # much an output is damped, and in slot SCORE how much the score is.
    damping: np.ndarray

    @property
    def slots(self) -> slice:
        return slice(2, 2 + len(self.lane_of))

    def arrays(self) -> dict[str, np.ndarray]:
        """What was learned, by the names that files have for it."""
        return {
            "shares": self.shares,
            "kept": self.kept,
            "final shares": self.final_shares,
            "stacker means": self.stacker_mean,
            "stacker covariances": self.stacker_covariance,
            "losses": self.losses,
            "damping": self.damping,
        }


def new_combination(lanes: Lanes, chosen: list[tuple[int, float]], n_stackers: int) -> Combination:
    """Of some outputs, each a lane and its kp, before anything was learned; behind the last lane are those of pairs."""
    outputs = len(chosen)
    room = padded(outputs + 2)
    slots = slice(2, 2 + outputs)
    lane_of = np.array([lane for lane, _ in chosen])
    knows, kept, output_spread = np.zeros(room), np.zeros(room), np.zeros(room, lanes.state.dtype)
    of_pairs = lane_of >= lanes.width
    knows[slots] = of_pairs | (lanes.settings[RATE, np.where(of_pairs, 0, lane_of)] == 0)
    kept[slots] = 1.0
    output_spread[slots] = [C8 * temper for _, temper in chosen]
    stacker_prior = kept * (STACKER_SPREAD / max(outputs - int(of_pairs.sum()), 1))
    stacker_prior[slots][of_pairs] = COEFFICIENT_PRIOR
    stacker_prior[:2] = STACKER_PRIOR if lanes.has_intercept else 0.0, STACKER_PRIOR
    covariance = aligned_zeros(n_stackers, room * room, "float64")
    covariance[:] = np.diag(stacker_prior).ravel()
    losses = np.zeros((2, room + LANES))
    losses[1] = 1.0
    return Combination(
        lane_of=lane_of,
        knows=knows,
        output_spread=output_spread,
        kept=kept,
        shares=kept / outputs,
        final_shares=np.full(1 + n_stackers, 1.0 / (1 + n_stackers)),
        stacker_prior=stacker_prior,
        stacker_mean=np.zeros((n_stackers, room)),
        stacker_covariance=covariance.reshape(n_stackers, room, room),
        losses=losses,
        damping=np.zeros(room),
    )


def drop_outputs(combination: Combination, slots: np.ndarray) -> None:
    """The outputs of some slots as if they had never been: the stackers conditioned on c_k = 0."""
    for slot in slots.tolist():
        combination.kept[slot] = 0.0
        for mean, covariance in zip(combination.stacker_mean, combination.stacker_covariance, strict=True):
            gain = covariance[:, slot] / covariance[slot, slot]
            mean -= gain * mean[slot]
            covariance -= np.outer(gain, covariance[slot])
            mean[slot] = covariance[slot] = covariance[:, slot] = 0.0
    combination.shares[:] *= combination.kept
    combination.shares[:] /= combination.shares.sum() or 1.0


@kernel
def combine(said, signs, weights, into, first, last, examples, probability, score_mean, score_variance):
    """Predict rows from `first` to `last`, learn from those whose weight is not 0. `into` is a `Combination`."""
    means, covariances = into.stacker_mean.reshape(-1), into.stacker_covariance.reshape(-1)
    room, width, told = into.shares.size, said.shape[2], said.reshape(-1)
    losses, products = into.losses[0], into.losses[1]
    here = new_block(into, said, last - first)
    places, numbers = here.places, here.numbers
    for start in range(first, last, BLOCK):
        n = min(BLOCK, last - start)
        for r in range(n):
            places[r] = (start + r) * 2 * width
            numbers[Y + r], numbers[WEIGHT + r] = signs[start + r], weights[start + r]
        hear(into, here, told, width, n)
        count = examples
        for r in range(n):
            say(into, here, r)
            fixed_share(here.outputs, numbers, here.slots, FLOOR * room, room, r, count)
            count += numbers[WEIGHT + r] != 0.0
        mix(into, here, n)
        count = examples
        for r in range(n):
            stack(into, here, means, covariances, r)
            fixed_share(here.finals, numbers, here.final_floor, 0, LANES, r, count)
            count += numbers[WEIGHT + r] != 0.0
        conclude(into, here, n)
        for r in range(n):
            row, y, c = start + r, numbers[Y + r], numbers[WEIGHT + r]
            probability[row], score_variance[row] = numbers[CHANCE + r], numbers[VARIANCE + r]
            score_mean[row] = numbers[ODDS + r] * numbers[SHRINK + r]
            if c != 0.0:
                examples += 1
                learn_damping(into, here, r, numbers[SHRINK + r], examples)
                low = learn_losses(here.outputs, room, r, y, c, losses, products, 0)
                if learn_losses(here.finals, LANES, r, y, c, losses, products, room) or low:
                    for at in range(0, room + LANES, LANES):
                        store(losses, at, load(losses, at) - log(load(products, at)))
                        store(products, at, load(products, at) * 0.0 + 1.0)
        next_shares(into, here, n)
