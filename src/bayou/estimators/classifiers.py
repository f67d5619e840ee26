"""Classifiers: each declares its parameters under scikit-learn's names."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayou.estimators.base import OnlineClassifier
from bayou.estimators.documented import estimator
from bayou.outputs.plain_model import write_plain


@estimator
class BankClassifier(OnlineClassifier):
    """Many Bayesian and gradient learners side by side, combined by evidence; nothing to tune. Start with this one.

    The learner, with its equations, is `bayou.learners.Bank`. Features need no scaling.

    Args:
        preset: "slim" (8 lanes) or "wide" (16 lanes, a little better, half as fast).
        lanes: lanes to use instead: a list of `bayou.learners.bank.Lane`s, or of mappings with their fields.
        combine: "stack", or "share" for a mixture alone.
        narrowing: whether to keep only 12 outputs after 4,096 examples and 8 after 16,384, those with most evidence.
        intercept_variance: the prior variance of the intercept; in each lane max(3, prior_variance) if None.
        pairs: "crosses", "factors", "auto" or "auto,factors" for lanes of pairs of features; for two classes.
        cross, pair_bits: which pairs, for features that have columns, and 2^pair_bits slots for their weights.
        head: number of features, those used most, whose weights have a joint posterior; 0 for none, "auto" for as
            many as pay; for two classes.

    `coef_` and `coef_var_` are those of the current combination, linearized; `learner_.lanes` shows its lanes.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BankClassifier(random_state=0).fit(X[:400], y[:400])  # no scaling
    >>> model.score(X[400:], y[400:]) > 0.9
    True
    """

    _learner_name = "bank"

    preset: str = "slim"
    lanes: Any = None
    combine: str = "stack"
    narrowing: bool = False
    intercept_variance: float | None = None
    pairs: str | None = None
    cross: Any = "columns"
    pair_bits: int = 22
    head: int | str = "auto"
    horizon: str = "later"


@estimator
class MarginalClassifier(OnlineClassifier):
    """Bayesian logistic or probit regression, learned in one pass, with a Gaussian for every weight.

    The learner, with its equations, is `bayou.learners.Marginal`. Scale dense features, for example by
    `StandardScaler`: the prior variance should be of the size of the weights' own spread.

    Args:
        mean_update: "auto", "taylor" or "newton".
        variance_update: "laplace" or "peak".
        temper: (ku, kp), the factors of the uncertainty when updating and when predicting.
        memory: how fast old evidence fades; 0 never forgets.
        scale: "learned" learns a common factor of all weights, for intervals that hold the truth more often.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> model = MarginalClassifier(random_state=0).fit(X[:400], y[:400])
    >>> model.score(X[400:], y[400:]) > 0.95
    True
    >>> low, high = model.predict_interval(X[400:], level=0.9)
    >>> bool((low < high).all())
    True
    """

    _learner_name = "marginal"

    link: str = "logistic"
    mean_update: str = "auto"
    variance_update: str = "laplace"
    prior_mean: Any = 0.0
    prior_variance: Any = 1.0
    temper: tuple[float, float] = (1.0, 1.0)
    memory: float = 0.0
    predictive: str = "quadrature"
    intercept_variance: float | None = None
    scale: str = "fixed"


@estimator
class JointClassifier(OnlineClassifier):
    """Bayesian logistic regression whose weights are updated together, with a diagonal or a full covariance.

    The learner, with its equations, is `bayou.learners.Joint`. Scale dense features, for example by `StandardScaler`.
    Full covariance is for dense problems of up to a few thousand features.

    Args:
        covariance: "diagonal", or "full" for dense problems.
        mean_update: "newton", or "taylor", which diverges with wide priors.
        prior_variance: the prior variance of every weight; a number or one per feature. A diagonal covariance needs it
            larger than the weights' own spread.
        batch_size: the number of examples that a full covariance learns at once; the last batch of `fit` may be
            smaller.
        dtype: of the state, "float32" or "float64"; None is float32 for a diagonal covariance, float64 for a full one.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> model = JointClassifier(covariance="full", random_state=0).fit(X[:400], y[:400])
    >>> model.score(X[400:], y[400:]) > 0.95
    True
    """

    _learner_name = "joint"

    covariance: str = "diagonal"
    mean_update: str = "newton"
    prior_mean: Any = 0.0
    prior_variance: Any = 1.0
    batch_size: int = 1
    intercept_variance: float | None = None


@estimator
class MomentClassifier(OnlineClassifier):
    """Bayesian logistic or probit regression by moment matching (ADF), with a Gaussian for every weight.

    The learner, with its equations, is `bayou.learners.Moment`. Scale dense features, for example by `StandardScaler`:
    the prior variance should be of the size of the weights' own spread.

    Args:
        expectation: "exact" matches moments under the link itself, "probit" under a probit that approximates it.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> model = MomentClassifier(random_state=0).fit(X[:400], y[:400])
    >>> model.score(X[400:], y[400:]) > 0.95
    True
    """

    _learner_name = "moment"

    link: str = "logistic"
    expectation: str = "exact"
    prior_mean: Any = 0.0
    prior_variance: Any = 1.0
    predictive: str = "quadrature"
    intercept_variance: float | None = None


@estimator
class VariationalClassifier(OnlineClassifier):
    """Bayesian logistic regression by marginalized variational Bayes, with a Gaussian for every weight.

    The learner, with its equations, is `bayou.learners.Variational`. Scale dense features, for example by
    `StandardScaler`: the prior variance should be of the size of the weights' own spread.

    Args:
        expectation: "quadrature" or "monte-carlo".
        n_points: nodes or draws for each weight and example; 8 nodes or 100 draws if None.
        mean_update: "newton" or "taylor".
        random_state: seeds the order in which `fit` takes the rows, and the draws of "monte-carlo".

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> model = VariationalClassifier(random_state=0).fit(X[:400], y[:400])
    >>> model.score(X[400:], y[400:]) > 0.95
    True
    """

    _learner_name = "variational"

    expectation: str = "quadrature"
    n_points: int | None = None
    mean_update: str = "newton"
    prior_mean: Any = 0.0
    prior_variance: Any = 1.0
    predictive: str = "quadrature"
    intercept_variance: float | None = None


@estimator
class AdaGradClassifier(OnlineClassifier):
    """Logistic regression by AdaGrad, stochastic gradient with a step per feature: a trusted baseline.

    The learner, with its equations, is `bayou.learners.AdaGrad`. There is no posterior: `predict_interval`,
    `sample_proba`, `coef_var_` and `intercept_var_` raise `bayou.NoPosterior`.

    Args:
        learning_rate: the length of the first step of each feature.
        l2: the strength of the pull towards 0, applied when a feature is active.
        passes: the number of passes of `fit` over the data. A gradient method needs several passes over few rows.

    >>> import numpy as np
    >>> X, y = np.array([[1.0], [2.0], [-1.0], [-3.0]]), ["up", "up", "down", "down"]
    >>> model = AdaGradClassifier(random_state=0).fit(X, y)
    >>> model.predict([[2.0], [-2.0]]).tolist(), hasattr(model, "predict_interval")
    (['up', 'down'], False)
    """

    _learner_name = "adagrad"

    learning_rate: float = 0.5
    l2: float = 0.0
    passes: int = 5


@estimator
class FTRLClassifier(OnlineClassifier):
    """Logistic regression by FTRL-proximal: weights that are exactly zero, a trusted sparse baseline.

    The learner, with its equations, is `bayou.learners.FTRL`. There is no posterior: `predict_interval`,
    `sample_proba`, `coef_var_` and `intercept_var_` raise `bayou.NoPosterior`.

    Args:
        alpha: the step size.
        beta: damps the first steps of a feature, as if it had already had gradients of this size.
        l1: the evidence that a weight needs to leave 0; a larger l1 makes a smaller model.
        l2: the strength of the pull towards 0.
        fit_intercept: whether there is an extra weight whose feature is always 1; l1 and l2 do not apply to it.
        passes: the number of passes of `fit` over the data. A gradient method needs several passes over few rows.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 20))
    >>> y = X[:, 0] > 0
    >>> model = FTRLClassifier(alpha=0.5, l1=50.0, random_state=0).fit(X, y)
    >>> np.flatnonzero(model.coef_).tolist()
    [0]
    """

    _learner_name = "ftrl"

    alpha: float = 0.1
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0
    passes: int = 5


@estimator
class SpikeSlabClassifier(OnlineClassifier):
    """Sparse probit regression with an inclusion probability for each feature.

    The learner, with its equations, is `bayou.learners.SpikeSlab`. `SelectByInclusion` selects features for another
    model.

    Args:
        inclusion_prior: the prior probability that a feature matters, down to 1e-30; it controls how many are selected.
        slab_variance: the variance of the weights that matter: about 1 for 0/1 features, 3 to 50 for rows of length 1
            such as tf-idf.
        refresh_every: the number of examples between updates of the prior's factor; 1 is best.
        batch_size: the number of examples learned from one posterior; more than 1 is for comparisons, and can diverge.
        predictive: "selected", the means of the selected features alone, or "full", the whole posterior.
        link: "probit", the only one.
        fit_intercept: whether there is an extra weight whose feature is always 1; it is always selected.
        intercept_variance: the prior variance of the intercept; max(3, slab_variance) if None.
        passes: the number of passes of `fit` over the data. Further passes bring the inclusion probabilities closer to
            the exact ones without counting rows twice.
        dtype: of the state, "float64" (also for None) or "float32".

    Attributes:
        inclusion_: the probability that each feature matters, of the shape of `coef_`.
        selected_: whether that is above 1/2.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 20))
    >>> model = SpikeSlabClassifier(random_state=0).fit(X, X[:, 3] - X[:, 7] > 0)
    >>> np.flatnonzero(model.selected_[0]).tolist(), bool(model.inclusion_[0, 3] > 0.99)
    ([3, 7], True)
    """

    _learner_name = "spike-slab"

    inclusion_prior: float = 0.1
    slab_variance: float = 1.0
    refresh_every: int = 1
    batch_size: int = 1
    predictive: str = "selected"
    link: str = "probit"
    intercept_variance: float | None = None

    @property
    def inclusion_(self) -> np.ndarray:
        """Probability that each feature matters, of the shape of `coef_`."""
        check_is_fitted(self)
        return np.stack([learner.inclusion for learner in self.learners_])  # type: ignore[attr-defined]

    @property
    def selected_(self) -> np.ndarray:
        """Mask of features that are more likely to matter than not, of the shape of `coef_`."""
        check_is_fitted(self)
        return np.stack([learner.log_odds > 0 for learner in self.learners_])  # type: ignore[attr-defined]

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the weights of the selected features and the intercept to a .csv or .json file; for two classes."""
        names = getattr(self, "feature_names_in_", None)
        write_plain(path, self.learner_, None if names is None else lambda features: names[features])
