"""Online Bayesian lasso (OSLOG): Gaussian regression under a prior that sharpens around the last weights.

A label is y = x'w + noise of variance s. Before each example the prior of weight j is N(0, s d_j / a) with d_j =
|w_j|, so that sum a w_j^2 / d_j approximates the lasso's a |w|_1. With M = sum c x x' and b = sum c y x over the
examples so far, each of weight c, the posterior is

    N(w, s A^-1)        A = M + a D^-1,   w = A^-1 b           D = diag(d), d_j = max(|previous w_j|, floor)

and a label is N(x'w, s (1 + x'A^-1 x)). It is solved as S (a I + S M S)^-1 S b, S = sqrt(D), which stays finite where d
vanishes (Lemma 1). Solved repeatedly, each time with d from the last weights, w converges to the minimum of |y - X
w|^2 + 2a |w|_1: the lasso, scikit-learn's `Lasso(alpha=a/N)`; `iterations` is the number of solutions per example, and
`lasso` returns the exact limit, by coordinate descent on (M, b) (Fu 1998).

Errors and gaps of the paper, and what is done here:

- With d_j = |w_j| zeros absorb: a feature that the first example lacks stays 0 forever, and a first label of 0 keeps
  all weights at 0. The `floor` revives them; any value from 1e-10 to 1e-4 of the weights' scale works. Weights that do
  not exceed it are treated as 0.
- The first prediction is 0, not the sum of the features that w = 1 would give; d still starts from 1, and stays there
  until a weight is not 0.
- Theorem 1 misprints the variance.
- s is given, or learned as the mean of c e^2 / (1 + c x'A^-1 x) over the errors e made so far, or the paper's 4 Y^2
  with Y the largest |label| so far.
- The prediction is the mean clipped to the range of the labels so far (`bounded`): with more features than rows it may
  be any number. On one of fifteen data sets the squared loss was 13 times the variance of the labels, and is .4 with
  clipping.
- The weights are in units of the labels, and so is a: by default it is three standard deviations of the labels so far.
  With a = 1 the loss on fifteen data sets was .44 to 13.6 times the variance of the labels.
- A fixed a shrinks too much at first: with `ramp` = T it is a t/T up to example T.
- The intercept is not an ordinary weight: labels and features are centered online, from their sums, which removes it
  from the equations (its prior is flat); or it is a column of ones, shrunk like the others (`centring=False`).

**Screening.** Most features of a sparse model have d_j M_jj far below a, and hardly affect the others. Those above
SHARE a are solved exactly, by Cholesky; that solution, with a division for each of the others, is the first step (and
then the preconditioner) of conjugate gradients, until the residual r shows that |z - exact z| <= |r| / a <= `screening`
|z|, z = w / sqrt(d). The rows of M cost as much as the example's update of M itself. `screening=0` is one Cholesky of
all features.

State: M, b, w, d, n_features^2 numbers in float64. Merging adds M, b and sums; w and d are averaged by examples until
the next example solves for them again.

Paper: oslog. Rajaratnam and others (2016) have the batch version.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from bayou.core.batch import Batch
from bayou.core.checks import check_bool, check_int, check_positive
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner, Scores
from bayou.core.validation import LARGEST_TARGET, LIMIT
from bayou.kernels import l1_solver
from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.random import normal, write_scores
from bayou.learners.bases.label_range import cut_to_range, join_ranges, new_range
from bayou.learners.shrinkage.equations import Factorization, NormalEquations, factored, solution

# Largest size of the state and one working copy that is accepted: some 16,000 features.
MOST_BYTES = 4 << 30
# Rows with fewer than 1/SPARSE of the features are added entry by entry.
SPARSE = 4
# The initial noise variance of 1 counts as START examples; WIDE is the variance of an intercept without data, in units
# of the noise.
START, WIDE = 1e-6, 1e6
# Relative amount by which rounding may take a sum below its base's.
MERGE_ROUNDING = 1e-9
PAPERS_NOISE = "paper"
# The default penalty in standard deviations of the labels, and its bounds.
DEVIATIONS, LEAST_PENALTY, MOST_PENALTY = 3.0, 1e-6, 1e15


class Shrinkage(Learner):
    """Online Bayesian lasso regression.

    Args:
        n_features: number of weights; the state has n_features^2 numbers and takes at most 4 GB.
        penalty: a; larger values shrink more weights to 0. Compare with sums of |feature x noise|, which grow like the
            root of the number of examples. None is three standard deviations of the labels so far.
        iterations: maximum number of times that the weights are solved for after each example.
        tolerance: stop earlier if no weight moved by more than this fraction of the largest.
        floor: the smallest |w| other than 0, which lets weights of 0 become nonzero again.
        noise_variance: variance of the labels around their means; None learns it, "paper" is 4 max|label|^2.
        bounded: whether to clip predictions to the range of the labels so far.
        ramp: number of examples over which the penalty grows to its full size; 0: full from the start.
        screening: largest relative error of the weights in units of sqrt(d); 0 solves exactly.
        intercept: whether to fit an intercept.
        centring: fit the intercept by centering features and labels, without penalty; False adds a column of ones.
        dtype: type of the weights returned, "float64" or "float32". The state is always float64.

    >>> from bayou import Batch
    >>> learner = Shrinkage(n_features=3, penalty=0.1)
    >>> rows = [{0: 1.0}, {1: 1.0}, {0: 1.0, 2: 1.0}, {2: 1.0}, {0: 2.0}]
    >>> m = learner.learn(Batch.from_rows(rows, labels=[3.0, 1.0, 3.0, 1.0, 5.0]))
    >>> float(m[0]), learner.lasso().round(2), bool(learner.noise > 0)
    (0.0, array([1.96, 0.  , 0.  ]), True)
    """

    name = "shrinkage"

    def __init__(
        self,
        n_features: int,
        *,
        penalty: float | None = None,
        iterations: int = 1,
        tolerance: float = 1e-9,
        floor: float = 1e-6,
        noise_variance: float | str | None = None,
        bounded: bool = True,
        ramp: int = 0,
        screening: float = 1e-6,
        intercept: bool = True,
        centring: bool = True,
        dtype: Any = None,
    ) -> None:
        if noise_variance is not None and not (isinstance(noise_variance, str) and noise_variance == PAPERS_NOISE):
            noise_variance = check_positive("noise_variance", noise_variance, high=LARGEST_TARGET["float32"] ** 2)
        super().__init__(
            n_features=n_features,
            dtype=dtype,
            intercept=intercept,
            penalty=None if penalty is None else check_positive("penalty", penalty, high=MOST_PENALTY),
            iterations=check_int("iterations", iterations, 1, 10**6),
            tolerance=check_positive("tolerance", tolerance, zero=True, high=1.0),
            floor=check_positive("floor", floor, high=1.0),
            noise_variance=noise_variance,
            bounded=check_bool("bounded", bounded),
            ramp=check_int("ramp", ramp, 0),
            screening=check_positive("screening", screening, zero=True, high=0.1),
            centring=check_bool("centring", centring),
        )
        self._takes = "float64"
        if (wanted := self.nbytes) > MOST_BYTES:
            raise BadInput(
                f"shrinkage with {n_features} features takes {wanted / 2**30:.1f} GB; it may take "
                f"{MOST_BYTES >> 30} GB, some 16,000 features. Use gaussian, or fewer features."
            )
        self._centred = self._has_intercept and centring
        # The column of ones comes after all features, so that the last row of M has the sums of features and weights,
        # and the last of b that of labels. It is an ordinary weight only if there is an intercept and no centering.
        self._size = self._n_features + (self._has_intercept and not centring)
        self._products = np.zeros((self._n_features + 1, self._n_features + 1))
        self._vectors = np.zeros((3, self._n_features + 1))  # b, w, d of the last solution; all 0 before the first
        self._noise_sums = np.zeros(3)  # of c e^2 / (1 + c q), of c; and the largest |label|
        self._labels, self._label_sums = new_range(), np.zeros(3)  # of c, c y and c y^2
        self._most_noise = LARGEST_TARGET[self._dtype] ** 2
        self._widest = max(1.0, 1.0 / (penalty or LEAST_PENALTY))
        self._factor: Factorization | None = None

    def _arrays(self) -> dict[str, np.ndarray]:
        return {
            "state": self._products[:-1],
            "intercept": self._products[-1:],
            "vectors": self._vectors,
            "noise": self._noise_sums[None],
            "labels": self._labels[None],
            "label sums": self._label_sums[None],
        }

    def _nbytes_for(self, n_features: int) -> int:
        """Return the size in bytes, including a working copy."""
        return 8 * (n_features + 1) * (2 * (n_features + 1) + 3)

    @property
    def noise(self) -> float:
        """The noise variance, as given or as learned so far."""
        given = self._parameters["noise_variance"]
        squares, weight, largest = self._noise_sums
        if given == PAPERS_NOISE:
            given = 4.0 * largest**2 or 1.0
        elif given is None:
            given = (START + squares) / (START + weight)
        return float(min(given, self._most_noise))

    def penalty_at(self, example: int) -> float:
        """Return the penalty a after `example` examples."""
        ramp, penalty = self._parameters["ramp"], self._parameters["penalty"]
        if penalty is None:
            count, total, squares = self._label_sums.tolist()
            mean = total / count if count and self._has_intercept else 0.0
            deviation = math.sqrt(max(squares / count - mean * mean, 0.0)) if count else 0.0
            penalty = min(max(DEVIATIONS * deviation, LEAST_PENALTY), MOST_PENALTY) if deviation else 1.0
        return float(penalty * (min(max(example, 1) / ramp, 1.0) if ramp else 1.0))

    # --- learning and predicting --------------------------------------------------------------------------------

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        mean, spread, noise = (np.empty(len(batch)) for _ in range(3))
        learned = np.flatnonzero(weights)
        example = self._examples
        start = 0
        for stop in (*learned.tolist(), len(batch)):
            # Rows that are not learned are predicted together; each row that is learned, alone, as bits might differ.
            for rows in (slice(start, stop), slice(stop, min(stop + 1, len(batch)))):
                if rows.start < rows.stop:
                    noise[rows] = self.noise
                    mean[rows] = self._means(batch, rows)
                    spread[rows] = self._spreads(batch, rows, example)
            if stop < len(batch):
                example += 1
                self._learn(batch, stop, float(signs[stop]), float(weights[stop]), mean[stop], spread[stop], example)
            start = stop + 1
        expected = cut_to_range(mean, signs, weights, self._labels)
        return Scores(expected if self._parameters["bounded"] else mean.copy(), mean, noise * spread, noise)

    def _means(self, batch: Batch, rows: slice) -> np.ndarray:
        means = np.empty(rows.stop - rows.start)
        weights, intercept = self._vectors[1], self._intercept_mean(self._vectors[1])
        write_scores(batch.indptr[rows.start : rows.stop + 1], batch.indices, batch.values, weights, intercept, means)
        return means

    def _intercept_mean(self, weights: np.ndarray) -> float:
        """Return the score of a row without features, under some weights."""
        if not self._has_intercept:
            return 0.0
        if not self._centred:
            return float(weights[-1])
        count = self._products[-1, -1]
        return float((self._vectors[0, -1] - weights[:-1] @ self._products[-1, :-1]) / count) if count else 0.0

    def _spreads(self, batch: Batch, rows: slice, example: int) -> np.ndarray:
        """Return x'A^-1 x of each row, including the intercept's part."""
        spreads = np.empty(rows.stop - rows.start)
        factor = self._factored(example)
        block = max(1, (1 << 22) // len(self._products))
        for start in range(rows.start, rows.stop, block):
            chunk = slice(start, min(start + block, rows.stop))
            x = np.zeros((chunk.stop - chunk.start, len(self._products)))
            indptr = batch.indptr[chunk.start : chunk.stop + 1]
            entries = slice(indptr[0], indptr[-1])
            x[np.repeat(np.arange(len(x)), np.diff(indptr)), batch.indices[entries]] = batch.values[entries]
            x[:, -1] = self._has_intercept and not self._centred
            spreads[chunk.start - rows.start : chunk.stop - rows.start] = self._spread(x, factor)
        return spreads

    def _spread(self, x: np.ndarray, factor: Factorization) -> np.ndarray:
        """Return x'A^-1 x of dense rows with the column of ones; centers `x` in place."""
        extra = 0.0
        if self._centred:
            count = self._products[-1, -1]
            extra = 1.0 / count if count else WIDE
            x[:, :-1] -= self._products[-1, :-1] / count if count else 0.0
        return np.minimum(factor.spreads(x, extra), LIMIT["float64"])

    def _learn(self, batch: Batch, row: int, label: float, c: float, mean: float, spread: float, example: int) -> None:
        """Add an example to all sums, and solve for the weights."""
        nonzeros = slice(batch.indptr[row], batch.indptr[row + 1])
        indices, values = batch.indices[nonzeros], batch.values[nonzeros]
        error = label - mean
        self._noise_sums[0] += min(c * error * error / (1.0 + c * spread), c * self._most_noise)
        self._noise_sums[1] += c
        self._noise_sums[2] = max(self._noise_sums[2], abs(label))
        self._label_sums += c, c * label, c * label * label
        if self._has_intercept:
            indices, values = np.append(indices, self._n_features), np.append(values, 1.0)
        values = values * math.sqrt(c)
        self._vectors[0, indices] += math.sqrt(c) * label * values
        if len(indices) * SPARSE < len(self._products):
            self._products[np.ix_(indices, indices)] += np.outer(values, values)
        else:
            x = np.zeros(len(self._products))
            x[indices] = values
            _add_products(self._products, x)
        self._solve(example, self._parameters["iterations"])

    def iterate_to_convergence(self, iterations: int = 100_000) -> int:
        """Solve repeatedly until no weight moves (`tolerance`), which gives the lasso's weights except for the floor.

        Returns the number of solutions.
        """
        if self._frozen:
            raise BadInput("this is a snapshot: it predicts, but does not learn. Settle the learner itself.")
        with self._lock:
            return self._solve(self._examples, check_int("iterations", iterations, 1)) if self._examples else 0

    def _solve(self, example: int, iterations: int) -> int:
        """Solve at most `iterations` times, each time with a prior from the last weights; return the number."""
        weights = self._vectors[1, : self._size]
        far = math.sqrt(LIMIT[self._dtype])
        sums, a, screening = self._sums(), self.penalty_at(example), self._parameters["screening"]
        for done in range(1, iterations + 1):
            first = not self._vectors[2].any()
            d = np.ones(self._size) if first else np.maximum(np.abs(weights), self._parameters["floor"])
            self._factor = factored(sums, d, a, screening, len(self._products))
            solved = solution(self._products, sums, self._factor, d, a, weights, screening)
            if not (np.abs(solved) <= far).all():
                solved = np.clip(np.nan_to_num(solved), -far, far)
            solved[np.abs(solved) <= self._parameters["floor"]] = 0.0  # d stays at the floor
            if first and not solved.any():
                return done  # first label 0, or only one to center: nothing learned, d stays 1
            moved = np.max(np.abs(solved - weights))
            weights[:], self._vectors[2, : self._size] = solved, d
            if moved <= self._parameters["tolerance"] * np.max(np.abs(weights)):
                return done
        return iterations

    def _sums(self) -> NormalEquations:
        products, against = self._products[: self._size, : self._size], self._vectors[0, : self._size]
        raw, middle, count = np.diagonal(products), np.zeros(self._size), 0.0
        left = raw
        if self._centred and self._products[-1, -1]:
            count = float(self._products[-1, -1])
            middle = self._products[-1, :-1] / count
            against = against - middle * self._vectors[0, -1]
            left = raw - count * middle * middle
        # For a constant feature only rounding noise is left.
        return NormalEquations(products, against, middle, count, np.where(left > 1e-13 * raw, left, 0.0))

    def _factored(self, example: int) -> Factorization:
        """Return the factored equations of the last solution, computed again if they are missing (after loading)."""
        if self._factor is None:
            last = self._vectors[2, : self._size]
            d = last if last.any() else np.ones(self._size)
            screening = self._parameters["screening"]
            self._factor = factored(self._sums(), d, self.penalty_at(example), screening, len(self._products))
        return self._factor

    # --- looking inside -----------------------------------------------------------------------------------------

    def _mean_at(self, features: Any) -> np.ndarray:
        return self._vectors[1, :-1][features].astype(self._dtype)

    def _variance_at(self, features: Any) -> np.ndarray:
        return (self._factored(self._examples).variances()[:-1] * self.noise)[features].astype(self._dtype)

    def _intercept(self) -> tuple[float, float]:
        nothing = np.zeros((1, len(self._products)))
        nothing[0, -1] = not self._centred
        spread = self._spread(nothing, self._factored(self._examples))[0]
        return self._intercept_mean(self._vectors[1]), float(spread * self.noise)

    def lasso(self) -> np.ndarray:
        """Return the exact lasso weights of all examples so far: the limit of many iterations, with exact zeros."""
        with self._lock:
            sums = self._sums()
            products = sums.products - sums.examples * np.outer(sums.middle, sums.middle)
            np.fill_diagonal(products, sums.diagonal)
            exact = 1e-13 * float(np.abs(sums.against).max(initial=0.0))
            weights = l1_solver.maximise(products, sums.against, self.penalty_at(self._examples), tolerance=exact)
        return weights[: self._n_features]

    def _draw(self, batch: Batch, seed: np.uint64, purpose: str, scores: np.ndarray) -> None:
        """Draw from the joint posterior: w + sqrt(s) S L'^-1 z, z standard normal, keyed by (seed, draw, feature)."""
        factor, count = self._factored(self._examples), self._products[-1, -1]
        for draw, row_scores in enumerate(scores):
            z = _normals(seed, draw, len(self._products)) * math.sqrt(self.noise)
            weights = factor.drawn(self._vectors[1], z)
            intercept = self._intercept_mean(weights)
            if self._centred:
                intercept += z[-1] * math.sqrt(1.0 / count if count else WIDE)
            write_scores(batch.indptr, batch.indices, batch.values, weights, intercept, row_scores)

    # --- merging ------------------------------------------------------------------------------------------------

    def _merge_many(self, others: list[Self], base: Self | None) -> None:
        common = 0 if base is None else base._examples
        examples = self._examples - sum(other._examples - common for other in others)  # those of this learner alone
        for other in others:
            self._merge_one(other, base, examples)
            examples += other._examples - common

    def _merge_one(self, other: Self, base: Self | None, examples: int) -> None:
        """Add what `other` has learned; this learner has the sums of `examples`."""
        if base is not None:
            base_squares = np.diagonal(base._products)
            if any((np.diagonal(heir._products) < base_squares * (1 - MERGE_ROUNDING)).any() for heir in (self, other)):
                raise BadModel("base knows more than the models grown from it; give a common ancestor.")
        shares = np.array([examples, other._examples])
        heirs = [(self, 1.0, shares[0]), (other, 1.0, shares[1])] + ([(base, -1.0, base._examples)] if base else [])
        total = sum(sign * share for _, sign, share in heirs)
        middle = sum(sign * share * learner._vectors[1:] for learner, sign, share in heirs) / max(total, 1)
        against = sum(sign * learner._vectors[0] for learner, sign, _ in heirs)
        largest = max(self._noise_sums[2], other._noise_sums[2])
        for name in ("_products", "_noise_sums", "_label_sums"):
            getattr(self, name)[:] = sum(sign * getattr(learner, name) for learner, sign, _ in heirs)
        self._noise_sums[:] = np.maximum(self._noise_sums, 0.0)
        self._noise_sums[2] = largest
        join_ranges(self._labels, other._labels)
        self._vectors[0], self._vectors[1:] = against, middle
        self._vectors[2] = np.maximum(self._vectors[2], 0.0)
        self._factor = None


# BLAS would split such short work among threads, and take three times as long.
@kernel
def _add_products(matrix, x):
    """Add x x' to `matrix`."""
    for i in range(x.size):
        if x[i] != 0.0:
            for j in range(x.size):
                matrix[i, j] += x[i] * x[j]


@kernel
def _normals(seed, draw, size):
    normals = empty(size, np.float64)
    for feature in range(size):
        normals[feature] = normal(seed, draw, feature)
    return normals
