"""Learning in shards: when data outgrow one process, or one machine.

Some workers learn a shard of the rows each, all from one base; what each has gained adds up, and makes the next base.
No engine is in here: these functions run in processes (`bayou train --processes`), in Spark (`bayou.spark`), in Ray or
Dask, and one after another in a plain loop, with the same bits. The first two and the loop are drivers (`driver`): they
say where shards are learned, and share all else.

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

from bayou.rounds.driver import Driver, LoopDriver, learn_held_out
from bayou.rounds.gain_tables import GAIN, SUM
from bayou.rounds.gains import add, apply, discount, from_bytes, gain, learn_part, shardable_learners, to_bytes
from bayou.rounds.planning import (
    BASE,
    HELD_OUT,
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
    "BASE",
    "GAIN",
    "HELD_OUT",
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
    "learn_part",
    "learn_shard",
    "plan",
    "plan_passes",
    "round_stop",
    "shard_count",
    "shardable_learners",
    "to_bytes",
]
