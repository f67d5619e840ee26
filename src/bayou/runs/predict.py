"""`bayou.predict`: predictions of a model as Arrow tables. `bayou predict` writes them to files.

predictions = bayou.predict("new.csv", model="m.bayou", keep=["id"])
for table in predictions: ...           # in chunks, so that memory does not grow with the data
predictions.to_pandas()                 # or all rows at once
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bayou import sources
from bayou.core import checks
from bayou.core.arrow import pa
from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.core.learner import Learner
from bayou.core.prediction import HORIZONS, ONLY_NEXT, z_score
from bayou.core.spelling import option
from bayou.core.storage import load
from bayou.core.threads import with_io_threads
from bayou.evaluate.meters import meter_for
from bayou.outputs.explanations import MAX_EXPLAINED, Explainer, Explanations, columns_of_explanations
from bayou.outputs.prediction_files import PredictionChunk, empty_table
from bayou.outputs.prediction_table import columns_of, prediction_table
from bayou.runs import warmup
from bayou.runs.batching import first_rows
from bayou.runs.kept_columns import with_columns_kept
from bayou.runs.options import Data, Note
from bayou.sources.rejected_rows import MAX_DESCRIBED_ROWS, RejectedRows


def predict(
    data: Data,
    *,
    model: str | os.PathLike[str] | Learner,
    keep: Sequence[str] = (),
    level: float = 0.95,
    quantiles: Sequence[float] = (),
    explain: int = 0,
    horizon: str = "later",
    tags: bool | None = None,
    format: str = "auto",
    on_error: str = "raise",
    threads: int | None = None,
    on_note: Callable[[Note], Any] | None = None,
) -> Predictions:
    """Predict examples, with uncertainty, as `bayou predict` does.

    Args:
        data: as for `bayou.train`; labels are not needed.
        model: a file, or a learner.
        keep: columns of the data to copy next to the predictions.
        level: probability content of the interval [low, high].
        quantiles: quantiles to predict (regression only), in columns q0.1 etc.
        explain: number of features, or columns of a table, to report per row: those that moved its score furthest from
            the average row's, in columns why1, by1 and so on, with the rest summed in `others`.
        horizon: "later" for rows that come after learning has stopped; "next" for a model that keeps learning and
            predicts only the next rows in between.
        tags: whether to add a column with the examples' tags (VW text); by default, if the first rows have any.
        format, threads: as for `bayou.train`.
        on_error: "raise" BadInput at the first bad line, or "skip" bad lines, which then have no row in the output.
        on_note: called with messages about the model; without it they are Python warnings.

    >>> import pyarrow as pa
    >>> from bayou.runs.train import train
    >>> clicks = pa.table({"site": ["a", "b"] * 50, "clicked": [1, 0] * 50})
    >>> model = train(clicks, label="clicked", learner="marginal", bits=10).learner
    >>> new = pa.table({"id": [7, 8], "site": ["b", "a"]})
    >>> predict(new, model=model, keep=["id"]).to_arrow().column_names
    ['id', 'probability', 'mean', 'variance', 'low', 'high']
    >>> predict(new, model=model, explain=1).to_arrow()["why1"].to_pylist()
    ['site=b', 'site=a']
    """
    learner = model if isinstance(model, Learner) else load(model)
    z_score(level)  # raises BadInput if invalid
    quantiles = _shares(quantiles)
    keep = list(checks.check_str_list("keep", keep, "the names of some columns"))
    explain = checks.check_int("explain", explain, 0, MAX_EXPLAINED)
    if tags is not None:
        checks.check_bool("tags", tags)
    if checks.check_choice("horizon", horizon, HORIZONS) and not learner.supports_later:
        horizon = "next"
        if on_note is None:
            warnings.warn(ONLY_NEXT, stacklevel=2)
        else:
            on_note(Note(ONLY_NEXT))
    opening = {"format": format, "on_error": on_error, "threads": threads}
    predictions = Predictions(learner, data, keep, level, quantiles, explain, tags, horizon, **opening)
    predictions.warm_up()
    return predictions


def _shares(quantiles: Sequence[float]) -> list[float]:
    """Return the probabilities of the requested quantiles. Raise BadInput if one is not between 0 and 1."""
    probabilities = checks.check_iterable("quantiles", quantiles, "probabilities")
    for probability in probabilities:
        if not checks.is_fraction(probability):
            shown_value = checks.shortened_repr(probability).removesuffix(".0")
            raise BadInput(f"{option('quantiles')} has {shown_value}; give numbers between 0 and 1, such as .1,.9.")
    return probabilities


class Predictions:
    """Lazy predictions of a model: an iterable of Arrow tables, each computed when it is requested.

    Attributes:
        columns: names of the predicted columns, without kept columns and tags.
        source: the source of the examples.
        explains: the explained quantity, "mean" or "log_odds" of each prediction; None without explanations.
        average: that quantity for the average row; None without explanations, and for multiclass models.
        evaluation: evaluation of the predictions so far, if there are labels.
        skipped: number of bad lines and of rows that the learner rejected; bad_lines: messages for the first few.

    >>> import pyarrow as pa
    >>> from bayou.runs.train import train
    >>> clicks = pa.table({"site": ["a", "b"] * 50, "clicked": [1, 0] * 50})
    >>> model = train(clicks, label="clicked", learner="marginal", bits=10).learner
    >>> predictions = predict(pa.table({"site": ["a", "b"]}), model=model)
    >>> [table.num_rows for table in predictions], predictions.skipped
    ([2], 0)
    """

    def __init__(
        self,
        learner: Learner,
        data: Data,
        keep: list[str],
        level: float,
        quantiles: Sequence[float],
        explain: int,
        tags: bool | None,
        horizon: str,
        **opening: Any,
    ) -> None:
        self._learner, self._level, self._quantiles, self._tags = learner, level, quantiles, tags
        self._horizon, self._kept = horizon, None
        self.columns = columns_of(learner, quantiles) + columns_of_explanations(explain)
        self._explainer = Explainer(learner, explain) if explain else None
        self.explains = None if self._explainer is None else self._explainer.score
        self.average = None if self._explainer is None else self._explainer.average
        if keep:
            data = self._kept = with_columns_kept(data, keep, opening["format"])
        self.source = sources.open(
            data,
            extras=Extras.of(learner),
            labels=False,
            tags=tags is not False,
            dtype=learner.parameters["dtype"],
            groups=learner.wants_groups,
            **opening,
        )
        self._begin()

    def _predict(self, batch: Batch) -> Any:
        with with_io_threads():
            return self._learner.predict(batch, horizon=self._horizon)

    def _begin(self) -> None:
        self._meter = meter_for(self._learner.record.task)
        self._refused = RejectedRows(self.source)

    def warm_up(self) -> None:
        """Load or compile every kernel by predicting the first few rows, so that timings exclude it."""
        batch = first_rows(self.source)
        with contextlib.suppress(BadInput):  # reported when these rows are predicted
            predicted = self._predict(batch)
            rows = prediction_table(self._learner, predicted, self._level, self._quantiles)
            warmup.writing(self._learner, predicted, PredictionChunk(rows, explained=self._explained(batch, predicted)))

    def parts(self) -> Iterator[PredictionChunk]:
        """Yield the predictions as arrays, batch by batch."""
        self._begin()
        for unchecked in self.source:
            for _, batch, predicted in self._refused.accepted(unchecked, self._predict):
                table = prediction_table(self._learner, predicted, self._level, self._quantiles)
                if batch.labels is not None:
                    self._meter.add_prediction(predicted, batch.labels, batch.weights)
                columns = None if self._kept is None else self._kept.kept(np.asarray(batch.positions) - 1)
                yield PredictionChunk(table, batch.tags, columns, self._explained(batch, predicted))

    def _explained(self, batch: Batch, predicted: Any) -> Explanations | None:
        return None if self._explainer is None else self._explainer.explain(batch, predicted)

    def __iter__(self) -> Iterator[pa.Table]:
        tags = self._tags
        for chunk in self.parts():
            if tags is None:
                tags = chunk.tags is not None and any(chunk.tags)
            yield chunk.table(self.columns, tags)

    def to_arrow(self) -> pa.Table:
        """Return all predictions as one Arrow table."""
        tables = list(self)
        if not tables:
            return empty_table(self.columns)
        return pa.concat_tables(tables, promote_options="permissive")

    def to_pandas(self) -> Any:
        """Return all predictions as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    @property
    def evaluation(self) -> Any:
        result = self._meter.result()
        return result if result.examples else None

    @property
    def skipped(self) -> int:
        return self.source.skipped + self._refused.count

    @property
    def bad_lines(self) -> list[str]:
        return (self.source.bad_lines + self._refused.sentences)[:MAX_DESCRIBED_ROWS]

    @property
    def error_counts(self) -> list[tuple[int, str]]:
        """Kinds of bad lines as (count, first message), most frequent first."""
        return self._refused.error_counts
