"""Variational Bayes, one weight at a time: the Gaussian closest to each weight's marginal posterior.

Every weight is N(mu_i, v_i), independent of the others. An example (x, y = +-1) of weight c has m = sum x_i mu_i and
s2 = sum x_i^2 v_i. With all other weights integrated out under their old posteriors as in `marginal`, s^2 = 1 + C8 (s2
- x^2 v), C8 = pi/8, the new posterior N(mu + y a sd sign(x), (r sd)^2), sd = sqrt(v), minimizes the divergence (49). In
units of the old sd, with z0 = y m / s and k = |x| sd / s, that is

    J(a, r) = a^2/2 + r^2/2 - log r + c E[log(1 + e^-(z0 + k (a + r U)))],    U ~ N(0, 1)

a convex function, of which (52) is the gradient and (53) the matrix of second derivatives. The expectation is taken

    expectation="quadrature"     at n_points Gauss-Hermite nodes, 8 by default
    expectation="monte-carlo"    at n_points normal draws, new for each weight and example: the paper's VB-100 and
                                 VB-1000. A draw is one of 2^16 equally likely normal quantiles, chosen by bits of a
                                 hash of (seed, example number, feature, sample). Using the same draws for all examples
                                 would bias variances permanently.

    mean_update="newton"   Newton's steps (54) in both a and r. They start from the Laplace approximation, are halved
                           where they overshoot, and never take r below a tenth of it: undamped, (54) drives r below 0.
    mean_update="taylor"   q = S(-z) of each node is replaced by its tangent at the old posterior, as in (17). Then
                           (52) is linear in a and quadratic in r with one positive root: no iterations.

With sums over the nodes u_j of weight w_j, q_j = S(-z_j), S_n = sum w u^n q and P_n = sum w u^n q (1 - q):

    gradient   a - c k S_0,   r - 1/r - c k S_1       second derivatives   1 + c k^2 P_0,  c k^2 P_1,
                                                                           1 + 1/r^2 + c k^2 P_2

Draws are noisy: they may also increase a variance, but never beyond the prior's. Quadrature never does.
Predictions are (8), or the integral of the sigmoid (`predictive`). Merging adds natural parameters.

Paper: marginal-gaussian, appendix D.3.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np

from bayou.core import links
from bayou.core.checks import check_choice, check_int
from bayou.core.errors import BadModel
from bayou.core.registry import Record
from bayou.core.sharding import ShardingLearner
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import exp2
from bayou.kernels.inlining import inlined
from bayou.kernels.random import GOLDEN, mix
from bayou.kernels.row_layout import BatchArrays
from bayou.kernels.vector import LANES, broadcast, load, pad_to_lanes, sum_lanes
from bayou.learners.bases.diagonal import LOG2E, DiagonalGaussian, gather_scalars, row_scalars, store_weight

RECORD = Record(
    "variational", "bayou.learners.variational:Variational", "VariationalClassifier", sharding=True,
    summary="Gaussian weights, each the nearest to its marginal posterior; by nodes or draws",
    paper="marginal-gaussian, appendix D.3",
)  # fmt: skip

EXPECTATIONS = {"quadrature": False, "monte-carlo": True}
MEAN_UPDATES = {"newton": False, "taylor": True}
POINTS = {"quadrature": 8, "monte-carlo": 100}
MOST_POINTS = {"quadrature": 128, "monte-carlo": 1 << 20}
# A convex function of two variables takes a few steps; many more would be due to rounding noise.
MAX_ITERATIONS = 60
# The intercept's draws use a feature index that no batch can contain.
INTERCEPT_KEY = np.uint64(2**63)
# For a posterior this much wider than the sigmoid, the sigmoid is a step; larger widths would only overflow.
WIDEST = 1e8


def _quantiles() -> np.ndarray:
    """Return 2^16 equally likely normal quantiles, scaled to variance 1."""
    from scipy.special import ndtri

    half = ndtri((np.arange(2**15) + 0.5) / 2**16)
    both = np.concatenate([half, -half[::-1]])
    return both / np.sqrt(np.mean(both**2))


class ExpectationNodes(NamedTuple):
    """Nodes, or draws, at which expectations are evaluated."""

    nodes: np.ndarray
    node_weights: np.ndarray
    draws: bool  # whether the nodes are drawn anew for each weight and example
    table: np.ndarray  # the quantiles that draws are taken from
    seed: np.uint64


class Variational(DiagonalGaussian, ShardingLearner):
    """Marginalized variational Bayes for logistic regression. Prior, intercept and dtype are as in `Marginal`.

    Args:
        expectation: "quadrature" or "monte-carlo".
        n_points: number of nodes or draws for each weight and example; 8 nodes or 100 draws by default.
        mean_update: "newton" minimizes the divergence, "taylor" takes one step in closed form.
        predictive: "closed" is (8); "quadrature" integrates the sigmoid over the score.
        seed: seed of the draws.

    >>> from bayou import Batch
    >>> learner = Variational(n_features=10, prior_variance=1.0)
    >>> learner.learn(Batch.from_rows([{0: 1.0}, {0: 1.0}], labels=[1, 1])).round(3).tolist()
    [0.5, 0.693]
    """

    name = "variational"

    def __init__(
        self,
        n_features: int,
        *,
        expectation: str = "quadrature",
        n_points: int | None = None,
        mean_update: str = "newton",
        prior_mean: Any = 0.0,
        prior_variance: Any = 1.0,
        predictive: str = "closed",
        seed: int = 0,
        intercept: bool = True,
        intercept_variance: float | None = None,
        dtype: Any = None,
    ) -> None:
        self._draws = check_choice("expectation", expectation, EXPECTATIONS)
        n_points = POINTS[expectation] if n_points is None else n_points
        n_points = check_int("n_points", n_points, 1, MOST_POINTS[expectation])
        weights = n_features, dtype, intercept, prior_mean, prior_variance, intercept_variance
        rules: dict[str, Any] = {"expectation": expectation, "n_points": n_points, "mean_update": mean_update}
        seed = check_int("seed", seed, 0, 2**64 - 1)
        super().__init__(*weights, **rules, predictive=predictive, seed=seed)
        self._taylor = check_choice("mean_update", mean_update, MEAN_UPDATES)
        # Nodes and their weights, padded to whole vectors with nodes of weight 0.
        self._nodes, self._node_weights = np.zeros((2, pad_to_lanes(n_points)))
        if self._draws:
            self._node_weights[:n_points] = 1.0 / n_points
            self._table = _quantiles()
        else:
            nodes, shares = np.polynomial.hermite_e.hermegauss(n_points)
            self._nodes[:n_points], self._node_weights[:n_points] = nodes, shares / shares.sum()
            self._table = np.zeros(1)

    def _run_kernel(self, examples: BatchArrays, mean: np.ndarray, variance: np.ndarray) -> None:
        nodes = self._nodes.copy()  # draws are written to it, and snapshots may predict at the same time
        points = ExpectationNodes(
            nodes, self._node_weights, self._draws, self._table, np.uint64(self._parameters["seed"])
        )
        _stream(examples, self._beliefs(), points, self._taylor, np.uint64(self._examples), mean, variance)

    @property
    def _may_lose(self) -> bool:  # type: ignore[override]
        return bool(self._draws)

    def _merge_many(self, others: list[Self], base: Self | None) -> None:
        # Learning by draws may lower a precision below the base's, but cannot reset a weight that the base had learned.
        for name, before in base._arrays().items() if base is not None and self._draws else ():
            is_known = np.all([learner._arrays()[name].any(axis=1) for learner in (self, *others)], axis=0)
            if (before.any(axis=1) & ~is_known).any():
                raise BadModel("base knows more than the models grown from it; give a common ancestor.")
        super()._merge_many(others, base)


@inlined
def _draw(table, seed, example, feature, nodes):
    """Fill `nodes` with new normal draws: four per hash, 16 bits each."""
    key = mix(seed + GOLDEN)
    key = mix(key ^ (example + GOLDEN))
    key = mix(key ^ (np.uint64(feature) + GOLDEN))
    low = np.uint64(0xFFFF)
    for j in range(0, nodes.size, 4):
        bits = mix(key + np.uint64(j // 4 + 1) * GOLDEN)
        nodes[j] = table[bits & low]
        nodes[j + 1] = table[(bits >> np.uint64(16)) & low]
        nodes[j + 2] = table[(bits >> np.uint64(32)) & low]
        nodes[j + 3] = table[bits >> np.uint64(48)]


@inlined
def _sums(z, width, nodes, node_weights):
    """Return S_0, S_1, P_0, P_1, P_2 of the nodes at margins z + width u."""
    s0 = s1 = p0 = p1 = p2 = broadcast(load(nodes, 0), 0.0)
    for j in range(0, nodes.size, LANES):
        u, w = load(nodes, j), load(node_weights, j)
        e = exp2((u * width + z) * LOG2E)
        q = 1.0 / (e + 1.0)
        wq = w * q
        uwq = u * wq
        s0 = s0 + wq
        s1 = s1 + uwq
        p = e * q
        p0 = p0 + wq * p
        uwqp = uwq * p
        p1 = p1 + uwqp
        p2 = p2 + u * uwqp
    return sum_lanes(s0), sum_lanes(s1), sum_lanes(p0), sum_lanes(p1), sum_lanes(p2)


@inlined
def _taylor_step(z0, k, c, nodes, node_weights):
    """Return (a, r) with every q replaced by its tangent at a = 0, r = 1.

    a = A - B (r - 1) and r - 1/r = G - E (r - 1), so that (1 + E) r^2 - (G + E) r - 1 = 0; E >= 0 by Cauchy-Schwarz.
    """
    s0, s1, p0, p1, p2 = _sums(z0, k, nodes, node_weights)
    ck, ck2 = c * k, c * k * k
    scale = 1.0 + ck2 * p0
    cross = ck2 * p1 / scale
    g = ck * (s1 - cross * s0)
    e = max(ck2 * p2 - cross * (ck2 * p1), 0.0)
    b = g + e
    root = math.sqrt(b * b + 4.0 * (1.0 + e))
    r = (b + root) / (2.0 * (1.0 + e)) if b > 0.0 else 2.0 / (root - b)
    return ck * s0 / scale - cross * (r - 1.0), r


@inlined
def _newton_steps(z0, k, c, nodes, node_weights):
    """Return (a, r) at the minimum of J, by Newton's method; see the module docstring.

    J is convex, so its slope only grows along a step: a step that ends where J rises more steeply than nine tenths of
    the initial descent went too far and is halved.
    """
    ck = c * k
    ck2 = ck * k
    # the Laplace approximation at the inflection, or at the old mean if that lies beyond
    a = min(max(-z0 / k, 0.0), ck)
    r = 1.0 / math.sqrt(1.0 + ck2 * links.curvature(links.LOGISTIC, z0 + k * a))
    s0, s1, p0, p1, p2 = _sums(z0 + k * a, k * r, nodes, node_weights)
    for _ in range(MAX_ITERATIONS):
        g_a, g_r = a - ck * s0, r - 1.0 / r - ck * s1
        h_aa, h_ar, h_rr = 1.0 + ck2 * p0, ck2 * p1, 1.0 + 1.0 / (r * r) + ck2 * p2
        determinant = h_aa * h_rr - h_ar * h_ar
        d_a, d_r = (h_ar * g_r - h_rr * g_a) / determinant, (h_ar * g_a - h_aa * g_r) / determinant
        slope = g_a * d_a + g_r * d_r  # < 0
        # Newton's steps square the error: after a step this short only rounding noise is left.
        if not slope < -1e-14 * (a * a + r * r):
            a, r = a + d_a, max(r + d_r, 0.1 * r)
            break
        length = min(1.0, 0.9 * r / -d_r) if d_r < 0.0 else 1.0
        for _ in range(MAX_ITERATIONS):
            new_a, new_r = a + length * d_a, r + length * d_r
            s0, s1, p0, p1, p2 = _sums(z0 + k * new_a, k * new_r, nodes, node_weights)
            if (new_a - ck * s0) * d_a + (new_r - 1.0 / new_r - ck * s1) * d_r <= -0.9 * slope:
                break
            length *= 0.5
        a, r = new_a, new_r
    return a, r


@kernel
def _stream(examples, beliefs, points, taylor, example, score_mean, score_variance):
    """Predict each row, then learn from it if its weight is not 0; weights one at a time, nodes LANES at a time."""
    nodes, node_weights, draws = points.nodes, points.node_weights, points.draws
    row = row_scalars(examples.max_row_length)
    for n in range(examples.indptr.size - 1):
        m, s2, size = gather_scalars(examples, beliefs, n, row)
        score_mean[n], score_variance[n] = m, s2
        c = np.float64(examples.weights[n])
        if c == 0.0:
            continue
        y = np.float64(examples.labels[n])
        example += np.uint64(1)
        for k in range(size):
            x = row.xs[k]
            if x == 0.0:
                continue
            precision = row.bases[k] + row.gains[k]
            sd = 1.0 / math.sqrt(precision)
            others = max(s2 - x * x / precision, 0.0)
            s = math.sqrt(1.0 + links.C8 * others)
            width = abs(x) * sd / s
            if width < 1e-150:  # its contribution to the score is negligible
                continue
            z0 = y * m / s
            if width > WIDEST:  # keep the distance to the step in standard deviations
                z0, width = z0 * (WIDEST / width), WIDEST
            if draws:
                key = INTERCEPT_KEY if k == 0 else np.uint64(examples.indices[examples.indptr[n] + k - 1])
                _draw(points.table, points.seed, example, key, nodes)
            if taylor:
                a, r = _taylor_step(z0, width, c, nodes, node_weights)
            else:
                a, r = _newton_steps(z0, width, c, nodes, node_weights)
            if not (abs(a) < np.inf and 0.0 < r < np.inf):  # beyond the range of floats
                continue
            if not draws:
                r = min(r, 1.0)
            step = y * a * sd * (1.0 if x > 0.0 else -1.0)
            more = precision * ((1.0 - r) * (1.0 + r) / (r * r))
            mean, gained = row.means[k] + step, row.gains[k] + more
            store_weight(examples, beliefs, n, k, mean, gained, 0.0 if draws else row.gains[k], example)
