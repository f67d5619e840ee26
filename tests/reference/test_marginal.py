"""The reference of Algorithm 1 against what we did not write: minimisers, integrals and differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, special

from tests.reference import marginal as reference
from tests.reference.known_links import CDF, LOG_CDF, SLOPE, C

links = pytest.mark.parametrize("link", ["logistic", "probit"])
mean_updates = pytest.mark.parametrize("mean_update", ["auto", "taylor", "newton"])
variance_updates = pytest.mark.parametrize("variance_update", ["laplace", "peak"])

labels = st.sampled_from([-1.0, 1.0])
weights = st.sampled_from([0.2, 1.0, 3.5])
nonzero = st.floats(0.1, 3.0) | st.floats(-3.0, -0.1)
examples = st.lists(st.tuples(st.floats(-3, 3), st.floats(0.01, 30), nonzero), min_size=1, max_size=5).map(
    lambda rows: np.array(rows).T  # mean, variance, x of the active features
)


def random_example(seed: int, size: int = 4):
    rng = np.random.default_rng(seed)
    mean, variance, x = rng.normal(size=size), rng.uniform(0.05, 3, size), rng.normal(size=size)
    return mean, variance, x, rng.choice([-1.0, 1.0])


class Posterior:
    """The marginal posterior (12) or (26) of feature i at w, its likelihood to the power `weight`."""

    def __init__(self, i, mean, variance, x, y, link, weight=1.0, ku=1.0):
        others = np.arange(len(x)) != i
        self.mean, self.variance, self.x, self.y = mean[i], variance[i], x[i], y
        self.link, self.weight = link, weight
        self.mean_others = np.sum(x[others] * mean[others])
        self.s = np.sqrt(1 + C[link] * ku * np.sum(x[others] ** 2 * variance[others]))
        self.p_t = CDF[link](y * np.sum(x * mean) / np.sqrt(self.s**2 + C[link] * x[i] ** 2 * variance[i]))

    def score(self, w):
        return self.y * (self.mean_others + self.x * w) / self.s

    def loss(self, w):
        """Minus the logarithm, up to a constant."""
        return (w - self.mean) ** 2 / (2 * self.variance) - self.weight * LOG_CDF[self.link](self.score(w))

    def gradient(self, w):
        """Equation (32), for either link."""
        pull = self.weight * self.y * self.x / self.s * SLOPE[self.link](self.score(w))
        return (w - self.mean) / self.variance - pull

    def mode(self) -> float:
        side, reach = self.y * np.sign(self.x), np.sqrt(self.variance)
        while side * self.gradient(self.mean + side * reach) < 0:
            reach *= 2
        low, high = sorted((self.mean, self.mean + side * reach))
        return optimize.brentq(self.gradient, low, high, xtol=1e-14, rtol=1e-14, maxiter=500)

    def curvature(self, w: float) -> float:
        """The second derivative of the loss by five-point differences."""
        h = 0.01 * min(np.sqrt(self.variance), self.s / abs(self.x))
        f = self.loss
        return (-f(w + 2 * h) + 16 * f(w + h) - 30 * f(w) + 16 * f(w - h) - f(w - 2 * h)) / (12 * h**2)

    def height(self, w: float) -> float:
        """The right side of (13) at w, where a normal density's peak has the height 1/sd."""
        likelihood = CDF[self.link](self.score(w)) / self.p_t
        return likelihood * np.exp(-((w - self.mean) ** 2) / (2 * self.variance)) / np.sqrt(self.variance)


def normal_mean(f, m: float, sd: float) -> float:
    """The mean of f(m + sd Z), Z standard normal, by adaptive integration, split where f is steep: at 0."""

    def integrand(z):
        return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * f(m + sd * z)

    split = float(np.clip(-m / sd, -11, 11))
    parts = [(-12.0, split), (split, 12.0)]
    return sum(integrate.quad(integrand, a, b, epsabs=1e-14, epsrel=1e-12, limit=200)[0] for a, b in parts)


# ----------------------------------------------------------------------------------------------------
# Predictions, (8) and (24)
# ----------------------------------------------------------------------------------------------------


