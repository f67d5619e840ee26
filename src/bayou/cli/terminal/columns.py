"""Table of the roles that were chosen for the columns of the data."""

from __future__ import annotations

from collections.abc import Sequence

from bayou.recipe.recipe import Column

# Maximum widths of the table and of a cell.
WIDTH, NAME = 118, 24
# With more columns than MANY, only SHOWN of them are listed before training.
MANY, SHOWN = 30, 20


def table(columns: Sequence[Column]) -> list[str]:
    """Return a header and a line for each column: name, role, features, missing, reason, and some of its values."""
    cells = [("column", "role", "gives", "missing", "why")]
    for column in columns:
        missing = f"{column.missing:.1%}" if column.missing else ""
        cells.append((_short(column.name, NAME), column.role, column.gives, missing, _why(column)))
    widths = [max(len(row[k]) for row in cells) for k in range(4)]
    lines = []
    for name, role, gives, missing, reason in cells:
        start = f"{name:<{widths[0]}}  {role:<{widths[1]}}  {gives:<{widths[2]}}  {missing:>{widths[3]}}  "
        lines.append((start + _short(reason, max(WIDTH - len(start), NAME))).rstrip())
    return lines


def short_table(columns: Sequence[Column]) -> list[str]:
    """Return the lines of `table`, limited to the first columns if there are many."""
    if len(columns) <= MANY:
        return table(columns)
    return [*table(columns[:SHOWN]), f"and {len(columns) - SHOWN:,} more columns; bayou look shows all"]


def _why(column: Column) -> str:
    examples = ", ".join(column.examples[:4])
    return f"{column.why}: {examples}" if column.why and examples else column.why or examples


def _short(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else text[: max_length - 1] + "…"
