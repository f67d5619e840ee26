"""A full covariance, stored as S = U D U': kernels that update it, and merging. The equations are in `learner`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core import links
from bayou.core.errors import BadModel
from bayou.kernels.allocate import empty, zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.random import normal, write_scores
from bayou.kernels.vector import LANES, broadcast, load, pad_to_lanes, store, sum_lanes
from bayou.learners.bases.diagonal import MEAN, MEAN_SHIFT, PRECISION, PRECISION_GAIN
from bayou.learners.joint.peak import newton_peak, taylor_peak

# Columns of an example that waits for its mini-batch to fill:
#     SIGN     its label as +-1
#     WEIGHT   its weight
SIGN, WEIGHT = range(2)
# A row with fewer than 1/SPARSE of the features is multiplied entry by entry.
SPARSE = 6
# Newton steps to the mean of a mini-batch; any more would be due to rounding noise.
MAX_BATCH_ITERATIONS = 100
# Relative amount by which rounding may take a precision below its base's.
MERGE_ROUNDING = 1e-6


class FullCovarianceState(NamedTuple):
    """Arrays of a full covariance, with the intercept after the last feature, and the waiting examples."""

    state: np.ndarray  # (mean minus prior mean, precision of D minus prior precision)
    prior: np.ndarray  # (mean, precision)
    factor: np.ndarray  # row j holds column j of U above the diagonal
    waiting: np.ndarray  # dense rows of an unfinished mini-batch
    waiting_labels: np.ndarray  # (SIGN, WEIGHT) of each; a weight of 0 ends the list

    @classmethod
    def at_prior(cls, prior: np.ndarray, batch_size: int) -> FullCovarianceState:
        """Return the state at the prior, with nothing learned."""
        size, room, waiting = len(prior), pad_to_lanes(len(prior)), max_pending_examples(batch_size)
        return cls(
            np.zeros((size, 2)), prior, np.zeros((size, room)), np.zeros((waiting, room)), np.zeros((waiting, 2))
        )


def max_pending_examples(batch_size: int) -> int:
    """Return the number of examples that can wait for their mini-batch."""
    return batch_size if batch_size > 1 else 0


def nbytes_for(n_features: int, batch_size: int) -> int:
    """Return the size of a full covariance in bytes."""
    return 8 * (n_features + 1 + max_pending_examples(batch_size)) * (2 + pad_to_lanes(n_features + 1))


@kernel
def stream(examples, weights, has_intercept, taylor, most, score_mean, score_variance):
    """Predict each row, then learn from it if its weight is not 0: at once, or with its mini-batch."""
    indptr, indices, values = examples.indptr, examples.indices, examples.values
    state, prior, factor, waiting, waiting_labels = weights
    size, room = factor.shape
    last = size - 1
    far = math.sqrt(most)
    x, f, v, along = zeros(room, np.float64), zeros(room, np.float64), zeros(room, np.float64), zeros(room, np.float64)
    x[last] = has_intercept
    count = _count(waiting_labels)
    for row in range(indptr.size - 1):
        start, stop = indptr[row], indptr[row + 1]
        first = last
        m = x[last] * (prior[last, MEAN] + state[last, MEAN_SHIFT])
        for k in range(start, stop):
            feature = np.int64(indices[k])
            x[feature] = values[k]
            m += x[feature] * (prior[feature, MEAN] + state[feature, MEAN_SHIFT])
            first = min(first, feature)
        if SPARSE * (stop - start) < size:
            for j in range(first, size):
                dot = x[j]
                for k in range(start, stop):
                    dot += factor[j, indices[k]] * x[indices[k]]
                f[j] = dot
        else:
            _project(factor, x, first, f)
        s2 = _scale(f, state, prior, first, v)
        score_mean[row] = m
        score_variance[row] = s2
        c = np.float64(examples.weights[row])
        if c != 0.0:
            y = np.float64(examples.labels[row])
            if len(waiting):
                waiting[count] = x
                waiting_labels[count, SIGN] = y
                waiting_labels[count, WEIGHT] = c
                count += 1
                if count == len(waiting):
                    learn_pending(weights, taylor, most)
                    count = 0
            else:
                pull, r = taylor_peak(y * m, c * s2) if taylor else newton_peak(y * m, c * s2)
                _rank_one_update(factor, state, f, v, first, c * r, most, along)
                for j in range(size):
                    state[j, MEAN_SHIFT] = max(min(state[j, MEAN_SHIFT] + y * c * pull * along[j], far), -far)
        for k in range(start, stop):
            x[indices[k]] = 0.0


@kernel
def _project(factor, x, first, f):
    """Compute f = U'x, where x is 0 before `first`; f is not written there."""
    size, room = factor.shape
    flat = factor.reshape(-1)
    begin = first // LANES * LANES
    for j in range(first, size):
        dot = broadcast(load(x, 0), 0.0)
        for i in range(begin, j, LANES):
            dot = dot + load(flat, j * room + i) * load(x, i)
        f[j] = x[j] + sum_lanes(dot)


