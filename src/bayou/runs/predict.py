"""`bayou.predict`: a model's predictions of data, as Arrow tables. `bayou predict` writes them to files.

predictions = bayou.predict("new.csv", model="m.bayou", keep=["id"])
for table in predictions: ...           # some rows after others, in memory that does not grow with the data
predictions.to_pandas()                 # or all of them at once
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayou import sources
from bayou.core.batch import Batch
from bayou.core.checks import is_share, one_of, several, shown, texts, whole_number, yes_or_no
from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.core.learner import Learner
from bayou.core.prediction import HORIZONS, ONLY_NEXT, reach
from bayou.core.spelling import option
from bayou.core.storage import load
from bayou.core.threads import accompanied
from bayou.evaluate.meters import meter_for
from bayou.outputs.explanations import MOST, Explained, Explainer, columns_of_explanations
from bayou.outputs.prediction_files import Part, empty_table
from bayou.outputs.prediction_table import columns_of, prediction_table
from bayou.runs import warming
from bayou.runs.kept_columns import with_columns_kept
from bayou.runs.options import Data, Note
from bayou.runs.rows import DESCRIBED, Refused, first_rows

if TYPE_CHECKING:
    import pyarrow as pa


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
    """Predict examples, and say how sure that is: what `bayou predict` does.

    Args:
        data: as `bayou.train` takes them; labels are not needed.
        model: a file, or a learner.
        keep: columns of the data to have beside the predictions.
        level: how certain it is that what is predicted lies between `low` and `high`.
        quantiles: of a number to be predicted, besides: what it lies below with these probabilities; columns q0.1 etc.
        explain: how many of the features, or columns of a table, to tell that moved each row's score most away from the
            average row's: columns why1, by1 and so on, and what all others did, `others`.
        horizon: "later" for rows that come after learning has stopped; "next" for whoever trains on again and again and
            predicts just the next rows between.
        tags: whether to have a column for the examples' tags (VW text); if not said, when the first rows have any.
        format, threads: as of `bayou.train`.
        on_error: "raise" a sentence at the first bad line, or "skip" bad lines: there is no row for them.
        on_note: called with what there is to say of the model, which is otherwise a Python warning.

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
    reach(level)  # refuses what is no level
    quantiles = _shares(quantiles)
    keep = list(texts("keep", keep, "the names of some columns"))
    explain = whole_number("explain", explain, 0, MOST)
    if tags is not None:
        yes_or_no("tags", tags)
    if one_of("horizon", horizon, HORIZONS) and not learner.looks_later:
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
    """The probabilities whose quantiles are asked for."""
    shares = several("quantiles", quantiles, "probabilities")
    for share in shares:
        if not is_share(share):
            asked = shown(share).removesuffix(".0")
            raise BadInput(f"{option('quantiles')} has {asked}; give numbers between 0 and 1, such as .1,.9.")
    return shares


class Predictions:
    """A model's predictions of some data, made as they are asked for: an iterator of Arrow tables.

    Attributes:
        columns: their names; those that are kept, and the tag, stand beside them.
        source: where the examples come from.
        explains: what is explained, "mean" or "log_odds" of each prediction; None where nothing is.
        average: that of the average row; None where nothing is explained, and of several classes.
        evaluation: how good the predictions were so far, if there are labels.
        skipped: bad lines, and rows that the learner refused; bad: the first few, as sentences.

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
        self.columns = columns_of(learner, quantiles) + columns_of_explanations(explain)
        self._explainer = Explainer(learner, explain) if explain else None
        self.explains = None if self._explainer is None else self._explainer.score
        self.average = None if self._explainer is None else self._explainer.average
        self._horizon = horizon
        self._kept = None
        if keep:
            data, self._kept = with_columns_kept(data, keep, opening["format"])
        self.source = sources.open(
            data,
            extras=Extras.of(learner),
            labels=False,
            tags=tags is not False,
            dtype=learner.parameters["dtype"],
            groups=learner.wants_groups,
            **opening,
        )
        self._keep = keep
        self._begin()

    def _predict(self, batch: Batch) -> Any:
        with accompanied():
            return self._learner.predict(batch, horizon=self._horizon)

    def _begin(self) -> None:
        self._meter = meter_for(self._learner.record.task)
        self._refused = Refused(self.source)

    def warm_up(self) -> None:
        """Load or compile every kernel by predicting the first few rows, before time is measured."""
        batch = first_rows(self.source)
        with contextlib.suppress(BadInput):  # it will be said when these rows come
            predicted = self._predict(batch)
            rows = prediction_table(self._learner, predicted, self._level, self._quantiles)
            warming.writing(self._learner, predicted, Part(rows, explained=self._explained(batch, predicted)))

    def parts(self) -> Iterator[Part]:
        """The predictions as arrays, some examples after others."""
        self._begin()
        for whole in self.source:
            for _, batch, predicted in self._refused.accepted(whole, self._predict):
                table = prediction_table(self._learner, predicted, self._level, self._quantiles)
                if batch.labels is not None:
                    self._meter.add_prediction(predicted, batch.labels, batch.weights)
                kept = None if self._kept is None else self._kept.rows(np.asarray(batch.positions))
                yield Part(table, batch.tags, kept, self._explained(batch, predicted))

    def _explained(self, batch: Batch, predicted: Any) -> Explained | None:
        return None if self._explainer is None else self._explainer.of(batch, predicted)

    def __iter__(self) -> Iterator[pa.Table]:
        tags = self._tags
        for part in self.parts():
            if tags is None:
                tags = part.tags is not None and any(part.tags)
            yield part.table(self.columns, tags)

    def to_arrow(self) -> pa.Table:
        """All of them in one table."""
        import pyarrow as pa

        tables = list(self)
        if not tables:
            return empty_table(self.columns)
        return pa.concat_tables(tables, promote_options="permissive")

    def to_pandas(self) -> Any:
        """All of them as a DataFrame of pandas."""
        return self.to_arrow().to_pandas()

    @property
    def evaluation(self) -> Any:
        result = self._meter.result()
        return result if result.examples else None

    @property
    def skipped(self) -> int:
        return self.source.skipped + self._refused.count

    @property
    def bad(self) -> list[str]:
        return (self.source.bad + self._refused.sentences)[:DESCRIBED]

    @property
    def kinds(self) -> list[tuple[int, str]]:
        """Of bad lines: how many, and the first; the commonest kind before the others."""
        return self._refused.kinds
