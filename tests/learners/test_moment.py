"""Moment answers to the reference in every variant, is right however wide or far the score, and lasts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou import BadInput, Batch, evaluate, simulate
from bayou.learners.marginal import Marginal
from bayou.learners.moment import DENSITIES, MILLS, SHARES, VARIANCES, Moment
from tests.learners.test_marginal import WIDTH, compare, long_run, matrix, near
from tests.reference import moment as reference_moment

both = pytest.mark.parametrize("expectation", ["exact", "probit"])
links = pytest.mark.parametrize("link", ["logistic", "probit"])
dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


# --- against the reference --------------------------------------------------------------------------------------

OPTIONS = {
    "plain": {},
    "bare": {"intercept": False},
    "wide": {"prior_variance": 100.0},
    "narrow": {"prior_variance": 1e-6},
    "off": {"prior_mean": -1.5, "prior_variance": 0.5, "intercept_variance": 0.1},
    "arrays": {"prior_mean": np.linspace(-2, 2, WIDTH), "prior_variance": np.logspace(-3, 2, WIDTH)},
    "quadrature": {"predictive": "quadrature"},
}


@links
@both
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_every_variant_equals_the_reference(link, expectation, option, weighted):
    arguments = {"link": link, "expectation": expectation} | OPTIONS[option]
    rng = np.random.default_rng(0)
    for low, high in ((-1, 0.5), (0, 0)):
        X = matrix(rng, 24, low, high)
        y = rng.choice([-1.0, 1.0], X.shape[0])
        weights = 10 ** rng.uniform(-2, 1.5, X.shape[0]) if weighted else None
        learner = Moment(WIDTH, dtype="float64", **arguments)
        compare(learner, reference_moment.MomentReference(WIDTH, **arguments), X, y, weights, 1e-9)


def moved(m: float, sd: float, dtype: str = "float64", **more) -> tuple[float, float]:
    """One weight N(m, sd^2), one positive label: the slope and the fall of log Z, as its state tells them."""
    learner = Moment(
        1, prior_mean=m, prior_variance=sd**2, intercept=False, intercept_variance=1.0, dtype=dtype, **more
    )
    learner.learn(Batch.from_rows([{0: 1.0}], labels=[1]))
    shift, gain = learner._state[0].astype(np.float64)
    return shift / sd**2, gain / (1.0 + gain * sd**2)


@pytest.mark.parametrize("sd", [1e-6, 0.01, 0.3, 1.0, 1.5, 2.0, 4.0, 6.0, 10.0, 30.0, 100.0, 1000.0])
@pytest.mark.parametrize("m", [0.0, 0.3, 1.0, 3.0, 10.0, 30.0, 300.0, 1e4])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_integral_is_right_however_wide_or_far_the_score(m, sd, sign):
    """Relative to the answer itself, however small; only what is below 1e-300 may vanish."""
    expected = reference_moment.sigmoid_log_slopes(sign * m, sd**2)
    assert moved(sign * m, sd) == pytest.approx(expected, rel=1e-9, abs=1e-300)
    # in float32 the score itself, m and s2, is off by 1e-7 of its size, and an exponential of it by as many times more
    if m <= 30 and sd <= 30:
        slope, fall = moved(sign * m, sd, "float32")
        assert slope == pytest.approx(expected[0], rel=1e-5 * (1 + m / 10), abs=1e-30)
        assert fall == pytest.approx(expected[1], rel=3e-5 * (1 + m / 10), abs=1e-7 * expected[0] / sd)


def test_float32_looks_the_integral_up_in_a_table_that_is_right():
    rng = np.random.default_rng(0)
    for m, s2 in zip(rng.uniform(-12.5, 12.5, 400), 2.0 ** rng.uniform(-10.0, 6.5, 400), strict=True):
        expected = reference_moment.sigmoid_log_slopes(m, s2)
        far = 4e-4 if abs(m) > 8.0 else 1e-4
        # as long as the fall is not so small that the float32 precision it is added to cannot show it
        assert moved(m, math.sqrt(s2), "float32")[0] == pytest.approx(expected[0], rel=0.5 * far)
        assert moved(m, math.sqrt(s2), "float32")[1] == pytest.approx(expected[1], rel=far, abs=1e-6 / s2)


@pytest.mark.parametrize("sd", [1e5, 1e6, 1e7, 1e20, 1e30])
@pytest.mark.parametrize("z", [-1e3, -5.0, 0.0, 2.0, 1e3])
def test_seen_from_a_very_wide_score_the_sigmoid_is_a_step(sd, z):
    slope, fall = moved(z * sd, sd)
    expected = reference_moment.probit_log_slopes(z, 0.0, 1.0)
    assert slope * sd == pytest.approx(expected[0], rel=1e-6, abs=1e-300)
    assert fall * sd**2 == pytest.approx(expected[1], rel=1e-5, abs=1e-300)


def test_the_mixture_is_the_logistic_distribution():
    from scipy.special import erfcx, expit, ndtr

    a = np.linspace(-60, 60, 1201)
    assert SHARES.sum() == pytest.approx(1.0, abs=1e-14)
    assert SHARES @ VARIANCES == pytest.approx(math.pi**2 / 3, rel=1e-10)
    np.testing.assert_allclose(ndtr(a[:, None] / np.sqrt(VARIANCES)) @ SHARES, expit(a), rtol=0, atol=2e-11)
    density = (np.exp(-(a[:, None] ** 2) / (2 * VARIANCES)) / np.sqrt(VARIANCES)) @ DENSITIES
    assert (np.abs(density - expit(a) * expit(-a)) * np.cosh(a / 2)).max() < 5e-9
    x = np.concatenate([np.linspace(0, 40, 401), np.logspace(1, 6, 51)])
    mills = np.polynomial.polynomial.polyval((x - 4) / (x + 4), MILLS) / (x + 4)
    np.testing.assert_allclose(mills, math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2)), rtol=1e-13)


@links
@both
@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32 - 1),
    prior_variance=st.floats(-6, 4).map(lambda e: 10**e),
    prior_mean=st.floats(-3, 3),
    weighted=st.booleans(),
    intercept=st.booleans(),
)
def test_extreme_steps_equal_the_reference(link, expectation, seed, prior_variance, prior_mean, weighted, intercept):
    """Values from 1e-4 to 30, weights from 0.01 to 1000, labels that surprise; each step from shared beliefs.

    A second reference, whose input is off by 1e-15, shows what hangs on last bits.
    """
    rng = np.random.default_rng(seed)
    X = matrix(rng, 8, -4, 1.5, density=0.25)
    arguments = {
        "link": link,
        "expectation": expectation,
        "prior_variance": prior_variance,
        "prior_mean": prior_mean * math.sqrt(prior_variance),
        "intercept": intercept,
    }
    learner = Moment(WIDTH, dtype="float64", **arguments)
    slow, nudged = (reference_moment.MomentReference(WIDTH, **arguments) for _ in range(2))
    for row in range(X.shape[0]):
        one = X[[row]]
        surprising = -1.0 if slow.predict(one)[1][0] > 0 else 1.0
        y = [surprising if rng.random() < 0.7 else -surprising]
        weights = [10 ** rng.uniform(-2, 3)] if weighted else None
        p, expected = learner.learn(Batch.from_csr(one, y, weights)), slow.learn(one, y, weights)
        nudged.learn(one * (1 + 1e-15), y, weights)
        np.testing.assert_allclose(p, expected, rtol=1e-10, atol=1e-100)
        means = np.append(learner.mean, learner.intercept[0])
        variances = np.append(learner.variance, learner.intercept[1] if intercept else slow._variance[-1])
        allowed = 1e-9 * (np.sqrt(slow._prior) + np.abs(slow._mean)) + 20 * np.abs(nudged._mean - slow._mean)
        assert (np.abs(means - slow._mean) <= allowed).all()
        allowed = 1e-7 * slow._variance + 20 * np.abs(nudged._variance - slow._variance)
        assert (np.abs(variances - slow._variance) <= allowed).all()
        slow._mean, slow._variance = means, variances
        nudged._mean, nudged._variance = means * (1 - 1e-15), variances.copy()


@links
@both
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1), weighted=st.booleans())
def test_float32_stays_near_the_reference(link, expectation, seed, weighted):
    rng = np.random.default_rng(seed)
    X = matrix(rng, 20, -1, 0.5)
    y = rng.choice([-1.0, 1.0], X.shape[0])
    weights = 10 ** rng.uniform(-1, 1, X.shape[0]) if weighted else None
    arguments = {"link": link, "expectation": expectation}
    learner = Moment(WIDTH, dtype="float32", **arguments)
    compare(learner, reference_moment.MomentReference(WIDTH, **arguments), X, y, weights, 1e-4)


# --- what the rules mean ----------------------------------------------------------------------------------------


@dtypes
def test_with_the_probit_link_both_expectations_are_one(dtype):
    rng = np.random.default_rng(1)
    X = matrix(rng, 30, -1, 0.5)
    rows = Batch.from_csr(X, rng.choice([-1.0, 1.0], X.shape[0]))
    exact, probit = (Moment(WIDTH, link="probit", expectation=rule, dtype=dtype) for rule in ("exact", "probit"))
    assert exact.learn(rows).tobytes() == probit.learn(rows).tobytes()
    assert exact.variance.tobytes() == probit.variance.tobytes()


def test_the_probit_in_the_sigmoids_place_is_near_it_where_scores_are_small_only():
    for m, sd, close in ((0.0, 0.1, True), (0.0, 1.0, True), (-8.0, 1.0, False)):
        exact, probit = moved(m, sd), moved(m, sd, expectation="probit")
        assert (abs(exact[0] / probit[0] - 1) < 0.05) == close


@pytest.mark.parametrize("z", [-6.0, -40.0, -1e4, -1e8])
def test_probit_holds_far_out(z):
    """Far left the update is that of a Gaussian observation at 0 with unit noise."""
    variance = 0.25
    learner = Moment(1, link="probit", prior_mean=z, prior_variance=variance, intercept=False, dtype="float64")
    learner.learn(Batch.from_rows([{0: 1.0}], labels=[1]))
    assert float(learner.mean[0]) == pytest.approx(z / (1 + variance), rel=2 / z**2 + 1e-12)
    assert float(learner.variance[0]) == pytest.approx(variance / (1 + variance), rel=2 / z**2 + 1e-12)


@both
def test_the_step_is_shared_in_proportion_to_value_times_variance(expectation):
    variances = np.array([1.0, 4.0, 0.25])
    values = np.array([1.0, -0.5, 3.0])
    learner = Moment(3, prior_variance=variances, intercept=False, dtype="float64", expectation=expectation)
    learner.learn(Batch.from_rows([dict(enumerate(values))], labels=[1]))
    shares = learner.mean / (values * variances)
    np.testing.assert_allclose(shares, shares[0], rtol=1e-12)
    falls = (variances - learner.variance) / (values * variances) ** 2
    np.testing.assert_allclose(falls, falls[0], rtol=1e-9)


@dtypes
@both
def test_weights_up_to_one_multiply_and_heavier_ones_go_on_from_there(dtype, expectation):
    def after(weight):
        learner = Moment(1, prior_variance=2.0, intercept=False, dtype=dtype, expectation=expectation)
        learner.learn(Batch.from_rows([{0: 1.0}], labels=[1], weights=[weight]))
        return float(learner.mean[0]), float(learner.variance[0])

    mean, variance = after(1.0)
    for c in (0.1, 0.5):
        assert after(c)[0] == pytest.approx(c * mean, rel=1e-5)
        assert 2 - after(c)[1] == pytest.approx(c * (2 - variance), rel=1e-5)
    heavier = [after(c) for c in (1.0, 1.5, 4.0, 100.0, 1e6)]
    assert (np.diff([m for m, _ in heavier]) > 0).all()
    assert (np.diff([v for _, v in heavier]) < 0).all()
    assert heavier[-1][1] > 0


def test_regret_is_that_of_marginal_or_less_and_the_probits_is_more():
    stream = simulate.random(n_features=200, active=0.1, seed=0)
    r = {
        name: evaluate.progressive(learner, stream.batches(200_000), truth=stream.weights).normalized_regret
        for name, learner in {
            "marginal": Marginal(200, intercept=False),
            "exact": Moment(200, intercept=False),
            "float64": Moment(200, intercept=False, dtype="float64"),
            "probit": Moment(200, intercept=False, expectation="probit", prior_variance=0.7),
        }.items()
    }
    assert r["exact"] < 1.01 * r["marginal"]
    assert r["exact"] == pytest.approx(r["float64"], rel=1e-3)
    assert r["probit"] > 1.2 * r["exact"]


@pytest.mark.parametrize("rate", [0.5, 0.003])
def test_a_feature_of_every_row_in_float32_stays_near_float64(rate):
    learners = [Moment(1, dtype=dtype, intercept=False) for dtype in ("float32", "float64")]
    long_run(learners, {0: 1.0}, rate, 5_000_000)
    near(*learners, rate)


def test_an_intercept_that_has_seen_a_billion_examples_follows_a_shift_in_float32():
    learners = [Moment(1, dtype=dtype) for dtype in ("float32", "float64")]
    for learner in learners:
        learner._arrays()["intercept"][...] = 0.0, 1e9 * 0.25
    long_run(learners, {}, 0.1, 5_000_000)
    (mean32, variance32), (mean64, variance64) = (learner.intercept for learner in learners)
    assert abs(mean64) > 10 * math.sqrt(variance64)
    assert abs(mean32 - mean64) < 0.1 * math.sqrt(variance64)
    assert variance32 == pytest.approx(variance64, rel=1e-3)


# --- parameters -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"link": "cauchit"},
        {"expectation": "none"},
        {"expectation": "quadrature"},
        {"predictive": "exact"},
        {"prior_variance": 0.0},
        {"prior_variance": [1.0, 1.0]},
        {"prior_variance": "wide"},
        {"prior_mean": np.nan},
        {"intercept_variance": 0.0},
    ],
    ids=str,
)
def test_bad_parameters_are_refused_by_name(parameters):
    (name,) = parameters
    with pytest.raises(BadInput, match=name):
        Moment(3, **parameters)


def test_a_prior_that_float32_cannot_hold_is_refused_with_the_way_out():
    with pytest.raises(BadInput, match="float64"):
        Moment(3, prior_variance=1e-60)
    assert Moment(3, prior_variance=1e-60, dtype="float64").variance[0] == pytest.approx(1e-60)


def test_the_default_is_the_exact_sigmoid():
    parameters = Moment(3).parameters
    assert (parameters["link"], parameters["expectation"], parameters["predictive"]) == ("logistic", "exact", "closed")
    assert Moment(2).intercept == pytest.approx((0.0, 3.0))
