"""A sum of sparse outer products, sum_i h_i x_i x_i', of which only some rows and columns are needed.

New examples are kept unchanged in a log: while there are few, the log is far smaller than the matrix (Reuters: 0.8
million non-zeros against 13 million), and any block of the matrix, or its product with a sparse vector, takes one scan
of the log. When the log is full it is added to a sparse matrix, so that memory is bounded by the non-zeros of that
matrix, whatever the number of examples.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayou.core.errors import BadModel
from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel

# Capacity of the log: 50 MB. Memory is allocated only as it fills.
MOST_NONZEROS = 1 << 22
MOST_ROWS = 1 << 20
# Columns of an example in the log:
#     CURVATURE   h, the example's weight times the curvature of the log-likelihood at its margin
#     LINEAR      g + h m, the linear part of the expansion
#     SIGN        y, the label as +-1
#     WEIGHT      c, the example's weight
CURVATURE, LINEAR, SIGN, WEIGHT = range(4)


class ExampleLog(NamedTuple):
    """Log of examples in CSR form: the end of each in `indices` and `values`, and its four numbers in `rows`."""

    ends: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    rows: np.ndarray
    length: np.ndarray  # one number: the number of examples


class Sketch:
    """sum_i h_i x_i x_i' over `width` features; a `bayou.kernels.l1_solver.Curvature`."""

    def __init__(self, width: int, rows: int = MOST_ROWS, nonzeros: int = MOST_NONZEROS) -> None:
        self.width = width
        self.log = ExampleLog(
            ends=np.zeros(rows + 1, np.int64),
            indices=np.zeros(nonzeros, np.uint32),
            values=np.zeros(nonzeros),
            rows=np.zeros((rows, 4)),
            length=np.zeros(1, np.int64),
        )
        self.ends, self.indices, self.values, self.rows, self.length = self.log
        self.folded: Any = None

    # --- what is saved ------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the log and the folded matrix as arrays to save, without unused capacity."""
        n = self.length[0]
        nonzeros = self.ends[n]
        folded = self.folded
        empty = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        pointers, columns, values = empty if folded is None else (folded.indptr, folded.indices, folded.data)
        return {
            "log ends": self.ends[1 : n + 1],
            "log indices": self.indices[:nonzeros],
            "log values": self.values[:nonzeros],
            "log rows": self.rows[:n],
            "folded ends": pointers,
            "folded indices": columns,
            "folded values": values,
        }

    def resize(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """Resize so that saved arrays of these shapes can be copied into `arrays()`."""
        from scipy.sparse import csr_array

        n, nonzeros = shapes["log ends"][0], shapes["log indices"][0]
        if n > len(self.rows) or nonzeros > len(self.values):
            raise BadModel("the model's log exceeds its maximum size; its file was not written by bayou.")
        self.length[0], self.ends[n] = n, nonzeros
        if shapes["folded ends"][0]:
            stored = shapes["folded indices"][0]
            pointers = np.zeros(shapes["folded ends"][0], np.int64)
            self.folded = csr_array((self.width, self.width))
            self.folded.indptr, self.folded.indices = pointers, np.zeros(stored, np.int64)
            self.folded.data = np.zeros(stored)

    def check(self) -> None:
        """Raise BadModel if the arrays are inconsistent, which would crash kernels."""
        n = self.length[0]
        ends, indices = self.ends[: n + 1], self.indices[: self.ends[n]]
        fine = ends[0] == 0 and (np.diff(ends) >= 0).all() and (indices < self.width).all()
        if self.folded is not None:
            pointers, columns = self.folded.indptr, self.folded.indices
            fine = fine and len(pointers) == self.width + 1 and pointers[0] == 0 and pointers[-1] == len(columns)
            fine = fine and (np.diff(pointers) >= 0).all() and ((columns >= 0) & (columns < self.width)).all()
        if not fine:
            raise BadModel("the model's sketch does not fit together; its file was not written by bayou.")

    # --- growing ------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Reset the sum to zero."""
        self.length[0] = 0
        self.folded = None

    def flush_log(self) -> None:
        """Add the log to the matrix and empty it."""
        from scipy.sparse import csr_array

        n = self.length[0]
        if n == 0:
            return
        ends, nonzeros = self.ends[: n + 1], self.ends[n]
        columns = self.indices[:nonzeros].astype(np.int64)
        each = np.repeat(self.rows[:n, CURVATURE], np.diff(ends))
        shape = n, self.width
        plain = csr_array((self.values[:nonzeros], columns, ends), shape=shape)
        bent = csr_array((self.values[:nonzeros] * each, columns, ends), shape=shape)
        self._add_folded((plain.T @ bent).tocsr())
        self.length[0] = 0

    def _add_folded(self, more: Any) -> None:
        matrix = more if self.folded is None else self.folded + more
        matrix.sort_indices()
        matrix.indptr, matrix.indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        self.folded = matrix

    def add(self, other: Sketch, base: Sketch | None) -> None:
        """Add what `other` has beyond `base`."""
        if base is not None and base.length[0] == 0 and base.folded is None:
            base = None
        if base is not None:
            for one in (self, other, base):
                one.flush_log()
            self._add_folded(other.folded - base.folded)
            return
        n, more = self.length[0], other.length[0]
        nonzeros, their_nonzeros = self.ends[n], other.ends[more]
        if n + more > len(self.rows) or nonzeros + their_nonzeros > len(self.values):
            self.flush_log()
            n = nonzeros = 0
        self.ends[n + 1 : n + more + 1] = nonzeros + other.ends[1 : more + 1]
        self.indices[nonzeros : nonzeros + their_nonzeros] = other.indices[:their_nonzeros]
        self.values[nonzeros : nonzeros + their_nonzeros] = other.values[:their_nonzeros]
        self.rows[n : n + more] = other.rows[:more]
        self.length[0] = n + more
        if other.folded is not None:
            self._add_folded(other.folded)

    # --- queries ------------------------------------------------------------------------------------------------

    def block(self, features: np.ndarray) -> np.ndarray:
        """Return the submatrix of these rows and columns, dense."""
        slots = np.zeros(self.width, np.int32)
        slots[features] = np.arange(1, len(features) + 1)
        block = np.zeros((len(features), len(features)))
        self.add_rows(slots, features, 0, block)
        return block

    def add_rows(self, slots: np.ndarray, features: np.ndarray, first: int, block: np.ndarray) -> None:
        """Fill the rows and columns of `block` from `first` on. Feature j is at slots[j] - 1, if that is >= 0."""
        _add_log(self.log, slots, first, len(features), block)
        if self.folded is not None:
            folded = self.folded
            _add_matrix(folded.indptr, folded.indices, folded.data, slots, features[first:], first, block)

    def subtract_product(self, features: np.ndarray, change: np.ndarray, gradient: np.ndarray) -> None:
        """Subtract H[:, features] change from `gradient`."""
        moved = np.zeros(self.width)
        moved[features] = change
        _subtract_log(self.log, moved, gradient)
        if self.folded is not None:
            folded = self.folded
            _subtract_matrix(folded.indptr, folded.indices, folded.data, features, change, gradient)


@kernel
def _add_log(log, slots, first, size, block):
    """Compute block[a, b] += h x_a x_b for all pairs with a slot at `first` or after it, which start from 0.

    Each pair is added once, and mirrored in the end: a row's features need not be in the order of their slots.
    """
    ends, indices, values, rows, length = log
    n = length[0]
    longest = 0
    for row in range(n):
        longest = max(longest, ends[row + 1] - ends[row])
    old, old_x = empty(longest, np.int64), empty(longest, np.float64)
    new, new_x = empty(longest, np.int64), empty(longest, np.float64)
    for row in range(n):
        n_old = 0
        n_new = 0
        for k in range(ends[row], ends[row + 1]):
            slot = slots[indices[k]]
            if slot > first:
                new[n_new] = slot - 1
                new_x[n_new] = values[k]
                n_new += 1
            elif slot > 0:
                old[n_old] = slot - 1
                old_x[n_old] = values[k]
                n_old += 1
        for a in range(n_new):
            bent = rows[row, CURVATURE] * new_x[a]
            for b in range(n_old):
                block[new[a], old[b]] += bent * old_x[b]
            for b in range(a + 1):
                block[new[a], new[b]] += bent * new_x[b]
    for a in range(first, size):
        for b in range(first):
            block[b, a] = block[a, b]
        for b in range(first, a):
            block[a, b] += block[b, a]
            block[b, a] = block[a, b]


@kernel
def _add_matrix(ends, indices, values, slots, features, first, block):
    for a in range(features.size):
        for k in range(ends[features[a]], ends[features[a] + 1]):
            slot = slots[indices[k]]
            if slot > 0:
                block[first + a, slot - 1] += values[k]
                if slot <= first:
                    block[slot - 1, first + a] += values[k]


@kernel
def _subtract_log(log, moved, gradient):
    ends, indices, values, rows, length = log
    n = length[0]
    for row in range(n):
        shift = 0.0
        for k in range(ends[row], ends[row + 1]):
            shift += values[k] * moved[indices[k]]
        if shift != 0.0:
            pull = rows[row, CURVATURE] * shift
            for k in range(ends[row], ends[row + 1]):
                gradient[indices[k]] -= pull * values[k]


@kernel
def _subtract_matrix(ends, indices, values, features, change, gradient):
    for a in range(features.size):
        for k in range(ends[features[a]], ends[features[a] + 1]):
            gradient[indices[k]] -= change[a] * values[k]
