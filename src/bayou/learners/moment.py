"""Moment matching (assumed density filtering): Gaussians with the mean and variance of the exact posterior.

Every weight is N(mu_i, v_i), independent of the others. An example (x, y = +-1) has the score N(m, s2) with
m = sum x_i mu_i and s2 = sum x_i^2 v_i, and its label the probability Z = E[F(y score)]. Each weight's posterior has

    mean mu_i + x_i v_i dm           dm = d log Z / dm
    variance v_i + (x_i v_i)^2 dv    dv = d^2 log Z / dm^2 <= 0

so that one integral over the score serves all weights, and their update is linear in x_i v_i. Precisions are stored,
and gain x^2 |dv| / (1 - h), h = x^2 v |dv| < 1.

    expectation="probit"   Z = Phi(t), t = y m / sqrt(b2 + s2): dm = y R(t) / sqrt(b2 + s2), R = Phi'/Phi, and
                           dv = -R(t) (t + R(t)) / (b2 + s2). Exact for link="probit", where b2 = 1. With
                           link="logistic" it approximates the sigmoid: b2 = 8/pi gives both the same slope at 0.
    expectation="exact"    the sigmoid itself. S is a mixture of normals, S(a) = E[Phi(a / sqrt(V))] (Andrews and
                           Mallows 1974), so that Z = E[Phi(y m / sqrt(V + s2))] for any s2, with derivatives in
                           closed form. V, whose root is twice Kolmogorov's variable, is integrated by 16 Gauss
                           nodes in log V: accurate to 1e-8, where Gauss-Hermite nodes fail as soon as the score is
                           wide and S falls between them.

With float32 state dm and dv are looked up: they are smooth functions of y m and s2, approximated by cubic polynomials
in each cell of a grid (`_table`), accurate to 3e-5 where nearly all scores are and to 4e-4 at the edge. Beyond it, and
with float64 state, the integral is taken as above.

S(a) = e^a S(-a), and a normal density times e^a is again a normal density up to a factor:
F(m) = E_m[S] = e^(m + s2/2) F(-m - s2). With this and F(m) = 1 - F(-m) every integral is taken at a point >= -s2/2,
where nothing vanishes or cancels.

Predictions are (8), (24) of the paper, or the integral of the link (`predictive`).

For an example of weight c <= 1, dm and dv are multiplied by c. For a heavier one the first unit is learned as above and
leaves the score at N(m1, s1); the posterior given the rest is nearly Gaussian and is approximated at its mode: with
F'/F = q, -(log F)'' = k,

    t = s1 (c - 1) q(y m1 + t)       the score moves by another y t       1/s1 += (c - 1) k(y m1 + t)

Merging adds natural parameters. Float32 state is rounded so that it is right on average, as in `marginal`.

Paper: marginal-gaussian, appendix D.2, which points to Minka, A family of algorithms for approximate Bayesian
inference, 2001; the probit rule is that of adPredictor (Graepel and others, 2010).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from scipy.special import erfcx

from bayou.core import links
from bayou.core.checks import check_choice
from bayou.core.registry import Record
from bayou.core.sharding import ShardingLearner
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import exp2
from bayou.kernels.row_layout import BatchArrays
from bayou.kernels.vector import LANES, extract_lane, float_bits, load, magnitude, sqrt, sum_lanes, where_above
from bayou.learners.bases.diagonal import (
    LIMIT_32,
    LIMIT_64,
    LOG2E,
    DiagonalGaussian,
    condition_row,
    peak_shift,
    read_row,
    row_scratch,
)

RECORD = Record(
    "moment", "bayou.learners.moment:Moment", "MomentClassifier", sharding=True,
    summary="Gaussian weights by moment matching: one integral of the score for all of them",
    paper="marginal-gaussian, appendix D.2",
)  # fmt: skip

# By link and expectation: whether labels are integrated under a probit, or under the sigmoid. Other links are refused.
UNDER_PROBIT = {"logistic": {"exact": False, "probit": True}, "probit": {"exact": True, "probit": True}}
# Scores of a larger variance need the more careful formula in `_log_slopes`.
WIDE = 20.0
# The table's cells: halves of y m, where |y m| < NEAR, and quarters of every octave of 1 + s2.
NEAR, MEAN_CELLS = 12.0, 48
OCTAVES, QUARTERS = 6, 4
NARROW = 2.0**OCTAVES - 1.0
# For scores of at least this variance, S is a step function.
STEP_FROM = 1e12
# The fraction of a score's variance that is left after an example is at least this; less would be rounding noise.
LEAST_LEFT = 1e-9


def _mixture(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return variances and shares of normals that mix to the logistic distribution, by a Gauss rule in log V.

    The density of V = 4 K^2, K Kolmogorov's variable, is computed by the faster converging of its two series. Lanczos
    steps on a fine grid of log V give the recurrence of the rule, and that gives nodes and weights (Golub, Welsch).
    """
    log_v = np.linspace(math.log(0.05), math.log(220.0), 500)
    x = np.exp(0.5 * log_v) / 2.0
    k = np.arange(1.0, 30.0)[:, None]
    far = 8.0 * x * np.sum(-((-1.0) ** k) * k**2 * np.exp(-2.0 * (k * x) ** 2), axis=0)
    rate = ((2.0 * k - 1.0) * math.pi) ** 2 / 8.0
    near = math.sqrt(2.0 * math.pi) * np.sum(np.exp(-rate / x**2) * (2.0 * rate / x**2 - 1.0), axis=0) / x**2
    share = np.where(x > 1.0, far, near) * x
    basis = [np.sqrt(share / share.sum())]
    diagonal, beside = np.zeros(n_nodes), np.zeros(n_nodes)
    for n in range(n_nodes):
        following = log_v * basis[-1]
        diagonal[n] = following @ basis[-1]
        for _ in range(2):  # once would leave rounding errors
            for vector in basis:
                following = following - (vector @ following) * vector
        beside[n] = np.linalg.norm(following)
        basis.append(following / beside[n])
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1))
    return np.exp(nodes), vectors[0] ** 2


