"""The bank's rules against what we did not write: differences, integrals, linear algebra, brute force."""

import itertools

import numpy as np
import pytest
from scipy import optimize, sparse, stats
from scipy.special import expit, log_expit, logit

from bayou.learners.bank import PRESETS, Lane
from bayou.learners.bank.row_scaling import MAX_ROW_NORM, MIN_ROW_NORM, UNIT_FIT_ROWS
from bayou.learners.bank.updates import LEAST_ROOT
from tests.reference.adagrad import AdaGradReference
from tests.reference.bank import (
    C8,
    AdaGradLane,
    BankReference,
    Stacker,
    heavy_shift,
    made,
    mixed_logit,
    outputs_of,
    score_step,
    share_step,
    shrunk,
    told,
    unit_of,
)
from tests.reference.common import active_features
from tests.reference.marginal import widen

WIDTH = 8
scores = pytest.mark.parametrize(("m", "s"), [(0.0, 0.5), (1.5, 2.0), (-2.0, 8.0), (4.0, 0.1)])
labels = pytest.mark.parametrize("y", [-1.0, 1.0])


def random_rows(seed: int = 0, n: int = 100, binary: bool = False, size: float = 1.0):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, WIDTH, density=0.4, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    if binary:
        X.data[:] = 1.0
    y = np.where(rng.random(n) < expit(X @ rng.normal(size=WIDTH)), 1.0, -1.0)
    X.data *= size
    return X, y


def units(X, factors) -> sparse.csr_matrix:
    """The same features, each measured in another unit."""
    return (X @ sparse.diags(factors)).tocsr()


def tilted(m, s, y, weight=1.0):
    """Mean and variance of a score ~ N(m, s) after a label, its likelihood S(y score) to the power `weight`."""
    a = m + np.sqrt(s) * np.linspace(-12, 12, 20001)
    w = np.exp(-((a - m) ** 2) / (2 * s) + weight * log_expit(y * a))
    w = w / w.sum()
    mean = np.sum(w * a)
    return mean, np.sum(w * (a - mean) ** 2)


def moved(m, s, y, weight=1.0, ku=1.0):
    """The same by the shared step."""
    dm, dv = score_step(m, s, y, weight, ku)
    return m + s * dm, s * shrunk(s * dv)


# --- the shared step ------------------------------------------------------------------------------------------------