@given(examples)
def test_probit_closed_prediction_is_the_exact_integral(row):
    mean, variance, x = row
    p, m, s2 = reference.marginal_predict(mean, variance, x, "probit")
    assert m == pytest.approx(x @ mean, abs=1e-12)
    assert s2 == pytest.approx(x**2 @ variance)
    assert p == pytest.approx(normal_mean(special.ndtr, m, np.sqrt(s2)), abs=1e-10)


@given(examples)
def test_logistic_closed_prediction_is_the_integral_to_two_digits(row):
    p, m, s2 = reference.marginal_predict(*row, "logistic")
    exact = normal_mean(special.expit, m, np.sqrt(s2))
    assert p == pytest.approx(special.expit(m / np.sqrt(1 + np.pi / 8 * s2)), rel=1e-12)
    assert p == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("sd", [0.3, 1.0, 1.5, 1.51, 2.0, 5.0, 15.0, 100.0])
@links
def test_quadrature_prediction_is_the_integral_however_wide_the_score(link, sd):
    for m in np.linspace(-6, 6, 13) * (1 + sd):
        p, _, _ = reference.marginal_predict([m], [sd**2], [1.0], link, predictive="quadrature")
        assert p == pytest.approx(normal_mean(CDF[link], m, sd), abs=2e-7 if sd == 1.5 else 1e-9)


def test_quadrature_has_twenty_nodes():
    # n nodes are exact for the moments of a normal variable up to the order 2n - 1, and for no more.
    double_factorial = {power: special.factorial2(power - 1, exact=True) for power in (2, 38, 40)}
    found = {power: reference.NODE_WEIGHTS @ reference.NODES**power for power in double_factorial}
    assert found[2] == pytest.approx(double_factorial[2], rel=1e-12)
    assert found[38] == pytest.approx(double_factorial[38], rel=1e-9)
    assert found[40] < 0.999999 * double_factorial[40]


def test_closed_logistic_prediction_is_pulled_to_one_half_and_quadrature_is_not():
    m, sd = 8.0, 2.0
    doubt = 1 - normal_mean(special.expit, m, sd)
    closed, _, _ = reference.marginal_predict([m], [sd**2], [1.0])
    quadrature, _, _ = reference.marginal_predict([m], [sd**2], [1.0], predictive="quadrature")
    assert 1 - closed > 2 * doubt
    assert 1 - quadrature == pytest.approx(doubt, rel=1e-3)


def test_twenty_nodes_would_miss_the_step_that_a_very_wide_score_sees():
    m, sd = 3.0, 15.0
    by_nodes = reference.NODE_WEIGHTS @ special.expit(m + sd * reference.NODES)
    assert abs(by_nodes - normal_mean(special.expit, m, sd)) > 0.02
    assert reference.expected_sigmoid(m, sd**2) == pytest.approx(normal_mean(special.expit, m, sd), abs=1e-9)


