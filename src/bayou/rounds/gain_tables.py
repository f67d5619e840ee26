"""Gains and their sums as Arrow tables: a row for each block of features, one of block -1 for everything else.

Numbers are converted between NumPy and Arrow through their buffers: Arrow's own conversions import pandas if it is
installed, which takes longer than everything else that a process loads to learn a shard.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from bayou.core.errors import BadInput

# Number of features in a block.
FEATURE_BLOCK_SIZE = 1 << 12
GLOBAL_BLOCK = -1

# Columns of gains and of sums; `named` are the places whose names the base lacks.
_ANY = [("apart", pa.list_(pa.float64())), ("named", pa.list_(pa.uint16())), ("names", pa.list_(pa.large_binary()))]
GAIN = pa.schema(
    [
        ("block", pa.int32()),
        ("task", pa.int32()),
        ("places", pa.list_(pa.uint16())),  # indices within the block; empty in the row of block -1
        ("numbers", pa.list_(pa.float32())),  # values of each place, concatenated
        *_ANY,
    ]
)
SUM = pa.schema(
    [
        ("block", pa.int32()),
        ("places", pa.list_(pa.uint16())),
        ("met", pa.list_(pa.int32())),  # number of tasks that have seen each place
        ("numbers", pa.list_(pa.float64())),
        *_ANY,
    ]
)


def checked(kind: str, table: Any, schema: pa.Schema) -> pa.Table:
    """Return the table cast to the schema. Raise BadInput if its columns are others; `kind` names the kind of table."""
    if not isinstance(table, pa.Table | pa.RecordBatch) or table.schema.names != schema.names:
        raise BadInput(f"this is not a {kind} of bayou.rounds; it must be a table with {', '.join(schema.names)}.")
    table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    return table if table.schema.equals(schema) else table.cast(schema)


def table_of(
    schema: pa.Schema,
    blocks: np.ndarray,
    tasks: np.ndarray | None,
    features: np.ndarray,
    per_feature: list[np.ndarray],
    global_gain: np.ndarray,
    named: np.ndarray,
    names: list[bytes | None],
) -> pa.Table:
    """Return a table with a row per block, after one for `global_gain` if not empty; `per_feature` has values."""
    first = len(global_gain) > 0
    blocks = np.concatenate([[GLOBAL_BLOCK], blocks]) if first else blocks
    edges = np.append(blocks, blocks[-1] + 1 if len(blocks) else 0) * FEATURE_BLOCK_SIZE
    offsets, called = (np.searchsorted(edges_of, np.maximum(edges, 0)) for edges_of in (features, named))

    def lists(values: Any, ends: np.ndarray, name: str) -> pa.Array:
        kind = schema.field(name).type.value_type
        return pa.ListArray.from_arrays(_to_arrow(ends.astype(np.int32)), _to_arrow(values, kind))

    columns: list[Any] = [_to_arrow(blocks.astype(np.int32))]
    columns += [] if tasks is None else [_to_arrow(tasks[: len(blocks)].astype(np.int32))]
    columns.append(lists((features % FEATURE_BLOCK_SIZE).astype(np.uint16), offsets, "places"))
    for name, values in zip(schema.names[len(columns) :], per_feature, strict=False):
        columns.append(lists(values.ravel(), offsets * (values.size // max(len(features), 1)), name))
    ends = np.full(len(blocks) + 1, len(global_gain))
    ends[0] = 0
    columns.append(lists(global_gain, ends, "apart"))
    columns += [lists((named % FEATURE_BLOCK_SIZE).astype(np.uint16), called, "named"), lists(names, called, "names")]
    return pa.table(columns, schema=schema)


def in_order(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """Return some rows of a table, sorted by block."""
    rows = rows[np.argsort(to_numpy(table["block"])[rows])]
    if len(rows) and (np.diff(rows) == 1).all():
        return table.slice(rows[0], len(rows))
    return table.take(_to_arrow(rows))


def flat(table: pa.Table, name: str) -> Any:
    """Return the concatenated values of a list column: an array, or for "names" a list of bytes."""
    values = table[name].combine_chunks().flatten()
    return values.to_pylist() if name == "names" else to_numpy(values)


def features_in(table: pa.Table, name: str) -> np.ndarray:
    """Return the feature indices of a column of places."""
    lengths = np.diff(to_numpy(table[name].combine_chunks().offsets))
    blocks = to_numpy(table["block"]).astype(np.int64) * FEATURE_BLOCK_SIZE
    return np.asarray(np.repeat(blocks, lengths) + flat(table, name))


def _to_arrow(values: Any, kind: pa.DataType | None = None) -> pa.Array:
    """Convert an array of numbers, or a list of bytes, to Arrow."""
    if isinstance(values, list):
        ends, text = np.cumsum([0, *map(len, values)]), b"".join(values)
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(ends), pa.py_buffer(text)])
    kind = pa.from_numpy_dtype(values.dtype) if kind is None else kind
    values = np.ascontiguousarray(values, kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def to_numpy(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return an Arrow array of numbers as a NumPy array. Raise BadInput if values are missing."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if array.null_count:
        raise BadInput("a gain or a sum of bayou.rounds has gaps; give it as it was made.")
    numbers = np.frombuffer(array.buffers()[1] or b"", array.type.to_pandas_dtype())
    return numbers[array.offset : array.offset + len(array)]
