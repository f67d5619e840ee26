"""Variational answers to the reference in every variant, draws fresh samples, and never leaves r > 0."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from bayou import BadInput, BadModel, Batch, evaluate, simulate
from bayou.learners.marginal import Marginal
from bayou.learners.variational import Variational, _draw, _quantiles
from tests.learners.test_marginal import WIDTH, compare, long_run, matrix, near
from tests.reference import variational as reference_variational

updates = pytest.mark.parametrize("mean_update", ["newton", "taylor"])
dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


# --- against the reference --------------------------------------------------------------------------------------

OPTIONS = {
    "plain": {"n_points": 8},
    "bare": {"n_points": 8, "intercept": False},
    "many": {"n_points": 20, "prior_variance": 3.0},
    "few": {"n_points": 3},
    "wide": {"n_points": 8, "prior_variance": 100.0},
    "off": {"n_points": 8, "prior_mean": -1.5, "prior_variance": 0.5, "intercept_variance": 0.1},
    "arrays": {"n_points": 8, "prior_mean": np.linspace(-2, 2, WIDTH), "prior_variance": np.logspace(-3, 2, WIDTH)},
    "predictive": {"n_points": 8, "predictive": "quadrature"},
    "draws": {"n_points": 30, "expectation": "monte-carlo"},
    "seeded": {"n_points": 101, "expectation": "monte-carlo", "seed": 7},
    "one draw": {"n_points": 1, "expectation": "monte-carlo", "intercept": False},
}


@updates
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_every_variant_equals_the_reference(mean_update, option, weighted):
    arguments = {"mean_update": mean_update} | OPTIONS[option]
    rng = np.random.default_rng(0)
    X = matrix(rng, 24, -1, 0.5)
    y = rng.choice([-1.0, 1.0], X.shape[0])
    weights = 10 ** rng.uniform(-2, 1, X.shape[0]) if weighted else None
    learner = Variational(WIDTH, dtype="float64", **arguments)
    compare(learner, reference_variational.VariationalReference(WIDTH, **arguments), X, y, weights, 1e-9)


@updates
@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    prior_variance=st.floats(-6, 4).map(lambda e: 10**e),
    prior_mean=st.floats(-3, 3),
    weighted=st.booleans(),
    draws=st.booleans(),
)
def test_extreme_steps_equal_the_reference(mean_update, seed, prior_variance, prior_mean, weighted, draws):
    """Values from 1e-4 to 30, weights from 0.01 to 1000, labels that surprise; each step from shared beliefs."""
    rng = np.random.default_rng(seed)
    X = matrix(rng, 8, -4, 1.5, density=0.25)
    arguments = {
        "mean_update": mean_update,
        "expectation": "monte-carlo" if draws else "quadrature",
        "n_points": 10,
        "prior_variance": prior_variance,
        "prior_mean": prior_mean * math.sqrt(prior_variance),
    }
    learner = Variational(WIDTH, dtype="float64", **arguments)
    slow, nudged = (reference_variational.VariationalReference(WIDTH, **arguments) for _ in range(2))
    for row in range(X.shape[0]):
        one = X[[row]]
        surprising = -1.0 if slow.predict(one)[1][0] > 0 else 1.0
        y = [surprising if rng.random() < 0.7 else -surprising]
        weights = [10 ** rng.uniform(-2, 3)] if weighted else None
        p, expected = learner.learn(Batch.from_csr(one, y, weights)), slow.learn(one, y, weights)
        nudged.learn(one * (1 + 1e-15), y, weights)
        np.testing.assert_allclose(p, expected, rtol=1e-10, atol=1e-100)
        means, variances = (
            np.append(whole, part)
            for whole, part in zip((learner.mean, learner.variance), learner.intercept, strict=True)
        )
        allowed = 1e-9 * (np.sqrt(slow._prior) + np.abs(slow._mean)) + 20 * np.abs(nudged._mean - slow._mean)
        assert (np.abs(means - slow._mean) <= allowed).all()
        allowed = 1e-8 * slow._variance + 20 * np.abs(nudged._variance - slow._variance)
        assert (np.abs(variances - slow._variance) <= allowed).all()
        slow._mean, slow._variance = means, variances
        nudged._mean, nudged._variance = means * (1 - 1e-15), variances.copy()


@updates
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1))
def test_float32_stays_near_the_reference(mean_update, seed):
    rng = np.random.default_rng(seed)
    X = matrix(rng, 20, -1, 0.5)
    y = rng.choice([-1.0, 1.0], X.shape[0])
    learner = Variational(WIDTH, dtype="float32", mean_update=mean_update)
    compare(learner, reference_variational.VariationalReference(WIDTH, mean_update=mean_update), X, y, None, 1e-4)


# --- draws ------------------------------------------------------------------------------------------------------


@njit
def draw(table, seed, example, feature, nodes):
    _draw(table, seed, example, feature, nodes)


def test_the_kernels_draws_are_the_references():
    table = _quantiles()
    for count in (1, 4, 7, 100):
        nodes = np.zeros(104)
        draw(table, np.uint64(2**64 - 5), np.uint64(12), np.uint64(2**63), nodes)
        expected = reference_variational.normal_draws(2**64 - 5, 12, 2**63, count)
        np.testing.assert_allclose(nodes[:count], expected, rtol=1e-11)


def test_draws_are_fresh_for_each_feature_and_example_and_differ_by_seed():
    """Two features alike in all but their number come out different; the same seed says the same."""
    rows = Batch.from_rows([{0: 1.0, 1: 1.0}] * 3, labels=[1, -1, 1])
    learners = [Variational(2, expectation="monte-carlo", n_points=20, seed=seed) for seed in (0, 0, 1)]
    for learner in learners:
        learner.learn(rows)
    first, again, other = (learner.mean for learner in learners)
    assert first.tobytes() == again.tobytes()
    assert first[0] != first[1]
    assert (first != other).all()


def test_many_draws_come_near_the_quadrature():
    rng = np.random.default_rng(3)
    X = matrix(rng, 40, -1, 0)
    rows = Batch.from_csr(X, rng.choice([-1.0, 1.0], X.shape[0]))
    exact = Variational(WIDTH, n_points=20, dtype="float64")
    exact.learn(rows)
    distance = []
    for n_points in (100, 10_000):
        learner = Variational(WIDTH, expectation="monte-carlo", n_points=n_points, dtype="float64")
        learner.learn(rows)
        distance.append(np.abs(learner.mean - exact.mean).max())
        np.testing.assert_allclose(learner.variance, exact.variance, rtol=5 / math.sqrt(n_points))
    assert distance[1] < 0.02 < 0.5 > distance[0]


def test_draws_may_widen_but_never_beyond_the_prior():
    rows = Batch.from_rows([{0: 1.0}] * 2000, labels=[1, -1] * 1000)
    learner = Variational(1, expectation="monte-carlo", n_points=2, intercept=False, dtype="float64")
    widest = []
    for k in range(len(rows)):
        learner.learn(rows[k : k + 1])
        widest.append(learner.variance[0])
    assert max(widest) <= 1.0
    assert (np.diff(widest) > 0).any()


def test_a_base_that_draws_knew_better_is_still_a_base():
    def grown(start, rows):
        learner = (
            Variational(3, expectation="monte-carlo", n_points=2)
            if start is None
            else start.snapshot().merge(Variational(3, expectation="monte-carlo", n_points=2))
        )
        learner.learn(Batch.from_rows(rows, labels=[1, -1] * (len(rows) // 2)))
        return learner

    base = grown(None, [{0: 1.0}] * 200)
    left, right = (grown(base, [{0: 0.1, feature: 1.0}] * 4) for feature in (1, 2))
    merged = left.merge(right, base=base)
    assert np.isfinite(merged.variance).all()
    assert merged.examples == 208
    stranger = grown(None, [{2: 1.0}] * 2)
    with pytest.raises(BadModel, match="base"):
        grown(None, [{0: 1.0}] * 4).merge(grown(None, [{0: 1.0}] * 4), base=stranger)


# --- what the rule means ----------------------------------------------------------------------------------------


@dtypes
@updates
@pytest.mark.parametrize("prior_variance", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("sure", [0.0, 5.0, 300.0])
def test_a_surprise_narrows_and_leaves_a_finite_belief(dtype, mean_update, prior_variance, sure):
    learner = Variational(
        1, prior_mean=sure, prior_variance=prior_variance, intercept=False, dtype=dtype, mean_update=mean_update
    )
    learner.learn(Batch.from_rows([{0: 1.0}], labels=[-1]))
    assert learner.mean[0] < sure or prior_variance < 1e-3
    assert 0 < learner.variance[0] <= np.float32(prior_variance) * (1 + 1e-6)


def test_regret_is_near_marginals():
    stream = simulate.random(n_features=200, active=0.1, seed=0)
    told, *ours = (
        evaluate.progressive(learner, stream.batches(100_000), truth=stream.weights).normalized_regret
        for learner in (
            Marginal(200, intercept=False),
            Variational(200, intercept=False),
            Variational(200, intercept=False, mean_update="taylor"),
            Variational(200, intercept=False, expectation="monte-carlo", n_points=100),
        )
    )
    np.testing.assert_allclose(ours, told, rtol=0.05)


def test_a_feature_of_every_row_in_float32_stays_near_float64():
    learners = [Variational(1, dtype=dtype, intercept=False) for dtype in ("float32", "float64")]
    long_run(learners, {0: 1.0}, 0.1, 1_000_000)
    near(*learners, 0.1)


# --- parameters -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"expectation": "exact"},
        {"mean_update": "auto"},
        {"predictive": "exact"},
        {"n_points": 0},
        {"n_points": 1.5},
        {"n_points": 1000},
        {"seed": -1},
        {"prior_variance": 0.0},
        {"prior_mean": [0.0, 1.0]},
        {"intercept_variance": "wide"},
    ],
    ids=str,
)
def test_bad_parameters_are_refused_by_name(parameters):
    (name,) = parameters
    with pytest.raises(BadInput, match=name):
        Variational(3, **parameters)


def test_the_number_of_points_follows_the_expectation():
    assert Variational(3).parameters["n_points"] == 8
    assert Variational(3, expectation="monte-carlo").parameters["n_points"] == 100