VARIANCES, SHARES = _mixture(2 * LANES)
WIDEST = float(VARIANCES[-1])
DENSITIES = SHARES / math.sqrt(2.0 * math.pi)


def _mills(x: np.ndarray) -> np.ndarray:
    """Return Phi(-x) / phi(x)."""
    return math.sqrt(math.pi / 2.0) * erfcx(x * math.sqrt(0.5))


# (x + BEND) mills(x) as a polynomial of t = (x - BEND)/(x + BEND), which is in [-1, 1): accurate to 1e-14.
BEND = 4.0
MILLS = tuple(
    float(c)
    for c in np.polynomial.Chebyshev.interpolate(
        lambda t: (lambda x: (x + BEND) * _mills(x))(BEND * (1.0 + t) / (1.0 - t)), 23
    )
    .convert(kind=np.polynomial.Polynomial)
    .coef
)


@cache
def _table() -> np.ndarray:
    """Return the polynomial coefficients of slope and fall in every cell of the grid over m and s2, as a flat array.

    Slope and fall are d log F/dm and -d^2 log F/dm^2 of F(m) = E[S(score)]. For each power of the position in the cell
    along s2 there are eight numbers: four of slope, four of fall, by power of the position along m. The polynomials
    interpolate both functions at 4 x 4 Chebyshev points of the cell, where they are integrated by the trapezoidal rule,
    which converges exponentially.
    """
    points = 0.5 + 0.5 * np.cos((np.arange(4) + 0.5) * (math.pi / 4.0))
    low = np.concatenate([2.0**octave * (1.0 + np.arange(QUARTERS) / QUARTERS) for octave in range(OCTAVES)])
    s2 = low[:, None] + np.repeat(2.0 ** np.arange(OCTAVES) / QUARTERS, QUARTERS)[:, None] * points - 1.0
    m = (2.0 * NEAR / MEAN_CELLS) * (np.arange(MEAN_CELLS)[:, None] + points) - NEAR
    z = np.linspace(-8.0, 8.0, 121)
    share = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
    values = np.empty((m.size, s2.size, 2))
    for column, sd in enumerate(np.sqrt(s2.ravel())):
        up = 1.0 / (1.0 + np.exp(-(m.ravel()[:, None] + sd * z)))
        both = up * (1.0 - up)
        slope = both @ share / (up @ share)
        values[:, column, 0] = slope
        values[:, column, 1] = slope * slope - (both * (1.0 - 2.0 * up)) @ share / (up @ share)
    to_powers = np.linalg.inv(np.vander(points, increasing=True))
    values = values.reshape(MEAN_CELLS, 4, len(low), 4, 2)
    return np.einsum("ap,bq,ipjqf->ijbfa", to_powers, to_powers, values).astype(np.float32).ravel()


