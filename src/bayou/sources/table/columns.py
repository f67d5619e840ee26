"""Sheet and Plan: the rows of one block as columns of cells, and a fitted recipe that makes examples of them.

CSV, Arrow and JSON differ in how they come to a `Sheet`. From there on they are one: `Plan.piece` is what the same
recipe makes of the same cells, wherever they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from bayou.core.errors import BadInput
from bayou.core.names import Found, Names
from bayou.core.numbering import Numbering
from bayou.core.recipe import Column, Recipe
from bayou.kernels.scan import LARGEST_VALUE, LARGEST_WEIGHT
from bayou.sources.hashing import hash_bytes, id_bytes
from bayou.sources.reading.parsed import DESCRIBED, Bad, Piece, all_ones
from bayou.sources.reading.scratch import Scratch
from bayou.sources.table import cells
from bayou.sources.table.column_types import crosses

_ROLES = {
    "category": cells.CATEGORY,
    "flag": cells.FLAG,
    "code": cells.CODE,
    "bins": cells.BINS,
    "whole": cells.WHOLE,
    "numeric": cells.NUMERIC,
    "text": cells.TEXT,
    "weight": cells.WEIGHT,
    "label": cells.LABEL,
}
_WHAT = {
    cells.NOT_NUMBER: "expected a number in column {name}, not {text!r}",
    cells.NO_LABEL: "expected a label in column {name}",
    cells.NOT_LABEL: "expected a label, {label}, in column {name}, not {text!r}",
    cells.NOT_WEIGHT: f"expected a weight from 0 to {LARGEST_WEIGHT:g} in column {{name}}, not {{text!r}}",
    cells.TOO_LARGE: f"expected a number of at most {LARGEST_VALUE:g} in size in column {{name}}, not {{text!r}}",
    cells.TOO_MANY: f"expected a row of at most {cells.MOST_FEATURES} features, and {cells.MOST_PAIRS} pairs of them",
}
_EXCERPT = 40


@dataclass
class Sheet:
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
        place: the byte within its line at which a cell starts, from 1; 0 where that has no meaning.
    """

    rows: int
    table: np.ndarray
    alive: list[object]
    lines: np.ndarray
    n_lines: int
    numbers: dict[int, np.ndarray] = field(default_factory=dict)
    lists: np.ndarray | None = None
    bad: list[Bad] = field(default_factory=list)
    skipped: int = 0
    place: Callable[[int, int], int] = lambda row, column: 0

    def text(self, row: int, column: int) -> str:
        """What a cell says, cut short."""
        if column in self.numbers:
            return str(self.numbers[column][row])
        text = bytearray(cells.cell_text(self.table, column, row, _EXCERPT + 1)).decode("utf-8", "replace")
        return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"


