"""One run of `bayou predict`: a learner's answers to a source, and the tables they are written to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.core.learner import Learner, Prediction
from bayou.evaluate.regression import meter_for
from bayou.outputs.prediction_table import columns_of, prediction_table
from bayou.outputs.text import csv
from bayou.sources import Source

TAG = "tag"
# So many bad lines are shown.
SHOWN = 5


def warm_up(learner: Learner, source: Source) -> None:
    """Have every kernel loaded, or compiled, by trying it on the first few rows."""
    batch = source.peek()[:64]
    with contextlib.suppress(BadInput):  # it will be said when these rows come
        predicted = learner.predict(batch)
        csv(prediction_table(learner, predicted))
        meter_for(learner.record.task).add(predicted.expected, np.ones(len(predicted.expected)))


class Predictor:
    """The answers of a learner to a source, and how good they were."""

    def __init__(self, learner: Learner, source: Source) -> None:
        self._learner, self._source, self._meter = learner, source, meter_for(learner.record.task)
        self._refused: list[str] = []
        self._n_refused = 0

    def __iter__(self) -> Iterator[tuple[np.ndarray, Sequence[str] | None]]:
        """(answers, tags) of some examples after others."""
        rate = self._source.recipe.negative_rate
        for whole in self._source:
            for batch, predicted in self._predicted(whole):
                table = prediction_table(self._learner, predicted.of_full_stream(rate))
                self._score(table[0], batch, predicted.deviation)
                yield table, batch.tags

    def _predicted(self, batch: Batch) -> Iterator[tuple[Batch, Prediction]]:
        """The batch and its predictions, without rows that the learner refuses if bad rows are skipped."""
        try:
            predicted = self._learner.predict(batch)
        except BadInput as error:
            if len(batch) > 1:
                half = len(batch) // 2
                yield from self._predicted(batch[:half])
                yield from self._predicted(batch[half:])
                return
            sentence = str(error) if batch.positions is None else f"line {batch.positions[0]}: {error}"
            if not self._source.skips:
                raise BadInput(sentence) from None
            self._n_refused += 1
            self._refused = [*self._refused, sentence][:SHOWN]
        else:
            yield batch, predicted

    def _score(self, expected: np.ndarray, batch: Batch, scatter: np.ndarray | None) -> None:
        """Where the label is known."""
        if batch.labels is None:
            return
        known = ~np.isnan(batch.labels)
        if known.all():
            self._meter.add(expected, batch.labels, batch.weights, deviations=scatter)
        elif known.any():
            scatter = None if scatter is None else scatter[known]
            self._meter.add(expected[known], batch.labels[known], batch.each_weight()[known], deviations=scatter)

    def summary(self) -> list[str]:
        """What was skipped, and what the predictions were worth."""
        said = (self._source.bad + self._refused)[:SHOWN]
        if skipped := self._source.skipped + self._n_refused:
            said.append(f"{skipped:,} bad lines were skipped; there is no row for them")
        result = self._meter.result()
        if result.examples:
            told = ", ".join(f"{name} {value:.5f}" for name, value in result.headline().items() if value is not None)
            said.append(f"of {result.examples:,} examples with a label: {told}")
        rate = self._source.recipe.negative_rate
        if rate != 1.0:
            said.append(
                f"probabilities are those of the full stream: a share of {rate:g} of its negatives was learned from"
            )
        return said


class Table:
    """Rows of answers. The first ones decide whether there is a column for tags, if nothing was said."""

    def __init__(self, file: Any, learner: Learner, tags: bool | None) -> None:
        self._file, self._tags = file, tags
        self._columns = columns_of(learner)
        self._rows = self._left_out = 0

    def write(self, rows: np.ndarray, tags: Sequence[str] | None) -> None:
        if self._tags is None:
            self._tags = tags is not None and any(tags)
        self._rows += rows.shape[1]
        if not self._tags:
            self._left_out += sum(map(bool, tags or ()))
        self._write(rows, (tags or [""] * rows.shape[1]) if self._tags else None)

    @property
    def _names(self) -> list[str]:
        return [*self._columns, TAG] if self._tags else list(self._columns)

    def _write(self, rows: np.ndarray, tags: Sequence[str] | None) -> None:
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

    def _write(self, rows: np.ndarray, tags: Sequence[str] | None) -> None:
        self._begin()
        self._file.write(csv(rows, tags))

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._file.write((",".join(self._names) + "\n").encode())

    def end(self) -> None:
        self._begin()


class Parquet(Table):
    """Some hundred thousand rows are collected, then written: enough to compress well, few enough for any memory."""

    ROWS = 1 << 18

    def __init__(self, file: Any, learner: Learner, tags: bool | None) -> None:
        super().__init__(file, learner, tags)
        self._waiting, self._waiting_tags = [np.empty((len(self._columns), 0))], [""][:0]
        self._n_waiting = 0
        self._writer: Any = None

    def _write(self, rows: np.ndarray, tags: Sequence[str] | None) -> None:
        self._waiting.append(rows)
        self._waiting_tags += tags or ()
        self._n_waiting += rows.shape[1]
        if self._n_waiting >= self.ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._writer is None:
            schema = pa.schema([(name, pa.string() if name == TAG else pa.float64()) for name in self._names])
            # Hardly any number comes twice: a dictionary of them would be work for nothing.
            self._writer = pq.ParquetWriter(self._file, schema, use_dictionary=[TAG] if self._tags else False)
        columns = [pa.array(row) for row in np.concatenate(self._waiting, axis=1)]
        columns += [pa.array(self._waiting_tags, pa.string())] if self._tags else []
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._writer.schema))
        self._waiting, self._waiting_tags, self._n_waiting = self._waiting[:1], [], 0

    def end(self) -> None:
        self._flush()
        self._writer.close()
