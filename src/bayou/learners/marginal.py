"""Marginalized Gaussian: closed-form Bayesian logistic and probit regression, one weight at a time.

Every weight is N(mu_i, v_i), independent of the others. An example (x, y = +-1) with m = sum x_i mu_i and
s2 = sum x_i^2 v_i is predicted by (8), (24), with C = pi/8 (logistic, F = S) or 1 (probit, F = Phi):

    P(y) = F(y m / sqrt(1 + C s2))

Then each active weight is updated alone, with all others integrated out under their old posteriors. With
s = sqrt(1 + C (s2 - x^2 v)), z0 = y m / s, tau = x^2 v / s^2, q = F'/F and k = -(log F)'':

    t solves t = tau q(z0 + t)                (15), (28)   mean_update="newton"
    t = tau q(z0) / (1 + tau k(z0))           (17), (30)   mean_update="taylor", Newton's first step
    mu += y s t / x
    1/v += x^2 / s^2 k(z0 + t)                (19), (31)   variance_update="laplace"
    sd *= p_t / p_+ exp(step^2 / (2 v))       (18)         variance_update="peak"; never wider than before

Newton starts at the inflection t = max(0, -z0), from which it converges monotonically; started at 0 it can cycle
forever. "auto" takes Taylor's step where tau <= 1 and Newton's elsewhere, where Taylor's overshoots by many standard
deviations. An example of weight c has its log-likelihood multiplied by c: tau becomes c tau, and x^2 becomes
c x^2. "peak" applies to c = 1 only; other examples use the laplace rule, which agrees with the exact height to one
percent, while (p_t/p_+)^c lets variances collapse.

After some 10^6 examples a weight's steps are smaller than the last place of a float32. Rounded to nearest, the small
steps of the frequent label would all be lost and the mean would drift by hundreds of standard deviations, so float32
state is rounded up or down by a sequence that is right on average, keyed by (example number, feature).

`temper` = (ku, kp) multiplies C s2 when updating and when predicting; `memory` = gamma widens each weight at each
use, 1/v <- max(1/v / (1 + gamma), 1/v0), so that old evidence fades.

scale="learned" is ours, not the paper's. Early rows are learned at scores that are too small or too large, and the
error of all weights is mostly a common factor, of which independent weights are far too certain. So all weights but the
intercept are e^l w_i, and l is learned beside them. With M the score without the intercept, s2 as above, t examples,
g = 1/(1 + C ku s2), z = y m sqrt(g) and h = M^2 g k(z):

    l += M v_l y sqrt(g) q(z), at most .1      G += h / max(1 - h v_l, 1/2)      v_l = 1/(20 + G + .03 t)

After 8, 16, 32, ... examples the factor is folded into the weights: mu *= e^l, 1/v - 1/v0 *= e^-2l, l = 0. Their prior
stays, so a wrong prior_variance costs little.

Paper: Low complexity approximate Bayesian logistic regression for sparse online learning (marginal-gaussian),
section 3, appendices A to C. prior_mean and prior_variance are its mu_0 and sigma_0^2.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from bayou.core import links
from bayou.core.batch import Example
from bayou.core.checks import check_choice, check_positive
from bayou.core.errors import BadInput
from bayou.core.gains import RULE_EVIDENCE, RULE_RECENT
from bayou.core.registry import Record
from bayou.core.sharding import ShardingLearner
from bayou.kernels.allocate import empty, zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import POWERS_32, POWERS_64, exp2, exp2_within, exp_unit, expm1
from bayou.kernels.gather import prefetch_pairs, scatter_pairs
from bayou.kernels.rounding import add_dithered
from bayou.kernels.row_layout import BatchArrays
from bayou.kernels.vector import (
    LANES,
    any_above,
    as_readonly,
    broadcast,
    cast_like,
    extract_lane,
    load,
    magnitude,
    sqrt,
    store,
    where_above,
)
from bayou.learners.bases.diagonal import (
    LIMIT_32,
    LIMIT_64,
    LOG2E,
    MAX_ITERATIONS,
    MEAN_SHIFT,
    PRECISION_GAIN,
    DiagonalGaussian,
    DiagonalState,
    logistic_probabilities,
    read_row,
    row_scratch,
)
from bayou.learners.bases.evidence import link_log_cdf, link_peak_start, link_slope_and_curvature, solve_evidence_step
from bayou.learners.bases.location_strength import LocationStrengthSharding

RECORD = Record(
    "marginal", "bayou.learners.marginal:Marginal", "MarginalClassifier", sharding=True,
    summary="Gaussian weights, each updated against all others marginalised; closed form",
    paper="marginal-gaussian, section 3, appendices B, C",
)  # fmt: skip

LN2 = math.log(2.0)
SCALES = {"fixed": False, "learned": True}
# State of the learned scale:
#     SCALE       l
#     SCALE_GAIN  G, its precision gained
#     FOLDED      sum of all l that were folded into the weights
SCALE, SCALE_GAIN, FOLDED = range(3)
# Precision of l in the prior, and what each example adds to it; bounds of a step, of l, and of FOLDED.
SCALE_PRECISION, SCALE_DECAY = 20.0, 0.03
MAX_SCALE_STEP, MAX_SCALE, MAX_FOLDED = 0.1, 0.5, 3.0
FIRST_FOLD = 8
# Newton's step is taken where tau is above this.
NEWTON_ABOVE = {"auto": 1.0, "taylor": math.inf, "newton": 0.0}
VARIANCE_UPDATES = {"laplace": False, "peak": True}


class Marginal(DiagonalGaussian, ShardingLearner):
    """Marginalized Gaussian learner (Algorithm 1).

    Args:
        n_features: number of weights; feature indices start at 0.
        link: "logistic" or "probit".
        mean_update: "auto", "taylor" or "newton".
        variance_update: "laplace" or "peak".
        prior_mean: prior mean of the weights; a number or one per feature.
        prior_variance: prior variance of the weights; a number or one per feature. It should match the actual spread of
            the weights: the algorithm is sensitive to it.
        temper: (ku, kp), factors of the score's variance when updating and when predicting.
        memory: gamma >= 0, the rate of forgetting; 0 never forgets.
        predictive: "closed" is (8); "quadrature" integrates the link over the score.
        intercept: whether to add a weight whose feature is always 1 (prior mean 0).
        intercept_variance: its prior variance; by default max(3, prior_variance).
        scale: "learned" learns a common factor of all weights, for intervals that cover the truth more often; it needs
            prior_mean=0. "fixed" is the paper's algorithm.
        dtype: type of the state, "float32" or "float64". The intercept is always kept in float64.

    >>> from bayou import Batch
    >>> learner = Marginal(n_features=10, prior_variance=1.0)
    >>> p = learner.learn(Batch.from_rows([{0: 1.0, 3: 1.0}, {0: 1.0}], labels=[1, 1]))
    >>> bool(p[0] == 0.5 and p[1] > 0.5 and learner.variance[0] < learner.variance[1] == 1.0)
    True
    """

    name = "marginal"

    def __init__(
        self,
        n_features: int,
        *,
        link: str = "logistic",
        mean_update: str = "auto",
        variance_update: str = "laplace",
        prior_mean: Any = 0.0,
        prior_variance: Any = 1.0,
        temper: tuple[float, float] = (1.0, 1.0),
        memory: float = 0.0,
        predictive: str = "closed",
        intercept: bool = True,
        intercept_variance: float | None = None,
        scale: str = "fixed",
        dtype: Any = None,
    ) -> None:
        try:
            ku, kp = (check_positive("temper", k, zero=True) for k in temper)
        except (TypeError, ValueError):
            raise BadInput(f"temper is {temper!r}; it must be two numbers >= 0, (ku, kp).") from None
        weights = n_features, dtype, intercept, prior_mean, prior_variance, intercept_variance
        rules: dict[str, Any] = {"link": link, "mean_update": mean_update, "variance_update": variance_update}
        memory = check_positive("memory", memory, zero=True)
        self._learns_scale = check_choice("scale", scale, SCALES)
        if self._learns_scale:  # absent from files otherwise
            rules["scale"] = scale
            if np.any(np.asarray(prior_mean) != 0):
                raise BadInput('scale="learned" needs prior_mean=0: rescaling weights would move their prior.')
        super().__init__(*weights, **rules, temper=[ku, kp], memory=memory, predictive=predictive)
        self._newton_above = check_choice("mean_update", mean_update, NEWTON_ABOVE)
        self._peak = check_choice("variance_update", variance_update, VARIANCE_UPDATES)
        self._keep = 1.0 / (1.0 + self._parameters["memory"])
        self._temper = (ku, kp)
        self._predictive_temper = kp

    def _run_kernel(self, examples: BatchArrays, mean: np.ndarray, variance: np.ndarray) -> None:
        rules = (self._keep, self._temper[0], self._newton_above)
        example = np.uint64(self._examples)
        if self._link == links.LOGISTIC and not self._peak and not self._learns_scale:
            _stream(examples, self._beliefs(), *rules, example, mean, variance)
        else:
            scale = self._scale_state[0], self._learns_scale
            _stream_general(examples, self._beliefs(), *rules, self._link, self._peak, *scale, example, mean, variance)

    def _run_example(self, row: Example, sign: float, weight: float) -> float:
        if self._link != links.LOGISTIC or self._peak or self._quadrature or self._learns_scale:
            return super()._run_example(row, sign, weight)
        return _stream_row(
            row.indices,
            row.values,
            row.size,
            row.is_all_ones,
            sign,
            weight,
            self._state,
            self._prior,
            self._intercept_state[0],
            self._has_intercept,
            self._intercept_precision,
            self._keep,
            *self._temper,
            self._newton_above,
            self._examples,
        )

    @property
    def _rule(self) -> int:
        return RULE_RECENT if self._parameters["memory"] > 0 else RULE_EVIDENCE

    # --- the scale ------------------------------------------------------------------------------------------------

    def _make_state(self) -> None:
        super()._make_state()
        self._scale_state = np.zeros((1, 3))

    def _arrays(self) -> dict[str, np.ndarray]:
        return super()._arrays() | ({"scale": self._scale_state} if self._learns_scale else {})

    def _mean_at(self, features: Any) -> np.ndarray:
        return super()._mean_at(features) * math.exp(self._scale_state[0, SCALE])

    def _variance_at(self, features: Any) -> np.ndarray:
        return super()._variance_at(features) * math.exp(2.0 * self._scale_state[0, SCALE])

    def will_change_other_features(self, examples: int) -> bool:
        return self._learns_scale and self._examples.bit_length() < (self._examples + examples).bit_length()

    @property
    def sharding(self) -> LocationStrengthSharding:
        self._check_addable()
        return super().sharding

    def _merge_many(self, others: list[Self], base: Self | None) -> None:
        self._check_addable()
        super()._merge_many(others, base)

    def _check_addable(self) -> None:
        if self._learns_scale:
            raise BadInput(
                'marginal models with scale="learned" cannot be combined, because each has weights on its own scale; '
                "train one model on all rows, or omit `scale`."
            )


@kernel(forceinline=True)
def _calm_step(x, xv, s2, label_score, c, spread):
    """Return (step of the mean / y, exp(z0), t, c x^2/s^2) by (17), for x^2 v and c x^2 v of at most 1.

    With r = 1/s, u = tau/c, e = exp(z0): t = c u (1+e) / ((1+e)^2 + c u e).
    """
    own = x * xv
    r2 = 1.0 / (max(s2 - own, 0.0) * spread + 1.0)
    r = sqrt(r2)
    u = own * r2
    e = exp2_within(r * label_score)
    d = e + 1.0
    h = c * d / (d * d + c * u * e)
    return xv * r * h, e, u * h, (c * x) * (x * r2)


@kernel(forceinline=True)
def _careful_step(x, xv, s2, label_score, c, spread, newton_above):
    """Return the result of `_calm_step` for any tau, by Newton (15) where c tau > newton_above, else by Taylor (17).

    If any lane takes Newton's steps, exp(z0 + t) and t = 0 may be returned in place of exp(z0) and t.
    """
    own = x * xv
    r2 = 1.0 / (max(s2 - own, 0.0) * spread + 1.0)
    r = sqrt(r2)
    u = own * r2
    tau = c * u
    power = r * label_score  # z0 in units of log 2
    e = exp2(power)
    d = e + 1.0
    h = c * d / (d * d + tau * e)
    if any_above(tau, newton_above) and c > 1.0:
        q, p = solve_evidence_step(power * LN2, tau)
        turn = where_above(tau, newton_above, broadcast(x, 0.0), u * h)
        e, h = where_above(tau, newton_above, p / q, e), where_above(tau, newton_above, q * c, h)
        return xv * r * h, e, turn, (c * x) * (x * r2)
    if any_above(tau, newton_above):  # the same root, by steps that keep results bit for bit
        t = max(power * -LN2, 0.0)
        for _ in range(MAX_ITERATIONS):
            e = exp2(power + t * LOG2E)
            q = 1.0 / (e + 1.0)
            step = (t - tau * q) / (tau * (q * (e * q)) + 1.0)
            before, t = t, max(t - step, 0.0)
            # A value that no longer changes in its type has converged, whatever the remaining step.
            if not any_above(magnitude(step) - t * 1e-15, 0.0) or not any_above(magnitude(t - before), 0.0):
                break
        h = where_above(tau, newton_above, t / u, h)
    return xv * r * h, exp2(power + u * h * LOG2E), broadcast(x, 0.0), (c * x) * (x * r2)


@kernel
def _stream(examples, beliefs, keep, temper, newton_above, example, score_mean, score_variance):
    """Predict each row, then learn from it if its weight is not 0: the logistic link with the laplace update.

    A row is laid out in vectors of LANES slots; slot 0 is the intercept, and slots after the last feature have x = 0:

        slot            0           1          2         ...   size
        row.features    spare       feature    feature         spare    state rows to scatter to
        row.xs          1 or 0      x          x               0        values
        row.means       intercept   moved      moved           -        means, minus the prior means
        row.gains       intercept   gained     gained          -        precisions, minus the prior precisions
        row.xvs         x v         x v        x v             0        values times variances
        steps, turns, odds, pulls                                       passed from the first loop to the second

    Phases of a row: read and predict (`read_row`), compute the steps, apply them. Meanwhile the weights of a later row
    are prefetched.
    """
    state, intercept = beliefs.state, beliefs.intercept
    dtype = state.dtype.type
    row = row_scratch(examples.max_row_length, beliefs, beliefs.state.dtype)
    scratch = zeros((4, len(row.xs)), state.dtype)
    steps, odds, turns, pulls = scratch[0], scratch[1], scratch[2], scratch[3]
    keep = dtype(keep)
    lose = dtype(1) - keep
    spread = dtype(links.C8 * temper)
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    far = math.sqrt(most)
    # Where x^2 v <= 1, r is at most sqrt(1 + spread) times its value for the whole row: with that margin on the row, a
    # calm step's exponents stay within POWERS and need no clamp of their own.
    low, high = POWERS_32 if state.itemsize == 4 else POWERS_64
    margin = 1.01 * math.sqrt(1 + spread)
    low, high = dtype(low / margin), dtype(high / margin)
    # Up to this tau Taylor's step is accurate and small enough for _calm_step.
    calm = min(newton_above, 1.0)
    for n in range(examples.indptr.size - 1):
        # Phase 1: gather the weights of the row, and predict.
        mean, variance, size, ahead = read_row(examples, beliefs, row, n, 1, keep, False)
        score_mean[n], score_variance[n] = mean, variance
        c = dtype(examples.weights[n])
        if c == 0:
            continue
        example += np.uint64(1)
        sign = dtype(examples.labels[n])
        label_score = sign * mean * dtype(LOG2E)
        bound = math.sqrt(dtype(1) + spread * variance)
        calm_score = min(max(label_score, low * bound), high * bound)
        heavy = max(c, dtype(1))
        # Phase 2: compute the step of each mean, (15) or (17), and the terms that (19) needs.
        for k in range(0, size, LANES):
            if ahead >= 0:
                prefetch_pairs(state, examples.indices, ahead + k)
            x, xv = load(row.xs, k), load(row.xvs, k)
            # tau <= c x^2 v: most rows need no closer look
            if any_above(heavy * (x * xv), calm):
                step, e, t, pull = _careful_step(x, xv, variance, label_score, c, spread, newton_above)
                moved = load(row.means, k)
                step = max(min(sign * step, far - moved), -far - moved)
                pull = min(pull, most - load(row.gains, k))
            else:
                step, e, t, pull = _calm_step(x, xv, variance, calm_score, c, spread)
                step = sign * step
            store(steps, k, step)
            store(odds, k, e)
            store(turns, k, t)
            store(pulls, k, pull)
        # Phase 3: add steps and precision to the state. A separate loop, because two short chains of operations
        # overlap with their neighbors better than a long one.
        for k in range(0, size, LANES):
            step = load(steps, k)
            e = load(odds, k) * exp_unit(load(turns, k))
            d = e + 1.0
            more = load(pulls, k) * (e / (d * d))  # (19)
            if k == 0:
                intercept[MEAN_SHIFT] = max(min(intercept[MEAN_SHIFT] + extract_lane(step, 0), far), -far)
                # the intercept's gain after memory, which was applied in the first loop
                gain = max(intercept[PRECISION_GAIN] * keep - beliefs.intercept_precision * lose, 0.0)
                intercept[PRECISION_GAIN] = gain + extract_lane(more, 0)
            moved = add_dithered(load(row.means, k), step, row.features, k, example)
            gained = add_dithered(load(row.gains, k), more, row.features, k, example)
            scatter_pairs(state, row.features, k, moved, gained)
    state[-1] = 0


@kernel
def _stream_row(
    indices,
    values,
    size,
    ones,
    sign,
    weight,
    state,
    prior,
    intercept,
    has_intercept,
    intercept_precision,
    keep,
    temper,
    predictive_temper,
    newton_above,
    example,
):
    """Run `_stream` on one row and return its probability. Takes few arrays, as passing each one costs time."""
    indptr = np.array([0, size])
    signs = np.full(1, sign, state.dtype)
    weights = np.full(1, weight, state.dtype)
    mean = empty(1, np.float64)
    variance = empty(1, np.float64)
    probability = empty(1, np.float64)
    examples = BatchArrays(as_readonly(indptr), as_readonly(indices), as_readonly(values), size, ones, signs, weights)
    beliefs = DiagonalState(state, prior, intercept, has_intercept, intercept_precision)
    _stream(examples, beliefs, keep, temper, newton_above, np.uint64(example), mean, variance)
    logistic_probabilities(predictive_temper, mean, variance, probability)
    return probability[0]


@kernel(forceinline=True)
def _shift(link, z0, tau, newton_above):
    """Return t / tau of (15), (17), (28), (30)."""
    q, k = link_slope_and_curvature(link, z0)
    h = q / (tau * k + 1.0)
    if any_above(tau, newton_above):
        t = link_peak_start(link, z0)
        for _ in range(MAX_ITERATIONS):
            q, k = link_slope_and_curvature(link, z0 + t)
            step = (t - tau * q) / (tau * k + 1.0)
            before, t = t, max(t - step, 0.0)
            if not any_above(magnitude(step) - t * 1e-15, 0.0) or not any_above(magnitude(t - before), 0.0):
                break
        h = where_above(tau, newton_above, t / tau, h)
    return h


@kernel
def _scale_row(row, size, mean, variance, factor):
    """Multiply a row's values by the scale, except the intercept's. Return mean, mean less intercept, and variance."""
    x, xv = row.xs[0], row.xvs[0]
    own, own_variance = x * row.means[0], x * xv
    for k in range(0, size, LANES):
        store(row.xs, k, load(row.xs, k) * factor)
        store(row.xvs, k, load(row.xvs, k) * factor)
    row.xs[0], row.xvs[0] = x, xv
    moving = factor * (mean - own)
    return own + moving, moving, own_variance + factor * factor * max(variance - own_variance, 0.0)


@kernel
def _learn_scale(scale, state, moving, dm, dv, example):
    """Learn the scale from the slope and the curvature of an example's log-likelihood, and fold it if that is due."""
    v = 1.0 / (SCALE_PRECISION + scale[SCALE_GAIN] + SCALE_DECAY * example)
    step = min(max(moving * v * dm, -MAX_SCALE_STEP), MAX_SCALE_STEP)
    low, high = max(-MAX_FOLDED - scale[FOLDED], -MAX_SCALE), min(MAX_FOLDED - scale[FOLDED], MAX_SCALE)
    scale[SCALE] = min(max(scale[SCALE] + step, low), high)
    h = min(moving * moving * dv, LIMIT_64)
    scale[SCALE_GAIN] = min(scale[SCALE_GAIN] + h / max(1.0 - h * v, 0.5), LIMIT_64)
    if example >= FIRST_FOLD and example & (example - 1) == 0:
        factor, most = math.exp(scale[SCALE]), LIMIT_32 if state.itemsize == 4 else LIMIT_64
        far = math.sqrt(most)
        for i in range(len(state)):
            if state[i, PRECISION_GAIN] > 0.0:  # unseen rows keep their untouched memory
                state[i, MEAN_SHIFT] = min(max(state[i, MEAN_SHIFT] * factor, -far), far)
                state[i, PRECISION_GAIN] = min(state[i, PRECISION_GAIN] / (factor * factor), most)
        scale[FOLDED] += scale[SCALE]
        scale[SCALE] = 0.0


