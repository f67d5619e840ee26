"""Intervals of probabilities: they have the mass they say, and hold the probability inside."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit, ndtr, ndtri
from scipy.stats import norm

from bayou.core import links
from bayou.core.class_prediction import ClassPrediction, ClassScores
from bayou.core.prediction import Prediction, ScoreRule, Scores

LINKS = {"logistic": (links.LOGISTIC, expit, logit), "probit": (links.PROBIT, ndtr, ndtri)}
LEVELS = (1e-6, 0.1, 0.5, 0.8, 0.9, 0.95, 0.99, 1 - 1e-6)
# Sure and unsure, near 0 and far from it, on both sides.
MEANS = np.array([0.0, 0.3, -2.0, 4.0, -9.0, 15.0, -25.0])
SDS = np.array([1e-4, 0.5, 1.7, 3.0, 6.0, 20.0])
MEAN, SD = (grid.ravel() for grid in np.meshgrid(MEANS, SDS))


def predicted(link="logistic", predictive="closed", believed=1.0, mean=MEAN, sd=SD) -> Prediction:
    """As a learner has it, by the definition of its probability."""
    code, cdf, _ = LINKS[link]
    mean, deviation = np.asarray(mean, float), np.sqrt(believed) * np.asarray(sd, float)
    if predictive == "closed":
        p = cdf(mean / np.sqrt(1 + (np.pi / 8 if link == "logistic" else 1.0) * deviation**2))
    else:
        p = np.array([links.expected_probability(code, *pair) for pair in zip(mean, deviation**2, strict=True)])
    rule = ScoreRule(link=code, predictive=predictive, predictive_temper=believed)
    return Prediction(Scores(p, mean, np.asarray(sd, float) ** 2), "marginal", rule)


@pytest.mark.parametrize(("link", "predictive"), [(a, b) for a in LINKS for b in ("closed", "quadrature")])
@pytest.mark.parametrize("believed", [1.0, 0.25])
def test_an_interval_has_the_mass_asked_for_and_holds_the_probability_inside(link, predictive, believed):
    told, sd = predicted(link, predictive, believed), np.sqrt(believed) * SD
    inverse, inside = LINKS[link][2], (MEAN != 0) | (SD > 0)
    before = None
    for level in LEVELS:
        low, high = told.interval(level)
        assert (low <= told.probability).all()
        assert (told.probability <= high).all()
        # Where floats tell its ends apart from the probability, 0 and 1.
        apart = inside & (level > 0.01) & (low > 0) & (high < 1 - 1e-9) & (sd > 1e-3)
        assert ((low < told.probability) & (told.probability < high))[apart].all()
        mass = ndtr((inverse(high) - MEAN) / sd) - ndtr((inverse(low) - MEAN) / sd)
        np.testing.assert_allclose(mass[apart], level, rtol=1e-6)
        if before is not None:  # nested: a higher level reaches further on both sides
            assert ((low <= before[0]) & (high >= before[1])).all()
            assert ((low < before[0]) & (high > before[1]))[apart].all()
        before = low, high


def test_it_is_the_middle_part_unless_the_probability_is_near_its_end():
    mean, sd, level = np.linspace(-20, 20, 401), np.full(401, 3.0), 0.9
    told = predicted(mean=mean, sd=sd)
    low, high = told.interval(level)
    beyond = norm.cdf(-np.abs(logit(told.probability) - mean) / sd)  # q
    left_out = np.minimum((1 - level) / 2, beyond * (1 - level / 2))
    near, far = norm.ppf(left_out), norm.ppf(left_out + level)
    below = logit(told.probability) < mean
    np.testing.assert_allclose(low, expit(mean + sd * np.where(below, near, -far)), rtol=1e-6)
    np.testing.assert_allclose(high, expit(mean + sd * np.where(below, far, -near)), rtol=1e-6)
    middle = beyond > (1 - level) / (2 - level)
    assert 0 < middle.sum() < len(mean)
    np.testing.assert_allclose(low[middle], expit(mean - norm.ppf(0.95) * sd)[middle], rtol=1e-9)


def test_the_mass_by_quadrature_and_by_draws():
    """The case that used to end at the probability itself."""
    told = predicted(mean=[-40.0], sd=[16.0])
    (p,), ((low,), (high,)) = told.probability, told.interval(0.95)
    assert norm.interval(0.95, -40.0, 16.0)[1] < logit(p)  # the middle part leaves it out
    assert low < p < high
    mass, _ = quad(lambda z: norm.pdf(z, -40.0, 16.0), logit(low), logit(high))
    assert mass == pytest.approx(0.95, rel=1e-6)
    draws = expit(-40.0 + 16.0 * np.random.default_rng(0).standard_normal(200_000))
    assert np.mean((low <= draws) & (draws <= high)) == pytest.approx(0.95, abs=0.002)
    log_low, log_high = told.log_interval(0.95)
    np.testing.assert_allclose([log_low[0], log_high[0]], np.log([low, high]), rtol=1e-9)


def test_far_out_no_bound_is_lost():
    """The mass beyond the probability is less than any float."""
    told = predicted(mean=[4000.0, -4000.0], sd=[90.0, 90.0])
    log_low, log_high = told.log_interval(0.9)
    assert np.isfinite(log_low).all()
    assert (log_low <= log_high).all()
    assert log_high[1] > told.log_odds[1] > log_low[1] > -4000.0 - 90.0 * 3


def test_certain_scores_have_no_width():
    low, high = predicted(mean=[3.0, -3.0], sd=[0.0, 0.0]).interval()
    np.testing.assert_allclose(low, high, rtol=1e-15)


def test_intervals_of_several_classes_do_the_same():
    p = np.array([[0.99779, 0.0015, 0.00071], [0.4, 0.35, 0.25]])
    variance = np.array([[150.0, 40.0, 10.0], [0.5, 80.0, 3.0]])
    mean = logit(p) * np.sqrt(1 + np.pi / 8 * variance)
    told = ClassPrediction(np.arange(3.0), ClassScores(p, mean, variance, np.zeros(2)), "classes")
    for level in (0.5, 0.95):
        low, high = told.interval(level)
        assert ((low < p) & (p < high)).all()
        mass = ndtr((logit(high) - mean) / np.sqrt(variance)) - ndtr((logit(low) - mean) / np.sqrt(variance))
        exact = high < 1 - 1e-9
        np.testing.assert_allclose(mass[exact], level, rtol=1e-5)
