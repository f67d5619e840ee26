"""The rolling forest in plain NumPy float64, one row at a time, written to be read.

Boosted trees over the codes of a table's columns: one tree at a time is refitted on a ring of recent rows, T refits for
every doubling of the rows. `forest_combination` stacks forests with a base learner, `forest_settling` is what happens
when training ends. The kernels answer to these files; these files answer to the tests beside them.

One forest serves every task: a row has K outputs z, of which the task makes expectations p = expected(z) of K targets.
Numbers have z = p (K = 1), two classes log-odds and a probability (K = 1), several classes K of each. So all have

    residual e = target - p         curvature h = 1, or p (1 - p)

Symbols: T trees of depth D, ring of M rows, leaves L as fitted and L2 as they learn on, masses W, sums G of residuals
and H of curvatures. Labels of numbers are standardized before they get here. A weight c multiplies e, h and all sums of
rows; a row of weight 0 is predicted and changes nothing.
"""

import math
from typing import NamedTuple

import numpy as np

from tests.reference.common import sigmoid

CELLS = 65  # codes of a column: 0 = missing, 1 to 64
FIRST_REFIT = 64  # rows
FEW_ROWS = 4096  # below, trees are refitted twice as often
RING = 65_536  # once there are so many rows, half as often
DRAWN_COLUMNS = 16  # for each tree


# ----------------------------------------------------------------------------------------------------
# Draws: functions of (seed, draw, stream, item), so that nothing has to be stored
# ----------------------------------------------------------------------------------------------------

DEEP_STREAM, FLAT_STREAM, SETTLED_STREAM = 0, 1, 2
CLASS_ITEMS, ROW_ITEMS = 1 << 32, 1 << 33  # items below are columns


def mixed_bits(state):
    """splitmix64's output at a state."""
    with np.errstate(over="ignore"):
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))


def random_bits(seed, draw, items):
    """64 random bits for each item."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        key = mixed_bits(np.uint64(seed) + golden)
        key = mixed_bits(key ^ (np.uint64(draw) + golden))
        return mixed_bits(key ^ (np.asarray(items, np.uint64) + golden))


def uniforms(seed, draw, stream, items):
    """A number in (0, 1] for each item."""
    return 1.0 - (random_bits(seed, draw, np.asarray(items) + (stream << 40)) >> np.uint64(11)) * 2.0**-53


def normals(seed, draw, stream, items):
    """A standard normal number for each item (Box-Muller)."""
    bits = random_bits(seed, draw, np.asarray(items) + (stream << 40))
    with np.errstate(over="ignore"):
        angle = mixed_bits(bits + np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)
    radius = 1.0 - (bits >> np.uint64(11)) * 2.0**-53
    return np.sqrt(-2.0 * np.log(radius)) * np.cos(2.0 * np.pi * angle * 2.0**-53)


# ----------------------------------------------------------------------------------------------------
# Codes
# ----------------------------------------------------------------------------------------------------


def cuts_of(values, cells: int = CELLS - 1) -> np.ndarray:
    """Cuts between at most `cells` cells of a column: between distinct values where these are few.

    Else at quantiles k/cells. A heavy value takes several of these; the cuts it leaves over go to quantiles of the
    distinct values.
    """
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    distinct = np.unique(values)
    if len(distinct) <= cells:
        middle = distinct[:-1] / 2 + distinct[1:] / 2
        return np.where(middle > distinct[:-1], middle, distinct[1:])
    levels = np.arange(1, cells) / cells
    cuts = np.unique(np.quantile(values, levels, method="inverted_cdf"))
    free = cells - 1 - len(cuts)
    if free > 0:
        levels = np.arange(1, free + 1) / (free + 1)
        cuts = np.union1d(cuts, np.quantile(distinct, levels, method="inverted_cdf"))
    return cuts


def codes_of(values, cuts) -> np.ndarray:
    """0 if missing (or not finite), else 1 + the number of cuts at or below the value."""
    values = np.asarray(values, float)
    is_finite = np.isfinite(values)
    cells = 1 + np.searchsorted(cuts, np.where(is_finite, values, 0.0), side="right")
    return np.where(is_finite, cells, 0).astype(np.uint8)


def indicator_codes(values, categories) -> np.ndarray:
    """A category of at most 16 values: a 0/1 column for each (of two values: for the second). Codes are 1 and 2."""
    shown = categories[1:] if len(categories) == 2 else categories
    return np.array([[1 + (value == category) for category in shown] for value in values], np.uint8)


class CategoryMeans:
    """A category of more values, as a number: the mean label of its EARLIER rows, shrunk to the mean of all by 10 rows.

        (sum of c y + 10 m) / (sum of c + 10)        m the mean of all earlier rows

    NaN before the first row. Several classes have one for each of the 4 most frequent, with y = 1 for its rows.
    """

    PRIOR_ROWS = 10.0

    def __init__(self):
        self.sums, self.rows = {}, {}
        self.total = self.n = 0.0

    def value(self, category) -> float:
        if self.n == 0:
            return math.nan
        total = self.sums.get(category, 0.0) + self.PRIOR_ROWS * self.total / self.n
        return total / (self.rows.get(category, 0.0) + self.PRIOR_ROWS)

    def learn(self, category, y: float, c: float = 1.0) -> float:
        """The value before this row, which is its code's."""
        value = self.value(category)
        self.sums[category] = self.sums.get(category, 0.0) + c * y
        self.rows[category] = self.rows.get(category, 0.0) + c
        self.total, self.n = self.total + c * y, self.n + c
        return value


