"""Joint Gaussian (DimGauss): Laplace's approximation for all weights of an example together.

The weights are N(mu, S), S diagonal or full. An example (x, y = +-1) with m = x'mu and s2 = x'S x is predicted by (8),
as in `marginal`: P(y) = S(y m / sqrt(1 + C s2)), C = pi/8. Then the posterior N(mu, S) S(y x'w) is replaced by a
Gaussian with the same peak and the same curvature there. The peak lies on the line mu + b S x, so that the d equations
(37) reduce to one. With a = y x'mu_new, a0 = y m, tau = s2, sigmoid S(.) and r = S(a) S(-a):

    a = a0 + tau S(-a)                        (36), (37)   mean_update="newton"
    a = a0 + tau S(-a0) / (1 + tau r(a0))     (44), (45)   mean_update="taylor", Newton's first step from mu
    mu += y S x (a - a0) / tau = y S x S(-a) at the peak
    1/S += r x x'                             (46), (48)

and a diagonal S keeps the diagonal of the inverse: 1/v_i += r x_i^2 / (1 + r (tau - x_i^2 v_i)). Newton starts at the
inflection a = max(a0, 0), from which it is monotone. An example of weight c has its log-likelihood multiplied by c:
tau becomes c tau in the equations of a, S(-a) becomes c S(-a) and r becomes c r.

**Taylor's form explodes with wide priors**, and a diagonal S needs a wide one: the uncertainty of the other weights is
not integrated out here, so that each weight moves as if it were the only uncertain one. With a surprising label r(a0)
is near 0, and the step is then tau = s2 long: with 20 active features of variance 100 and a0 = -10 it goes to
a = +1823, where Newton's stops at 4.9. On streams this shows as a regret of 10^4 where Newton's is 10^2.

Full covariance is for dense problems of a few thousand features at most; an update takes d^2 operations even for a
sparse example, because an update of one weight moves all weights that it is correlated with. S is stored as U D U', U
unit upper triangular, D diagonal, and an example updates both (Bierman's form of Sherman and Morrison's (41)). With
f = U'x, v = D f, k = c r, starting from alpha = 1 and a vector b = 0, for j = 1 .. d:

    U_ij, b_i  <-  U_ij - k f_j / alpha b_i,  b_i + U_ij v_j      for i < j, both from the old values
    1/D_j += k f_j^2 / alpha,  b_j = v_j,  alpha += k f_j v_j

after which b = S x for the means. Nothing is subtracted from a variance, so none can become negative, as those of (46)
do where the prior is wide; and U = I, 1/D gained = 0 is the prior.

Mini-batches (full covariance only): examples wait, predicted from the state before the first of them, until there are
`batch_size` of them or `end_pass` is called; then the precisions of all are added at once, (47), (48). The mean goes to
the peak of their joint posterior ("newton") or takes one Newton step ("taylor", (47) and (45)), and r is taken at the
new mean.

Merging adds natural parameters: precisions, and precisions times means, beyond the prior's.

Paper: Low complexity approximate Bayesian logistic regression for sparse online learning (marginal-gaussian),
appendix D.1. prior_mean and prior_variance are its mu_0 and sigma_0^2. G. J. Bierman, Factorization methods for
discrete sequential estimation, 1977, chapter V.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from bayou.core.batch import Batch
from bayou.core.checks import check_choice, check_int
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import check_writable
from bayou.core.prediction import JointCovariance, WeightView
from bayou.core.validation import LIMIT, feature_numbers
from bayou.kernels.row_layout import BatchArrays
from bayou.learners.bases.diagonal import MEAN, MEAN_SHIFT, PRECISION, PRECISION_GAIN, DiagonalGaussian
from bayou.learners.joint import diagonal, full_covariance

COVARIANCES = {"diagonal": False, "full": True}
MEAN_UPDATES = {"newton": False, "taylor": True}
# Largest full covariance that is accepted: 23,168 features.
MOST_BYTES = 4 << 30
MOST_WAITING = 1024


class Joint(DiagonalGaussian):
    """Joint Gaussian learner (DimGauss).

    Args:
        n_features: number of weights; feature indices start at 0.
        covariance: "diagonal", or "full" for dense problems: (n_features + 1)^2 numbers, at most 4 GB.
        mean_update: "newton", or "taylor", which explodes with wide priors.
        prior_mean: prior mean of the weights; a number or one per feature.
        prior_variance: prior variance of the weights; a number or one per feature. With a diagonal covariance the best
            value exceeds the actual variance of the weights, by more the more features are active: about 5 times for
            20, 10 times for 40.
        batch_size: number of examples that full covariance learns together; none takes effect before all arrive.
        intercept: whether to add a weight whose feature is always 1 (prior mean 0).
        intercept_variance: its prior variance; by default max(3, prior_variance).
        dtype: type of the state, "float32" (the default) or "float64". The intercept is always kept in float64, and so
            is all of a full covariance (whose default is float64), where it is only the type of the weights returned.

    >>> from bayou import Batch
    >>> learner = Joint(n_features=3, covariance="full", intercept=False)
    >>> p = learner.learn(Batch.from_rows([{0: 1.0, 1: 1.0}, {0: 1.0}], labels=[1, 1]))
    >>> bool(p[0] == 0.5 and p[1] > 0.5)
    True
    >>> covariance = learner.covariance_matrix()  # either of the two may have been the cause; the third was not there
    >>> bool(covariance[0, 1] < 0 == covariance[0, 2])
    True
    """

    name = "joint"

    def __init__(
        self,
        n_features: int,
        *,
        covariance: str = "diagonal",
        mean_update: str = "newton",
        prior_mean: Any = 0.0,
        prior_variance: Any = 1.0,
        batch_size: int = 1,
        intercept: bool = True,
        intercept_variance: float | None = None,
        dtype: Any = None,
    ) -> None:
        self._full = check_choice("covariance", covariance, COVARIANCES)
        dtype = "float64" if dtype is None and self._full else dtype
        weights = n_features, dtype, intercept, prior_mean, prior_variance, intercept_variance
        batch_size = check_int("batch_size", batch_size, 1, MOST_WAITING)
        super().__init__(*weights, covariance=covariance, mean_update=mean_update, batch_size=batch_size)
        self._taylor = check_choice("mean_update", mean_update, MEAN_UPDATES)
        if batch_size > 1 and not self._full:
            raise BadInput(f'batch_size is {batch_size}; only covariance="full" learns several examples at once.')
        self._takes = "float64" if self._full else self._dtype

    def _prior_table(self, mean: Any, variance: Any) -> np.ndarray:
        """Return (mean, precision) of each prior, or one row for all; a full covariance has the intercept's last."""
        if not self._full:
            return super()._prior_table(mean, variance)
        each = np.broadcast_to(variance, self._n_features)
        table = super()._prior_table(mean, each).astype(np.float64)
        table[:-1, MEAN], table[:-1, PRECISION] = mean, 1.0 / each
        table[-1] = 0.0, self._intercept_precision
        return table

    def _make_state(self) -> None:
        if not self._full:
            super()._make_state()
            return
        if (wanted := self.nbytes) > MOST_BYTES:
            raise BadInput(
                f"a full covariance of {self._n_features} features takes {wanted / 2**30:.1f} GB; it may take "
                f'{MOST_BYTES >> 30} GB, some 23,000 features. Use covariance="diagonal".'
            )
        self._factored = full_covariance.FullCovarianceState.at_prior(self._prior, self._parameters["batch_size"])
        self._state, self._intercept_state = self._factored.state, self._factored.state[-1:]

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = super()._arrays()
        if self._full:
            arrays["factor"] = self._factored.factor
            if len(self._factored.waiting):
                arrays |= {"waiting": self._factored.waiting, "waiting labels": self._factored.waiting_labels}
        return arrays

    def _nbytes_for(self, n_features: int) -> int:
        if not self._full:
            return super()._nbytes_for(n_features)
        return full_covariance.nbytes_for(n_features, self._parameters["batch_size"])

    # --- learning and predicting --------------------------------------------------------------------------------

    def _run_kernel(self, examples: BatchArrays, mean: np.ndarray, variance: np.ndarray) -> None:
        if self._full:
            rules = self._has_intercept, self._taylor, LIMIT[self._dtype]
            full_covariance.stream(examples, self._factored, *rules, mean, variance)
        else:
            diagonal.stream(examples, self._beliefs(), self._taylor, np.uint64(self._examples), mean, variance)

    def end_pass(self) -> bool:
        """Learn the examples of an unfinished mini-batch at the end of a pass. Returns False: never converged."""
        check_writable(self)
        with self._lock:
            if self._full and self._factored.waiting_labels.any():
                full_covariance.learn_pending(self._factored, self._taylor, LIMIT[self._dtype])
        return False

    def _draw(self, batch: Batch, seed: np.uint64, purpose: str, scores: np.ndarray) -> None:
        """Draw from the joint posterior: mu + U sqrt(D) z, z standard normal, keyed by (seed, draw, feature)."""
        if not self._full:
            super()._draw(batch, seed, purpose, scores)
            return
        rows, mean = (batch.indptr, batch.indices, batch.values), self._prior[:, MEAN] + self._state[:, MEAN_SHIFT]
        root = 1.0 / np.sqrt(self._prior[:, PRECISION] + self._state[:, PRECISION_GAIN])
        full_covariance.draw_scores(rows, mean, root, self._factored.factor, self._has_intercept, seed, scores)

    # --- looking inside -----------------------------------------------------------------------------------------

    def _mean_at(self, features: Any) -> np.ndarray:
        return super()._mean_at(features).astype(self._dtype, copy=False)

    def _variance_at(self, features: Any) -> np.ndarray:
        if not self._full:
            return super()._variance_at(features)
        variance = np.empty(len(self._state))
        full_covariance.variances(
            self._factored.factor, self._prior[:, PRECISION] + self._state[:, PRECISION_GAIN], variance
        )
        # A sum of many terms may round to slightly more than the prior variance.
        return np.minimum(variance, 1.0 / self._prior[:, PRECISION])[:-1][features].astype(self._dtype)

    def covariance(self, features: Any) -> np.ndarray:
        if not self._full:
            return super().covariance(features)
        with self._lock:
            return self._covariance_of(feature_numbers(features, self._n_features))

    def covariance_matrix(self) -> np.ndarray:
        """Return the covariance matrix of all weights, with the intercept, if any, in the last row and column."""
        size = self._n_features + self._has_intercept
        with self._lock:
            if not self._full:
                return np.diag(np.append(self.variance, self.intercept[1])[:size])
            return self._covariance_of(np.arange(size))

    def _covariance_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows and columns of the full covariance matrix, in this order."""
        size = self._n_features + self._has_intercept
        half = self._factored.factor[:size, rows].T + (rows[:, None] == np.arange(size))
        half /= np.sqrt(self._prior[:size, PRECISION] + self._state[:size, PRECISION_GAIN])
        return half @ half.T

    def _reading(self, features: np.ndarray, squares: np.ndarray | None, associated: bool) -> WeightView:
        view = super()._reading(features, squares, associated)
        if not self._full:
            return view
        joint = np.zeros((1 + len(features), 1 + len(features)))  # the intercept's row first
        start = 0 if self._has_intercept else 1
        joint[start:, start:] = self._covariance_of(np.append(self._n_features, features)[start:])
        return view._replace(joint=JointCovariance(np.arange(len(features)), joint))

    # --- merging ------------------------------------------------------------------------------------------------

    def _merge_many(self, others: list[Self], base: Self | None) -> None:
        if not self._full:
            return super()._merge_many(others, base)
        for other in others:
            self._merge_one(other, base)

    def _merge_one(self, other: Self, base: Self | None) -> None:
        """Add to 1/S and mu/S what `other` has gained over the prior, or over `base`."""
        if base is not None and base._factored.waiting_labels.any():
            raise BadModel(
                "base stopped inside a mini-batch, whose examples both models hold: end_pass() would end it."
            )
        other = other.snapshot()
        other._frozen = False
        for learner in (self, other):
            learner.end_pass()
        full_covariance.merge(self._factored, other._factored, None if base is None else base._factored)
