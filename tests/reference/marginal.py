"""Every update rule in plain NumPy float64, one example at a time, written to be read.

The fast kernels answer to this file; this file answers to ``test_reference.py``, which checks it against
minimisers, finite differences and integrals. Nothing here is fast, and nothing here should be made fast.

The setting. A row has a few non-zero features x_i. Each weight w_i is believed to be N(mean_i, variance_i),
independently of the others, so the score sum_i x_i w_i is normal too, with total mean m and variance s2:

    m = sum_i x_i mean_i        s2 = sum_i x_i^2 variance_i                                   (6)

Labels are y = +1 or -1. Equation numbers are those of "Low complexity approximate Bayesian logistic
regression for sparse online learning", section 3 and appendices B (probit) and C (Newton's method).

An intercept is no special case: it is one more active feature, whose value is always 1.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfc, erfcx

# ----------------------------------------------------------------------------------------------------
# Links: a score becomes a probability
# ----------------------------------------------------------------------------------------------------


def sigmoid(z):
    """S(z) = 1 / (1 + exp(-z)), equation (2). The exponential only ever decays, so it cannot overflow."""
    decay = np.exp(-np.abs(z))
    return np.where(np.asarray(z) >= 0, 1.0, decay) / (1.0 + decay)


def log_sigmoid(z):
    """log S(z) = -log(1 + exp(-z)); about z itself far to the left."""
    return -np.logaddexp(0.0, -np.asarray(z, dtype=float))


def probit(z):
    """Phi(z), the normal distribution function, equation (23)."""
    return 0.5 * erfc(-np.asarray(z, dtype=float) / np.sqrt(2.0))


def log_probit(z):
    """log Phi(z). On the left Phi(z) = exp(-z^2/2) erfcx(-z/sqrt 2)/2: the logarithm comes first."""
    far = np.abs(z)
    left = np.log(0.5 * erfcx(far / np.sqrt(2.0))) - 0.5 * far**2
    right = np.log1p(-0.5 * erfc(far / np.sqrt(2.0)))
    return np.where(np.asarray(z) < 0, left, right)


def hazard(z):
    """R(z) = phi(z)/Phi(z), the slope of log Phi in (28). The exp(-z^2/2) in both cancels, erfcx stays."""
    return np.sqrt(2.0 / np.pi) / erfcx(-np.asarray(z, dtype=float) / np.sqrt(2.0))


def hazard_gap(z):
    """z + R(z) > 0. Far to the left R(z) is nearly -z and the sum would cancel. There, with a = -z,

        z + R(z) = 1/(a + 2/(a + 3/(a + 4/(a + ...))))

    which is Laplace's continued fraction for R(z), less its first term.
    """
    a = np.maximum(-np.asarray(z, dtype=float), 8.0)
    tail = a
    for k in range(40, 1, -1):  # 40 levels are exact to the last bit for a >= 8
        tail = a + k / tail
    return np.where(np.asarray(z) < -8.0, 1.0 / tail, z + hazard(z))


def hazard_slope(z):
    """R(z) (z + R(z)) = -R'(z), the curvature of -log Phi in (30) and (31): 1 far left, 0 far right."""
    return hazard(z) * hazard_gap(z)


def sigmoid_slope(z):
    """(log S)'(z) = S(-z), the 1 - p of (15). Never 1 - S(z): it loses all digits as S(z) nears 1."""
    return sigmoid(-z)


def sigmoid_curvature(z):
    """-(log S)''(z) = S(z) S(-z), the p (1 - p) of (17) and (19)."""
    return sigmoid(z) * sigmoid(-z)


class Link(NamedTuple):
    """What the updates need to know of a link F, where F(y * score) is the probability of the label y."""

    cdf: Callable[[Any], Any]  # F
    log_cdf: Callable[[Any], Any]  # log F
    slope: Callable[[Any], Any]  # q(z) = (log F)'
    curvature: Callable[[Any], Any]  # r(z) = -(log F)'' >= 0
    shrink: float  # C: averaging F over a normal score of variance v divides the score by sqrt(1 + C v)


