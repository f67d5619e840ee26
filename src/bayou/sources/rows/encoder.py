"""Encoder of dictionaries {name: value}, single or in tables, as batches, for streams within Python.

One row takes a few microseconds. For that, an ordinary row (names are texts, values are numbers) is packed by `struct`,
which never accepts a text as a number, and is hashed and made canonical by kernels.

With crosses all rows take the slow path, and tables are converted to dictionaries. Names are crossed like columns of
tables: each set of names once, in the order of the first rule that has it; "*" is every other name, and where it occurs
more than once the name with the smaller hash comes first.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from bayou.core.arrow import is_a, pa
from bayou.core.batch import Batch, Example
from bayou.core.checks import check_int
from bayou.core.errors import BadInput
from bayou.recipe.crosses import ANY, MAX_ROW_CROSSES, checked_crosses, choices
from bayou.recipe.feature_names import AND
from bayou.recipe.groups import NONE, group_keys, groups_of
from bayou.recipe.hashing import cross_hashes
from bayou.sources.formats.arrow.cells import string_cells
from bayou.sources.rows.hashes import BETWEEN, folded, hashes_of
from bayou.sources.rows.kernels import BEHIND, by_row, hash_cells, read, tidy

# New names and their indices, to be kept once their rows are learned.
New = dict[Hashable, int]
_Columns = list[tuple[Hashable, Any]]
# Features, values, the number of features at the end that are in order already, and groups.
Mixed = tuple[np.ndarray, np.ndarray, int, np.ndarray | None]

# Longer rows are encoded like tables: finding repeated features takes quadratic time here.
_SHORT = 128
_PACK_FLOATS = [struct.Struct(f"{n}d").pack for n in range(_SHORT + 1)]
_PACK_WHOLE = [struct.Struct(f"{n}q").pack for n in range(_SHORT + 1)]
# Maximum number of cached groups of names, where names are numbered.
_REMEMBERED = 1 << 20
# Maximum number of sets of names whose crosses are cached.
_REMEMBERED_SETS = 256


class RowEncoder:
    """Encoder of rows as batches with 2^bits features; with `hashing` names are hashed, otherwise numbered.

    With `groups`, rows hold the group of each feature's name (`recipe.groups`). `cross` lists pairs and triples of
    names whose features are crossed.

    >>> rows = RowEncoder(bits=18)
    >>> row, _ = rows.encode_row({"age": 37.0, "site": "a.com"})
    >>> row.values.tolist()
    [37.0, 1.0]
    >>> RowEncoder(bits=18, cross=[("user", "ad")]).encode_row({"age": 2.0, "user": "ann", "ad": "shoes"})[0].size
    4
    """

    def __init__(
        self,
        bits: int,
        hashing: bool = True,
        dtype: Any = "float32",
        groups: bool = False,
        cross: Sequence[Sequence[str]] = (),
    ) -> None:
        self.n_features = 2 ** check_int("bits", bits, 1, 31)
        self._last = self.n_features - 1
        self._mask = np.uint32(self._last)
        self._dtype = dtype
        self.numbers: New | None = None if hashing else {}
        self.groups = groups
        self._group_by_name: dict[Hashable, int] = {}
        self._cross = checked_crosses(cross)
        for names in self._cross:
            if names[0] == names[1] != ANY:
                raise BadInput(f"cross pairs {names[0]!r} with itself; name two different features.")
        self._crossed: dict[tuple[Hashable, ...], list[np.ndarray]] = {}

    # --- one row ----------------------------------------------------------------------------------------------------

    def encode_row(self, row: Mapping[Hashable, Any], learn: bool = False) -> tuple[Example, New]:
        """Return the encoded row and its new names; pass them to `store_names` once the row is learned.

        A new name already has the index it will be kept under, so that the prediction is the one that learning makes.
        If no index is left, raise BadInput with `learn`; otherwise ignore the feature.
        """
        new: New = {}
        if self._cross:
            return self._any(row, new, learn), new
        try:
            n = len(row)
            packed = _PACK_FLOATS[n](*row.values())
            if self.numbers is not None:
                names, is_text = _PACK_WHOLE[n](*map(self.numbers.__getitem__, row)), False
            else:
                try:
                    names, is_text = BETWEEN.join(row).encode() + BEHIND, True  # type: ignore[arg-type]
                except TypeError:
                    names, is_text = _PACK_WHOLE[n](*row), False
        except (struct.error, TypeError, LookupError, ValueError, OverflowError, AttributeError):
            return self._any(row, new, learn), new
        indices, values, hashed = np.empty(n, np.uint32), np.empty(n, self._dtype), self.numbers is None
        groups = None if not self.groups else np.empty(n, np.uint8) if hashed else self._groups_of_names(row)
        of_names = self._named if self.groups and hashed else None
        size, max_abs, is_all_ones = read(names, is_text, packed, self._mask, indices, values, of_names, groups)
        if size < 0 or max_abs == math.inf:
            return self._any(row, new, learn), new
        return Example(indices, values, size, max_abs, is_all_ones, self._last, groups), new

    def _any(self, row: Mapping[Hashable, Any], new: New, learn: bool) -> Example:
        """Encode any row, on the slow path."""
        ids, values, ordered, groups = self._encode_mixed(row, new, learn)
        if new and len(self.numbers or ()) + len(new) > self.n_features:
            values = np.where(ids < self.n_features, values, 0.0)
        if len(ids) > _SHORT:
            return self._encode_any(row, (ids, values, ordered, groups))
        indices, tidied = np.empty(len(ids), np.uint32), np.empty(len(ids), self._dtype)
        size, max_abs, is_all_ones = tidy(ids, values, len(ids) - ordered, self._mask, indices, tidied, groups)
        if max_abs == math.inf:
            raise _not_finite(row, self._dtype)
        return Example(indices, tidied, size, max_abs, is_all_ones, self._last, groups)

    def store_names(self, new: New) -> None:
        """Keep the indices of new names."""
        if new and self.numbers is not None:
            self.numbers |= new

    def _encode_mixed(self, row: Mapping[Hashable, Any], new: New, learn: bool) -> Mixed:
        """Return the features of a row, numbers before categories, without missing values; crosses come last."""
        if not isinstance(row, Mapping):
            raise BadInput(f"a row is a dictionary of names and values, not {row!r}.")
        numeric: dict[Hashable, Any] = {}
        categories: dict[Hashable, str] = {}
        for name, value in row.items():
            if isinstance(value, str):
                categories[name] = value
            elif value is not None and value == value:
                numeric[name] = value
        try:
            packed = struct.pack(f"{len(numeric)}d", *numeric.values())
        except (struct.error, TypeError, OverflowError):
            raise _no_number(numeric) from None
        values = np.concatenate([np.frombuffer(packed), np.ones(len(categories))])
        if self.numbers is None:
            seeds = hashes_of(categories)
            order, number_ids = np.argsort(seeds, kind="stable"), hashes_of(numeric)
            category_ids = hashes_of(list(categories.values()), seeds)[order]
            groups = self._groups_of(np.concatenate([number_ids, seeds[order]])) if self.groups else None
            mixed = np.concatenate([number_ids, category_ids]), values, len(category_ids), groups
        else:
            names = [*numeric, *(f"{name}={text}" for name, text in categories.items())]
            groups = self._groups_of_names([*numeric, *categories]) if self.groups else None
            mixed = self._ids(names, new, learn), values, 0, groups
        return self._with_crosses({**numeric, **categories}, mixed, new, learn) if self._cross else mixed

    def _encode_any(self, row: Mapping[Hashable, Any], mixed: Mixed) -> Example:
        ids, values, ordered, groups = mixed
        with np.errstate(over="ignore"):
            values = np.where(np.isnan(values), 0.0, values).astype(self._dtype)
        if not np.isfinite(values).all():
            raise _not_finite(row, self._dtype)
        order = np.arange(len(ids))
        order[: len(ids) - ordered] = np.argsort(ids[: len(ids) - ordered], kind="stable")
        ends, groups = np.array((0, len(ids))), None if groups is None else groups[order]
        batch = Batch.from_arrays(ends, ids[order] & self._mask, values[order], groups=groups)
        extent = batch.nonzeros, batch.max_abs_value, batch.is_all_ones
        return Example(batch.indices, batch.values, *extent, self._last, batch.groups)

    # --- crosses ----------------------------------------------------------------------------------------------------

    def _with_crosses(self, row: Mapping[Hashable, Any], features: Mixed, new: New, learn: bool) -> Mixed:
        """Return `features`, the row's own, followed by its crosses; `row` must not have missing values."""
        ids, values, ordered, groups = features
        given_names, hashes = list(row), hashes_of(row)
        order = np.argsort(hashes, kind="stable")
        names = [given_names[k] for k in order]
        crosses = self._crosses_of(tuple(names))
        if not crosses:
            return features
        sizes = np.array([1.0 if isinstance(row[name], str) else float(row[name]) for name in names])
        products = [np.prod(sizes[slots], axis=1) for slots in crosses]
        if not all((np.abs(product) <= np.finfo(self._dtype).max).all() for product in products):
            raise BadInput("the product of two features is not a finite number; scale the crossed features.")
        if self.numbers is None:
            keys = hashes[order]
            text_slots = [k for k, name in enumerate(names) if isinstance(row[name], str)]
            keys[text_slots] = hashes_of([row[names[k]] for k in text_slots], keys[text_slots])
            crossed = [cross_hashes(keys[slots]) for slots in crosses]
        else:
            called = [f"{name}={row[name]}" if isinstance(row[name], str) else str(name) for name in names]
            together = [AND.decode().join(called[k] for k in cross) for slots in crosses for cross in slots.tolist()]
            crossed = [self._ids(together, new, learn)]
        made = np.concatenate([ids, *crossed])
        n = len(made) - len(ids)
        groups = None if groups is None else np.concatenate([groups, np.zeros(n, np.uint8)])
        return made, np.concatenate([values, *products]), ordered + n, groups

    def _crosses_of(self, names: tuple[Hashable, ...]) -> list[np.ndarray]:
        """Return the crosses of names sorted by hash: arrays of positions, one for pairs and one for triples."""
        arrays = self._crossed.get(names)
        if arrays is None:
            if len(self._crossed) >= _REMEMBERED_SETS:
                self._crossed.clear()
            crosses = list(islice(choices(_places(rule, names) for rule in self._cross), MAX_ROW_CROSSES + 1))
            if len(crosses) > MAX_ROW_CROSSES:
                raise BadInput(
                    f"the crosses would give a row of {len(names)} names more than {MAX_ROW_CROSSES:,} features; cross "
                    "fewer."
                )
            sizes = sorted({len(cross) for cross in crosses})
            arrays = [np.array([cross for cross in crosses if len(cross) == size]) for size in sizes]
            self._crossed[names] = arrays
        return arrays

    # --- names to numbers -------------------------------------------------------------------------------------------

    def _ids(self, names: Iterable[Hashable], new: New, learn: bool) -> np.ndarray:
        if self.numbers is None:
            return hashes_of(names)
        index_of = self.numbers
        try:
            return np.array([index_of[name] for name in names], np.uint32)
        except KeyError:
            pass
        for name in sorted((name for name in names if name not in index_of), key=str):
            index = new.setdefault(name, len(index_of) + len(new))
            if learn and index >= self.n_features:
                raise BadInput(
                    f"no number is left for the feature {name!r}: all {self.n_features:,} are taken. "
                    "Use more bits, or hashing=True."
                )
        return np.array([index_of[name] if name in index_of else new[name] for name in names], np.uint32)

    # --- names to groups --------------------------------------------------------------------------------------------

    @cached_property
    def _named(self) -> np.ndarray:
        """Hashes of the names that have groups of their own."""
        return group_keys(self._cross, lambda name: int(hashes_of([name])[0]))

    def _groups_of(self, hashes: np.ndarray) -> np.ndarray:
        """Return the groups of names, given their hashes."""
        groups = np.empty(len(hashes), np.uint8)
        groups_of(hashes, self._named, groups)
        return groups

    def _groups_of_names(self, names: Iterable[Hashable]) -> np.ndarray:
        """Return the groups of names, from a cache; for rows whose names are numbered."""
        group_by_name = self._group_by_name
        try:
            return np.array([group_by_name[name] for name in names], np.uint8)
        except KeyError:
            pass
        names = list(names)
        groups = self._groups_of(hashes_of(names))
        if len(group_by_name) > _REMEMBERED:
            group_by_name.clear()
        group_by_name |= zip(names, groups.tolist(), strict=True)
        return groups

    # --- many rows --------------------------------------------------------------------------------------------------

    def encode_rows(self, rows: Any, learn: bool = False) -> tuple[Batch, New]:
        """Return a batch and its new names for a table.

        A table is a DataFrame, an object with `__arrow_c_stream__`, a SciPy matrix, or an iterable of dictionaries. A
        column of numbers is a feature, one of texts several categories. The columns of a matrix are named by integers.
        """
        new: New = {}
        if self._cross:
            rows = _dictionaries(rows)
        if hasattr(rows, "tocsr"):
            matrix = rows.tocsr()
            try:
                matrix.check_format()  # SciPy would sort an invalid matrix beyond the end of its arrays
            except ValueError as error:
                raise BadInput(f"the matrix is invalid: {error}.") from None
            return self._sparse(matrix, range(matrix.shape[1]), new, learn), new
        if hasattr(rows, "iloc") and not hasattr(rows, "columns"):
            rows = rows.tolist()  # a series, whose elements are rows
        if hasattr(rows, "iloc") and {type(kind).__name__ for kind in rows.dtypes} == {"SparseDtype"}:
            return self._sparse(rows.sparse.to_coo().tocsr(), rows.columns, new, learn), new
        if hasattr(rows, "iloc") or hasattr(rows, "__arrow_c_stream__"):
            columns = _columns(rows)
            if columns is not None:
                return self._table(*columns, new, learn), new
            rows = rows.to_dict("records")  # texts and numbers in one column
        if not isinstance(rows, Iterable) or isinstance(rows, Mapping | str) or not getattr(rows, "shape", (1,)):
            raise BadInput(
                "expected a DataFrame, a sparse matrix or a list of dictionaries; learn_one takes a single dictionary."
            )
        return self._stacked(rows, new, learn), new

    def _table(self, n: int, numbers: _Columns, texts: _Columns, new: New, learn: bool) -> Batch:
        if self.numbers is None:
            numbers, texts = (_by_hash(columns) for columns in (numbers, texts))
        width = len(numbers) + len(texts)
        ids = np.empty((width, n), np.uint32)
        values = np.empty((width, n), self._dtype)
        ids[: len(numbers)] = self._ids([name for name, _ in numbers], new, learn)[:, None]
        with np.errstate(over="ignore"):  # values that are too large are found when the batch is checked
            for c, (_, column) in enumerate(numbers):
                values[c] = column
        for c, (name, column) in enumerate(texts, len(numbers)):
            ids[c] = self._cell_ids(name, column, new, learn)
            values[c] = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else 1.0
        indptr = np.zeros(n + 1, np.int64)
        indices, present = np.empty(ids.size, np.uint32), np.empty(ids.size, self._dtype)
        names, groups = [name for name, _ in (*numbers, *texts)], np.empty(ids.size if self.groups else 0, np.uint8)
        of_columns = self._groups_of(hashes_of(names)) if self.groups else NONE
        size = by_row(ids, values, of_columns, indptr, indices, present, groups)
        return self._checked(indptr, indices[:size], present[:size], groups[:size] if self.groups else None)

    def _sparse(self, matrix: Any, names: Any, new: New, learn: bool) -> Batch:
        """Return the batch of a sparse matrix; `names` is a range if its columns have no names."""
        groups = None
        if self.numbers is not None:
            columns, slots = np.unique(matrix.indices, return_inverse=True)
            used_names = [names[c] for c in columns.tolist()]
            ids = self._ids(used_names, new, learn)[slots]
            groups = self._groups_of(hashes_of(used_names))[slots] if self.groups else None
        elif isinstance(names, range):
            matrix = matrix if matrix.has_sorted_indices else matrix.sorted_indices()
            ids = folded(matrix.indices)
        else:
            hashes = hashes_of(names)
            order = np.argsort(hashes, kind="stable")
            matrix = matrix[:, order].sorted_indices()
            ids = hashes[order][matrix.indices]
        values = matrix.data.astype(self._dtype)
        values[np.isnan(values)] = 0.0  # missing
        if self.groups and groups is None:
            groups = self._groups_of(ids)
        return self._checked(matrix.indptr, ids, values, groups)

    def _stacked(self, rows: Iterable[Any], new: New, learn: bool) -> Batch:
        coded = [self.encode_row(row, learn)[0] if self.numbers is None else self._any(row, new, learn) for row in rows]
        return self._checked(
            np.cumsum([0] + [row.size for row in coded]),
            np.concatenate([np.empty(0, np.uint32), *(row.indices[: row.size] for row in coded)]),
            np.concatenate([np.empty(0, self._dtype), *(row.values[: row.size] for row in coded)]),
            np.concatenate([NONE, *(row.groups[: row.size] for row in coded if row.groups is not None)])
            if self.groups
            else None,
        )

    def _cell_ids(self, name: Hashable, column: Any, new: New, learn: bool) -> np.ndarray:
        """Return the feature of each cell of a column of texts."""
        if self.numbers is None:
            data, starts, stops = string_cells(column, separated=False)
            ids = np.empty(len(column), np.uint32)
            hash_cells(data, starts, stops, hashes_of([name])[0], ids)
            return ids
        coded = column.dictionary_encode()
        of = self._ids([f"{name}={text}" for text in coded.dictionary.to_pylist()], new, learn)
        if not len(of):
            return np.zeros(len(column), np.uint32)
        return of[coded.indices.fill_null(0).to_numpy(zero_copy_only=False)]

    def _checked(self, indptr: np.ndarray, ids: np.ndarray, values: np.ndarray, groups: np.ndarray | None) -> Batch:
        if self.numbers is not None and len(ids) and ids.max() >= self.n_features:
            values = np.where(ids < self.n_features, values, 0)
        return Batch.from_arrays(indptr, ids & self._mask, values, groups=groups)


