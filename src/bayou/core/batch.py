"""Batch: a block of sparse examples, the only thing that flows between the parts of bayou.

A batch holds its rows in CSR form and is *canonical*: inside a row no feature comes twice (duplicates are
summed) and no value is zero (explicit zeros are dropped); the order of features in a row is kept. That is
checked once, at the door, together with everything else that could hurt a learner: a batch that exists holds
finite values, weights >= 0 and features that fit in 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from bayou.core.errors import BadInput

# 2^32 - 1 is not a feature: learners keep one spare row behind the last feature.
MAX_FEATURES = 2**32 - 1
# Up to this length a row's features are told apart by 2^14 marks, which fit in the cache.
_SHORT = 512
_MARKS = 1 << 14
_TO_MARK = np.uint64(64 - 14)
_SCATTER = np.uint64(0x9E3779B97F4A7C15)
# With this many non-zeros it pays to look at both halves side by side, in two threads.
_LARGE = 1 << 20


class Batch:
    """A block of examples.

    Build one with `Batch.from_csr` (a SciPy matrix or a dense array), `Batch.from_rows` (one mapping of
    feature to value per example) or `Batch.from_arrays` (CSR arrays).

    Attributes:
        indptr: int64, row i is `indices[indptr[i]:indptr[i + 1]]`.
        indices: uint32 features.
        values: float32 or float64, finite and non-zero.
        labels: float64 or None. A batch without labels can only be predicted.
        weights: float64 >= 0 or None (all 1). A weight multiplies the example's log-likelihood.
        tags: one string per row or None, for whoever writes the predictions down.
        positions: int64, where each row came from (a line number, say), or None.
        folded: how many indices were too wide for 32 bits and had their high half folded in.
        longest, largest, max_index: no row has more features, no value is larger (regardless of sign), and no feature
            is numbered higher; -1 if there is none. A slice keeps those of the whole.
        ones: whether every value is known to be 1, as for indicators; then learners need not read the values.

    The arrays cannot be written to.

    >>> batch = Batch.from_rows([{0: 1.0, 7: 2.0}, {}], labels=[1, -1])
    >>> len(batch), batch.nonzeros, batch.max_index
    (2, 2, 7)
    """

    __slots__ = (
        "folded",
        "indices",
        "indptr",
        "labels",
        "largest",
        "longest",
        "max_index",
        "ones",
        "positions",
        "tags",
        "values",
        "weights",
    )

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    labels: np.ndarray | None
    weights: np.ndarray | None
    tags: Sequence[str] | None
    positions: np.ndarray | None
    folded: int
    longest: int
    largest: float
    ones: bool
    max_index: int

    @classmethod
    def from_csr(cls, X: Any, y: Any = None, weights: Any = None, *, tags: Any = None, positions: Any = None) -> Batch:
        """From a SciPy sparse matrix or array of any format, or a dense two-dimensional array."""
        if not hasattr(X, "tocsr"):
            from scipy.sparse import csr_array

            dense = np.asarray(X)
            if dense.ndim != 2:
                raise BadInput(
                    f"examples must form a two-dimensional matrix, one row each; this has shape {dense.shape}."
                )
            X = csr_array(_as_float(dense, "values"))
        X = X.tocsr()
        return cls.from_arrays(X.indptr, X.indices, X.data, y, weights, tags=tags, positions=positions)

    @classmethod
    def from_rows(
        cls, rows: Iterable[Mapping[int, float]], labels: Any = None, weights: Any = None, **more: Any
    ) -> Batch:
        """From one mapping {feature: value} per example."""
        try:
            rows = [dict(row) for row in rows]
        except (TypeError, ValueError):
            raise BadInput("each row must be a mapping of feature to value, such as {3: 1.0, 17: 0.5}.") from None
        indptr = np.cumsum([0] + [len(row) for row in rows])
        indices = np.array([i for row in rows for i in row])
        values = _as_float([v for row in rows for v in row.values()], "values")
        return cls.from_arrays(indptr, indices, values, labels, weights, **more)

    @classmethod
    def from_arrays(
        cls,
        indptr: Any,
        indices: Any,
        values: Any,
        labels: Any = None,
        weights: Any = None,
        *,
        tags: Any = None,
        positions: Any = None,
    ) -> Batch:
        """From CSR arrays. They are used as they are where they fit, without a copy, and never written to.

        So do not change them while the batch lives: what was checked here is not checked again.
        """
        self = cls()
        indptr = np.ascontiguousarray(indptr)
        if indptr.size and indptr.dtype.kind not in "iu":
            raise BadInput(f"indptr must be whole numbers; it has type {indptr.dtype}.")
        self.indptr = indptr.astype(np.int64, copy=False)
        self.indices, self.folded = _as_features(indices)
        self.values = _as_float(values, "values")
        n = len(self.indptr) - 1
        if (
            n < 0
            or self.indptr.ndim != 1
            or self.indices.ndim != 1
            or self.indptr[0] != 0
            or (np.diff(self.indptr) < 0).any()
            or self.indptr[-1] != len(self.indices)
            or self.values.shape != self.indices.shape
        ):
            raise BadInput(
                "indptr, indices and values do not form rows: indptr must start at 0, never fall and end at "
                f"len(indices) = len(values); it ends at {self.indptr[-1] if n >= 0 else None}, with "
                f"{len(self.indices)} indices and {self.values.size} values."
            )
        self.labels = _per_row(labels, n, "label")
        self.weights = _as_weights(weights, n)
        if tags is not None and not hasattr(tags, "__len__"):
            raise BadInput(f"tags is {tags!r}; give one per row.")
        if tags is not None and len(tags) != n:
            raise BadInput(f"{len(tags)} tags for {n} rows; give one per row.")
        self.tags = None if tags is None else list(tags)
        self.positions = None if positions is None else np.asarray(positions)
        if self.positions is not None and (self.positions.shape != (n,) or self.positions.dtype.kind not in "iu"):
            raise BadInput(f"positions must be {n} whole numbers, one per row.")
        self._inspect()
        if self.max_index >= 2**31 and getattr(indices, "dtype", None) == np.int32:
            raise BadInput(f"feature {np.min(indices)} is negative; features are numbered from 0.")
        # Views that cannot be written to: nobody spoils what was checked, and kernels meet one kind of array.
        for name in ("indptr", "indices", "values"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            setattr(self, name, view)
        return self

    @classmethod
    def trusted(
        cls,
        indptr: np.ndarray,
        indices: np.ndarray,
        values: np.ndarray,
        labels: np.ndarray | None,
        weights: np.ndarray | None,
        *,
        tags: list[str] | None,
        longest: int,
        largest: float,
        ones: bool,
        max_index: int,
    ) -> Batch:
        """For parsers, which look at every feature anyway: arrays of the right types that are canonical already."""
        self = cls()
        self.indptr, self.indices, self.values = indptr, indices, values
        for array in (indptr, indices, values):
            array.flags.writeable = False
        self.labels, self.weights, self.tags, self.positions = labels, weights, tags, None
        self.folded, self.longest, self.largest, self.ones, self.max_index = 0, longest, largest, ones, max_index
        return self

    def _inspect(self) -> None:
        """Check every value and make the rows canonical."""
        zeros, largest, self.ones, ascending = self._look()
        if not np.isfinite(largest):
            k = int(np.argmin(np.isfinite(self.values)))
            raise BadInput(
                f"row {self.row_of(k)}, feature {self.indices[k]}: the value is {self.values[k]}; "
                "every value must be a finite number."
            )
        flags = np.zeros(len(self), np.bool_)
        if zeros:
            _flag_zeros(self.indptr, self.values, flags)
        repeated = not ascending and _flag_repeated(self.indptr, self.indices, self.longest, flags)
        if zeros or repeated:
            self.indptr, self.indices, self.values = _mend(self.indptr, self.indices, self.values, self.longest, flags)
            _, largest, self.ones, _ = self._look()
            if not np.isfinite(largest):
                raise BadInput("a feature repeated within a row has values whose sum is not finite.")
        self.largest = largest

    def _look(self) -> tuple[bool, float, bool, bool]:
        """(any zero, largest absolute value or what is not finite, all one, rows ascending); notes longest, max_index.

        Without its sign bit a float compares like the whole number with the same bits, NaN above infinity above all
        others, and whole numbers can be compared many at a time.
        """
        self.longest, down_between = _look_at_rows(self.indptr, self.indices)
        self.max_index = -1
        if not self.nonzeros:
            return False, 0.0, True, True
        word = np.uint32 if self.values.itemsize == 4 else np.uint64
        bits, mask = self.values.view(word), word(np.iinfo(word).max >> 1)
        if self.nonzeros < _LARGE:
            parts = [_look_at_nonzeros(bits, mask, self.indices)]
        else:
            half = self.nonzeros // 2
            with ThreadPoolExecutor(1) as other:
                first = other.submit(_look_at_nonzeros, bits[:half], mask, self.indices[:half])
                # one feature more, so that the step from half to half is looked at
                second = _look_at_nonzeros(bits[half:], mask, self.indices[half - 1 :])
                parts = [first.result(), second]
        smallest, highest, either, down, features = zip(*parts, strict=True)
        low, high = np.array([min(smallest), max(highest)], word).view(self.values.dtype)
        self.max_index = int(max(features))
        # All are 1 if the smallest and the largest are and no sign bit is set.
        ones = bool(low == high == 1 and np.bitwise_or.reduce(np.array(either, word)) == max(highest))
        return bool(low == 0), float(high), ones, sum(down) == down_between

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def nonzeros(self) -> int:
        return len(self.indices)

    @property
    def counted_nonzeros(self) -> int:
        """Those of the rows whose weight is not 0."""
        if self.weights is None:
            return self.nonzeros
        return int(np.diff(self.indptr)[self.weights > 0].sum())

    def each_weight(self) -> np.ndarray:
        """The weight of every row, also where none were given."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def row_of(self, k: int) -> int:
        """The row in which the k-th non-zero stands."""
        return int(np.searchsorted(self.indptr, k, side="right")) - 1

    # Without this Python would try to iterate by numbers.
    __iter__ = None

    def __getitem__(self, rows: slice) -> Batch:
        """Some consecutive rows, without copying features."""
        if not isinstance(rows, slice):
            raise BadInput(f"a batch is cut by slices: for row {rows} use batch[{rows} : {rows} + 1].")
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise BadInput("a batch is cut into consecutive rows only; use a slice with step 1.")
        stop = max(start, stop)
        first, last = self.indptr[start], self.indptr[stop]
        part = Batch()
        part.indptr = self.indptr[start : stop + 1] - first
        part.indptr.flags.writeable = False
        part.indices, part.values = self.indices[first:last], self.values[first:last]
        part.labels = None if self.labels is None else self.labels[start:stop]
        part.weights = None if self.weights is None else self.weights[start:stop]
        part.tags = None if self.tags is None else self.tags[start:stop]
        part.positions = None if self.positions is None else self.positions[start:stop]
        # Bounds of the whole are bounds of the part: nothing needs to be looked at again.
        part.folded = 0
        part.longest, part.max_index = self.longest, self.max_index
        part.largest, part.ones = self.largest, self.ones
        return part

    def with_labels(self, labels: Any, weights: Any = None) -> Batch:
        """The same rows with other labels (and weights, if given), without looking at the features again."""
        other = self[:]
        other.labels = _per_row(labels, len(self), "label")
        if weights is not None:
            other.weights = _as_weights(weights, len(self))
        return other

    def to_csr(self, n_features: int | None = None) -> Any:
        """The rows as a SciPy CSR array."""
        from scipy.sparse import csr_array

        width = self.max_index + 1 if n_features is None else n_features
        return csr_array((self.values, self.indices.astype(np.int64), self.indptr), shape=(len(self), width))

    def __repr__(self) -> str:
        return f"Batch({len(self)} examples, {self.nonzeros} non-zeros, largest feature {self.max_index})"


