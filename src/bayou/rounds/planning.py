"""Plans of rounds: the numbers of rows to learn in sequence, in each round and shard, and to hold out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from bayou.core.checks import check_int, check_positive

# With fewer rows, or with very long ones, a shard learns too little about each feature.
MIN_SHARD_ROWS = 10_000
# If less than this fraction of a round would be left over, the round includes it.
MIN_REST = 0.3


class Amount(NamedTuple):
    """A number of rows: a fraction of all, but at least `low` and at most `high`."""

    fraction: float
    low: int
    high: int

    def of(self, rows: float) -> float:
        return min(max(self.fraction * rows, self.low), self.high)


# Learned in sequence first; held out for the combination.
BASE_FRACTION_MIN_MAX, HOLDOUT_FRACTION_MIN_MAX = Amount(0.01, 5_000, 100_000), Amount(0.02, 20_000, 100_000)


class Round(NamedTuple):
    """Rows [first, last), learned in this many shards; a single shard is learned in sequence, with weight 1."""

    first: int
    last: int
    shards: int


@dataclass(frozen=True)
class PlannedRound:
    """A round: rows [first, last) of those to learn, in `shards` shards, after `passed` whole passes."""

    first: int
    last: int
    shards: int
    passed: int = 0


def plan(
    rows: int, shards: int, base: int | None = None, least: int = MIN_SHARD_ROWS, growth: float = 1.0
) -> list[Round]:
    """Return the rounds of one pass: the base, then each round as large as all before it.

    Args:
        rows: number of rows to learn, without those held out.
        shards: the maximal number of shards.
        base: number of rows to learn in sequence first; by default 1%, but from 5,000 to 100,000.
        least: the minimal number of rows per shard.
        growth: size of a round relative to all rows before it; with few shards it may be more than 1.

    >>> [(r.last - r.first, r.shards) for r in plan(1_000_000, shards=16)]
    [(10000, 1), (10000, 1), (20000, 2), (40000, 4), (80000, 8), (160000, 16), (320000, 16), (360000, 16)]
    """
    rows, shards = check_int("rows", rows, 1), check_int("shards", shards, 1)
    least, growth = check_int("least", least, 1), check_positive("growth", growth)
    learned = min(int(BASE_FRACTION_MIN_MAX.of(rows)) if base is None else check_int("base", base, 1), rows)
    planned = [Round(0, learned, 1)]
    while learned < rows:
        stop = int(round_stop(learned, int(growth * learned), rows))
        planned.append(Round(learned, stop, shard_count(stop - learned, shards, least)))
        learned = stop
    return planned


def plan_passes(rows: int, shards: int, base: int | None, least: int, passes: int) -> list[PlannedRound]:
    """Return the rounds of several passes; each further pass is one round.

    >>> [(r.last - r.first, r.shards, r.passed) for r in plan_passes(40_000, 8, 10_000, 10_000, passes=2)]
    [(10000, 1, 0), (10000, 1, 0), (20000, 2, 0), (40000, 4, 1)]
    """
    first = [PlannedRound(*planned) for planned in plan(rows, shards, base, least)]
    return first + [PlannedRound(0, rows, shard_count(rows, shards, least), passed) for passed in range(1, passes)]


def round_stop(start: float, size: float, end: float) -> float:
    """Return where a round of this size stops: at the end if little would be left over."""
    stop = min(start + size, end)
    return end if end - stop < MIN_REST * size else stop


def shard_count(rows: float, shards: int, least: int = MIN_SHARD_ROWS) -> int:
    """Return the number of shards, at most `shards`, for this many rows, with at least `least` rows in each."""
    return max(min(shards, int(rows) // least), 1)
