"""Common part of the Bayesian stackers of all ensembles: constants, and the resulting coefficients.

A stacker is a regression on the output of a mixture (coefficient a, offset b) and on the distance of each output from
it (c_k), with a full covariance S and the prior S0. Of two stackers the second forgets: S += STACKER_MEMORY (S0 - S).
"""

from __future__ import annotations

import numpy as np

# Prior variance of the offset b and of the coefficient a.
STACKER_PRIOR = 0.01
# Fraction of its prior that the stacker that forgets regains with every example.
STACKER_MEMORY = 1e-4
# Bound of the logits of outputs, so that no product of probabilities vanishes: S(-30) is 1e-13.
MAX_LOGIT = 30.0
# Bound of the logits that stackers read: a larger one carries no more information, but more leverage.
MAX_STACKED_LOGIT = 15.0


def output_coefficients(shares: np.ndarray, final_shares: np.ndarray, stacker_means: np.ndarray) -> np.ndarray:
    """Return the coefficient of each output in the last level, whose members are the mixture and the stackers.

    Args:
        shares: shares of the outputs in the mixture.
        final_shares: shares of the mixture and of each stacker in the last level.
        stacker_means: one row (b, a, c_1, c_2, ...) per stacker.
    """
    coefficients = final_shares[0] * shares
    for share, mean in zip(final_shares[1:], stacker_means, strict=True):
        c = mean[2:]
        coefficients = coefficients + share * ((1.0 + mean[1] - c.sum()) * shares + c)
    return coefficients
