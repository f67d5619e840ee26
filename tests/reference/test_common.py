"""The links of the references against scipy's functions, integrals and differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special

from tests.reference import common
from tests.reference.known_links import LOG_CDF, SLOPE

links = pytest.mark.parametrize("link", ["logistic", "probit"])


@given(st.floats(-40, 40) | st.floats(-1e8, 1e8))
def test_probabilities_agree_with_scipy(z):
    np.testing.assert_allclose(common.sigmoid(z), special.expit(z), rtol=1e-14)
    np.testing.assert_allclose(common.log_sigmoid(z), special.log_expit(z), rtol=1e-14)
    np.testing.assert_allclose(common.probit(z), special.ndtr(z), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(common.log_probit(z), special.log_ndtr(z), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("a", [0.01, 1.0, 5.0, 7.99, 8.01, 12.0, 40.0, 1e3, 1e5, 1e8])
def test_hazard_in_the_left_tail_agrees_with_integrals_that_do_not_cancel(a):
    # 1/R(-a) = int exp(-a t - t^2/2) dt, and by parts 1 - a/R(-a) = int t exp(-a t - t^2/2) dt. u = scale t.
    scale = max(a, 1.0)

    def moment(power):
        def integrand(u):
            return u**power * np.exp(-a * u / scale - (u / scale) ** 2 / 2)

        return integrate.quad(integrand, 0, 60, epsabs=0, epsrel=1e-12, limit=400)[0] / scale ** (power + 1)

    np.testing.assert_allclose(common.hazard(-a), 1 / moment(0), rtol=1e-11)
    np.testing.assert_allclose(common.hazard_gap(-a), moment(1) / moment(0), rtol=1e-11)
    np.testing.assert_allclose(common.hazard_slope(-a), moment(1) / moment(0) ** 2, rtol=1e-11)


@links
@given(z=st.floats(-30, 20))
def test_slope_and_curvature_are_derivatives_of_the_log_probability(link, z):
    rule, h = common.LINKS[link], 1e-5
    slope = (LOG_CDF[link](z + h) - LOG_CDF[link](z - h)) / (2 * h)
    curvature = -(SLOPE[link](z + h) - SLOPE[link](z - h)) / (2 * h)
    np.testing.assert_allclose(rule.slope(z), slope, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(rule.slope(z), SLOPE[link](z), rtol=1e-11)
    np.testing.assert_allclose(rule.curvature(z), curvature, rtol=1e-6, atol=1e-9)


def test_links_keep_their_digits_at_plus_and_minus_a_hundred_million():
    far = 1e8
    assert (common.sigmoid(-far), common.sigmoid(far)) == (0, 1)
    assert (common.log_sigmoid(-far), common.log_sigmoid(far)) == (-far, 0)
    assert (common.probit(-far), common.probit(far)) == (0, 1)
    assert (common.log_probit(-far), common.log_probit(far)) == (pytest.approx(-5e15, rel=1e-12), 0)
    assert (common.hazard(-far), common.hazard(far)) == (pytest.approx(far, rel=1e-14), 0)
    assert common.hazard_gap(-far) == pytest.approx(1 / far, rel=1e-14)  # the plain sum z + R(z) is 0 here
    assert (common.hazard_slope(-far), common.hazard_slope(far)) == (pytest.approx(1, rel=1e-14), 0)
