"""Shooting in plain NumPy, as quadratic-l1's algorithm 1 has it: the specification of `bayou.kernels.l1_solver`."""

import numpy as np


def shooting(psi, theta, gamma, beta=None, sweeps=100_000, tolerance=1e-14):
    """(7): the maximum of b'Psi b + b'theta - sum gamma_j |b_j|. Stops once a sweep moves nothing by `tolerance`."""
    gamma = np.broadcast_to(gamma, theta.shape)
    beta = np.zeros(len(theta)) if beta is None else np.array(beta, float)
    for _ in range(sweeps):
        before = beta.copy()
        for j in range(len(theta)):
            if psi[j, j] == 0:
                continue
            omega = 2 * (psi[j] @ beta - psi[j, j] * beta[j]) + theta[j]
            if abs(omega) <= gamma[j]:
                beta[j] = 0
            else:
                beta[j] = (np.sign(omega) * gamma[j] - omega) / (2 * psi[j, j])
        if np.abs(beta - before).max() <= tolerance * max(1, np.abs(beta).max()):
            break
    return beta
