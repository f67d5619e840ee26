"""SpikeSlab answers to the reference, the reference to quadrature, and both to an exact sampler."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

import bayou
from bayou import BadInput, BadModel, Batch
from bayou.learners import FTRL, SpikeSlab
from tests.reference import spike_slab as reference

WIDTH = 15


def examples(seed: int, rows: int = 60, density: float = 0.3, spread: float = 1.0):
    """A CSR matrix with values of many sizes, labels that depend on some of them, and weights."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((rows, WIDTH), density=density, rng=rng, format="csr")
    X.data = rng.choice([-1.0, 1.0], X.nnz) * 10 ** rng.uniform(-spread, spread, X.nnz)
    y = np.where(rng.random(rows) < ndtr(X @ (rng.normal(size=WIDTH) * (np.arange(WIDTH) < 6))), 1.0, -1.0)
    return X, y, rng.choice([0.3, 1.0, 2.0, 3.7, 200.0], rows)


def same_state(learner, slow, rtol=1e-9):
    rows = np.concatenate([learner._state[:-1], learner._intercept_state[None]])
    for label, at in ((1, 0), (0, 4)):
        size = 1e-9 * np.abs(slow.factors[label]).max(axis=0)
        np.testing.assert_allclose(rows[:, at], slow.factors[label, :, 0], rtol=rtol, atol=size[0])
        np.testing.assert_allclose(rows[:, at + 1], slow.factors[label, :, 1], rtol=rtol, atol=size[1])
        np.testing.assert_allclose(rows[:, at + 2], slow.counts[label], rtol=rtol)


# --- the reference --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "shift"), [(0.5, 0.3), (20.0, -30.0), (3.0, 12.0), (0.0, 0.0)])
@pytest.mark.parametrize("rho", [0.01, 0.5, 0.9])
def test_the_posterior_of_a_weight_is_what_integration_gives(precision, shift, rho):
    tau = 2.0

    def slab(w):
        return norm.pdf(w, scale=np.sqrt(tau)) * np.exp(shift * w - precision * w**2 / 2)

    evidence, first, second = (quad(lambda w, k=k: slab(w) * w**k, -12, 12, epsabs=1e-12)[0] for k in (0, 1, 2))
    whole = rho * evidence + 1 - rho  # the spike is where the likelihood factor is 1
    assert reference.log_odds(precision, shift, rho, tau) == pytest.approx(np.log(rho * evidence / (1 - rho)), abs=1e-8)
    mean, variance = reference.moments(np.array(precision), np.array(shift), rho, tau)
    assert mean == pytest.approx(rho * first / whole, abs=1e-8)
    assert variance == pytest.approx(rho * second / whole - (rho * first / whole) ** 2, rel=1e-7)


@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_a_site_times_its_cavity_has_the_moments_of_the_tilted_distribution(y):
    """Of one weight with the other integrated out: a Gaussian score, so that Phi(y x'w) becomes another Phi."""
    x, mean, variance = np.array([0.7, -1.5]), np.array([0.4, 0.2]), np.array([0.8, 1.7])
    precision, shift = reference.site(x, y, mean, variance)
    for j, other in ((0, 1), (1, 0)):

        def tilted(w, j=j, other=other):
            score = x[j] * w + x[other] * mean[other]
            spread = np.sqrt(1 + x[other] ** 2 * variance[other])
            return norm.pdf(w, mean[j], np.sqrt(variance[j])) * ndtr(y * score / spread)

        whole, first, second = (quad(lambda w, k=k: tilted(w) * w**k, -15, 15, epsabs=0)[0] for k in (0, 1, 2))
        matched = 1 / (precision[j] + 1 / variance[j])
        assert matched == pytest.approx(second / whole - (first / whole) ** 2, rel=1e-7)
        assert matched * (shift[j] + mean[j] / variance[j]) == pytest.approx(first / whole, rel=1e-7)


