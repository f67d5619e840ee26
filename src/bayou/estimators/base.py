"""Base classes that make scikit-learn estimators and classifiers of learners.

A classifier is a dataclass of a few lines that names its learner and has the learner's parameters as fields, under
their own names; the four that all share are `fit_intercept` (the learner's `intercept`), `passes`, `class_weight` and
`random_state`. See `classifiers` and `regressors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from functools import update_wrapper
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from scipy.special import log_expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted

from bayou.core import registry
from bayou.core.batch import Batch
from bayou.core.checks import check_int, shortened_repr
from bayou.core.errors import BadInput, NoPosterior
from bayou.core.learner import Learner
from bayou.estimators import validation
from bayou.estimators.documented import estimator
from bayou.learners.classes import Classes
from bayou.learners.classes.new_classes import can_extend, extend
from bayou.learners.ensembles.stackers import MAX_LOGIT

# Parameters that all estimators share; the others are the learner's.
_OWN = {"fit_intercept", "passes", "class_weight", "random_state", "horizon"}
# `fit` takes the shuffled rows in blocks of about this many values, to avoid a second copy of X; but at least this many
# rows, or an eighth of them, at a time: the bank needs blocks of that length to learn how to predict later rows.
_BLOCK = 1 << 22
_LEAST_ROWS, _LEAST_SHARE = 1024, 8


class NeedsPosterior:
    """Descriptor of a method that exists only if the learner has a posterior; otherwise `hasattr` is False."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, estimator: Any, owner: Any) -> Any:
        if estimator is not None:
            estimator._check_posterior()
        return self.method.__get__(estimator, owner)