@kernel
def _stream_general(
    examples, beliefs, keep, temper, newton_above, link, peak, scale, learns_scale, example, score_mean, score_variance
):
    """Predict and learn for any link and update, in float64, directly by the equations of the module docstring.

    A row is laid out as in `_stream`; between the phases each slot also has

        rs       1/s           scores   z0             taus    tau
        shifts   t / tau       mores    the precision gain, or for `peak` first log p_+

    `peak` subtracts the logarithms of two nearly equal heights, which would cancel completely in float32.
    """
    state, intercept = beliefs.state, beliefs.intercept
    row = row_scratch(examples.max_row_length, beliefs, np.float64)
    scratch = zeros((5, len(row.xs)), np.float64)
    rs, scores, taus, shifts, mores = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    held = load(zeros(LANES, state.dtype), 0)  # a vector of the state's type
    spread = links.damping_constant(link)
    most = LIMIT_32 if state.itemsize == 4 else LIMIT_64
    far = math.sqrt(most)
    for n in range(examples.indptr.size - 1):
        mean, variance, size, ahead = read_row(examples, beliefs, row, n, 1, keep, False)
        moving = 0.0
        if learns_scale:
            mean, moving, variance = _scale_row(row, size, mean, variance, math.exp(scale[SCALE]))
        score_mean[n], score_variance[n] = mean, variance
        c, sign = np.float64(examples.weights[n]), np.float64(examples.labels[n])
        if c == 0.0:
            continue
        example += np.uint64(1)
        side = links.of_label(link, sign)
        # Phase 1: compute s, z0 and tau. Several loops: short chains of operations overlap with their neighbors, a long
        # one does not.
        for k in range(0, size, LANES):
            own = load(row.xs, k) * load(row.xvs, k)
            r2 = 1.0 / (max(variance - own, 0.0) * (spread * temper) + 1.0)
            r = sqrt(r2)
            store(rs, k, r)
            store(scores, k, r * (sign * mean))
            store(taus, k, c * (own * r2))
        # Phase 2: compute t of the mean's update.
        for k in range(0, size, LANES):
            if ahead >= 0:
                prefetch_pairs(state, examples.indices, ahead + k)
            store(shifts, k, _shift(side, load(scores, k), load(taus, k), newton_above))
        # Phase 3: compute the precision gain of each weight.
        if peak and c == 1.0:
            for k in range(0, size, LANES):
                store(mores, k, link_log_cdf(side, load(scores, k) / sqrt(load(taus, k) * spread + 1.0)))
            for k in range(0, size, LANES):
                tau, h = load(taus, k), load(shifts, k)
                after = link_log_cdf(side, load(scores, k) + tau * h)
                store(mores, k, (after - load(mores, k)) * 2.0 - tau * h * h)
            for k in range(0, size, LANES):
                x = load(row.xs, k)
                # 1/v; any number where x is 0, as the variance does not change there
                precision = where_above(magnitude(x), 0.0, x / load(row.xvs, k), broadcast(x, 1.0))
                store(mores, k, precision * expm1(max(load(mores, k), 0.0)))  # (18)
        else:
            for k in range(0, size, LANES):
                xr, z = load(row.xs, k) * load(rs, k), load(scores, k) + load(taus, k) * load(shifts, k)
                store(mores, k, c * (xr * xr) * link_slope_and_curvature(side, z)[1])  # (19), (31)
        # Phase 4: add both to the state, within its limits.
        for k in range(0, size, LANES):
            moved, gained = load(row.means, k), load(row.gains, k)
            step = sign * c * (load(row.xvs, k) * (load(rs, k) * load(shifts, k)))
            step = max(min(step, far - moved), -far - moved)
            more = min(load(mores, k), most - gained)
            if k == 0:
                intercept[MEAN_SHIFT] += extract_lane(step, 0)
                intercept[PRECISION_GAIN] = extract_lane(gained + more, 0)
            moved, gained = cast_like(moved, held), cast_like(gained, held)
            moved = add_dithered(moved, cast_like(step, held), row.features, k, example)
            gained = max(add_dithered(gained, cast_like(more, held), row.features, k, example), gained)
            scatter_pairs(state, row.features, k, moved, gained)
        if learns_scale:
            root = math.sqrt(1.0 / (variance * (spread * temper) + 1.0))
            slope, curvature = link_slope_and_curvature(side, broadcast(load(row.xs, 0), sign * mean * root))
            dm, dv = c * sign * root * extract_lane(slope, 0), c * root * root * extract_lane(curvature, 0)
            _learn_scale(scale, state, moving, dm, dv, np.int64(example))
    state[-1] = 0
