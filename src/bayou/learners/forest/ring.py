"""The rolling forest: T boosted trees of depth D, of which one at a time is refitted on a ring of the newest rows.

Outputs z are standardized numbers, or log-odds. A row of codes x, target y and weight c > 0, with leaf t(x) of
each tree t:

    z = base + sum L2[t(x)]                                      base: mean target or its log-odds until a tree exists
    e = y - z, h = 1            or  e = y - p, h = max(p (1 - p), .001), p = S(z)
    W[t(x)] += c h     L2[t(x)] += .5 rate c e / W[t(x)]         leaves learn on until the turn of their tree
    running sums of e^2, v^2, u^2 and v u                        v the centered target, u the centered prediction
    ring: x, y, c, t(x), and f = sum L[t(x)]                     L as fitted: it can be taken off again

**A refit** of tree t, in turn: f -= L[t(x)], and with p, e and h as above but of base + f,

    r2 = (n cor(v, u)^2 + 12.5)/(n + 25) within [.02, .999]      n the running weight
    lambda = hbar (1 + shrink T (1 - r2)/r2)                     hbar the mean h of the ring; if honest, at least the
                                                                 running mean of e^2, held to hbar by 10 rows
    grow the tree by c e and c h, `need` times the noise, on the columns that gained lately (`draw_columns`)
    L = rate G/(H + lambda)     W = H + lambda     L2 = L     f += L

So shrinkage, and what a split must gain, follow from what the forest's own live outputs were worth, and nothing is
tuned. Refits are due at fixed numbers of rows: 2 T for every doubling from 64 to 4,096, T from there, T/2 once the ring
is full. All that is drawn is a function of (seed, refit, column).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.links import sigmoid
from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.random import keyed, unit
from bayou.learners.forest.tree import DRAWN_COLUMNS, Growth, SplitRule, find_leaves, grow

RING_ROWS = 65_536
FIRST_REFIT, FEW_ROWS = 64, 4096
BLOCK_ROWS = 256  # rows whose leaves are found at a time
MIN_CAPACITY = 1024  # rows
# Fields of a leaf: as fitted, as it learns on, and mass.
FITTED, LEARNED, MASS = range(3)
# Fields of `Forest.sums`.
N_ROWS, N_REFITS = range(2)  # rows of weight > 0; refits
BASE = 2  # the output without trees
TARGETS, WEIGHT = range(3, 5)  # sums over all rows: of targets and of weights
# Fading sums over rows since the first tree: of e^2, v u, u^2, v^2 and 1.
SQUARES, VU, UU, VV, FADED_WEIGHT = range(5, 10)
N_SUMS = 10


class Settings(NamedTuple):
    """The constants of a forest."""

    n_trees: int
    depth: int
    rate: float
    shrink: float
    need: float  # what a split must gain, in units of the noise
    is_honest: bool  # whether live errors bound the prior's curvature from below
    is_logistic: bool  # two classes
    seed: int
    stream: int  # which of several forests that draw from one seed


def deep_settings(is_logistic: bool, seed: int) -> Settings:
    if is_logistic:
        return Settings(100, 8, 0.2, 1.0, 0.3, True, True, seed, 0)
    return Settings(100, 8, 0.4, 0.5, 0.3, False, False, seed, 0)


def flat_settings(is_logistic: bool, seed: int) -> Settings:
    return Settings(50, 4, 0.2, 0.3, 0.0, False, is_logistic, seed, 1)


class Ring(NamedTuple):
    """The newest rows; row n is in slot n % size."""

    codes: np.ndarray  # [column, slot]
    targets: np.ndarray  # [slot]
    weights: np.ndarray  # [slot]
    size: int


class Forest(NamedTuple):
    """The trees, and what is known of the ring's rows in them."""

    settings: Settings
    nodes: np.ndarray  # [tree, node], see `tree`
    leaves: np.ndarray  # [tree, leaf, (FITTED, LEARNED, MASS)]
    gains: np.ndarray  # [column] of its splits, fading
    sums: np.ndarray  # [N_SUMS]
    leaf_of: np.ndarray  # [tree, slot]
    fitted: np.ndarray  # [slot] f

    @classmethod
    def of(cls, settings: Settings, n_columns: int) -> Forest:
        """Return a forest that has learned nothing, with room for no rows."""
        shape = settings.n_trees, 1 << settings.depth
        nodes, leaves = np.zeros(shape, np.uint16), np.zeros((*shape, 3))
        no_slots = np.zeros((settings.n_trees, 0), np.uint8), np.zeros(0)
        return cls(settings, nodes, leaves, np.zeros(n_columns), np.zeros(N_SUMS), *no_slots)

    @property
    def n_trees(self) -> int:
        return int(min(self.sums[N_REFITS], self.settings.n_trees))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what is stored; rows' leaves are found again."""
        return {
            "nodes": self.nodes,
            "leaves": self.leaves.reshape(len(self.leaves), -1),
            "gains": self.gains.reshape(1, -1),
            "sums": self.sums.reshape(1, -1),
            "fitted": self.fitted.reshape(1, -1),
        }


