"""Learning in shards: when data outgrow one process, or one machine.

Some workers learn a shard of the rows each, all from one base; what each has gained adds up, and makes the next base.
No engine is in here: these functions run in processes (`bayou train --processes`), in Spark (`bayou.spark`), in Ray or
Dask, and one after another in a plain loop, with the same bits.

    base = Bank(n_features=2**18)
    base.learn(first_rows)                                              # in sequence, at least 5,000 rows
    gains = [rounds.learn_shard(base, shard, weight=16, task=k) for k, shard in enumerate(shards)]     # anywhere
    rounds.apply(base, rounds.add(gains), weight=16)
    base.recombine(held_out)                                            # rows that no shard has learned

**Weights.** With K shards each learns its rows with weight K, as if all rows were like its own, and its gain counts
for 1/K: a mean of the shards' posteriors (`core.gains`). Sums of what shards learn with weight 1 count corrections
that all of them make K times.

**Doubling** (`plan`). The base comes from the first rows, in sequence; then each round is as large as all before it. A
further pass lets what is known count half (`discount`) and each row half again.

**Bits.** A gain is a function of base, rows, weight and number of the task; gains are added in the order of tasks'
numbers. So retries, copies and the order of arrival change nothing.

A gain is an Arrow table with a row for each block of BLOCK features that the shard has met, and one row, of block -1,
for everything else.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from bayou.core import model_file
from bayou.core.batch import Batch
from bayou.core.checks import positive_number, whole_number
from bayou.core.errors import BadInput, BadModel
from bayou.core.gains import AddsUp
from bayou.core.learner import Learner
from bayou.core.names import Names
from bayou.core.storage import load

# Features of a block.
BLOCK = 1 << 12
APART = -1
# A shard has at least so many rows: with fewer, or with longer rows, too little of them is learned.
LEAST_ROWS = 5_000
# How much is learned in sequence first, and held out for the combination: a share of the rows, and how many at least
# and at most.
BASE = 0.01, LEAST_ROWS, 100_000
HELD_OUT = 0.02, 20_000, 200_000

GAIN = pa.schema(
    [
        ("block", pa.int32()),
        ("task", pa.int32()),
        ("places", pa.list_(pa.uint16())),  # within the block; none for what is apart
        ("numbers", pa.list_(pa.float32())),  # of each place, one after another
        ("apart", pa.list_(pa.float64())),
        ("named", pa.list_(pa.uint16())),  # places whose names the base did not know
        ("names", pa.list_(pa.large_binary())),
    ]
)
SUM = pa.schema(
    [
        ("block", pa.int32()),
        ("tasks", pa.int32()),  # how many have added to it
        ("places", pa.list_(pa.uint16())),
        ("met", pa.list_(pa.int32())),  # how many tasks have met each place
        ("numbers", pa.list_(pa.float64())),
        ("apart", pa.list_(pa.float64())),
        ("named", pa.list_(pa.uint16())),
        ("names", pa.list_(pa.large_binary())),
    ]
)


class Round(NamedTuple):
    """Rows `first` to `last`, over so many shards; one shard is learned in sequence, with weight 1."""

    first: int
    last: int
    shards: int


def plan(rows: int, shards: int, base: int | None = None, least: int = LEAST_ROWS) -> list[Round]:
    """The rounds of one pass over so many rows: the base, then each round as large as all before it.

    Args:
        rows: how many there are to learn, those held out not counted.
        shards: how many at most.
        base: how many are learned in sequence first; 1 % if not given, from 5,000 to 100,000.
        least: how many rows a shard has at least.

    >>> [(r.last - r.first, r.shards) for r in plan(1_000_000, shards=16)]
    [(10000, 1), (10000, 2), (20000, 4), (40000, 8), (80000, 16), (160000, 16), (320000, 16), (360000, 16)]
    """
    rows, shards = whole_number("rows", rows, 1), whole_number("shards", shards, 1)
    least = whole_number("least", least, 1)
    share, low, high = BASE
    known = min(int(np.clip(share * rows, low, high)) if base is None else whole_number("base", base, 1), rows)
    planned = [Round(0, known, 1)]
    while known < rows:
        take = min(known, rows - known)
        left = rows - known - take
        take += left if left < 0.3 * take else 0
        planned.append(Round(known, known + take, max(min(shards, take // least), 1)))
        known += take
    return planned


def learn_shard(base: Learner, batches: Iterable[Batch], weight: float, task: int = 0) -> pa.Table:
    """What a copy of `base` gains from some rows, each counting `weight` times.

    >>> from bayou.learners import Bank
    >>> base = Bank(n_features=10)
    >>> gain_ = learn_shard(base, [Batch.from_rows([{0: 1.0}, {7: 1.0}], labels=[1, 0])], weight=2.0)
    >>> gain_.num_rows, base.examples  # a block and what is apart; the base is as it was
    (2, 0)
    """
    weight = positive_number("weight", weight)
    part = copy.copy(_adding_up(base))
    part._frozen = False
    for batch in batches:
        learn_part(part, batch, weight)
    return gain(part, base, task)


def learn_part(learner: Learner, batch: Batch, weight: float = 1.0) -> None:
    """Learn rows, each counting `weight` times, but for what is learned afresh in the end: the bank's lanes alone."""
    if weight != 1:
        batch = batch.with_labels(batch.labels, batch.each_weight() * weight)
    cast(Any, _adding_up(learner))._learn_part(batch)


