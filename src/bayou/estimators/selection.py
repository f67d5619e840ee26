"""Feature selection by inclusion probability, as a step of a scikit-learn pipeline."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bayou.core.checks import check_int
from bayou.core.errors import BadInput
from bayou.estimators.classifiers import SpikeSlabClassifier
from bayou.estimators.documented import estimator


@estimator
class SelectByInclusion(SelectorMixin, BaseEstimator):
    """Keep the features that a spike-and-slab model finds likely to matter, in one pass over the data.

    The model is `SpikeSlabClassifier`. With more than two classes, the inclusion probability of a feature is its
    maximum over the classes.

    Args:
        inclusion_prior, slab_variance, passes, class_weight, random_state, dtype: see `SpikeSlabClassifier`.
        threshold: features with an inclusion probability above this are kept.
        max_features: the maximum number of features to keep, the most probable ones; None sets no limit.

    Attributes:
        classifier_: the fitted `SpikeSlabClassifier`.
        inclusion_: the probability that each feature matters, shape (features,).

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 20))
    >>> selector = SelectByInclusion(random_state=0).fit(X, X[:, 3] - X[:, 7] > 0)
    >>> selector.get_support(indices=True).tolist(), selector.transform(X).shape
    ([3, 7], (500, 2))
    """

    inclusion_prior: float = 0.1
    slab_variance: float = 1.0
    threshold: float = 0.5
    max_features: int | None = None
    passes: int = 1
    class_weight: Any = None
    random_state: Any = None
    dtype: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Reset the model, then learn which features matter."""
        return self._with(self._classifier().fit(X, y, sample_weight))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows, in their order. Classes are those named in the first call, else those in its rows."""
        first = not hasattr(self, "classifier_")
        if not first:
            validate_data(self, X, reset=False, skip_check_array=True)  # the error names this class
        if first and classes is None:
            classes = np.unique(y)
        classifier = self._classifier() if first else self.classifier_
        return self._with(classifier.partial_fit(X, y, classes, sample_weight))

    @property
    def inclusion_(self) -> np.ndarray:
        """Probability that each feature matters: the maximum over classes."""
        check_is_fitted(self)
        return self.classifier_.inclusion_.max(axis=0)

    def _classifier(self) -> SpikeSlabClassifier:
        if not isinstance(self.threshold, int | float | np.number) or not 0 <= self.threshold <= 1:
            raise BadInput(f"threshold is {self.threshold!r}; it must be a probability.")
        if self.max_features is not None:
            check_int("max_features", self.max_features, 1)
        parameters = self.get_params(deep=False)
        del parameters["threshold"], parameters["max_features"]
        return SpikeSlabClassifier(**parameters)

    def _with(self, classifier: SpikeSlabClassifier) -> Self:
        self.classifier_ = classifier
        self.n_features_in_ = classifier.n_features_in_
        if hasattr(classifier, "feature_names_in_"):
            self.feature_names_in_ = classifier.feature_names_in_
        return self

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        inclusion = self.inclusion_
        mask = inclusion > self.threshold
        if self.max_features is not None and mask.sum() > self.max_features:
            log_odds = np.max([learner.log_odds for learner in self.classifier_.learners_], axis=0)  # type: ignore[attr-defined]
            mask &= np.isin(np.arange(len(mask)), np.argsort(-log_odds, kind="stable")[: self.max_features])
        return mask

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classifier_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
