"""The combination on top of the bank's lanes, in three levels: fixed share, two stackers, fixed share.

It reads the lane outputs of each row (`lanes`) and feeds nothing back to the lanes. The equations are in the docstring
of `learner`, the levels in `combination_kernels`. Its state is small, dense and in float64.

**Later rows.** The live combination predicts the next example, given all labels so far: it relies on lanes with a short
memory, on a stacker that forgets, on shares that adapt. A model that is trained and then only predicts has no use for
them. A second combination, beside the live one and without state per feature, predicts later examples:

    outputs     those of lanes without memory by use; a lane that fades by time, over ten thousand examples, is included
    shares      Bayes' rule (`ensembles.shares`), for the outputs and for the last level
    stacker     only the one that does not forget

It learns from delayed outputs (`ensembles.delayed`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.links import C8
from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import log
from bayou.kernels.huge_pages import aligned_zeros
from bayou.kernels.vector import LANES, load, pad_to_lanes, store
from bayou.learners.bank import combination_kernels as levels
from bayou.learners.bank.lanes import ADAGRAD_RATE, LaneState
from bayou.learners.ensembles.delayed import MIN_PROBABILITY
from bayou.learners.ensembles.shares import shares_from_losses
from bayou.learners.ensembles.stackers import STACKER_PRIOR

# Prior variance of the coefficients of all lanes together that have no other.
COEFFICIENTS_PRIOR = 10.0
# Slot of `damping` that belongs to the score, not to an output.
SCORE = 0
# Rows of `delayed`: log loss (if the row was predicted ahead) and log-odds of each sampled row; else NaN.
DELAYED_LOSS, DELAYED_LOG_ODDS = range(2)


class Output(NamedTuple):
    """An output of a lane; lanes beside the bank's own, of pairs and of the head, come after them."""

    lane: int
    temper: float  # kp
    prior: float | None = None  # prior variance of its coefficient in the stackers; None for a part of the common one
    later_prior: float | None = None  # the same in the combination for later rows, if it differs
    first_share: float = 1.0  # of the mixture at first, relative to the other outputs
    has_weights: bool = True  # whether weights of single features determine it


class Combination(NamedTuple):
    """The outputs of all lanes and the learned state of their combination, as kernels take it.

    Slots of a stacker's coefficients: b, A, then one for each output. Arrays over outputs have the same slots.
    """

    lane_of: np.ndarray  # the lane of each output
    has_variance: np.ndarray  # of each slot, whether the lane gives a variance
    output_damping: np.ndarray  # C8 kp
    is_kept: np.ndarray  # 1; 0 for slots of no output, or of one that narrowing has dropped
    first_shares: np.ndarray  # relative to each other
    has_weights: np.ndarray  # of each lane, whether weights with variances determine its outputs
    shares: np.ndarray  # w
    final_shares: np.ndarray  # of the mixture and the stackers, in the third level
    stacker_prior: np.ndarray  # the diagonal of S0
    stacker_mean: np.ndarray  # a row for each stacker
    stacker_covariance: np.ndarray
    # Losses of outputs and finals, and products of probabilities that are not yet added to them.
    losses: np.ndarray
    # Recent mean of an output's damping relative to the score's, less 1. The combination for later rows keeps the two
    # separately: the damping of each output, and in slot SCORE that of the score.
    damping: np.ndarray

    @property
    def slots(self) -> slice:
        return slice(2, 2 + len(self.lane_of))

    def summed_losses(self) -> np.ndarray:
        """Return the losses of outputs, then of the last level, summed over all examples."""
        losses: np.ndarray = self.losses[0] - np.log(self.losses[1])
        return losses

    def copy_from(self, other: Combination) -> None:
        """Copy the state of another combination of the same outputs."""
        for own, theirs in zip(self, other, strict=True):
            own[:] = theirs

    def copy_first(self, other: Combination) -> None:
        """Copy the state of another combination that has more outputs after these, which have been dropped."""
        room, others = self.shares.size, other.shares.size
        for own, theirs in zip(self.arrays().values(), other.arrays().values(), strict=True):
            if own is not self.losses:
                own[:] = theirs[tuple(slice(n) for n in own.shape)]
        self.losses[:, :room], self.losses[:, room:] = other.losses[:, :room], other.losses[:, others:]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays, keyed by their names in the model file."""
        return {
            "shares": self.shares,
            "kept": self.is_kept,
            "final shares": self.final_shares,
            "stacker means": self.stacker_mean,
            "stacker covariances": self.stacker_covariance,
            "losses": self.losses,
            "damping": self.damping,
        }


def new_combination(lanes: LaneState, chosen: list[Output], n_stackers: int, bayes: bool = False) -> Combination:
    """Return an untrained combination of outputs; if `bayes`, its shares will be those of Bayes' rule."""
    outputs = len(chosen)
    room = pad_to_lanes(outputs + 2)
    slots = slice(2, 2 + outputs)
    lane_of = np.array([output.lane for output in chosen])
    width = max(lanes.width, int(lane_of.max()) + 1)
    has_variance, is_kept, output_damping = np.zeros(room), np.zeros(room), np.zeros(room, lanes.state.dtype)
    gaussian = np.ones(width)
    gaussian[: lanes.width] = lanes.settings[ADAGRAD_RATE] == 0
    has_weights = gaussian.copy()
    has_weights[[output.lane for output in chosen if not output.has_weights]] = 0.0
    has_variance[slots], is_kept[slots] = gaussian[lane_of], 1.0
    output_damping[slots] = [C8 * output.temper for output in chosen]
    common = COEFFICIENTS_PRIOR / max(sum(output.prior is None for output in chosen), 1)
    stacker_prior = is_kept.copy()
    stacker_prior[slots] = [common if output.prior is None else output.prior for output in chosen]
    first_shares = is_kept.copy()
    first_shares[slots] = [output.first_share for output in chosen]
    stacker_prior[:2] = STACKER_PRIOR if lanes.has_intercept else 0.0, STACKER_PRIOR
    covariance = aligned_zeros(n_stackers, room * room, "float64")
    covariance[:] = np.diag(stacker_prior).ravel()
    losses = np.zeros((2, room + LANES))
    losses[1] = 1.0
    if bayes:
        losses[0, slots] = 0.0 - np.log(first_shares[slots])
    return Combination(
        lane_of=lane_of,
        has_variance=has_variance,
        output_damping=output_damping,
        is_kept=is_kept,
        first_shares=first_shares,
        has_weights=has_weights,
        shares=first_shares / first_shares.sum(),
        final_shares=np.full(1 + n_stackers, 1.0 / (1 + n_stackers)),
        stacker_prior=stacker_prior,
        stacker_mean=np.zeros((n_stackers, room)),
        stacker_covariance=covariance.reshape(n_stackers, room, room),
        losses=losses,
        damping=np.zeros(room),
    )