class Plan:
    """A fitted recipe, made ready for kernels. Several threads may use it at once.

    Attributes:
        columns: the recipe's columns that are read, in order.
        labels: whether a row without a label is bad.
        positive: the text of a positive label, or None.
        scratch: room for the block that a thread works on.
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        labels: bool = True,
        dtype: str = "float32",
        names: Names | None = None,
        numbering: Numbering | None = None,
    ) -> None:
        if recipe.columns is None:
            raise BadInput("the recipe is not fitted yet: nothing is known about the table's columns.")
        unread = ("ignored",) if labels else ("ignored", "weight")
        self.columns = tuple(column for column in recipe.columns if column.role not in unread)
        self.labels = labels
        self._dtype = np.dtype(dtype)
        self._names, self._numbering = names, numbering
        self._exact = recipe.exact
        self._mask = np.uint64(2**64 - 1 if recipe.exact else recipe.n_features - 1)
        self._key = np.dtype(np.uint64 if recipe.exact else np.uint32)
        self._roles = np.array([self._role(column, recipe) for column in self.columns], np.int64)
        self.positive = recipe.positive
        number = recipe.numbers or recipe.label_above is not None
        self._label = "a number" if number else "1, 0, -1, true or false"
        self._positive = np.frombuffer((recipe.positive or "").strip(" \t").encode() + b" ", np.uint8)[:-1]
        self._positive_number = _as_number(recipe.positive)
        self.scratch = Scratch()
        self._lay_out_slots(recipe)
        self._hash_names()

    @staticmethod
    def _role(column: Column, recipe: Recipe) -> int:
        if column.role == "label" and recipe.positive is not None:
            return cells.LABEL_TEXT
        if column.role == "label" and (recipe.numbers or recipe.label_above is not None):
            return cells.LABEL_NUMBER
        return _ROLES[column.role]

    def _lay_out_slots(self, recipe: Recipe) -> None:
        """Which slots each column fills, and which of those have values, words and numbers to look up."""
        roles = self._roles
        widths = np.where(roles >= cells.WEIGHT, 0, np.where(roles == cells.WHOLE, 2, 1))
        firsts = np.cumsum(widths) - widths
        self._width = int(widths.sum())
        self._slot_of = np.where(widths > 0, firsts, -1)
        self._slot_columns = np.repeat(np.arange(len(roles)), widths)
        code_slot = np.arange(self._width) != firsts[self._slot_columns]
        slot_roles = roles[self._slot_columns]
        self._value_rows = _numbered(code_slot | (slot_roles == cells.NUMERIC))
        self._word_rows = _numbered(slot_roles == cells.TEXT)
        self._number_rows = _numbered((roles >= cells.BINS) & (roles <= cells.NUMERIC))
        # A column's number in the plan is not that in the recipe, where there are ignored ones too.
        place = {column.name: c for c, column in enumerate(self.columns)}
        pairs = []
        for pair in crosses(recipe):
            for column in pair:
                c = place[(recipe.columns or ())[column].name]
                pairs += [int(firsts[c]), int(firsts[c] + widths[c])]
        self._pairs = np.array(pairs, np.int64).reshape(-1, 4)

    def _hash_names(self) -> None:
        """The hashes that do not depend on cells, and what they are called."""
        hashed = id_bytes if self._exact else hash_bytes
        seeds = [hashed(column.name.encode()) for column in self.columns]
        self._seeds = np.array(seeds, np.uint64)
        self._missing = np.array([hashed(b"", seed) for seed in seeds], np.uint64)
        self._centres = np.array([column.centre for column in self.columns])
        self._scales = np.array([column.scale for column in self.columns])
        # Edges in eights, filled up with infinity; behind a column's bins comes the missing cell.
        padded = [[*column.edges, *[np.inf] * (-len(column.edges) % 8)] for column in self.columns]
        self._edges = np.array([edge for edges in padded for edge in edges], np.float64)
        self._edge_from = np.cumsum([0, *map(len, padded)])
        names = [[*_bin_names(column), f"{column.name}="] for column in self.columns]
        self._bin_from = np.cumsum([0, *map(len, names)])
        hashes = [
            [*(hashed(b"\x00bin%d" % k, seed) for k in range(len(column.edges) + 1)), hashed(b"", seed)]
            for column, seed in zip(self.columns, seeds, strict=True)
        ]
        self._bin_hashes = np.array([key for keys in hashes for key in keys], np.uint64)
        texts = [column.name.encode() for column in self.columns]
        bin_texts = [text.encode() for column_names in names for text in column_names]
        ends = np.cumsum([0, *map(len, texts + bin_texts)])
        self._prefix_text = np.frombuffer(b"".join(texts + bin_texts) + b" ", np.uint8)[:-1]
        self._prefixes = np.column_stack([ends[: len(texts)], ends[1 : len(texts) + 1]])
        self._bin_names = ends[len(texts) :]

    def looked_up(self, column: int) -> bool:
        """Whether a column's values can be hashed once and for all, where there is a dictionary of them."""
        return int(self._roles[column]) in (cells.CATEGORY, cells.FLAG, cells.CODE)

    def hashes(self, column: int, table: np.ndarray, size: int) -> np.ndarray:
        """The hash of each cell of one column of a table with `size` rows."""
        only = np.full(len(self.columns), -1)
        only[column] = 0
        one, none = np.full(1, -1), np.zeros((0, 0))
        slots = np.empty((1, size), self._key)
        cells.fill(
            table, self._roles, self._seeds, self._missing, self._edge_from, self._edges, self._bin_from,
            self._bin_hashes, self._centres, self._scales, self._number_rows, none, np.arange(size), self._exact, only,
            one, one, slots, none,
        )  # fmt: skip
        return slots[0]

    def piece(self, sheet: Sheet) -> Piece:
        """The examples of a sheet."""
        return _Making(self, sheet).piece()

    def nothing(self) -> Piece:
        """The examples of no rows."""
        return self.piece(Sheet(0, np.zeros((len(self.columns), 8), np.int64), [], np.zeros(0, np.int64), 0))


