"""What the Bayesian stackers of all ensembles have in common: constants, and the coefficients that they come to.

A stacker is a regression on what a mixture says (coefficient a, offset b) and on how far each output is from it
(c_k), with a full covariance S and the prior S0. Of two stackers the second forgets: S += STACKER_MEMORY (S0 - S).
"""

from __future__ import annotations

import numpy as np

# Prior variance of the offset b and of the coefficient a.
STACKER_PRIOR = 0.01
# How much of its prior the stacker that forgets gets back with every example.
STACKER_MEMORY = 1e-4
# No output says more than this logit, so that no product of probabilities vanishes: S(-30) is 1e-13.
MAX_LOGIT = 30.0
# To the stackers none says more than this: beyond, a larger logit tells nothing but pulls the harder.
MAX_STACKED_LOGIT = 15.0


def output_coefficients(shares: np.ndarray, final_shares: np.ndarray, stacker_means: np.ndarray) -> np.ndarray:
    """Return the coefficient of each output in the last level, whose members are the mixture and the stackers.

    Args:
        shares: of the outputs, in the mixture.
        final_shares: of the mixture and each stacker, in the last level.
        stacker_means: a row (b, a, c_1, c_2, ...) for each stacker.
    """
    coefficients = final_shares[0] * shares
    for share, mean in zip(final_shares[1:], stacker_means, strict=True):
        c = mean[2:]
        coefficients = coefficients + share * ((1.0 + mean[1] - c.sum()) * shares + c)
    return coefficients
