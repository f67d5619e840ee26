"""What runs in Spark's Python workers: learn a shard, add up a block. Spark sees a block's number and bytes."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from bayou import rounds, sources
from bayou.core.batch import Batch
from bayou.core.extras import Extras
from bayou.core.learner import Learner
from bayou.runs.rows import Refused, written_as
from bayou.sources.parquet_parts import ParquetParts, Part

# A row of `rounds.GAIN` or `rounds.SUM` as Spark carries it.
PACKED = "block int, row binary"
# So many of them at a time: a block has up to half a megabyte.
AT_ONCE = 64

# The last base that this worker has met, by its key.
_base: dict[str, Learner] = {}


class Shards(NamedTuple):
    """What the tasks of a round are told: a base, and the rows of each task."""

    key: str  # another one for every base
    model: bytes
    parts: list[list[Part]]
    weight: float
    on_error: str


def learn(held: Any, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What shards gain; `held` is a broadcast of `Shards`, and numbers are those of tasks."""
    told: Shards = held.value
    for number in (n for batch in numbers for n in batch.column(0).to_pylist()):
        base = known_base(told.key, told.model)
        part = copy.copy(base)
        learn_parts(part, told.parts[number], told.weight, told.on_error)
        gained = rounds.gain(part, base, number)
        for first in range(0, gained.num_rows, AT_ONCE):
            yield from packed(gained.slice(first, AT_ONCE)).to_batches()


def add(gains: pa.Table) -> pa.Table:
    """The sum of gains that are all of one block."""
    return packed(rounds.add([unpacked(gains, rounds.GAIN)]), gains["row"].type)


def known_base(key: str, model: bytes) -> Learner:
    """A model from its bytes, which a worker makes once."""
    if key not in _base:
        _base.clear()
        _base[key] = rounds.from_bytes(model)
    return _base[key]


def learn_parts(learner: Learner, parts: Sequence[Part], weight: float, on_error: str) -> None:
    """Learn some rows, each counting `weight` times; but for what is learned afresh in the end."""
    source = read(learner, parts, Extras.of(learner), on_error)
    refused = Refused(source)
    for batch in source:
        batch = written_as(learner, batch)
        for _ in refused.accepted(batch, partial(rounds.learn_part, learner, weight=weight)):
            pass


def held_out(learner: Learner, parts: Sequence[Part], on_error: str) -> list[Batch]:
    """Rows to learn the combination from; features that nothing was learned of get no name."""
    source = read(learner, parts, replace(Extras.of(learner), names=None), on_error)
    refused = Refused(source)
    found = (refused.accepted(written_as(learner, batch), learner.check) for batch in source)
    return [batch for some in found for _, batch, _ in some]


def read(learner: Learner, parts: Sequence[Part], extras: Extras, on_error: str) -> sources.Source:
    """Rows as the learner takes them. Spark runs as many tasks as there are cores: none has threads of its own."""
    as_taken = {"dtype": learner.parameters["dtype"], "groups": learner.wants_groups}
    return sources.open(ParquetParts(parts), extras=extras, on_error=on_error, threads=0, **as_taken)


def in_utc(rows: Any) -> Any:
    """A table or a record batch with points in time as files have them: Spark gives them in the zone of its session."""
    zoned = {one.name: one.type.unit for one in rows.schema if pa.types.is_timestamp(one.type) and one.type.tz}
    fields = [one.with_type(pa.timestamp(zoned[one.name], "UTC")) if one.name in zoned else one for one in rows.schema]
    return rows.cast(pa.schema(fields)) if zoned else rows


def packed(table: pa.Table, kind: Any = "binary") -> pa.Table:
    """Each row of a gain or a sum as bytes, beside the number of its block."""
    table = table.combine_chunks()
    rows = [table.slice(k, 1).to_batches()[0].serialize().to_pybytes() for k in range(table.num_rows)]
    return pa.table({"block": table["block"], "row": pa.array(rows, kind)})


def unpacked(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Back from `packed`."""
    rows = [pa.ipc.read_record_batch(pa.py_buffer(row), schema) for row in table["row"].to_pylist()]
    return pa.Table.from_batches(rows, schema)
