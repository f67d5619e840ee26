"""Why a row's score is what it is: which features moved it most away from the score of the average row.

A linear score is a sum, and so is what sets a row x apart from the mean row E[x]:

    score(x) - score(E[x]) = sum_i w_i (x_i - E[x_i])

Terms are added up by column of a table: the values of a category, or a number's bin, value and slope, or a part of a
date, or a cross of columns. What all weights of a column have in common cancels there, so nothing needs to be centred.
Words of a text, and features of data without columns, stand for themselves, and those that a row lacks count with the
others. Weights are those of `Learner.reading`; rows are averaged over those that the model has counted (`core.uses`).

`others` is what is left of score(x) - score(E[x]). Where scores are not quite sums (a bank, several classes) what the
picture misses is in there, too. Of several classes the score is that of the predicted class less the average one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.prediction import Reading
from bayou.core.recipe import DATE_PARTS, Column, Recipe
from bayou.core.uses import Uses
from bayou.kernels.compiling import kernel
from bayou.kernels.room import empty
from bayou.learners.classes import Classes
from bayou.outputs.shown_weights import AND, Frame, frame_of
from bayou.sources.table.features import CLIP

MOST = 100
WHY, BY, OTHERS = "why", "by", "others"
# Of a column's features in a row, the one that says the most is shown: any other kind than these comes first.
_TELLS_LESS = {"bin": 1, "slope": 2}
# So many weights of classes are kept at a time.
_KEPT = 1 << 25
_NOTHING = -1


def columns_of_explanations(most: int) -> tuple[str, ...]:
    """
    >>> columns_of_explanations(2)
    ('why1', 'by1', 'why2', 'by2', 'others')
    """
    return (*(f"{name}{k}" for k in range(1, most + 1) for name in (WHY, BY)), OTHERS) if most else ()


class Explained(NamedTuple):
    """Of some rows: what moved them most, the first first, and by how much; where there is no more, "" and 0."""

    why: list[list[str]]
    by: np.ndarray
    others: np.ndarray

    def columns(self) -> list[Sequence[str] | np.ndarray]:
        """Those of `columns_of_explanations`."""
        return [*(column for pair in zip(self.why, self.by, strict=True) for column in pair), self.others]


class _Picture(NamedTuple):
    """A score as a sum."""

    weights: np.ndarray
    base: np.ndarray  # what a column adds if a row has no feature of it
    average: float


class Explainer:
    """Explains a learner's scores; recipe, names and uses are its own if not given.

    >>> import pyarrow as pa
    >>> import bayou
    >>> from bayou import sources
    >>> flights = pa.table({"origin": ["EWR", "JFK"] * 500, "late": [1, 0, 0, 0] * 250})
    >>> learner = bayou.train(flights, label="late", learner="marginal").learner
    >>> explainer = Explainer(learner, 1)
    >>> (batch,) = sources.open(flights, extras=learner.extras)
    >>> why, by, others = explainer.of(batch, learner.predict(batch))
    >>> why[0][:2], bool(by[0, 0] > 0 > by[0, 1]), bool(abs(others).max() < 1e-6)
    (['origin=EWR', 'origin=JFK'], True, True)
    """

    def __init__(
        self,
        learner: Learner,
        most: int = 3,
        *,
        recipe: Recipe | None = None,
        names: Any = None,
        uses: Uses | None = None,
    ) -> None:
        frame = frame_of(learner, recipe=recipe, names=names, uses=uses)
        if frame.moments is None:
            raise BadInput(
                "the model does not know the average row to explain scores by: how often features came is counted "
                "where bayou train or bayou.train learns; train it there."
            )
        self._learner, self._frame, self._most, self._mean = learner, frame, most, frame.moments.mean
        self._columns = {column.name: column for column in (frame.recipe and frame.recipe.columns) or ()}
        self._group, self._called = _groups(frame, self._columns)
        tells_less = [sum(_TELLS_LESS.get(one, 0) for one in kind.split(AND)) for _, kind in frame.families]
        self._tells_less = np.array([*tells_less, 0])[frame.family]
        self._pictures: dict[int, _Picture] = {}
        self.score = "log_odds"  # what of a prediction is explained
        if isinstance(learner, Classes):
            self._class_mean, self._class_intercept = np.zeros(len(frame.features)), 0.0
            for k in range(len(learner.labels)):
                own = self._reading_of(k)
                self._class_mean += own.mean / len(learner.labels)
                self._class_intercept += own.intercept / len(learner.labels)
        else:
            reading = learner.reading(frame.features, squares=frame.squares)
            self.score = reading.score
            self._pictures[0] = self._picture(reading.mean, reading.intercept)

    @property
    def average(self) -> float | None:
        """The score of the average row; of several classes each has its own, and none is told."""
        if isinstance(self._learner, Classes):
            return None
        return self._pictures[0].average + self._learner.score_rule.shift(self._learner.negative_rate)

    def of(self, batch: Batch, predicted: Any) -> Explained:
        """What the learner has predicted of some rows."""
        predicted = predicted.of_data_as_learned()
        if isinstance(self._learner, Classes):
            best, log_odds = predicted.probability.argmax(axis=1), predicted.log_odds
            score = log_odds[np.arange(len(batch)), best] - log_odds.mean(axis=1)
        else:
            best, told = np.zeros(len(batch), np.int64), self.score
            # Numbers are told no further than labels went; a cut is with the others.
            score = predicted.expected if self._learner.record.task == "regress" else getattr(predicted, told)
        why, by, average = self.moved(batch, best)
        return Explained(why, by, score - average - by.sum(axis=0))

    def moved(self, batch: Batch, classes: np.ndarray) -> tuple[list[list[str]], np.ndarray, np.ndarray]:
        """What moved rows most, by how much, and the average row's score.

        `classes`: of several, the number of the one that each row is explained by; 0 of all others.
        """
        which = np.empty((self._most, len(batch)), np.int64)
        by, average = np.empty(which.shape), np.empty(len(batch))
        features = self._frame.features
        place = np.minimum(np.searchsorted(features, batch.indices), max(len(features) - 1, 0))
        place = np.where(features[place] == batch.indices, place, _NOTHING) if len(features) else place - 1
        for k in np.unique(classes).tolist():
            picture, rows = self._picture_of(k), np.flatnonzero(classes == k)
            _explain(
                *(rows, batch.indptr, place, batch.values, picture.weights, self._mean, self._group),
                *(self._tells_less, picture.base, by, which),
            )
            average[rows] = picture.average
        return [self._texts(found, place, batch.values) for found in which], by, average

    def _picture_of(self, k: int) -> _Picture:
        if k not in self._pictures:
            if len(self._pictures) * len(self._frame.features) > _KEPT:
                self._pictures.clear()
            own = self._reading_of(k)
            self._pictures[k] = self._picture(own.mean - self._class_mean, own.intercept - self._class_intercept)
        return self._pictures[k]

    def _reading_of(self, k: int) -> Reading:
        """Of one of several classes."""
        learner, frame = self._learner, self._frame
        assert isinstance(learner, Classes)
        return learner.reading_of(learner.labels[k], frame.features, squares=frame.squares)

    def _picture(self, weights: np.ndarray, intercept: float) -> _Picture:
        terms = weights * self._mean
        base = -np.bincount(self._group + 1, terms, minlength=len(self._called) + 1)[1:]
        return _Picture(np.asarray(weights, np.float64), base, intercept + float(terms.sum()))

    def _texts(self, which: np.ndarray, place: np.ndarray, values: np.ndarray) -> list[str]:
        """What is called so: a feature of a row by its place in the batch, or behind those a column without one."""
        there = which >= 0
        found = np.where(there, place[which] if len(place) else _NOTHING, which)
        value = np.where(there, values[which] if len(place) else 0.0, 0.0)
        return [self._text(*pair) for pair in zip(found.tolist(), value.tolist(), strict=True)]

    def _text(self, place: int, value: float) -> str:
        if place == _NOTHING:
            return ""
        if place < 0:
            column = self._called[_NOTHING - 1 - place]
            known = self._columns.get(column)
            # A number that is as large as the mean is a feature of value 0, which rows leave out.
            return f"{column}=(new)" if known is None or known.role != "numeric" else f"{column}={known.centre:g}"
        name = self._frame.names[place]
        if name is None:
            name = str(self._frame.features[place])
        if self._group[place] < 0:
            return name if value == 1.0 else f"{name}:{value:g}"
        known = self._columns.get(name)
        if known is None or known.role != "numeric":
            return name
        sign = "=" if abs(value) < CLIP else ">=" if value > 0 else "<="
        return f"{name}{sign}{known.centre + known.scale * value:.6g}"


def _groups(frame: Frame, columns: dict[str, Column]) -> tuple[np.ndarray, list[str]]:
    """Which column each feature is added up with, -1 for itself, and what those are called."""
    numbers = np.full(len(frame.families) + 1, -1)
    found: dict[str, int] = {}
    for k, (column, kind) in enumerate(frame.families):
        own = [columns.get(name) for name in column.split(AND)] if column not in columns else [columns[column]]
        if all(one is not None and one.role != "text" for one in own):
            parts = [part for part in kind.split(AND) if part in DATE_PARTS]
            numbers[k] = found.setdefault(" ".join([column, *parts]), len(found))
    return numbers[frame.family], list(found)


@kernel
def _explain(rows, indptr, place, values, weights, mean, group, tells_less, base, by, which):
    """Fill by and which of some rows with what moved them most."""
    most, columns = by.shape[0], base.size
    moved, shown = empty(columns, np.float64), empty(columns, np.int64)
    for n in range(rows.size):
        row = rows[n]
        for j in range(most):
            by[j, row], which[j, row] = 0.0, _NOTHING
        for g in range(columns):
            moved[g], shown[g] = base[g], _NOTHING - 1 - g
        for k in range(indptr[row], indptr[row + 1]):
            i = place[k]
            if i < 0:
                continue
            g = group[i]
            if g < 0:
                _insert(by, which, row, weights[i] * (values[k] - mean[i]), k)
            else:
                moved[g] += weights[i] * values[k]
                if shown[g] < 0 or tells_less[i] < tells_less[place[shown[g]]]:
                    shown[g] = k
        for g in range(columns):
            _insert(by, which, row, moved[g], shown[g])


@kernel
def _insert(by, which, row, amount, item):
    """Among the largest, in their order; of equal ones the first stays."""
    j = by.shape[0]
    while j > 0 and abs(amount) > abs(by[j - 1, row]):
        j -= 1
        if j + 1 < by.shape[0]:
            by[j + 1, row], which[j + 1, row] = by[j, row], which[j, row]
    if j < by.shape[0]:
        by[j, row], which[j, row] = amount, item
