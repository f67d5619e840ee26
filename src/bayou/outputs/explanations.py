"""Explanations of scores: the features that moved a row's score furthest from that of the average row.

A linear score is a sum, and so is its difference between a row x and the mean row E[x]:

    score(x) - score(E[x]) = sum_i w_i (x_i - E[x_i])

Terms are added up by column of a table: the values of a category, or a number's bin, value and slope, or a part of a
date, or a cross of columns. A constant common to all weights of a column cancels, so nothing needs to be centered.
Words of a text, and features of data without columns, are listed one by one; those that a row lacks are in `others`.
The average row is over the rows that the model has counted (`recipe.feature_counts`).

A bank's log-odds are a sum over lanes, each divided by a root that grows with the lane's variance for the row. A
feature moves them by its weights, and by its part of the variances in the roots (`row_coefficients`). For multiclass
models the score is that of the predicted class minus the mean over classes, and so are the terms, each class's from its
own learner.

`others` is the rest of score(x) - score(E[x]): all other terms, and effects that are not additive: almost none for a
bank, and otherwise those of stacking several classes, or of clipping regression predictions to the labels so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.core.learner import Learner
from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.top_k import insert
from bayou.learners.bank import Bank
from bayou.learners.bank.linearization import MeanRowWeights, mean_row_log_odds, row_coefficients, row_weights
from bayou.learners.bank.pair_explanations import PAIR, explain_pairs
from bayou.learners.classes import Classes
from bayou.outputs.features import AND, SeenFeatures, seen_features
from bayou.recipe.recipe import DATE_PARTS, Column
from bayou.sources.table.features import CLIP

MAX_EXPLAINED = 100
WHY, BY, OTHERS = "why", "by", "others"
# Of a column's features in a row, the most informative is shown: these kinds come last.
_TELLS_LESS = {"bin": 1, "slope": 2}
# The most weights to cache.
_KEPT = 1 << 25
_NOTHING = -1


def columns_of_explanations(n_terms: int) -> tuple[str, ...]:
    """Return the names of the columns that explain a row by its `n_terms` strongest features.

    >>> columns_of_explanations(2)
    ('why1', 'by1', 'why2', 'by2', 'others')
    """
    return (*(f"{name}{k}" for k in range(1, n_terms + 1) for name in (WHY, BY)), OTHERS) if n_terms else ()


class Explanations(NamedTuple):
    """Explanations of some rows: what moved each score most, strongest first, and by how much; padded with "" and 0.

    >>> Explanations([["origin=EWR", ""]], np.array([[0.5, 0.0]]), np.array([0.1, 0.0])).columns()[0]
    ['origin=EWR', '']
    """

    why: list[list[str]]
    by: np.ndarray
    others: np.ndarray

    def columns(self) -> list[Sequence[str] | np.ndarray]:
        """Return the values of `columns_of_explanations`."""
        return [*(column for pair in zip(self.why, self.by, strict=True) for column in pair), self.others]


class _Terms(NamedTuple):
    """The terms of a learner's score: one weight per feature; for a bank, two per feature and lane."""

    weights: np.ndarray  # (features, terms): first those of values, then those of their squares
    base: np.ndarray  # (terms, columns): contribution of a column of which a row has no feature
    bank: MeanRowWeights | None  # for banks only