LINKS = {
    # S(z) is nearly Phi(z sqrt(pi/8)), (5): they agree in height and slope at 0.
    "logistic": Link(sigmoid, log_sigmoid, sigmoid_slope, sigmoid_curvature, np.pi / 8.0),
    "probit": Link(probit, log_probit, hazard, hazard_slope, 1.0),
}


# ----------------------------------------------------------------------------------------------------
# Marginal: Algorithm 1, the marginalised Gaussian
# ----------------------------------------------------------------------------------------------------

# A 20-point rule for the mean of a function of a standard normal variable.
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()
# A trapezoid rule for the mean of a function of a logistic variable, whose density is S(n) S(-n).
NOISE = np.arange(-30.0, 30.1, 0.75)
NOISE_WEIGHTS = sigmoid(NOISE) * sigmoid(-NOISE)
NOISE_WEIGHTS = NOISE_WEIGHTS / NOISE_WEIGHTS.sum()


def expected_sigmoid(mean: float, variance: float) -> float:
    """The mean of S(score) over score ~ N(mean, variance): exact to 1e-7, also relative to a tiny answer.

    Positive means are mirrored, S(s) = 1 - S(-s). Far left little is left to integrate; but S(s) = exp(s) S(-s),
    and a Gaussian times exp(s) is a Gaussian again, so that E_m[S] = exp(m + v/2) E_{-m-v}[S].

    A narrow score is integrated by 20 nodes. Seen from a wide one S is a step, which falls between the nodes; but
    S(score) is the chance that logistic noise stays below the score, so there the noise is integrated instead.
    """
    if mean > 0.0:
        return 1.0 - expected_sigmoid(-mean, variance)
    factor = 1.0
    if mean < -variance:
        factor, mean = np.exp(mean + 0.5 * variance), -mean - variance
    sd = np.sqrt(variance)
    if sd <= 1.5:
        return float(factor * np.sum(NODE_WEIGHTS * sigmoid(mean + sd * NODES)))
    return float(factor * np.sum(NOISE_WEIGHTS * probit((mean - NOISE) / sd)))


def widen(variance, memory: float = 0.0, cap=np.inf) -> np.ndarray:
    """Memory: a feature grows a little less sure at each use, but never less sure than its prior, `cap`."""
    return np.minimum(np.asarray(variance, dtype=float) * (1.0 + memory), cap)


def marginal_predict(
    mean,
    variance,
    x,
    link: str = "logistic",
    temper_predict: float = 1.0,
    predictive: str = "closed",
    memory: float = 0.0,
    cap=np.inf,
) -> tuple[float, float, float]:
    """P(y = +1), with the mean and the variance of the score: equation (8), or (24) for probit.

    closed: F(m / sqrt(1 + C s2)). Exact for probit; for logistic too near 1/2 when |m| >> sd.
    quadrature: the mean of F over the normal score, exact to 1e-7; for probit the closed form is that mean.

    `temper_predict` (kp) is how much of the score's variance to believe.
    """
    rule = LINKS[link]
    x = np.asarray(x, dtype=float)
    variance = widen(variance, memory, cap)
    m = np.sum(x * mean)
    s2 = np.sum(x**2 * variance)
    if predictive == "closed" or (predictive == "quadrature" and link == "probit"):
        probability = rule.cdf(m / np.sqrt(1.0 + rule.shrink * temper_predict * s2))
    elif predictive == "quadrature":
        probability = expected_sigmoid(m, temper_predict * s2)
    else:
        raise ValueError(f"predictive is 'closed' or 'quadrature', not {predictive!r}")
    return float(probability), float(m), float(s2)


def taylor_shift(z0: float, tau: float, link: str = "logistic") -> float:
    """Equation (17), or (30): replace q(z0 + t) by its tangent at t = 0 in t = tau q(z0 + t), and solve.

    This is exactly the first step of Newton's method from the old mean. It can overshoot wildly if tau >> 1.
    """
    rule = LINKS[link]
    return tau * rule.slope(z0) / (1.0 + tau * rule.curvature(z0))


