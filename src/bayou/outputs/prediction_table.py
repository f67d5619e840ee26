"""What is written down of a prediction: probability, score, and an interval; for the full stream if it was thinned.

Of a regressor: the mean, its variance, and the interval in which the number itself will be, noise and all.

Where only a share R of the negatives was kept (`Recipe.negative_rate`), a learner sees odds 1/R times too high. Odds
times R are those of the full stream; for the logistic link that is ln R added to the score.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numba import njit

from bayou.core import links
from bayou.core.errors import BadInput
from bayou.core.learner import Learner, Prediction

COLUMNS = ("probability", "mean", "variance", "low", "high")
REGRESSION_COLUMNS = ("mean", "variance", "low", "high")
WITHOUT_POSTERIOR = ("probability", "mean")
# How certain it is that what is bounded lies between low and high.
LEVEL = 0.95
# The middle 95 % of a normal distribution reach this many standard deviations to either side.
REACH = 1.959963984540054


def columns_of(learner: Learner) -> tuple[str, ...]:
    """What can be said of its predictions."""
    if learner.record.task == "regress":
        return REGRESSION_COLUMNS if learner.record.posterior else ("mean",)
    return COLUMNS if learner.record.posterior else WITHOUT_POSTERIOR


def answers(learner: Learner, predicted: Prediction, negative_rate: float = 1.0, level: float = LEVEL) -> np.ndarray:
    """One row for each of `columns_of(learner)`, one column for each example.

    `low` and `high` bound the middle of what the probability may be, 95 % or `level`: the link of the score's mean
    -+ 1.96 sd, or as many as the level needs.
    Where a score is both large and unsure, the probability itself, a mean, lies beyond that; then they reach to it.

    >>> from bayou import Batch
    >>> from bayou.learners import Marginal
    >>> learner = Marginal(n_features=8)
    >>> answers(learner, learner.predict(Batch.from_rows([{}]))).round(3).T
    array([[0.5  , 0.   , 3.   , 0.032, 0.968]])
    >>> answers(learner, learner.predict(Batch.from_rows([{}])), negative_rate=0.1).round(3).T
    array([[ 0.091, -2.303,  3.   ,  0.003,  0.749]])
    """
    table = np.empty((len(columns_of(learner)), len(predicted.mean)))
    reach = reach_of(level)
    if learner.record.task == "regress":
        table[0] = predicted.mean
        if learner.record.posterior:
            room = reach * np.sqrt(predicted.variance + predicted.noise)
            table[1:] = predicted.variance, predicted.mean - room, predicted.mean + room
        return table
    table[0], table[1] = predicted.probability, predicted.mean
    link = links.code(learner._parameters.get("link", "logistic"))
    if learner.record.posterior:
        table[2] = predicted.variance
        believed = learner._parameters.get("temper", (1.0, 1.0))[1]  # how much of its uncertainty it goes by
        _interval(link, reach * math.sqrt(believed), table)
    if negative_rate != 1.0:
        for row in (0, 3, 4) if learner.record.posterior else (0,):
            table[row] = of_full_stream(table[row], negative_rate)
        if link == links.LOGISTIC:
            table[1] += math.log(negative_rate)
    return table


def reach_of(level: float) -> float:
    """How many standard deviations to either side the middle `level` of a normal distribution reaches.

    >>> reach_of(0.95)
    1.959963984540054
    """
    if not 0.0 < level < 1.0:
        raise BadInput(f"level is {level}; it must lie between 0 and 1, such as 0.95.")
    return REACH if level == LEVEL else NormalDist().inv_cdf((1.0 + level) / 2.0)


def of_full_stream(probability: np.ndarray, negative_rate: float) -> np.ndarray:
    """Probabilities of the full stream, from those of one that keeps this share of the negatives.

    >>> of_full_stream(np.array([0.0, 0.5, 1.0]), 0.25)
    array([0. , 0.2, 1. ])
    """
    return probability * negative_rate / (probability * negative_rate + (1.0 - probability))


@njit(cache=True, nogil=True, error_model="numpy")
def _interval(link, reach, table):
    """Fill in rows 3 and 4, low and high, from the rows before: probability, mean and variance of the score."""
    for k in range(table.shape[1]):
        room = reach * math.sqrt(table[2, k])
        table[3, k] = min(links.cdf(link, table[1, k] - room), table[0, k])
        table[4, k] = max(links.cdf(link, table[1, k] + room), table[0, k])
