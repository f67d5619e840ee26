"""Settling in plain NumPy float64: what forests over a base answer for later rows once training has ended.

Three fresh boosted forests are grown on the ring, cross-fitted over blocks in time. Their outputs for rows that they
were not grown on, and what copies frozen at the marks predicted for the same rows, teach one stacker. Its answer is
mixed with the rolling one's by evidence on the newest block. The rolling state is not touched. For numbers and two
classes.
"""

import itertools
from typing import NamedTuple

import numpy as np

from tests.reference.common import sigmoid
from tests.reference.forest import (
    DRAWN_COLUMNS,
    ROW_ITEMS,
    SETTLED_STREAM,
    grow,
    leaf_values,
    uniforms,
)
from tests.reference.forest_combination import Combination, is_numbers, log_likelihood, student_log_density

MIN_ROWS, MAX_ROWS = 200, 131_072  # learned
MANY_ROWS = 8192  # of the ring: above, two blocks, and outputs of every eighth row


class BoostSettings(NamedTuple):
    depth: int
    rate: float
    prior: float  # lambda, in units of the mean curvature
    min_rows: float  # on either side of a split; classes: a tenth of it, of the sum of h
    fraction: float  # of the rows that a tree is grown on


LANES = (
    BoostSettings(8, 0.2, 30.0, 3.0, 1.0),
    BoostSettings(6, 0.1, 5.0, 3.0, 0.6),
    BoostSettings(4, 0.1, 5.0, 10.0, 0.6),
)


class BoostedForest:
    """Trees one after another on the same rows, without learning on: outputs after a quarter of them, and after all."""

    def __init__(self, task, settings: BoostSettings, codes, y, c, n_trees: int, seed: int, stream: int):
        target, c = np.asarray(y, float)[:, None], np.asarray(c, float)[:, None]
        m, d = codes.shape
        self.base = task.base(np.sum(c * target, axis=0), np.sum(c))
        self.n_trees, self.trees = n_trees, []
        f, gains = np.repeat(self.base[None], m, axis=0), np.zeros(d)
        for k in range(n_trees):
            p = task.expected(f)
            e, h = target - p, task.curvature(p, 1e-6)
            lam = settings.prior * float(np.sum(c * h) / np.sum(c))
            columns, rows = np.arange(d), np.arange(m)
            if d > DRAWN_COLUMNS:
                chance = gains / (np.sum(gains) + 1e-300) + 0.3 / d
                key = np.log(uniforms(seed, k, stream, columns)) / chance
                columns = np.argsort(-key, kind="stable")[:DRAWN_COLUMNS]
            if settings.fraction < 1.0:
                rows = rows[uniforms(seed, k, stream, ROW_ITEMS + rows) <= settings.fraction]
            g_rows, h_rows = (c * e)[rows], (c * h)[rows]
            min_side = settings.min_rows * (1.0 if is_numbers(task) else 0.1)
            tree = grow(codes[rows], g_rows[:, 0], h_rows[:, 0], columns, settings.depth, lam, min_side, 0.0)
            gains = 0.98 * gains + tree.gains
            L, _ = leaf_values(tree.leaves(codes[rows]), 2**settings.depth, g_rows, h_rows, lam, settings.rate)
            f = f + L[tree.leaves(codes)]
            self.trees.append((tree, L[:, 0]))

    def outputs(self, codes) -> np.ndarray:
        """[row, 2]: after a quarter of the trees, after all."""
        total, stages = np.full(len(codes), self.base[0]), []
        for k, (tree, L) in enumerate(self.trees, 1):
            total = total + L[tree.leaves(codes)]
            if k == self.n_trees // 4:
                stages.append(total)
        return np.column_stack([*stages, total])