def newton_shift(z0: float, tau: float, link: str = "logistic", max_iterations: int = 100) -> float:
    """Equation (15), or (28): solve t = tau q(z0 + t) for t >= 0 by Newton's method, appendix C.

    Logistic starts at the inflection of S, or at the old mean if that lies beyond it. On either side of the
    inflection t - tau q(z0 + t) bends one way only, and so that every step nears the root without passing it.
    From the old mean, as (34) is printed, a surprising label can make it jump from side to side for ever.

    Probit starts at the old mean, t = 0: R is convex everywhere, so the steps climb to the root from below.
    """
    rule = LINKS[link]
    t = max(0.0, -z0) if link == "logistic" else 0.0
    for _ in range(max_iterations):
        q, r = rule.slope(z0 + t), rule.curvature(z0 + t)
        previous = t
        t = tau * (q + r * t) / (1.0 + tau * r)  # t - (t - tau q)/(1 + tau r), without its cancellation
        if abs(t - previous) <= 1e-12 * t:
            break
    return t


def mean_shift(z0: float, tau: float, link: str = "logistic", mean_update: str = "auto") -> float:
    """How far the standardised score moves towards the label. "auto" takes (17) where it is close."""
    if mean_update == "auto":
        mean_update = "taylor" if tau <= 1.0 else "newton"
    if mean_update == "taylor":
        return taylor_shift(z0, tau, link)
    if mean_update == "newton":
        return newton_shift(z0, tau, link)
    raise ValueError(f"mean_update is 'auto', 'taylor' or 'newton', not {mean_update!r}")


def laplace_variance(variance: float, tau: float, z_new: float, link: str = "logistic") -> float:
    """Equation (19), or (31): match the curvature of the posterior (13) at the new mean."""
    return variance / (1.0 + tau * LINKS[link].curvature(z_new))


def peak_variance(variance: float, delta: float, z_predict: float, z_new: float, link: str = "logistic") -> float:
    """Equation (18): match the height of the posterior (13) at the new mean, a step `delta` from the old one.

        sd <- sd p_t/p_+ exp(delta^2 / (2 variance)),    p_t = F(z_predict), p_+ = F(z_new)

    A surprising label makes this *grow* (appendix C says it cannot), because p_t from (8) is not quite the
    integral that it stands for. Hence the clamp: the variance never ends wider than it was.

    It holds for examples of weight 1. For weight c the normaliser is the mean of F^c, and p_t^c in its place
    lets the variance collapse (to 0 at c = 1000); `marginal_step` takes the laplace rule there, which agrees
    with the true height to one per cent.
    """
    log_cdf = LINKS[link].log_cdf
    log_factor = log_cdf(z_predict) - log_cdf(z_new) + delta**2 / (2.0 * variance)
    return variance * np.exp(2.0 * min(log_factor, 0.0))


