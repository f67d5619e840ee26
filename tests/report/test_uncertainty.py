"""The split of uncertainty against quadrature by SciPy."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import entr, expit, ndtr
from scipy.stats import norm

from bayou.report.uncertainty import split

F = {"logistic": expit, "probit": ndtr}


def entropy(p: float) -> float:
    return float(entr(p) + entr(1.0 - p))


@pytest.mark.parametrize("link", F)
@pytest.mark.parametrize("mean", [-6.0, -1.0, 0.0, 0.3, 4.0])
@pytest.mark.parametrize("sd", [0.01, 0.7, 3.0, 5.0])
def test_both_parts_are_their_integrals(link, mean, sd) -> None:
    def expected(what) -> float:
        span = mean - 12 * sd, mean + 12 * sd
        breaks = sorted({min(max(z, span[0]), span[1]) for z in (-3.0, 0.0, 3.0, mean)})
        value, _ = quad(
            lambda z: what(F[link](z)) * norm.pdf(z, mean, sd), *span, points=breaks, limit=500, epsabs=1e-12
        )
        return value

    aleatoric, epistemic = (part[0] for part in split(np.array([mean]), np.array([sd**2]), link))
    assert aleatoric == pytest.approx(expected(entropy), abs=1e-9)
    assert aleatoric + epistemic == pytest.approx(entropy(expected(lambda p: p)), abs=1e-9)


@pytest.mark.parametrize("sd", [12.0, 50.0])
def test_very_unsure_scores_are_right_to_two_per_cent(sd) -> None:
    wide, _ = quad(lambda z: entropy(expit(z)) * norm.pdf(z, 0.0, sd), -100, 100, points=[0.0], limit=500)
    assert split(np.zeros(1), np.array([sd**2])).aleatoric[0] == pytest.approx(wide, rel=0.02)


def test_what_is_known_for_sure_has_no_epistemic_part() -> None:
    means = np.linspace(-30, 30, 101)
    aleatoric, epistemic = split(means, np.zeros(101))
    assert np.allclose(epistemic, 0.0, atol=1e-12)
    assert np.allclose(aleatoric, entr(expit(means)) + entr(expit(-means)), atol=1e-12)


def test_neither_part_is_ever_negative_or_more_than_a_coin_toss() -> None:
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=5000) * 10.0 ** rng.uniform(-2, 3, 5000), 10.0 ** rng.uniform(-8, 6, 5000)
    aleatoric, epistemic = split(mean, variance)
    assert (np.minimum(aleatoric, epistemic) >= 0).all()
    assert (aleatoric + epistemic <= np.log(2) + 1e-12).all()


def test_more_examples_take_the_epistemic_part_away() -> None:
    _, epistemic = split(np.full(20, 0.4), 10.0 ** np.linspace(2, -6, 20))
    assert (np.diff(epistemic) < 0).all()
    assert epistemic[-1] < 1e-6


def test_nothing_in_nothing_out() -> None:
    assert split(np.empty(0), np.empty(0)).aleatoric.shape == (0,)
