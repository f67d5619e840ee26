"""Plan: a fitted recipe that turns columns of cells into examples, whatever format the cells came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from bayou.core.checks import suggest
from bayou.core.errors import BadInput
from bayou.kernels.parse_text import LARGEST_VALUE, LARGEST_WEIGHT
from bayou.recipe.crosses import MAX_ROW_CROSSES
from bayou.recipe.feature_names import FeatureNames, NewNames
from bayou.recipe.groups import NONE, groups_by_column
from bayou.recipe.labels import is_text
from bayou.recipe.numbering import Numbering, known_features
from bayou.recipe.recipe import Recipe
from bayou.sources.reading.buffers import ThreadBuffers
from bayou.sources.reading.parsed_block import BadLine, ParsedBlock, all_ones, first_of_each, kind_of
from bayou.sources.table import cells, features, new_names, numbers, row_assembly, text_columns
from bayou.sources.table.cell_columns import CellColumns, check_names
from bayou.sources.table.cell_format import missing_numbers
from bayou.sources.table.encoding_arrays import numbered, plan_arrays
from bayou.sources.table.features import FeatureSlots

_WHAT = {
    cells.NO_LABEL: "expected a label in column {name}",
    cells.NOT_LABEL: "expected a label, {label}, in column {name}, not {text!r}",
    cells.NOT_WEIGHT: f"expected a weight from 0 to {LARGEST_WEIGHT:g} in column {{name}}, not {{text!r}}",
    cells.TOO_LARGE: f"expected a number of at most {LARGEST_VALUE:g} in size in column {{name}}, not {{text!r}}",
    cells.TOO_MANY_FEATURES: f"expected a row of at most {cells.MAX_ROW_FEATURES} features, and "
    f"{MAX_ROW_CROSSES} pairs of them",
}


class EncodingPlan:
    """A fitted recipe, prepared for kernels. Several threads may use it at once.

    Attributes:
        columns: the recipe's columns that are read, in order.
        recipe: the fitted recipe.
        labels: whether a row without a label is bad.
        positive: the text of a positive label, or None.
        scratch: per-thread scratch arrays for the current block.

    With `groups`, parsed blocks hold the group of each nonzero, which depends on its column (`recipe.groups`).
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        labels: bool = True,
        dtype: str = "float32",
        names: FeatureNames | None = None,
        numbering: Numbering | None = None,
        groups: bool = False,
    ) -> None:
        if recipe.columns is None:
            raise BadInput("the recipe is not fitted yet: nothing is known about the table's columns.")
        unread = ("ignored", "id") if labels else ("ignored", "id", "weight")
        self.columns = tuple(column for column in recipe.columns if column.role not in unread)
        self.recipe = recipe
        self.labels = labels
        self.positive = recipe.positive
        self.scratch = ThreadBuffers()
        self._dtype = np.dtype(dtype)
        self._key = np.dtype(np.uint64 if recipe.exact else np.uint32)
        self._names, self._numbering = names, numbering
        number = recipe.task == "regression" or recipe.label_above is not None
        self._label = "a number" if number else "1, 0, -1, true or false"
        self._arrays = plan_arrays(recipe, self.columns, labels)
        self._missing_numbers = missing_numbers(recipe.missing)
        # Number of columns with numbers and of slots with values; whether there are weights and text labels.
        rows = self._arrays.number_rows, self._arrays.value_rows
        self._number_rows, self._value_rows = (int(numbers.max(initial=-1)) + 1 for numbers in rows)
        self._has_weights = bool((self._arrays.roles == cells.WEIGHT).any())
        self._has_classes = bool((self._arrays.roles == cells.LABEL_CLASS).any())
        self._slot_groups = self._groups_of_slots() if groups else None

    def _groups_of_slots(self) -> np.ndarray:
        by_name = groups_by_column(self.recipe)
        return np.array([by_name[self.columns[c].name] for c in self._arrays.slot_columns], np.uint8)

    def places(self, names: Sequence[str], file: str) -> np.ndarray:
        """Return the position of each of the plan's columns among `names`; -1 for a label that is not needed.

        Raises:
            BadInput: if a column that is needed is not among them, or if two names are equal.
        """
        check_names(names, file)
        of = {name: place for place, name in enumerate(names)}
        places = np.array([of.get(column.name, -1) for column in self.columns], np.int64)
        for column, place in zip(self.columns, places, strict=True):
            if place < 0 and (column.role != "label" or self.labels):
                raise BadInput(
                    f"{file}: there is no column {column.name!r} ({column.role}), which the recipe needs; "
                    f"the columns are {', '.join(names)}." + suggest(column.name, names)
                )
        return places

    def is_hash_cached(self, column: int) -> bool:
        """Return whether the values of a column can be hashed once per dictionary entry instead of once per row."""
        return int(self._arrays.roles[column]) in (cells.CATEGORY, cells.FLAG, cells.CODE)

    def hashes(self, column: int, table: np.ndarray, size: int) -> np.ndarray:
        """Return the hash of each cell of one column of a table with `size` rows."""
        arrays, none = self._arrays, np.full(1, -1)
        slots = FeatureSlots.empty(np.empty((1, size), self._key), np.empty((0, 0)), none)
        arrays = arrays._replace(slot_columns=np.array([column]), slot_roles=arrays.roles[[column]], value_rows=none)
        features.fill(table, arrays, np.empty((0, 0)), np.arange(size), slots)
        return slots.keys[0]

    def parse(self, columns: CellColumns) -> ParsedBlock:
        """Return the examples of a block."""
        return _BlockEncoder(self, columns).parsed()

    def empty(self) -> ParsedBlock:
        """Return a parsed block without rows."""
        return self.parse(CellColumns(0, np.zeros((len(self.columns), 8), np.int64), [], np.zeros(0, np.int64), 0))


