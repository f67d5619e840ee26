"""The links against scipy.special, to the last digits, over the whole line."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from bayou.core import links, registry
from bayou.core.errors import BadInput

LOGISTIC, PROBIT = links.LOGISTIC, links.PROBIT

GRID = np.concatenate(
    [
        np.linspace(-40.0, 40.0, 16_001),
        np.linspace(-4.01, -3.99, 201),  # where the continued fraction takes over
        np.linspace(-1.01, -0.99, 201),
        [side * 10.0**k for side in (-1, 1) for k in range(-300, 9, 4)],
        [-1e8, 1e8, -0.0, 0.0],
    ]
)

scores = st.floats(-1e8, 1e8) | st.floats(-50, 50)


def over(f, z):
    return np.array([f(value) for value in np.asarray(z, dtype=float)])


def assert_close(got, expected, relative):
    """Equal to a relative tolerance, but for what is too small to be a normal number."""
    got, expected, relative = np.broadcast_arrays(got, expected, relative)
    assert (np.abs(got - expected) <= relative * np.abs(expected) + 1e-300).all()


def erfcx_hazard(z):
    return np.sqrt(2 / np.pi) / special.erfcx(-np.asarray(z) / np.sqrt(2))


def of_square(z):
    """What one rounding of z^2/2 does to exp(-z^2/2), ours and scipy's, on top of a few last places."""
    return 1e-15 + 4e-16 * np.minimum(np.square(z), 1600)


def test_logistic_equals_scipy_everywhere():
    assert_close(over(links.sigmoid, GRID), special.expit(GRID), 1e-15)
    assert_close(over(links.log_sigmoid, GRID), special.log_expit(GRID), 1e-15)
    assert_close(over(lambda z: links.slope(LOGISTIC, z), GRID), special.expit(-GRID), 1e-15)
    product = special.expit(GRID) * special.expit(-GRID)
    assert_close(over(lambda z: links.curvature(LOGISTIC, z), GRID), product, 1e-15)


def test_probit_equals_scipy_everywhere():
    right = np.where(GRID > 0, of_square(GRID), 0)
    assert_close(over(links.normal_cdf, GRID), special.ndtr(GRID), of_square(GRID))
    assert_close(over(links.log_normal_cdf, GRID), special.log_ndtr(GRID), 1e-13 + right)
    assert_close(over(links.hazard, GRID), erfcx_hazard(GRID), 1e-13 + right)


def test_probit_curvature_keeps_its_digits_where_the_sum_would_cancel():
    """scipy has no such function: z + R(z) by a deeper fraction, and by a plain sum on the right."""
    left = GRID[GRID < -4]
    level = -left
    for k in range(100, 1, -1):
        level = k / level - left
    assert_close(over(lambda z: links.curvature(PROBIT, z), left), erfcx_hazard(left) / level, 1e-14)
    middle = GRID[(GRID >= -4) & (GRID <= 37)]
    expected = erfcx_hazard(middle) * (middle + erfcx_hazard(middle))
    assert_close(over(lambda z: links.curvature(PROBIT, z), middle), expected, 1e-13 + of_square(middle))
    far = GRID[GRID > 40]
    assert (over(lambda z: links.curvature(PROBIT, z), far) == 0).all()


@given(scores)
def test_logistic_equals_scipy_at_any_score(z):
    assert_close(links.cdf(LOGISTIC, z), special.expit(z), 1e-15)
    assert_close(links.log_cdf(LOGISTIC, z), special.log_expit(z), 1e-15)


@given(scores)
def test_probit_equals_scipy_at_any_score(z):
    assert_close(links.cdf(PROBIT, z), special.ndtr(z), of_square(z))
    assert_close(links.log_cdf(PROBIT, z), special.log_ndtr(z), 1e-13 + of_square(z) * (z > 0))
    assert_close(links.slope(PROBIT, z), erfcx_hazard(z), 1e-13 + of_square(z) * (z > 0))