# --- the kernels ----------------------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**32 - 1),
    rho=st.sampled_from([1e-20, 1e-5, 0.1, 0.5, 0.9]),
    tau=st.sampled_from([0.1, 1.0, 30.0, 1000.0]),
    intercept=st.booleans(),
    weighted=st.booleans(),
    selected=st.booleans(),
)
def test_equals_the_reference(seed, rho, tau, intercept, weighted, selected):
    X, y, weights = examples(seed)
    weights = weights if weighted else None
    predictive = "selected" if selected else "full"
    learner = SpikeSlab(WIDTH, inclusion_prior=rho, slab_variance=tau, predictive=predictive, intercept=intercept)
    slow = reference.SpikeSlabReference(WIDTH, rho, tau, max(3.0, tau), intercept)
    learner.learn(Batch.from_csr(X, y, weights))
    slow.learn(X, y, weights)
    same_state(learner, slow)
    np.testing.assert_allclose(learner.inclusion, slow.inclusion, rtol=1e-9, atol=1e-12)
    mean, variance = slow.posterior(np.arange(WIDTH + 1))
    np.testing.assert_allclose(learner.mean, mean[:-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(learner.variance, variance[:-1], rtol=1e-8, atol=1e-29)
    if intercept:
        np.testing.assert_allclose(learner.intercept, (mean[-1], variance[-1]), rtol=1e-9)
    predicted, (mean, variance) = learner.predict(Batch.from_csr(X)), slow.score(X, selected)
    np.testing.assert_allclose(predicted.mean, mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(predicted.variance, variance, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(predicted.probability, reference.probability(mean, variance, selected), atol=1e-9)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    options=st.sampled_from([{}, {"refresh_every": 7}, {"batch_size": 5}]),
    weighted=st.booleans(),
    intercept=st.booleans(),
)
def test_further_passes_equal_the_reference(seed, options, weighted, intercept):
    X, y, weights = examples(seed, spread=0.3)
    weights = weights if weighted else None
    learner = SpikeSlab(WIDTH, intercept=intercept, **options)
    slow = reference.SpikeSlabReference(WIDTH, intercept=intercept, **options)
    for _ in range(3):
        learner.learn(Batch.from_csr(X, y, weights))
        slow.learn(X, y, weights)
        same_state(learner, slow)
        learner.end_pass()
        slow.end_pass()
    np.testing.assert_allclose(learner.inclusion, slow.inclusion, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("options", [{}, {"refresh_every": 7}])
@pytest.mark.parametrize("passes", [1, 3])
def test_float32_stays_near_the_reference(options, passes):
    X, y, _ = examples(4, rows=300, spread=0.3)
    learner, slow = SpikeSlab(WIDTH, dtype="float32", **options), reference.SpikeSlabReference(WIDTH, **options)
    for _ in range(passes):
        learner.learn(Batch.from_csr(X, y))
        slow.learn(X, y)
        learner.end_pass()
        slow.end_pass()
    np.testing.assert_allclose(learner.inclusion, slow.inclusion, atol=1e-3)
    np.testing.assert_allclose(learner.mean, slow.posterior(np.arange(WIDTH + 1))[0][:-1], atol=1e-4)


def test_float32_does_not_drift_where_factors_are_smaller_than_its_last_place():
    """200,000 examples of a feature whose sums are already near 10^7."""
    learners = [SpikeSlab(1, intercept=False, dtype=dtype) for dtype in ("float32", "float64")]
    labels = np.where(np.random.default_rng(0).random(200_000) < ndtr(-2.5), 1.0, -1.0)
    batch = Batch.from_arrays(np.arange(len(labels) + 1), np.zeros(len(labels), int), np.ones(len(labels)), labels)
    before = np.array([0, 0, 0, 0, 1e7, -2.5e7, 1e8, 0])
    for learner in learners:
        learner._state[0] = before
        learner.learn(batch)
    narrow, wide = (learner._state[0].astype(float) for learner in learners)
    assert wide[4] - 1e7 > 5e3  # it has learned something
    np.testing.assert_allclose((narrow - before)[[0, 1, 2, 4, 5, 6]], (wide - before)[[0, 1, 2, 4, 5, 6]], rtol=0.01)


def test_an_integer_weight_is_as_many_copies():
    X, y, _ = examples(7)
    weights = np.random.default_rng(0).integers(1, 5, len(y))
    weighted, copied = SpikeSlab(WIDTH), SpikeSlab(WIDTH)
    weighted.learn(Batch.from_csr(X, y, weights))
    rows = np.repeat(np.arange(len(y)), weights)
    copied.learn(Batch.from_csr(X[rows], y[rows]))
    np.testing.assert_allclose(weighted.mean, copied.mean, rtol=1e-12)
    np.testing.assert_allclose(weighted._state, copied._state, rtol=1e-12)


# --- against the exact posterior ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 5))])
@pytest.mark.parametrize("kind", ["indicators", "gaussian"])
def test_ten_passes_come_within_a_tenth_of_the_exact_inclusion_probabilities(kind, seed):
    rng = np.random.default_rng(seed)
    n, d = 400, 40
    # Denser indicators hang together by their means, stronger weights by their common scale, which no independent
    # Gaussians can say; with those the error reaches .2.
    if kind == "indicators":
        X, (low, high) = (rng.random((n, d)) < 0.05).astype(float), (0.5, 1.5)
    else:
        X, (low, high) = rng.normal(size=(n, d)), (0.2, 0.6)
    w = np.zeros(d)
    w[:8] = rng.choice([-1.0, 1.0], 8) * rng.uniform(low, high, 8)
    y = np.where(rng.random(n) < ndtr(X @ w), 1.0, -1.0)
    exact = reference.gibbs(X, y, 0.2, 1.0, 3.0, 10_000, 500, 0)
    learner = SpikeSlab(d, inclusion_prior=0.2, slab_variance=1.0, intercept_variance=3.0)
    batch = Batch.from_csr(X, y)
    errors = []
    for _ in range(10):
        learner.learn(batch)
        errors.append(np.abs(learner.inclusion - exact).max())
        learner.end_pass()
    assert errors[-1] < 0.1
    assert errors[-1] < errors[0]


# --- what it is for -------------------------------------------------------------------------------------------------


def zipf(seed: int):
    """3,000 indicators that follow Zipf's law, 200 of the 1,000 frequent ones relevant; 15,000 examples."""
    rng = np.random.default_rng(seed)
    X = sparse.csr_array(rng.random((15_000, 3_000)) < np.minimum(0.5, 10 / np.arange(1, 3_001)), dtype=float)
    w = np.zeros(3_000)
    w[rng.choice(1_000, 200, replace=False)] = rng.uniform(0.5, 1.5, 200) * rng.choice([-1.0, 1.0], 200)
    return X, np.where(rng.random(15_000) < ndtr(X @ w), 1.0, -1.0), w != 0


def test_finds_the_relevant_features_of_a_stream_better_than_ftrl():
    X, y, relevant = zipf(0)
    batch = Batch.from_csr(X, y)
    learner = SpikeSlab(3_000, inclusion_prior=0.03)
    learner.learn(batch)
    found = learner.selected
    precision = relevant[found].mean()
    assert precision >= 0.92
    assert relevant[found].sum() / relevant.sum() >= 0.66

    def precision_of_ftrl(alpha: float) -> float:
        """At the same size, by the best l1 for it."""
        low, high = 0.0, 1e3
        for _ in range(12):
            rival = FTRL(3_000, alpha=alpha, l1=(low + high) / 2)
            rival.learn(batch)
            chosen = np.flatnonzero(rival.mean)
            low, high = ((low + high) / 2, high) if len(chosen) > len(found) else (low, (low + high) / 2)
        return relevant[chosen].mean()

    assert precision > max(precision_of_ftrl(alpha) for alpha in (0.03, 0.1, 0.3, 1.0))


def test_fewer_are_selected_the_rarer_they_are_believed_to_be():
    X, y, _ = zipf(1)
    counts = []
    for rho in (0.5, 0.1, 0.01, 1e-3, 1e-5, 1e-10, 1e-20):
        learner = SpikeSlab(3_000, inclusion_prior=rho)
        learner.learn(Batch.from_csr(X, y))
        counts.append(len(learner.selected))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 300
    assert counts[-1] > 0


def test_untouched_features_are_selected_only_where_more_than_half_are_believed_to_matter():
    for rho, selected in ((0.5, 0), (0.500001, 10)):
        learner = SpikeSlab(10, inclusion_prior=rho)
        assert len(learner.selected) == selected
        np.testing.assert_allclose(learner.inclusion, rho)
        np.testing.assert_allclose(learner.variance, rho)


def test_class_weights_restore_the_rate_of_subsampled_negatives():
    """One negative in ten is kept; with weight 10 each the predicted rate is that of the whole stream."""
    rng = np.random.default_rng(0)
    X = (rng.random((40_000, 20)) < 0.2).astype(float)
    y = np.where(rng.random(40_000) < ndtr(X @ np.linspace(-0.5, 0.8, 20) - 2.5), 1.0, -1.0)
    kept = (y > 0) | (rng.random(len(y)) < 0.1)
    weights = np.where(y > 0, 1.0, 10.0)
    weighted, plain = SpikeSlab(20, predictive="full"), SpikeSlab(20, predictive="full")
    weighted.learn(Batch.from_csr(X[kept], y[kept], weights[kept]))
    plain.learn(Batch.from_csr(X[kept], y[kept]))
    rate = np.mean(y > 0)
    assert weighted.predict(Batch.from_csr(X)).probability.mean() == pytest.approx(rate, rel=0.1)
    assert plain.predict(Batch.from_csr(X)).probability.mean() > 3 * rate


HARD = {
    "correlated": lambda rng: np.sqrt(0.6) * rng.normal(size=(500, 1)) + np.sqrt(0.4) * rng.normal(size=(500, 30)),
    "constant": lambda rng: np.column_stack([np.ones((500, 5)), rng.normal(size=(500, 25))]),
    "copies": lambda rng: np.repeat(rng.normal(size=(500, 6)), 5, axis=1),
}


@pytest.mark.parametrize("features", HARD)
@pytest.mark.parametrize("labels", ["of the last", "all positive"])
@pytest.mark.parametrize(("rho", "tau"), [(0.1, 1.0), (0.5, 1000.0), (1e-20, 1000.0), (1e-20, 1.0)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hard_data_neither_diverge_nor_break(features, labels, rho, tau, dtype):
    rng = np.random.default_rng(0)
    X = HARD[features](rng)
    y = np.where(X[:, -1] + 0.1 * rng.normal(size=500) > 0, 1.0, -1.0) if labels == "of the last" else np.ones(500)
    learner = SpikeSlab(30, inclusion_prior=rho, slab_variance=tau, dtype=dtype)
    for _ in range(5):
        learner.learn(Batch.from_csr(X, y))
        assert all(np.isfinite(array).all() for array in learner._arrays().values())
        learner.end_pass()
    assert np.abs(learner.mean).max() < 20 * np.sqrt(tau)
    p = learner.predict(Batch.from_csr(X)).probability
    assert np.isfinite(p).all()
    if features != "copies":  # five copies share the evidence, and none may have enough
        assert np.mean((p > 0.5) == (y > 0)) > 0.9


# --- passes and merging ---------------------------------------------------------------------------------------------


def test_passes_converge_and_say_so():
    X, y, _ = examples(1, rows=300, spread=0.2)
    learner = SpikeSlab(WIDTH)
    ends = []
    for _ in range(15):
        learner.learn(Batch.from_csr(X, y))
        ends.append(learner.end_pass())
    assert not ends[0]
    assert ends[-1]


def test_new_data_after_a_pass_add_evidence_and_old_data_do_not():
    X, y, _ = examples(2, rows=300, spread=0.2)
    again, new = SpikeSlab(WIDTH), SpikeSlab(WIDTH)
    for learner in (again, new):
        learner.learn(Batch.from_csr(X, y))
        learner.end_pass()
    once = again._intercept_state[[0, 4]].sum()
    new.new_stream()
    for learner in (again, new):
        learner.learn(Batch.from_csr(X, y))
    assert again._intercept_state[[0, 4]].sum() == pytest.approx(once, rel=0.2)
    assert new._intercept_state[[0, 4]].sum() > 1.6 * once


@pytest.mark.parametrize("options", [{}, {"refresh_every": 50}, {"batch_size": 3}])
def test_a_run_saved_between_and_inside_passes_goes_on_bit_for_bit(tmp_path, options):
    X, y, _ = examples(3, rows=100)
    batch = Batch.from_csr(X, y)
    straight, halting = SpikeSlab(WIDTH, **options), SpikeSlab(WIDTH, **options)
    for _ in range(3):
        straight.learn(batch)
        for part in (batch[:41], batch[41:]):
            halting.learn(part)
            halting.save(tmp_path / "half.bayou")
            halting = bayou.load(tmp_path / "half.bayou")
        assert straight.end_pass() == halting.end_pass()
    for name, array in straight._arrays().items():
        assert array.tobytes() == halting._arrays()[name].tobytes()


def test_merging_adds_the_factors_of_both():
    X, y, _ = examples(5, rows=200, spread=0.3)
    left, right = SpikeSlab(WIDTH), SpikeSlab(WIDTH)
    left.learn(Batch.from_csr(X[:100], y[:100]))
    right.learn(Batch.from_csr(X[100:], y[100:]))
    merged = left.merge(right)
    np.testing.assert_allclose(merged._state, left._state + right._state)
    with pytest.raises(BadModel, match="base"):
        left.merge(right, base=left)


@pytest.mark.parametrize(
    "parameters",
    [
        {"inclusion_prior": 0.0},
        {"inclusion_prior": 1.0},
        {"inclusion_prior": 1e-31},
        {"slab_variance": 0},
        {"slab_variance": 1e7},
        {"refresh_every": 0},
        {"batch_size": 1.5},
        {"predictive": "best"},
        {"link": "logistic"},
        {"intercept_variance": 1e-9},
    ],
)
def test_bad_parameters_are_refused_by_name(parameters):
    (name,) = parameters
    with pytest.raises(BadInput, match=name):
        SpikeSlab(3, **parameters)