class _BlockEncoder:
    """Conversion of the columns of one block to examples."""

    def __init__(self, plan: EncodingPlan, columns: CellColumns) -> None:
        self.plan, self.arrays, self.columns = plan, plan._arrays, columns
        self.lists = np.zeros(len(plan.columns), np.uint8) if columns.lists is None else columns.lists
        self.word_rows = self.arrays.word_rows
        if columns.lists is not None and self.lists.any():
            self.word_rows = numbered((self.word_rows >= 0) | (self.lists[self.arrays.slot_columns] > 0))

    def parsed(self) -> ParsedBlock:
        columns = self.columns
        labels, weights = self._read()
        fine = not self.wrong.any()
        self.rows = np.arange(columns.rows) if fine else np.flatnonzero(self.wrong == 0)
        while True:
            self._fill()
            total, more_wrong = self._count()
            if not more_wrong:
                break
            fine, self.rows = False, self.rows[self.wrong[self.rows] == 0]
        self._assemble(total)
        parsed = ParsedBlock(
            indptr=self.indptr,
            indices=self.indices,
            values=self.values,
            labels=labels,
            weights=weights,
            positions=columns.lines,
            lines=columns.n_lines,
            groups=self.groups,
            new_names=self._new_names(),
            texts=self._label_texts(labels) if self.plan._has_classes else {},
            odd_cells=self._odd_cells() if self.odd[:, 0].any() else {},
            with_ids=columns.with_ids,
        )
        parsed.note(columns.bad_lines, columns.error_counts)
        if not fine:
            self._drop_invalid_rows(parsed)
        return parsed

    def _drop_invalid_rows(self, parsed: ParsedBlock) -> None:
        """Drop the labels of bad rows, which have no features, count these rows and describe some of them."""
        wrong = np.flatnonzero(self.wrong)
        parsed.keep_rows(self.rows)
        parsed.note([self._describe(int(row)) for row in wrong[first_of_each(self.wrong[wrong])]], self._kinds())

    def _label_texts(self, labels: np.ndarray) -> dict[float, str]:
        """Return the text labels, keyed by the numbers that stand for them."""
        rows = np.flatnonzero(is_text(labels))
        if not len(rows):
            return {}
        column = int(np.argmax(self.arrays.roles == cells.LABEL_CLASS))
        numbers_of_texts, first = np.unique(labels[rows], return_index=True)
        texts = (self.columns.whole_text(int(row), column).strip(" \t") for row in rows[first])
        return dict(zip(numbers_of_texts.tolist(), texts, strict=True))

    def _read(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return labels and weights; store the numbers of columns, the bad rows and the odd cells in attributes."""
        arrays, columns = self.arrays, self.columns
        n = columns.rows
        self.numbers = self.plan.scratch.take("numbers", (self.plan._number_rows, n), np.float64)
        self.wrong = np.zeros(n, np.int64)
        labels = np.full(n, np.nan)
        weights = np.empty(n) if self.plan._has_weights else None
        roles = np.where(columns.table[:, cells.STARTS] != 0, arrays.roles, 0)
        self.odd = np.zeros((len(roles), 1 + numbers.ODD), np.int64)
        for column, given in columns.numbers.items():
            if arrays.number_rows[column] >= 0:
                self.numbers[arrays.number_rows[column]] = given
                roles[column] = 0
                if (infinite := np.isinf(given)).any():
                    self._note_infinite(column, infinite)
        own = labels if weights is None else weights
        numbers.read(columns.table, roles, arrays, self.numbers, labels, own, self.wrong, self.odd)
        if self.plan._missing_numbers:
            self.numbers[np.isin(self.numbers, self.plan._missing_numbers)] = np.nan
        return labels, weights

    def _note_infinite(self, column: int, infinite: np.ndarray) -> None:
        self.numbers[self.arrays.number_rows[column], infinite] = np.nan
        rows = np.flatnonzero(infinite)
        self.odd[column, 0] = len(rows)
        self.odd[column, 1 : 1 + numbers.ODD] = np.resize(rows, numbers.ODD)

    def _odd_cells(self) -> dict[str, tuple[int, list[BadLine]]]:
        """Return, by column, the number of cells treated as missing because they are odd, and the first few of them."""
        by_column = {}
        for column in np.flatnonzero(self.odd[:, 0]).tolist():
            count, some = int(self.odd[column, 0]), []
            for row in self.odd[column, 1 : 1 + min(count, numbers.ODD)].tolist():
                line, place = int(self.columns.lines[row]), self.columns.place(row, column)
                some.append(BadLine(line, place, repr(self.columns.text(row, column))))
            by_column[self.plan.columns[column].name] = (count, some)
        return by_column

    def _fill(self) -> None:
        arrays, table, take = self.arrays, self.columns.table, self.plan.scratch.take
        n = len(self.rows)
        keys = take("slots", (arrays.width, n), self.plan._key)
        values = take("values", (self.plan._value_rows, n), np.float64)
        self.slots = FeatureSlots.empty(keys, values, self.word_rows)
        features.fill(table, arrays, self.numbers, self.rows, self.slots)
        several = np.flatnonzero(self.word_rows >= 0)
        if not len(several):
            return
        room = longest = 0
        for column in arrays.slot_columns[several]:
            more, most = text_columns.room_for_words(table, column, self.columns.rows, self.lists[column])
            room, longest = room + more, max(longest, most)
        self.slots = self.slots._replace(
            word_ends=np.empty((len(several), n + 1), np.int64),
            words=np.empty(room, self.plan._key),
            word_places=np.empty(room, np.uint32),
        )
        size = 1 << int(2 * min(longest, cells.MAX_ROW_FEATURES + 1)).bit_length()
        seen, stamps = np.empty(size, np.uint64), np.zeros(size, np.int64)
        text_columns.fill_words(table, arrays, self.rows, self.lists, self.slots, seen, stamps, self.wrong)

    @property
    def _plain(self) -> bool:
        """True if each row has exactly one feature per slot, of value 1, and no crosses."""
        return len(self.slots.values) == 0 and len(self.slots.word_ends) == len(self.arrays.terms) == 0

    def _count(self) -> tuple[int, bool]:
        """Return the number of features, and whether there are bad rows: those with too many words or features."""
        if self._plain:
            return self.slots.keys.size, False
        total, self.longest, wrong = row_assembly.count(self.arrays, self.slots, self.rows, self.wrong)
        return total, wrong > 0

    def _assemble(self, total: int) -> None:
        n, plan, of_slots = len(self.rows), self.plan, self.plan._slot_groups
        self.indices = np.empty(total, plan._key)
        self.groups: np.ndarray | None = None
        if self._plain:
            self.indptr = np.arange(n + 1) * self.arrays.width
            self.values = all_ones(total, plan._dtype)
            row_assembly.transpose(self.slots.keys, plan._key.type(self.arrays.mask), self.indices)
            self.groups = None if of_slots is None else np.tile(of_slots, n)
        else:
            self.indptr, self.values = np.empty(n + 1, np.int64), np.empty(total, plan._dtype)
            self.groups = None if of_slots is None else np.zeros(total, np.uint8)
            self._rows_with(np.empty((0, 2 * self.arrays.parts), np.int32))

    def _rows_with(self, origins: np.ndarray) -> None:
        rows = self.indptr, self.indices, self.values
        slot_groups = self.plan._slot_groups
        of_slots, groups = (NONE, NONE) if slot_groups is None or self.groups is None else (slot_groups, self.groups)
        row_assembly.assemble(self.arrays, self.slots, self.longest, *rows, origins, of_slots, groups)

    def _new_names(self) -> NewNames | None:
        """Return the features that have no name yet; None if there are none, or if names are not collected."""
        plan, arrays, table, take = self.plan, self.arrays, self.columns.table, self.plan.scratch.take
        reported = known_features(plan._names, plan._numbering, arrays.exact)
        if not len(reported):
            return None
        places = take("places", len(self.indices), np.int64)
        count = new_names.unnamed(self.indices, reported, places)
        if not count:
            return None
        places = places[:count]
        if self._plain:
            origins = np.zeros((count, 2), np.int32)
            origins[:, 0] = places % arrays.width
        else:
            origins = np.empty((len(self.indices), 2 * arrays.parts), np.int32)
            self._rows_with(origins)
            origins = origins[places]
        rows = self.rows[np.searchsorted(self.indptr, places, side="right") - 1]
        parts = origins.shape[1] // 2
        spans = take("spans", (count, 4 * parts), np.int64)
        spare = take("spare", parts * cells.CELL_PADDING_BYTES * count, np.uint8)
        new_names.name_places(table, arrays, self.numbers, self.lists, self.slots, rows, origins, spans, spare)
        text = np.empty(int((spans[:, 3::4] - spans[:, 2::4]).sum()), np.uint8)
        new_names.copy_names(spans, text)
        return NewNames(self.indices[places], spans.astype(np.int32), text, arrays.prefix_text, b"=")

    def _kinds(self) -> Counter[str]:
        """Return the number of bad rows of each kind."""
        codes, first, often = np.unique(self.wrong, return_index=True, return_counts=True)
        counts: Counter[str] = Counter()
        for code, row, count in zip(codes.tolist(), first.tolist(), often.tolist(), strict=True):
            if code:
                counts[kind_of(self._describe(row).reason)] += count
        return counts

    def _describe(self, row: int) -> BadLine:
        column, what = divmod(int(self.wrong[row]), 16)
        columns, line = self.columns, int(self.columns.lines[row])
        if what == cells.TOO_MANY_FEATURES:
            return BadLine(line, 0, _WHAT[what])
        name, text = self.plan.columns[column].name, columns.text(row, column)
        what_was_expected = _WHAT[what].format(name=name, text=text, label=self.plan._label)
        return BadLine(line, columns.place(row, column), what_was_expected)
