"""Which lane's weights a draw from the bank has, and what they are.

A draw is one weight vector: that of one lane, taken with a probability proportional to exp(-its summed loss), which is
Bayes' rule where lanes are equally likely at first. Only lanes whose posterior is one are drawn from: tempered lanes
believe too little of their variance, those with memory have given some of theirs back, and AdaGrad has none. In a bank
that has no other lanes any Gaussian one may be taken, and where all are AdaGrad any.

    w_i = e^l (mu_i + r n_i sqrt(v_i))       n_i standard normal

r^2 = 1 is for intervals. To choose, r^2 = 1/2 is better, as measured (`docs/howto/bandit.md`): it explores less, and
still enough.
"""

from __future__ import annotations

import numpy as np

from bayou.core.links import C8
from bayou.learners.bank.combination import Combination
from bayou.learners.bank.lanes import KEEP, LIVE, RATE, SPREAD, STAYS, LaneState

SHARE_OF_VARIANCE = {"choose": 0.5, "interval": 1.0}  # r^2


def lanes_to_draw(lanes: LaneState, combination: Combination) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the lanes that a draw may take, and the probability of each."""
    summed, products = combination.losses[:, combination.slots]
    losses = np.full(max(lanes.width, int(combination.lane_of.max()) + 1), np.inf)
    # Of two outputs the better one speaks for its lane.
    np.minimum.at(
        losses, combination.lane_of, np.where(combination.kept[combination.slots], summed - np.log(products), np.inf)
    )
    settings = lanes.settings
    live = settings[LIVE] > 0
    gaussian = live & (settings[RATE] == 0)
    whole = gaussian & (settings[SPREAD] == C8) & (settings[KEEP] == 1) & (settings[STAYS] == 1)
    numbers = next(np.flatnonzero(allowed) for allowed in (whole, gaussian, live) if allowed.any())
    evidence = np.exp(losses[numbers].min() - losses[numbers])
    return numbers, evidence / evidence.sum()