@kernel
def _scale(f, state, prior, first, v):
    """Compute v = D f from `first` on, and return f'D f."""
    s2 = 0.0
    for j in range(first, len(state)):
        v[j] = f[j] / (prior[j, PRECISION] + state[j, PRECISION_GAIN])
        s2 += f[j] * v[j]
    return s2


@kernel
def _dot(a, b):
    dot = broadcast(load(a, 0), 0.0)
    for i in range(0, len(a), LANES):
        dot = dot + load(a, i) * load(b, i)
    return sum_lanes(dot)


@kernel
def _rank_one_update(factor, state, f, v, first, k, most, along):
    """Apply 1/S += k x x' by the recursion in `learner`, with f = U'x and v = D f, both 0 before `first`.

    Writes along = S x, with the old S.
    """
    size, room = factor.shape
    flat = factor.reshape(-1)
    along[:] = 0.0
    alpha = 1.0
    for j in range(first, size):
        if f[j] == 0.0:  # nothing happens to this column
            continue
        back = -k * f[j] / alpha
        for i in range(0, j, LANES):
            u, b = load(flat, j * room + i), load(along, i)
            store(flat, j * room + i, u + back * b)
            store(along, i, b + u * v[j])
        along[j] = v[j]
        state[j, PRECISION_GAIN] = min(state[j, PRECISION_GAIN] + k * f[j] * f[j] / alpha, most)
        alpha += k * f[j] * v[j]


@kernel
def _count(waiting_labels):
    """Return the number of waiting examples."""
    count = 0
    while count < len(waiting_labels) and waiting_labels[count, WEIGHT] > 0.0:
        count += 1
    return count


@kernel
def learn_pending(weights, taylor, most):
    """Learn the waiting examples of a mini-batch, and remove them.

    The new mean is mu + S X'g for some g, one number per example, so that the search is over their scores.
    """
    state, prior, factor, waiting, waiting_labels = weights
    count = _count(waiting_labels)
    size, room = factor.shape
    far = math.sqrt(most)
    f, v, along = zeros((count, room), np.float64), zeros((count, room), np.float64), zeros(room, np.float64)
    scores, shared = zeros(count, np.float64), zeros((count, count), np.float64)
    for s in range(count):
        for j in range(size):
            scores[s] += waiting[s, j] * (prior[j, MEAN] + state[j, MEAN_SHIFT])
        _project(factor, waiting[s], 0, f[s])
        _scale(f[s], state, prior, 0, v[s])
        for other in range(s + 1):
            shared[s, other] = shared[other, s] = _dot(f[s], v[other])
    pulls = _batch_peak(shared, scores, waiting_labels, taylor)

    # mu += U D (U'X')g: column by column of U
    move = zeros(room, np.float64)
    for s in range(count):
        for j in range(size):
            along[j] += pulls[s] * v[s, j]
    for j in range(size):
        move[j] += along[j]
        for i in range(j):
            move[i] += factor[j, i] * along[j]
    for j in range(size):
        state[j, MEAN_SHIFT] = max(min(state[j, MEAN_SHIFT] + move[j], far), -far)
    for s in range(count):
        rate = waiting_labels[s, WEIGHT] * links.curvature(links.LOGISTIC, scores[s])
        _project(factor, waiting[s], 0, f[s])
        _scale(f[s], state, prior, 0, v[s])
        _rank_one_update(factor, state, f[s], v[s], 0, rate, most, along)
    waiting[:count] = 0.0
    waiting_labels[:count] = 0.0


@kernel
def _batch_peak(shared, scores, labels, taylor):
    """Return g at the peak of the mini-batch's posterior, by Newton's method; `scores` become those at the new mean.

    With K = `shared` = X S X', scores z = z0 + K g, gradients q = c y S(-y z) and curvatures W = c r(z), a Newton step
    goes to g = b - W^1/2 (I + W^1/2 K W^1/2)^-1 W^1/2 K b, b = W (z - z0) + q (Rasmussen, Williams 2006, section 3.4).
    It is halved until the log posterior, sum c log S(y z) - g'K g / 2, does not fall. Taylor takes one full step.
    """
    count = len(scores)
    start = scores.copy()
    g, b, q, w, to, old = zeros((6, count), np.float64)
    square = zeros((count, count), np.float64)
    height = -math.inf
    for _ in range(MAX_BATCH_ITERATIONS):
        now = 0.0
        for s in range(count):
            y, c = labels[s, SIGN], labels[s, WEIGHT]
            slope, curve = links.slope_and_curvature(links.LOGISTIC, y * scores[s])
            q[s], w[s] = c * y * slope, math.sqrt(c * curve)
            now += c * links.log_sigmoid(y * scores[s]) - 0.5 * g[s] * (scores[s] - start[s])
            b[s] = w[s] * w[s] * (scores[s] - start[s]) + q[s]
        height = now
        for s in range(count):
            for other in range(count):
                square[s, other] = w[s] * shared[s, other] * w[other] + (s == other)
        for s in range(count):
            to[s] = 0.0
            for other in range(count):
                to[s] += shared[s, other] * b[other]
            to[s] *= w[s]
        _solve(square, to)
        for s in range(count):
            old[s] = g[s]
            to[s] = b[s] - w[s] * to[s]
        share = 1.0
        while True:
            for s in range(count):
                g[s] = old[s] + share * (to[s] - old[s])
            farthest, now = 0.0, 0.0
            for s in range(count):
                z = start[s]
                for other in range(count):
                    z += shared[s, other] * g[other]
                b[s] = z
            for s in range(count):
                farthest = max(farthest, abs(b[s] - scores[s]) / (1.0 + abs(b[s])))
                now += labels[s, WEIGHT] * links.log_sigmoid(labels[s, SIGN] * b[s]) - 0.5 * g[s] * (b[s] - start[s])
            if taylor or now >= height - 1e-12 * (1.0 + abs(height)) or share < 1e-12:
                break
            share *= 0.5
        scores[:] = b
        # The remaining error is of the order of the last step's square.
        if taylor or (share == 1.0 and farthest < 1e-9) or share < 1e-12:
            break
    return g