@scores
@labels
@pytest.mark.parametrize("ku", [1.0, 0.3])
def test_the_step_is_two_derivatives_of_the_evidence(m, s, y, ku):
    def log_evidence(at):
        return log_expit(y * at / np.sqrt(1 + np.pi / 8 * ku * s))

    h = 1e-4
    dm, dv = score_step(m, s, y, temper_update=ku)
    assert dm == pytest.approx((log_evidence(m + h) - log_evidence(m - h)) / (2 * h), rel=1e-6)
    second = (log_evidence(m + h) - 2 * log_evidence(m) + log_evidence(m - h)) / h**2
    assert dv == pytest.approx(-second, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize(("m", "s"), [(0.0, 0.5), (0.5, 1.0), (-1.0, 0.3), (4.0, 0.1), (0.0, 4.0)])
@labels
def test_the_step_is_near_exact_moments(m, s, y):
    mean, variance = moved(m, s, y)
    exact_mean, exact_variance = tilted(m, s, y)
    assert mean - m == pytest.approx(exact_mean - m, rel=0.12)
    assert variance == pytest.approx(exact_variance, rel=0.12)


def test_a_variance_stays_above_0_and_never_grows():
    h = np.linspace(0, 50, 1001)
    assert np.all((shrunk(h) > 0) & (shrunk(h) <= 1))
    np.testing.assert_array_equal(shrunk(h[h <= 0.5]), 1 - h[h <= 0.5])
    assert shrunk(0.5) == 0.5
    assert shrunk(1.0) == pytest.approx(1 / 3)


@pytest.mark.parametrize("variance", [1e-9, 0.3, 20.0, 1e9])
@pytest.mark.parametrize("h", [1e-15, 0.1, 0.499, 0.501, 7.0])
def test_the_gain_of_precision_is_the_fall_of_the_variance(variance, h):
    gain = told(variance, h / variance)
    assert variance * shrunk(h) == pytest.approx(1 / (1 / variance + gain), rel=1e-12)
    if h < 1e-10:
        assert gain * variance == pytest.approx(h, rel=1e-9)  # where the other form would have lost it


@scores
@labels
def test_a_light_example_is_a_share_of_a_whole_one_and_weights_meet_at_1(m, s, y):
    np.testing.assert_allclose(score_step(m, s, y, 0.25), 0.25 * np.array(score_step(m, s, y)), rtol=1e-14)
    np.testing.assert_allclose(score_step(m, s, y, 1.0 + 1e-9), score_step(m, s, y, 1.0), rtol=1e-7)


@pytest.mark.parametrize("z", [-30.0, -3.0, 0.0, 2.0, 20.0])
@pytest.mark.parametrize("tau", [0.01, 1.0, 2.5, 8.0])
@pytest.mark.parametrize("weight", [1.5, 7.0, 1e6])
def test_a_heavy_example_goes_where_its_equation_says(z, tau, weight):
    def gap(t):
        return t - tau * (expit(-z) + (weight - 1) * expit(-(z + t)))

    root = optimize.brentq(gap, 0.0, tau * weight + 1.0, xtol=1e-13, rtol=1e-13)
    assert heavy_shift(z, tau, weight) == pytest.approx(root, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("m", "s"), [(0.0, 0.1), (0.0, 1.0), (-3.0, 1.0), (3.0, 1.0)])
def test_weight_3_is_near_three_copies(m, s):
    copies = m, s
    for _ in range(3):
        copies = moved(*copies, 1.0)
    mean, variance = moved(m, s, 1.0, weight=3.0)
    assert mean == pytest.approx(copies[0], abs=0.15)
    assert variance == pytest.approx(copies[1], rel=0.2)


@pytest.mark.parametrize("weight", [30.0, 1e3, 1e6])
def test_a_heavy_example_does_not_overshoot(weight):
    mean, variance = moved(0.0, 10.0, 1.0, weight)
    assert 0 < mean < 2 * tilted(0.0, 10.0, 1.0, weight)[0]
    assert 0 < variance < 10


# --- lanes ----------------------------------------------------------------------------------------------------------

ONES = np.ones(WIDTH + 1)


def alone(lane: Lane, X, y, weights=None, **options) -> BankReference:
    """A bank of one lane and no stackers, after these rows."""
    bank = BankReference(X.shape[1], [lane], combine="share", **options)
    bank.learn(X, y, weights)
    return bank


def test_one_wide_weight_learns_as_its_score_does():
    lane = made(Lane(4.0), 1)
    i, x = np.array([0]), np.array([1.5])
    lane.learn(i, lane.see(i, x, 1.0, np.ones(1)), 1.0, 1.0)
    mean, variance = moved(0.0, 1.5**2 * 4.0, 1.0)
    assert lane.mean[0] == pytest.approx(mean / 1.5)
    assert lane.variance(np.ones(2))[0] == pytest.approx(variance / 1.5**2)


@labels
def test_two_weights_are_near_the_exact_posterior(y):
    """Means and variances under prior times likelihood, integrated on a grid."""
    lane, i, x = made(Lane(0.7), 2), np.array([0, 1]), np.array([1.0, -0.6])
    lane.mean[:2] = 0.3, 0.5
    side = np.linspace(-6, 6, 401)
    a, b = np.meshgrid(side, side, indexing="ij")
    density = np.exp(-((a - 0.3) ** 2 + (b - 0.5) ** 2) / 1.4) * expit(y * (a - 0.6 * b))
    density /= density.sum()
    exact = [np.sum(density * a), np.sum(density * b)]
    exact_variance = [np.sum(density * (a - exact[0]) ** 2), np.sum(density * (b - exact[1]) ** 2)]
    lane.learn(i, lane.see(i, x, 1.0, np.ones(2)), y, 1.0)
    np.testing.assert_allclose(lane.mean[:2] - [0.3, 0.5], np.subtract(exact, [0.3, 0.5]), rtol=0.05)
    np.testing.assert_allclose(lane.variance(np.ones(3))[:2], exact_variance, rtol=0.02)


def lane_in_the_middle() -> tuple:
    """A scaled lane that has learned something, and a row of two features and the intercept."""
    rng = np.random.default_rng(0)
    lane = made(Lane(2.0, scale=True, temper=(0.4, 1.0)), 4)
    lane.mean, lane.gained, lane.log_scale, lane.scale_gained = rng.normal(size=5), rng.random(5), -0.3, 15.0
    return lane, np.array([0, 2, 4]), np.array([0.5, -2.0, 1.0])


def test_the_scale_is_one_more_feature_whose_value_is_the_scores_slope():
    lane, i, x = lane_in_the_middle()
    seen, at, h = lane.see(i, x, 1.0, np.ones(3)), lane.log_scale, 1e-5
    means = []
    for lane.log_scale in (at - h, at + h):
        means.append(lane.see(i, x, 1.0, np.ones(3)).m)
    assert seen.scale_value == pytest.approx((means[1] - means[0]) / (2 * h), rel=1e-8)
    assert seen.m == pytest.approx(lane.mean[4] + np.exp(-0.3) * (0.5 * lane.mean[0] - 2.0 * lane.mean[2]))


@labels
@pytest.mark.parametrize("weight", [0.4, 1.0, 5.0])
def test_features_intercept_and_scale_learn_as_one_gaussian(y, weight):
    """The step on all of them with an explicit covariance matrix: what the diagonal keeps of it."""
    lane, i, x = lane_in_the_middle()
    seen = lane.see(i, x, 1.0, np.ones(3))
    prior = np.array([0.5, 0.5, 1 / 3])
    S = np.diag([*(1 / (prior + lane.gained[i])), 1 / 35])
    f = np.array([np.exp(-0.3) * 0.5, np.exp(-0.3) * -2.0, 1.0, seen.scale_value])
    assert seen.s == pytest.approx(f @ S @ f)
    dm, dv = score_step(seen.m, f @ S @ f, y, weight, 0.4)
    mean = np.array([*lane.mean[i], lane.log_scale]) + S @ f * dm
    h = np.diag(S @ np.outer(f, f)) * dv
    variance = np.diag(S) * np.where(h < 0.5, 1 - h, 1 / (1 + 2 * h))
    lane.learn(i, seen, y, weight)
    np.testing.assert_allclose([*lane.mean[i], lane.log_scale], mean, rtol=1e-12)
    np.testing.assert_allclose([*lane.variance(np.ones(5))[i], lane.scale_variance], variance, rtol=1e-12)


def test_the_scale_moves_by_at_most_one_half_and_stays_within_5():
    lane = made(Lane(scale=True, temper=(0.01, 1.0)), 1)  # believes so little of its doubt that it would leap
    i, x = np.array([0]), np.ones(1)
    where = []
    for _ in range(12):
        lane.scale_gained = 0.0
        lane.mean[0] = -4000.0
        lane.learn(i, lane.see(i, x, 1.0, x), 1.0, 1.0)
        where.append(lane.log_scale)
    np.testing.assert_allclose(where, [*np.arange(-0.5, -5.1, -0.5), -5.0, -5.0])


def test_a_scale_finds_that_weights_are_larger_than_its_prior_says():
    rng = np.random.default_rng(1)
    X = sparse.csr_matrix((rng.random((400, 8)) < 0.4).astype(float))
    y = np.where(rng.random(400) < expit(X @ np.array([4.0, -4.0] * 4)), 1.0, -1.0)
    assert alone(Lane(0.05, scale=True), X, y).lanes[0].log_scale > 0.3
    assert alone(Lane(0.05, scale=True), X, y).final_losses[0] < alone(Lane(0.05), X, y).final_losses[0]


def test_normalised_is_plain_on_indicators():
    X, y = random_rows(binary=True)
    X.data[::3] = -1.0
    one, other = alone(Lane(2.0), X, y), alone(Lane(2.0, normalise=True), X, y)
    np.testing.assert_array_equal(other.lanes[0].mean, one.lanes[0].mean)
    np.testing.assert_array_equal(other.lanes[0].gained, one.lanes[0].gained)
    assert not other.uses.any()


@pytest.mark.parametrize("lane", [Lane(2.0, normalise=True), Lane(0.5, normalise=True, scale=True, memory=0.05)])
def test_normalised_minds_no_units(lane):
    X, y = random_rows()
    factors = 10.0 ** np.arange(-4, 4)
    one, other = alone(lane, X, y), alone(lane, units(X, factors), y)
    np.testing.assert_allclose(other.losses, one.losses, rtol=1e-9)
    mean, variance = one.weights()
    other_mean, other_variance = other.weights()
    np.testing.assert_allclose(other_mean[:-1] * factors, mean[:-1], rtol=1e-9)
    np.testing.assert_allclose(other_variance[:-1] * factors**2, variance[:-1], rtol=1e-9)
    plain, elsewhere = (alone(Lane(2.0), rows, y) for rows in (X, units(X, factors)))
    assert elsewhere.losses != pytest.approx(plain.losses, rel=0.01)


def test_a_normalised_prior_is_that_of_the_standardised_feature():
    """After all values are known the prior is as if the feature had been divided by its root mean square from the
    start; so a feature of which nothing was told has the variance v0/q."""
    values = np.array([3.0, -1.0, 0.25, 8.0])
    bank = BankReference(1, [Lane(2.0, normalise=True)], combine="share", intercept=False)
    for n, value in enumerate(values):
        bank.learn(sparse.csr_matrix([[value]]), [1.0], [1e-12])  # as good as nothing is told
        q = np.mean(values[: n + 1] ** 2)
        assert bank.square[0] == pytest.approx(q)
        assert bank.lanes[0].variance(bank.square)[0] == pytest.approx(2.0 / q, rel=1e-9)


@pytest.mark.parametrize("before", [1, 100])
def test_mean_squares_count_from_the_first_values_that_are_no_indicators(before):
    """Of every feature, or where few rows hold such values of that feature alone."""
    bank = BankReference(3, [Lane(2.0), Lane(normalise=True)], combine="share")
    rows = [[1, -1, 0]] * before + [[1, 0, 0]] + [[1, 0, 0.5], [1, 2, 0], [1, 1, 1]]
    X = sparse.csr_matrix(np.array(rows, dtype=float))
    bank.learn(X[: before + 1], [1] + [-1] * before)
    assert (bank.uses.sum(), set(bank.square)) == (0, {1.0})
    bank.predict(X[before + 1])
    assert not bank.uses.any()  # predicted only
    met = 4.0 * bank.lanes[1].gained  # each use has told 1/4 at most
    assert 0.2 < met[1] < before
    bank.learn(X[before + 1 :], [1, -1, 1])
    assert bank.others == 2
    of_first = met[0] + 3 if before == 1 else 0
    np.testing.assert_allclose(bank.uses, [of_first, met[1] + 2, 2, 0])
    np.testing.assert_allclose(bank.square, [1.0, (met[1] + 4 + 1) / (met[1] + 2), (0.25 + 1) / 2, 1.0])


def test_an_indicator_that_two_features_share_at_times_stays_one():
    """A hash may bring two columns of a row together: 2 instead of 1, once in a while."""
    one, other = (BankReference(1, [Lane(normalise=True)], combine="share") for _ in range(2))
    y = np.where(np.random.default_rng(0).random(400) < 0.4, 1.0, -1.0)
    X = np.ones((400, 1))
    one.learn(sparse.csr_matrix(X), y)
    X[200] = 2.0
    other.learn(sparse.csr_matrix(X), y)
    assert 1.0 < other.square[0] < 1.02  # 1.0075 if all had been counted
    assert 350 < other.uses[0] <= 400
    np.testing.assert_allclose(other.losses, one.losses, rtol=2e-3)


def test_what_was_told_stays_when_a_normalised_prior_moves():
    """The precision is the sum of what examples told and q/v0, whatever q was when they told it."""
    X, y = random_rows(3)
    bank = BankReference(WIDTH, [Lane(3.0, normalise=True)], combine="share")
    summed = np.zeros(WIDTH)
    for row in range(X.shape[0]):
        i, x = active_features(X, row, WIDTH, True)
        before = bank.lanes[0].gained.copy()
        look = bank.learn_example(i, x, y[row], 1.0)
        square, features = look.square[:-1], i[:-1]
        v = 1 / (before[features] + square / 3.0)
        _, dv = score_step(look.seen[0].m, look.seen[0].s, y[row])
        summed[features] += x[:-1] ** 2 * dv / (1 - x[:-1] ** 2 * v * dv)
    dense = X.toarray()
    q = np.sum(dense**2, axis=0) / np.sum(dense != 0, axis=0)
    np.testing.assert_allclose(1 / bank.lanes[0].variance(bank.square)[:-1], summed + q / 3.0, rtol=1e-9)


def test_a_normalised_mean_is_that_of_what_was_told_under_the_present_prior():
    """Sites and prior multiplied out: precision = q/v0 + sum of tau, precision times mean = sum of nu, whatever q was.

    A site is a factor exp(nu w - tau w^2/2), an example's share of a weight's posterior.
    """
    X, y = random_rows(4)
    X.data[:60] = 1.0  # told of indicators, under the prior q = 1
    X.data[60:] *= 10.0 ** np.random.default_rng(0).integers(-9, 3, len(X.data) - 60)
    bank, v0 = BankReference(WIDTH, [Lane(3.0, normalise=True)], combine="share"), 3.0
    tau, nu, values = np.zeros(WIDTH), np.zeros(WIDTH), [[] for _ in range(WIDTH)]
    for row in range(X.shape[0]):
        i, x = active_features(X, row, WIDTH, True)
        features, x_features = i[:-1], x[:-1]
        look = bank.learn_example(i, x, y[row], 1.0)
        for feature, value in zip(features, x_features, strict=True):
            values[feature].append(value)
        q = look.square[:-1]
        before = tau[features] + q / v0
        mean = nu[features] / before
        m = mean @ x_features + look.seen[0].mean[-1]
        assert look.seen[0].m == pytest.approx(m, rel=1e-9, abs=1e-12)
        dm, dv = score_step(m, look.seen[0].s, y[row])
        variance = shrunk(x_features**2 / before * dv) / before
        tau[features] = 1.0 / variance - q / v0
        nu[features] = (mean + x_features / before * dm) / variance
    assert min(max(np.square(each)) for each in values) > 100  # q has moved far
    np.testing.assert_allclose(bank.lanes[0].mean[:-1], nu / (tau + bank.square[:-1] / v0), rtol=1e-6)


def test_a_tiny_first_value_leaves_no_large_weight():
    rng, truth = np.random.default_rng(0), np.array([1.0, -1.0, 0.5, 0.0, 0.3])
    dense = rng.normal(size=(3000, 5))
    dense[0, [0, 3]] = 1e-17, 1e-9
    y = np.where(rng.random(3000) < expit(dense @ truth), 1.0, -1.0)
    lane = alone(Lane(normalise=True), sparse.csr_matrix(dense), y).lanes[0]
    np.testing.assert_allclose(lane.mean[:-1], truth, atol=0.2)


def test_memory_after_the_step_is_memory_before_the_next():
    """Variances, not precisions, and widened at the use they are for: min((1 + gamma) v, v0)."""
    X, y = random_rows()
    lane = alone(Lane(0.7, temper=(0.3, 0.1), memory=0.1), X, y).lanes[0]
    mean, variance = np.zeros(WIDTH + 1), np.append(np.full(WIDTH, 0.7), 3.0)
    cap = variance.copy()
    for row in range(X.shape[0]):
        i, x = active_features(X, row, WIDTH, True)
        v = widen(variance[i], 0.1, cap[i])
        dm, dv = score_step(x @ mean[i], x**2 @ v, y[row], temper_update=0.3)
        mean[i] += x * v * dm
        variance[i] = v * shrunk(x**2 * v * dv)
    np.testing.assert_allclose(lane.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(lane.variance(ONES), widen(variance, 0.1, cap), rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_adagrad_lane_is_adagrad(weighted):
    X, y = random_rows()
    weights = np.random.default_rng(0).choice([0.0, 0.3, 1.0, 7.0], len(y)) if weighted else None
    bank, known = BankReference(WIDTH, [Lane(rate=0.8)], combine="share"), AdaGradReference(WIDTH, 0.8)
    np.testing.assert_allclose(bank.learn(X, y, weights), known.learn(X, y, weights), rtol=1e-9)
    np.testing.assert_allclose(bank.lanes[0].mean[:-1], known.mean, rtol=1e-12)
    np.testing.assert_allclose(bank.predict(X)[1], known.predict(X)[1], rtol=1e-9, atol=1e-12)
    assert isinstance(bank.lanes[0], AdaGradLane)
    assert not bank.predict(X)[2].any()


def test_adagrad_hardly_moves_a_feature_that_its_row_did_not_need():
    """A new feature's first step has the length of the rate, unless its gradient is tiny."""
    steps = []
    for score in (0.0, 5.0, 30.0):
        lane, i = made(Lane(rate=0.8), 2), np.array([0, 1])
        lane.mean[0], lane.gained[0] = score, 1.0
        lane.learn(i, lane.see(i, np.ones(2), 1.0, np.ones(2)), 1.0, 1.0)
        steps.append(lane.mean[1])
    np.testing.assert_allclose(steps, [0.8, 0.8, 0.8 * expit(-30.0) / LEAST_ROOT])


def test_presets_count_as_announced():
    assert [(len(PRESETS[name]), len(outputs_of(PRESETS[name]))) for name in ("slim", "wide")] == [(8, 9), (16, 18)]


# --- the unit of the stream -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "typical", [1e-6, 0.5 * MIN_ROW_NORM, MIN_ROW_NORM, 2 * MIN_ROW_NORM, MAX_ROW_NORM, 1.5 * MAX_ROW_NORM, 1e6]
)
def test_a_typical_row_gets_a_length_within_bounds(typical):
    lengths = typical * np.exp([-2.0, -0.5, 0.0, 1.0, 1.5])
    unit = unit_of(list(np.log(lengths)))
    assert unit * stats.gmean(lengths) == pytest.approx(min(max(typical, MIN_ROW_NORM), MAX_ROW_NORM))


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_the_bank_minds_no_unit_of_all_features_outside_the_zone(size):
    X, y = random_rows(n=40, size=size)
    one, other = BankReference(WIDTH), BankReference(WIDTH)
    factor = size  # further out on the same side
    p, q = one.learn(X, y), other.learn(X * factor, y)
    np.testing.assert_allclose(q, p, rtol=1e-9)
    np.testing.assert_allclose(other.weights()[0][:-1] * factor, one.weights()[0][:-1], rtol=1e-8)
    np.testing.assert_allclose(other.weights()[1][:-1] * factor**2, one.weights()[1][:-1], rtol=1e-8)


def test_within_the_zone_values_are_taken_as_they_are():
    X, y = random_rows(n=60)
    bank = BankReference(WIDTH, [Lane()], combine="share")
    bank.log_lengths = [np.log(2 * MIN_ROW_NORM)] * UNIT_FIT_ROWS
    p = bank.learn(X, y)
    mean, variance = np.zeros(WIDTH + 1), np.append(np.ones(WIDTH), 3.0)
    for row in range(len(y)):
        i, x = active_features(X, row, WIDTH, True)
        m, s = x @ mean[i], x**2 @ variance[i]
        assert p[row] == pytest.approx(expit(m / np.sqrt(1 + C8 * s)), rel=1e-9)
        dm, dv = score_step(m, s, y[row])
        mean[i], variance[i] = mean[i] + x * variance[i] * dm, variance[i] * shrunk(x**2 * variance[i] * dv)


def test_only_the_first_rows_that_have_features_and_are_learned_settle_the_unit():
    bank = BankReference(2, [Lane()], combine="share")
    long, none = sparse.csr_matrix([[3e3, 4e3]]), sparse.csr_matrix((1, 2))
    bank.predict(long)
    bank.learn(long, [1], [0.0])
    bank.learn(none, [1])
    assert bank.log_lengths == []
    bank.learn(long, [1])
    np.testing.assert_allclose(np.exp(bank.log_lengths), [5e3])
    bank.log_lengths = [0.0] * (UNIT_FIT_ROWS - 1)
    bank.learn(long, [1])
    bank.learn(long, [1])
    assert len(bank.log_lengths) == UNIT_FIT_ROWS
    assert bank.log_lengths[-1] == pytest.approx(np.log(5e3))


# --- combining ------------------------------------------------------------------------------------------------------


def test_fixed_share_is_a_mixture_over_all_ways_to_switch():
    """The product of its probabilities is a sum over all K^T paths of outputs, each by its prior."""
    rng = np.random.default_rng(2)
    K, T = 3, 5
    z, y = rng.normal(0, 2, (T, K)), rng.choice([-1.0, 1.0], T)
    shares, product = np.full(K, 1 / K), 1.0
    for t in range(T):
        product *= expit(y[t] * mixed_logit(shares, z[t]))
        shares = share_step(shares, z[t], y[t], learned=t)
    total = 0.0
    for path in itertools.product(range(K), repeat=T):
        prior = 1 / K
        for t in range(1, T):
            alpha = 1 / (t + 1)  # after example t = 1, 2, ...
            prior *= (1 - alpha) * (path[t] == path[t - 1]) + alpha / K
        total += prior * np.prod([expit(y[t] * z[t, k]) for t, k in enumerate(path)])
    assert product == pytest.approx(total, rel=1e-12)


def test_a_weight_is_a_power_of_the_likelihood_in_the_shares():
    z, before = np.array([1.0, -0.5, 3.0]), np.array([0.2, 0.3, 0.5])
    posterior = before * expit(-z) ** 2
    expected = (1 - 0.1) * posterior / posterior.sum() + 0.1 / 3
    np.testing.assert_allclose(share_step(before, z, -1.0, learned=8, weight=2.0), expected)
    heavy = share_step(before, z, -1.0, learned=8, weight=1e6)
    np.testing.assert_allclose(heavy, [1 / 30, 0.9 + 1 / 30, 1 / 30])
    late = share_step(before, z, -1.0, learned=10**9, weight=1e6)
    np.testing.assert_allclose(late, [1e-5 / 3, 1 - 2e-5 / 3, 1e-5 / 3])


def test_shares_are_among_the_kept():
    kept = np.array([True, False, True])
    before, z = np.array([0.4, 0.0, 0.6]), np.array([1.0, 9.0, -1.0])
    among = share_step(before[kept], z[kept], 1.0, learned=3)
    np.testing.assert_allclose(share_step(before, z, 1.0, learned=3, kept=kept), [among[0], 0.0, among[1]])


def random_stacker(seed: int = 3, K: int = 3):
    rng = np.random.default_rng(seed)
    stacker = Stacker(K)
    root = rng.normal(size=(K + 2, K + 2)) / 2
    stacker.covariance, stacker.mean = root @ root.T, rng.normal(size=K + 2) / 3
    offset, f = Stacker.features(0.4, rng.normal(0, 1.5, K))
    return stacker, offset, f


@labels
@pytest.mark.parametrize("weight", [0.4, 1.0, 6.0])
def test_a_stacker_learns_as_its_score_does(y, weight):
    """In coordinates where the score is one of them and independent of the others, only that one moves."""
    stacker, offset, f = random_stacker()
    m, s = offset + f @ stacker.mean, f @ stacker.covariance @ f
    new_m, new_s = moved(m, s, y, weight)
    # Gaussian conditioning: coefficients given the score are linear in it, with a noise that does not change.
    slope = stacker.covariance @ f / s
    noise = stacker.covariance - np.outer(slope, slope) * s
    mean, covariance = stacker.mean + slope * (new_m - m), noise + np.outer(slope, slope) * new_s
    stacker.learn(offset, f, y, weight)
    np.testing.assert_allclose(stacker.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(stacker.covariance, covariance, atol=1e-12)


@labels
def test_a_stacker_is_near_the_exact_posterior(y):
    """Moments of the true posterior, by weighting many draws of the coefficients."""
    stacker, offset, f = random_stacker()
    stacker.covariance = stacker.covariance / 4
    draws = np.random.default_rng(4).multivariate_normal(stacker.mean, stacker.covariance, 400_000)
    w = expit(y * (offset + draws @ f))
    w /= w.sum()
    mean = w @ draws
    covariance = (draws - mean).T @ ((draws - mean) * w[:, None])
    before = stacker.mean
    stacker.learn(offset, f, y, 1.0)
    np.testing.assert_allclose(stacker.mean - before, mean - before, rtol=0.1, atol=0.02)
    np.testing.assert_allclose(stacker.covariance, covariance, rtol=0.03, atol=0.02)


@labels
def test_a_sure_stacker_is_the_laplace_step(y):
    """With little uncertainty: one Newton step on the exact posterior, by numpy.linalg."""
    stacker, offset, f = random_stacker()
    stacker.covariance = stacker.covariance * 1e-4
    p = expit(offset + f @ stacker.mean)
    precision = np.linalg.inv(stacker.covariance) + p * (1 - p) * np.outer(f, f)
    mean = stacker.mean + np.linalg.solve(precision, ((y + 1) / 2 - p) * f)
    stacker.learn(offset, f, y, 1.0)
    np.testing.assert_allclose(stacker.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(stacker.covariance, np.linalg.inv(precision), rtol=1e-3, atol=1e-10)


def test_a_stacker_with_memory_drifts_back_to_its_prior_covariance():
    stacker = Stacker(3, memory=0.1)
    stacker.covariance = stacker.covariance / 100
    stacker.learn(0.0, np.zeros(5), 1.0, 1.0)
    np.testing.assert_allclose(stacker.covariance, (0.9 / 100 + 0.1) * stacker.prior)
    for _ in range(200):
        stacker.learn(0.0, np.zeros(5), 1.0, 1.0)
    np.testing.assert_allclose(stacker.covariance, stacker.prior, rtol=1e-8, atol=1e-12)


def test_a_fresh_stacker_repeats_the_mixture():
    offset, f = Stacker.features(1.7, np.array([3.0, 0.2]))
    assert Stacker(2).score(offset, f)[0] == 1.7


def test_a_stackers_score_is_linear_in_what_outputs_say_up_to_15():
    stacker, rng = Stacker(2), np.random.default_rng(0)
    stacker.mean = rng.normal(size=4)
    b, a, c_1, c_2 = stacker.mean
    for zm, z_1, z_2 in rng.normal(0, 5, (20, 3)):
        offset, f = Stacker.features(zm, np.array([z_1, z_2]))
        expected = zm + b + a * zm + c_1 * (z_1 - zm) + c_2 * (z_2 - zm)
        assert stacker.score(offset, f)[0] == pytest.approx(expected)
    offset, f = Stacker.features(20.0, np.array([30.0, -16.0]))
    assert stacker.score(offset, f)[0] == pytest.approx(15.0 + b + a * 15.0 + c_2 * -30.0)


def test_a_stacker_finds_what_no_mixture_can_say():
    """The truth is the sum of two outputs. A mixture lies between them; a stacker adds."""
    rng = np.random.default_rng(0)
    stacker, shares, losses = Stacker(2), np.full(2, 0.5), []
    for t in range(1500):
        z = rng.normal(0, 1.5, 2)
        y = 1.0 if rng.random() < expit(z.sum()) else -1.0
        zm = mixed_logit(shares, z)
        offset, f = Stacker.features(zm, z)
        m, s = stacker.score(offset, f)
        losses.append([-log_expit(y * zm), -log_expit(y * m / np.sqrt(1 + C8 * s)), -log_expit(y * z.sum())])
        stacker.learn(offset, f, y, 1.0)
        shares = share_step(shares, z, y, t)
    mixture, stacked, truth = np.mean(losses[500:], axis=0)
    assert truth < stacked < truth + 0.5 * (mixture - truth)


def test_evidence_is_a_ratio_of_densities():
    stacker, _, _ = random_stacker()
    for k, evidence in enumerate(stacker.evidence()):
        before = stats.norm.logpdf(0, 0, np.sqrt(stacker.prior[k + 2, k + 2]))
        after = stats.norm.logpdf(0, stacker.mean[k + 2], np.sqrt(stacker.covariance[k + 2, k + 2]))
        assert evidence == pytest.approx(before - after)


def test_to_drop_is_to_condition():
    stacker, _, _ = random_stacker(K=4)
    gone, rest = np.array([3, 5]), np.array([0, 1, 2, 4])
    S, c = stacker.covariance, stacker.mean
    gain = S[np.ix_(rest, gone)] @ np.linalg.inv(S[np.ix_(gone, gone)])
    covariance, mean = S[np.ix_(rest, rest)] - gain @ S[np.ix_(gone, rest)], c[rest] - gain @ c[gone]
    for output in gone - 2:
        stacker.drop(output)
    np.testing.assert_allclose(stacker.mean[rest], mean, rtol=1e-10)
    np.testing.assert_allclose(stacker.covariance[np.ix_(rest, rest)], covariance, atol=1e-12)
    assert not stacker.covariance[gone].any()
    assert not stacker.mean[gone].any()
    assert set(np.flatnonzero(np.isinf(stacker.evidence()))) == {1, 3}


# --- the bank -------------------------------------------------------------------------------------------------------


def state_of(bank: BankReference) -> list:
    parts = [bank.shares, bank.final_shares, bank.uses, bank.square, bank.log_lengths, bank.losses, bank.final_losses]
    parts.append([bank.learned, bank.weight])
    for lane in bank.lanes:
        parts += [lane.mean, lane.gained, [lane.log_scale, lane.scale_gained]]
    for stacker in bank.stackers:
        parts += [stacker.mean, stacker.covariance]
    return [np.array(part, dtype=float) for part in parts]


@pytest.mark.parametrize("preset", ["slim", "wide"])
def test_weight_0_predicts_and_changes_nothing(preset):
    X, y = random_rows(n=60)
    bank = BankReference(WIDTH, preset)
    bank.learn(X[:30], y[:30])
    before = state_of(bank)
    expected = bank.predict(X[30:])[0]
    np.testing.assert_array_equal(bank.learn(X[30:], y[30:], np.zeros(30)), expected)
    assert len(set(expected)) > 20
    for old, new in zip(before, state_of(bank), strict=True):
        np.testing.assert_array_equal(old, new)


def test_the_probability_learned_is_the_one_predicted_before():
    X, y = random_rows()
    bank = BankReference(WIDTH)
    for row in range(40):
        predicted = bank.predict(X[row])[0]
        assert bank.learn(X[row], y[row : row + 1]) == predicted


@pytest.mark.parametrize("preset", ["slim", "wide"])
def test_mirror_images_learn_mirror_images(preset):
    X, y = random_rows(n=40)
    one, other = BankReference(WIDTH, preset), BankReference(WIDTH, preset)
    np.testing.assert_allclose(other.learn(X, -y), 1 - one.learn(X, y), rtol=1e-12)
    np.testing.assert_allclose(other.weights()[0], -one.weights()[0], rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(other.weights()[1], one.weights()[1], rtol=1e-9)


def test_losses_are_the_log_losses_of_what_was_said():
    X, y = random_rows(n=60)
    weights = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], 60)
    bank = BankReference(WIDTH)
    p = bank.learn(X, y, weights)
    assert bank.final_losses[0] == pytest.approx(-np.sum(weights * np.log(np.where(y > 0, p, 1 - p))))
    assert bank.weight == weights.sum()
    alone = BankReference(WIDTH, [PRESETS["slim"][0]], combine="share")
    q = alone.learn(X, y, weights)
    assert bank.losses[0] == pytest.approx(-np.sum(weights * np.log(np.where(y > 0, q, 1 - q))))


def test_the_score_gives_back_the_probability():
    X, y = random_rows()
    bank = BankReference(WIDTH)
    bank.learn(X, y)
    probability, mean, variance = bank.predict(X)
    np.testing.assert_allclose(mean / np.sqrt(1 + np.pi / 8 * variance), logit(probability), rtol=1e-9)
    assert np.all(variance > 0)


def test_the_score_variance_is_the_law_of_total_variance():
    """Draw a level, then an output or the stacker's score, then a Gaussian lane's doubt: the spread is the same."""
    X, y = random_rows(n=40)
    bank = BankReference(WIDTH, [Lane(), Lane(3.0, scale=True), Lane(10.0, temper=(0.3, 0.1)), Lane(rate=0.5)])
    bank.learn(X, y)
    bank.shares, bank.final_shares = np.array([0.2, 0.1, 0.3, 0.4]), np.array([0.5, 0.3, 0.2])
    for lane, intercept in zip(bank.lanes, [-2.0, 1.0, 4.0, 0.0], strict=True):  # they disagree
        lane.mean[-1] = intercept
    i, x = active_features(X, 5, WIDTH, True)
    look = bank.look(i, x)
    rng, n = np.random.default_rng(5), 400_000
    output, level = rng.choice(4, n, p=bank.shares), rng.choice(3, n, p=bank.final_shares)
    centre = np.where(level == 0, look.z[output] - bank.shares @ look.z + look.q[0], look.q[level])
    doubter = rng.choice(3, n, p=bank.shares[:3] / 0.6)
    doubt = np.array([0.0] + [s for _, s in look.stacked])[level] + np.array([seen.s for seen in look.seen])[doubter]
    assert np.var(centre + rng.normal(size=n) * np.sqrt(doubt)) == pytest.approx(bank.score(look)[1], rel=0.01)


def test_no_output_is_surer_than_30():
    bank = BankReference(1, [Lane(), Lane(rate=0.5)])
    for lane in bank.lanes:
        lane.mean[0], lane.gained[0] = 1e6, 1e12
    for stacker in bank.stackers:
        stacker.mean[1] = 10.0
    look = bank.learn_example(np.array([0, 1]), np.ones(2), -1.0, 1.0)
    np.testing.assert_allclose([*look.z, *look.q], 30.0)
    np.testing.assert_allclose([*bank.losses, *bank.final_losses], 30.0)


def test_a_fresh_bank_is_as_announced():
    bank = BankReference(WIDTH, "slim")
    np.testing.assert_allclose(bank.shares, 1 / 9)
    np.testing.assert_allclose(bank.final_shares, 1 / 3)
    assert [stacker.memory for stacker in bank.stackers] == [0.0, 1e-4]
    for stacker in bank.stackers:
        np.testing.assert_allclose(stacker.covariance, np.diag([0.01, 0.01] + [10 / 9] * 9))
    assert BankReference(WIDTH, intercept=False).stackers[0].covariance[0, 0] == 0
    mean, variance = bank.weights()
    assert not mean.any()
    # Eight outputs have a variance, and two of the three levels have a b.
    gaussian = [PRESETS["slim"][k].prior_variance for k, _ in bank.outputs if PRESETS["slim"][k].rate is None]
    np.testing.assert_allclose(variance[:-1], np.mean(gaussian))
    assert variance[-1] == pytest.approx(np.mean(np.maximum(gaussian, 3.0)) + 2 / 3 * 0.01)


def test_weights_are_the_slopes_of_the_combination_of_logits():
    """Differences of the combination itself, every mixture read as a mean of logits, all damped as on average."""
    X, y = random_rows(size=100.0)
    bank = BankReference(WIDTH, "slim")
    bank.learn(X, y)
    # One more row moves neither the unit nor a mean square.
    bank.log_lengths, bank.uses = (bank.log_lengths * UNIT_FIT_ROWS)[:UNIT_FIT_ROWS], bank.uses * 1e15

    def combined(x):
        i = np.arange(WIDTH + 1)
        seen = bank.look(i, np.append(x, 1.0)).seen
        z = np.array([seen[k].m for k, _ in bank.outputs]) / (1.0 + bank.damping)
        zm = bank.shares @ z
        said = [zm, *(zm + stacker.mean @ [1.0, zm, *(z - zm)] for stacker in bank.stackers)]
        return bank.final_shares @ said

    mean, _ = bank.weights()
    start = np.zeros(WIDTH)
    assert combined(start) == pytest.approx(mean[-1], rel=1e-9)
    slopes = [combined(start + e) - combined(start) for e in np.eye(WIDTH)]
    np.testing.assert_allclose(mean[:-1], slopes, rtol=1e-8)


def test_the_variance_of_a_weight_is_that_of_a_drawn_lanes_weight():
    X, y = random_rows(size=100.0)
    bank = BankReference(WIDTH, [Lane(), Lane(3.0, scale=True), Lane(rate=0.5), Lane(normalise=True)])
    bank.learn(X, y)
    bank.shares = np.array([0.3, 0.2, 0.4, 0.1])
    rng, n = np.random.default_rng(0), 400_000
    lane = rng.choice([0, 1, 3], n, p=[0.5, 2 / 6, 1 / 6])  # AdaGrad has no variance to tell of
    unit = unit_of(bank.log_lengths)
    factor = np.array([unit, unit * np.exp(bank.lanes[1].log_scale), 0.0, 1.0])
    mean = np.array([lane.mean for lane in bank.lanes])
    sd = np.sqrt([lane.variance(bank.square) for lane in bank.lanes])
    draws = factor[lane] * (mean[lane, 2] / (1.0 + bank.damping[lane]) + sd[lane, 2] * rng.normal(size=n))
    assert bank.weights()[1][2] == pytest.approx(np.var(draws), rel=0.01)


def test_narrowing_keeps_what_it_says_and_stops_the_other_lanes():
    X, y = random_rows(n=110)
    bank = BankReference(WIDTH, "wide", narrowing={30: 12, 60: 12, 90: 8})
    bank.learn(X[:30], y[:30])
    assert bank.kept.sum() == 12
    assert bank.shares.sum() == pytest.approx(1)
    bank.learn(X[30:60], y[30:60])
    assert bank.kept.sum() == 12
    idle = set(range(16)) - {k for (k, _), kept in zip(bank.outputs, bank.kept, strict=True) if kept}
    before = {k: bank.lanes[k].mean.copy() for k in idle}
    p = bank.learn(X[60:], y[60:])
    assert bank.kept.sum() == 8
    assert np.isfinite(p).all()
    assert idle
    for k, mean in before.items():
        np.testing.assert_array_equal(bank.lanes[k].mean, mean)
    assert bank.shares[~bank.kept].sum() == 0
    assert bank.shares.sum() == pytest.approx(1)


def test_narrowing_keeps_the_outputs_of_most_evidence():
    X, y = random_rows(n=40)
    bank = BankReference(WIDTH, "slim")
    bank.learn(X, y)
    evidence = bank.stackers[0].evidence() + bank.stackers[1].evidence()
    before = bank.shares
    bank.narrow(4)
    assert evidence[bank.kept].min() > evidence[~bank.kept].max()
    np.testing.assert_allclose(bank.shares[bank.kept], before[bank.kept] / before[bank.kept].sum())


def test_an_empty_row_without_an_intercept_predicts_one_half():
    X, y = random_rows(n=40)
    bank = BankReference(WIDTH, intercept=False)
    bank.learn(X, y)
    assert bank.predict(sparse.csr_matrix((1, WIDTH)))[0] == pytest.approx(0.5)


def test_the_intercept_of_a_lane_is_at_least_as_wide_as_three():
    assert made(Lane(0.1), 1).intercept_variance == 3.0
    assert made(Lane(10.0), 1).intercept_variance == 10.0
    assert made(Lane(10.0), 1, 0.2).intercept_variance == 0.2


def test_absurd_values_leave_everything_finite():
    X, y = random_rows(n=60)
    X = units(X, 10.0 ** np.linspace(-12, 12, WIDTH))
    bank = BankReference(WIDTH)
    p = bank.learn(X, y, np.where(np.arange(60) % 7 == 0, 1e6, 1.0))
    assert np.all((p > 0) & (p < 1))
    assert all(np.isfinite(part).all() for part in state_of(bank))


# --- draws ----------------------------------------------------------------------------------------------------------


def test_draws_take_the_lanes_of_a_posterior_by_their_evidence():
    X, y = random_rows(5, n=60)
    bank = BankReference(WIDTH, "slim")
    bank.learn(X, y)
    chances = bank.lanes_to_draw()
    assert [str(PRESETS["slim"][k]) for k in chances] == ["scaled learned 0.1", "scaled 10", "normalised 1"]
    # Bayes by hand: each lane alone over the stream, and the product of the probabilities of the labels.
    evidence = []
    for k in chances:
        p = np.array(alone(PRESETS["slim"][k], X, y).losses)
        evidence.append(np.exp(-p[0]))
    np.testing.assert_allclose(list(chances.values()), np.array(evidence) / np.sum(evidence), rtol=1e-9)


def test_draws_of_a_bank_without_such_lanes_take_the_next_best():
    tempered, remembering, rate = Lane(temper=(0.3, 0.1)), Lane(memory=0.1), Lane(rate=0.5)
    for lanes, taken in (
        ([rate, tempered, remembering, Lane()], {3}),
        ([rate, tempered, remembering], {1, 2}),
        ([rate, Lane(rate=1.0)], {0, 1}),
    ):
        assert set(BankReference(WIDTH, lanes).lanes_to_draw()) == taken


@pytest.mark.parametrize(("purpose", "share"), [("choose", 0.5), ("interval", 1.0)])
def test_draws_have_the_mean_and_variance_of_theory(purpose, share):
    """The score of a row under a lane's drawn weights: N(m, share s), of the m and s by which the lane predicts."""
    X, y = random_rows(6)
    bank = BankReference(WIDTH, [Lane(2.0), Lane(normalise=True)])
    bank.learn(X, y)
    bank.log_lengths, bank.uses = (bank.log_lengths * UNIT_FIT_ROWS)[:UNIT_FIT_ROWS], bank.uses * 1e15
    i, x = active_features(X, 3, WIDTH, True)
    rng = np.random.default_rng(0)
    for k, seen in enumerate(bank.look(i, x).seen):
        scores = [bank.drawn(k, rng.normal(size=WIDTH + 1), purpose)[i] @ x for _ in range(4000)]
        assert np.mean(scores) == pytest.approx(seen.m, abs=4 * np.sqrt(share * seen.s / 4000))
        assert np.var(scores) == pytest.approx(share * seen.s, rel=4 * np.sqrt(2 / 4000))
