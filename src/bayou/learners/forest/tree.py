"""Growing one tree on coded rows, and finding rows in trees.

A tree of depth D is an array of 2^D nodes, of which 2^D - 1 are used, in the order of a heap: node i has the children
2 i + 1 (left) and 2 i + 2. A node is a uint16, `cell << 8 | column`: a row goes right if its code in the column exceeds
the cell. In a node without a split the cell is NO_SPLIT, and all rows go left.

A tree is grown level by level. Every node takes the split of its rows, with sums G of residuals g and H of curvatures
h, of greatest

    G_l^2/(H_l + prior) + G_r^2/(H_r + prior) - G^2/(H + prior)

if that exceeds `need` and both H_l and H_r reach `min_side`. Of equal splits the first column, then the first cell, is
taken. Both sums of a cell are one int64, `H << 40 + G`, in units that are powers of two, so that a row costs one
addition for each column; the larger child of a node is its parent less the smaller.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.learners.forest.codes import N_CODES

NO_SPLIT = 255
DRAWN_COLUMNS = 16  # at most so many columns are considered for a tree
# Bits of the packed sums: H, below 2^23 for 2^20 rows, lies above G, which is below 2^39 for 2^17 rows.
H_SHIFT, H_BITS, G_BITS = 40, 22, 22
HALF = 1 << (H_SHIFT - 1)
EQUAL = 1.0 + 1e-12  # scores up to this factor apart are those of equal splits, rounded


class SplitRule(NamedTuple):
    """Which splits are taken."""

    depth: int
    prior: float  # lambda
    min_side: float
    need: float


class Growth(NamedTuple):
    """Scratch of the growing of a tree on at most `rows` rows; g and h are its input."""

    g: np.ndarray  # [rows] residuals, times weights
    h: np.ndarray  # [rows] curvatures, times weights
    packed: np.ndarray  # [rows] both, as one int64
    order: np.ndarray  # [rows] rows, those of a node together, ascending
    spare: np.ndarray  # [rows]
    sums: np.ndarray  # [2, nodes of a level, column, code] of `packed`, for this level and the one above
    starts: np.ndarray  # [2, nodes of a level + 1] where a node's rows start in `order`, for this level and the next
    is_open: np.ndarray  # [2, nodes of a level] whether it may be split

    @classmethod
    def of(cls, rows: int, depth: int, n_columns: int) -> Growth:
        """Return empty scratch."""
        nodes = 1 << max(depth - 1, 0)
        return cls(
            np.zeros(rows),
            np.zeros(rows),
            np.zeros(rows, np.int64),
            np.zeros(rows, np.uint32),
            np.zeros(rows, np.uint32),
            np.zeros((2, nodes, min(n_columns, DRAWN_COLUMNS), N_CODES), np.int64),
            np.zeros((2, 2 * nodes + 1), np.int64),
            np.zeros((2, 2 * nodes), np.bool_),
        )


@kernel
def grow(codes, m, columns, rule, scratch, nodes, leaf_of, gains):
    """Grow a tree on the first m rows of codes[column, row], by `columns`, ascending.

    Fills `nodes` and leaf_of[row], and adds each split's gain to gains[column].
    """
    g_unit, h_unit = pack(scratch, m)
    order, is_open = scratch.order, scratch.is_open
    nodes[:] = NO_SPLIT << 8
    scratch.starts[0, 0], scratch.starts[0, 1], is_open[0, 0] = 0, m, True
    for level in range(rule.depth):
        n_nodes, now, after = 1 << level, level & 1, 1 - (level & 1)
        starts, next_starts = scratch.starts[now], scratch.starts[after]
        sums, parents = scratch.sums[now], scratch.sums[after]
        # sums of the cells: the smaller of two siblings is added up, the larger is what remains of the parent
        if level == 0:
            add_up(codes, scratch, columns, 0, m, sums[0])
        for parent in range(n_nodes >> 1):
            left, right = 2 * parent, 2 * parent + 1
            if not (is_open[now, left] or is_open[now, right]):
                continue
            if starts[left + 1] - starts[left] <= starts[right + 1] - starts[right]:
                smaller, larger = left, right
            else:
                smaller, larger = right, left
            add_up(codes, scratch, columns, starts[smaller], starts[smaller + 1], sums[smaller])
            for k in range(columns.size):
                for code in range(N_CODES):
                    sums[larger, k, code] = parents[parent, k, code] - sums[smaller, k, code]
        # each node's best split, and its rows parted
        next_starts[0] = 0
        for node in range(n_nodes):
            start, stop = starts[node], starts[node + 1]
            middle, gain = stop, 0.0
            if is_open[now, node]:
                k, cell, gain = best_split(sums[node], columns.size, rule, g_unit, h_unit)
            if gain > 0.0:
                column = columns[k]
                nodes[n_nodes - 1 + node] = (cell << 8) | column
                gains[column] += gain
                middle = part(codes[column], cell, order, scratch.spare, start, stop)
            is_open[after, 2 * node] = is_open[after, 2 * node + 1] = gain > 0.0
            next_starts[2 * node + 1], next_starts[2 * node + 2] = middle, stop
    last = rule.depth & 1
    for leaf in range(1 << rule.depth):
        for i in range(scratch.starts[last, leaf], scratch.starts[last, leaf + 1]):
            leaf_of[order[i]] = leaf


@kernel
def pack(scratch, m):
    """Pack g and h of each row; return the units in which they are counted."""
    top, total = 0.0, 0.0
    for row in range(m):
        top = max(top, abs(scratch.g[row]))
        total += scratch.h[row]
        scratch.order[row] = row
    g_unit = math.ldexp(1.0, G_BITS - max(math.frexp(top)[1], -900))
    h_unit = math.ldexp(1.0, H_BITS - max(math.frexp(total)[1], -900))
    for row in range(m):
        h = np.int64(max(scratch.h[row] * h_unit + 0.5, 1.0))
        scratch.packed[row] = (h << H_SHIFT) + np.int64(np.rint(scratch.g[row] * g_unit))
    return g_unit, h_unit


@kernel
def add_up(codes, scratch, columns, start, stop, sums):
    """Fill sums[column, code] for the rows in order[start:stop]."""
    order, packed = scratch.order, scratch.packed
    for k in range(columns.size):
        own, column = sums[k], codes[columns[k]]
        for code in range(N_CODES):
            own[code] = 0
        for i in range(start, stop):
            row = order[i]
            own[column[row]] += packed[row]


@kernel
def best_split(sums, n_columns, rule, g_unit, h_unit):
    """Return the position of the best split's column, its cell, and its gain; 0 if no split gains enough."""
    prior, min_side, back = rule.prior * h_unit, rule.min_side * h_unit, 1.0 / g_unit
    total = np.int64(0)
    for code in range(N_CODES):
        total += sums[0, code]
    h = (total + HALF) >> H_SHIFT
    g = (total - (h << H_SHIFT)) * back
    own = g * g / max(h + prior, 1e-300)
    best, bound, position, cell = own, own + rule.need / h_unit, -1, 0
    if h < 2 * min_side:
        return position, cell, 0.0
    for k in range(n_columns):
        left = np.int64(0)
        for code in range(N_CODES - 1):
            if sums[k, code] == 0:
                continue
            left += sums[k, code]
            h_left = (left + HALF) >> H_SHIFT
            if h_left < min_side:
                continue
            if h - h_left < min_side:
                break
            g_left = (left - (h_left << H_SHIFT)) * back
            g_right = g - g_left
            score = g_left * g_left / (h_left + prior) + g_right * g_right / (h - h_left + prior)
            if score > bound:
                best, bound, position, cell = score, score * EQUAL, k, code
    return position, cell, (best - own) * h_unit if position >= 0 else 0.0


@kernel
def part(column, cell, order, spare, start, stop):
    """Move the rows of order[start:stop] whose code exceeds the cell behind the others; return where they start."""
    middle, n_right = start, 0
    for i in range(start, stop):
        row = order[i]
        goes_left = column[row] <= cell
        order[middle] = row
        spare[n_right] = row
        middle += goes_left
        n_right += not goes_left
    for i in range(n_right):
        order[middle + i] = spare[i]
    return middle


@kernel
def find_leaves(codes, start, stop, nodes, n_trees, depth, leaves):
    """Fill leaves[tree, row - start] for rows start to stop of codes[row, column]: tree after tree, for the cache."""
    first_leaf = (1 << depth) - 1
    for tree in range(n_trees):
        own = nodes[tree]
        for row in range(start, stop):
            node = 0
            for _ in range(depth):
                split = own[node]
                node = 2 * node + 1 + (codes[row, split & 0xFF] > (split >> 8))
            leaves[tree, row - start] = node - first_leaf