class Trees(NamedTuple):
    """A frozen copy of a forest: all that predicts."""

    nodes: np.ndarray
    leaves: np.ndarray  # [tree, leaf], as they had learned
    base: np.ndarray  # [1]

    @classmethod
    def of(cls, forest: Forest) -> Trees:
        n = forest.n_trees
        return cls(forest.nodes[:n].copy(), forest.leaves[:n, :, LEARNED].copy(), forest.sums[BASE : BASE + 1].copy())

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what is stored."""
        return {"nodes": self.nodes, "leaves": self.leaves, "base": self.base}

    def outputs(self, codes: np.ndarray) -> np.ndarray:
        """Return the output of each row of codes."""
        outputs = np.empty(len(codes))
        add_leaves(codes, self.nodes, self.leaves, self.base[0], outputs)
        return outputs


class RollingForests:
    """A deep and a flat forest over one ring.

    Args:
        n_columns: number of columns of the codes.
        deep, flat: their settings.
        ring_rows: size of the ring.
    """

    def __init__(self, n_columns: int, deep: Settings, flat: Settings, ring_rows: int = RING_ROWS) -> None:
        self.ring = Ring(np.zeros((n_columns, 0), np.uint8), np.zeros(0), np.zeros(0), ring_rows)
        self.forests = [Forest.of(settings, n_columns) for settings in (deep, flat)]
        self._scratch: Growth | None = None

    @property
    def n_rows(self) -> int:
        return int(self.forests[0].sums[N_ROWS])

    def learn(self, codes: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Learn rows; return outputs[row, forest] of each before. Rows of weight 0 change nothing."""
        outputs = np.empty((len(targets), 2))
        row = 0
        while row < len(targets):
            if self.n_rows == len(self.ring.targets) < self.ring.size:
                self.resize(min(max(2 * self.n_rows, MIN_CAPACITY), self.ring.size))
            rows = codes[row:], targets[row:], weights[row:]
            row += learn_rows(*rows, self.ring, *self.forests, self._grown(), outputs[row:])
        return outputs

    def predict(self, codes: np.ndarray) -> np.ndarray:
        """Return outputs[row, forest], as `learn` would return them if each row were the next."""
        return np.column_stack([trees.outputs(codes) for trees in self.copies()])

    def copies(self) -> list[Trees]:
        """Return frozen copies of the forests."""
        return [Trees.of(forest) for forest in self.forests]

    def resize(self, capacity: int) -> None:
        """Give the ring room for so many rows."""

        def resized(array: np.ndarray) -> np.ndarray:
            room = np.zeros((*array.shape[:-1], capacity), array.dtype)
            kept = min(capacity, array.shape[-1])
            room[..., :kept] = array[..., :kept]
            return room

        codes, targets, weights, _ = self.ring
        self.ring = Ring(resized(codes), resized(targets), resized(weights), self.ring.size)
        self.forests = [f._replace(leaf_of=resized(f.leaf_of), fitted=resized(f.fitted)) for f in self.forests]
        self._scratch = None

    def _grown(self) -> Growth:
        if self._scratch is None:
            depth = max(forest.settings.depth for forest in self.forests)
            self._scratch = Growth.of(len(self.ring.targets), depth, len(self.ring.codes))
        return self._scratch

    # --- files --------------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what is stored."""
        ring = {
            "codes": self.ring.codes,
            "targets": self.ring.targets.reshape(1, -1),
            "weights": self.ring.weights.reshape(1, -1),
        }
        for name, forest in zip(("deep", "flat"), self.forests, strict=True):
            ring |= {f"{name} {key}": array for key, array in forest.arrays().items()}
        return ring

    def restore(self) -> str | None:
        """Find the ring's rows in the restored trees; return what is wrong with them, if anything is."""
        capacity, n_columns = len(self.ring.targets), len(self.ring.codes)
        for forest in self.forests:
            n_rows, n_refits = forest.sums[:2].tolist()
            if n_rows != self.n_rows or not 0 <= n_rows < 2.0**62 or n_rows % 1:
                return "its numbers of rows disagree"
            if n_refits != refits_due(int(n_rows), forest.settings.n_trees, self.ring.size):
                return "it has another number of refits than its rows demand"
            if (forest.nodes & 0xFF).max(initial=0) >= n_columns:
                return "its trees ask for columns that it does not have"
            m = min(self.n_rows, self.ring.size)
            if m > capacity:
                return "its ring is smaller than its number of rows"
            codes = np.ascontiguousarray(self.ring.codes[:, :m].T)
            find_leaves(codes, 0, m, forest.nodes, forest.n_trees, forest.settings.depth, forest.leaf_of)
        return None