class Moment(DiagonalGaussian, ShardingLearner):
    """Moment-matching learner (ADF; one-pass EP). Prior, intercept and dtype are as in `Marginal`.

    Args:
        link: "logistic" or "probit".
        expectation: "exact" matches the moments under the link itself, "probit" under a probit that approximates it.
        predictive: "closed" is (8); "quadrature" integrates the link over the score.

    >>> from bayou import Batch
    >>> learner = Moment(n_features=10, link="probit", prior_variance=1.0)
    >>> learner.learn(Batch.from_rows([{0: 1.0}, {0: 1.0}], labels=[1, 1])).round(3).tolist()
    [0.5, 0.77]
    """

    name = "moment"
    supported_links = tuple(UNDER_PROBIT)

    def __init__(
        self,
        n_features: int,
        *,
        link: str = "logistic",
        expectation: str = "exact",
        prior_mean: Any = 0.0,
        prior_variance: Any = 1.0,
        predictive: str = "closed",
        intercept: bool = True,
        intercept_variance: float | None = None,
        dtype: Any = None,
    ) -> None:
        weights = n_features, dtype, intercept, prior_mean, prior_variance, intercept_variance
        super().__init__(*weights, link=link, expectation=expectation, predictive=predictive)
        self._probit = check_choice("expectation", expectation, UNDER_PROBIT[link])
        self._noise = 1.0 / links.TABLE[self._link].damping_constant  # b2
        looked_up = self._dtype == "float32" and not self._probit
        self._table = _table() if looked_up else np.zeros(0, np.float32)

    def _run_kernel(self, examples: BatchArrays, mean: np.ndarray, variance: np.ndarray) -> None:
        example = np.uint64(self._examples)
        _stream(examples, self._beliefs(), self._probit, self._noise, self._table, example, mean, variance)


@kernel(forceinline=True)
def _mills_of(x):
    """Return _mills(x) in every lane."""
    inverse = 1.0 / (x + BEND)
    t = inverse * (-2.0 * BEND) + 1.0
    t2 = t * t
    t4 = t2 * t2
    t8 = t4 * t4
    c = MILLS
    a = ((t * c[1] + c[0]) + t2 * (t * c[3] + c[2])) + t4 * ((t * c[5] + c[4]) + t2 * (t * c[7] + c[6]))
    b = ((t * c[9] + c[8]) + t2 * (t * c[11] + c[10])) + t4 * ((t * c[13] + c[12]) + t2 * (t * c[15] + c[14]))
    d = ((t * c[17] + c[16]) + t2 * (t * c[19] + c[18])) + t4 * ((t * c[21] + c[20]) + t2 * (t * c[23] + c[22]))
    return (a + t8 * (b + t8 * d)) * inverse


