"""What can be asked of a learner without a batch: its parameters, its size, its weights."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from bayou.core import model_file, registry
from bayou.core.batch import MAX_FEATURES
from bayou.core.checks import one_of, whole_number
from bayou.core.errors import BadInput
from bayou.core.prediction import Part, Reading, Weights, no_posterior
from bayou.core.storage import Stored
from bayou.core.validation import feature_numbers

VIEWS = {"model": False, "associated": True}


class Inspected(Stored):
    """The part of a `Learner` that tells of itself."""

    _n_features: int
    _has_intercept: bool
    _is_regression: bool

    def __init__(self, *, n_features: int, **parameters: Any) -> None:
        raise NotImplementedError

    def _mean_at(self, features: Any) -> np.ndarray:
        raise NotImplementedError

    def _variance_at(self, features: Any) -> np.ndarray:
        raise NotImplementedError

    def _intercept(self) -> tuple[float, float]:
        raise NotImplementedError

    @property
    def record(self) -> registry.Record:
        return registry.find(self.name)

    @property
    def posterior(self) -> bool:
        """Whether it knows how unsure it is."""
        return self.record.posterior

    @property
    def n_features(self) -> int:
        return self._n_features

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments, defaults filled in."""
        return copy.deepcopy(self._parameters)

    @property
    def examples(self) -> int:
        """How many examples were learned from; those of weight 0 do not count."""
        return self._examples

    @property
    def negative_label(self) -> int | None:
        """How this learner's stream writes a negative label, -1 or 0; None before the first."""
        return self._negative

    @property
    def negative_rate(self) -> float:
        """The share of the full stream's negatives that was learned from, as the recipe has it; 1 without one."""
        return 1.0 if self.extras.recipe is None or self._is_regression else self.extras.recipe.negative_rate

    @property
    def nbytes(self) -> int:
        """The memory that the weights take once all of them are touched."""
        return self._nbytes_for(self._n_features)

    @classmethod
    def memory_for(cls, n_features: int, **parameters: Any) -> int:
        """The bytes that `cls(n_features, **parameters)` would take once all weights are touched, without making it.

        >>> from bayou.learners import Marginal
        >>> Marginal.memory_for(2**30) // 2**30  # GiB: a mean and a precision in float32 for each weight
        8
        """
        # One weight tells what each of them takes.
        alike: dict[str, Any] = {k: v[:1] if isinstance(v, np.ndarray) else v for k, v in parameters.items()}
        return cls(n_features=1, **alike).nbytes_for(whole_number("n_features", n_features, 1, MAX_FEATURES))

    def nbytes_for(self, n_features: int) -> int:
        """The memory that a learner like this one would take with `n_features` weights."""
        return self._nbytes_for(whole_number("n_features", n_features, 0))

    def _nbytes_for(self, n_features: int) -> int:
        arrays = self._arrays()
        per_feature = sum(arrays.pop(name)[:1].nbytes for name in self._per_feature)
        return sum(array.nbytes for array in arrays.values()) + n_features * per_feature

    @property
    def touched(self) -> np.ndarray:
        """The features whose weights are no longer as the prior says, in ascending order."""
        with self._lock:
            arrays = self._arrays()
            return model_file.nonzero_rows(*(arrays[name] for name in self._per_feature))

    @property
    def mean(self) -> np.ndarray:
        """A copy of all weights' means."""
        with self._lock:
            return np.array(self._mean_at(slice(None)))

    @property
    def variance(self) -> np.ndarray:
        """A copy of all weights' variances."""
        if not self.posterior:
            raise no_posterior(self.name)
        with self._lock:
            return np.array(self._variance_at(slice(None)))

    def weights_at(self, features: Any) -> Weights:
        """What is believed of some weights: their means, variances and intervals.

        >>> from bayou.learners import Marginal
        >>> low, high = Marginal(n_features=10).weights_at([3, 7]).interval(0.9)
        >>> low.round(3), high.round(3)
        (array([-1.645, -1.645]), array([1.645, 1.645]))
        """
        features = feature_numbers(features, self._n_features)
        with self._lock:
            mean = np.array(self._mean_at(features), np.float64)
            variance = np.array(self._variance_at(features), np.float64) if self.posterior else None
        return Weights(mean, variance)

    def reading(self, features: Any, view: str = "model", squares: np.ndarray | None = None) -> Reading:
        """Weights and the intercept for people to read, with what their variances come from.

        `view` is "model" for the weights that predict, or for the bank "associated": what went with the labels so far,
        as its most careful lane learned it, whether or not that is trusted to go on. `squares`: if features are all
        that were met, the mean squares of their values over all rows, by which the bank knows how unsure its lanes are.
        """
        associated = one_of("view", view, VIEWS)
        features = feature_numbers(features, self._n_features)
        with self._lock:
            return (self._associated if associated else self._reading)(features, squares)

    def _reading(self, features: np.ndarray, squares: np.ndarray | None) -> Reading:
        weights, intercept = self.weights_at(features), self.intercept
        return Reading(weights.mean, intercept[0], [Part(1.0, weights, intercept)] if self.record.posterior else [])

    def _associated(self, features: np.ndarray, squares: np.ndarray | None) -> Reading:
        raise BadInput(f"{self.name} models have one view of their weights; only the bank has another.")

    @property
    def intercept(self) -> tuple[float, float]:
        """(mean, variance) of the intercept: (0, 0) for a learner without one, the variance NaN without a posterior."""
        with self._lock:
            return self._intercept() if self._has_intercept else (0.0, 0.0)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{key}={'array' if isinstance(value, np.ndarray) else repr(value)}"
            for key, value in self._parameters.items()
        )
        return f"{type(self).__name__}({shown})"
