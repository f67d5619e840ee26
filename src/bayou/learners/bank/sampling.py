"""Draws of weights from a bank: the choice of a lane, and weights from its posterior.

A draw is one weight vector: that of one lane, chosen with a probability proportional to exp(-its summed loss), which is
Bayes' rule if lanes are equally likely at first. Only lanes with a proper posterior are drawn from: tempered lanes use
only part of their variance, lanes with memory discard evidence, and AdaGrad has no variance. If a bank has no such
lane, any Gaussian one may be drawn from, and if all are AdaGrad, any lane. The head is one more such lane; where it
fits (`head`), draws for intervals are all from it, as intervals of later rows are.

    w_i = e^l (mu_i + r n_i sqrt(v_i))       n_i standard normal

r^2 = 1 is for intervals. For choosing, r^2 = 1/2 has performed better (`docs/howto/bandit.md`): it explores less, but
still enough.
"""

from __future__ import annotations

import numpy as np

from bayou.core.batch import Batch
from bayou.core.links import C8
from bayou.core.sampling import draw_gaussian
from bayou.kernels.random import choices
from bayou.learners.bank.combination import Combination
from bayou.learners.bank.head import Head
from bayou.learners.bank.lanes import ADAGRAD_RATE, IS_ACTIVE, TIME_DECAY, UPDATE_DAMPING, USE_DECAY, LaneState
from bayou.learners.bank.linearization import lane_component

SHARE_OF_VARIANCE = {"choose": 0.5, "interval": 1.0}  # r^2


def lanes_to_draw(
    lanes: LaneState, combination: Combination, head: Head | None = None, purpose: str = "choose"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the lanes that a draw may take, the head's first one included, and their probabilities."""
    slots, losses = combination.slots, np.full(max(lanes.width, int(combination.lane_of.max()) + 1), np.inf)
    # A lane with two outputs is judged by the better one.
    np.minimum.at(
        losses, combination.lane_of, np.where(combination.is_kept[slots], combination.summed_losses()[slots], np.inf)
    )
    settings = lanes.settings
    live = settings[IS_ACTIVE] > 0
    gaussian = live & (settings[ADAGRAD_RATE] == 0)
    proper = gaussian & (settings[UPDATE_DAMPING] == C8) & (settings[USE_DECAY] == 1) & (settings[TIME_DECAY] == 1)
    numbers = next(np.flatnonzero(allowed) for allowed in (proper, gaussian, live) if allowed.any())
    if head is not None and head.live:
        numbers = np.array([head.column]) if purpose == "interval" and head.fits else np.append(numbers, head.column)
    evidence = np.exp(losses[numbers].min() - losses[numbers])
    return numbers, evidence / evidence.sum()


def draw(
    lanes: LaneState,
    combination: Combination,
    batch: Batch,
    places: np.ndarray,
    seed: np.uint64,
    purpose: str,
    scores: np.ndarray,
    head: Head | None = None,
) -> None:
    """Fill scores[draw, row], each draw from one lane; `places` are the table rows of the non-zeros' weights."""
    numbers, chances = lanes_to_draw(lanes, combination, head, purpose)
    taken, share = numbers[choices(seed, chances, len(scores))], SHARE_OF_VARIANCE[purpose]
    for lane in np.unique(taken).tolist():
        draws = np.flatnonzero(taken == lane)
        if head is not None and lane == head.column:
            head.draw(batch, seed, share, draws, scores)
            continue
        _, weights, (bias, unsure) = lane_component(lanes, lane, places)
        variance = share * np.asarray(weights.variance)
        intercept = (bias, share * unsure) if lanes.has_intercept else (0.0, 0.0)
        draw_gaussian(batch, weights.mean, variance, intercept, seed, draws, scores)
