"""Files of predictions, written as they come: CSV and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayou.outputs.prediction_table import CLASS, PredictionRows
from bayou.outputs.text import csv, header

TAG = "tag"


class Table:
    """Rows of predictions. The first ones decide whether there is a column for tags, if nothing was said."""

    def __init__(self, file: Any, columns: Sequence[str], tags: bool | None) -> None:
        self._file, self._tags = file, tags
        self._columns = columns
        self._rows = self._left_out = 0

    def write(self, rows: PredictionRows, tags: Sequence[str] | None) -> None:
        count = rows.numbers.shape[1]
        if self._tags is None:
            self._tags = tags is not None and any(tags)
        self._rows += count
        if not self._tags:
            self._left_out += sum(map(bool, tags or ()))
        self._write(rows, (tags or [""] * count) if self._tags else None)

    @property
    def _names(self) -> list[str]:
        return [*self._columns, TAG] if self._tags else list(self._columns)

    def _write(self, rows: PredictionRows, tags: Sequence[str] | None) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError

    def summary(self, out: str) -> list[str]:
        said = [] if out == "-" else [f"{self._rows:,} predictions are in {out}"]
        if self._left_out:
            said.append(f"{self._left_out:,} examples have a tag, but the first have none; --tags writes them")
        return said


class Csv(Table):
    """Numbers with nine significant digits."""

    _begun = False

    def _write(self, rows: PredictionRows, tags: Sequence[str] | None) -> None:
        self._begin()
        self._file.write(csv(rows.numbers, tags, rows.classes))

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._file.write(header(self._names))

    def end(self) -> None:
        self._begin()


class Parquet(Table):
    """Some hundred thousand rows are collected, then written: enough to compress well, few enough for any memory."""

    ROWS = 1 << 18

    def __init__(self, file: Any, columns: Sequence[str], tags: bool | None) -> None:
        super().__init__(file, columns, tags)
        self._several = CLASS in self._columns
        self._begin()
        self._writer: Any = None

    def _begin(self) -> None:
        self._waiting = [np.empty((len(self._columns) - self._several, 0))]
        self._waiting_classes: list[str] = []
        self._waiting_tags: list[str] = []
        self._n_waiting = 0

    def _write(self, rows: PredictionRows, tags: Sequence[str] | None) -> None:
        self._waiting.append(rows.numbers)
        self._waiting_classes += rows.classes or ()
        self._waiting_tags += tags or ()
        self._n_waiting += rows.numbers.shape[1]
        if self._n_waiting >= self.ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._writer is None:
            texts = [CLASS] * self._several + [TAG] * bool(self._tags)
            schema = pa.schema([(name, pa.string() if name in texts else pa.float64()) for name in self._names])
            # Hardly any number comes twice: a dictionary of them would be work for nothing.
            self._writer = pq.ParquetWriter(self._file, schema, use_dictionary=texts or False)
        columns = [pa.array(self._waiting_classes, pa.string())] if self._several else []
        columns += [pa.array(row) for row in np.concatenate(self._waiting, axis=1)]
        columns += [pa.array(self._waiting_tags, pa.string())] if self._tags else []
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._writer.schema))
        self._begin()

    def end(self) -> None:
        self._flush()
        self._writer.close()
