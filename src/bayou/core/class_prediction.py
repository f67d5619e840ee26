"""Predictions of multiclass learners: a probability, a score and an interval for each class.

The score of a class is its log-odds against all others, N(mean, variance), which gives its probability as for two
classes (`prediction`). If classes may still join, `unseen_probability` is the probability reserved for all unseen
classes together, and `probability` is that of each known class, given that the label is one of those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bayou.core.arrays import as_row_values
from bayou.core.errors import BadInput
from bayou.core.prediction import Prediction, ScoreRule, Scores


def class_names(labels: Iterable[float], called: Sequence[str]) -> list[str]:
    """Return the name of each class: called[k] for label k, or the label itself as a number if it has no name.

    >>> class_names([1.0, 0.0, 7.0], ["ham", "spam"])
    ['spam', 'ham', '7']
    """
    named = range(len(called))
    return [called[int(label)] if label in named else f"{label:g}" for label in labels]


class ClassScores(NamedTuple):
    """Scores of each row (axis 0) and class (axis 1); 0 for classes that were unknown at the time."""

    expected: np.ndarray
    mean: np.ndarray
    variance: np.ndarray | None
    unseen_probability: np.ndarray  # one per row

    @classmethod
    def concatenate(cls, parts: list[ClassScores]) -> ClassScores:
        """Return the scores of consecutive chunks as one; classes that joined later get 0 in earlier rows."""
        width = max(part.expected.shape[1] for part in parts)

        def together(name: str) -> Any:
            arrays = [getattr(part, name) for part in parts]
            if arrays[0] is None or arrays[0].ndim == 1:
                return None if arrays[0] is None else np.concatenate(arrays)
            return np.concatenate([np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in arrays])

        return cls(*map(together, cls._fields))


class BestClass(NamedTuple):
    """The most probable class of each row, one array per field; None where the learner has no posterior."""

    column: np.ndarray  # index of the class
    probability: np.ndarray
    mean: np.ndarray  # of its log-odds
    variance: np.ndarray | None
    low: np.ndarray | None  # of the interval of its probability
    high: np.ndarray | None


@dataclass(frozen=True)
class ClassPrediction:
    """The prediction of a multiclass learner for some examples; arrays have shape (rows, classes).

    Attributes:
        labels: the label of each class, in the order of the columns.

    >>> from bayou import Batch
    >>> from bayou.learners import Classes
    >>> learner = Classes(n_features=8, learner="marginal", classes=[0, 1, 2])
    >>> prediction = learner.predict(Batch.from_rows([{}]))
    >>> prediction.probability.round(3), prediction.labels
    (array([[0.333, 0.333, 0.333]]), array([0., 1., 2.]))
    >>> low, high = prediction.interval(0.95)
    >>> bool((low < 1 / 3).all() and (high > 1 / 3).all())
    True
    """

    labels: np.ndarray
    _scores: ClassScores
    _learner: str

    @property
    def _flat(self) -> Prediction:
        expected, mean, variance, _ = (None if part is None else part.ravel() for part in self._scores)
        rule = ScoreRule(predictive="plain" if variance is None else "closed")
        return Prediction(Scores(expected, mean, variance), self._learner, rule)  # type: ignore[arg-type]

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values.reshape(self._scores.expected.shape)

    @property
    def probability(self) -> np.ndarray:
        """The probability of each class; each row sums to 1."""
        return self._scores.expected

    @property
    def expected(self) -> np.ndarray:
        """The probabilities, as `learn` returns them."""
        return self._scores.expected

    @property
    def unseen_probability(self) -> np.ndarray:
        """The probability reserved for unseen classes, one per row; 0 if new classes cannot be added."""
        return self._scores.unseen_probability

    @property
    def mean(self) -> np.ndarray:
        """The mean of each class's log-odds."""
        return self._scores.mean

    @property
    def variance(self) -> np.ndarray:
        """The variance of each class's log-odds; raises NoPosterior if the learner has none."""
        return self._shaped(self._flat.variance)

    @property
    def variances(self) -> np.ndarray | None:
        """The variance of each class's log-odds, or None if the learner has no posterior."""
        return self._scores.variance

    @property
    def noise(self) -> np.ndarray:
        return self._flat.noise

    @property
    def log_odds(self) -> np.ndarray:
        """ln P/(1 - P) of each class, which is closer to 0 than the score's mean the larger its variance."""
        return self._shaped(self._flat.log_odds)

    @property
    def best_index(self) -> np.ndarray:
        """The column of the most probable class of each row."""
        if not len(self.labels):
            raise BadInput("no class is known yet, so there is no most probable one; learn some examples first.")
        return self._scores.expected.argmax(axis=1)

    @property
    def best(self) -> np.ndarray:
        """The label of the most probable class of each row."""
        return self.labels[self.best_index]

    def best_with_interval(self, level: float = 0.95) -> BestClass:
        """Return the most probable class of each row, its score, and the interval of its probability.

        >>> from bayou import Batch
        >>> from bayou.learners import Classes
        >>> learner = Classes(n_features=8, learner="marginal", classes=[4, 9])
        >>> p = learner.learn(Batch.from_rows([{0: 1.0}] * 20, labels=[9] * 20))
        >>> prediction = learner.predict(Batch.from_rows([{0: 1.0}]))
        >>> best = prediction.best_with_interval()
        >>> prediction.labels[best.column], bool(best.low[0] < best.probability[0] < best.high[0])
        (array([9.]), True)
        """
        best = self.best_index
        rows = np.arange(len(best))
        columns = [self.probability, self.mean, self.variances]
        columns += [None, None] if self.variances is None else self.interval(level)
        return BestClass(best, *(None if column is None else column[rows, best] for column in columns))  # type: ignore[arg-type]

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high), which contain each class's probability with posterior probability `level`."""
        low, high = self._flat.interval(level)
        return self._shaped(low), self._shaped(high)

    def label_probability(self, labels: Any) -> np.ndarray:
        """Return the predicted probability of each row's label; `unseen_probability` for a label of no class.

        >>> from bayou import Batch
        >>> from bayou.learners import Classes
        >>> batch = Batch.from_rows([{}, {}], labels=[4, 4])
        >>> Classes(n_features=8, learner="marginal").observe(batch).label_probability([4, 4])
        array([1. , 0.5])
        """
        labels = as_row_values(labels, len(self.unseen_probability), "label")
        if labels is None:
            raise BadInput("labels is None; pass one label per row.")
        probability = np.full(len(labels), 0.0)
        for column, label in enumerate(self.labels.tolist()):
            probability = np.where(labels == label, self._scores.expected[:, column], probability)
        return np.where(probability > 0.0, probability * (1.0 - self.unseen_probability), self.unseen_probability)

    def take(self, rows: np.ndarray) -> ClassPrediction:
        """Return the prediction of the given rows only."""
        parts: Any = (None if part is None else part[rows] for part in self._scores)
        return replace(self, _scores=ClassScores(*parts))

    def with_sampling_correction(self, negative_rate: float) -> ClassPrediction:
        """Return the prediction unchanged; raise BadInput if the rate is not 1, as no class is the negative one."""
        if negative_rate != 1.0:
            raise BadInput("with several classes, no class is the negative one; omit the rate of negatives.")
        return self

    def without_sampling_correction(self) -> ClassPrediction:
        return self
