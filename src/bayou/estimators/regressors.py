"""Regressors: their base class, and the parameters of each."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state

from bayou.core.batch import Batch
from bayou.core.errors import WrongTask
from bayou.estimators import validation
from bayou.estimators.base import NeedsPosterior, OnlineEstimator
from bayou.estimators.documented import estimator


class _OfClassifiers:
    """Descriptor of a name that only classifiers have: access raises WrongTask, so that `hasattr` is False."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: Any) -> Any:
        raise WrongTask(f"{owner.__name__} predicts numbers, so it has no {self.name}; see predict and sample_mean.")


@estimator
class OnlineRegressor(RegressorMixin, OnlineEstimator):
    """Base class of all regressors; use one of its subclasses.

    X may be dense, a DataFrame, or sparse in any format with 32- or 64-bit indices; CSR is used without a
    copy where it can be. A weight multiplies the log-likelihood of its row: a row of weight 0 is as good as
    absent.

    Parameters are read when the learner is made: by `fit`, and by the first `partial_fit`.

    Args:
        passes: the number of passes of `fit` over the data. Further passes count every row as new evidence again, and
            intervals become too narrow.

    Attributes:
        n_features_in_, feature_names_in_: the columns of X, and their names if X was a DataFrame.
        learner_: the learner.
        coef_, coef_var_: means and variances of the weights, shape (features,). Computed on access.
        intercept_, intercept_var_: those of the intercept; 0 without one.
        noise_var_: how far labels scatter around their means, as a variance.

    >>> from bayou import GaussianRegressor
    >>> model = GaussianRegressor().partial_fit([[1.0], [2.0], [3.0]], [2.0, 4.0, 6.0])
    >>> mean, sd = model.predict([[4.0]], return_std=True)
    >>> bool(abs(mean[0] - 8.0) < 3 * sd[0]), model.coef_.shape
    (True, (1,))
    """

    # --- learning -------------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        X, y = validation.matrix_and_labels(self, X, y, reset=True, numbers=True)
        weights = validation.row_weights(sample_weight, None, y, y)
        self.learners_ = [self._learn_all(self._new_learner(), X, np.asarray(y, np.float64), weights)]
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from more rows, in their order. The result does not depend on how a stream is cut into calls."""
        first = not hasattr(self, "learners_")
        X, y = validation.matrix_and_labels(self, X, y, reset=first, numbers=True)
        weights = validation.row_weights(sample_weight, None, y, y)
        learner = self._new_learner() if first else self.learner_
        self._learn_chunk(learner, validation.batch(X), np.asarray(y, np.float64), weights)
        self.learners_ = [learner]
        return self

    # --- predicting -----------------------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean of each row; with `return_std` also the standard deviation of a label, including noise."""
        prediction = self._predict(X)
        if not return_std:
            return prediction.expected
        self._check_posterior()
        return prediction.expected, prediction.deviation

    @NeedsPosterior
    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high), between which a label lies with probability `level` according to the learner."""
        return self._predict(X).interval(level)

    @NeedsPosterior
    def sample_mean(self, X: Any, n_draws: int = 1, random_state: Any = None, purpose: str = "choose") -> np.ndarray:
        """Return means under weights drawn from the posterior, shape (n_draws, rows).

        A draw is one weight vector for all rows (Thompson sampling). An integer `random_state` draws the same
        weights for any X; None draws new ones each time. `purpose`, "choose" or "interval", is that of
        `Learner.sample`; it makes no difference for regressors.
        """
        seed = check_random_state(random_state).randint(2**63 - 1, dtype=np.int64)
        return self.learner_.sample(self._batch(X), n_draws, int(seed), purpose)

    # --- looking inside -------------------------------------------------------------------------------------

    @property
    def noise_var_(self) -> float:
        """Noise variance, given or learned."""
        return float(self.learner_.predict(Batch.from_rows([{}]), self._horizon).noise[0])

    predict_proba = _OfClassifiers()
    sample_proba = _OfClassifiers()


@estimator
class BankRegressor(OnlineRegressor):
    """Several Bayesian regressions side by side, combined by evidence; nothing to tune. Start with this one.

    The learner, with its equations, is `bayou.learners.NumberBank`. Features and labels may have any unit, and need no
    scaling.

    Args:
        head: number of features, those used most, between which it knows all correlations. More of them help with a few
            hundred rows of more columns than that, and make rows slower by their square.
        dtype: that of the weights shown, "float64" (also for None) or "float32".

    Intervals are those of a mixture of Student-t distributions, calibrated so that 90% of the labels fell into the
    90% intervals. `coef_` and `coef_var_` are those of the combination as a sum over its lanes, which `learner_.lanes`
    shows.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, scaled=False)
    >>> model = BankRegressor(random_state=0).fit(X[:300], y[:300])  # no scaling
    >>> model.score(X[300:], y[300:]) > 0.45
    True
    >>> low, high = model.predict_interval(X[300:], level=0.9)
    >>> bool(0.85 < ((low < y[300:]) & (y[300:] < high)).mean() < 0.97)
    True
    """

    _learner_name = "number-bank"

    head: int = 128
    horizon: str = "later"


@estimator
class GaussianRegressor(OnlineRegressor):
    """Bayesian linear regression for huge sparse problems, learned in one pass, with a Gaussian for every weight.

    The learner, with its equations, is `bayou.learners.Gaussian`. Scale dense features, for example by
    `StandardScaler`.

    Args:
        prior_variance: the prior variance of every weight; a number or one per feature, in units of a noise variance
            that is learned.
        intercept_variance: the prior variance of the intercept; max(1e6, prior_variance) if None,
            in units of the noise variance.

    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X = scale(X)
    >>> model = GaussianRegressor(random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.4
    True
    >>> low, high = model.predict_interval(X[300:], level=0.9)
    >>> bool(0.8 < ((low < y[300:]) & (y[300:] < high)).mean() < 0.97)
    True
    """

    _learner_name = "gaussian"

    prior_mean: Any = 0.0
    prior_variance: Any = 1.0
    noise_variance: float | None = None
    bounded: bool = True
    intercept_variance: float | None = None


@estimator
class ShrinkageRegressor(OnlineRegressor):
    """Online Bayesian lasso: weights that the data do not need shrink to 0, the others keep their uncertainty.

    The learner, with its equations, is `bayou.learners.Shrinkage`. For dense problems of up to a few thousand features,
    which should have one scale (`StandardScaler`, say).

    Args:
        penalty: a, in a |w|; large values shrink more weights to 0. None: three standard deviations of the labels.
        iterations: the maximum number of times that the weights are solved for after each example.
        tolerance: iterations stop early if no weight moved by more than this fraction of the largest.
        floor: the lower bound on |w| in the updates, which lets weights of 0 become nonzero again.
        noise_variance: the variance of the labels around their means; None learns it, "paper" is 4 max|label|^2.
        ramp: the number of examples over which the penalty grows in proportion; 0 applies all of it from the start.
        screening: the relative error allowed in scaled weights, compared with an exact solution; 0 is exact.
        fit_intercept: whether there is an intercept.
        centring: fit the intercept by centering features and labels, with no penalty; False adds a column of ones.
        passes: the number of passes of `fit` over the data. Further passes count every row as new evidence again.
        dtype: that of the weights shown, "float64" (also for None) or "float32".

    `lasso_coef_` holds the weights of scikit-learn's `Lasso(alpha=penalty / n)` on the same rows, with exact zeros.

    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X = scale(X)
    >>> model = ShrinkageRegressor(penalty=2000.0, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.4, int((model.lasso_coef_ == 0).sum())
    (True, 6)
    """

    _learner_name = "shrinkage"

    penalty: float | None = None
    iterations: int = 1
    tolerance: float = 1e-9
    floor: float = 1e-6
    noise_variance: float | str | None = None
    bounded: bool = True
    ramp: int = 0
    screening: float = 1e-6
    centring: bool = True

    @property
    def lasso_coef_(self) -> np.ndarray:
        """Weights of the exact lasso on all rows so far, the limit of infinitely many iterations."""
        return self.learner_.lasso()