@kernel(forceinline=True)
def _normal(point, s2, variances, densities, near, far):
    """Return 1/sd^2 = 1/(V + s2), 1/sd, z = point/sd, share times phi(z), and Phi(-|z|)/phi(z) of each normal mixed.

    phi(z) is computed as e^-((near + far (WIDEST - V)) / sd^2): near = point^2/2 and far = 0 give phi itself, near = 0
    and far = point^2 / 2(WIDEST + s2) give it divided by the largest of all normals.
    """
    inverse = 1.0 / (variances + s2)
    root = sqrt(inverse)
    z = point * root
    density = densities * exp2(((WIDEST - variances) * far + near) * inverse * -LOG2E)
    return inverse, root, z, density, _mills_of(magnitude(z))


@kernel(forceinline=True)
def _hazard(z, mills):
    """Return R = 1/mills, the hazard at -|z|, and R (R - |z|), which approaches 1 like 1 - 1/z^2 + 6/z^4."""
    x = magnitude(z)
    hazard = 1.0 / mills
    small = 1.0 / (x * x)
    return hazard, where_above(x, 100.0, small * (small * 6.0 - 1.0) + 1.0, hazard * (hazard - x))


@kernel(forceinline=True)
def _log_slopes(m, s2, v0, v1, d0, d1):
    """Return d log F/dm and -d^2 log F/dm^2 of F(m) = E[S(score)], score ~ N(m, s2), in the type of the vectors."""
    half = 0.5 * s2
    left = m < -half
    point = -m - s2 if left else m
    right = point > half
    folded = point - s2 if right else point
    shift = 0.5 * folded * (folded / (WIDEST + s2))
    # Left of 0 all densities are divided by the largest, as even that may vanish.
    near, far = (0.0, shift) if folded < 0.0 else (0.5 * folded * folded, 0.0)
    i0, r0, z0, p0, m0 = _normal(folded, s2, v0, d0, near, far)
    i1, r1, z1, p1, m1 = _normal(folded, s2, v1, d1, near, far)
    tail0, tail1 = p0 * m0, p1 * m1
    chance = np.float64(sum_lanes(tail0 + tail1))
    chance = chance if folded < 0.0 else 1.0 - chance
    slope = sum_lanes(p0 * r0 + p1 * r1) / chance
    fall = slope * slope + sum_lanes(p0 * z0 * i0 + p1 * z1 * i1) / chance
    # Left of 0 these two terms cancel, the more the wider the score. There `fall` is the mean of each normal's own
    # fall, minus the variance of their slopes. The sign of `folded` is unpredictable: branching always would be slow.
    if folded < 0.0 and s2 > WIDE:
        h0, g0 = _hazard(z0, m0)
        h1, g1 = _hazard(z1, m1)
        off0, off1 = h0 * r0 - slope, h1 * r1 - slope
        fall = sum_lanes(tail0 * (g0 * i0 - off0 * off0) + tail1 * (g1 * i1 - off1 * off1)) / chance
    if right:
        doubt = math.exp(half - point - far) * chance  # 1 - F
        doubt /= 1.0 - doubt
        back = 1.0 - slope
        slope = doubt * back
        fall = doubt * max(back * back - fall, 0.0) + slope * slope
    return (1.0 - slope if left else slope), max(fall, 0.0)


@kernel(forceinline=True)
def _looked_up(table, m, s2):
    """Return the result of `_log_slopes` for (m, s2), interpolated from the table."""
    bits = float_bits(1.0 + s2)  # the exponent and the first two bits of the fraction give the cell
    across = (bits >> 50) - 4092
    u = np.float32((bits & ((1 << 50) - 1)) * 2.0**-50)
    place = (m + NEAR) * (MEAN_CELLS / (2.0 * NEAR))
    along = np.int64(place)
    f = np.float32(place - along)
    cell = (along * (OCTAVES * QUARTERS) + across) * 32
    c = (load(table, cell + 24) * u + load(table, cell + 16)) * u + load(table, cell + 8)
    c = c * u + load(table, cell)
    f2 = f * f
    slope = (extract_lane(c, 0) + f * extract_lane(c, 1)) + f2 * (extract_lane(c, 2) + f * extract_lane(c, 3))
    fall = (extract_lane(c, 4) + f * extract_lane(c, 5)) + f2 * (extract_lane(c, 6) + f * extract_lane(c, 7))
    return np.float64(slope), np.float64(fall)


