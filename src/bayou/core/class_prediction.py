"""What a learner of several classes says of examples: a probability, a score and an interval for each class.

The score of a class is its log-odds against all others, N(mean, variance), from which its probability comes as that of
two classes does (`prediction`). Classes that a learner does not know cannot be told apart: where more may join,
`unseen` is what is reserved for all of them together, and `probability` is that of each known one if it is one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bayou.core.arrays import per_row
from bayou.core.errors import BadInput
from bayou.core.prediction import Prediction, ScoreRule, Scores


def class_names(labels: Iterable[float], called: Sequence[str]) -> list[str]:
    """What classes are called, by their labels: the names of 0, 1, 2 and so on are given, all others are numbers.

    >>> class_names([1.0, 0.0, 7.0], ["ham", "spam"])
    ['spam', 'ham', '7']
    """
    known = range(len(called))
    return [called[int(label)] if label in known else f"{label:g}" for label in labels]


class ClassScores(NamedTuple):
    """What is answered for each row and class; 0 of classes that were not known then."""

    expected: np.ndarray
    mean: np.ndarray
    variance: np.ndarray | None
    unseen: np.ndarray  # of each row

    @classmethod
    def joined(cls, parts: list[ClassScores]) -> ClassScores:
        """Of rows one after another, among which classes may have joined."""
        width = max(part.expected.shape[1] for part in parts)

        def together(name: str) -> Any:
            arrays = [getattr(part, name) for part in parts]
            if arrays[0] is None or arrays[0].ndim == 1:
                return None if arrays[0] is None else np.concatenate(arrays)
            return np.concatenate([np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in arrays])

        return cls(*map(together, cls._fields))


class BestClass(NamedTuple):
    """The most probable class of each row; an array each, None for what a learner without a posterior does not know."""

    column: np.ndarray  # where it stands among the classes
    probability: np.ndarray
    mean: np.ndarray  # of its log-odds
    variance: np.ndarray | None
    low: np.ndarray | None  # of the interval of its probability
    high: np.ndarray | None


@dataclass(frozen=True)
class ClassPrediction:
    """A learner's belief about the classes of some examples; arrays have shape (rows, classes).

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
        """The probability of each class; those of a row add up to 1."""
        return self._scores.expected

    @property
    def expected(self) -> np.ndarray:
        """The probabilities, which are what `learn` answers with."""
        return self._scores.expected

    @property
    def unseen(self) -> np.ndarray:
        """What is reserved for classes that were never met; 0 where none may join."""
        return self._scores.unseen

    @property
    def mean(self) -> np.ndarray:
        """The mean of each class's log-odds."""
        return self._scores.mean

    @property
    def variance(self) -> np.ndarray:
        """How unsure the learner is of them."""
        return self._shaped(self._flat.variance)

    @property
    def variances(self) -> np.ndarray | None:
        """The same, None where it does not know."""
        return self._scores.variance

    @property
    def noise(self) -> np.ndarray:
        return self._flat.noise

    @property
    def log_odds(self) -> np.ndarray:
        """ln P/(1 - P) of each class; an unsure score is worth less, so they are closer to 0 than its mean."""
        return self._shaped(self._flat.log_odds)

    @property
    def best_index(self) -> np.ndarray:
        """The column of the most probable class of each row."""
        if not len(self.labels):
            raise BadInput("no class is known yet, so none is the most probable one; learn some examples first.")
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
        """(low, high): each class's probability lies between them with posterior probability `level`."""
        low, high = self._flat.interval(level)
        return self._shaped(low), self._shaped(high)

    def chance_of(self, labels: Any) -> np.ndarray:
        """The probability that each row's own label had, what is reserved for unseen ones where it was unknown.

        >>> from bayou import Batch
        >>> from bayou.learners import Classes
        >>> batch = Batch.from_rows([{}, {}], labels=[4, 4])
        >>> Classes(n_features=8, learner="marginal").observe(batch).chance_of([4, 4])
        array([1. , 0.5])
        """
        labels = per_row(labels, len(self.unseen), "label")
        if labels is None:
            raise BadInput("give the labels of the rows, one each.")
        found = np.full(len(labels), 0.0)
        for column, label in enumerate(self.labels.tolist()):
            found = np.where(labels == label, self._scores.expected[:, column], found)
        return np.where(found > 0.0, found * (1.0 - self.unseen), self.unseen)

    def take(self, rows: np.ndarray) -> ClassPrediction:
        """Of these rows alone."""
        parts: Any = (None if part is None else part[rows] for part in self._scores)
        return replace(self, _scores=ClassScores(*parts))

    def of_full_stream(self, negative_rate: float) -> ClassPrediction:
        """The same: of several classes none is the negative one, so none can have been thinned out."""
        if negative_rate != 1.0:
            raise BadInput("of several classes none is the negative one; leave the rate of negatives out.")
        return self

    def of_data_as_learned(self) -> ClassPrediction:
        return self
