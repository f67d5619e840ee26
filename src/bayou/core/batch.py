"""Batch: a block of sparse examples, the only thing that flows between the parts of bayou.

A batch holds its rows in CSR form and is *canonical*: within a row no feature occurs twice (duplicates are
summed) and no value is zero (explicit zeros are dropped); the order of features in a row is kept. That is
checked once, when a batch is made, together with everything else that could harm a learner: a batch that exists holds
finite values, weights >= 0 and features that fit in 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from bayou.core.arrays import (
    as_array,
    as_codes,
    as_float,
    as_groups,
    as_indices,
    as_positions,
    as_row_indices,
    as_row_values,
    as_weights,
    read_only,
)
from bayou.core.canonical import Arrays, CsrStats, canonicalize
from bayou.core.checks import check_dtype, check_int, check_iterable, shortened_repr
from bayou.core.errors import BadInput

# 2^32 - 1 is not a feature: learners keep one spare row after the last feature.
MAX_FEATURES = 2**32 - 1
_CSR = ("indptr", "indices", "values")
_BOUNDS = ("max_row_length", "max_abs_value", "max_index", "is_all_ones")


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
        tags: one string per row or None, to label the rows of written predictions.
        positions: int64, the position of each row in its source (such as a line number), or None.
        groups: uint8, the number of each non-zero's column or namespace, for learners that distinguish columns; None
            if not requested or unknown.
        codes: uint8, shape (rows, columns), the cell of each row in each column of a table, 0 if missing, for learners
            that grow trees; or None (`with_codes`).
        n_wrapped: number of indices wider than 32 bits, which were wrapped around: their high half was folded in.
        max_row_length, max_abs_value, max_index: upper bounds of the features in a row, the absolute values, and the
            feature indices (-1 if there are none). A slice of a batch keeps these bounds, and `n_wrapped`, of the whole
            batch.
        is_all_ones: whether every value is known to be 1, as for indicators; learners then skip reading the values.

    The CSR arrays, `groups` and `codes` are read-only.

    >>> batch = Batch.from_rows([{0: 1.0, 7: 2.0}, {}], labels=[1, -1])
    >>> len(batch), batch.nonzeros, batch.max_index
    (2, 2, 7)
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    labels: np.ndarray | None
    weights: np.ndarray | None
    tags: Sequence[str] | None
    positions: np.ndarray | None
    groups: np.ndarray | None
    codes: np.ndarray | None = None
    n_wrapped: int
    max_row_length: int
    max_abs_value: float
    is_all_ones: bool
    max_index: int

    def __init__(self) -> None:
        raise BadInput("create a batch with Batch.from_csr, Batch.from_rows or Batch.from_arrays.")

    @classmethod
    def from_csr(cls, X: Any, y: Any = None, weights: Any = None, *, tags: Any = None, positions: Any = None) -> Batch:
        """Return a batch from a SciPy sparse matrix or array of any format, or a dense two-dimensional array."""
        if not hasattr(X, "tocsr"):
            from scipy.sparse import csr_array

            dense = as_array(X, "examples")
            if dense.ndim != 2:
                raise BadInput(
                    f"examples must form a two-dimensional matrix, one row per example, not shape {dense.shape}."
                )
            X = csr_array(as_float(dense, "values"))
        X = X.tocsr()
        return cls.from_arrays(X.indptr, X.indices, X.data, y, weights, tags=tags, positions=positions)

    @classmethod
    def from_rows(
        cls, rows: Iterable[Mapping[int, float]], labels: Any = None, weights: Any = None, **more: Any
    ) -> Batch:
        """Return a batch from one mapping {feature: value} per example."""
        try:
            rows = [dict(row) for row in rows]
        except (TypeError, ValueError):
            raise BadInput("each row must be a mapping of feature to value, such as {3: 1.0, 17: 0.5}.") from None
        indptr = np.cumsum([0] + [len(row) for row in rows])
        indices = np.array([i for row in rows for i in row])
        values = as_float([v for row in rows for v in row.values()], "values")
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
        groups: Any = None,
    ) -> Batch:
        """Return a batch from CSR arrays, which are used without a copy where their types fit, and never written to.

        Do not change them while the batch is in use: they are checked only here.
        """
        self = object.__new__(cls)
        indptr = np.ascontiguousarray(as_array(indptr, "indptr"))
        if indptr.size and indptr.dtype.kind not in "iu":
            raise BadInput(f"indptr must be whole numbers; it has type {indptr.dtype}.")
        self.indptr = indptr.astype(np.int64, copy=False)
        self.indices, self.n_wrapped = as_indices(indices)
        self.values = as_float(values, "values")
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
                "indptr, indices and values do not form rows: indptr must start at 0, never decrease and end at "
                f"len(indices) = len(values); it ends at {self.indptr[-1] if n >= 0 else None}, with "
                f"{len(self.indices)} indices and {self.values.size} values."
            )
        self.labels = as_row_values(labels, n, "label")
        self.weights = as_weights(weights, n)
        self.tags = None if tags is None else check_iterable("tags", tags, "one text per row")
        if self.tags is not None and len(self.tags) != n:
            raise BadInput(f"{len(self.tags)} tags for {n} rows; give one per row.")
        self.positions = as_positions(positions, n)
        self.groups = as_groups(groups, len(self.indices))
        self._validate()
        if self.max_index >= 2**31 and getattr(indices, "dtype", None) == np.int32:
            raise BadInput(f"feature {np.min(indices)} is negative; features are numbered from 0.")
        # Read-only views: the checked arrays cannot be changed through the batch.
        for name in _CSR:
            setattr(self, name, read_only(getattr(self, name).view()))
        self.groups = None if self.groups is None else read_only(self.groups.view())
        return self

    @classmethod
    def from_trusted(
        cls,
        rows: Arrays,
        seen: CsrStats,
        labels: np.ndarray | None,
        weights: np.ndarray | None,
        tags: list[str] | None = None,
    ) -> Batch:
        """Return a batch of arrays that have the right types and are canonical, without checks. For parsers."""
        self = object.__new__(cls)
        self.indptr, self.indices, self.values, self.groups = rows
        for array in rows:
            if array is not None:
                read_only(array)
        self.labels, self.weights, self.tags, self.positions = labels, weights, tags, None
        self.n_wrapped = 0
        self.max_row_length, self.max_index, self.max_abs_value, self.is_all_ones = seen[:4]
        return self

    def _validate(self) -> None:
        """Check every value and make the rows canonical."""
        rows, seen = canonicalize(self.indptr, self.indices, self.values, self.groups)
        if not np.isfinite(seen.largest):
            if np.isfinite(self.values).all():
                raise BadInput("a feature repeated within a row has values whose sum is not finite.")
            self._refuse(self.values, "every value must be a finite number")
        self.indptr, self.indices, self.values, self.groups = rows
        self.max_row_length, self.max_index, self.max_abs_value, self.is_all_ones = seen[:4]

    def _refuse(self, values: np.ndarray, why: str) -> NoReturn:
        """Raise BadInput that names the first of `values` that is not finite."""
        k = int(np.argmin(np.isfinite(values)))
        raise BadInput(
            f"row {self.row_of_nonzero(k)}, feature {self.indices[k]}: the value is {self.values[k]}; {why}."
        )

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def nonzeros(self) -> int:
        return len(self.indices)

    @property
    def counted_nonzeros(self) -> int:
        """Number of non-zeros in rows whose weight is not 0."""
        if self.weights is None:
            return self.nonzeros
        return int(np.diff(self.indptr)[self.weights > 0].sum())

    def weights_or_ones(self) -> np.ndarray:
        """Return the weight of every row; all 1 if the batch has none."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def row_of_nonzero(self, k: int) -> int:
        """Return the row that holds the k-th non-zero."""
        k = check_int("k", k, 0, self.nonzeros - 1)
        return int(np.searchsorted(self.indptr, k, side="right")) - 1

    # Otherwise Python would iterate by calling __getitem__ with integers.
    __iter__ = None

    def __getitem__(self, rows: slice) -> Batch:
        """Return a slice of consecutive rows, without copying features."""
        if not isinstance(rows, slice):
            raise BadInput(f"a batch is indexed by slices, such as batch[3:4], not by {shortened_repr(rows)}.")
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise BadInput("a batch can only be sliced into consecutive rows; use step 1.")
        stop = max(start, stop)
        first, last = self.indptr[start], self.indptr[stop]
        cut = self.replace()  # no keywords, for speed: many batches are cut into single rows
        cut.indptr = read_only(self.indptr[start : stop + 1] - first)
        cut.indices, cut.values = self.indices[first:last], self.values[first:last]
        cut.groups = None if self.groups is None else self.groups[first:last]
        cut.codes = None if self.codes is None else self.codes[start:stop]
        cut.labels = None if self.labels is None else self.labels[start:stop]
        cut.weights = None if self.weights is None else self.weights[start:stop]
        cut.tags = None if self.tags is None else self.tags[start:stop]
        cut.positions = None if self.positions is None else self.positions[start:stop]
        return cut

    def take(self, rows: Any) -> Batch:
        """Return the given rows in the given order, with their labels and other attributes; rows may repeat.

        Args:
            rows: row indices (negative ones count from the end), or one boolean per row.

        >>> batch = Batch.from_rows([{0: 1.0}, {1: 2.0}, {}], labels=[1, -1, 1])
        >>> batch.take([2, 0]).labels, batch.take(batch.labels < 0).indices
        (array([1., 1.]), array([1], dtype=uint32))
        """
        rows = as_row_indices(rows, len(self))
        lengths = self.indptr[rows + 1] - self.indptr[rows]
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        places = np.repeat(self.indptr[rows] - indptr[:-1], lengths)
        places += np.arange(len(places))
        return self.replace(
            indptr=read_only(indptr),
            indices=read_only(self.indices[places]),
            values=read_only(np.ones(len(places), self.values.dtype) if self.is_all_ones else self.values[places]),
            groups=None if self.groups is None else read_only(self.groups[places]),
            codes=None if self.codes is None else read_only(self.codes[rows]),
            labels=None if self.labels is None else self.labels[rows],
            weights=None if self.weights is None else self.weights[rows],
            tags=None if self.tags is None else [self.tags[row] for row in rows.tolist()],
            positions=None if self.positions is None else self.positions[rows],
        )

    def astype(self, dtype: Any) -> Batch:
        """Return the batch with values of type "float32" or "float64"; the batch itself if it has that type already.

        A value that rounds to 0 in float32 is dropped like any zero; one too large for it raises BadInput.
        """
        dtype = check_dtype(dtype)
        if self.values.dtype == dtype:
            return self
        if self.is_all_ones:
            return self.replace(values=read_only(np.ones(self.nonzeros, dtype)))
        with np.errstate(over="ignore"):
            values = self.values.astype(dtype)
            max_abs_value = float(values.dtype.type(self.max_abs_value))
        if values.all() and np.isfinite(max_abs_value):  # rounding keeps the order, so the largest stays the largest
            return self.replace(values=read_only(values), max_abs_value=max_abs_value)
        if not np.isfinite(values).all():
            self._refuse(values, f"as {values.dtype} it would not be finite")
        thin = Batch.from_arrays(self.indptr, self.indices, values, groups=self.groups)
        return self.replace(**{name: getattr(thin, name) for name in (*_CSR, "groups", *_BOUNDS)})

    @classmethod
    def concatenate(cls, batches: Iterable[Batch]) -> Batch:
        """Return one batch with the rows of all batches in order, and their labels and other attributes.

        Values get the widest type among the batches. If some batches have weights, rows of the others weigh 1. Either
        all batches have labels or none has; tags, positions, groups and codes are kept if all have them.

        >>> batch = Batch.from_rows([{0: 1.0}, {1: 2.0}], labels=[1, -1])
        >>> Batch.concatenate([batch[1:], batch[:1]]).labels
        array([-1.,  1.])
        """
        parts = check_iterable("batches", batches, "some batches")
        if not parts:
            raise BadInput("there are no batches to concatenate; give at least one.")
        for part in parts:
            check_is_batch(part)
        require_labels = [part.labels is not None for part in parts]
        if any(require_labels) and not all(require_labels):
            raise BadInput("some of these batches have labels and others do not; give labels for all or for none.")

        def joined(name: str) -> Any:
            arrays = [getattr(part, name) for part in parts]
            return None if any(array is None for array in arrays) else np.concatenate(arrays)

        starts = np.cumsum([0] + [part.nonzeros for part in parts[:-1]])
        ends = [part.indptr[1:] + start for part, start in zip(parts, starts, strict=True)]
        if len({part.codes.shape[1] for part in parts if part.codes is not None}) > 1:
            raise BadInput("the batches have codes of different columns; give all of them codes for the same columns.")
        tagged = all(part.tags is not None for part in parts)
        weighted = any(part.weights is not None for part in parts)
        return parts[0].replace(
            indptr=read_only(np.concatenate([np.zeros(1, np.int64), *ends])),
            indices=read_only(joined("indices")),
            values=read_only(joined("values")),
            labels=joined("labels"),
            weights=np.concatenate([part.weights_or_ones() for part in parts]) if weighted else None,
            tags=[tag for part in parts for tag in part.tags or ()] if tagged else None,
            positions=joined("positions"),
            groups=None if (groups := joined("groups")) is None else read_only(groups),
            codes=None if (codes := joined("codes")) is None else read_only(codes),
            n_wrapped=sum(part.n_wrapped for part in parts),
            max_row_length=max(part.max_row_length for part in parts),
            max_abs_value=max(part.max_abs_value for part in parts),
            max_index=max(part.max_index for part in parts),
            is_all_ones=all(part.is_all_ones for part in parts),
        )

    def with_labels(self, labels: Any, weights: Any = None) -> Batch:
        """Return the batch with other labels (and weights, if given), without checking the features again."""
        return self.replace(
            labels=as_row_values(labels, len(self), "label"),
            weights=self.weights if weights is None else as_weights(weights, len(self)),
        )

    def with_groups(self, groups: Any) -> Batch:
        """Return the batch with other groups: the column of each non-zero as a number from 0 to 255, or None.

        >>> batch = Batch.from_rows([{0: 1.0, 7: 2.0}]).with_groups([0, 1])
        >>> batch.groups
        array([0, 1], dtype=uint8)
        """
        column = as_groups(groups, self.nonzeros)
        return self.replace(groups=None if column is None else read_only(column.view()))

    def with_codes(self, codes: Any) -> Batch:
        """Return the batch with other codes: the cell of each row in each column, from 0 to 64, or None.

        >>> Batch.from_rows([{0: 1.0}, {}]).with_codes([[3, 0], [1, 64]])[1:].codes
        array([[ 1, 64]], dtype=uint8)
        """
        cells = as_codes(codes, len(self))
        return self.replace(codes=None if cells is None else read_only(cells.view()))

    def with_positions(self, positions: Any) -> Batch:
        """Return the batch with other positions: one integer per row, or None."""
        return self.replace(positions=as_positions(positions, len(self)))

    def replace(self, **parts: Any) -> Batch:
        """Return a batch with some attributes replaced, which are not checked; the others are shared."""
        other = object.__new__(Batch)
        other.__dict__ = self.__dict__ | parts
        return other

    def to_csr(self, n_features: int | None = None) -> Any:
        """Return the rows as a SciPy CSR array."""
        from scipy.sparse import csr_array

        needed = int(self.indices.max(initial=0)) + 1 if self.nonzeros else 0
        width = needed if n_features is None else check_int("n_features", n_features, needed)
        return csr_array((self.values, self.indices.astype(np.int64), self.indptr), shape=(len(self), width))

    def __repr__(self) -> str:
        return f"Batch({len(self)} examples, {self.nonzeros} non-zeros, largest feature {self.max_index})"


