"""How many rows are learned in sequence, in which rounds, over how many shards, and how many are held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from bayou.core.checks import positive_number, whole_number

# With fewer rows, or longer ones, a shard learns too little of each feature.
MIN_SHARD_ROWS = 10_000
# If less than this fraction of a round is left behind it, the round takes that, too.
MIN_REST = 0.3


class Amount(NamedTuple):
    """How many rows of a run: a fraction, but at least `low` and at most `high`."""

    fraction: float
    low: int
    high: int

    def of(self, rows: float) -> float:
        return min(max(self.fraction * rows, self.low), self.high)


# Learned in sequence first; held out for the combination.
BASE, HELD_OUT = Amount(0.01, 5_000, 100_000), Amount(0.02, 20_000, 100_000)


class Round(NamedTuple):
    """Rows `first` to `last`, over so many shards; one shard is learned in sequence, with weight 1."""

    first: int
    last: int
    shards: int


@dataclass(frozen=True)
class PlannedRound:
    """A round: rows [first, last) of those that are learned, over `shards` shards, after `passed` whole passes."""

    first: int
    last: int
    shards: int
    passed: int = 0


def plan(
    rows: int, shards: int, base: int | None = None, least: int = MIN_SHARD_ROWS, growth: float = 1.0
) -> list[Round]:
    """Return the rounds of one pass: the base, then each round as large as all before it.

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
    learned = min(int(BASE.of(rows)) if base is None else whole_number("base", base, 1), rows)
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
    first = [PlannedRound(*one) for one in plan(rows, shards, base, least)]
    return first + [PlannedRound(0, rows, shard_count(rows, shards, least), passed) for passed in range(1, passes)]


def round_stop(start: float, size: float, end: float) -> float:
    """Return where a round of that size stops: at the end if little is left behind it."""
    stop = min(start + size, end)
    return end if end - stop < MIN_REST * size else stop


def shard_count(rows: float, shards: int, least: int = MIN_SHARD_ROWS) -> int:
    """Return over how many shards to learn so many rows, of which each has at least `least`."""
    return max(min(shards, int(rows) // least), 1)
