"""Reader of CSV and TSV files, whose first line names the columns, and of files in Criteo's layout.

`split` turns bytes into cells, and the recipe's plan (`table`) turns cells into examples. Columns are found by name: a
file may have them in another order, or have more of them, than the one that the recipe was fitted to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayou.core.arrow import pa
from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.core.spelling import option
from bayou.recipe.recipe import FIT_ROWS, Recipe
from bayou.sources.formats.delimited.split import (
    AFTER_QUOTE,
    CRITEO,
    FEW,
    MANY,
    NO_QUOTE,
    QUOTED_BYTES,
    DelimitedLayout,
    SplitCells,
    layout_of,
    split,
    whole_rows_size,
)
from bayou.sources.reading.blocks import BlockReader, TextBlock, whole_lines
from bayou.sources.reading.buffers import ThreadBuffers
from bayou.sources.reading.parsed_block import BadLine, ParsedBlock, first_of_each, kind_of
from bayou.sources.table import cells
from bayou.sources.table.cell_columns import CellColumns
from bayou.sources.table.column_summary import ColumnScanner, ColumnSummary
from bayou.sources.table.encoding_plan import EncodingPlan
from bayou.sources.table.fit import fit
from bayou.sources.table.fitting_reader import FittingReader
from bayou.sources.table.ngrams import text_of_words

_WHAT = {
    FEW: "expected {width} cells, found {found}",
    MANY: "expected {width} cells, found more",
    AFTER_QUOTE: "expected a delimiter after the closing quote",
    NO_QUOTE: f"expected a closing quote within {QUOTED_BYTES} bytes",
}
# Default roles of Criteo's columns; options override them.
CRITEO_ROLES = {name: "bins" if name[0] == "I" else "category" for name in CRITEO[1:]}


class DelimitedParser:
    """Parser of blocks of delimited text with one layout."""

    def __init__(self, plan: EncodingPlan, layout: DelimitedLayout, file: str = "the table") -> None:
        self._plan, self.layout = plan, layout
        self._where = plan.places(layout.names, file)
        self._texts = [c for c, column in enumerate(plan.columns) if column.role == "text"]

    def parse(self, block: TextBlock) -> ParsedBlock:
        """Return the examples of a block; the first block of a file includes the header."""
        return self._plan.parse(self._columns(split_block(block, self.layout, self._plan.scratch)))

    def _columns(self, parsed: SplitCells) -> CellColumns:
        data, bad_lines = parsed.data, parsed.bad_lines
        for c in self._texts:
            cells_of = parsed.starts, parsed.stops, self._where[c], parsed.width, parsed.rows
            data = text_of_words(data, *cells_of, self._plan.recipe)
        return CellColumns(
            rows=parsed.rows,
            table=_table(parsed, data, self._where),
            alive=[data, parsed],
            lines=parsed.lines,
            n_lines=parsed.n_lines,
            bad_lines=[
                BadLine(int(line), int(byte), _WHAT[code].format(width=parsed.width, found=count))
                for line, byte, code, count in bad_lines[first_of_each(bad_lines[:, 2])]
            ],
            error_counts=Counter(kind_of(_WHAT[code]).format(width=parsed.width) for code in bad_lines[:, 2].tolist()),
            place=lambda row, c: int(parsed.starts[row * parsed.width + self._where[c]]) - int(parsed.begins[row]) + 1,
        )


def _table(split_cells: SplitCells, data: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return columns of cells in the form that kernels read (`cells`)."""
    table = np.zeros((len(positions), 8), np.int64)
    is_present = positions >= 0
    table[is_present, cells.CELL_TEXT] = data.ctypes.data
    table[is_present, cells.STARTS] = split_cells.starts.ctypes.data + 4 * positions[is_present]
    table[is_present, cells.STOPS] = split_cells.stops.ctypes.data + 4 * positions[is_present]
    table[is_present, cells.STRIDE] = split_cells.width
    return table


def split_block(block: TextBlock, layout: DelimitedLayout, scratch: ThreadBuffers | None = None) -> SplitCells:
    """Return the cells of a block's rows, without the header if it has one."""
    start, line = (layout.size, layout.lines) if block.first else (0, 0)
    return split(block.data, start, block.size, layout.delimiter, layout.width, scratch, line)


# --- the fit --------------------------------------------------------------------------------------------------------


def fit_text(recipe: Recipe, blocks: Sequence[tuple[SplitCells, DelimitedLayout]], **options: Any) -> Recipe:
    """Return the recipe fitted to the first FIT_ROWS rows of the blocks, given as cells with their layouts."""
    names = blocks[0][1].names
    positions = {layout: {name: position for position, name in enumerate(layout.names)} for _, layout in blocks}
    located = [(cell_block, positions[layout]) for cell_block, layout in blocks]
    summaries = {name: _summary(recipe, name, located) for name in names}
    return fit(recipe, summaries, usual=CRITEO_ROLES if names == CRITEO else None, **options)


