"""The normal equations of a shrinkage learner, factored and solved: by Cholesky, or by conjugate gradients.

The equations are in the docstring of `learner`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from bayou.kernels.compiling import kernel
from bayou.kernels.room import empty

# Features whose own evidence d_j M_jj is above this share of the penalty are solved exactly.
SHARE = 0.003
# Up to this many features are all solved exactly: looking for the small ones costs more.
FEW = 64
# Conjugate gradients that need more steps than this have met numbers that are not theirs: all is solved by Cholesky.
MOST_STEPS = 100


class Sums(NamedTuple):
    """M and b as the equations have them. Centring takes m m'/n from M and m (sum y)/n from b, m the features' sums."""

    products: np.ndarray  # M before that
    against: np.ndarray  # b
    middle: np.ndarray  # m / n; 0 without centring
    examples: float  # n, by weight; 0 without centring
    diagonal: np.ndarray  # M_jj; 0 for a feature that was never met, or always the same


class Factor(NamedTuple):
    """The last equations, factored: those of the features `exact`, and what is left of each other one's variance."""

    exact: np.ndarray  # their numbers, ascending
    root: np.ndarray  # sqrt(d) of them
    lower: np.ndarray  # L L' = a I + S M S
    rest: np.ndarray  # of all: d / (a + d M_jj), and 0 for the exact ones

    def spreads(self, x: np.ndarray, extra: float) -> np.ndarray:
        """x'A^-1 x + extra of each row of x."""
        spread = (x * x) @ self.rest + extra
        if len(self.exact):
            half = lapack.dtrtrs(self.lower, (x[:, self.exact] * self.root).T, lower=1)[0]
            spread += np.einsum("ij,ij->j", half, half)
        return spread

    def variances(self) -> np.ndarray:
        """The diagonal of A^-1."""
        found = self.rest.copy()
        if len(self.exact):
            inverse = lapack.dtrtri(self.lower, lower=1)[0]
            found[self.exact] = self.root**2 * np.einsum("ij,ij->j", np.tril(inverse), np.tril(inverse))
        return found

    def drawn(self, mean: np.ndarray, z: np.ndarray) -> np.ndarray:
        """mean + S L'^-1 z."""
        found = mean + np.sqrt(self.rest) * z
        if len(self.exact):
            half = lapack.dtrtrs(self.lower, z[self.exact], lower=1, trans=1)[0]
            found[self.exact] = mean[self.exact] + self.root * half
        return found


def factored(sums: Sums, d: np.ndarray, a: float, screening: float, width: int) -> Factor:
    """The equations of these sums under prior variances d / a; `width` is the size of M, with the column of ones."""
    rest = np.zeros(width)
    rest[: len(d)] = d / (a + d * sums.diagonal)
    all_of_them = screening == 0.0 or len(d) <= FEW
    exact = np.flatnonzero(d * sums.diagonal > (0.0 if all_of_them else SHARE * a))
    rest[exact] = 0.0
    root = np.sqrt(d[exact])
    return Factor(exact, root, _lower(sums, exact, root, a), rest)


def solution(
    products: np.ndarray, sums: Sums, factor: Factor, d: np.ndarray, a: float, start: np.ndarray, screening: float
) -> np.ndarray:
    """w = S (a I + S M S)^-1 S b, by conjugate gradients that begin with what the factor solves."""
    root = np.sqrt(d)
    goal = root * sums.against
    met = np.flatnonzero(sums.diagonal)
    if len(factor.exact) == len(met):  # all that can have a weight
        found = np.zeros(len(d))
        found[met] = factor.root * _solved(factor.lower, goal[met])
        return found
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
    found = np.zeros(len(d))
    found[met] = root[met] * _solved(_lower(sums, met, root[met], a), goal[met])
    return found


def _lower(sums: Sums, some: np.ndarray, root: np.ndarray, a: float) -> np.ndarray:
    """L with L L' = a I + S M S, of some features."""
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
        # Numbers so far apart that the sums of their products, rounded, are no longer those of any features.
        nudge = 10.0 * nudge or 1e-15


def _solved(lower: np.ndarray, right: np.ndarray) -> np.ndarray:
    return lapack.dpotrs(lower, right, lower=1)[0] if len(right) else right


# It waits for memory: BLAS would share such short work out to threads, and take three times as long.
@kernel(fastmath={"reassoc", "contract"})
def _times(matrix, x):
    """What the first rows and columns of a matrix, as many as x has, make of x."""
    found = empty(x.size, np.float64)
    for i in range(x.size):
        product = 0.0
        for j in range(x.size):
            product += matrix[i, j] * x[j]
        found[i] = product
    return found