def gain(learner: Learner, base: Learner, task: int = 0) -> pa.Table:
    """What a learner knows beyond `base`, from which it grew, as Arrow blocks that `add` sums up."""
    task = whole_number("task", task, 0, 2**31 - 1)
    part: Any = _adding_up(learner)
    part._check_alike(_adding_up(base))
    features = part._changed_since(base)
    names = learner.extras.names
    named = np.empty(0, np.int64) if names is None else _newly_named(names, base.extras.names)
    text = [] if names is None or not len(named) else names.bytes_of(named)
    more = learner.examples - base.examples
    apart = np.append(part._gain_apart(base), [more, more > 0])
    columns: dict[str, list[Any]] = {name: [] for name in GAIN.names}

    def put(*values: Any) -> None:
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)

    put(APART, task, [], [], apart, [], [])
    for block in np.unique(np.concatenate([features, named]) // BLOCK).tolist():
        here, own = _within(features, block), _within(named, block)
        numbers = part._gain_at(base, features[here]).astype(np.float32) if here.start < here.stop else np.empty((0, 0))
        places = [(some[cut] - block * BLOCK).astype(np.uint16) for some, cut in ((features, here), (named, own))]
        put(block, task, places[0], numbers.ravel(), [], places[1], text[own])
    return pa.table(columns, schema=GAIN)


def add(gains: Iterable[pa.Table]) -> pa.Table:
    """The sum of what shards have gained, block by block, each in the order of the tasks' numbers.

    >>> from bayou.learners import Bank
    >>> base = Bank(n_features=10)
    >>> rows = [Batch.from_rows([{0: 1.0}], labels=[1])]
    >>> summed = add(learn_shard(base, rows, 2.0, task) for task in range(2))
    >>> summed["tasks"].to_pylist()
    [2, 2]
    """
    whole = pa.concat_tables([_of("gain", table, GAIN) for table in gains])
    blocks = whole["block"].to_numpy()
    order = np.argsort(blocks, kind="stable")
    cuts = np.flatnonzero(np.diff(blocks[order])) + 1
    return pa.concat_tables([add_block(whole.take(rows)) for rows in np.split(order, cuts)]) if len(blocks) else _none()


def add_block(gains: pa.Table) -> pa.Table:
    """The sum of gains that are all of one block: one row. Where an engine brings together what belongs together."""
    gains = _of("gain", gains, GAIN).sort_by("task")
    tasks = gains["task"].to_numpy()
    if len(np.unique(tasks)) != len(tasks):
        raise BadInput("two gains have the same number of a task; give each task its own.")
    block = gains["block"][0].as_py()
    rows = [{name: gains[name][k].values for name in GAIN.names[2:]} for k in range(len(tasks))]
    width = next((len(row["numbers"]) // len(row["places"]) for row in rows if len(row["places"])), 0)
    sums, met, apart = np.zeros((BLOCK, width)), np.zeros(BLOCK, np.int32), np.zeros(len(rows[0]["apart"]))
    names: dict[int, bytes] = {}
    for row in rows:
        places = row["places"].to_numpy()
        sums[places] += row["numbers"].to_numpy().reshape(len(places), -1) if len(places) else 0.0
        met[places] += 1
        apart += row["apart"].to_numpy()
        for place, name in zip(row["named"].to_pylist(), row["names"].to_pylist(), strict=True):
            names.setdefault(place, name)
    there = np.flatnonzero(met)
    values = [block, len(tasks), there.astype(np.uint16), met[there], sums[there].ravel(), apart]
    values += [list(names), list(names.values())]
    return pa.table({name: [value] for name, value in zip(SUM.names, values, strict=True)}, schema=SUM)


def apply(base: Learner, summed: pa.Table, weight: float) -> None:
    """Let `base` learn what its shards have gained; `weight` is that of their rows, in the mean over all passes.

    >>> from bayou.learners import Bank
    >>> base, rows = Bank(n_features=10), [Batch.from_rows([{0: 1.0}, {7: 1.0}], labels=[1, 0])]
    >>> apply(base, add(learn_shard(base, rows, 2.0, task) for task in range(2)), weight=2.0)
    >>> base.examples, base.touched.tolist()
    (4, [0, 7])
    """
    weight, into = positive_number("weight", weight), cast(Any, _adding_up(base))
    if into._frozen:
        raise BadInput("this is a snapshot: it predicts, but does not learn. Learn with the learner itself.")
    summed = _of("sum", summed, SUM).sort_by("block")
    if not summed.num_rows or summed["block"][0].as_py() != APART:
        raise BadInput("the sum lacks its first block; add up all blocks of all gains.")
    with into._lock:
        apart = summed["apart"][0].values.to_numpy()
        examples, learned = apart[-2:].astype(np.int64).tolist()
        into._join_apart(apart[:-2], learned, weight)
        into._examples += examples
        for k in range(1, summed.num_rows):
            _apply_block(into, {name: summed[name][k] for name in SUM.names}, weight)


def _apply_block(into: Any, row: dict[str, Any], weight: float) -> None:
    first = row["block"].as_py() * BLOCK
    features = row["places"].values.to_numpy().astype(np.int64) + first
    if len(features):
        gains = row["numbers"].values.to_numpy().reshape(len(features), -1)
        into._join_at(features, gains, row["met"].values.to_numpy(), weight)
    if into.extras.names is not None and len(row["named"].values):
        into.extras.names.put(row["named"].values.to_numpy().astype(np.int64) + first, row["names"].values.to_pylist())


def discount(learner: Learner, share: float) -> None:
    """Let what is known count less, before rows come again: with 1/2, half of it, and each row half again."""
    share = positive_number("share", share, high=1.0)
    with learner._lock:
        cast(Any, _adding_up(learner))._discount(share)


def to_bytes(learner: Learner) -> bytes:
    """A model as bytes, those of its file: to send it to where it is needed.

    >>> from bayou.learners import Bank
    >>> from_bytes(to_bytes(Bank(n_features=10))).n_features
    10
    """
    with learner._lock:
        return model_file.to_bytes(*learner._saved(learner.extras))


def from_bytes(data: bytes) -> Learner:
    """The model that `to_bytes` gave."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise BadInput("a model comes from the bytes that `to_bytes` gave.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        path.write_bytes(data)
        try:
            return load(path)
        except BadModel as error:
            raise BadModel(str(error).replace(str(path), "what these bytes hold")) from None


def _adding_up(learner: Any) -> Learner:
    if not isinstance(learner, Learner):
        raise BadInput("rounds take one of bayou's learners.")
    if not isinstance(learner, AddsUp):
        raise BadModel(f"{learner.name} cannot learn in shards; bank, marginal, moment, variational and adagrad can.")
    if learner.extras.numbering is not None:
        raise BadModel("shards would number their features differently; let names be hashed, without --exact.")
    return learner


def _of(what: str, table: Any, schema: pa.Schema) -> pa.Table:
    if not isinstance(table, pa.Table | pa.RecordBatch) or table.schema.names != schema.names:
        raise BadInput(f"this is no {what} of bayou.rounds; it must be a table with {', '.join(schema.names)}.")
    return (pa.table(table) if isinstance(table, pa.RecordBatch) else table).cast(schema)


def _none() -> pa.Table:
    return SUM.empty_table()


def _within(features: np.ndarray, block: int) -> slice:
    return slice(*np.searchsorted(features, [block * BLOCK, (block + 1) * BLOCK]))


def _newly_named(names: Names, base: Names | None) -> np.ndarray:
    """Features, ascending, that have a name here and not in the base."""
    own = np.sort(names.arrays()["indices"].astype(np.int64))
    return own if base is None else own[~base.named(own)]
