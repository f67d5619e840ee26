"""Writers of prediction files (CSV and Parquet), which work in a separate thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from bayou.core.arrow import pa, pq
from bayou.core.spelling import option
from bayou.core.threads import SerialExecutor
from bayou.outputs.prediction_table import CLASS, PredictionRows
from bayou.outputs.text import csv, csv_fragments, header

if TYPE_CHECKING:
    from bayou.outputs.explanations import Explanations  # loads the learners that it explains

TAG = "tag"


class PredictionChunk(NamedTuple):
    """Predictions of some examples, with their tags, the kept columns of the data, and explanations."""

    rows: PredictionRows
    tags: Sequence[str] | None = None
    kept: pa.Table | None = None
    explained: Explanations | None = None

    def __len__(self) -> int:
        return int(self.rows.numbers.shape[1])

    def texts(self) -> list[Sequence[str]]:
        """Return the text columns that precede the numbers."""
        columns = [] if self.kept is None else [_as_text(column) for column in self.kept.columns]
        return [*columns, *([] if self.rows.classes is None else [self.rows.classes])]

    def trailing_text_columns(self, tags: bool | None) -> list[Sequence[str]]:
        """Return the columns that follow the numbers, as text."""
        extra = [] if self.explained is None else self.explained.columns()
        texts = [[f"{x:.9g}" for x in column] if isinstance(column, np.ndarray) else column for column in extra]
        return [*texts, *([self.tags or [""] * len(self)] if tags else [])]

    def table(self, columns: Sequence[str], tags: bool) -> pa.Table:
        """Return everything as an Arrow table; `columns` are the names of the predicted columns."""
        columns_by_name = {} if self.kept is None else dict(zip(self.kept.column_names, self.kept.columns, strict=True))
        values, classes = self.rows.numbers, self.rows.classes
        predicted = [*([] if classes is None else [pa.array(classes, pa.string())]), *map(pa.array, values)]
        predicted += [] if self.explained is None else map(pa.array, self.explained.columns())
        columns_by_name |= dict(zip(columns, predicted, strict=True))
        if tags:
            columns_by_name[TAG] = pa.array(self.tags or [""] * len(self), pa.string())
        return pa.table(columns_by_name)


class PredictionWriter:
    """Base class of the writers. If `tags` is None, the first rows decide whether there is a column for tags.

    with CsvPredictionWriter(file, columns, None) as table:
        for part in parts:
            table.write(part)
        table.end()

    Rows are encoded and written in a separate thread, in order; an error there is raised by a later `write`, or by
    `end`. After the `with` block the thread no longer writes to the file.
    """

    AHEAD = 3  # the most parts waiting to be written

    def __init__(self, file: Any, columns: Sequence[str], tags: bool | None, keep: Sequence[str] = ()) -> None:
        self._file, self._tags = file, tags
        self._columns, self._keep = columns, keep
        self._rows = self._left_out = 0
        self._turn = SerialExecutor("writer", self.AHEAD)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._turn.__exit__(*error)

    def write(self, chunk: PredictionChunk) -> None:
        if self._tags is None:
            self._tags = chunk.tags is not None and any(chunk.tags)
        self._rows += len(chunk)
        if not self._tags:
            self._left_out += sum(map(bool, chunk.tags or ()))
        self._turn.submit(self._write, chunk)

    def end(self) -> None:
        self._turn.submit(self._end)
        self._turn.drain_and_raise()

    def _write(self, chunk: PredictionChunk) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError

    def summary(self, out: str) -> list[str]:
        sentences = [] if out == "-" else [f"{self._rows:,} predictions are in {out}"]
        if self._left_out:
            sentences.append(
                f"{self._left_out:,} examples have a tag, but the first have none; use {option('tags')} to write them"
            )
        return sentences


class CsvPredictionWriter(PredictionWriter):
    """Writer of CSV, with nine significant digits."""

    _begun = False

    def _write(self, chunk: PredictionChunk) -> None:
        self._begin()
        last, first = csv_fragments(chunk.trailing_text_columns(self._tags)), csv_fragments(chunk.texts())
        self._file.write(csv(chunk.rows.numbers, last, first))

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._file.write(header([*self._keep, *self._columns, *([TAG] if self._tags else [])]))

    def _end(self) -> None:
        self._begin()


class ParquetPredictionWriter(PredictionWriter):
    """Writer of Parquet, in row groups of at least ROWS rows: enough to compress well, few enough for any memory."""

    ROWS = 1 << 18

    def __init__(self, file: Any, columns: Sequence[str], tags: bool | None, keep: Sequence[str] = ()) -> None:
        super().__init__(file, columns, tags, keep)
        self._group: list[pa.Table] = []
        self._writer: Any = None

    def _write(self, chunk: PredictionChunk) -> None:
        self._group.append(chunk.table(self._columns, bool(self._tags)))
        if sum(table.num_rows for table in self._group) >= self.ROWS:
            self._flush()

    def _flush(self) -> None:
        table = pa.concat_tables(self._group, promote_options="permissive") if self._group else self._nothing()
        if self._writer is None:
            # Numbers hardly ever repeat, so a dictionary of them would not pay.
            text_names = [field.name for field in table.schema if not pa.types.is_floating(field.type)]
            self._writer = pq.ParquetWriter(self._file, table.schema, use_dictionary=text_names or False)
        self._writer.write_table(table.cast(self._writer.schema))
        self._group = []

    def _nothing(self) -> pa.Table:
        names = [*self._keep, *self._columns, *([TAG] if self._tags else [])]
        return empty_table(names, self._keep)

    def _end(self) -> None:
        self._flush()
        self._writer.close()


def _as_text(column: pa.ChunkedArray) -> list[str]:
    try:
        column = column.cast(pa.string())
    except pa.ArrowException:  # lists and the like
        return ["" if value is None else str(value) for value in column.to_pylist()]
    return [value or "" for value in column.to_pylist()]


def empty_table(names: Sequence[str], keep: Sequence[str] = ()) -> pa.Table:
    """Return a table with these columns and no rows."""
    from bayou.outputs.explanations import WHY

    text_names = {*keep, CLASS, TAG, *(name for name in names if name.startswith(WHY))}
    return pa.table({name: pa.array([], pa.string() if name in text_names else pa.float64()) for name in names})
