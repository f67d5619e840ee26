"""Functions for Spark's Python workers: learn a shard, add up a block. Spark sees a block's number and bytes."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import pyarrow as pa

from bayou import rounds, sources
from bayou.core.batch import Batch
from bayou.core.extras import Extras
from bayou.core.learner import Learner
from bayou.core.sharding import ShardingLearner
from bayou.sources.rejected_rows import RejectedRows
from bayou.sources.row_group_slices import RowGroupSlice, RowGroupSlices

# A row of `rounds.GAIN` or `rounds.SUM` as Spark carries it.
PACKED = "block int, row binary"
# Number of rows sent at a time: a block has up to half a megabyte.
FEATURE_BLOCKS_PER_MESSAGE = 64

# The model that this worker used last, by its key.
_base: dict[str, Learner] = {}


class ShardTask(NamedTuple):
    """Input of the tasks of a round: the base, and the rows of each task."""

    key: str  # identifies the base
    model: bytes
    parts: list[list[RowGroupSlice]]
    weight: float
    on_error: str


def learn(broadcast: Any, indices: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the gains of shards; `broadcast` is one of `ShardTask`, `indices` are those of the tasks."""
    task: ShardTask = broadcast.value
    for task_index in (n for batch in indices for n in batch.column(0).to_pylist()):
        base = cached_base(task.key, task.model)
        learner = cast(ShardingLearner, copy.copy(base))
        learner.sharding.begin_shard()
        learn_parts(learner, task.parts[task_index], task.weight, task.on_error)
        gain = rounds.gain(learner, base, task_index)
        for first in range(0, gain.num_rows, FEATURE_BLOCKS_PER_MESSAGE):
            yield from packed(gain.slice(first, FEATURE_BLOCKS_PER_MESSAGE)).to_batches()


def add(gains: pa.Table) -> pa.Table:
    """Return the sum of the gains of one block."""
    return packed(rounds.add([unpacked(gains, rounds.GAIN)]), gains["row"].type)


def cached_base(key: str, model: bytes) -> Learner:
    """Return a model from its bytes, cached from an earlier task of this worker if possible."""
    if key not in _base:
        _base.clear()
        _base[key] = rounds.from_bytes(model)
    return _base[key]


def learn_parts(learner: Learner, slices: Sequence[RowGroupSlice], weight: float, on_error: str) -> None:
    """Learn some rows, each counted `weight` times, without the combination, which is learned at the end."""
    source = read(learner, slices, Extras.of(learner), on_error)
    refused = RejectedRows(source)
    for batch in source:
        for _ in refused.accepted(batch, partial(rounds.learn_mergeable, learner, weight=weight)):
            pass


def held_out(learner: Learner, slices: Sequence[RowGroupSlice], on_error: str) -> list[Batch]:
    """Return the rows to learn the combination from; features that occur only there get no name."""
    source = read(learner, slices, replace(Extras.of(learner), names=None), on_error)
    refused = RejectedRows(source)
    accepted = (refused.accepted(batch, learner.check) for batch in source)
    return [batch for chunks in accepted for _, batch, _ in chunks]


def read(learner: Learner, slices: Sequence[RowGroupSlice], extras: Extras, on_error: str) -> sources.Source:
    """Open some rows for a learner, without threads: Spark runs as many tasks as there are cores."""
    as_taken = {"dtype": learner.parameters["dtype"], "groups": learner.wants_groups}
    source = sources.open(RowGroupSlices(slices), extras=extras, on_error=on_error, threads=0, **as_taken)
    source.label_for(learner)
    return source


def in_utc(rows: Any) -> Any:
    """Return a table or record batch with timestamps in UTC, as in files, instead of the session's time zone."""
    zoned = {one.name: one.type.unit for one in rows.schema if pa.types.is_timestamp(one.type) and one.type.tz}
    fields = [one.with_type(pa.timestamp(zoned[one.name], "UTC")) if one.name in zoned else one for one in rows.schema]
    return rows.cast(pa.schema(fields)) if zoned else rows


def packed(table: pa.Table, kind: Any = "binary") -> pa.Table:
    """Return each row of a gain or a sum as bytes, with the number of its block."""
    table = table.combine_chunks()
    rows = [table.slice(k, 1).to_batches()[0].serialize().to_pybytes() for k in range(table.num_rows)]
    return pa.table({"block": table["block"], "row": pa.array(rows, kind)})


def unpacked(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table that `packed` was given."""
    rows = [pa.ipc.read_record_batch(pa.py_buffer(row), schema) for row in table["row"].to_pylist()]
    return pa.Table.from_batches(rows, schema)