# ----------------------------------------------------------------------------------------------------
# Tasks
# ----------------------------------------------------------------------------------------------------


class Numbers:
    """Standardized labels; K = 1."""

    n_outputs = 1
    max_leaf = math.inf

    def targets(self, y):
        return np.atleast_1d(np.asarray(y, float))[:, None]

    def expected(self, z):
        return z

    def curvature(self, p, floor):
        return np.ones_like(p)

    def base(self, sums, n):
        """The output before the first tree; 0 before the first row."""
        return sums / n if n else np.zeros(1)

    def direction(self, p, targets, forest):
        """g and h along which a tree is grown."""
        return (targets - p)[:, 0], np.ones(len(p)), np.ones(1)

    def min_side(self, hbar):
        """The least H of either side of a split: 10 rows."""
        return 10.0

    def noise(self, squares, n):
        """s2: what a split's gain is compared with."""
        return (squares + 12.0) / (n + 25.0)


class TwoClasses(Numbers):
    """Labels 0 and 1, log-odds; K = 1."""

    def expected(self, z):
        return sigmoid(z)

    def curvature(self, p, floor):
        return np.maximum(p * (1.0 - p), floor)

    def base(self, sums, n):
        return np.log((sums + 0.5) / (n - sums + 0.5))

    def direction(self, p, targets, forest):
        return (targets - p)[:, 0], self.curvature(p, 1e-6)[:, 0], np.ones(1)

    def min_side(self, hbar):
        return 1.0

    def noise(self, squares, n):
        return 1.0


class SeveralClasses(TwoClasses):
    """Labels 0 to K - 1. A tree is grown along one direction u of the residual vector; its leaves are vectors."""

    max_leaf = 4.0

    def __init__(self, n_classes: int):
        self.n_outputs = n_classes

    def targets(self, y):
        return np.eye(self.n_outputs)[np.atleast_1d(np.asarray(y)).astype(int)]

    def expected(self, z):
        p = np.exp(z - np.max(z, axis=-1, keepdims=True))
        return p / np.sum(p, axis=-1, keepdims=True)

    def base(self, sums, n):
        return np.log((sums + 0.5) / (n + 0.5 * self.n_outputs))

    def direction(self, p, targets, forest):
        """K normal numbers, or a random half of the classes, in turn; scaled to [0, 1].

            g = u_y - sum u_k p_k        h = sum u_k^2 p_k - (sum u_k p_k)^2

        are the slope and the curvature of the log-likelihood along u.
        """
        K, refit = self.n_outputs, forest.n_refits
        draw = normals if refit % 2 == 0 else uniforms
        u = draw(forest.seed, refit, forest.stream, CLASS_ITEMS + np.arange(K))
        if refit % 2:
            u = (u <= 0.5).astype(float)
            own = (refit + 1) % K
            u[own] = 1.0 - u[(own + 1) % K]  # neither half is empty
        u = (u - u.min()) / (u.max() - u.min())
        mean = p @ u
        return targets @ u - mean, np.maximum(p @ u**2 - mean**2, 1e-6), u

    def min_side(self, hbar):
        return 10.0 * min(hbar, 0.1)