def _places(rule: Sequence[str], names: Sequence[Hashable]) -> list[Sequence[int]]:
    """Return, for each name of a cross, its positions among the names of a row."""
    every = range(len(names))
    return [every if name == ANY else [k for k in every if names[k] == name] for name in rule]


def _dictionaries(rows: Any) -> Any:
    """Return the rows of a matrix or table as dictionaries; anything else unchanged."""
    if hasattr(rows, "tocsr"):
        matrix = rows.tocsr()
        ends = zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True)
        return [dict(zip(matrix.indices[a:b].tolist(), matrix.data[a:b].tolist(), strict=True)) for a, b in ends]
    if hasattr(rows, "iloc"):
        return rows.to_dict("records") if hasattr(rows, "columns") else rows
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows).to_pylist()
    return rows


def _by_hash(columns: _Columns) -> _Columns:
    order = np.argsort(hashes_of([name for name, _ in columns]), kind="stable")
    return [columns[c] for c in order]


def _columns(table: Any) -> tuple[int, _Columns, _Columns] | None:
    """Return a table's number of rows, its numeric and its text columns; None if a column mixes types."""
    if hasattr(table, "iloc"):  # pandas, whose column names need not be texts
        columns = list(table.items())
    else:
        table = pa.table(table)
        columns = list(zip(table.column_names, table.columns, strict=True))
    numbers: _Columns = []
    texts: _Columns = []
    for name, column in columns:
        if isinstance(getattr(column, "dtype", None), np.dtype) and column.dtype.kind in "biuf":
            numbers.append((name, column.to_numpy()))
            continue
        try:
            array = column if isinstance(column, pa.ChunkedArray) else pa.array(column, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return None
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        array = array.dictionary_decode() if is_a.is_dictionary(array.type) else array
        if is_a.is_string(array.type) or is_a.is_large_string(array.type) or is_a.is_string_view(array.type):
            texts.append((name, array))
        elif is_a.is_boolean(array.type) or is_a.is_integer(array.type) or is_a.is_floating(array.type):
            numbers.append((name, array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)))
        elif not is_a.is_null(array.type):
            raise BadInput(f"column {name!r} holds {array.type}; give numbers, booleans or texts.")
    return len(table), numbers, texts


def _no_number(row: Mapping[Hashable, Any]) -> BadInput:
    for name, value in row.items():
        try:
            struct.pack("d", value)
        except (struct.error, TypeError, OverflowError):
            return BadInput(f"the feature {name!r} is {value!r}; a value is a number, True, False, a text or None.")
    return BadInput("a row is a dictionary of names and values.")


def _not_finite(row: Mapping[Hashable, Any], dtype: str) -> BadInput:
    max_abs = float(np.finfo(dtype).max)
    for name, value in row.items():
        if value is not None and not isinstance(value, str) and abs(float(value)) > max_abs:
            return BadInput(f"the feature {name!r} is {value!r}; every value must be a finite number, as {dtype} too.")
    return BadInput("two features share a number after hashing, and their values' sum is not finite; use more bits.")
