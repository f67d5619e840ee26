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
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from bayou.core import model_file
from bayou.core.batch import Batch, check_is_batch, labelled
from bayou.core.checks import positive_number, several, whole_number
from bayou.core.errors import BadInput, BadModel
from bayou.core.gain_tables import APART, BLOCK, GAIN, SUM, checked, features_in, flat, in_order, table_of, to_numpy
from bayou.core.gains import AddsUp
from bayou.core.learner import Learner
from bayou.core.storage import load
from bayou.kernels.compiling import kernel
from bayou.kernels.room import empty
from bayou.recipe.feature_names import Names, is_known

# Features that are worked on at a time.
CHUNK = 1 << 16
# A shard has at least so many rows: with fewer, or with longer rows, too little of them is learned.
LEAST_ROWS = 10_000
# The learners whose gains add up.
ADDING_UP = "bank, marginal, moment, variational and adagrad"
# How much is learned in sequence first, and held out for the combination: a share of the rows, and how many at least
# and at most.
BASE = 0.01, 5_000, 100_000
HELD_OUT = 0.02, 20_000, 100_000


class Round(NamedTuple):
    """Rows `first` to `last`, over so many shards; one shard is learned in sequence, with weight 1."""

    first: int
    last: int
    shards: int


def plan(rows: int, shards: int, base: int | None = None, least: int = LEAST_ROWS, growth: float = 1.0) -> list[Round]:
    """The rounds of one pass over so many rows: the base, then each round as large as all before it.

    Args:
        rows: how many there are to learn, those held out not counted.
        shards: how many at most.
        base: how many are learned in sequence first; 1 % if not given, from 5,000 to 100,000.
        least: how many rows a shard has at least.
        growth: how many times as large as all before it a round is; with few shards it may be more than once.

    >>> [(r.last - r.first, r.shards) for r in plan(1_000_000, shards=16)]
    [(10000, 1), (10000, 1), (20000, 2), (40000, 4), (80000, 8), (160000, 16), (320000, 16), (360000, 16)]
    """
    rows, shards = whole_number("rows", rows, 1), whole_number("shards", shards, 1)
    least, growth = whole_number("least", least, 1), positive_number("growth", growth)
    share, low, high = BASE
    known = min(int(np.clip(share * rows, low, high)) if base is None else whole_number("base", base, 1), rows)
    planned = [Round(0, known, 1)]
    while known < rows:
        take = min(int(growth * known), rows - known)
        left = rows - known - take
        take += left if left < 0.3 * take else 0
        planned.append(Round(known, known + take, max(min(shards, take // least), 1)))
        known += take
    return planned


class Shard:
    """A worker's part of a round: a learner that learns some rows, and what it was before, round after round.

    The learner is the shard's from now on. Of the features that it meets, what stood there before is kept; so there is
    one table, and neither comparing nor going back takes a look at all of it.

    >>> from bayou.learners import Bank
    >>> shard = Shard(Bank(n_features=10))
    >>> shard.learn(Batch.from_rows([{0: 1.0}, {7: 1.0}], labels=[1, 0]), weight=2.0)
    >>> shard.apply(add([shard.gain(task=0)]), weight=2.0)
    >>> shard.part.examples
    2
    """

    def __init__(self, base: Learner) -> None:
        self._part: Any = _adding_up(base)
        self._part._frozen = False
        self._met = np.zeros(base.n_features, bool)
        self._begin()

    @property
    def part(self) -> Learner:
        """The learner: the base, and what it has learned on top of it."""
        return cast(Learner, self._part)

    def _begin(self) -> None:
        """What it is now is the base."""
        part, names = self._part, self.part.extras.names
        self._features = [np.empty(0, np.int64)]
        self._rows = [_rows_at(part, self._features[0])]
        self._apart = {name: array.copy() for name, array in part._arrays().items() if name not in part._per_feature}
        self._examples, self._negative = part._examples, part._negative
        self._named = None if names is None else names.known.copy()
        self._met[:] = False

    def learn(self, batch: Batch, weight: float) -> None:
        """Learn some rows, each counting `weight` times."""
        self._part._check(batch)
        learned = batch.weights is None or np.repeat(batch.weights > 0, np.diff(batch.indptr))
        features = _newly_met(batch.indices if learned is True else batch.indices[learned], self._met)
        before = _rows_at(self._part, features)
        try:
            learn_part(self._part, batch, weight)
        except BadInput:
            self._met[features] = False
            raise
        self._features.append(features)
        self._rows.append(before)

    def gain(self, task: int) -> pa.Table:
        """What it has learned since the last `apply`."""
        features = np.concatenate(self._features)
        order = np.argsort(features)
        rows = {name: np.concatenate([some[name] for some in self._rows])[order] for name in self._rows[0]}
        base = _Base(self._apart, lambda cut: {name: kept[cut] for name, kept in rows.items()}, self._examples)
        names = self.part.extras.names
        return _gain(self.part, base, task, features[order], _newly_named(names, self._named))

    def apply(self, summed: pa.Table, weight: float) -> None:
        """Let the base learn what all shards have gained in sum, and go on from it."""
        part = self._part
        arrays = part._arrays()
        for name, array in self._apart.items():
            arrays[name][:] = array
        for features, before in zip(self._features, self._rows, strict=True):
            for name, kept in before.items():
                arrays[name][features] = kept
        part._examples, part._negative = self._examples, self._negative
        apply(part, summed, weight)
        self._begin()


@kernel
def _newly_met(features, met):
    """Those that are met for the first time, once each."""
    found, n = empty(features.size, np.int64), 0
    for feature in features:
        if not met[feature]:
            met[feature] = True
            found[n] = feature
            n += 1
    return found[:n].copy()


_Rows = Mapping[str, np.ndarray]


class _Base(NamedTuple):
    """What a learner was before."""

    apart: _Rows  # all arrays that are not of features
    rows: Callable[[slice], _Rows]  # of some of the features that it has met since, by their order
    examples: int


def _rows_at(learner: Any, features: np.ndarray) -> _Rows:
    return {name: table[features] for name, table in learner._arrays().items() if name in learner._per_feature}


def learn_shard(base: Learner, batches: Iterable[Batch], weight: float, task: int = 0) -> pa.Table:
    """What a copy of `base` gains from some rows, each counting `weight` times.

    >>> from bayou.learners import Bank
    >>> base = Bank(n_features=10)
    >>> gain_ = learn_shard(base, [Batch.from_rows([{0: 1.0}, {7: 1.0}], labels=[1, 0])], weight=2.0)
    >>> gain_.num_rows, base.examples  # a block and what is apart; the base is as it was
    (2, 0)
    """
    weight, shard = positive_number("weight", weight), Shard(copy.copy(_adding_up(base)))
    for batch in labelled(batches):
        shard.learn(batch, weight)
    return shard.gain(task)


def learn_part(learner: Learner, batch: Batch, weight: float = 1.0) -> None:
    """Learn rows, each counting `weight` times, but for what is learned afresh in the end: the bank's lanes alone.

    >>> from bayou.learners import Bank
    >>> base = Bank(n_features=10)
    >>> learn_part(base, Batch.from_rows([{0: 1.0}], labels=[1]))
    >>> base.examples
    1
    """
    check_is_batch(batch)
    if positive_number("weight", weight) != 1:
        batch = batch.with_labels(batch.labels, batch.each_weight() * weight)
    cast(Any, _adding_up(learner))._learn_part(batch, shard=weight != 1)


def gain(learner: Learner, base: Learner, task: int = 0) -> pa.Table:
    """What a learner knows beyond `base`, from which it grew, as Arrow blocks that `add` sums up.

    >>> from bayou.learners import Marginal
    >>> base, grown = Marginal(n_features=10), Marginal(n_features=10)
    >>> p = grown.learn(Batch.from_rows([{3: 1.0, 7: 1.0}], labels=[1]))
    >>> gain(grown, base)["places"].to_pylist()
    [[], [3, 7]]
    """
    part: Any = _adding_up(learner)
    part._check_alike(_adding_up(base))
    features, names = part._changed_since(base), base.extras.names
    known = None if names is None else names.known
    before = _Base(cast(Any, base)._arrays(), lambda cut: _rows_at(base, features[cut]), base.examples)
    return _gain(learner, before, task, features, _newly_named(learner.extras.names, known))


def _gain(learner: Learner, base: _Base, task: int, features: np.ndarray, named: np.ndarray) -> pa.Table:
    """Of these features, ascending, with the names of those."""
    task = whole_number("task", task, 0, 2**31 - 1)
    part, names = cast(Any, learner), learner.extras.names
    text = [] if names is None or not len(named) else names.bytes_of(named)
    more = learner.examples - base.examples
    apart = np.append(part._gain_apart(base.apart), [more, more > 0])
    cuts = _chunks(len(features))
    numbers = [part._gain_at({**base.apart, **base.rows(cut)}, features[cut]).astype(np.float32) for cut in cuts]
    if len(places := part._places_changed(base.apart)):
        numbers.append(part._gain_of_places(base.apart, places, numbers[0].shape[1]).astype(np.float32))
        features = np.concatenate([features, places])
    blocks = np.unique(np.concatenate([features, named]) // BLOCK)
    return table_of(
        GAIN, blocks, np.full(len(blocks) + 1, task), features, [np.concatenate(numbers)], apart, named, text
    )


def add(gains: Iterable[pa.Table]) -> pa.Table:
    """The sum of what shards have gained, in the order of the tasks' numbers. They may be of some blocks alone.

    >>> from bayou.learners import Bank
    >>> base = Bank(n_features=10)
    >>> rows = [Batch.from_rows([{0: 1.0}], labels=[1])]
    >>> summed = add(learn_shard(base, rows, 2.0, task) for task in range(2))
    >>> summed["met"].to_pylist()
    [[], [2]]
    """
    given = several("gains", gains, "what shards have gained")
    whole = pa.concat_tables([checked("gain", table, GAIN) for table in given] or [GAIN.empty_table()])
    tasks, blocks = to_numpy(whole["task"]), to_numpy(whole["block"])
    if len(np.unique(np.stack([tasks, blocks]), axis=1).T) != len(tasks):
        raise BadInput("two gains have the same number of a task; give each task its own.")
    features = np.unique(features_in(whole, "places"))
    sums, met, apart, names = np.zeros(0), np.zeros(len(features), np.int32), np.zeros(0), dict[int, bytes]()
    for task in np.unique(tasks):
        one = in_order(whole, np.flatnonzero(tasks == task))
        places = np.searchsorted(features, features_in(one, "places"))
        numbers, more = flat(one, "numbers"), flat(one, "apart")
        if len(places):
            numbers = numbers.reshape(len(places), -1)
            sums = np.zeros((len(features), numbers.shape[1])) if not sums.size else sums
            sums[places] += numbers
            met[places] += 1
        apart = apart + more if apart.size else more
        for place, name in zip(features_in(one, "named").tolist(), flat(one, "names"), strict=True):
            names.setdefault(place, name)
    named = np.array(sorted(names), np.int64)
    there = np.unique(blocks[blocks != APART])
    return table_of(SUM, there, None, features, [met, sums], apart, named, [names[k] for k in named.tolist()])


def apply(base: Learner, summed: pa.Table, weight: float) -> None:
    """Let `base` learn what its shards have gained; `weight` is that of their rows, in the mean over all passes.

    >>> from bayou.learners import Bank
    >>> base, rows = Bank(n_features=10), [Batch.from_rows([{0: 1.0}, {7: 1.0}], labels=[1, 0])]
    >>> apply(base, add(learn_shard(base, rows, 2.0, task) for task in range(2)), weight=2.0)
    >>> base.examples, base.touched.tolist()
    (4, [0, 7])
    """
    weight, into = positive_number("weight", weight), cast(Any, _adding_up(base))
    into._check_learns()
    table = checked("sum", summed, SUM)
    summed = in_order(table, np.arange(len(table)))
    apart, features = flat(summed, "apart"), features_in(summed, "places")
    if len(apart) < 2:
        raise BadInput("the sum lacks its first block; add up all blocks of all gains.")
    nothing = np.empty(0, np.int64)
    now = {**into._arrays(), **_rows_at(into, nothing)}
    width, named = into._gain_at(now, nothing).shape[1], features_in(summed, "named")
    numbers, met = flat(summed, "numbers"), flat(summed, "met")
    fits = len(numbers) == width * len(features) == width * len(met)
    fits &= len(apart) == len(into._gain_apart(now)) + 2
    fits &= features.max(initial=0) < into._n_places and named.max(initial=0) < into.n_features
    if not (fits and np.isfinite(numbers).all() and np.isfinite(apart).all()):
        raise BadInput("the sum does not fit the model; add up what shards of this very base have gained.")
    numbers = numbers.reshape(len(features), width)
    with into._lock:
        examples, learned = apart[-2:].astype(np.int64).tolist()
        into._join_apart(apart[:-2], learned, weight)
        into._examples += examples
        for cut in _chunks(len(features)) if len(features) else ():
            into._join_at(features[cut], numbers[cut], met[cut], weight)
        into._come_together()
        if into.extras.names is not None:
            into.extras.names.put(named, flat(summed, "names"))


def discount(learner: Learner, share: float) -> None:
    """Let what is known count less, before rows come again: with 1/2, half of it, and each row half again.

    >>> from bayou.learners import Marginal
    >>> learner = Marginal(n_features=10)
    >>> p = learner.learn(Batch.from_rows([{3: 1.0}] * 9, labels=[1, 0, 1] * 3))
    >>> before = learner.variance[3]
    >>> discount(learner, 0.5)
    >>> bool(before < learner.variance[3] < 1.0)
    True
    """
    share, less = positive_number("share", share, high=1.0), cast(Any, _adding_up(learner))
    with less._lock:
        less._discount(share)


def to_bytes(learner: Learner) -> bytes:
    """A model as bytes, those of its file: to send it to where it is needed.

    >>> from bayou.learners import Bank
    >>> from_bytes(to_bytes(Bank(n_features=10))).n_features
    10
    """
    if not isinstance(learner, Learner):
        raise BadInput("give one of bayou's learners, to have its bytes.")
    with learner._lock:
        return model_file.to_bytes(*learner._saved(learner.extras))


def from_bytes(data: bytes) -> Learner:
    """The model that `to_bytes` gave.

    >>> from bayou.learners import Marginal
    >>> from_bytes(to_bytes(Marginal(n_features=10))).name
    'marginal'
    """
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
        raise BadModel(f"{learner.name} cannot learn in shards; {ADDING_UP} can.")
    if learner.extras.numbering is not None:
        raise BadModel("shards would number their features differently; let names be hashed, without --exact.")
    return learner


def _chunks(n: int) -> list[slice]:
    """Some features at a time, to bound what is held in float64; at least one time."""
    return [slice(start, start + CHUNK) for start in range(0, max(n, 1), CHUNK)]


def _newly_named(names: Names | None, base: np.ndarray | None) -> np.ndarray:
    """Features, ascending, that have a name here and not in a base, whose names are of these (`Names.known`)."""
    if names is None:
        return np.empty(0, np.int64)
    own = np.sort(names.arrays()["indices"].astype(np.int64))
    return own if base is None else own[~is_known(base, own)]