@kernel
def refit_row(refit, n_trees, ring_rows):
    """Return the number of rows after which refit 0, 1, 2, ... is due; several may be due at once."""
    few = min(FEW_ROWS, ring_rows)
    before = 2 * n_trees * np.int64(np.rint(math.log2(few / FIRST_REFIT)))
    filling = n_trees * np.int64(np.rint(math.log2(ring_rows / few)))
    if refit < before:
        return np.int64(math.ceil(FIRST_REFIT * 2.0 ** (refit / (2 * n_trees))))
    if refit < before + filling:
        return np.int64(math.ceil(few * 2.0 ** ((refit - before) / n_trees)))
    return np.int64(math.ceil(ring_rows * 2.0 ** ((refit - before - filling) / (n_trees / 2))))


@kernel
def refits_due(n_rows, n_trees, ring_rows):
    """Return the number of refits that are due after so many rows."""
    refit = 0
    while refit_row(refit, n_trees, ring_rows) <= n_rows:
        refit += 1
    return refit


@kernel
def add_leaves(codes, nodes, leaves, base, outputs):
    """Fill the output of each row: base + sum of its leaves, added in the order of the trees, as in `learn_block`."""
    n_trees, depth = nodes.shape[0], 0
    while 1 << depth < nodes.shape[1]:
        depth += 1
    leaf_of = empty((n_trees, BLOCK_ROWS), np.uint8)
    for start in range(0, codes.shape[0], BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, codes.shape[0])
        find_leaves(codes, start, stop, nodes, n_trees, depth, leaf_of)
        for row in range(start, stop):
            z = base
            for tree in range(n_trees):
                z += leaves[tree, leaf_of[tree, row - start]]
            outputs[row] = z