def plan(m: int) -> tuple[int, int]:
    """Blocks in time, and trees of a forest, for m rows of the ring."""
    return 3 if m <= MANY_ROWS else 2, min(200, 4 * (2_000_000 // m))


def weighted_map(task, Z, t, w, mean, variance) -> np.ndarray:
    """Weights of greatest posterior: weighted least squares or logistic regression, prior N(mean, variance).

    Noise of numbers: three rounds. Newton steps of classes are halved until the objective falls.
    """
    theta = mean.copy()
    if is_numbers(task):
        noise = 1.0
        for _ in range(3):
            A = (Z * w[:, None]).T @ Z / noise + np.diag(1.0 / variance)
            theta = mean + np.linalg.solve(A, Z.T @ (w * (t - Z @ mean)) / noise)
            noise = max(np.sum(w * (t - Z @ theta) ** 2) / np.sum(w), 1e-6)
        return theta

    def objective(theta):
        loss = np.sum(w * np.logaddexp(0.0, np.where(t > 0, -1.0, 1.0) * (Z @ theta)))
        return loss + 0.5 * np.sum((theta - mean) ** 2 / variance)

    current = objective(theta)
    for _ in range(25):
        p = sigmoid(Z @ theta)
        A = (Z * (w * np.maximum(p * (1.0 - p), 1e-6))[:, None]).T @ Z + np.diag(1.0 / variance)
        step = np.linalg.solve(A, Z.T @ (w * (t - p)) + (mean - theta) / variance)
        while objective(theta + step) > current and np.max(np.abs(step)) > 1e-12:
            step = step / 2.0
        theta, previous, current = theta + step, current, objective(theta + step)
        if previous - current < 1e-4:
            break
    return theta


class Settled:
    """The settled answer of a `Combination`; `None` from `settle` where there is none."""

    def __init__(self, combination: Combination, seed: int, lanes=LANES, n_trees: int | None = None):
        self.combination, self.task = combination, combination.task
        k, ring = combination.n_rows, combination.forests[0]
        m = min(k, ring.ring)
        first = k - m
        order = (first + np.arange(m)) % ring.ring  # slots of the ring, oldest row first
        codes, c = ring.codes[order], ring.c[order]
        y = ring.y[order, 0]
        self.mean, self.unit = 0.0, 1.0
        if is_numbers(self.task):  # in the combination's units; here in those of the ring
            self.mean = float(np.sum(c * y) / np.sum(c))
            self.unit = float(np.sqrt(np.sum(c * (y - self.mean) ** 2) / np.sum(c))) or 1.0
        y = (y - self.mean) / self.unit
        n_blocks, trees = plan(m)
        trees = n_trees or trees

        def boosted(rows):
            return [
                BoostedForest(self.task, s, codes[rows], y[rows], c[rows], trees, seed, SETTLED_STREAM + j)
                for j, s in enumerate(lanes)
            ]

        # outputs for the evidence's rows of each block, by forests that have not seen the block
        rows = [row for row in combination.evidence.rows if row[0] >= first]
        i = np.array([row[0] for row in rows], int) - first
        ends = np.linspace(0, m, n_blocks + 1).astype(int)
        outputs = np.full((len(i), 2 * len(lanes)), np.nan)
        for start, stop in itertools.pairwise(ends):
            block, rest = (i >= start) & (i < stop), np.r_[0:start, stop:m]
            outputs[block] = np.column_stack([lane.outputs(codes[i[block]]) for lane in boosted(rest)])
        self.lanes = boosted(np.arange(m))

        # the stacker: 1, base and forests as frozen copies predicted them, the lanes
        t, count = np.array([row[1][0] for row in rows]), np.array([row[3] * row[2] for row in rows])
        t = (t - self.mean) / self.unit
        ahead = np.array([row[4][:, 0] for row in rows])
        Z = np.column_stack([np.ones(len(i)), (ahead - self.mean) / self.unit, outputs])
        w = 0.2 * count * (first + i + 1)
        prior = np.zeros(Z.shape[1])
        prior[-outputs.shape[1] :] = 1.0 / outputs.shape[1]
        variance = np.array([0.01] + [0.3] * (Z.shape[1] - 1))
        self.weights = weighted_map(self.task, Z, t, w / k, prior, variance)
        self.range = np.min(Z, axis=0), np.max(Z, axis=0)

        # the choice: the same stacker from all but the newest block, against the rolling answer, on that block
        border, share = ends[-2], combination.share()
        newest = i >= border
        of_older = weighted_map(self.task, Z[~newest], t[~newest], (w / (first + border))[~newest], prior, variance)
        settled = self._answer(Z[newest] @ of_older)
        rolling = np.array([(1.0 - share) * row[5][0] + share * row[6][0] for row in rows])[newest]
        targets, count = np.array([row[1][0] for row in rows])[newest], count[newest]
        if is_numbers(self.task):
            squares = (np.stack([rolling, settled]) - targets) ** 2
            s2 = max(np.sum(count * np.min(squares, axis=0)) / np.sum(count), 1e-300)
            of_rolling, of_settled = student_log_density(squares, s2)
        else:
            answers = np.stack([rolling, settled])[..., None]
            of_rolling, of_settled = (log_likelihood(self.task, answer, targets[:, None]) for answer in answers)
        self.log_odds = 1.0 + float(np.sum(count * (of_settled - of_rolling))) / 10.0
        self.share = float(sigmoid(self.log_odds))

    def _answer(self, scores):
        """In the combination's units: means, or probabilities."""
        return scores * self.unit + self.mean if is_numbers(self.task) else sigmoid(scores)

    def later(self, codes, base) -> np.ndarray:
        """[row, 1], as `Combination.later`."""
        columns = self.combination.later_columns(codes, base)[:, :, 0]
        outputs = np.column_stack([lane.outputs(codes) for lane in self.lanes])
        Y = np.column_stack([np.ones(len(codes)), (columns - self.mean) / self.unit, outputs])
        settled = self._answer(np.clip(Y, *self.range) @ self.weights)[:, None]
        return self.share * settled + (1.0 - self.share) * self.combination.later(codes, base)


def settle(combination: Combination, seed: int = 0, lanes=LANES, n_trees: int | None = None) -> Settled | None:
    if combination.task.n_outputs > 1 or not MIN_ROWS <= combination.n_rows <= MAX_ROWS:
        return None
    return Settled(combination, seed, lanes, n_trees)