def _summary(recipe: Recipe, name: str, blocks: Iterable[tuple[SplitCells, Mapping[str, int]]]) -> ColumnSummary:
    """Return the summary of a column's first rows; each part of the data comes with the positions of its columns.

    A file without the column counts as rows without a value, so that the summaries of all columns agree row by row.
    """
    left, scanner = FIT_ROWS, ColumnScanner(recipe)
    segments: list[tuple[int, SplitCells, int | None]] = []  # number of rows, their cells, position of the column
    for cell_block, positions in blocks:
        n, position = min(cell_block.rows, left), positions.get(name)
        if position is None:
            scanner.add_numbers(np.full(n, np.nan))
        else:
            scanner.add(_table(cell_block, cell_block.data, np.array([position])), n)
        segments.append((n, cell_block, position))
        left -= n

    def text(row: int) -> str:
        for n_rows, split_cells, column in segments:
            if row < n_rows:
                return "" if column is None else split_cells.text(row, column)
            row -= n_rows
        raise IndexError(row)

    return scanner.summary(text, as_written=True)


# --- reading --------------------------------------------------------------------------------------------------------


class DelimitedReader(FittingReader):
    """Reader of the rows of delimited files, for a `Source`."""

    _fit = staticmethod(fit_text)

    def __init__(
        self, files: BlockReader, extras: Extras, *, format: str = "csv", labels: bool = True, dtype: str = "float32"
    ) -> None:
        super().__init__(extras, labels, dtype)
        self._format = format
        self._read_from(files)
        # Each file has its own layout, and is cut into rows by it.
        other_names = files.names[1:]
        files.names = files.names[:1]
        self._files = [files, *(BlockReader([name]) for name in other_names)]
        self._tables: dict[DelimitedLayout, DelimitedParser] = {}

    def _pass(self) -> Iterator[TextBlock]:
        for files in self._files:
            files.rewind()
        for files in self._files:
            cutter = _RowCutter(files.names[0], self._format)
            files.cut = cutter
            for block in files:
                if block.trouble is not None and cutter.layout is None:
                    raise BadInput(f"{block.file}: {block.trouble}.")
                yield replace(block, layout=cutter.layout or layout_of(block, self._format))

    def _sample(self, block: TextBlock) -> tuple[tuple[SplitCells, DelimitedLayout], int]:
        cell_block = split_block(block, block.layout)
        if len(cell_block.bad_lines) and not cell_block.rows:
            line, byte, code, count = cell_block.bad_lines[0]
            expected = _WHAT[code].format(width=cell_block.width, found=count)
            self._why_empty = (
                f"{block.file}:{line + 1}:{byte}: {expected}; no row fits {self._format}: check {option('format')}."
            )
        return (cell_block, block.layout), cell_block.rows

    def _parse(self, block: TextBlock) -> ParsedBlock:
        table = self._tables.get(block.layout)
        if table is None:
            table = self._tables[block.layout] = DelimitedParser(self.plan, block.layout, block.file)
        return table.parse(block)


class _RowCutter:
    """Callable that cuts a file into complete rows; it infers the layout from the first data it is called with."""

    def __init__(self, file: str, format: str) -> None:
        self._file, self._format = file, format
        self.layout: DelimitedLayout | None = None

    def __call__(self, data: np.ndarray, size: int) -> int:
        if self.layout is None:
            if not whole_lines(data, size):
                return 0
            self.layout = layout_of(TextBlock(data, size, self._file), self._format)
        return whole_rows_size(data, size, self.layout.delimiter, self.layout.width)


class DelimitedBatches:
    """Iterable of the record batches of delimited files, with cells as text, so that they give the same features."""

    def __init__(self, names: list[str], format: str) -> None:
        self._names, self._format = names, format

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        from pyarrow import csv

        for name in self._names:
            layout = layout_of(BlockReader([name]).first_lines(), self._format)
            try:
                with pa.input_stream(name) as file:
                    yield from csv.open_csv(
                        file,
                        csv.ReadOptions(column_names=list(layout.names), skip_rows=layout.lines),
                        csv.ParseOptions(delimiter=chr(layout.delimiter), newlines_in_values=True),
                        csv.ConvertOptions(column_types={column: pa.string() for column in layout.names}),
                    )
            except (OSError, pa.ArrowException) as error:
                raise BadInput(f"{name}: the file cannot be read: {str(error).splitlines()[0]}") from None