@kernel
def learn_rows(codes, targets, weights, ring, deep, flat, scratch, outputs):
    """Learn rows in sections between refits, until the ring has no room; return the number of rows that were taken."""
    leaf_of = empty((max(deep.settings.n_trees, flat.settings.n_trees), BLOCK_ROWS), np.uint8)
    capacity, start = ring.targets.size, 0
    while start < targets.size:
        # a section: at most `room` rows to learn, in slots from `first` on
        n_rows = np.int64(deep.sums[N_ROWS])
        if n_rows == capacity and capacity < ring.size:
            break
        first = n_rows % ring.size
        room = min(next_refit(deep, ring.size), next_refit(flat, ring.size)) - n_rows
        room, stop, n_learned = min(room, capacity - first), start, 0
        while stop < min(targets.size, start + BLOCK_ROWS) and n_learned < room:
            n_learned += weights[stop] != 0.0
            stop += 1
        learn_block(codes, targets, weights, start, stop, deep, leaf_of, first, outputs[:, 0])
        learn_block(codes, targets, weights, start, stop, flat, leaf_of, first, outputs[:, 1])
        slot = first
        for row in range(start, stop):
            if weights[row] == 0.0:
                continue
            ring.targets[slot], ring.weights[slot] = targets[row], weights[row]
            for column in range(codes.shape[1]):
                ring.codes[column, slot] = codes[row, column]
            slot += 1
        n_rows += n_learned
        while next_refit(deep, ring.size) <= n_rows:
            refit(deep, ring, min(n_rows, ring.size), scratch)
        while next_refit(flat, ring.size) <= n_rows:
            refit(flat, ring, min(n_rows, ring.size), scratch)
        start = stop
    return start


@kernel
def next_refit(forest, ring_rows):
    return refit_row(np.int64(forest.sums[N_REFITS]), forest.settings.n_trees, ring_rows)


@kernel
def learn_block(codes, targets, weights, start, stop, forest, leaf_of, first, outputs):
    """Learn rows start to stop, between two refits; their slots begin at `first`."""
    settings, leaves, sums = forest.settings, forest.leaves, forest.sums
    n_trees = np.int64(min(sums[N_REFITS], settings.n_trees))
    find_leaves(codes, start, stop, forest.nodes, n_trees, settings.depth, leaf_of)
    for tree in range(n_trees):
        slot = first
        for row in range(start, stop):
            if weights[row] != 0.0:
                forest.leaf_of[tree, slot] = leaf_of[tree, row - start]
                slot += 1
    slot = first
    for row in range(start, stop):
        y, c, k = targets[row], weights[row], row - start
        z = sums[BASE]
        for tree in range(n_trees):
            z += leaves[tree, leaf_of[tree, k], LEARNED]
        outputs[row] = z
        if c == 0.0:
            continue
        p, h = z, 1.0
        if settings.is_logistic:
            p = sigmoid(z)
            h = max(p * (1.0 - p), 1e-3)
        e, fitted = y - p, 0.0
        step = 0.5 * settings.rate * c * e
        for tree in range(n_trees):
            leaf = leaf_of[tree, k]
            mass = leaves[tree, leaf, MASS] + c * h
            leaves[tree, leaf, MASS] = mass
            leaves[tree, leaf, LEARNED] += step / mass
            fitted += leaves[tree, leaf, FITTED]
        forest.fitted[slot] = fitted
        slot += 1
        if n_trees > 0:
            mean = sums[TARGETS] / sums[WEIGHT]
            keep = 1.0 - 1.0 / (sums[N_ROWS] / 4.0 + 50.0)
            v, u = y - mean, p - mean
            sums[SQUARES] = keep * sums[SQUARES] + c * e * e
            sums[VU] = keep * sums[VU] + c * v * u
            sums[UU] = keep * sums[UU] + c * u * u
            sums[VV] = keep * sums[VV] + c * v * v
            sums[FADED_WEIGHT] = keep * sums[FADED_WEIGHT] + c
        sums[TARGETS] += c * y
        sums[WEIGHT] += c
        if n_trees == 0:
            sums[BASE] = sums[TARGETS] / sums[WEIGHT]
            if settings.is_logistic:
                sums[BASE] = math.log((sums[TARGETS] + 0.5) / (sums[WEIGHT] - sums[TARGETS] + 0.5))
        sums[N_ROWS] += 1.0


