"""Gains of shards as Arrow tables: functions that compute them, add them up and apply them to the base."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bayou.core import registry
from bayou.core.batch import Batch, check_is_batch
from bayou.core.checks import check_int, check_iterable, check_positive
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner
from bayou.core.sharding import Gain, ShardingLearner
from bayou.core.spelling import option
from bayou.core.storage import load
from bayou.recipe.feature_names import FeatureNames, in_bitmap
from bayou.rounds.gain_tables import (
    FEATURE_BLOCK_SIZE,
    GAIN,
    GLOBAL_BLOCK,
    SUM,
    checked,
    features_in,
    flat,
    in_order,
    table_of,
    to_numpy,
)


def learn_mergeable(learner: Learner, batch: Batch, weight: float = 1.0) -> None:
    """Learn rows, each counted `weight` times; a bank learns only its lanes, as its combination is relearned later.

    >>> from bayou.learners import Bank
    >>> base = Bank(n_features=10)
    >>> learn_mergeable(base, Batch.from_rows([{0: 1.0}], labels=[1]))
    >>> base.examples
    1
    """
    check_is_batch(batch)
    check_shardable(learner).sharding.learn_mergeable(batch, check_positive("weight", weight))


def gain(learner: Learner, base: Learner, task: int = 0) -> pa.Table:
    """Return the gain of a learner over `base`, from which it was derived, as Arrow blocks that `add` sums up.

    >>> from bayou.learners import Marginal
    >>> base, grown = Marginal(n_features=10), Marginal(n_features=10)
    >>> p = grown.learn(Batch.from_rows([{3: 1.0, 7: 1.0}], labels=[1]))
    >>> gain(grown, base)["places"].to_pylist()
    [[], [3, 7]]
    """
    gain_over_base = check_shardable(learner).sharding.gain_over(check_shardable(base))
    names = base.extras.names
    return gain_table(gain_over_base, task, learner.extras.names, None if names is None else names.known)


def gain_table(gain: Gain, task: int, names: FeatureNames | None, base_names: np.ndarray | None) -> pa.Table:
    """Return the gain of a shard as an Arrow table, with the names that its base lacks (`FeatureNames.known`)."""
    task = check_int("task", task, 0, 2**31 - 1)
    named = _new_names(names, base_names)
    text = [] if names is None or not len(named) else names.bytes_of(named)
    blocks = np.unique(np.concatenate([gain.features, named]) // FEATURE_BLOCK_SIZE)
    tasks = np.full(len(blocks) + 1, task)
    return table_of(GAIN, blocks, tasks, gain.features, [gain.numbers], gain.apart, named, text)


def add(gains: Iterable[pa.Table]) -> pa.Table:
    """Return the sum of the gains of shards, added in the order of task numbers. Tables may hold a subset of blocks.

    >>> from bayou.learners import Bank
    >>> from bayou.rounds import learn_shard
    >>> base = Bank(n_features=10)
    >>> rows = [Batch.from_rows([{0: 1.0}], labels=[1])]
    >>> summed = add(learn_shard(base, rows, 2.0, task) for task in range(2))
    >>> summed["met"].to_pylist()
    [[], [2]]
    """
    gain_tables = check_iterable("gains", gains, "what shards have gained")
    gathered = pa.concat_tables([checked("gain", table, GAIN) for table in gain_tables] or [GAIN.empty_table()])
    tasks, blocks = to_numpy(gathered["task"]), to_numpy(gathered["block"])
    if len(np.unique(np.stack([tasks, blocks]), axis=1).T) != len(tasks):
        raise BadInput("two gains have the same task number; give each task its own.")
    features = np.unique(features_in(gathered, "places"))
    sums, n_seen, global_gain, names = np.zeros(0), np.zeros(len(features), np.int32), np.zeros(0), dict[int, bytes]()
    for task in np.unique(tasks):
        task_gain = in_order(gathered, np.flatnonzero(tasks == task))
        slots = np.searchsorted(features, features_in(task_gain, "places"))
        feature_gains, task_global_gain = flat(task_gain, "numbers"), flat(task_gain, "apart")
        if len(slots):
            feature_gains = feature_gains.reshape(len(slots), -1)
            sums = np.zeros((len(features), feature_gains.shape[1])) if not sums.size else sums
            sums[slots] += feature_gains
            n_seen[slots] += 1
        global_gain = global_gain + task_global_gain if global_gain.size else task_global_gain
        for feature, name in zip(features_in(task_gain, "named").tolist(), flat(task_gain, "names"), strict=True):
            names.setdefault(feature, name)
    named = np.array(sorted(names), np.int64)
    stored = np.unique(blocks[blocks != GLOBAL_BLOCK])
    text: list[bytes | None] = [names[k] for k in named.tolist()]
    return table_of(SUM, stored, None, features, [n_seen, sums], global_gain, named, text)


def apply(base: Learner, summed: pa.Table, weight: float) -> None:
    """Add the summed gains of its shards to `base`; `weight` is that of their rows, averaged over all passes.

    >>> from bayou.learners import Bank
    >>> from bayou.rounds import learn_shard
    >>> base, rows = Bank(n_features=10), [Batch.from_rows([{0: 1.0}, {7: 1.0}], labels=[1, 0])]
    >>> apply(base, add(learn_shard(base, rows, 2.0, task) for task in range(2)), weight=2.0)
    >>> base.examples, base.touched.tolist()
    (4, [0, 7])
    """
    weight, learner = check_positive("weight", weight), check_shardable(base)
    table = checked("sum", summed, SUM)
    summed = in_order(table, np.arange(len(table)))
    global_gain = flat(summed, "apart")
    if len(global_gain) < 2:
        raise BadInput("the sum lacks its first block; add up all blocks of all gains.")
    gain = Gain(features_in(summed, "places"), flat(summed, "numbers"), global_gain, flat(summed, "met"))
    learner.sharding.join(gain, weight, features_in(summed, "named"), flat(summed, "names"))


def discount(learner: Learner, share: float) -> None:
    """Scale down what was learned before rows are learned again, to this share of its information.

    >>> from bayou.learners import Marginal
    >>> learner = Marginal(n_features=10)
    >>> p = learner.learn(Batch.from_rows([{3: 1.0}] * 9, labels=[1, 0, 1] * 3))
    >>> before = learner.variance[3]
    >>> discount(learner, 0.5)
    >>> bool(before < learner.variance[3] < 1.0)
    True
    """
    check_shardable(learner).sharding.discount(check_positive("share", share, high=1.0))


def to_bytes(learner: Learner) -> bytes:
    """Return the bytes of a learner's model file, to send it to other processes.

    >>> from bayou.learners import Bank
    >>> from_bytes(to_bytes(Bank(n_features=10))).n_features
    10
    """
    if not isinstance(learner, Learner):
        raise BadInput("give one of bayou's learners to convert to bytes.")
    return learner.to_bytes()


def from_bytes(data: bytes) -> Learner:
    """Load a learner from the bytes that `to_bytes` returned.

    >>> from bayou.learners import Marginal
    >>> from_bytes(to_bytes(Marginal(n_features=10))).name
    'marginal'
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise BadInput("expected bytes that `to_bytes` returned.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        path.write_bytes(data)
        try:
            return load(path)
        except BadModel as error:
            raise BadModel(str(error).replace(str(path), "what these bytes hold")) from None


def check_shardable(learner: Any) -> ShardingLearner:
    """Return the learner. Raise BadInput or BadModel if it cannot learn in shards."""
    if not isinstance(learner, Learner):
        raise BadInput("rounds take one of bayou's learners.")
    if not isinstance(learner, ShardingLearner):
        raise BadModel(f"{learner.name} cannot learn in shards; {shardable_learners()} can.")
    if learner.extras.numbering is not None:
        raise BadModel(
            f"shards would number their features differently; let names be hashed, without {option('exact')}."
        )
    return learner


def shardable_learners() -> str:
    """Return the names of the learners that can learn in shards, by their records.

    >>> shardable_learners()
    'bank, adagrad, marginal, moment and variational'
    """
    *names, last = (record.name for record in registry.own_records() if record.sharding)
    return f"{', '.join(names)} and {last}"


def _new_names(names: FeatureNames | None, base: np.ndarray | None) -> np.ndarray:
    """Return the features, ascending, that have a name here but not in the base (`FeatureNames.known` of its names)."""
    if names is None:
        return np.empty(0, np.int64)
    named = np.sort(names.arrays()["indices"].astype(np.int64))
    return named if base is None else named[~in_bitmap(base, named)]
