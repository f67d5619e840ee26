"""What one block of text, or of a table, held: rows, bad lines, new names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from bayou.core.names import Found
    from bayou.sources.reading.readahead import Block

# Of the bad lines of a block so many are described; all are counted.
DESCRIBED = 20


class Bad(NamedTuple):
    """A line that could not be used."""

    line: int  # within the block, from 0
    column: int  # the byte within the line, from 1; 0 if the line as a whole is meant
    what: str  # "expected a number after ':'"


class Facts(NamedTuple):
    """What a parser noticed on the way, which `Batch` would otherwise have to look for."""

    longest: int
    largest: float
    max_index: int
    ones: bool
    canonical: bool  # every row ascends, and no value is 0


@dataclass
class Piece:
    """The rows of one block as CSR arrays, not yet looked at (`Batch` does that), and what came with them."""

    indptr: np.ndarray  # int64
    indices: np.ndarray  # uint32, or uint64 ids that are still to be numbered
    values: np.ndarray  # float32 or float64
    labels: np.ndarray  # float64, as written; NaN where there is none
    weights: np.ndarray | None  # float64
    positions: np.ndarray  # int64, the line of each row within the block, from 0
    lines: int  # in the block, bad and empty ones included
    tags: list[str] | None = None
    bad: list[Bad] = field(default_factory=list)
    skipped: int = 0  # bad lines, described or not
    folded: int = 0  # indices too wide for the table, folded into it
    facts: Facts | None = None
    found: Found | None = None  # features whose names are not known yet


def nothing(block: Block) -> Piece:
    """In place of lines that could not be read: one bad line, or a file that ends in trouble."""
    return Piece(
        indptr=np.zeros(1, np.int64),
        indices=np.empty(0, np.uint32),
        values=np.empty(0, np.float32),
        labels=np.empty(0),
        weights=None,
        positions=np.empty(0, np.int64),
        lines=block.lines,
        bad=[Bad(0 if block.lines else -1, 0, block.trouble or "")],
        skipped=1,
    )


_ones: dict[np.dtype, np.ndarray] = {}


def all_ones(size: int, dtype: np.dtype) -> np.ndarray:
    """So many ones, which nobody may write to: the values of indicators, shared by all blocks."""
    held = _ones.get(dtype)
    if held is None or len(held) < size:
        held = np.ones(max(size, 1 << 17), dtype)
        held.flags.writeable = False
        _ones[dtype] = held
    return held[:size]
