"""JSON lines: one object per line.

Keys are the columns of the table; those of nested objects are joined by dots: {"user": {"age": 7}} has the column
`user.age`. A key that is missing or null is an empty cell. A list gives one indicator `column=value` for each of its
values; a label that is a list is positive if it contains the positive value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bayou.core.extras import Extras
from bayou.kernels.parse_text import PADDING
from bayou.recipe.hashing import hash_bytes
from bayou.recipe.recipe import FIT_ROWS, Recipe
from bayou.sources.formats.json_cells import AS_NUMBER, AS_WRITTEN, WITHOUT_ZEROS, read_cells
from bayou.sources.reading.blocks import BlockReader, TextBlock
from bayou.sources.reading.parsed_block import BadLine, ParsedBlock
from bayou.sources.rows.json_objects import ID, read_lines, read_object
from bayou.sources.rows.json_scan import is_utf8
from bayou.sources.table import cells
from bayou.sources.table.cell_columns import CellColumns, check_width
from bayou.sources.table.column_summary import ColumnSummary
from bayou.sources.table.encoding_plan import EncodingPlan
from bayou.sources.table.fit import fit
from bayou.sources.table.fitting_reader import FittingReader
from bayou.sources.table.ngrams import text_of_words
from bayou.sources.table.typed_values import column_as_cells, places_of, summary_of

_NEWLINE = 10
# Where a number's text is hashed, 7.0 becomes 7; where its value is read, any spelling will do.
_WAYS = dict.fromkeys(("bins", "whole", "values", "numeric"), AS_NUMBER) | dict.fromkeys(
    ("category", "text"), WITHOUT_ZEROS
)


def new_parser(extras: Extras, *, labels: bool, dtype: str, groups: bool = False, **_: Any) -> JsonLinesParser:
    """Return the parser for a fitted recipe; see `formats.registry`."""
    return JsonLinesParser(
        EncodingPlan(extras.required_recipe, labels=labels, dtype=dtype, names=extras.names, groups=groups)
    )


class JsonLinesParser:
    """Parser of blocks of JSON lines: plain lines are read in place by a kernel, others by Python."""

    def __init__(self, plan: EncodingPlan) -> None:
        self.plan = plan
        self._names = [column.name for column in plan.columns]
        self._roles = [column.role for column in plan.columns]
        self._texts = [c for c, role in enumerate(self._roles) if role == "text"]
        text = [name.encode("utf-8", "surrogatepass") for name in self._names]
        hashes = np.array([hash_bytes(name) for name in text], np.uint32)
        order = np.argsort(hashes, kind="stable")
        offsets = np.cumsum([0, *map(len, text)])
        self._called = np.frombuffer(b"".join(text) + bytes(PADDING), np.uint8), offsets, order
        self._hashes = hashes[order]
        self._ways = np.array([_WAYS.get(role, AS_WRITTEN) for role in self._roles], np.int64)

    def parse(self, block: TextBlock) -> ParsedBlock:
        return self.plan.parse(self._columns(block))

    def _columns(self, block: TextBlock) -> CellColumns:
        n_lines, width = int(np.count_nonzero(block.data[: block.size] == _NEWLINE)), len(self._names)
        starts, stops = np.zeros((2, width, n_lines), np.uint32)
        lines, slow = np.empty(n_lines, np.int64), np.empty((n_lines, 3), np.int64)
        plan = self._called, self._hashes, self._ways
        n, left, ids = read_cells(block.data, block.size, is_utf8(block), *plan, starts, stops, lines, slow)
        data, lists = block.data, np.zeros(width, np.uint8)
        bad: list[BadLine] = []
        if left:
            data, lists, bad, is_valid, n_ids = self._read_slowly(block, slow[:left], starts, stops, lines)
            ids += n_ids
            if not is_valid.all():
                is_kept = np.ones(n, bool)
                is_kept[slow[:left, 0][~is_valid]] = False
                rows = np.flatnonzero(is_kept)
                n, lines = len(rows), lines[rows]
                starts, stops = starts[:, rows], stops[:, rows]
        stride = starts.shape[1]
        starts, stops = starts.reshape(-1), stops.reshape(-1)
        for c in self._texts:
            data = text_of_words(data, starts, stops, c * stride, 1, n, self.plan.recipe)
        table = np.zeros((width, 8), np.int64)
        table[:, cells.CELL_TEXT], table[:, cells.STRIDE] = data.ctypes.data, 1
        table[:, cells.STARTS] = starts.ctypes.data + 4 * stride * np.arange(width)
        table[:, cells.STOPS] = stops.ctypes.data + 4 * stride * np.arange(width)
        return CellColumns(
            rows=n,
            table=table,
            alive=[data, starts, stops],
            lines=lines[:n],
            n_lines=n_lines,
            lists=lists if lists.any() else None,
            bad_lines=bad,
            with_ids=ids > 0,
        )

    def _read_slowly(
        self, block: TextBlock, slow: np.ndarray, starts: np.ndarray, stops: np.ndarray, lines: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, list[BadLine], np.ndarray, int]:
        """Read the lines that the kernel left to Python, and set `starts` and `stops` of their cells.

        Return (the text with these cells appended, which columns have lists, bad lines, mask of the valid lines, number
        of rows with an id).
        """
        slow_lines = [block.data[start:stop].tobytes() for start, stop in slow[:, 1:].tolist()]
        parsed = [read_object(text, line) for text, line in zip(slow_lines, lines[slow[:, 0]].tolist(), strict=True)]
        is_valid = np.array([isinstance(entry, dict) for entry in parsed], bool)
        objects, rows = [entry for entry in parsed if isinstance(entry, dict)], slow[is_valid, 0]
        cells_of: list[bytes] = []
        lists = np.zeros(len(self._names), np.uint8)
        for c, (name, role) in enumerate(zip(self._names, self._roles, strict=True)):
            column, lists[c] = column_as_cells([entry.get(name) for entry in objects], role, self.plan.positive)
            cells_of += column
        data, begins, ends = places_of(cells_of)
        starts[:, rows] = begins.reshape(len(self._names), len(objects)) + len(block.data)
        stops[:, rows] = ends.reshape(len(self._names), len(objects)) + len(block.data)
        bad = [entry for entry in parsed if isinstance(entry, BadLine)]
        return np.concatenate([block.data, data]), lists, bad, is_valid, sum(ID in entry for entry in objects)


def summaries_of(objects: list[dict[str, Any]], recipe: Recipe) -> dict[str, ColumnSummary]:
    """Return a summary of each key of flat objects, in the order in which keys first occur."""
    names = dict.fromkeys(key for entry in objects for key in entry)
    check_width(len(names), "the first rows")
    return {name: summary_of([entry.get(name) for entry in objects], recipe) for name in names}


def _fit_objects(recipe: Recipe, samples: list[list[dict[str, Any]]], **options: Any) -> Recipe:
    objects = [entry for sample in samples for entry in sample][:FIT_ROWS]
    return fit(recipe, summaries_of(objects, recipe), **options)


class JsonReader(FittingReader):
    """Reader of JSON lines as a table, for a `Source`."""

    _fit = staticmethod(_fit_objects)

    def __init__(self, files: BlockReader, extras: Extras, *, labels: bool = True, dtype: str = "float32") -> None:
        super().__init__(extras, labels, dtype)
        self._lines = files
        self._parser: JsonLinesParser | None = None
        self._read_from(files)

    def _pass(self) -> Iterator[TextBlock]:
        return iter(self._lines)

    def _sample(self, block: TextBlock) -> tuple[list[dict[str, Any]], int]:
        if block.trouble is not None:
            return [], 0
        objects, bad = read_lines(block)
        if bad:
            self._why_empty = f"{block.file}:{bad[0].line + 1}:{bad[0].column}: {bad[0].reason}; write one per line."
        return objects, len(objects)

    def _parse(self, block: TextBlock) -> ParsedBlock:
        parser = self._parser
        if parser is None or parser.plan is not self.plan:
            parser = self._parser = JsonLinesParser(self.plan)
        return parser.parse(block)
