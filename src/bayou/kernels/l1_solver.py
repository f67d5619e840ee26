"""Maximum of a quadratic with an L1 penalty, by coordinate descent. Shared by several learners.

    maximize over b    b' Psi b + theta'b - sum_j gamma_j |b_j|      (quadratic-l1, equation 7; gamma_j = 0: no penalty)

is written here with the curvature H = -2 Psi, which is positive semidefinite, and the gradient G = theta - H b, kept up
to date. With the others fixed, coordinate j has its maximum at

    b_j = sign(r) max(|r| - gamma_j, 0) / H_jj,    r = G_j + H_jj b_j       (algorithm 1; r is the paper's Omega_j)

A coordinate with H_jj = 0 was never seen (or is numerically absent): it is 0 if |G_j| < gamma_j, and else not changed.
b is the maximum where |G_j| <= gamma_j if b_j = 0, and G_j = gamma_j sign(b_j) elsewhere. The largest violation of
these conditions is a certificate in the units of G, and the stopping criterion of all functions here.

Only an active set is swept: the weights that are not 0, and those with a violation. Sweeps converge slowly where
features are alike, so that every few sweeps a Newton step is taken on the weights that are not 0, as far as none
changes sign.

    coordinate_descent  the kernel: H dense (the paper calls it Shooting)
    maximise            H dense or sparse; solves blocks of a few features at a time (`improve` takes a `Sketch`)
    violations          the certificate

The least squares lasso, argmin |y - Xw|^2 / 2 + a |w|_1, is H = X'X, theta = X'y, gamma = a.

Paper: Algorithms for sparse linear classifiers in the massive data setting (quadratic-l1), section 3.1, appendix B.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel

# Largest weight, so that scores stay finite for any data; beyond it no probability changes.
MAX_ABS_WEIGHT = 1e30
# A Newton step on n weights takes as long as n^3 / NEWTON_WORK updates in sweeps. On up to NEWTON_FREE weights all
# steps that help are taken, on more than NEWTON_SIZE none.
NEWTON_WORK = 6.0
NEWTON_FREE, NEWTON_SIZE = 32, 1500
# A Newton step is trusted if at least this fraction is left of every pivot.
SINGULAR = 1e-11
MAX_SWEEPS = 10_000
# A block has room for this many violating features, or for as many as there are nonzero weights, if these are more.
MIN_BLOCK_FEATURES = 128
NEAR_PENALTY_FRACTION = 0.8  # of the penalty
MOST_ROUNDS = 1000
PATIENCE = 20  # rounds without a better certificate


class Curvature(Protocol):
    """Interface of H that `improve` needs."""

    def block(self, features: np.ndarray) -> np.ndarray:
        """Return H with these rows and columns, dense."""

    def subtract_product(self, features: np.ndarray, change: np.ndarray, gradient: np.ndarray) -> None:
        """Subtract H[:, features] change from `gradient`."""


class MatrixCurvature:
    """A dense array or a SciPy sparse one as a `Curvature`."""

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix.tocsr() if hasattr(matrix, "tocsr") else np.asarray(matrix, np.float64)

    def block(self, features: np.ndarray) -> np.ndarray:
        rows = self._matrix[features]
        return rows[:, features].toarray() if hasattr(rows, "toarray") else np.ascontiguousarray(rows[:, features])

    def subtract_product(self, features: np.ndarray, change: np.ndarray, gradient: np.ndarray) -> None:
        gradient -= change @ self._matrix[features]


def violations(gradient: np.ndarray, weights: np.ndarray, penalty: Any) -> np.ndarray:
    """Return how far each weight is from optimal, in the units of the gradient."""
    at_zero = np.maximum(np.abs(gradient) - penalty, 0.0)
    return np.where(weights == 0.0, at_zero, np.abs(gradient - penalty * np.sign(weights)))


def maximise(
    curvature: Any,
    theta: np.ndarray,
    penalty: Any,
    weights: np.ndarray | None = None,
    *,
    tolerance: float = 1e-9,
) -> np.ndarray:
    """Return the weights that maximize b'theta - b'Hb/2 - sum_j penalty_j |b_j|, to a violation of `tolerance`.

    Args:
        curvature: H = -2 Psi; an array, dense or sparse, symmetric and positive semidefinite.
        theta: the linear part.
        penalty: gamma, one number or one for each weight; 0 for no penalty.
        weights: where to start; 0 if not given.
        tolerance: the largest violation to leave, in the units of theta.

    >>> maximise(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([5.0, 0.5]), 1.0)
    array([2., 0.])
    """
    matrix = MatrixCurvature(curvature)
    weights = np.zeros(len(theta)) if weights is None else np.array(weights, np.float64)
    gradient = np.array(theta, np.float64)
    support = np.flatnonzero(weights)
    matrix.subtract_product(support, weights[support], gradient)
    penalty = np.broadcast_to(np.asarray(penalty, np.float64), weights.shape)
    improve(matrix, gradient, weights, penalty, tolerance)
    return weights


def improve(
    curvature: Curvature, gradient: np.ndarray, weights: np.ndarray, penalty: np.ndarray, tolerance: float
) -> float:
    """Bring `weights` and `gradient` to the maximum, in place; return the largest violation that is left.

    Each round takes the weights that are not 0 and the worst violations, solves their block of H, and updates the
    gradient of all others.
    """
    stuck = np.zeros(len(weights), bool)  # no curvature: their violations cannot be removed
    worst = best = math.inf
    since = 0
    for _ in range(MOST_ROUNDS):
        violation = violations(gradient, weights, penalty)
        violation[stuck] = 0.0
        worst = float(violation.max(initial=0.0))
        best, since = (worst, 0) if worst < best else (best, since + 1)
        if worst <= tolerance or since == PATIENCE:  # nothing but rounding is left
            break
        support = np.flatnonzero(weights)
        # Includes features close to a violation: they cost less than another round.
        beyond = np.abs(gradient) - NEAR_PENALTY_FRACTION * penalty
        beyond[support] = 0.0
        violating = np.flatnonzero(beyond > 0.0)
        max_violating = max(MIN_BLOCK_FEATURES, len(support))
        if len(violating) > max_violating:
            violating = np.sort(violating[np.argsort(-beyond[violating], kind="stable")[:max_violating]])
        work = np.union1d(support, violating)
        block = curvature.block(work)
        stuck[work] = np.diag(block) <= 0.0
        previous, updated = weights[work], weights[work]
        coordinate_descent(block, gradient[work], updated, penalty[work], 0.5 * tolerance, MAX_SWEEPS)
        changed = np.flatnonzero(updated != previous)
        if len(changed) == 0 and not stuck[work].any():
            break
        weights[work] = updated
        curvature.subtract_product(work[changed], (updated - previous)[changed], gradient)
    return worst


@kernel
def coordinate_descent(curvature, gradient, weights, penalty, tolerance, most_sweeps):
    """Run algorithm 1 on a dense H, in place, from the given weights; return the largest violation that is left.

    `gradient` must be theta - H weights on entry, and is so on return. Stops at a violation of `tolerance`, or after
    `most_sweeps` sweeps. If H is larger than `weights`, its first rows and columns are used.
    """
    size = weights.size
    active = empty(size, np.int64)
    n_active = 0
    look = True
    worst = 0.0
    work = 0.0  # cost of sweeps since the last Newton steps, which should not cost much more
    for sweep in range(most_sweeps + 1):
        if look or sweep == most_sweeps:
            worst = 0.0
            n_active = 0
            for j in range(size):
                if curvature[j, j] <= 0.0:
                    if abs(gradient[j]) < penalty[j]:
                        weights[j] = 0.0
                    continue
                violation = _violation(gradient[j], weights[j], penalty[j])
                worst = max(worst, violation)
                if weights[j] != 0.0 or violation > 0.0:
                    active[n_active] = j
                    n_active += 1
            if worst <= tolerance or sweep == most_sweeps:
                break
        largest_change = 0.0
        for k in range(n_active):
            j = active[k]
            bend = curvature[j, j]
            best = _best(gradient[j] + bend * weights[j], penalty[j], bend)
            change = best - weights[j]
            if change != 0.0:
                weights[j] = best
                largest_change = max(largest_change, abs(change) * bend)
                for i in range(size):
                    gradient[i] -= curvature[j, i] * change
        # The active weights have converged: check whether others now violate.
        look = largest_change <= 0.5 * tolerance
        work += n_active * size
        while not look and work > 0.0:
            n = np.count_nonzero(weights)
            cost = n**3 / NEWTON_WORK
            if cost > work and n > NEWTON_FREE:
                break
            work -= cost if n > NEWTON_FREE else 0.0
            if not _newton(curvature, gradient, weights, penalty, active[:n_active]):
                work = 0.0
    return worst


@kernel
def _violation(gradient, weight, penalty):
    if weight > 0.0:
        return abs(gradient - penalty) if weight < MAX_ABS_WEIGHT or gradient < penalty else 0.0
    if weight < 0.0:
        return abs(gradient + penalty) if weight > -MAX_ABS_WEIGHT or gradient > -penalty else 0.0
    return max(abs(gradient) - penalty, 0.0)


@kernel
def _best(omega, penalty, bend):
    if omega > penalty:
        return min((omega - penalty) / bend, MAX_ABS_WEIGHT)
    if omega < -penalty:
        return max((omega + penalty) / bend, -MAX_ABS_WEIGHT)
    return 0.0


@kernel
def _newton(curvature, gradient, weights, penalty, active):
    """Go to the maximum over the weights that are not 0, or to where one of them becomes 0; return whether one did.

    While no sign changes the objective is a quadratic, which rises up to where the first weight becomes 0. It may be
    better to take the full step and set all weights to 0 that would change sign. Where a feature is a combination of
    others, the objective is linear along the direction that changes no score, and rises until a weight is 0.

    Slots 0 to n - 1 are the weights that are not 0, in the order of `support`:

        factor[i, j]   j < i: H, then Cholesky's L, row by row; j = i: 1 / L_ii, 0 for a slot that is left out
        rest[i]        G - gamma sign(b), which the step is to bring to 0
        step[i]        rest, then L^-1 rest, then the step, or the direction that changes no score
    """
    support = active[weights[active] != 0.0]
    n = support.size
    if n < 2 or n > NEWTON_SIZE:
        return False
    # Phase 1: Cholesky's factor L of H on the support, and with it the first half of L L' step = rest.
    factor = empty((n, n), np.float64)
    residual = empty(n, np.float64)
    step = empty(n, np.float64)
    level = False
    for i in range(n):
        row = support[i]
        for j in range(i):
            factor[i, j] = curvature[row, support[j]]
        residual[i] = gradient[row] - penalty[row] * np.sign(weights[row])
        step[i] = residual[i]
        diagonal = curvature[row, row]
        pivot = diagonal
        for j in range(i):
            total = factor[i, j]
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            factor[i, j] = total * factor[j, j]  # the diagonal holds 1 / L_jj, 0 for a feature left out
            step[i] -= factor[i, j] * step[j]
            pivot -= factor[i, j] * factor[i, j]
        if pivot > SINGULAR * diagonal:
            factor[i, i] = 1.0 / math.sqrt(pivot)
            step[i] *= factor[i, i]
            continue
        # Feature i is a combination of those before it: step is the direction that changes no score.
        size = abs(residual[i])
        slope = residual[i]
        step[i] = 1.0
        for j in range(i - 1, -1, -1):
            total = -factor[i, j]
            for k in range(j + 1, i):
                total -= factor[k, j] * step[k]
            step[j] = total * factor[j, j]
            slope += step[j] * residual[j]
            size += abs(step[j] * residual[j])
        level = abs(slope) > 1e-9 * size
        if level:
            n = i + 1
            break
        # Nothing to gain: leave its weight as it is, and start the step again without it.
        factor[i, : i + 1] = 0.0
        step[i] = 0.0
        for j in range(i):
            step[j] = residual[j]
            for k in range(j):
                step[j] -= factor[j, k] * step[k]
            step[j] *= factor[j, j]
    # Phase 2: the second half, L' step = L^-1 rest.
    if not level:
        for i in range(n - 1, -1, -1):
            step[i] *= factor[i, i]
            for k in range(i):
                step[k] -= factor[i, k] * step[i]
    # Phase 3: the share of the step after which the first weight becomes 0.
    way = 1.0
    fraction = 1.0
    if level:
        way = 1.0 if slope > 0.0 else -1.0
        fraction = np.inf
    first = -1
    for i in range(n):
        step[i] *= way
        if not abs(step[i]) < MAX_ABS_WEIGHT:
            return False
        weight = weights[support[i]]
        if step[i] * weight < 0.0 and -weight / step[i] < fraction:
            fraction = -weight / step[i]
            first = i
    if not fraction < np.inf:
        return False
    # Phase 4: decide whether to take the full step and set weights to 0 that would change sign.
    clip = False
    if first >= 0 and not level:
        # Compare the gain of stopping at the first with that of clipping all; H step = rest.
        promised = 0.0
        clipped_gain = 0.0
        for i in range(n):
            promised += residual[i] * step[i]
            change = _clipped(weights[support[i]], step[i])
            bent = 0.0
            for k in range(n):
                bent += curvature[support[i], support[k]] * _clipped(weights[support[k]], step[k])
            clipped_gain += change * (residual[i] - 0.5 * bent)
        clip = clipped_gain > fraction * (1.0 - 0.5 * fraction) * promised
    # Phase 5: take the step, and update the gradient.
    for i in range(n):
        j = support[i]
        if clip:
            best = weights[j] + _clipped(weights[j], step[i])
        else:
            best = 0.0 if i == first else weights[j] + fraction * step[i]
        if not abs(best) < MAX_ABS_WEIGHT:
            best = math.copysign(MAX_ABS_WEIGHT, best)
        change = best - weights[j]
        if change != 0.0:
            weights[j] = best
            for k in range(weights.size):
                gradient[k] -= curvature[j, k] * change
    return first >= 0


@kernel
def _clipped(weight, step):
    """Return the step, or -weight if the step would change the weight's sign."""
    return -weight if (weight + step) * weight < 0.0 else step