def new_combinations(
    lanes: LaneState, outputs: list[Output], static: np.ndarray, n_stackers: int
) -> tuple[Combination, Combination]:
    """Return the untrained live combination of all outputs, and that of `static` ones for later rows."""
    later = [outputs[k] for k in np.flatnonzero(static)]
    later = [output._replace(prior=output.later_prior or output.prior) for output in later]
    live = new_combination(lanes, outputs, n_stackers)
    return live, new_combination(lanes, later, min(n_stackers, 1), bayes=True)


def drop_outputs(combination: Combination, slots: np.ndarray) -> None:
    """Drop the outputs of some slots: condition the stackers on c_k = 0, and renormalize the shares."""
    for slot in slots[combination.is_kept[slots] > 0].tolist():
        combination.is_kept[slot] = combination.stacker_prior[slot] = 0.0
        for mean, covariance in zip(combination.stacker_mean, combination.stacker_covariance, strict=True):
            gain = covariance[:, slot] / covariance[slot, slot]
            mean -= gain * mean[slot]
            covariance -= np.outer(gain, covariance[slot])
            mean[slot] = covariance[slot] = covariance[:, slot] = 0.0
    combination.shares[:] *= combination.is_kept
    combination.shares[:] /= combination.shares.sum() or 1.0


@kernel
def combine(lane_outputs, signs, weights, combination, first, last, examples, probability, score_mean, score_variance):
    """Predict each row in [first, last), then update from rows with nonzero weight. `combination`: a `Combination`."""
    n_slots, width, flat = combination.shares.size, lane_outputs.shape[2], lane_outputs.reshape(-1)
    losses, products = combination.losses[0], combination.losses[1]
    tile = levels.new_tile(combination, lane_outputs, last - first)
    row_offsets, fields = tile.row_offsets, tile.row_fields
    for start in range(first, last, levels.TILE_ROWS):
        n = min(levels.TILE_ROWS, last - start)
        for r in range(n):
            row_offsets[r] = (start + r) * 2 * width
            fields[levels.ROW_SIGN + r], fields[levels.ROW_WEIGHT + r] = signs[start + r], weights[start + r]
        levels.run_levels(combination, tile, flat, width, n, examples, False)
        # predictions, losses and damping
        for r in range(n):
            row, y, c = start + r, fields[levels.ROW_SIGN + r], fields[levels.ROW_WEIGHT + r]
            probability[row] = fields[levels.FINAL_P_POSITIVE + r]
            score_variance[row] = fields[levels.FINAL_VARIANCE + r]
            score_mean[row] = fields[levels.FINAL_LOG_ODDS + r] * fields[levels.FINAL_DAMPING + r]
            if c != 0.0:
                examples += 1
                levels.update_damping(combination, tile, r, fields[levels.FINAL_DAMPING + r], examples)
                low = levels.add_losses(tile.output_lines, n_slots, r, y, c, losses, products, 0)
                if levels.add_losses(tile.final_lines, LANES, r, y, c, losses, products, n_slots) or low:
                    for slot in range(0, n_slots + LANES, LANES):
                        store(losses, slot, load(losses, slot) - log(load(products, slot)))
                        store(products, slot, load(products, slot) * 0.0 + 1.0)
        levels.carry_shares(combination, tile, n)