# ----------------------------------------------------------------------------------------------------
# A tree
# ----------------------------------------------------------------------------------------------------


class Structure(NamedTuple):
    """Nodes in the order of a heap: node i has the children 2 i + 1 (left) and 2 i + 2. Without a split all go left."""

    columns: np.ndarray  # [2^D - 1]
    cells: np.ndarray  # [2^D - 1] go right if code > cell; 255: no split
    gains: np.ndarray  # of each column, summed over its splits

    def leaves(self, codes) -> np.ndarray:
        """The leaf, 0 to 2^D - 1, of each row."""
        return leaves_of(codes, self.columns[None], self.cells[None])[:, 0]


def leaves_of(codes, columns, cells) -> np.ndarray:
    """leaves[row, tree] of codes[row, column] in trees columns[tree, node], cells[tree, node]."""
    rows, trees = np.arange(len(codes))[:, None], np.arange(len(columns))[None]
    node = np.zeros((len(codes), len(columns)), int)
    for _ in range(int(np.log2(columns.shape[1] + 1))):
        node = 2 * node + 1 + (codes[rows, columns[trees, node]] > cells[trees, node])
    return node - columns.shape[1]


def grow(codes, g, h, columns, depth, lam, min_side, need) -> Structure:
    """Level by level, every node its own best split (column, cell), if that gains more than `need`:

        G_l^2/(H_l + lambda) + G_r^2/(H_r + lambda) - G^2/(H + lambda)        H_l, H_r >= min_side

    Sums are exact, from histograms of all cells. Of equal splits the first column, then the first cell is taken.
    """
    columns = np.sort(np.asarray(columns))
    n_nodes, gains = 2**depth - 1, np.zeros(codes.shape[1])
    column_of, cell_of = np.zeros(n_nodes, int), np.full(n_nodes, 255)
    node, is_open = np.zeros(len(codes), int), np.ones(1, bool)  # of this level, from the left
    for level in range(depth):
        n = 2**level
        hist = np.zeros((2, n, len(columns), CELLS))
        for a, column in enumerate(columns):
            slot = node * CELLS + codes[:, column]
            hist[0, :, a] = np.bincount(slot, g, n * CELLS).reshape(n, CELLS)
            hist[1, :, a] = np.bincount(slot, h, n * CELLS).reshape(n, CELLS)
        left = np.cumsum(hist, axis=3)[..., :-1]
        total = np.sum(hist[:, :, :1], axis=3, keepdims=True)
        right = total - left
        own = (total[0] ** 2 / np.maximum(total[1] + lam, 1e-300))[:, 0, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            score = left[0] ** 2 / (left[1] + lam) + right[0] ** 2 / (right[1] + lam)
        few = 1.0 - 1e-12  # sums of the same rows in another order
        is_split = (left[1] >= min_side * few) & (right[1] >= min_side * few)
        score = np.where(is_split, score, -np.inf).reshape(n, -1)
        best = np.max(score, axis=1)
        split = np.argmax(score >= best[:, None] * few, axis=1)  # the first of those equal but for rounding
        is_open = is_open & (best > own + need)
        first = n - 1
        chosen = columns[split // (CELLS - 1)]
        column_of[first : first + n] = np.where(is_open, chosen, 0)
        cell_of[first : first + n] = np.where(is_open, split % (CELLS - 1), 255)
        np.add.at(gains, chosen[is_open], (best - own)[is_open])
        goes_right = codes[np.arange(len(codes)), column_of[first + node]] > cell_of[first + node]
        node = 2 * node + goes_right
        is_open = np.repeat(is_open, 2)
    return Structure(column_of, cell_of, gains)


def leaf_values(leaves, n_leaves, e, h, lam, rate):
    """L = rate G/(H + lambda) and W = H + lambda, of K outputs; e and h are [row, K]."""
    G = np.array([np.bincount(leaves, column, n_leaves) for column in e.T]).T
    W = np.array([np.bincount(leaves, column, n_leaves) for column in h.T]).T + lam
    return rate * G / np.maximum(W, 1e-300), W


# ----------------------------------------------------------------------------------------------------
# The rolling forest
# ----------------------------------------------------------------------------------------------------


class Settings(NamedTuple):
    n_trees: int  # T
    depth: int  # D
    rate: float
    shrink: float
    need: float  # what a split must gain, in units of the noise
    honest: bool = False  # whether live errors bound the prior's curvature from below


DEEP_NUMBERS = Settings(100, 8, rate=0.4, shrink=0.5, need=0.3)
DEEP_CLASSES = Settings(100, 8, rate=0.2, shrink=1.0, need=0.3, honest=True)
FLAT = Settings(50, 4, rate=0.2, shrink=0.3, need=0.0)
SEVERAL_CLASSES = Settings(100, 8, rate=0.1, shrink=0.2, need=0.3, honest=True)


def refit_row(refit: int, n_trees: int, ring: int = RING) -> int:
    """The number of rows after which refit 0, 1, 2, ... is due.

    2 T for a doubling of the rows from 64 to 4,096, T from there, T/2 once the ring is full. Several may be due at a
    row.
    """
    few = min(FEW_ROWS, ring)
    before = 2 * n_trees * round(math.log2(few / FIRST_REFIT))
    filling = n_trees * round(math.log2(ring / few))
    if refit < before:
        return math.ceil(FIRST_REFIT * 2.0 ** (refit / (2 * n_trees)))
    if refit < before + filling:
        return math.ceil(few * 2.0 ** ((refit - before) / n_trees))
    return math.ceil(ring * 2.0 ** ((refit - before - filling) / (n_trees / 2)))


class Trees(NamedTuple):
    """What predicts: a frozen copy of a forest is one of these."""

    base: np.ndarray  # [K]
    columns: np.ndarray  # [tree, node]
    cells: np.ndarray
    leaves: np.ndarray  # L2: [tree, leaf, K]

    def outputs(self, codes) -> np.ndarray:
        """z[row, K] = base + sum of L2 over trees."""
        c = leaves_of(codes, self.columns, self.cells)
        return self.base + np.sum(self.leaves[np.arange(len(self.leaves)), c], axis=1)


class RollingForest:
    """T trees, of which one at a time is refitted on a ring of the newest M rows."""

    def __init__(self, task, settings: Settings, n_columns: int, seed: int = 0, stream: int = 0, ring: int = RING):
        self.task, self.settings, self.n_columns = task, settings, n_columns
        self.seed, self.stream, self.ring = seed, stream, ring
        T, leaves, K = settings.n_trees, 2**settings.depth, task.n_outputs
        self.n_rows = self.n_refits = self.n_trees = 0
        self.base = task.base(np.zeros(K), 0.0)
        self.columns, self.cells = np.zeros((T, leaves - 1), int), np.full((T, leaves - 1), 255)
        self.L, self.L2, self.W = np.zeros((3, T, leaves, K))
        self.gains = np.zeros(n_columns)
        # the ring: codes, targets, weights, and f = the sum of L over trees
        self.codes = np.zeros((ring, n_columns), np.uint8)
        self.y, self.f, self.c = np.zeros((ring, K)), np.zeros((ring, K)), np.zeros(ring)
        # sums over all rows, then fading ones over rows since the first tree
        self.label_sums, self.weight = np.zeros(K), 0.0
        self.squares = np.zeros(K)  # of e, for each output
        self.vu = self.uu = self.vv = self.n = 0.0  # v the centred label, u the centred output

    def trees(self) -> Trees:
        n = self.n_trees
        return Trees(self.base.copy(), self.columns[:n].copy(), self.cells[:n].copy(), self.L2[:n].copy())

    def outputs(self, codes) -> np.ndarray:
        return self.trees().outputs(codes)

    # a row

    def learn(self, codes, y: float, c: float = 1.0) -> np.ndarray:
        """Learn one row; the outputs z[K] before."""
        n, rate = self.n_trees, self.settings.rate
        tree, leaf = np.arange(n), leaves_of(codes[None], self.columns[:n], self.cells[:n])[0]
        z = self.base + np.sum(self.L2[tree, leaf], axis=0)
        if c == 0.0:
            return z
        target, p = self.task.targets(y)[0], self.task.expected(z)
        e, h = target - p, self.task.curvature(p, 1e-3)
        self.W[tree, leaf] += c * h
        self.L2[tree, leaf] += 0.5 * rate * c * e / self.W[tree, leaf]
        if n:
            mean, keep = self.label_sums / self.weight, 1.0 - 1.0 / (self.n_rows / 4.0 + 50.0)
            v, u = target - mean, p - mean
            self.vu = keep * self.vu + c * np.sum(v * u)
            self.uu = keep * self.uu + c * np.sum(u * u)
            self.vv = keep * self.vv + c * np.sum(v * v)
            self.squares = keep * self.squares + c * e**2
            self.n = keep * self.n + c
        slot = self.n_rows % self.ring
        self.codes[slot], self.y[slot], self.c[slot] = codes, target, c
        self.f[slot] = np.sum(self.L[tree, leaf], axis=0)  # L, not L2: what a refit takes off again
        self.label_sums, self.weight = self.label_sums + c * target, self.weight + c
        if n == 0:
            self.base = self.task.base(self.label_sums, self.weight)
        self.n_rows += 1
        while refit_row(self.n_refits, self.settings.n_trees, self.ring) <= self.n_rows:
            self.refit()
        return z

    # a refit

    def r2(self) -> float:
        """The squared correlation of live outputs and labels, held to 1/2 by 25 rows, in [.02, .999]."""
        correlation = max(self.vu, 0.0) ** 2 / (self.uu * self.vv + 1e-300)
        return float(np.clip((self.n * correlation + 25 * 0.5) / (self.n + 25), 0.02, 0.999))

    def drawn_columns(self) -> np.ndarray:
        """All columns if there are at most 16, else 16, rather those that gained lately."""
        d = self.n_columns
        if d <= DRAWN_COLUMNS:
            return np.arange(d)
        chance = self.gains / (np.sum(self.gains) + 1e-300) + 0.3 / d
        key = np.log(uniforms(self.seed, self.n_refits, self.stream, np.arange(d))) / chance
        return np.argsort(-key, kind="stable")[:DRAWN_COLUMNS]

    def refit(self) -> None:
        """Fit the next tree, in turn, to what the others leave over on the ring."""
        s, task = self.settings, self.task
        m, t = min(self.n_rows, self.ring), self.n_refits % s.n_trees
        codes, y, c, f = self.codes[:m], self.y[:m], self.c[:m, None], self.f[:m]
        if t < self.n_trees:
            f -= self.L[t, leaves_of(codes, self.columns[t : t + 1], self.cells[t : t + 1])[:, 0]]
        p = task.expected(self.base + f)
        e, h = y - p, task.curvature(p, 1e-6)
        hbar = np.sum(c * h, axis=0) / np.sum(c)
        if s.honest:
            hbar = np.maximum(hbar, (self.squares + 10.0 * hbar) / (self.n + 10.0))
        r2 = self.r2()
        factor = 1.0 + s.shrink * s.n_trees * (1.0 - r2) / r2
        # the structure, along one direction u of the outputs
        g_u, h_u, u = task.direction(p, y, self)
        mean_u = float(np.sum(c[:, 0] * h_u) / np.sum(c))
        bound = np.sum(u**2 * hbar)
        lam_u = factor * (max(mean_u, min(bound, 0.25)) if task.n_outputs > 1 else bound)
        need = s.need * task.noise(self.squares[0], self.n)
        columns = self.drawn_columns()
        self.gains *= 0.98
        tree = grow(codes, c[:, 0] * g_u, c[:, 0] * h_u, columns, s.depth, lam_u, task.min_side(mean_u), need)
        self.gains += tree.gains
        # the leaves
        leaves = tree.leaves(codes)
        L, W = leaf_values(leaves, 2**s.depth, c * e, c * h, factor * hbar, s.rate)
        L = np.clip(L, -task.max_leaf, task.max_leaf)
        self.columns[t], self.cells[t], self.L[t], self.L2[t], self.W[t] = tree.columns, tree.cells, L, L, W
        f += L[leaves]
        self.n_refits, self.n_trees = self.n_refits + 1, max(self.n_trees, t + 1)