def test_normal_quantiles_equal_scipy():
    log_p = -np.concatenate([np.log(2.0) * np.linspace(1.0, 50.0, 5001), np.logspace(1, 12, 2001)])
    got = over(links.normal_quantile, log_p)
    np.testing.assert_allclose(got, special.ndtri_exp(log_p), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("link", [LOGISTIC, PROBIT])
@given(z=st.floats(-1e8, 1e8))
def test_slope_and_curvature_stay_in_their_range(link, z):
    assert links.slope(link, z) >= 0
    assert 0 <= links.curvature(link, z) <= 1
    assert 0 <= links.cdf(link, z) <= 1
    assert links.log_cdf(link, z) <= 0


@pytest.mark.parametrize("link", [LOGISTIC, PROBIT])
@given(z=st.floats(-30, 8))
def test_slope_and_curvature_are_the_derivatives(link, z):
    h = 1e-5
    rise = (links.log_cdf(link, z + h) - links.log_cdf(link, z - h)) / (2 * h)
    fall = (links.slope(link, z - h) - links.slope(link, z + h)) / (2 * h)
    assert links.slope(link, z) == pytest.approx(rise, rel=1e-6, abs=1e-8)
    assert links.curvature(link, z) == pytest.approx(fall, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("link", [LOGISTIC, PROBIT])
def test_infinities_reach_their_limits_and_nan_stays_nan(link):
    names = ("cdf", "log_cdf", "slope", "curvature")
    low, high = ([getattr(links, name)(link, z) for name in names] for z in (-np.inf, np.inf))
    assert low == ([0, -np.inf, 1, 0] if link == LOGISTIC else [0, -np.inf, np.inf, 1])
    assert high == [1, 0, 0, 0]
    assert all(np.isnan(getattr(links, name)(link, np.nan)) for name in names)


def test_a_float32_score_is_computed_in_float64():
    z = np.float32(-7.3)
    for name in ("cdf", "log_cdf", "slope", "curvature"):
        for link in links.LINKS.values():
            assert getattr(links, name)(link, z) == getattr(links, name)(link, float(z))


def test_spread_is_what_a_normal_score_divides_by():
    assert links.damping_constant(PROBIT) == 1
    assert links.damping_constant(LOGISTIC) == pytest.approx(np.pi / 8)
    exact = special.ndtr(0.7 / np.sqrt(1 + 0.5))
    assert links.expected_probability(PROBIT, 0.7, 0.5) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(("sd", "tolerance"), [(0.3, 1e-13), (1.0, 1e-9), (1.5, 2e-7), (1.51, 1e-9), (9.0, 1e-9)])
@pytest.mark.parametrize("link", [LOGISTIC, PROBIT])
def test_expected_probability_is_the_integral(link, sd, tolerance):
    curve = special.expit if link == LOGISTIC else special.ndtr
    for mean in np.linspace(-12, 12, 9):

        def integrand(u, mean=mean):
            return curve(mean + sd * u) * stats.norm.pdf(u)

        step = float(np.clip(-mean / sd, -12, 12))  # where the curve is steep
        exact, _ = integrate.quad(integrand, -12, 12, epsabs=1e-14, limit=200, points=[step])
        assert links.expected_probability(link, mean, sd**2) == pytest.approx(exact, abs=tolerance)


@pytest.mark.parametrize("link", [LOGISTIC, PROBIT])
def test_a_certain_score_has_its_own_probability(link):
    assert links.expected_probability(link, -2.5, 0.0) == pytest.approx(links.cdf(link, -2.5), rel=1e-14)


def test_a_link_is_found_by_name_or_refused_with_a_sentence():
    assert [links.link_code(name) for name in ("logistic", "probit")] == [LOGISTIC, PROBIT]
    with pytest.raises(BadInput, match="link is 'cauchit'; it must be one of 'logistic', 'probit'"):
        links.link_code("cauchit")


def test_a_code_without_a_link_is_nan_and_never_another_link():
    code = max(links.TABLE) + 1
    found = [links.damping_constant(code), links.cdf(code, 0.5), links.log_cdf(code, 0.5), links.peak_start(code, 0.5)]
    assert np.isnan([*found, *links.slope_and_curvature(code, 0.5), links.expected_probability(code, 0.5, 1.0)]).all()


@pytest.mark.parametrize("link", links.TABLE.values(), ids=lambda link: link.name)
def test_a_record_says_of_arrays_what_kernels_say(link):
    z = GRID[np.abs(GRID) < 30]
    assert_close(link.cdf(z), over(lambda value: links.cdf(link.link_code, value), z), of_square(z))
    assert_close(link.log_cdf(z), over(lambda value: links.log_cdf(link.link_code, value), z), 1e-13 + of_square(z))
    assert_close(link.negative_cdf(z), over(lambda value: links.cdf(link.mirror, -value), z), of_square(z))
    assert link.damping_constant == links.damping_constant(link.link_code)
    assert link.is_symmetric == (links.of_label(link.link_code, -1.0) == link.link_code)
    middle = np.linspace(-3, 3, 13)
    np.testing.assert_allclose(link.quantile(link.cdf(middle)), middle, atol=1e-12)


@pytest.mark.parametrize("record", registry.own_records(), ids=lambda record: record.name)
def test_a_learner_refuses_a_link_that_it_does_not_support(record, monkeypatch):
    monkeypatch.setitem(links.LINKS, "cloglog", 2)
    if "link" in inspect.signature(record.load()).parameters:
        with pytest.raises(BadInput, match=r"link is 'cloglog'; it must be one of .*'probit'"):
            record.load()(n_features=4, link="cloglog")
