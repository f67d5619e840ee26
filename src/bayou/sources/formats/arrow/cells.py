"""Conversion of Arrow columns to cells: their text, with the start and stop of each cell in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayou.core.arrow import is_a, pa, pc
from bayou.core.errors import BadInput
from bayou.kernels.compiling import kernel
from bayou.kernels.format_numbers import MAX_NUMBER_BYTES, WRITE_PADDING_BYTES, put_byte, put_eight_digits, put_whole
from bayou.kernels.parse_text import PADDING, address_of
from bayou.sources.table.cell_columns import check_names
from bayou.sources.table.typed_values import EXACT, places_of, text_of


def flat_columns(batch: Any) -> list[tuple[str, Any]]:
    """Return the (name, column) pairs of a record batch or schema, with structs flattened, without pandas' index."""
    flat: list[tuple[str, Any]] = []

    def add(name: str, column: Any) -> None:
        kind = column.type
        if pa.types.is_struct(kind):
            children = kind if isinstance(column, pa.Field) else column.flatten()
            for k, child in enumerate(children):
                add(f"{name}.{kind.field(k).name}", child)
        elif not name.startswith("__index_level_"):
            flat.append((name, column))

    schema = batch if isinstance(batch, pa.Schema) else batch.schema
    for k, field in enumerate(schema):
        add(field.name, field if isinstance(batch, pa.Schema) else batch.column(k))
    check_names([name for name, _ in flat], "the table")
    return flat


def names_of(schema: pa.Schema) -> list[str]:
    return [name for name, _ in flat_columns(schema)]


def is_text(kind: pa.DataType) -> bool:
    return any(
        check(kind)
        for check in (is_a.is_string, is_a.is_large_string, is_a.is_binary, is_a.is_large_binary, is_a.is_string_view)
    )


# Arrow's own conversion to NumPy imports pandas, which takes longer than all else before the first row.


def _plain(array: pa.Array) -> np.ndarray:
    """Return the numbers of an array without copying; entries that are null have arbitrary values."""
    values = np.frombuffer(array.buffers()[1] or b"", array.type.to_pandas_dtype())
    return values[array.offset : array.offset + len(array)]


def _nulls(array: pa.Array) -> np.ndarray | None:
    if not array.null_count:
        return None
    validity = array.buffers()[0]
    if validity is None:  # the null type, which has no values
        return np.ones(len(array), np.bool_)
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)] == 0


def as_numbers(array: pa.Array) -> np.ndarray:
    """Return an array as float64, with NaN for null."""
    array = array.cast(pa.float64(), safe=False)
    nulls = _nulls(array)
    return _plain(array) if nulls is None else np.where(nulls, np.nan, _plain(array))


def values_of(array: pa.Array, column: str) -> list[Any]:
    """Return a column as a list of Python objects."""
    try:
        return array.to_pylist()
    except UnicodeDecodeError:
        raise BadInput(f"column {column!r} holds text that is not UTF-8; the table is damaged.") from None