def check_is_batch(batch: Any) -> None:
    """Raise BadInput if `batch` is not a Batch."""
    if not isinstance(batch, Batch):
        raise BadInput("expected a bayou.Batch; Batch.from_csr(X, y) makes one from a matrix.")


def require_labels(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the batches; raise BadInput for one that has no labels or is not a Batch."""
    if not isinstance(batches, Iterable) or hasattr(batches, "tocsr") or isinstance(batches, np.ndarray):
        raise BadInput(
            f"batches is {shortened_repr(batches)}; give batches: Batch.from_csr(X, y) makes one from a matrix."
        )
    for batch in batches:
        check_is_batch(batch)
        if batch.labels is None:
            raise BadInput("a batch has no labels to fit to or to score predictions against.")
        yield batch


class Example(NamedTuple):
    """A single example, canonical and finite as in a batch, for callers that process one at a time.

    Its features are the first `size` entries of `indices` (uint32), `values` and `groups`; no index exceeds
    `max_index`. `largest`, `ones` and `groups` are as in `Batch`.
    """

    indices: np.ndarray
    values: np.ndarray
    size: int
    max_abs_value: float
    is_all_ones: bool
    max_index: int
    groups: np.ndarray | None = None

    def batch(self, labels: Any = None, weights: Any = None) -> Batch:
        """Return the example as a batch of one row."""
        n = self.size
        groups = None if self.groups is None else self.groups[:n]
        rows = np.array((0, n)), self.indices[:n], self.values[:n], groups
        seen = CsrStats(n, self.max_index, self.max_abs_value, self.is_all_ones)
        return Batch.from_trusted(rows, seen, as_row_values(labels, 1, "label"), as_weights(weights, 1))
