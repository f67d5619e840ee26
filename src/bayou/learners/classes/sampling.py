"""Multiclass probabilities under drawn weights: one weight vector for each class, shared by all rows.

Each class's learner draws a score as in binary tasks. Under drawn weights a learner has one output instead of
several, so that the stack reduces to the following, with l the log of the drawn probabilities divided by their sum:

    m_k = l_k + b_k + a l_k + c (logit_k - ln sum_i exp(logit_i) - l_k)        c that of the softmax of the logits
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayou.core import links
from bayou.core.batch import Batch
from bayou.core.learner import Learner
from bayou.kernels.random import keyed
from bayou.learners.bank import Bank
from bayou.learners.bank.sampling import draw
from bayou.learners.classes.stack_inputs import StackState
from bayou.learners.ensembles.stackers import MAX_LOGIT

# Key of the seed of each class; no draw has this number.
_CLASS = 2**40


def drawn_logits(
    learners: Sequence[Learner], batch: Batch, places: np.ndarray, seed: int, purpose: str, n_draws: int
) -> np.ndarray:
    """Return logits under weights that each learner draws, shape (n_draws, rows, classes).

    `places` are the rows of the non-zeros' weights in the learners' tables.
    """
    logits = np.empty((n_draws, len(batch), len(learners)))
    for k, learner in enumerate(learners):
        scores, key = np.empty(logits.shape[:2]), np.uint64(keyed(np.uint64(seed), _CLASS, k))
        if isinstance(learner, Bank):
            draw(learner._lanes, learner._combination, batch, places, key, purpose, scores)
        else:
            learner._draw(batch, key, purpose, scores)
        scores = links.TABLE[learner.score_rule.link].log_odds(scores)
        logits[:, :, k] = np.clip(scores, -MAX_LOGIT, MAX_LOGIT)
    return logits


def stacked_draws(logits: np.ndarray, stack: StackState) -> np.ndarray:
    """Return the probabilities for drawn logits, shape (draws, rows, classes)."""
    from scipy.special import log_expit, log_softmax, softmax

    if not logits.size:
        return logits
    each = log_expit(logits)
    drawn = log_softmax(each, axis=-1)  # ln p - ln sum p
    beyond = log_softmax(logits, axis=-1) - drawn
    probability = stack.shares[0] * np.exp(drawn)
    n_classes, last = logits.shape[-1], stack.slots - 1
    for share, mean, offsets in zip(stack.shares[1:], stack.mean, stack.offsets, strict=True):
        score = (1.0 + mean[0]) * drawn + offsets[0, :n_classes] + mean[last] * beyond
        probability += share * softmax(score, axis=-1)
    return probability / probability.sum(axis=-1, keepdims=True)
