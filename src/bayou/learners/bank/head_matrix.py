"""Small symmetric matrices in vectors: the inverse by Cholesky factors, and sums of rows.

Matrices are flat, in rows `stride` apart, a multiple of TILE_COLUMNS; rows and columns beyond those in use are those of
the identity. All three steps of the inverse, A = U'U, X = U^-T and A^-1 = X'X, are sums over k of left[k, i] times
right[k, c], computed in tiles of TILE_ROWS x TILE_COLUMNS that stay in registers. Every sum has a fixed order, so that
the same numbers give the same bits on any number of threads.
"""

from __future__ import annotations

import math

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.inlining import inlined
from bayou.kernels.vector import LANES, broadcast_load, load, store

TILE_ROWS, TILE_COLUMNS = 4, 2 * LANES
# Columns that sums of rows are computed for at a time.
STRIP = 4 * LANES


def tiled(n: int) -> int:
    """Return the smallest multiple of TILE_COLUMNS that is at least n."""
    return -(-n // TILE_COLUMNS) * TILE_COLUMNS


@inlined
def _subtract_products(left, right, target, i, c, first, last, stride):
    """Subtract from a tile of target at (i, c) the sum over k in [first, last) of left[k, i..] right[k, c..]."""
    at = i * stride + c
    a0, a1 = load(target, at), load(target, at + LANES)
    b0, b1 = load(target, at + stride), load(target, at + stride + LANES)
    c0, c1 = load(target, at + 2 * stride), load(target, at + 2 * stride + LANES)
    d0, d1 = load(target, at + 3 * stride), load(target, at + 3 * stride + LANES)
    for k in range(first, last):
        v0, v1, of = load(right, k * stride + c), load(right, k * stride + c + LANES), k * stride + i
        x = broadcast_load(left, of)
        a0, a1 = a0 - x * v0, a1 - x * v1
        x = broadcast_load(left, of + 1)
        b0, b1 = b0 - x * v0, b1 - x * v1
        x = broadcast_load(left, of + 2)
        c0, c1 = c0 - x * v0, c1 - x * v1
        x = broadcast_load(left, of + 3)
        d0, d1 = d0 - x * v0, d1 - x * v1
    store(target, at, a0)
    store(target, at + LANES, a1)
    store(target, at + stride, b0)
    store(target, at + stride + LANES, b1)
    store(target, at + 2 * stride, c0)
    store(target, at + 2 * stride + LANES, c1)
    store(target, at + 3 * stride, d0)
    store(target, at + 3 * stride + LANES, d1)


@inlined
def _eliminate(factors, factor, target, i, inverse_pivots, first, last, stride):
    """Eliminate among the rows of a tile, of `factor` itself if `factors`; return whether all pivots are positive."""
    for r in range(i, i + TILE_ROWS):
        if factors:
            pivot = factor[r * stride + r]
            if not pivot > 0.0:
                return False
            inverse_pivots[r] = 1.0 / math.sqrt(pivot)
        for c in range(first, last, LANES):
            store(target, r * stride + c, load(target, r * stride + c) * broadcast_load(inverse_pivots, r))
        for below in range(r + 1, i + TILE_ROWS):
            for c in range(first, last, LANES):
                product = load(target, r * stride + c) * broadcast_load(factor, r * stride + below)
                store(target, below * stride + c, load(target, below * stride + c) - product)
    return True


@kernel
def invert(matrix, solved, inverse_pivots, n, stride):
    """Replace a positive definite matrix by minus its inverse, below the diagonal; return whether it was one.

    Args:
        matrix: overwritten by U, and then by the inverse, on and below the diagonal in whole tiles.
        solved: overwritten by X.
        inverse_pivots: scratch.
        n: rows in use, a multiple of TILE_COLUMNS.
    """
    for i in range(0, n, TILE_ROWS):
        start = i // TILE_COLUMNS * TILE_COLUMNS
        for c in range(start, n, TILE_COLUMNS):
            _subtract_products(matrix, matrix, matrix, i, c, 0, i, stride)
        if not _eliminate(True, matrix, matrix, i, inverse_pivots, start, n, stride):
            return False
    for i in range(0, n, TILE_ROWS):
        end = i // TILE_COLUMNS * TILE_COLUMNS + TILE_COLUMNS
        for r in range(i, i + TILE_ROWS):
            solved[r * stride : r * stride + end] = 0.0
            solved[r * stride + r] = 1.0
        for c in range(0, end, TILE_COLUMNS):
            _subtract_products(matrix, solved, solved, i, c, c, i, stride)
        _eliminate(False, matrix, solved, i, inverse_pivots, 0, end, stride)
    for i in range(0, n, TILE_ROWS):
        for c in range(0, i + 1, TILE_COLUMNS):
            for r in range(i, i + TILE_ROWS):
                matrix[r * stride + c : r * stride + c + TILE_COLUMNS] = 0.0
            _subtract_products(solved, solved, matrix, i, c, i, n, stride)
    return True


@inlined
def add_rows(matrix, places, factors, count, width, target, at):
    """Add `count` rows of matrices, each times a factor, to target[at : at + width], in whole vectors.

    `places` are the positions in the flat matrix where rows begin.
    """
    n, strips = np.uint64(count), width // STRIP * STRIP
    for c in range(0, strips, STRIP):
        first, second = load(target, at + c), load(target, at + c + LANES)
        third, fourth = load(target, at + c + 2 * LANES), load(target, at + c + 3 * LANES)
        for k in range(n):
            place, factor = places[k] + c, broadcast_load(factors, np.int64(k))
            first, second = first + load(matrix, place) * factor, second + load(matrix, place + LANES) * factor
            third = third + load(matrix, place + 2 * LANES) * factor
            fourth = fourth + load(matrix, place + 3 * LANES) * factor
        store(target, at + c, first)
        store(target, at + c + LANES, second)
        store(target, at + c + 2 * LANES, third)
        store(target, at + c + 3 * LANES, fourth)
    for c in range(strips, width, LANES):
        first = load(target, at + c)
        for k in range(n):
            first = first + load(matrix, places[k] + c) * broadcast_load(factors, np.int64(k))
        store(target, at + c, first)
