"""Columns of cells: the common form of one block of rows of a CSV, Arrow or JSON table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayou.core.errors import BadInput
from bayou.sources.reading.parsed_block import BadLine
from bayou.sources.table import cells

_EXCERPT = 40


# Every column has a fixed cost in memory; tables wider than this consist mostly of empty cells.
MAX_COLUMNS = 1 << 17


def check_names(names: Sequence[str], file: str) -> None:
    """Raise BadInput if two columns have the same name."""
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise BadInput(f"{file}: there are two columns {twice!r}; each column needs a unique name.")


def check_width(n: int, file: str = "the table") -> None:
    """Raise BadInput if a table has more columns than can be examined in a few seconds."""
    if n > MAX_COLUMNS:
        raise BadInput(
            f"{file}: there are {n:,} columns; at most {MAX_COLUMNS:,} can be read. Write data this wide as "
            "svmlight or VW text, which store only what is present."
        )


@dataclass
class CellColumns:
    """Columns of cells, one for each column of a plan, in the plan's order.

    Attributes:
        rows: number of rows.
        table: int64 (columns, 8), see `cells`: addresses, all 0 for a column that the table does not have.
        alive: the objects that own the memory at these addresses.
        lines: the position of each row in the block (its first line, or its row number).
        n_lines: number of lines in the block.
        numbers: values of columns that did not have to be read from text, by their position in the plan.
        lists: nonzero for columns with list cells, whose items are separated by the byte 0xFF.
        bad_lines: descriptions of bad rows that were already dropped; error_counts: the number of each kind, if some of
            them have no description.
        with_ids: whether a row has a value under the name reserved for ids; None if not checked.
        place: returns the byte within its line at which a cell starts, from 1; 0 where that has no meaning.
    """

    rows: int
    table: np.ndarray
    alive: list[object]
    lines: np.ndarray
    n_lines: int
    numbers: dict[int, np.ndarray] = field(default_factory=dict)
    lists: np.ndarray | None = None
    bad_lines: list[BadLine] = field(default_factory=list)
    error_counts: Counter[str] | None = None
    with_ids: bool | None = None
    place: Callable[[int, int], int] = lambda row, column: 0

    def whole_text(self, row: int, column: int, most: int = 1 << 30) -> str:
        """Return up to `most` bytes of the text of a cell."""
        if column in self.numbers:
            return str(self.numbers[column][row])
        return bytearray(cells.cell_text(self.table, column, row, most)).decode("utf-8", "replace")

    def text(self, row: int, column: int) -> str:
        """Return an excerpt of the text of a cell, for messages."""
        text = self.whole_text(row, column, _EXCERPT + 1)
        return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"