@estimator
class OnlineEstimator(BaseEstimator):
    """Base of classifiers and regressors: one or more learners, trained in passes over shuffled rows.

    Parameters that several of them have:

        link: "logistic" or "probit".
        prior_mean: the prior mean of every weight; a number or one per feature.
        prior_variance: the prior variance of every weight; a number or one per feature.
        intercept_variance: the prior variance of the intercept; max(3, prior_variance) if None.
        predictive: "quadrature" integrates the link over the score; "closed" is the paper's faster approximation, which
            leans to 1/2 where the score is large and uncertain.
        noise_variance: the variance of the labels around their means; None learns it.
        bounded: whether predictions are limited to the range of the labels learned.
        horizon: "later" predicts rows that come after learning has stopped, "next" the next row of a stream in which
            each label is learned before the next prediction, as in a loop of predictions and `partial_fit`. Read when
            predicting.
        fit_intercept: whether there is an extra weight whose feature is always 1.
        random_state: seeds the order in which `fit` takes the rows.
        dtype: of the state, "float32" or "float64"; None is the learner's own choice.
    """

    _learner_name: ClassVar[str]
    _learns_in_order: ClassVar[bool] = True  # if False, the order of rows does not affect the result

    fit_intercept: bool = True
    passes: int = 1
    random_state: Any = None
    dtype: Any = None

    n_features_in_: int = field(init=False)
    learners_: list[Learner] = field(init=False)

    # --- learning -------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Reset the model, then learn from all rows, `passes` times.

        The rows are taken in the order `check_random_state(random_state).permutation(len(y))`, the same in
        each pass, so that sorted data do no harm.
        """
        previous = {name: self.__dict__.get(name) for name in ("n_features_in_", "feature_names_in_")}
        try:
            return self._fit(X, y, sample_weight)
        except Exception:
            # Validation has stored the new columns, but the model is still that of the old ones.
            for name, value in previous.items():
                self.__dict__.pop(name, None)
                if value is not None:
                    setattr(self, name, value)
            raise

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        raise NotImplementedError

    def _learn_chunk(self, learner: Learner, batch: Batch, targets: np.ndarray, weights: np.ndarray | None) -> None:
        """Teach a learner a batch of rows."""
        learner.learn(batch.with_labels(targets, weights))

    def _learn_all(self, learner: Learner, X: Any, targets: np.ndarray, weights: np.ndarray | None) -> Learner:
        """Learn from all rows, `passes` times, and return the learner."""
        passes = check_int("passes", self.passes, 1, 2**31)
        if weights is not None and not weights.any():
            raise BadInput("all sample weights are zero: there is nothing to learn from.")
        try:
            return self._run_passes(learner, X, targets, weights, passes)
        except BadInput:
            # Nothing is kept. Report the row by its index in the caller's data, not in the shuffled order.
            learner.predict(validation.batch(X))
            raise

    def _run_passes(
        self, learner: Learner, X: Any, targets: np.ndarray, weights: np.ndarray | None, passes: int
    ) -> Learner:
        """Learn all rows, shuffled once, `passes` times or until the learner has converged, and return it."""
        order = check_random_state(self.random_state).permutation(len(targets))
        for _ in range(passes):
            for rows in _blocks(X, order):
                of_rows = None if weights is None else weights[rows]
                self._learn_chunk(learner, validation.batch(X[rows]), targets[rows], of_rows)
            if learner.end_pass():
                break
        learner.new_stream()  # rows that it learns from now on are not repeated
        return learner

    def _learner_parameters(self, streaming: bool) -> dict[str, Any]:
        """Return the parameters of a new learner; `streaming`: each row comes only once, as in `partial_fit`."""
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k not in _OWN}
        parameters |= {"n_features": self.n_features_in_, "intercept": self.fit_intercept}
        if "seed" in signature(self._record().load()).parameters:
            parameters["seed"] = check_random_state(self.random_state).randint(2**31 - 1, size=1).item()
        return parameters

    def _new_learner(self, streaming: bool = False) -> Learner:
        learner: Learner = self._record().load()(**self._learner_parameters(streaming))
        return learner

    def _batch(self, X: Any) -> Batch:
        check_is_fitted(self)
        return validation.batch(validation.matrix(self, X))

    def _predict(self, X: Any) -> Any:
        """Return the learner's prediction of the rows."""
        return self.learner_.predict(self._batch(X), self._horizon)

    @property
    def _horizon(self) -> str:
        """Horizon of predictions: the parameter of estimators that have one (the banks), else "later"."""
        return str(getattr(self, "horizon", "later"))

    # --- looking inside -------------------------------------------------------------------------------------

    @property
    def learner_(self) -> Any:
        """The fitted learner."""
        check_is_fitted(self)
        return self.learners_[0]

    @property
    def coef_(self) -> np.ndarray:
        """The means of the weights."""
        return self._weights(self.learner_.mean)

    @property
    def coef_var_(self) -> np.ndarray:
        """The variances of the weights."""
        self._check_posterior()
        return self._weights(self.learner_.variance)

    @property
    def intercept_(self) -> Any:
        """The mean of the intercept."""
        return self._scalars(self.learner_.intercept[0])

    @property
    def intercept_var_(self) -> Any:
        """The variance of the intercept."""
        self._check_posterior()
        return self._scalars(self.learner_.intercept[1])

    def _weights(self, values: np.ndarray) -> np.ndarray:
        """Return values of weights in the shape that this kind of estimator shows."""
        return values

    def _scalars(self, values: Any) -> Any:
        """Return values of the intercept in the shape that this kind of estimator shows."""
        return values

    # --- for scikit-learn -----------------------------------------------------------------------------------

    @classmethod
    def _record(cls) -> registry.Record:
        return registry.find(cls._learner_name)

    def _check_posterior(self) -> None:
        if not self._record().posterior:
            raise NoPosterior(
                f"{type(self).__name__} has no posterior, so no variance, intervals or samples; use a "
                "Bayesian classifier such as MarginalClassifier."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learners_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@estimator
class OnlineClassifier(ClassifierMixin, OnlineEstimator):
    """Base class of all classifiers; use one of its subclasses.

    X may be dense, a DataFrame, or sparse in any format with 32- or 64-bit indices; CSR is used without a
    copy where it can be. A weight multiplies the log-likelihood of its row: a row of weight 0 is as good as
    absent. With more than two classes there is one learner for each class against the rest, and their outputs go
    through a common softmax (`bayou.learners.Classes`); a later `partial_fit` may add classes.

    Parameters are read when the learners are made: by `fit`, and by the first `partial_fit`.

    Args:
        passes: the number of passes of `fit` over the data. A single-pass Bayesian learner counts all rows as new
            evidence again in each further pass, and its intervals become too narrow; a gradient method needs several
            passes over few rows.
        class_weight: {class: weight}, or "balanced" (`fit` only); weights multiply those of the rows.
        random_state: seeds the order in which `fit` takes the rows, and the draws of a learner.

    Attributes:
        classes_: the labels, sorted; of two classes, the second is the positive one.
        n_features_in_, feature_names_in_: the columns of X, and their names if X was a DataFrame.
        learner_: the learner; for more than two classes a `bayou.learners.Classes`.
        learners_: the learners, one for two classes, else one per class.
        coef_, coef_var_: means and variances of the weights, shape (1, features) for two classes, else
            (classes, features). Computed on access.
        intercept_, intercept_var_: those of the intercept, shape (1,) or (classes,); 0 without one.

    >>> import numpy as np
    >>> from bayou import MarginalClassifier
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), ["yes", "no", "yes"]
    >>> model = MarginalClassifier().partial_fit(X, y, classes=["no", "yes"])
    >>> model.predict([[1.0, 0.0]]).item(), model.coef_.shape
    ('yes', (1, 2))
    """

    class_weight: Any = None

    classes_: np.ndarray = field(init=False)
    # For more than two classes: the learner that stacks the others, and its label of each class.
    _many: Classes | None = field(init=False)
    _numbers: np.ndarray = field(init=False)

    # --- learning -------------------------------------------------------------------------------------------

    def _examples(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray | None]:
        """Return validated rows, the classes, the number of each row's class, and the rows' weights."""
        X, y = validation.matrix_and_labels(self, X, y, reset=True)
        check_classification_targets(y)
        classes, indices = np.unique(y, return_inverse=True)
        return X, classes, indices, validation.row_weights(sample_weight, self.class_weight, classes, indices)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        X, classes, indices, weights = self._examples(X, y, sample_weight)
        learner = self._learn_all(self._learner_of(classes), X, indices, weights)
        return self._with(classes, np.arange(len(classes)), learner)

    def _with(self, classes: np.ndarray, indices: np.ndarray, learner: Learner) -> Self:
        """Store the classes, their labels in the learner, and the learner."""
        self.classes_, self._numbers = classes, indices
        self._many = learner if isinstance(learner, Classes) else None
        self.learners_ = [learner] if self._many is None else [self._many.learners[k] for k in self._places(self._many)]
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows, in their order. The first call must name the classes.

        With more than two classes, and with two in the case of the bank, later calls may add classes. The weights
        learned do not depend on how a stream is cut into calls. The bank learns how to predict later rows by looking
        ahead within a call, so a thousand rows at a time are better than one.
        """
        if isinstance(self.class_weight, str):
            raise BadInput(
                f"class_weight {self.class_weight!r} needs all data at once, so partial_fit cannot use it; "
                "give a dictionary. scikit-learn's compute_class_weight('balanced', classes=classes, y=y) on "
                "a sample of the data returns the weights."
            )
        first = not hasattr(self, "learners_")
        if first and classes is None:
            raise BadInput("classes must be passed on the first call to partial_fit.")
        old_classes = unique_labels(validation.listed(classes)) if first else self.classes_
        if not first and classes is not None and not validation.among(old_classes, classes):
            raise BadInput(
                f"classes={shortened_repr(classes)} does not contain all classes learned so far, "
                f"{old_classes.tolist()}; use fit to start over."
            )
        X, y = validation.matrix_and_labels(self, X, y, reset=first)
        learner = self._learner_of(old_classes, streaming=True) if first else self.learner_
        indices = np.arange(len(old_classes)) if first else self._numbers
        row_weights = validation.given_weights(sample_weight, len(y))
        if not first and can_extend(learner):
            old_classes, indices = validation.with_new_classes(old_classes, indices, y, row_weights)
            learner = extend(learner) if len(old_classes) > 2 else learner
        of_rows = validation.class_numbers(old_classes, y)
        weights = validation.row_weights(row_weights, self.class_weight, old_classes, of_rows)
        batch = validation.batch(X)
        learner.check(_labelled(learner, batch, indices[of_rows], weights))  # before anything changes
        learner.new_stream()
        self._learn_chunk(learner, batch, indices[of_rows], weights)
        return self._with(old_classes, indices, learner)

    def _learner_of(self, classes: np.ndarray, streaming: bool = False) -> Learner:
        """Return a new binary or multiclass learner, depending on the number of classes."""
        if len(classes) < 2:
            what_is_there = f"is only one class, {classes.tolist()[0]!r}" if len(classes) else "are no classes"
            raise BadInput(f"there {what_is_there}; a classifier needs at least two classes.")
        if len(classes) == 2:
            return self._new_learner(streaming)
        parameters = self._learner_parameters(streaming)
        if not streaming:
            parameters["max_classes"] = len(classes)
        return Classes(learner=self._learner_name, classes=len(classes), **parameters)

    def _learn_chunk(self, learner: Learner, batch: Batch, targets: np.ndarray, weights: np.ndarray | None) -> None:
        """Teach a learner a batch of rows; `targets` are class numbers."""
        learner.learn(_labelled(learner, batch, targets, weights))

    # --- predicting -----------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the log-odds of the predicted probability.

        For two classes, those of the positive class, shape (rows,); it is predicted where they are > 0. For more,
        those of each class against the rest, shape (rows, classes); the class with the largest is predicted. They are
        closer to 0 than the mean of the score, the more so the more uncertain the score is.
        """
        return self._by_class(self._predict(X).log_odds, -MAX_LOGIT)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row."""
        log_odds = self.decision_function(X)
        return self.classes_[(log_odds > 0).astype(np.intp) if log_odds.ndim == 1 else log_odds.argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, shape (rows, classes)."""
        if not isinstance(self.learner_, Classes):
            return np.exp(self.predict_log_proba(X))
        return self._by_class(self._predict(X).probability)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return log-probabilities, shape (rows, classes), exact even where a probability rounds to 0 or 1."""
        log_odds = self.decision_function(X)
        return log_expit(np.column_stack([-log_odds, log_odds]) if log_odds.ndim == 1 else log_odds)

    @NeedsPosterior
    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high), between which the probability lies with posterior probability `level`.

        For two classes, they are those of the positive class, shape (rows,): F(mean - z sd) and F(mean + z sd), with
        the score's mean and standard deviation and F the link. Where that would exclude the predicted probability, or
        nearly so, another interval of the same level that contains it is returned (`bayou.core.prediction`). For more
        classes they have shape (rows, classes), each from the class's own score, the log-odds against all others; the
        level holds for each class alone. `sample_proba` draws all classes jointly.

        >>> from bayou import MarginalClassifier
        >>> model = MarginalClassifier().partial_fit([[1.0], [2.0]], [0, 1], classes=[0, 1])
        >>> low, high = model.predict_interval([[1.0]])
        >>> bool(low[0] < model.predict_proba([[1.0]])[0, 1] < high[0])
        True
        """
        low, high = self._predict(X).interval(level)
        return self._by_class(low), self._by_class(high)

    @NeedsPosterior
    def sample_proba(self, X: Any, n_draws: int = 1, random_state: Any = None, purpose: str = "choose") -> np.ndarray:
        """Return probabilities under weights drawn from the posterior, shape (n_draws, rows, classes).

        A draw is one weight vector for all rows, and one for each class if there are more than two. An integer
        `random_state` draws the same weights for any X; None draws new ones each time. `purpose` is "choose", to
        decide what to try next (Thompson sampling), or "interval", to see how much the probabilities may vary:
        the bank draws with half of its variance to choose, and with all of it for intervals; for all other learners
        it makes no difference.

        >>> from bayou import MarginalClassifier
        >>> model = MarginalClassifier().partial_fit([[1.0], [2.0]], [0, 1], classes=[0, 1])
        >>> draws = model.sample_proba([[1.0], [1.0], [2.0]], n_draws=10, random_state=0)
        >>> draws.shape, bool((draws[:, 0] == draws[:, 1]).all())
        ((10, 3, 2), True)
        """
        batch = self._batch(X)
        seed = check_random_state(random_state).randint(2**63 - 1, size=1, dtype=np.int64).item()
        drawn = self.learner_.sample(batch, n_draws, seed, purpose)
        return self._by_class(drawn) if drawn.ndim == 3 else np.stack([1.0 - drawn, drawn], axis=-1)

    def _by_class(self, values: np.ndarray, of_unknown: float = 0.0) -> np.ndarray:
        """Reorder columns from the learner's order of classes to that of `classes_`; unchanged for two classes."""
        if not isinstance(self.learner_, Classes):
            return values
        columns = self._places(self.learner_)
        reordered = values[..., columns]
        reordered[..., columns < 0] = of_unknown
        return reordered

    def _places(self, learner: Classes) -> np.ndarray:
        """Return the learner's column for each class; -1 for a class without rows of positive weight."""
        labels = learner.labels.astype(np.int64)
        columns = np.full(max(labels.max(), self._numbers.max()) + 1, -1)
        columns[labels] = np.arange(len(labels))
        return columns[self._numbers]

    # --- looking inside -------------------------------------------------------------------------------------

    @property
    def learner_(self) -> Any:
        """The fitted learner; for more than two classes the one that stacks those of all classes."""
        check_is_fitted(self)
        return getattr(self, "_many", None) or self.learners_[0]

    def _weights(self, values: np.ndarray) -> np.ndarray:
        return self._by_class(np.atleast_2d(values).T).T

    def _scalars(self, values: Any) -> np.ndarray:
        return self._by_class(np.atleast_1d(values))


def _labelled(learner: Learner, batch: Batch, indices: np.ndarray, weights: np.ndarray | None) -> Batch:
    """Return a batch with labels as the learner takes them: class numbers, or True for the second of two classes."""
    return batch.with_labels(indices if isinstance(learner, Classes) else indices == 1, weights)


def expected_failed_checks(estimator: OnlineEstimator) -> dict[str, str]:
    """Return the checks of scikit-learn that an estimator cannot pass, each with the reason.

    Pass it to `parametrize_with_checks(..., expected_failed_checks=expected_failed_checks)`, or its result to
    `check_estimator`.

    >>> from bayou import AdaGradClassifier
    >>> len(expected_failed_checks(AdaGradClassifier()))
    2
    """
    if not getattr(estimator, "_learns_in_order", True):
        return {}
    reason = (
        "learning is sequential: a row of weight 2 is one step with twice the log-likelihood, two copies of "
        "it are two steps, the second of which starts where the first ended"
    )
    return dict.fromkeys(
        ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
        reason,
    )


def _blocks(X: Any, order: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the shuffled row indices in blocks."""
    values = X.nnz if issparse(X) else X.size
    rows = max(1, _BLOCK * len(order) // max(1, values), min(_LEAST_ROWS, len(order) // _LEAST_SHARE))
    for start in range(0, len(order), rows):
        yield order[start : start + rows]
