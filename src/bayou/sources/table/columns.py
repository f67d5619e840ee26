"""Columns: the rows of one block of a table as columns of cells. CSV, Arrow and JSON differ up to here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayou.core.errors import BadInput
from bayou.sources.reading.parsed import BadLine
from bayou.sources.table import cells

_EXCERPT = 40


# Of each column something is kept that no row shares; tables wider than this are made of mostly empty cells.
MOST_COLUMNS = 1 << 17


def check_names(names: Sequence[str], file: str) -> None:
    """A column is known by its name: no two may share one."""
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise BadInput(f"{file}: there are two columns {twice!r}; each column needs a name of its own.")


def check_width(n: int, file: str = "the table") -> None:
    """Refuse a table with more columns than can be looked at in some seconds."""
    if n > MOST_COLUMNS:
        raise BadInput(
            f"{file}: there are {n:,} columns; at most {MOST_COLUMNS:,} can be read. Write data as wide as this as "
            "svmlight or VW text, which leave out what is not there."
        )


@dataclass
class Columns:
    """Columns of cells, one for each column of a plan, in its order.

    Attributes:
        rows: how many.
        table: int64 (columns, 8), see `cells`: addresses, all 0 for a column that is not there.
        alive: what the addresses point into.
        lines: where each row is in the block (its first line, or its number).
        n_lines: lines in the block.
        numbers: the numbers of columns (by their place in the plan) that did not have to be read from text.
        lists: which columns' cells are lists, parts separated by the byte 0xFF.
        bad, skipped: rows that did not even get here.
        with_ids: whether a row has the name that is for ids; None: nobody looked.
        place: the byte within its line at which a cell starts, from 1; 0 where that has no meaning.
    """

    rows: int
    table: np.ndarray
    alive: list[object]
    lines: np.ndarray
    n_lines: int
    numbers: dict[int, np.ndarray] = field(default_factory=dict)
    lists: np.ndarray | None = None
    bad: list[BadLine] = field(default_factory=list)
    skipped: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    with_ids: bool | None = None
    place: Callable[[int, int], int] = lambda row, column: 0

    def whole_text(self, row: int, column: int, most: int = 1 << 30) -> str:
        """What a cell says."""
        if column in self.numbers:
            return str(self.numbers[column][row])
        return bytearray(cells.cell_text(self.table, column, row, most)).decode("utf-8", "replace")

    def text(self, row: int, column: int) -> str:
        """What a cell says, cut short."""
        text = self.whole_text(row, column, _EXCERPT + 1)
        return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"
