"""Inspection of a bank: each output of each lane, and the levels of the combination."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.kernels.vector import LANES
from bayou.learners.bank.combination import Combination
from bayou.learners.bank.lanes import STREAM_WEIGHT, LaneState
from bayou.learners.bank.pairs import PairLane
from bayou.learners.bank.presets import Lane

# Entries after the outputs in the table of losses: the bank itself, the mixture, the stackers.
FINALS = ("bank", "mixture", "stacker", "stacker with memory")


class OutputInfo(NamedTuple):
    """Settings and statistics of one output of a lane; `Bank.lanes` lists them."""

    lane: Lane | PairLane
    temper: float  # kp of this output
    weight: float  # its share of the mixture
    stacking: float  # its coefficient c_k, the mean over both stackers by their shares
    loss: float  # its own mean log loss so far; NaN once it is dropped
    scale: float  # the factor e^l it has learned, 1 if it learns none
    kept: bool  # not dropped by narrowing

    @property
    def name(self) -> str:
        """The lane's name, with kp if this is its second output."""
        return str(self.lane) + (f", kp {self.temper:g}" if self.temper == self.lane.second else "")


def outputs_of(
    lanes: LaneState, combination: Combination, chosen: list[tuple[Lane | PairLane, float]]
) -> list[OutputInfo]:
    """Return an `OutputInfo` for each output, given its lane and kp in `chosen`."""
    scales = np.exp(np.append(lanes.scale[0], 0.0))[np.minimum(combination.lane_of, lanes.width)]
    columns = [
        combination.shares,
        _mean_coefficients(combination),
        _mean_losses(lanes, combination),
        combination.is_kept,
    ]
    numbers = zip(*(column[combination.slots].tolist() for column in columns), scales.tolist(), strict=True)
    return [
        OutputInfo(lane, temper, weight, stacking, loss if kept else math.nan, scale, kept > 0)
        for (lane, temper), (weight, stacking, loss, kept, scale) in zip(chosen, numbers, strict=True)
    ]


def stages_of(lanes: LaneState, combination: Combination) -> dict[str, dict[str, float]]:
    """Return mean log loss so far, and share in the last level, of the bank, the mixture and the stackers."""
    losses, shares = _mean_losses(lanes, combination)[-LANES:], [1.0, *combination.final_shares]
    return {
        name: {"share": float(share), "loss": float(loss)}
        for name, share, loss in zip(FINALS[: len(shares)], shares, losses, strict=False)
    }


def _mean_losses(lanes: LaneState, combination: Combination) -> np.ndarray:
    weight = lanes.stream[STREAM_WEIGHT]
    losses = combination.summed_losses()
    return losses / weight if weight else np.full(losses.size, math.log(2.0))


def _mean_coefficients(combination: Combination) -> np.ndarray:
    """Return the stackers' coefficients of the outputs, averaged by the stackers' shares."""
    shares, means = combination.final_shares[1:], combination.stacker_mean
    return shares @ means / shares.sum() if shares.size else np.zeros(means.shape[1])
