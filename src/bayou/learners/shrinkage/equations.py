"""The normal equations of a shrinkage learner, factored and solved: by Cholesky, or by conjugate gradients.

The equations are in the docstring of `learner`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel

# Features whose own evidence d_j M_jj exceeds this fraction of the penalty are solved exactly.
SHARE = 0.003
# Up to this many features, all are solved exactly: screening would cost more.
FEW = 64
# Conjugate gradients that need more steps than this are failing numerically; Cholesky is used instead.
MOST_STEPS = 100


class NormalEquations(NamedTuple):
    """M and b of the equations. Centering subtracts m m'/n from M and m (sum y)/n from b, with m the features' sums."""

    products: np.ndarray  # M before centering
    against: np.ndarray  # b, centered
    middle: np.ndarray  # m / n; 0 without centering
    examples: float  # n, the sum of example weights; 0 without centering
    diagonal: np.ndarray  # M_jj, centered; 0 for a feature that was never seen or is constant


class Factorization(NamedTuple):
    """The factored equations: Cholesky's factor for the features `exact`, and the diagonal for all others."""

    exact: np.ndarray  # indices of the features solved exactly, ascending
    root: np.ndarray  # sqrt(d) of these
    lower: np.ndarray  # L L' = a I + S M S
    rest: np.ndarray  # for all features: d / (a + d M_jj), and 0 for the exact ones

    def spreads(self, x: np.ndarray, extra: float) -> np.ndarray:
        """Return x'A^-1 x + extra for each row of x."""
        spread = (x * x) @ self.rest + extra
        if len(self.exact):
            half = lapack.dtrtrs(self.lower, (x[:, self.exact] * self.root).T, lower=1)[0]
            spread += np.einsum("ij,ij->j", half, half)
        return spread

    def variances(self) -> np.ndarray:
        """Return the diagonal of A^-1."""
        diagonal = self.rest.copy()
        if len(self.exact):
            inverse = lapack.dtrtri(self.lower, lower=1)[0]
            diagonal[self.exact] = self.root**2 * np.einsum("ij,ij->j", np.tril(inverse), np.tril(inverse))
        return diagonal

    def drawn(self, mean: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return mean + S L'^-1 z, with sqrt(rest) z for the features that are not exact."""
        weights = mean + np.sqrt(self.rest) * z
        if len(self.exact):
            half = lapack.dtrtrs(self.lower, z[self.exact], lower=1, trans=1)[0]
            weights[self.exact] = mean[self.exact] + self.root * half
        return weights


def factored(sums: NormalEquations, d: np.ndarray, a: float, screening: float, width: int) -> Factorization:
    """Factor the equations of these sums under prior variances d / a; `width` is the size of M, ones included."""
    rest = np.zeros(width)
    rest[: len(d)] = d / (a + d * sums.diagonal)
    all_of_them = screening == 0.0 or len(d) <= FEW
    exact = np.flatnonzero(d * sums.diagonal > (0.0 if all_of_them else SHARE * a))
    rest[exact] = 0.0
    root = np.sqrt(d[exact])
    return Factorization(exact, root, _lower(sums, exact, root, a), rest)


def solution(
    products: np.ndarray,
    sums: NormalEquations,
    factor: Factorization,
    d: np.ndarray,
    a: float,
    start: np.ndarray,
    screening: float,
) -> np.ndarray:
    """Return w = S (a I + S M S)^-1 S b, by conjugate gradients preconditioned by the factor."""
    root = np.sqrt(d)
    goal = root * sums.against
    met = np.flatnonzero(sums.diagonal)
    if len(factor.exact) == len(met):  # every feature that can have a weight is exact
        solved = np.zeros(len(d))
        solved[met] = factor.root * _solved(factor.lower, goal[met])
        return solved
    divide = factor.rest[: len(d)] / d

    def times(z: np.ndarray) -> np.ndarray:
        x = root * z
        return a * z + root * (_times(products, x) - (sums.examples * (sums.middle @ x)) * sums.middle)

    with np.errstate(all="ignore"):
        z = start / root
        residual = goal - times(z) if start.any() else goal.copy()
        direction, size = np.zeros(len(d)), 1.0
        for _ in range(MOST_STEPS):
            if np.linalg.norm(residual) <= screening * a * np.linalg.norm(z):
                return root * z
            nearly = residual * divide
            nearly[factor.exact] = _solved(factor.lower, residual[factor.exact])
            before, size = size, residual @ nearly
            direction = nearly + (size / before) * direction
            image = times(direction)
            step = size / (direction @ image)
            z, residual = z + step * direction, residual - step * image
    solved = np.zeros(len(d))
    solved[met] = root[met] * _solved(_lower(sums, met, root[met], a), goal[met])
    return solved


def _lower(sums: NormalEquations, some: np.ndarray, root: np.ndarray, a: float) -> np.ndarray:
    """Return L with L L' = a I + S M S, for some features."""
    if not len(some):
        return np.zeros((0, 0), order="F")
    matrix = sums.products.copy() if len(some) == len(sums.products) else sums.products[np.ix_(some, some)]
    if sums.examples:
        middle = sums.middle[some]
        blas.dger(-sums.examples, middle, middle, a=matrix.T, overwrite_a=1)
    matrix *= root
    matrix *= root[:, None]
    diagonal = np.arange(len(some))
    kept = root * root * sums.diagonal[some] + a
    nudge = 0.0
    while True:
        matrix[diagonal, diagonal] = kept * (1.0 + nudge)
        lower, failed = lapack.dpotrf(matrix.T, lower=1, clean=0)
        if not failed and np.isfinite(lower[diagonal, diagonal]).all():
            return lower
        # The values differ so much in size that the rounded sums of products are not positive definite.
        nudge = 10.0 * nudge or 1e-15


def _solved(lower: np.ndarray, right: np.ndarray) -> np.ndarray:
    return lapack.dpotrs(lower, right, lower=1)[0] if len(right) else right


# Bound by memory: BLAS would split such a short product among threads, and take three times as long.
@kernel(fastmath={"reassoc", "contract"})
def _times(matrix, x):
    """Return the product of x with the leading square block of a matrix of the size of x."""
    product_vector = empty(x.size, np.float64)
    for i in range(x.size):
        product = 0.0
        for j in range(x.size):
            product += matrix[i, j] * x[j]
        product_vector[i] = product
    return product_vector