class Explainer:
    """Explainer of a learner's scores; recipe, names and uses are those of `extras`, by default its own.

    >>> import pyarrow as pa
    >>> import bayou
    >>> from bayou import sources
    >>> flights = pa.table({"origin": ["EWR", "JFK"] * 500, "late": [1, 0, 0, 0] * 250})
    >>> learner = bayou.train(flights, label="late", learner="marginal").learner
    >>> explainer = Explainer(learner, 1)
    >>> (batch,) = sources.open(flights, extras=learner.extras)
    >>> why, by, others = explainer.explain(batch, learner.predict(batch))
    >>> why[0][:2], bool(by[0, 0] > 0 > by[0, 1]), bool(abs(others).max() < 1e-6)
    (['origin=EWR', 'origin=JFK'], True, True)
    """

    def __init__(self, learner: Learner, n_terms: int = 3, extras: Extras | None = None) -> None:
        frame = seen_features(learner, extras)
        if frame.moments is None:
            raise BadInput(
                "the model does not know the average row, which explanations compare with: only bayou train and "
                "bayou.train count how often features occur; train it with one of them."
            )
        self._learner, self._frame, self._most, self._mean = learner, frame, n_terms, frame.moments.mean
        self._moments = np.stack([frame.moments.mean, frame.moments.square], axis=1)
        self._columns = {column.name: column for column in (frame.recipe and frame.recipe.columns) or ()}
        self._group, self._called = _groups(frame, self._columns)
        self._width = len(self._called) + 1
        tells_less = [sum(_TELLS_LESS.get(component, 0) for component in kind.split(AND)) for _, kind in frame.families]
        self._tells_less = np.array([*tells_less, 0])[frame.family]
        self._terms: dict[int, _Terms] = {}
        self.score = "log_odds"  # the explained attribute of predictions
        if isinstance(learner, Classes):
            self._learners = list(learner.learners)
            self._averages = np.array([self._average_of(k) for k in range(len(self._learners))])
            self._averages -= self._averages.mean()
        else:
            self._learners = [learner]
            self.score = learner.weight_view(frame.features[:0]).score
            self._averages = np.array([self._average_of(0)])

    @property
    def average(self) -> float | None:
        """Score of the average row; None for multiclass models, where each class has its own."""
        if isinstance(self._learner, Classes):
            return None
        return float(self._averages[0]) + self._learner.score_rule.shift(self._learner.negative_rate)

    def explain(self, batch: Batch, predicted: Any) -> Explanations:
        """Return the explanations of a batch, given the learner's predictions of it."""
        predicted = predicted.without_sampling_correction()
        if isinstance(self._learner, Classes):
            best, log_odds = predicted.best_index, predicted.log_odds
            score = log_odds[np.arange(len(batch)), best] - log_odds.mean(axis=1)
        else:
            best, attribute = np.zeros(len(batch), np.int64), self.score
            # Regression predictions are clipped to the range of labels; the effect is part of `others`.
            score = predicted.expected if self._learner.record.task == "regression" else getattr(predicted, attribute)
        names, by = self.top_contributions(batch, best)
        return Explanations(names, by, score - self._averages[best] - by.sum(axis=0))

    def top_contributions(self, batch: Batch, classes: np.ndarray) -> tuple[list[list[str]], np.ndarray]:
        """Return the names and amounts of the largest contributions to each row's score.

        `classes`: for each row the index of the class to explain (multiclass only, else 0).
        """
        features, rows = self._frame.features, len(batch)
        slots = np.minimum(np.searchsorted(features, batch.indices), max(len(features) - 1, 0))
        slots = np.where(features[slots] == batch.indices, slots, _NOTHING) if len(features) else slots - 1
        amounts, base = self._contributions(batch, slots, classes)
        selected = np.empty((self._most, rows), np.int64)
        by = np.empty(selected.shape)
        _explain(batch.indptr, slots, amounts, self._group, self._tells_less, base, by, selected)
        if isinstance(self._learner, Bank) and self._learner.parameters["pairs"] is not None:
            self._explain_pairs(self._learner, batch, slots, by, selected)
        return [self._texts(terms, slots, batch) for terms in selected], by

    def _explain_pairs(self, bank: Bank, batch: Batch, slots: np.ndarray, by: np.ndarray, selected: np.ndarray) -> None:
        """Insert pairs into the explanations; a pair is named by the most informative feature of each column."""
        called = np.empty(len(slots), np.int64)
        _representatives(batch.indptr, slots, self._group, self._tells_less, called)
        terms = self._terms_of(0).bank
        assert terms is not None
        counts = row_coefficients(bank, batch, terms)[0]
        explain_pairs(bank, batch, counts, called, by, selected)

    def _contributions(self, batch: Batch, slots: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the contribution of each nonzero, and for each row those of columns it has no feature of."""
        amounts, base = np.zeros(len(slots)), np.zeros((len(batch), len(self._called)))
        placed = self._learner.placed(batch) if isinstance(self._learner, Classes) else batch
        for k, learner in enumerate(self._learners):
            terms, counts = self._terms_of(k), np.ones((len(batch), 1))
            if terms.bank is not None:
                counts = np.concatenate(row_coefficients(learner, placed, terms.bank), axis=1)
            if isinstance(self._learner, Classes):  # relative to the average class
                counts = counts * ((classes == k) - 1.0 / len(self._learners))[:, None]
            base += counts @ terms.base
            _add(batch.indptr, slots, batch.values, terms.weights, self._moments, self._group, counts, amounts)
        return amounts, base

    def _average_of(self, k: int) -> float:
        """Return the score of the mean row under one of the learners."""
        terms, learner = self._terms_of(k), self._learners[k]
        if terms.bank is not None:
            return mean_row_log_odds(learner, terms.bank)
        return float(learner.intercept[0] + self._mean @ terms.weights[:, 0])

    def _terms_of(self, k: int) -> _Terms:
        if k not in self._terms:
            if sum(terms.weights.size for terms in self._terms.values()) > _KEPT:
                self._terms.clear()
            learner, features, bank = self._learners[k], self._frame.features, None
            if isinstance(self._learner, Classes):
                features = self._learner.places(features)
            if isinstance(learner, Bank):
                bank = row_weights(learner, features, *self._moments.T)
                weights = np.concatenate([bank.mean, bank.variance], axis=1)
            else:
                weights = _that_predict(learner, features, learner.weight_view(features).mean)[:, None]
            means = [weight * self._moments[:, _value_exponent(t, weights)] for t, weight in enumerate(weights.T)]
            base = [-np.bincount(self._group + 1, mean, minlength=self._width)[1:] for mean in means]
            self._terms[k] = _Terms(weights, np.array(base), bank)
        return self._terms[k]

    def _texts(self, terms: np.ndarray, slots: np.ndarray, batch: Batch) -> list[str]:
        """Return the names of nonzeros of the batch, of pairs of them, or (below 0) of columns without a feature."""
        pairs = terms >= PAIR
        if pairs.any():
            first = np.where(pairs, batch.indptr[:-1] + terms // PAIR - 1, terms)
            left, right = (self._texts(half, slots, batch) for half in (first, np.where(pairs, terms % PAIR, _NOTHING)))
            return [AND.join(filter(None, both)) for both in zip(left, right, strict=True)]
        is_nonzero, values = terms >= 0, batch.values
        keys = np.where(is_nonzero, slots[terms] if len(slots) else _NOTHING, terms)
        value = np.where(is_nonzero, values[terms] if len(slots) else 0.0, 0.0)
        return [self._text(*pair) for pair in zip(keys.tolist(), value.tolist(), strict=True)]

    def _text(self, slot: int, value: float) -> str:
        if slot == _NOTHING:
            return ""
        if slot < 0:
            column = self._called[_NOTHING - 1 - slot]
            record = self._columns.get(column)
            # A number equal to the mean is a feature of value 0, which rows omit.
            return f"{column}=(new)" if record is None or record.role != "numeric" else f"{column}={record.centre:g}"
        name = self._frame.names[slot]
        if name is None:
            name = str(self._frame.features[slot])
        if self._group[slot] < 0:
            return name if value == 1.0 else f"{name}:{value:g}"
        record = self._columns.get(name)
        if record is None or record.role != "numeric":
            return name
        sign = "=" if abs(value) < CLIP else ">=" if value > 0 else "<="
        return f"{name}{sign}{record.centre + record.scale * value:.6g}"


def _that_predict(learner: Any, features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weights used in predictions: 0 for unselected features if only selected ones predict."""
    selects = learner.parameters.get("predictive") == "selected"
    return np.where(np.isin(features, learner.selected), weights, 0.0) if selects else np.asarray(weights, np.float64)


def _groups(frame: SeenFeatures, columns: dict[str, Column]) -> tuple[np.ndarray, list[str]]:
    """Return the column that each feature is added up with (-1 for none), and the names of these columns."""
    indices = np.full(len(frame.families) + 1, -1)
    groups: dict[str, int] = {}
    for k, (column, kind) in enumerate(frame.families):
        crossed = [columns.get(name) for name in column.split(AND)] if column not in columns else [columns[column]]
        if all(column_ is not None and column_.role != "text" for column_ in crossed):
            date_parts = [date_part for date_part in kind.split(AND) if date_part in DATE_PARTS]
            indices[k] = groups.setdefault(" ".join([column, *date_parts]), len(groups))
    return indices[frame.family], list(groups)


def _value_exponent(term: int, weights: np.ndarray) -> int:
    """Return 0 for a weight of values, 1 for a weight of their squares."""
    return int(2 * term >= weights.shape[1] > 1)


@kernel
def _add(indptr, slots, values, weights, moments, group, counts, amounts):
    """Add the contribution of every nonzero to `amounts`; without a column, relative to the mean row."""
    terms = counts.shape[1]
    first = max(terms // 2, 1)
    for row in range(counts.shape[0]):
        for k in range(indptr[row], indptr[row + 1]):
            i = slots[k]
            if i < 0:
                continue
            x = np.float64(values[k])
            square = x * x
            if group[i] < 0:
                x, square = x - moments[i, 0], square - moments[i, 1]
            total = 0.0
            for t in range(terms):
                total += counts[row, t] * weights[i, t] * (x if t < first else square)
            amounts[k] += total


@kernel
def _representatives(indptr, slots, group, tells_less, called):
    """Write to `called`, for each nonzero, the most informative nonzero of the same column in its row."""
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            called[k] = k
            if slots[k] < 0 or group[slots[k]] < 0:
                continue
            for rival in range(indptr[row], indptr[row + 1]):
                if slots[rival] >= 0 and group[slots[rival]] == group[slots[k]]:
                    rank, rival_rank = tells_less[slots[called[k]]], tells_less[slots[rival]]
                    if rival_rank < rank or (rival_rank == rank and rival < called[k]):
                        called[k] = rival


@kernel
def _explain(indptr, slots, amounts, group, tells_less, base, by, selected):
    """Fill `selected` with the terms that moved each row most, and `by` with their contributions."""
    n_terms, columns = by.shape[0], base.shape[1]
    top_contributions, representative = empty(columns, np.float64), empty(columns, np.int64)
    for row in range(base.shape[0]):
        for j in range(n_terms):
            by[j, row], selected[j, row] = 0.0, _NOTHING
        for g in range(columns):
            top_contributions[g], representative[g] = base[row, g], _NOTHING - 1 - g
        for k in range(indptr[row], indptr[row + 1]):
            i = slots[k]
            if i < 0:
                continue
            g = group[i]
            if g < 0:
                insert(by, selected, row, amounts[k], k)
            else:
                top_contributions[g] += amounts[k]
                if representative[g] < 0 or tells_less[i] < tells_less[slots[representative[g]]]:
                    representative[g] = k
        for g in range(columns):
            insert(by, selected, row, top_contributions[g], representative[g])