@kernel
def refit(forest, ring, m, scratch):
    """Fit the next tree, in turn, to what the others leave over of the ring's m rows."""
    settings, sums, fitted = forest.settings, forest.sums, forest.fitted
    n_refits = np.int64(sums[N_REFITS])
    tree = n_refits % settings.n_trees
    leaves, leaf_of = forest.leaves[tree], forest.leaf_of[tree]
    # take the tree's own output off: its leaves are 0 before its first turn
    if n_refits >= settings.n_trees:
        for row in range(m):
            fitted[row] -= leaves[leaf_of[row], FITTED]
    # residuals and curvatures
    total_h, total_c = 0.0, 0.0
    for row in range(m):
        c, p, h = ring.weights[row], sums[BASE] + fitted[row], 1.0
        if settings.is_logistic:
            p = sigmoid(p)
            h = max(p * (1.0 - p), 1e-6)
        scratch.g[row] = c * (ring.targets[row] - p)
        scratch.h[row] = c * h
        total_h += c * h
        total_c += c
    # how strongly it is shrunk, and what a split must gain
    mean_h, n = total_h / total_c, sums[FADED_WEIGHT]
    if settings.is_honest:
        mean_h = max(mean_h, (sums[SQUARES] + 10.0 * mean_h) / (n + 10.0))
    vu = max(sums[VU], 0.0)
    r2 = (n * (vu * vu / (sums[UU] * sums[VV] + 1e-300)) + 12.5) / (n + 25.0)
    r2 = min(max(r2, 0.02), 0.999)
    prior = mean_h * (1.0 + settings.shrink * settings.n_trees * (1.0 - r2) / r2)
    noise = 1.0 if settings.is_logistic else (sums[SQUARES] + 12.0) / (n + 25.0)
    rule = SplitRule(settings.depth, prior, 1.0 if settings.is_logistic else 10.0, settings.need * noise)
    # the tree
    columns = draw_columns(forest.gains, settings.seed, n_refits, settings.stream)
    for column in range(forest.gains.size):
        forest.gains[column] *= 0.98
    grow(ring.codes, m, columns, rule, scratch, forest.nodes[tree], leaf_of, forest.gains)
    # its leaves
    leaves[:] = 0.0
    for row in range(m):
        leaf = leaf_of[row]
        leaves[leaf, FITTED] += scratch.g[row]
        leaves[leaf, MASS] += scratch.h[row]
    for leaf in range(1 << settings.depth):
        leaves[leaf, MASS] += prior
        leaves[leaf, FITTED] *= settings.rate / max(leaves[leaf, MASS], 1e-300)
        leaves[leaf, LEARNED] = leaves[leaf, FITTED]
    for row in range(m):
        fitted[row] += leaves[leaf_of[row], FITTED]
    sums[N_REFITS] += 1.0


@kernel
def draw_columns(gains, seed, refit, stream):
    """Return at most DRAWN_COLUMNS columns, ascending: rather those whose splits gained lately.

    They have the largest log(U)/(gain/sum of gains + .3/d), U uniform: a draw in which the chance of each is
    proportional to that sum.
    """
    d = gains.size
    drawn = np.arange(min(d, DRAWN_COLUMNS))
    if d <= DRAWN_COLUMNS:
        return drawn
    total, keys = 1e-300, empty(d, np.float64)
    for column in range(d):
        total += gains[column]
    for column in range(d):
        uniform = 1.0 - unit(keyed(seed, refit, column + (np.int64(stream) << 40)))
        keys[column] = math.log(uniform) / (gains[column] / total + 0.3 / d)
    for _ in range(drawn.size):
        best = 0
        for column in range(1, d):
            if keys[column] > keys[best]:
                best = column
        keys[best] = -np.inf
    k = 0
    for column in range(d):
        if keys[column] == -np.inf:
            drawn[k] = column
            k += 1
    return drawn