class Row(NamedTuple):
    """One example on its own, for those who have them one by one: canonical and finite, as in a batch.

    `size` features stand at the beginning of `indices` (uint32) and `values`; none is numbered above `max_index`.
    `largest` and `ones` are those of a batch.
    """

    indices: np.ndarray
    values: np.ndarray
    size: int
    largest: float
    ones: bool
    max_index: int

    def batch(self, labels: Any = None, weights: Any = None) -> Batch:
        """As a batch of one row."""
        return Batch.trusted(
            np.array((0, self.size)),
            self.indices[: self.size],
            self.values[: self.size],
            _per_row(labels, 1, "label"),
            _as_weights(weights, 1),
            tags=None,
            longest=self.size,
            largest=self.largest,
            ones=self.ones,
            max_index=self.max_index,
        )


def _as_float(values: Any, what: str) -> np.ndarray:
    try:
        values = np.asarray(values)
        if values.dtype.kind not in "biufO":
            raise TypeError(f"these have type {values.dtype}")
        if values.dtype not in (np.float32, np.float64):
            narrow = (values.dtype.kind in "bui" and values.dtype.itemsize <= 2) or values.dtype == np.float16
            values = values.astype(np.float32 if narrow else np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{what} must be numbers: {error}.") from None
    return np.ascontiguousarray(values)


def _as_features(indices: Any) -> tuple[np.ndarray, int]:
    """Feature ids as uint32, and how many were too wide and got folded."""
    indices = np.ascontiguousarray(indices)
    if indices.size == 0:
        return indices.astype(np.uint32), 0
    if indices.dtype == np.uint32:
        return indices, 0
    if indices.dtype.kind not in "iu":
        raise BadInput(f"features must be whole numbers; these have type {indices.dtype}.")
    if indices.dtype == np.int32:
        return indices.view(np.uint32), 0  # no copy; that none is negative shows when the largest is known
    if indices.dtype.kind == "i" and (low := int(indices.min())) < 0:
        raise BadInput(f"feature {low} is negative; features are numbered from 0.")
    indices = indices.astype(np.uint64)
    high = indices >> np.uint64(32)
    return (indices ^ high).astype(np.uint32), int(np.count_nonzero(high))


def _per_row(column: Any, n: int, what: str) -> np.ndarray | None:
    if column is None:
        return None
    column = _as_float(column, f"{what}s").astype(np.float64, copy=False)
    if column.shape != (n,):
        raise BadInput(f"{what}s have shape {column.shape}, but there are {n} rows; give one {what} per row.")
    return column


def _as_weights(weights: Any, n: int) -> np.ndarray | None:
    weights = _per_row(weights, n, "weight")
    if weights is not None and not (fine := np.isfinite(weights) & (weights >= 0)).all():
        row = int(fine.argmin())
        raise BadInput(f"row {row}: the weight is {weights[row]:g}; a weight must be a finite number >= 0.")
    return weights


@njit(cache=True, nogil=True)
def _look_at_rows(indptr, indices):
    """(longest row, how often a row starts with a feature not above the one before: no matter)."""
    longest = 0
    down = 0
    for row in range(indptr.size - 1):
        start, stop = indptr[row], indptr[row + 1]
        longest = max(longest, stop - start)
        if 0 < start < stop:
            down += indices[start] <= indices[start - 1]
    return longest, down


@njit(cache=True, nogil=True)
def _look_at_nonzeros(bits, mask, indices):
    """Of some values' bits the smallest and largest without sign, and all bits set in any; of features how often one is
    not above the one before, and the largest. Loops from 0 over whole arrays, or the compiler would not vectorise."""
    smallest = mask
    largest = bits[0] & mask
    either = bits[0]
    for k in range(bits.size):
        size = bits[k] & mask
        smallest = min(smallest, size)
        largest = max(largest, size)
        either |= bits[k]
    down = 0
    highest = indices[0]
    for k in range(1, indices.size):
        down += indices[k] <= indices[k - 1]
        highest = max(highest, indices[k])
    return smallest, largest, either, down, np.int64(highest)


@njit(cache=True, nogil=True)
def _slot(slots, owners, row, feature):
    """Where `feature` of `row` stands in a small open-addressed table, or would."""
    mask = slots.size - 1
    at = (np.int64(feature) * 2654435761 >> 7) & mask
    while owners[at] == row and slots[at] != feature:
        at = (at + 1) & mask
    return at


@njit(cache=True, nogil=True)
def _tables(longest):
    size = 16
    while size < 2 * longest:
        size *= 2
    return np.zeros(size, np.uint32), np.full(size, -1, np.int64)


@njit(cache=True, nogil=True)
def _flag_repeated(indptr, indices, longest, flags):
    """Flag the rows that have a feature twice; how many there are.

    Two features of a short row seldom share a mark; only those that do are compared.
    """
    marks = np.zeros(_MARKS, np.uint32)
    slots, owners = _tables(longest if longest > _SHORT else 0)
    found = 0
    for row in range(indptr.size - 1):
        start, stop = indptr[row], indptr[row + 1]
        repeated = False
        if stop - start <= _SHORT:
            mark = np.uint32(row + 1)
            for k in range(start, stop):
                at = (np.uint64(indices[k]) * _SCATTER) >> _TO_MARK
                if marks[at] == mark:
                    for earlier in range(start, k):
                        repeated |= indices[earlier] == indices[k]
                marks[at] = mark
        else:
            for k in range(start, stop):
                at = _slot(slots, owners, row, indices[k])
                repeated |= owners[at] == row
                owners[at] = row
                slots[at] = indices[k]
        flags[row] |= repeated
        found += repeated
    return found


@njit(cache=True, nogil=True)
def _flag_zeros(indptr, values, flags):
    """Flag the rows that have a zero among their values."""
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            flags[row] |= values[k] == 0


@njit(cache=True, nogil=True)
def _mend(indptr, indices, values, longest, flags):
    """Rows in which each feature comes once, where it came first, and no value is zero; only flagged ones change."""
    slots, owners = _tables(longest)
    places = np.zeros(slots.size, np.int64)
    new_indptr = np.zeros_like(indptr)
    new_indices = np.empty_like(indices)
    new_values = np.empty_like(values)
    size = 0
    for row in range(indptr.size - 1):
        start = size
        first, last = indptr[row], indptr[row + 1]
        if not flags[row]:
            size += last - first
            new_indices[start:size] = indices[first:last]
            new_values[start:size] = values[first:last]
            new_indptr[row + 1] = size
            continue
        for k in range(first, last):
            at = _slot(slots, owners, row, indices[k])
            if owners[at] == row:
                new_values[places[at]] += values[k]
            else:
                owners[at] = row
                slots[at] = indices[k]
                places[at] = size
                new_indices[size] = indices[k]
                new_values[size] = values[k]
                size += 1
        kept = start
        for k in range(start, size):
            if new_values[k] != 0:
                new_indices[kept] = new_indices[k]
                new_values[kept] = new_values[k]
                kept += 1
        size = kept
        new_indptr[row + 1] = size
    return new_indptr, new_indices[:size], new_values[:size]