@kernel
def _probit_slopes(m, s2, noise):
    """Return d log Z/dm and -d^2 log Z/dm^2 of Z = Phi(m / sqrt(noise + s2))."""
    spread = noise + s2
    slope, fall = links.slope_and_curvature(links.PROBIT, m / math.sqrt(spread))
    return slope / math.sqrt(spread), fall / spread


@kernel
def _weighted(m, s2, c, slope, fall, link, noise):
    """Return dm, -dv and the remaining fraction of the score's variance for an example of weight c.

    Args:
        slope, fall: dm and -dv of an example of weight 1.
        noise: variance of the probit that approximates the link; 1 for none.
    """
    if c <= 1.0:
        return c * slope, c * fall, max(1.0 - c * (s2 * fall), LEAST_LEFT)
    left = max(1.0 - s2 * fall, LEAST_LEFT)
    unit = math.sqrt(noise)
    z = (m + s2 * slope) / unit
    t = peak_shift(link, z, s2 * left * (c - 1.0) / noise, 0.0)
    q, k = links.slope_and_curvature(link, z + t)
    pull = left * (c - 1.0) * k / noise
    shrink = 1.0 / (1.0 + s2 * pull)
    return slope + left * (c - 1.0) * q / unit, (fall + pull) * shrink, max(left * shrink, 1e-30)


@kernel
def _stream(examples, beliefs, probit, noise, table, example, score_mean, score_variance):
    """Predict each row, then learn from it if its weight is not 0."""
    state = beliefs.state
    dtype = state.dtype.type
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    variances, densities = VARIANCES.astype(state.dtype), DENSITIES.astype(state.dtype)
    v0, v1 = load(variances, 0), load(variances, LANES)
    d0, d1 = load(densities, 0), load(densities, LANES)
    row = row_scratch(examples.max_row_length, beliefs, beliefs.state.dtype)
    for n in range(examples.indptr.size - 1):
        mean, variance, size, ahead = read_row(examples, beliefs, row, n, 1, dtype(1), False)
        m, s2 = np.float64(mean), np.float64(variance)
        score_mean[n], score_variance[n] = m, s2
        c = np.float64(examples.weights[n])
        if c == 0.0:
            continue
        example += np.uint64(1)
        y = np.float64(examples.labels[n])
        if probit:
            slope, fall = _probit_slopes(y * m, s2, noise)
        elif table.size > 0 and abs(m) < NEAR and s2 < NARROW:
            slope, fall = _looked_up(table, y * m, s2)
        elif s2 < STEP_FROM:
            slope, fall = _log_slopes(y * m, s2, v0, v1, d0, d1)
        else:
            # S is a step: F(m) = Phi(m/sd), with a slope of at most 1
            slope, fall = _probit_slopes(y * m, s2, 0.0)
            slope = min(slope, 1.0)
        if c == 1.0:
            left = max(1.0 - s2 * fall, LEAST_LEFT)
        elif probit:
            slope, fall, left = _weighted(y * m, s2, c, slope, fall, links.PROBIT, noise)
        else:
            slope, fall, left = _weighted(y * m, s2, c, slope, fall, links.LOGISTIC, 1.0)
        dm, dv, left = dtype(y * slope), dtype(fall), dtype(left)
        condition_row(beliefs, row, size, 1, variance, dm, dv, left, most, example, examples.indices, ahead)
    state[-1] = 0
