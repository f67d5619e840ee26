"""Inspection of learners: parameters, size and weights."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from bayou.core import model_file, registry
from bayou.core.batch import MAX_FEATURES
from bayou.core.checks import check_choice, check_int
from bayou.core.errors import BadInput
from bayou.core.prediction import Weights, WeightView, WeightViewPart, no_posterior
from bayou.core.storage import StorageMixin
from bayou.core.validation import feature_numbers

VIEWS = {"model": False, "associated": True}


class InspectionMixin(StorageMixin):
    """Base class of `Learner` with its properties that need no batch."""

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
    def has_posterior(self) -> bool:
        """True if the learner has a posterior, and so variances and intervals."""
        return self.record.posterior

    @property
    def n_features(self) -> int:
        return self._n_features

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments, including defaults."""
        return copy.deepcopy(self._parameters)

    @property
    def examples(self) -> int:
        """Number of examples learned from, without those of weight 0."""
        return self._examples

    @property
    def negative_label(self) -> int | None:
        """The value of negative labels in this learner's stream, -1 or 0; None before the first."""
        return self._negative

    @property
    def negative_rate(self) -> float:
        """The fraction of the full stream's negatives that the data contain, from the recipe; 1 without one."""
        return 1.0 if self.extras.recipe is None or self._is_regression else self.extras.recipe.negative_rate

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the learner takes once all weights are touched."""
        return self._nbytes_for(self._n_features)

    @classmethod
    def memory_for(cls, n_features: int, **parameters: Any) -> int:
        """Return the bytes that `cls(n_features, **parameters)` takes once all weights are touched, without making it.

        >>> from bayou.learners import Marginal
        >>> Marginal.memory_for(2**30) // 2**30  # GiB: a mean and a precision in float32 for each weight
        8
        """
        # A learner with one weight shows what each weight takes.
        alike: dict[str, Any] = {k: v[:1] if isinstance(v, np.ndarray) else v for k, v in parameters.items()}
        return cls(n_features=1, **alike).nbytes_for(check_int("n_features", n_features, 1, MAX_FEATURES))

    def nbytes_for(self, n_features: int) -> int:
        """Return the bytes that a learner like this one would take with `n_features` weights."""
        return self._nbytes_for(check_int("n_features", n_features, 0))

    def _nbytes_for(self, n_features: int) -> int:
        arrays = self._arrays()
        per_feature = sum(arrays.pop(name)[:1].nbytes for name in self._per_feature_arrays)
        return sum(array.nbytes for array in arrays.values()) + n_features * per_feature

    @property
    def touched(self) -> np.ndarray:
        """The features whose state differs from the prior, in ascending order."""
        with self._lock:
            arrays = self._arrays()
            return model_file.nonzero_rows(*(arrays[name] for name in self._per_feature_arrays))

    @property
    def mean(self) -> np.ndarray:
        """The means of all weights, a copy."""
        with self._lock:
            return np.array(self._mean_at(slice(None)))

    @property
    def variance(self) -> np.ndarray:
        """The variances of all weights, a copy."""
        if not self.has_posterior:
            raise no_posterior(self.name)
        with self._lock:
            return np.array(self._variance_at(slice(None)))

    def weights_at(self, features: Any) -> Weights:
        """Return the weights of some features: means, and variances and intervals if there is a posterior.

        >>> from bayou.learners import Marginal
        >>> low, high = Marginal(n_features=10).weights_at([3, 7]).interval(0.9)
        >>> low.round(3), high.round(3)
        (array([-1.645, -1.645]), array([1.645, 1.645]))
        """
        features = feature_numbers(features, self._n_features)
        with self._lock:
            mean = np.array(self._mean_at(features), np.float64)
            variance = np.array(self._variance_at(features), np.float64) if self.has_posterior else None
        return Weights(mean, variance)

    def covariance(self, features: Any) -> np.ndarray:
        """Return the joint covariance of some features' weights.

        It is diagonal for learners whose posterior is. A bank with a head has a joint posterior of the features used
        most; with any other feature they share only the uncertainty about the common scale of all weights.

        >>> from bayou.learners import Marginal
        >>> Marginal(n_features=10, prior_variance=4.0).covariance([3, 7]).tolist()
        [[4.0, 0.0], [0.0, 4.0]]
        """
        if not self.has_posterior:
            raise no_posterior(self.name)
        features = feature_numbers(features, self._n_features)
        with self._lock:
            return self._covariance_at(features)

    def contrast(self, features: Any, weights: Any) -> Weights:
        """Return mean and variance of a linear combination of weights: with 1 and -1, of a difference.

        >>> from bayou.learners import Marginal
        >>> difference = Marginal(n_features=10).contrast([3, 7], [1, -1])
        >>> float(difference.mean), float(difference.variance)
        (0.0, 2.0)
        """
        features, factors = feature_numbers(features, self._n_features), np.asarray(weights, np.float64)
        if factors.shape != features.shape or not np.isfinite(factors).all():
            raise BadInput(f"a contrast of {features.size} features needs as many finite weights, one for each.")
        with self._lock:
            mean = self.weights_at(features).mean @ factors
            variance = factors @ self._covariance_at(features) @ factors if self.has_posterior else None
        return Weights(mean, variance)

    def _covariance_at(self, features: np.ndarray) -> np.ndarray:
        """Return the joint covariance of some weights. Override where the posterior is not diagonal."""
        variance = np.array(self._variance_at(features), np.float64)
        return np.where(features[:, None] == features, variance, 0.0)

    def weight_view(self, features: Any, view: str = "model", squares: np.ndarray | None = None) -> WeightView:
        """Return weights and the intercept for display, with the components that their variances come from.

        Args:
            features: indices of the features.
            view: "model" for the weights that predict, or, for the bank, "associated" for the association with the
                labels so far, as its most careful lane learned it, whether or not it is expected to last.
            squares: if `features` are all that were seen, the mean squares of their values over all rows, from which
                the bank derives the uncertainty of its lanes.
        """
        associated = check_choice("view", view, VIEWS)
        features = feature_numbers(features, self._n_features)
        with self._lock:
            return (self._associated if associated else self._reading)(features, squares)

    def _reading(self, features: np.ndarray, squares: np.ndarray | None) -> WeightView:
        weights, intercept = self.weights_at(features), self.intercept
        return WeightView(
            weights.mean, intercept[0], [WeightViewPart(1.0, weights, intercept)] if self.record.posterior else []
        )

    def _associated(self, features: np.ndarray, squares: np.ndarray | None) -> WeightView:
        raise BadInput(f"{self.name} models have one view of their weights; only the bank has another.")

    @property
    def intercept(self) -> tuple[float, float]:
        """Mean and variance of the intercept: (0, 0) without an intercept; the variance is NaN without a posterior."""
        with self._lock:
            return self._intercept() if self._has_intercept else (0.0, 0.0)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{key}={'array' if isinstance(value, np.ndarray) else repr(value)}"
            for key, value in self._parameters.items()
        )
        return f"{type(self).__name__}({shown})"