def string_cells(array: pa.Array, separated: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return text as cells (data, starts, stops); with `separated`, a newline follows each."""
    if not (pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)):
        array = array.cast(pa.large_binary() if pa.types.is_binary(array.type) else pa.large_string())
    n = len(array)
    _, offsets, text = array.buffers()
    ends = np.frombuffer(offsets, np.int64, n + 1, 8 * array.offset) if n else np.zeros(1, np.int64)
    first, last = int(ends[0]), int(ends[-1])
    if last - first + n >= 2**31:
        raise BadInput("a batch of a table holds more than 2 GiB of text in one column; make the batches smaller.")
    starts, stops = (ends[:-1] - first).astype(np.uint32), (ends[1:] - first).astype(np.uint32)
    if (nulls := _nulls(array)) is not None:
        stops[nulls] = starts[nulls]
    old = np.frombuffer(text, np.uint8)[first:last] if text is not None else np.empty(0, np.uint8)
    data = np.empty(last - first + PADDING + (n if separated else 0), np.uint8)
    if separated:
        _set_apart(old, starts, stops, data)
    else:
        data[: len(old)], data[len(old) :] = old, ord("\n")
    return data, starts, stops


def whole_cells(array: pa.Array, only_whole: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return numbers as cells: integers by their digits, others as Python writes them, or empty with `only_whole`."""
    nulls = _nulls(array)
    empty = np.zeros(len(array), np.bool_) if nulls is None else nulls.copy()
    if pa.types.is_floating(array.type):
        values = as_numbers(array)
        with np.errstate(invalid="ignore"):
            is_whole = (values == np.floor(values)) & (np.abs(values) < EXACT)
        if not only_whole and not (is_whole | np.isnan(values)).all():
            return places_of([text_of(value) for value in array.to_pylist()])
        empty |= ~is_whole
        integers = np.where(is_whole, values, 0).astype(np.int64)
    else:
        integers = _plain(array) if nulls is None else np.where(nulls, 0, _plain(array))
    minus = integers < 0
    sizes = integers.astype(np.uint64)
    sizes[minus] = np.uint64(0) - sizes[minus]
    starts, stops = np.empty(len(integers), np.uint32), np.empty(len(integers), np.uint32)
    data = np.empty(len(integers) * (2 * MAX_NUMBER_BYTES) + WRITE_PADDING_BYTES + PADDING, np.uint8)
    _write_digits(sizes, minus, empty, data, starts, stops)
    return data, starts, stops


def iso(array: pa.Array) -> pa.Array:
    """Return times as ISO 8601, without trailing zeros after the seconds: 2013-01-01T10:00:00Z."""
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp(array.type.unit, "UTC"))
    text = pc.replace_substring(array.cast(pa.string()), " ", "T", max_replacements=1)
    text = pc.replace_substring_regex(text, r"(\.[0-9]*?)0+(Z?)$", r"\1\2")
    return pc.replace_substring_regex(text, r"\.(Z?)$", r"\1")


def is_point(kind: pa.DataType) -> bool:
    """Return whether a type holds dates or timestamps, rather than times of day or durations."""
    return bool(is_a.is_timestamp(kind) or is_a.is_date(kind))


def as_seconds(array: pa.Array) -> np.ndarray:
    """Return times in seconds (as in `dates`) of their zone's local time, or of UTC if it is unknown; NaN for null."""
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        try:
            array = pc.local_timestamp(array)
        except pa.ArrowInvalid:  # an unknown zone
            array = array.cast(pa.timestamp(array.type.unit, "UTC")).cast(pa.timestamp(array.type.unit))
    days = pa.types.is_date32(array.type)
    unit = array.type.unit if pa.types.is_timestamp(array.type) else "s" if days else "ms"
    nulls = _nulls(array)
    ticks = array.cast(pa.int32()) if days else array.cast(pa.int64())
    ticks = (_plain(ticks) if nulls is None else np.where(nulls, 0, _plain(ticks))).astype(np.int64)
    seconds = (ticks * 86_400 if days else ticks // {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]).astype(float)
    if nulls is not None:
        seconds[nulls] = np.nan
    return seconds


@kernel
def _set_apart(old, starts, stops, data):
    """Copy cells with a newline after each, and update their starts and stops."""
    k = 0
    for i in range(starts.size):
        start = k
        for offset in range(starts[i], stops[i]):
            data[k] = old[offset]
            k += 1
        starts[i], stops[i] = start, k
        data[k] = 10
        k += 1
    data[k:] = 10


@kernel
def _write_digits(sizes, minus, empty, data, starts, stops):
    """Write integers as cells with a newline after each; entries marked in `empty` become empty cells."""
    base = address_of(data)
    address = base
    for i in range(sizes.size):
        starts[i] = address - base
        if not empty[i]:
            if minus[i]:
                put_byte(address, 45)
                address += 1
            size = sizes[i]
            if size < np.uint64(10**16):
                address = put_whole(address, size)
            else:
                address = put_whole(address, size // np.uint64(10**8))
                put_eight_digits(address, size % np.uint64(10**8))
                address += 8
        stops[i] = address - base
        put_byte(address, 10)
        address += 1