@kernel
def add_gaps(signs, weights, with_head, without, first, last, sums):
    """Add up how much more learned rows in [first, last) cost without the head, its square, and their loss with it."""
    for row in range(first, last):
        c, y = np.float64(weights[row]), signs[row]
        if c != 0.0:
            loss = -math.log(max(with_head[row] if y > 0 else 1.0 - with_head[row], MIN_PROBABILITY))
            other = -math.log(max(without[row] if y > 0 else 1.0 - without[row], MIN_PROBABILITY))
            sums[0] += c * (other - loss)
            sums[1] += (c * (other - loss)) ** 2
            sums[2] += c * loss


@kernel
def learn_sampled_rows(lane_outputs, signs, weights, rows, ahead, combination, n_learned, delayed):
    """Update the combination for later rows from the lane outputs of `rows`; return the updated number of rows.

    If `ahead`, `lane_outputs` holds only these rows, predicted before their block was learned, and this combination's
    log losses are written to `delayed[DELAYED_LOSS]`. Otherwise it holds all rows, predicted without delay. In either
    case the log-odds are written to `delayed[DELAYED_LOG_ODDS]`.
    """
    n_slots, width, flat = combination.shares.size, lane_outputs.shape[2], lane_outputs.reshape(-1)
    losses, damping = combination.losses[0], combination.damping
    tile = levels.new_tile(combination, lane_outputs, rows.size)
    row_offsets, fields = tile.row_offsets, tile.row_fields
    for start in range(0, rows.size, levels.TILE_ROWS):
        n = min(levels.TILE_ROWS, rows.size - start)
        for r in range(n):
            row = rows[start + r]
            row_offsets[r] = (start + r if ahead else row) * 2 * width
            fields[levels.ROW_SIGN + r], fields[levels.ROW_WEIGHT + r] = signs[row], weights[row]
        levels.run_levels(combination, tile, flat, width, n, 0, True)
        # predictions, losses and damping
        for r in range(n):
            row, n_learned = rows[start + r], n_learned + 1
            levels.update_damping(combination, tile, r, 1.0, n_learned)
            latest = max(1.0 / n_learned, levels.DAMPING_MEMORY)
            damping[SCORE] += (fields[levels.FINAL_DAMPING + r] - 1.0 - damping[SCORE]) * latest
            loss = -math.log(
                fields[levels.FINAL_P_POSITIVE + r]
                if fields[levels.ROW_SIGN + r] > 0.0
                else fields[levels.FINAL_P_NEGATIVE + r]
            )
            losses[n_slots] += fields[levels.ROW_WEIGHT + r] * loss
            delayed[DELAYED_LOG_ODDS, row] = fields[levels.FINAL_LOG_ODDS + r]
            if ahead:
                delayed[DELAYED_LOSS, row] = loss
        levels.carry_shares(combination, tile, n)
    return n_learned


@kernel
def reset_shares(combination):
    """Set the shares of outputs and of the last level by Bayes' rule from their losses."""
    n_slots, finals, all_finals = combination.shares.size, zeros(LANES, np.float64), zeros(LANES, np.float64)
    final_shares, losses = combination.final_shares, combination.losses[0]
    for j in range(final_shares.size):
        all_finals[1 + j] = 1.0
    shares_from_losses(losses, 0, combination.is_kept, combination.has_variance, combination.shares, 0, n_slots)
    shares_from_losses(losses, n_slots, all_finals, all_finals, finals, 0, LANES)
    for j in range(final_shares.size):
        final_shares[j] = finals[1 + j]