def marginal_step(
    mean,
    variance,
    x,
    y: float,
    weight: float = 1.0,
    link: str = "logistic",
    mean_update: str = "auto",
    variance_update: str = "laplace",
    temper_update: float = 1.0,
    temper_predict: float = 1.0,
    memory: float = 0.0,
    cap=np.inf,
) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 1: new means and variances of the active features of one example with label y = +1 or -1.

    For each feature, integrate all the others out. By (11) that leaves the likelihood F(y (m_-i + x w)/s),
    where s^2 = 1 + C s2_-i. Measured by that score, the old mean sits at z0 = y m/s, the prior has variance
    tau = x^2 variance/s^2, and the posterior (12) peaks at z0 + t. A weight c multiplies the log-likelihood,
    which is to multiply tau.

    `temper_update` (ku) is how much of the score's variance to believe. `temper_predict` (kp) is for
    predictions and has no part in the step. `cap` holds the prior variances, for `memory`.
    """
    mean, variance, x = (np.array(a, dtype=float) for a in (mean, variance, x))
    if weight == 0:
        return mean, variance  # nothing was seen: not even memory moves
    shrink = LINKS[link].shrink * temper_update
    variance = widen(variance, memory, cap)

    # Totals of the OLD beliefs, for every feature: their order in the row must not matter.
    m = np.sum(x * mean)
    s2 = np.sum(x**2 * variance)

    new_mean, new_variance = mean.copy(), variance.copy()
    for i in range(len(x)):
        own = x[i] ** 2 * variance[i]
        s = np.sqrt(1.0 + shrink * max(s2 - own, 0.0))  # rounding may leave s2 - own a little below 0
        z0 = y * m / s
        tau = weight * own / s**2

        t = mean_shift(z0, tau, link, mean_update)
        delta = y * s * t / x[i]
        new_mean[i] = mean[i] + delta

        if variance_update == "laplace" or (variance_update == "peak" and weight != 1):
            new_variance[i] = laplace_variance(variance[i], tau, z0 + t, link)
        elif variance_update == "peak":
            # p_t of (18): the likelihood that p_+ is taken from, integrated over this feature as well.
            z_predict = y * m / np.sqrt(s**2 + LINKS[link].shrink * own)
            new_variance[i] = peak_variance(variance[i], delta, z_predict, z0 + t, link)
        else:
            raise ValueError(f"variance_update is 'laplace' or 'peak', not {variance_update!r}")
    return new_mean, new_variance


# ----------------------------------------------------------------------------------------------------
# AdaGrad: the baseline
# ----------------------------------------------------------------------------------------------------


def adagrad_step(
    weights, accumulator, x, y: float, weight: float = 1.0, learning_rate: float = 0.1, l2=0.0
) -> tuple[np.ndarray, np.ndarray]:
    """One AdaGrad step on the log loss: new weights and accumulators of the active features, y = +1 or -1.

        g = c (p - [y = 1]) x + l2 w        accumulator += g^2        w -= learning_rate g / sqrt(accumulator)

    c is the example's weight. The accumulator starts at 0 and no epsilon is added, so the first step of a
    feature has length `learning_rate` whatever its units. `l2` may be an array (0 for the intercept), and
    decays active features only.
    """
    weights, accumulator, x = (np.array(a, dtype=float) for a in (weights, accumulator, x))
    if weight == 0:
        return weights, accumulator
    score = np.sum(x * weights)
    residual = -y * sigmoid(-y * score)  # p - [y = 1], without its cancellation
    gradient = weight * residual * x + l2 * weights
    accumulator = accumulator + gradient**2
    moves = accumulator > 0  # a gradient of exactly 0 from the start: no direction, no step
    weights[moves] -= learning_rate * gradient[moves] / np.sqrt(accumulator[moves])
    return weights, accumulator


# ----------------------------------------------------------------------------------------------------
# Drivers: the rules above, row by row over a sparse matrix
# ----------------------------------------------------------------------------------------------------


def label_signs(labels) -> np.ndarray:
    """Labels as +1 and -1. 1 is positive; -1 or 0, but not both, is negative."""
    labels = np.asarray(labels, dtype=float)
    if not (np.isin(labels, (-1.0, 1.0)).all() or np.isin(labels, (0.0, 1.0)).all()):
        raise ValueError("labels are 1 and -1, or 1 and 0; nothing else, and not all three")
    return np.where(labels == 1.0, 1.0, -1.0)


def active_features(X, row: int, n_features: int, intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """Indices and values of a row: duplicates summed, zeros dropped, the intercept at the end."""
    begin, end = X.indptr[row], X.indptr[row + 1]
    indices, slots = np.unique(X.indices[begin:end], return_inverse=True)
    values = np.zeros(len(indices))
    np.add.at(values, slots, X.data[begin:end])
    indices, values = indices[values != 0].astype(int), values[values != 0]
    if intercept:
        indices, values = np.append(indices, n_features), np.append(values, 1.0)
    return indices, values


class MarginalReference:
    """Algorithm 1 over the rows of a CSR matrix. `temper` is (ku, kp).

    `prior_mean` and `prior_variance` are numbers, or arrays with one entry per feature. The intercept's prior
    is N(0, intercept_variance), by default max(3, the largest prior variance).
    """

    def __init__(
        self,
        n_features: int,
        link: str = "logistic",
        mean_update: str = "auto",
        variance_update: str = "laplace",
        prior_mean=0.0,
        prior_variance=1.0,
        temper: tuple[float, float] = (1.0, 1.0),
        memory: float = 0.0,
        predictive: str = "closed",
        intercept: bool = True,
        intercept_variance: float | None = None,
    ):
        if intercept_variance is None:
            intercept_variance = max(3.0, float(np.max(prior_variance)))
        self.n_features, self.has_intercept = n_features, intercept
        # The last entry of each array is the intercept's.
        self._mean = np.append(np.full(n_features, prior_mean, dtype=float), 0.0)
        self._prior = np.append(np.full(n_features, prior_variance, dtype=float), intercept_variance)
        self._variance = self._prior.copy()
        self.link, self.mean_update, self.variance_update = link, mean_update, variance_update
        self.temper, self.memory, self.predictive = temper, memory, predictive

    @property
    def mean(self) -> np.ndarray:
        return self._mean[:-1].copy()

    @property
    def variance(self) -> np.ndarray:
        return self._variance[:-1].copy()

    @property
    def intercept(self) -> tuple[float, float]:
        """Mean and variance of the intercept; (0, 0), known to be nothing, if there is none."""
        return (float(self._mean[-1]), float(self._variance[-1])) if self.has_intercept else (0.0, 0.0)

    def _predict_row(self, i, x) -> tuple[float, float, float]:
        kp, cap = self.temper[1], self._prior[i]
        return marginal_predict(self._mean[i], self._variance[i], x, self.link, kp, self.predictive, self.memory, cap)

    def _learn_row(self, i, x, y: float, weight: float) -> None:
        ku, kp = self.temper
        rules = self.link, self.mean_update, self.variance_update
        self._mean[i], self._variance[i] = marginal_step(
            self._mean[i], self._variance[i], x, y, weight, *rules, ku, kp, self.memory, self._prior[i]
        )

    def learn(self, X, y, weights=None) -> np.ndarray:
        """P(y = 1) of each row as predicted just before learning from it."""
        signs = label_signs(y)
        weights = np.ones(len(signs)) if weights is None else np.asarray(weights, dtype=float)
        probabilities = np.empty(len(signs))
        for row in range(len(signs)):
            i, x = active_features(X, row, self.n_features, self.has_intercept)
            probabilities[row] = self._predict_row(i, x)[0]
            self._learn_row(i, x, signs[row], weights[row])
        return probabilities

    def predict(self, X) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """P(y = 1), and the mean and variance of the score, of each row."""
        probability, mean, variance = np.empty((3, X.shape[0]))
        for row in range(X.shape[0]):
            i, x = active_features(X, row, self.n_features, self.has_intercept)
            probability[row], mean[row], variance[row] = self._predict_row(i, x)
        return probability, mean, variance


class AdaGradReference:
    """AdaGrad over the rows of a CSR matrix, all weights 0 at the start. `l2` spares the intercept."""

    def __init__(self, n_features: int, learning_rate: float, l2: float = 0.0, intercept: bool = True):
        self.n_features, self.learning_rate, self.has_intercept = n_features, learning_rate, intercept
        # The last entry of each array is the intercept's.
        self._weights = np.zeros(n_features + 1)
        self._accumulator = np.zeros(n_features + 1)
        self._l2 = np.append(np.full(n_features, l2, dtype=float), 0.0)

    @property
    def mean(self) -> np.ndarray:
        """The weights, under the name that every learner gives them."""
        return self._weights[:-1].copy()

    @property
    def intercept(self) -> float:
        return float(self._weights[-1])

    def learn(self, X, y, weights=None) -> np.ndarray:
        """P(y = 1) of each row as predicted just before learning from it."""
        signs = label_signs(y)
        weights = np.ones(len(signs)) if weights is None else np.asarray(weights, dtype=float)
        probabilities = np.empty(len(signs))
        for row in range(len(signs)):
            i, x = active_features(X, row, self.n_features, self.has_intercept)
            w, a, l2 = self._weights[i], self._accumulator[i], self._l2[i]
            probabilities[row] = sigmoid(np.sum(x * w))
            self._weights[i], self._accumulator[i] = adagrad_step(
                w, a, x, signs[row], weights[row], self.learning_rate, l2
            )
        return probabilities

    def predict(self, X) -> tuple[np.ndarray, np.ndarray]:
        """P(y = 1) and the score of each row."""
        scores = np.empty(X.shape[0])
        for row in range(X.shape[0]):
            i, x = active_features(X, row, self.n_features, self.has_intercept)
            scores[row] = np.sum(x * self._weights[i])
        return sigmoid(scores), scores