@kernel
def _solve(square, right):
    """Solve square z = right in place, for I plus a positive semidefinite matrix, so that no pivot is below 1."""
    count = len(right)
    for j in range(count):
        for i in range(j, count):
            for k in range(j):
                square[i, j] -= square[i, k] * square[j, k]
            square[i, j] = math.sqrt(max(square[j, j], 1.0)) if i == j else square[i, j] / square[j, j]
    for i in range(count):
        for k in range(i):
            right[i] -= square[i, k] * right[k]
        right[i] /= square[i, i]
    for i in range(count - 1, -1, -1):
        for k in range(i + 1, count):
            right[i] -= square[k, i] * right[k]
        right[i] /= square[i, i]


@kernel
def variances(factor, precision, variance):
    """Write the diagonal of U D U' to `variance`."""
    for j in range(len(factor)):
        variance[j] = 1.0 / precision[j]
        for i in range(j):
            variance[i] += factor[j, i] * factor[j, i] / precision[j]


@kernel
def draw_scores(rows, mean, sd, factor, has_intercept, seed, scores):
    """Write scores[draw, row], with one weight vector mean + U sd z per draw."""
    weights = empty(len(factor), np.float64)
    for draw in range(scores.shape[0]):
        weights[:] = mean
        for j in range(len(factor)):
            deviation = sd[j] * normal(seed, draw, np.uint64(j))
            weights[j] += deviation
            for i in range(j):
                weights[i] += factor[j, i] * deviation
        intercept = weights[len(factor) - 1] if has_intercept else 0.0
        write_scores(*rows, weights, intercept, scores[draw])


def merge(mine: FullCovarianceState, other: FullCovarianceState, base: FullCovarianceState | None) -> None:
    """Add to 1/S and mu/S of `mine` what `other` has gained over the prior, or over `base`.

    None of them may have waiting examples.
    """
    from scipy.linalg import LinAlgError, cholesky, solve_triangular

    parts = [(mine, 1.0), (other, 1.0)] + ([] if base is None else [(base, -1.0)])
    # Features that no model has seen are at the prior and uncorrelated: they stay bit for bit as they are.
    met = np.zeros(mine.factor.shape[1], bool)
    for state, _ in parts:
        met |= state.factor.any(axis=0)
        met[: len(state.state)] |= state.state.any(axis=1) | state.factor.any(axis=1)
    live = np.flatnonzero(met)
    block = np.ix_(live, live)
    prior = mine.prior[live, PRECISION]
    precisions = []
    for state, _ in parts:
        root = np.sqrt(prior + state.state[live, PRECISION_GAIN])
        # 1/S = U'^-1 (1/D) U^-1
        upper = state.factor[block].T
        half = root[:, None] * solve_triangular(upper, np.eye(len(live)), unit_diagonal=True)
        precisions.append(half.T @ half)
    try:
        for heir in precisions[:2] if base is not None else []:
            cholesky(heir - precisions[2] + np.diag(MERGE_ROUNDING * np.diag(heir)))
        precision = sum(sign * p for (_, sign), p in zip(parts, precisions, strict=True))
        lower = cholesky(precision - (base is None) * np.diag(prior), lower=True)
    except LinAlgError:
        raise BadModel("base knows more than the models grown from it; give a common ancestor.") from None
    moved = sum(sign * p @ q.state[live, MEAN_SHIFT] for (q, sign), p in zip(parts, precisions, strict=True))
    mine.state[live, MEAN_SHIFT] = solve_triangular(lower.T, solve_triangular(lower, moved, lower=True))
    mine.state[live, PRECISION_GAIN] = np.maximum(np.diag(lower) ** 2 - prior, 0.0)
    # lower = U'^-1 / sqrt(D)
    inverse = solve_triangular(lower / np.diag(lower), np.eye(len(live)), lower=True, unit_diagonal=True)
    mine.factor[block] = np.tril(inverse, -1)