@pytest.mark.parametrize("kp", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("predictive", ["closed", "quadrature"])
@links
def test_temper_says_how_much_variance_a_prediction_believes(link, predictive, kp):
    mean, variance, x, _ = random_example(1)
    p, m, s2 = reference.marginal_predict(mean, variance, x, link, kp, predictive)
    if predictive == "closed":
        expected = CDF[link](m / np.sqrt(1 + C[link] * kp * s2))
    else:
        expected = normal_mean(CDF[link], m, np.sqrt(kp * s2)) if kp else CDF[link](m)
    assert p == pytest.approx(expected, abs=1e-4)
    assert s2 == pytest.approx(x**2 @ variance)  # what is reported is the belief itself


@links
@pytest.mark.parametrize("predictive", ["closed", "quadrature"])
def test_an_unknown_score_predicts_one_half(link, predictive):
    nothing = np.array([])
    assert reference.marginal_predict(nothing, nothing, nothing, link, predictive=predictive) == (
        pytest.approx(0.5, abs=1e-15),
        0.0,
        0.0,
    )


# ----------------------------------------------------------------------------------------------------
# Means, (15), (17), (28), (30)
# ----------------------------------------------------------------------------------------------------


@links
@given(row=examples, y=labels, weight=weights)
def test_newton_mean_is_the_mode_of_the_marginal_posterior(link, row, y, weight):
    mean, variance, x = row
    new_mean, _ = reference.marginal_step(mean, variance, x, y, weight, link, "newton")
    for i in range(len(x)):
        mode = Posterior(i, mean, variance, x, y, link, weight).mode()
        assert new_mean[i] == pytest.approx(mode, rel=1e-9, abs=1e-9 * np.sqrt(variance[i]))


@links
@pytest.mark.parametrize("weight", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_newton_mean_is_where_a_minimiser_finds_the_lowest_loss(link, weight, seed):
    mean, variance, x, y = random_example(seed)
    new_mean, _ = reference.marginal_step(mean, variance, x, y, weight, link, "newton")
    for i in range(len(x)):
        posterior = Posterior(i, mean, variance, x, y, link, weight)
        found = optimize.minimize_scalar(posterior.loss, bracket=(mean[i], mean[i] + 0.1), tol=1e-10)
        assert new_mean[i] == pytest.approx(found.x, abs=1e-6)
        assert posterior.loss(new_mean[i]) <= found.fun + 1e-12


@links
@pytest.mark.parametrize("ku", [0.0, 0.3])
def test_temper_says_how_much_variance_of_the_others_an_update_believes(link, ku):
    mean, variance, x, y = random_example(2)
    new_mean, new_variance = reference.marginal_step(mean, variance, x, y, 1.0, link, "newton", temper_update=ku)
    for i in range(len(x)):
        posterior = Posterior(i, mean, variance, x, y, link, ku=ku)
        assert new_mean[i] == pytest.approx(posterior.mode(), abs=1e-9)
        assert new_variance[i] == pytest.approx(1 / posterior.curvature(new_mean[i]), rel=1e-6)


@links
@given(row=examples, y=labels, weight=weights)
def test_taylor_mean_is_exactly_the_first_newton_step_from_the_old_mean(link, row, y, weight):
    mean, variance, x = row
    new_mean, _ = reference.marginal_step(mean, variance, x, y, weight, link, "taylor")
    for i in range(len(x)):
        posterior = Posterior(i, mean, variance, x, y, link, weight)
        z, slope = posterior.score(mean[i]), SLOPE[link](posterior.score(mean[i]))
        curvature = slope * (1 - slope) if link == "logistic" else slope * (z + slope)  # probit: fine for z > -30
        hessian = 1 / variance[i] + weight * (x[i] / posterior.s) ** 2 * curvature  # (33)
        expected = mean[i] - posterior.gradient(mean[i]) / hessian  # (34)
        assert new_mean[i] == pytest.approx(expected, rel=1e-7, abs=1e-7 * np.sqrt(variance[i]))


@links
def test_auto_takes_taylor_where_tau_is_at_most_one_and_newton_elsewhere(link):
    mean, variance, x, y = (
        np.array([0.5, -1.0, 0.2]),
        np.array([0.1, 40.0, 0.3]),
        np.array([1.0, -1.0, 2.0]),
        1.0,
    )
    by = {
        u: reference.marginal_step(mean, variance, x, y, link=link, mean_update=u)[0]
        for u in ("auto", "taylor", "newton")
    }
    assert not np.any(by["taylor"] == by["newton"])
    np.testing.assert_array_equal(by["auto"], [by["taylor"][0], by["newton"][1], by["taylor"][2]])


@pytest.mark.parametrize("seen_before", [-7.0, 7.0])
def test_taylor_overshoots_with_one_feature_and_a_wide_prior_and_auto_does_not(seen_before):
    mean, variance, x, y = np.array([seen_before]), np.array([100.0]), np.array([1.0]), -np.sign(seen_before)
    mode = Posterior(0, mean, variance, x, y, "logistic").mode()
    (taylor,), _ = reference.marginal_step(mean, variance, x, y, mean_update="taylor")
    (auto,), _ = reference.marginal_step(mean, variance, x, y)
    prior_sd = 10.0
    assert abs(taylor - mode) > 8 * prior_sd
    assert auto == pytest.approx(mode, abs=1e-9)


def test_newton_as_printed_jumps_between_two_points_forever_and_ours_does_not():
    mu, tau = -6.0, 12.0  # one feature, x = 1, y = +1: the label had a probability of 0.0025
    w, visited = mu, []
    for _ in range(200):
        p = special.expit(w)
        gradient = (w - mu) / tau - (1 - p)  # (32)
        w -= gradient / (1 / tau + p * (1 - p))  # (33), (34)
        visited.append(w)
    assert visited[-1] == pytest.approx(visited[-3], abs=1e-9)
    assert abs(visited[-1] - visited[-2]) > 1
    (ours,), _ = reference.marginal_step([mu], [tau], [1.0], 1.0, mean_update="newton")
    assert (ours - mu) / tau == pytest.approx(special.expit(-ours), abs=1e-12)


@pytest.mark.parametrize("tau", [1e-6, 0.1, 1.0, 12.0, 100.0, 1e4, 1e6])
def test_logistic_newton_needs_at_most_14_iterations(tau):
    for z0 in np.concatenate([-np.logspace(6.5, -2, 60), np.linspace(0, 30, 31)]):
        # t - tau S(-(z0 + t)) is negative at 0 and positive at tau.
        root = optimize.brentq(lambda t, z0=z0: t - tau * special.expit(-(z0 + t)), 0, tau, xtol=1e-300, rtol=1e-14)
        assert reference.newton_shift(z0, tau, max_iterations=14) == pytest.approx(root, rel=1e-9)


@pytest.mark.parametrize("tau", [1e-6, 0.1, 1.0, 12.0, 100.0, 1e4, 1e6])
def test_probit_newton_converges_from_the_old_mean(tau):
    for z0 in np.concatenate([-np.logspace(4, -2, 40), np.linspace(0, 30, 16)]):
        high = tau * special.erfcx(0) * np.sqrt(2 / np.pi) + tau * max(-z0, 0)  # R(z) <= R(0) + max(-z, 0)

        def gap(t, z0=z0):
            return t - tau * np.sqrt(2 / np.pi) / special.erfcx(-(z0 + t) / np.sqrt(2))

        root = optimize.brentq(gap, 0, high, xtol=1e-300, rtol=1e-14, maxiter=1000)
        assert reference.newton_shift(z0, tau, "probit", max_iterations=17) == pytest.approx(root, rel=1e-9)


# ----------------------------------------------------------------------------------------------------
# Variances, (18), (19), (31)
# ----------------------------------------------------------------------------------------------------


@links
@mean_updates
@given(row=examples, y=labels, weight=weights)
def test_laplace_variance_is_one_over_the_curvature_at_the_new_mean(link, mean_update, row, y, weight):
    mean, variance, x = row
    new_mean, new_variance = reference.marginal_step(mean, variance, x, y, weight, link, mean_update)
    for i in range(len(x)):
        posterior = Posterior(i, mean, variance, x, y, link, weight)
        assert 1 / new_variance[i] == pytest.approx(posterior.curvature(new_mean[i]), rel=1e-5)


@links
@mean_updates
@pytest.mark.parametrize("ku", [0.3, 1.0])
@given(row=examples, y=labels)
def test_peak_variance_has_the_height_of_the_posterior_and_never_exceeds_the_old_one(link, mean_update, ku, row, y):
    mean, variance, x = row
    new_mean, new_variance = reference.marginal_step(
        mean, variance, x, y, 1.0, link, mean_update, "peak", temper_update=ku
    )
    for i in range(len(x)):
        height = Posterior(i, mean, variance, x, y, link, ku=ku).height(new_mean[i])
        expected = min(1 / height**2, variance[i]) if height > 0 else variance[i]
        assert new_variance[i] == pytest.approx(expected, rel=1e-7, abs=1e-12 * variance[i])


@pytest.mark.parametrize("weight", [0.5, 2.0, 4.0, 20.0])
def test_weighted_peak_is_near_the_true_height_where_the_power_of_p_t_would_collapse(weight):
    mean, variance, x, y = np.array([-1.0]), np.array([0.2]), np.array([1.0]), 1.0
    (at,), (new,) = reference.marginal_step(mean, variance, x, y, weight, "logistic", "newton", "peak")
    posterior, sd = Posterior(0, mean, variance, x, y, "logistic", weight), np.sqrt(variance[0])
    centre = posterior.loss(at)
    area, _ = integrate.quad(lambda u: np.exp(centre - posterior.loss(at + sd * u)) / np.sqrt(2 * np.pi), -12, 12)
    assert new == pytest.approx(variance[0] * area**2, rel=0.01)
    as_a_power = posterior.p_t**weight / CDF["logistic"](posterior.score(at)) ** weight
    as_a_power *= np.exp((at - mean[0]) ** 2 / (2 * variance[0]))
    assert abs(as_a_power**2 * variance[0] / new - 1) > 0.02


@given(row=examples, y=labels)
def test_probit_peak_is_the_true_height_and_needs_no_clamp(row, y):
    # For probit the posterior (26) is exact, so its height can be had by integrating it.
    mean, variance, x = row
    new_mean, new_variance = reference.marginal_step(mean, variance, x, y, 1.0, "probit", "newton", "peak")
    for i in range(len(x)):
        posterior, sd = Posterior(i, mean, variance, x, y, "probit"), np.sqrt(variance[i])
        centre = posterior.loss(new_mean[i])

        def relative(u, posterior=posterior, at=new_mean[i], sd=sd, centre=centre):
            return np.exp(centre - posterior.loss(at + sd * u)) / np.sqrt(2 * np.pi)

        area = sum(integrate.quad(relative, *ends, epsrel=1e-10)[0] for ends in ((-12, 0), (0, 12)))
        assert np.sqrt(new_variance[i]) == pytest.approx(sd * area, rel=1e-6)
        assert new_variance[i] < variance[i] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("probability", "variance"),
    [(0.085, 0.01), (0.02, 0.01), (0.02, 0.3), (1e-3, 2.0), (1e-4, 0.3), (1e-30, 0.01), (1e-30, 2.0)],
)
def test_peak_never_widens_for_a_surprising_label_though_equation_18_would(probability, variance):
    mu = special.logit(probability)
    mean, old, x, y = np.array([mu, 0.0]), np.array([variance, 1e-6]), np.array([1.0, 1.0]), 1.0
    new_mean, new = reference.marginal_step(mean, old, x, y, mean_update="newton", variance_update="peak")
    as_printed = 1 / Posterior(0, mean, old, x, y, "logistic").height(new_mean[0]) ** 2
    assert as_printed > variance
    assert new[0] == variance


def test_peak_narrows_for_a_label_that_is_no_great_surprise():
    for probability in (0.095, 0.2, 0.5, 0.9):
        mu = special.logit(probability)
        _, (new,) = reference.marginal_step([mu], [0.01], [1.0], 1.0, variance_update="peak")
        assert new < 0.01


@variance_updates
@mean_updates
@links
@given(row=examples, y=labels, weight=weights)
def test_the_score_moves_towards_the_label_and_no_variance_grows(link, mean_update, variance_update, row, y, weight):
    mean, variance, x = row
    new_mean, new_variance = reference.marginal_step(mean, variance, x, y, weight, link, mean_update, variance_update)
    assert np.all(y * x * (new_mean - mean) >= 0)
    if y * x @ mean < 3:  # else a sure label may pull less than the last bit of a mean
        assert np.all(y * x * (new_mean - mean) > 0)
    assert np.all(new_variance <= variance)
    assert np.all(new_variance >= 0)


@variance_updates
def test_narrow_variances_still_move_even_when_given_in_float32(variance_update):
    # Computed in float32, 1 + 2.5e-8 is 1 and nothing would ever be learned again.
    old = np.array([1e-7, 1e-7], dtype=np.float32)
    mean, x = np.zeros(2, dtype=np.float32), np.ones(2, dtype=np.float32)
    new_mean, new = reference.marginal_step(mean, old, x, 1.0, variance_update=variance_update)
    assert new_mean.dtype == new.dtype == np.float64
    # At score 0 both rules narrow by 1/4 per unit of variance.
    np.testing.assert_allclose(1 - new / old.astype(float), 0.25e-7, rtol=1e-6)


# ----------------------------------------------------------------------------------------------------
# Laws of a step
# ----------------------------------------------------------------------------------------------------


@variance_updates
@mean_updates
@links
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_features_in_a_row_does_not_matter(link, mean_update, variance_update, seed):
    mean, variance, x, y = random_example(seed, size=6)
    rules = (1.0, link, mean_update, variance_update)
    order = np.random.default_rng(seed).permutation(6)
    new_mean, new_variance = reference.marginal_step(mean, variance, x, y, *rules)
    shuffled = reference.marginal_step(mean[order], variance[order], x[order], y, *rules)
    np.testing.assert_allclose(shuffled[0], new_mean[order], rtol=1e-11)
    np.testing.assert_allclose(shuffled[1], new_variance[order], rtol=1e-11)


def test_a_label_that_was_almost_certain_still_pulls():
    # 1 - S(40) is 0 in float64; S(-40) is not.
    assert reference.taylor_shift(40.0, 1.0) == pytest.approx(np.exp(-40), rel=1e-12)
    mean, _ = reference.marginal_step([0.0, 40.0], [1.0, 1e-12], [1.0, 1.0], 1.0)
    assert mean[0] == pytest.approx(np.exp(-40), rel=1e-6)


def test_every_feature_sees_the_old_totals():
    # Twins stay twins. If the second saw the first one's new mean, it would move less.
    (first, second), variance = reference.marginal_step([0.0, 0.0], [1.0, 1.0], [1.0, 1.0], 1.0)
    assert first == second > 0
    assert variance[0] == variance[1]


@variance_updates
@links
@given(row=examples, y=labels)
def test_mirror_images_learn_mirror_images(link, variance_update, row, y):
    mean, variance, x = row
    rules = (1.0, link, "auto", variance_update)
    new_mean, new_variance = reference.marginal_step(mean, variance, x, y, *rules)
    np.testing.assert_array_equal(reference.marginal_step(-mean, variance, x, -y, *rules), (-new_mean, new_variance))
    np.testing.assert_array_equal(reference.marginal_step(-mean, variance, -x, y, *rules), (-new_mean, new_variance))


@variance_updates
@mean_updates
@links
def test_weight_zero_changes_nothing_not_even_by_memory(link, mean_update, variance_update):
    mean, variance, x, y = random_example(3)
    new = reference.marginal_step(
        mean, variance, x, y, 0.0, link, mean_update, variance_update, memory=0.5, cap=np.full(4, 100.0)
    )
    np.testing.assert_array_equal(new, (mean, variance))


@links
@variance_updates
def test_a_tiny_weight_moves_in_proportion(link, variance_update):
    mean, variance, x, y = random_example(4)
    one, _ = reference.marginal_step(mean, variance, x, y, 1e-6, link, "newton", variance_update)
    two, _ = reference.marginal_step(mean, variance, x, y, 2e-6, link, "newton", variance_update)
    np.testing.assert_allclose(two - mean, 2 * (one - mean), rtol=1e-4)


@variance_updates
@links
def test_memory_widens_before_use_up_to_the_prior(link, variance_update):
    mean, variance, x, y = random_example(5)
    cap = variance * np.array([1.02, 1.5, 1.0, 3.0])
    widened = np.array([1.02, 1.1, 1.0, 1.1]) * variance
    rules = (1.0, link, "auto", variance_update)
    with_memory = reference.marginal_step(mean, variance, x, y, *rules, memory=0.1, cap=cap)
    np.testing.assert_allclose(with_memory, reference.marginal_step(mean, widened, x, y, *rules), rtol=1e-13)
    np.testing.assert_allclose(
        reference.marginal_predict(mean, variance, x, link, memory=0.1, cap=cap),
        reference.marginal_predict(mean, widened, x, link),
        rtol=1e-13,
    )


@variance_updates
@mean_updates
@links
@pytest.mark.parametrize("start", [-1e8, -1e4, 1e4, 1e8])
@pytest.mark.parametrize("variance", [1e-6, 1.0, 1e6])
def test_steps_stay_finite_at_extreme_scores(link, mean_update, variance_update, start, variance):
    old = [variance, 1.0]
    new_mean, new_variance = reference.marginal_step(
        [start, 0.0], old, [1.0, 1.0], 1.0, 1.0, link, mean_update, variance_update
    )
    assert np.all(np.isfinite(new_mean))
    assert np.all((new_variance >= 0) & (new_variance <= old))
    for predictive in ("closed", "quadrature"):
        p, _, _ = reference.marginal_predict([start, 0.0], old, [1.0, 1.0], link, predictive=predictive)
        assert 0 <= p <= 1 + 1e-15


@pytest.mark.parametrize(
    ("options", "message"),
    [({"mean_update": "guess"}, "mean_update"), ({"variance_update": "guess"}, "variance_update")],
)
def test_unknown_rules_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        reference.marginal_step([0.0], [1.0], [1.0], 1.0, **options)
    with pytest.raises(ValueError, match="predictive"):
        reference.marginal_predict([0.0], [1.0], [1.0], predictive="guess")