class _Making:
    """One sheet on its way to a piece."""

    def __init__(self, plan: Plan, sheet: Sheet) -> None:
        self.plan, self.sheet = plan, sheet
        self.lists = np.zeros(len(plan.columns), np.uint8) if sheet.lists is None else sheet.lists
        self.word_rows = plan._word_rows
        if self.lists.any():
            self.word_rows = _numbered((plan._word_rows >= 0) | (self.lists[plan._slot_columns] > 0))

    def piece(self) -> Piece:
        sheet = self.sheet
        labels, weights = self._read()
        self.rows = np.arange(sheet.rows) if not self.wrong.any() else np.flatnonzero(self.wrong == 0)
        while True:
            self._fill()
            total = self._count()
            if not self.wrong[self.rows].any():
                break
            self.rows = self.rows[self.wrong[self.rows] == 0]
        self._assemble(total)
        described = [self._describe(int(row)) for row in np.flatnonzero(self.wrong)[:DESCRIBED]]
        return Piece(
            indptr=self.indptr,
            indices=self.indices,
            values=self.values,
            labels=labels[self.rows],
            weights=None if weights is None else weights[self.rows],
            positions=sheet.lines[self.rows],
            lines=sheet.n_lines,
            bad=sorted(sheet.bad + described)[:DESCRIBED],
            skipped=sheet.skipped + sheet.rows - len(self.rows),
            found=self._found(),
        )

    def _read(self) -> tuple[np.ndarray, np.ndarray | None]:
        plan, sheet = self.plan, self.sheet
        n = sheet.rows
        self.numbers = plan.scratch.take("numbers", (int(plan._number_rows.max(initial=-1)) + 1, n), np.float64)
        self.wrong = np.zeros(n, np.int64)
        labels = np.full(n, np.nan)
        weights = np.empty(n) if (plan._roles == cells.WEIGHT).any() else None
        roles = np.where(sheet.table[:, cells.STARTS] != 0, plan._roles, 0)
        for column, numbers in sheet.numbers.items():
            if plan._number_rows[column] >= 0:
                self.numbers[plan._number_rows[column]] = numbers
                roles[column] = 0
                if (infinite := np.isinf(numbers)).any():
                    self.wrong[infinite] = 16 * column + cells.NOT_NUMBER
        cells.read(
            sheet.table, roles, plan._number_rows, n, plan._positive, plan._positive_number, plan.labels,
            self.numbers, labels, labels if weights is None else weights, self.wrong,
        )  # fmt: skip
        return labels, weights

    def _fill(self) -> None:
        plan, sheet = self.plan, self.sheet
        n = len(self.rows)
        self.slots = plan.scratch.take("slots", (plan._width, n), plan._key)
        self.slot_values = plan.scratch.take("values", (int(plan._value_rows.max(initial=-1)) + 1, n), np.float64)
        cells.fill(
            sheet.table, plan._roles, plan._seeds, plan._missing, plan._edge_from, plan._edges, plan._bin_from,
            plan._bin_hashes, plan._centres, plan._scales, plan._number_rows, self.numbers, self.rows, plan._exact,
            plan._slot_of, plan._value_rows, self.word_rows, self.slots, self.slot_values,
        )  # fmt: skip
        texts = np.flatnonzero(self.word_rows >= 0)
        self.word_ends = np.empty((len(texts), n + 1), np.int64)
        room = longest = 0
        for column in plan._slot_columns[texts]:
            more, most = cells.room_for_words(sheet.table, column, sheet.rows, self.lists[column])
            room, longest = room + more, max(longest, most)
        self.words, self.word_places = np.empty(room, plan._key), np.empty(room, np.uint32)
        if len(texts):
            seen = 1 << int(2 * min(longest, cells.MOST_FEATURES + 1)).bit_length()
            cells.fill_words(
                sheet.table, plan._roles, plan._seeds, self.rows, plan._exact, plan._slot_of, self.word_rows,
                self.lists, self.word_ends, self.words, self.word_places, np.empty(seen, np.uint64),
                np.zeros(seen, np.int64), self.wrong,
            )  # fmt: skip

    @property
    def _plain(self) -> bool:
        """Whether each row has one feature in each slot, and that is all."""
        return len(self.slot_values) == 0 and len(self.word_ends) == 0 and len(self.plan._pairs) == 0

    def _count(self) -> int:
        if self._plain:
            return self.slots.size
        total, self.longest = cells.count(
            len(self.rows), self.plan._value_rows, self.slot_values, self.word_rows, self.word_ends, self.plan._pairs,
            self.rows, self.wrong,
        )  # fmt: skip
        return total

    def _assemble(self, total: int) -> None:
        n = len(self.rows)
        self.indices = np.empty(total, self.plan._key)
        if self._plain:
            self.indptr = np.arange(n + 1) * self.plan._width
            self.values = all_ones(total, self.plan._dtype)
            cells.transpose(self.slots, self.plan._key.type(self.plan._mask), self.indices)
        else:
            self.indptr, self.values = np.empty(n + 1, np.int64), np.empty(total, self.plan._dtype)
            self._rows_with(np.empty((0, 4), np.int32))

    def _rows_with(self, origins: np.ndarray) -> None:
        cells.assemble(
            self.slots, self.plan._value_rows, self.slot_values, self.word_rows, self.word_ends, self.words,
            self.plan._pairs, self.longest, self.plan._mask, self.plan._exact,
            self.indptr, self.indices, self.values, origins,
        )  # fmt: skip

    def _found(self) -> Found | None:
        """The features that have no name yet, or None if all have, or if no more names are taken."""
        plan, sheet = self.plan, self.sheet
        if plan._names is None or plan._names.full:
            return None
        places = plan.scratch.take("places", len(self.indices), np.int64)
        if not plan._exact:
            count = cells.nameless(self.indices, plan._names.known, places)
        elif plan._numbering is not None:
            count = cells.numberless(self.indices, plan._numbering.table, places)
        else:
            count = 0
        if not count:
            return None
        places = places[:count]
        if self._plain:
            origins = np.zeros((count, 4), np.int32)
            origins[:, 0], origins[:, 2] = places % plan._width, -1
        else:
            origins = np.empty((len(self.indices), 4), np.int32)
            self._rows_with(origins)
            origins = origins[places]
        found = np.searchsorted(self.indptr, places, side="right") - 1
        spans = plan.scratch.take("spans", (count, 8), np.int64)
        spare = plan.scratch.take("spare", 2 * cells.SPARE * count, np.uint8)
        cells.name_places(
            sheet.table, plan._roles, plan._slot_columns, plan._slot_of, plan._number_rows, self.numbers,
            plan._edge_from, plan._edges, plan._bin_from, plan._prefixes, plan._bin_names, self.word_rows,
            self.word_places, self.lists, self.rows, found, origins, spans, spare,
        )  # fmt: skip
        text = np.empty(int((spans[:, 3::4] - spans[:, 2::4]).sum()), np.uint8)
        cells.copy_names(spans, text)
        kept = spans[:, :4] if self._plain else spans
        return Found(self.indices[places], kept.astype(np.int32), text, plan._prefix_text, b"=")

    def _describe(self, row: int) -> Bad:
        column, what = divmod(int(self.wrong[row]), 16)
        sheet, line = self.sheet, int(self.sheet.lines[row])
        if what == cells.TOO_MANY:
            return Bad(line, 0, _WHAT[what])
        name, text = self.plan.columns[column].name, sheet.text(row, column)
        return Bad(line, sheet.place(row, column), _WHAT[what].format(name=name, text=text, label=self.plan._label))


def _numbered(which: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... where it is so, -1 elsewhere."""
    return np.where(which, np.cumsum(which) - 1, -1)


def _as_number(text: str | None) -> float:
    """A text as a number, NaN (which equals nothing) if it is none."""
    try:
        return float(text or "nan")
    except ValueError:
        return float("nan")


def _told_apart(edges: Sequence[float]) -> list[str]:
    """Numbers as text, with no more digits than tell them apart.

    >>> _told_apart([0.5, 1e9, 1e9 + 1]), _told_apart([1 / 3, 2 / 3])
    (['0.5', '1000000000', '1000000001'], ['0.333333', '0.666667'])
    """
    for digits in range(6, 18):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(texts):
            break
    return texts


def _bin_names(column: Column) -> list[str]:
    """
    >>> _bin_names(Column("age", "bins", edges=(17, 22.5)))
    ['age<17', 'age in [17,22.5)', 'age>=22.5']
    """
    edges = _told_apart(column.edges)
    if not edges:
        return [f"{column.name} is there"]
    between = [f"{column.name} in [{low},{high})" for low, high in pairwise(edges)]
    return [f"{column.name}<{edges[0]}", *between, f"{column.name}>={edges[-1]}"]
