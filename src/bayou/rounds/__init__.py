"""Learning in shards, for data that outgrow one process or one machine.

Several workers learn a shard of the rows each, all from one base; their gains are added up and make the next base. This
package contains no engine: its functions run in processes (`bayou train --processes`), in Spark (`bayou.spark`), in Ray
or Dask, and in a plain loop, with bitwise equal results. The first two and the loop are drivers (`driver`): they decide
where shards are learned, and share everything else.

    base = Bank(n_features=2**18)
    base.learn(first_rows)                                              # in sequence, at least 5,000 rows
    gains = [rounds.learn_shard(base, shard, weight=16, task=k) for k, shard in enumerate(shards)]     # anywhere
    rounds.apply(base, rounds.add(gains), weight=16)
    base.recombine(held_out)                                            # rows that no shard has learned

**Weights.** With K shards, each learns its rows with weight K, as if all rows were like its own, and its gain counts
for 1/K: a mean of the shards' posteriors (`core.gains`). Adding up gains of rows with weight 1 instead would count
corrections that all shards make K times.

**Doubling** (`plan`). The base learns the first rows in sequence; then each round is as large as all before it. In a
further pass, everything learned before counts half (`discount`), and so does each row.

**Reproducibility.** A gain is a function of the base, the rows, their weight and the task's number; gains are added in
the order of the task numbers. So retries, copies and the order of arrival do not change the result.

A gain is an Arrow table with a row for each block of FEATURE_BLOCK_SIZE features that the shard has seen, and one row,
of block -1, for everything else.
"""

from bayou.rounds.driver import Driver, LoopDriver, learn_held_out
from bayou.rounds.gain_tables import GAIN, SUM
from bayou.rounds.gains import add, apply, discount, from_bytes, gain, learn_mergeable, shardable_learners, to_bytes
from bayou.rounds.planning import (
    BASE_FRACTION_MIN_MAX,
    HOLDOUT_FRACTION_MIN_MAX,
    MIN_SHARD_ROWS,
    Amount,
    PlannedRound,
    Round,
    plan,
    plan_passes,
    round_stop,
    shard_count,
)
from bayou.rounds.shard import Shard, learn_shard

__all__ = [
    "BASE_FRACTION_MIN_MAX",
    "GAIN",
    "HOLDOUT_FRACTION_MIN_MAX",
    "MIN_SHARD_ROWS",
    "SUM",
    "Amount",
    "Driver",
    "LoopDriver",
    "PlannedRound",
    "Round",
    "Shard",
    "add",
    "apply",
    "discount",
    "from_bytes",
    "gain",
    "learn_held_out",
    "learn_mergeable",
    "learn_shard",
    "plan",
    "plan_passes",
    "round_stop",
    "shard_count",
    "shardable_learners",
    "to_bytes",
]
