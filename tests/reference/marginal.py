"""Marginal: Algorithm 1, the marginalised Gaussian, in plain NumPy float64; see `tests.reference.common`.

The setting. A row has a few non-zero features x_i. Each weight w_i is believed to be N(mean_i, variance_i),
independently of the others, so the score sum_i x_i w_i is normal too, with total mean m and variance s2:

    m = sum_i x_i mean_i        s2 = sum_i x_i^2 variance_i                                   (6)

Labels are y = +1 or -1. Equation numbers are those of "Low complexity approximate Bayesian logistic
regression for sparse online learning", section 3 and appendices B (probit) and C (Newton's method).

An intercept is no special case: it is one more active feature, whose value is always 1.
"""

import numpy as np

from tests.reference.common import LINKS, active_features, label_signs, probit, sigmoid

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
    From the old mean, as (34) is printed, a surprising label can make it jump from side to side forever.

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


# Of the learned scale: the precision of its prior N(0, 1/20), what each example adds to it, and the bounds of a step,
# of the scale between two folds, and of the sum of all folds.
SCALE_PRECISION, SCALE_DECAY = 20.0, 0.03
MAX_SCALE_STEP, MAX_SCALE, MAX_FOLDED = 0.1, 0.5, 3.0


class Scale:
    """A common factor e^l of all weights but the intercept's; not part of the paper.

    A score M that is a multiple of e^l has the slope M in l, so an example's log-likelihood, with all weights
    integrated out, tells of l what it tells of the score. After 8, 16, 32, ... examples the factor is moved into the
    weights (folded): means grow by e^l, and what the examples told of them, 1/variance - 1/prior, by e^-2l. The prior
    stays.
    """

    def __init__(self):
        self.scale, self.gain, self.folded = 0.0, 0.0, 0.0

    @property
    def factor(self) -> float:
        return float(np.exp(self.scale))

    def learn(self, moving: float, m: float, s2: float, y: float, weight: float, link: str, ku: float, examples: int):
        """`moving` is the part of the score's mean that the scale multiplies."""
        rule = LINKS[link]
        root = np.sqrt(1.0 / (1.0 + rule.shrink * ku * s2))
        dm, dv = weight * y * root * rule.slope(y * m * root), weight * root**2 * rule.curvature(y * m * root)
        variance = 1.0 / (SCALE_PRECISION + self.gain + SCALE_DECAY * examples)
        step = np.clip(moving * variance * dm, -MAX_SCALE_STEP, MAX_SCALE_STEP)
        low, high = max(-MAX_FOLDED - self.folded, -MAX_SCALE), min(MAX_FOLDED - self.folded, MAX_SCALE)
        self.scale = float(np.clip(self.scale + step, low, high))
        told = moving**2 * dv
        self.gain += told / max(1.0 - told * variance, 0.5)

    @staticmethod
    def is_due(examples: int) -> bool:
        return examples >= 8 and np.log2(examples).is_integer()

    def fold(self, mean: np.ndarray, variance: np.ndarray, prior: np.ndarray) -> None:
        mean *= self.factor
        variance[:] = 1.0 / (1.0 / prior + (1.0 / variance - 1.0 / prior) / self.factor**2)
        self.folded, self.scale = self.folded + self.scale, 0.0


class MarginalReference:
    """Algorithm 1 over the rows of a CSR matrix. `temper` is (ku, kp); `scale` is "fixed" or "learned".

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
        scale: str = "fixed",
    ):
        if intercept_variance is None:
            intercept_variance = max(3.0, float(np.max(prior_variance)))
        self.scale, self.examples = (Scale() if scale == "learned" else None), 0
        self.n_features, self.has_intercept = n_features, intercept
        # The last entry of each array is the intercept's.
        self._mean = np.append(np.full(n_features, prior_mean, dtype=float), 0.0)
        self._prior = np.append(np.full(n_features, prior_variance, dtype=float), intercept_variance)
        self._variance = self._prior.copy()
        self.link, self.mean_update, self.variance_update = link, mean_update, variance_update
        self.temper, self.memory, self.predictive = temper, memory, predictive

    @property
    def factor(self) -> float:
        return 1.0 if self.scale is None else self.scale.factor

    @property
    def mean(self) -> np.ndarray:
        return self._mean[:-1] * self.factor

    @property
    def variance(self) -> np.ndarray:
        return self._variance[:-1] * self.factor**2

    @property
    def intercept(self) -> tuple[float, float]:
        """Mean and variance of the intercept; (0, 0), known to be nothing, if there is none."""
        return (float(self._mean[-1]), float(self._variance[-1])) if self.has_intercept else (0.0, 0.0)

    def _scaled(self, i, x) -> np.ndarray:
        return np.where(np.asarray(i) == self.n_features, x, np.multiply(x, self.factor))

    def _predict_row(self, i, x) -> tuple[float, float, float]:
        x = self._scaled(i, x)
        kp, cap = self.temper[1], self._prior[i]
        return marginal_predict(self._mean[i], self._variance[i], x, self.link, kp, self.predictive, self.memory, cap)

    def _learn_row(self, i, x, y: float, weight: float) -> None:
        if weight == 0:
            return
        x, (_, m, s2) = self._scaled(i, x), self._predict_row(i, x)
        moving = m - np.sum((x * self._mean[i])[np.asarray(i) == self.n_features])
        ku, kp = self.temper
        rules = self.link, self.mean_update, self.variance_update
        self._mean[i], self._variance[i] = marginal_step(
            self._mean[i], self._variance[i], x, y, weight, *rules, ku, kp, self.memory, self._prior[i]
        )
        self.examples += 1
        if self.scale is not None:
            self.scale.learn(moving, m, s2, y, weight, self.link, ku, self.examples)
            if self.scale.is_due(self.examples):
                self.scale.fold(self._mean[:-1], self._variance[:-1], self._prior[:-1])

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
