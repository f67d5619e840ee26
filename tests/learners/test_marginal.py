"""Marginal answers to the reference in every variant, keeps out of the paper's traps, and lasts."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from scipy import integrate, optimize, sparse
from scipy.special import expit, log_ndtr, ndtr

from bayou import BadInput, Batch
from bayou.learners import Marginal
from tests.reference import marginal as reference
from tests.reference.common import LINKS

WIDTH = 12
links = pytest.mark.parametrize("link", ["logistic", "probit"])
mean_updates = pytest.mark.parametrize("mean_update", ["auto", "taylor", "newton"])
variance_updates = pytest.mark.parametrize("variance_update", ["laplace", "peak"])
dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


# --- against the reference --------------------------------------------------------------------------------------


def matrix(rng, rows: int, low: float, high: float, density: float = 0.35) -> sparse.csr_array:
    """Values of sizes 10^low to 10^high; some rows are empty, some have a single feature."""
    X = sparse.random_array((rows, WIDTH), density=density, rng=rng, format="csr")
    X.data = rng.choice([-1.0, 1.0], X.nnz) * 10 ** rng.uniform(low, high, X.nnz)
    single = sparse.random_array((rows // 3, WIDTH), density=1 / WIDTH, rng=rng, format="csr")
    single.data[:] = rng.choice([-1.0, 1.0, 10.0**high], single.nnz)
    stacked = sparse.vstack([X, single]).tocsr()
    return stacked[rng.permutation(stacked.shape[0])]


def compare(learner: Marginal, slow, X, y, weights, tolerance: float) -> None:
    """Learn, predict, and look inside; differences are measured in the priors' standard deviations."""
    p = learner.learn(Batch.from_csr(X, y, weights))
    np.testing.assert_allclose(p, slow.learn(X, y, weights), rtol=tolerance, atol=tolerance * 1e-3)
    sd = np.sqrt(np.broadcast_to(learner.parameters["prior_variance"], WIDTH))
    error = np.abs(learner.mean - slow.mean) / (sd + np.abs(slow.mean))
    assert error.max() <= tolerance
    np.testing.assert_allclose(learner.variance, slow.variance, rtol=tolerance)
    if learner.parameters["intercept"]:
        mean, variance = slow.intercept
        assert abs(learner.intercept[0] - mean) <= tolerance * (
            math.sqrt(learner.parameters["intercept_variance"]) + abs(mean)
        )
        np.testing.assert_allclose(learner.intercept[1], variance, rtol=tolerance)
    else:
        assert learner.intercept == slow.intercept == (0.0, 0.0)
    found, (probability, mean, variance) = learner.predict(Batch.from_csr(X)), slow.predict(X)
    np.testing.assert_allclose(found.probability, probability, rtol=tolerance, atol=tolerance * 1e-3)
    size = np.sqrt(variance) + np.abs(X) @ np.abs(slow.mean) + 1e-300
    assert (np.abs(found.mean - mean) <= tolerance * (size + abs(slow.intercept[0]))).all()
    np.testing.assert_allclose(found.variance, variance, rtol=tolerance)


# What may be combined with any link and update rule.
OPTIONS = {
    "plain": {},
    "bare": {"intercept": False},
    "wide": {"prior_variance": 1e4},
    "narrow": {"prior_variance": 1e-6},
    "off": {"prior_mean": -1.5, "prior_variance": 0.5, "intercept_variance": 0.1},
    "arrays": {"prior_mean": np.linspace(-2, 2, WIDTH), "prior_variance": np.logspace(-3, 3, WIDTH)},
    "tempered": {"temper": (0.3, 0.1)},
    "hot": {"temper": (2.0, 0.0)},
    "memory": {"memory": 0.05},
    "everything": {
        "prior_mean": np.linspace(-1, 1, WIDTH),
        "prior_variance": np.logspace(-2, 2, WIDTH),
        "temper": (0.5, 0.7),
        "memory": 0.2,
        "predictive": "quadrature",
        "intercept_variance": 7.0,
    },
    "quadrature": {"predictive": "quadrature"},
    "scaled": {"scale": "learned", "prior_variance": 0.2},
    "scaled bare": {"scale": "learned", "intercept": False, "temper": (0.3, 0.1), "memory": 0.05},
}


@links
@mean_updates
@variance_updates
@pytest.mark.parametrize(
    ("option", "weighted"),
    [
        pytest.param(
            option, weighted, marks=pytest.mark.long if weighted and option not in ("plain", "everything") else ()
        )
        for option in OPTIONS
        for weighted in (False, True)
    ],
)
def test_every_variant_equals_the_reference(link, mean_update, variance_update, option, weighted):
    arguments = {"link": link, "mean_update": mean_update, "variance_update": variance_update} | OPTIONS[option]
    for seed, (low, high) in enumerate([(-1, 1), (0, 0)]):
        rng = np.random.default_rng(seed)
        X = matrix(rng, 24, low, high)
        y = rng.choice([-1.0, 1.0], X.shape[0])
        weights = 10 ** rng.uniform(-2, 1, X.shape[0]) if weighted else None
        learner = Marginal(WIDTH, dtype="float64", **arguments)
        compare(learner, reference.MarginalReference(WIDTH, **arguments), X, y, weights, 1e-10)


@links
@mean_updates
@variance_updates
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 12))])
def test_extreme_steps_equal_the_reference(link, mean_update, variance_update, seed):
    """Values from 1e-6 to 1e3, weights from 0.01 to 1000, labels that surprise.

    One step after another from beliefs that both share, so that what differs is the step and not what chaos makes
    of a last bit. Where the step itself hangs on the last bits of its input (a shift of 1e8 that cancels a score of
    -1e8, say), nobody can do better than that: references whose inputs are off by 1e-15 show how much it is. The
    same for a feature that is all of the score's variance but a millionth: what the others leave is what rounding does.
    """
    rng = np.random.default_rng(seed)
    prior_variance, prior_mean = 10 ** rng.uniform(-6, 4), rng.uniform(-3, 3)
    weighted, intercept = rng.random(2) < 0.5
    X = matrix(rng, 12, -6, 3, density=0.25)
    arguments = {
        "link": link,
        "mean_update": mean_update,
        "variance_update": variance_update,
        "prior_variance": prior_variance,
        "prior_mean": prior_mean * math.sqrt(prior_variance),
        "intercept": intercept,
    }
    learner = Marginal(WIDTH, dtype="float64", **arguments)
    slow, *nudged = (reference.MarginalReference(WIDTH, **arguments) for _ in range(9))
    for row in range(X.shape[0]):
        one = X[[row]]
        surprising = -1.0 if slow.predict(one)[1][0] > 0 else 1.0
        y = [surprising if rng.random() < 0.7 else -surprising]
        weights = [10 ** rng.uniform(-2, 3)] if weighted else None
        own = np.append(one.toarray(), float(intercept)) ** 2 * slow._variance
        rounded = 2e-16 * own.sum() / (1 + LINKS[link].shrink * (own.sum() - own))
        before = slow._mean.copy()
        p, expected = learner.learn(Batch.from_csr(one, y, weights)), slow.learn(one, y, weights)
        for other in nudged:
            off = one.copy()
            off.data = off.data * (1 + 1e-15 * rng.choice([-1.0, 1.0], off.data.size))
            other.learn(off, y, weights)
        np.testing.assert_allclose(p, expected, rtol=1e-10, atol=1e-100)

        means = np.append(learner.mean, learner.intercept[0])
        variances = np.append(learner.variance, learner.intercept[1] if intercept else slow._variance[-1])
        felt = np.max([np.abs(other._mean - slow._mean) for other in nudged], axis=0)
        allowed = 1e-10 * (np.sqrt(slow._prior) + np.abs(slow._mean)) + 20 * felt
        allowed += 2 * rounded * np.abs(slow._mean - before)
        assert (np.abs(means - slow._mean) <= allowed).all()
        felt = np.max([np.abs(other._variance - slow._variance) for other in nudged], axis=0)
        allowed = (1e-10 + 2 * rounded) * slow._variance + 20 * felt
        assert (np.abs(variances - slow._variance) <= allowed).all()
        # the references take over the kernel's beliefs
        slow._mean, slow._variance = means, variances
        for other in nudged:
            other._mean = means * (1 + 1e-15 * rng.choice([-1.0, 1.0], means.size))
            other._variance = variances.copy()


@links
@mean_updates
@variance_updates
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1), weighted=st.booleans())
def test_float32_stays_near_the_reference(link, mean_update, variance_update, seed, weighted):
    rng = np.random.default_rng(seed)
    X = matrix(rng, 30, -1, 0.5)
    y = rng.choice([-1.0, 1.0], X.shape[0])
    weights = 10 ** rng.uniform(-1, 1, X.shape[0]) if weighted else None
    arguments = {"link": link, "mean_update": mean_update, "variance_update": variance_update}
    learner = Marginal(WIDTH, dtype="float32", **arguments)
    compare(learner, reference.MarginalReference(WIDTH, **arguments), X, y, weights, 1e-4)


@dtypes
@mean_updates
@pytest.mark.parametrize("weight", [1.0 + 1e-6, 16.0, 1e3, 1e6])
def test_a_heavy_row_equals_the_reference(dtype, mean_update, weight):
    """From beliefs of all widths, with more features than a vector holds, towards either label."""
    arguments = {
        "mean_update": mean_update,
        "prior_mean": np.linspace(-3, 3, WIDTH).astype(np.float32),
        "prior_variance": np.logspace(-6, 4, WIDTH).astype(np.float32),
    }
    for label in (-1.0, 1.0):
        X = sparse.csr_array(np.random.default_rng(0).choice([-2.0, 0.5, 1.0], (1, WIDTH)))
        learner = Marginal(WIDTH, dtype=dtype, **arguments)
        slow = reference.MarginalReference(WIDTH, **arguments)
        compare(learner, slow, X, [label], [weight], 1e-5 if dtype == "float32" else 1e-12)


# --- the paper's traps ------------------------------------------------------------------------------------------


def step(mean: float, variance: float, label: int, x: float = 1.0, weight: float = 1.0, **more):
    """One feature, one example: (new mean, new variance)."""
    more = {"dtype": "float64"} | more
    learner = Marginal(1, prior_mean=mean, prior_variance=variance, intercept=False, **more)
    learner.learn(Batch.from_rows([{0: x}], labels=[label], weights=[weight]))
    return float(learner.mean[0]), float(learner.variance[0])


@dtypes
@links
@mean_updates
@pytest.mark.parametrize("sure", [3.0, 6.0, 20.0])
def test_trap_1_peak_never_widens_at_a_surprise(dtype, link, mean_update, sure):
    mean, variance = step(sure, 1.0, -1, variance_update="peak", mean_update=mean_update, link=link, dtype=dtype)
    assert mean < sure
    assert 0 < variance <= 1.0
    if link == "logistic" and mean_update == "newton":
        # (18) as printed widens here: the label had p < 0.09
        p_before = expit(-sure / math.sqrt(1 + math.pi / 8))
        assert p_before < 0.09
        assert p_before / expit(-mean) * math.exp((mean - sure) ** 2 / 2) > 1
        assert variance == 1.0


def test_the_default_is_laplace_and_auto():
    parameters = Marginal(3).parameters
    assert (parameters["variance_update"], parameters["mean_update"]) == ("laplace", "auto")


@pytest.mark.parametrize("tau", [12.0, 14.0, 20.0, 100.0, 1e4, 1e6])
@pytest.mark.parametrize("z0", [-0.5, -4.0, -20.0, -300.0])
@links
def test_trap_2_newton_reaches_the_root_where_the_printed_one_cycles(tau, z0, link):
    mean, _ = step(-z0, tau, -1, mean_update="newton", link=link)
    t = -z0 - mean
    slope = (
        (lambda z: expit(-z))
        if link == "logistic"
        else lambda z: math.exp(-(z * z) / 2 - log_ndtr(z)) / math.sqrt(2 * math.pi)
    )
    assert t > 0
    root = optimize.brentq(lambda t: t - tau * slope(z0 + t), 0, tau * slope(z0), xtol=1e-300, rtol=1e-14)
    assert t == pytest.approx(root, rel=1e-9, abs=abs(z0) * 1e-15)


@dtypes
def test_trap_3_auto_does_not_overshoot_with_one_feature_and_a_wide_prior(dtype):
    prior, variance = 10.0, 100.0  # one standard deviation, and the label says otherwise
    taylor, _ = step(prior, variance, -1, mean_update="taylor", dtype=dtype)
    newton, _ = step(prior, variance, -1, mean_update="newton", dtype=dtype)
    auto, _ = step(prior, variance, -1, dtype=dtype)
    assert (prior - taylor) / 10 > 9  # the trap: nine standard deviations and more
    assert (prior - newton) / 10 < 1.5
    assert auto == newton


@dtypes
def test_auto_is_taylor_where_tau_is_at_most_one_and_newton_above(dtype):
    for variance, other in ((0.99, "taylor"), (1.01, "newton")):
        assert step(0.3, variance, -1, dtype=dtype) == step(0.3, variance, -1, mean_update=other, dtype=dtype)
        wrong = {"taylor": "newton", "newton": "taylor"}[other]
        assert step(0.3, variance, -1, dtype=dtype) != step(0.3, variance, -1, mean_update=wrong, dtype=dtype)


@links
@variance_updates
def test_trap_4_all_features_use_the_old_totals(link, variance_update):
    """So the order of features in a row does not matter, and two alike features stay alike."""
    rng = np.random.default_rng(0)
    features, values = np.arange(WIDTH), rng.normal(size=WIDTH)
    values[1] = values[0]
    learners = []
    for order in (features, features[::-1], rng.permutation(WIDTH)):
        learner = Marginal(WIDTH, link=link, variance_update=variance_update, dtype="float64", prior_variance=2.0)
        for label in (1, -1, -1):
            row = {int(i): values[i] for i in order}
            learner.learn(Batch.from_rows([row], labels=[label]))
        learners.append(learner)
        assert learner.mean[0] == learner.mean[1]
        assert learner.variance[0] == learner.variance[1]
    for other in learners[1:]:
        np.testing.assert_allclose(other.mean, learners[0].mean, rtol=1e-12)
        np.testing.assert_allclose(other.variance, learners[0].variance, rtol=1e-12)


@dtypes
@links
def test_trap_4_an_empty_example_without_intercept_says_half_and_teaches_nothing(dtype, link):
    learner = Marginal(3, intercept=False, dtype=dtype, link=link)
    assert learner.learn(Batch.from_rows([{}], labels=[1])).tolist() == [0.5]
    assert (learner.mean == 0).all()
    assert (learner.variance == 1).all()
    assert learner.intercept == (0.0, 0.0)


@pytest.mark.parametrize("z", [30.0, 60.0, 300.0])
def test_trap_5_a_sure_and_right_prediction_still_moves_by_its_tail(z):
    """1 - S(z) is 0 in float64 from z = 37 on; S(-z) is exp(-z)."""
    learner = Marginal(1, prior_mean=z, prior_variance=0.5, intercept=False, dtype="float64")
    learner.learn(Batch.from_rows([{0: 1.0}], labels=[1]))
    shift, gain = learner._state[0]
    assert shift == pytest.approx(0.5 * math.exp(-z), rel=1e-10)
    assert gain == pytest.approx(math.exp(-z), rel=1e-10)


@pytest.mark.parametrize("z", [-6.0, -9.0, -40.0, -1e4, -1e8])
def test_trap_5_probit_holds_far_out(z):
    """Far left R(z) is nearly -z, and its slope nearly 1: the update is that of a Gaussian observation at 0."""
    variance = 0.25
    learner = Marginal(1, link="probit", prior_mean=z, prior_variance=variance, intercept=False, dtype="float64")
    p = learner.learn(Batch.from_rows([{0: 1.0}], labels=[1]))
    mean, spread = float(learner.mean[0]), float(learner.variance[0])
    assert p[0] == pytest.approx(ndtr(z / math.sqrt(1 + variance)), rel=1e-9)
    assert mean == pytest.approx(z / (1 + variance), rel=2 / z**2 + 1e-12)
    assert spread == pytest.approx(variance / (1 + variance), rel=2 / z**2 + 1e-12)


@pytest.mark.parametrize("variance_update", ["laplace", "peak"])
def test_trap_6_float32_variances_go_on_moving_where_a_stored_variance_stops(variance_update):
    """At a variance of 1e-7 one example takes off 2.5e-8 of it: less than float32 sees. The gain of precision is
    stored instead, from 0, and loses nothing."""
    examples = 1000
    rows = Batch.from_rows([{0: 1.0}] * examples, labels=[1, -1] * (examples // 2))
    moved = {}
    for dtype in ("float32", "float64"):
        learner = Marginal(1, prior_variance=1e-7, intercept=False, dtype=dtype, variance_update=variance_update)
        learner.learn(rows)
        moved[dtype] = float(learner._state[0, 1])
    assert np.float32(1e-7) * np.float32(1 - 2.5e-8) == np.float32(1e-7)
    assert moved["float64"] == pytest.approx(0.25 * examples, rel=0.01)
    assert moved["float32"] == pytest.approx(moved["float64"], rel=1e-3 if variance_update == "laplace" else 0.05)


@links
@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (2.0, 0.5), (6.0, 4.0), (-12.0, 9.0), (-4.0, 100.0)])
def test_trap_7_quadrature_is_the_integral_where_the_closed_form_leans_to_half(link, mean, variance):
    cdf = {"logistic": expit, "probit": ndtr}[link]
    sd = math.sqrt(variance)
    # the score in units of its own spread; the link's bend is at -mean/sd
    exact = integrate.quad(
        lambda u: cdf(mean + sd * u) * math.exp(-u * u / 2) / math.sqrt(2 * math.pi),
        -12,
        12,
        points=[-mean / sd],
        limit=500,
        epsabs=1e-13,
    )[0]
    question = Batch.from_rows([{0: 1.0}])
    p = {
        rule: Marginal(
            1, link=link, prior_mean=mean, prior_variance=variance, intercept=False, dtype="float64", predictive=rule
        )
        .predict(question)
        .probability[0]
        for rule in ("closed", "quadrature")
    }
    assert p["quadrature"] == pytest.approx(exact, rel=1e-4, abs=1e-6)
    if link == "logistic" and abs(mean) > 2 * sd:
        assert abs(p["closed"] - 0.5) < abs(exact - 0.5)
        assert abs(p["closed"] - exact) > 10 * abs(p["quadrature"] - exact)


@links
@pytest.mark.parametrize("weight", [0.01, 0.5, 3.0, 1000.0])
def test_a_weight_multiplies_the_log_likelihood(link, weight):
    """Against a minimiser: the new mean is the mode of prior x likelihood^weight, the precision its curvature."""
    prior, variance, x = 0.8, 2.0, 0.7
    mean, spread = step(prior, variance, -1, x, weight, link=link, mean_update="newton")
    log_cdf = {"logistic": lambda z: -np.logaddexp(0, -z), "probit": log_ndtr}[link]

    def loss(w):
        return (w - prior) ** 2 / (2 * variance) - weight * log_cdf(-x * w)

    h = 1e-3
    slope = (loss(mean + h) - loss(mean - h)) / (2 * h)
    curvature = (loss(mean + h) - 2 * loss(mean) + loss(mean - h)) / h**2
    assert abs(slope) < 1e-5 * max(weight, 1)
    assert 1 / spread == pytest.approx(curvature, rel=1e-3)


@links
def test_peak_takes_the_laplace_rule_for_other_weights(link):
    for weight in (0.5, 2.0, 1000.0):
        peak, laplace = (
            step(0.5, 1.0, -1, weight=weight, link=link, variance_update=rule) for rule in ("peak", "laplace")
        )
        assert peak == pytest.approx(laplace, rel=1e-12)
    assert step(0.5, 1.0, 1, variance_update="peak") != step(0.5, 1.0, 1, variance_update="laplace")


def test_groups_of_features_have_their_own_priors():
    variances = np.array([1.0, 100.0, 1e-4])
    learner = Marginal(3, prior_variance=variances, prior_mean=[0.0, 1.0, 2.0], intercept=False, dtype="float64")
    np.testing.assert_allclose(learner.variance, variances)
    np.testing.assert_allclose(learner.mean, [0, 1, 2])
    learner.learn(Batch.from_rows([{0: 1.0, 1: 1.0, 2: 1.0}], labels=[-1]))
    moved = np.abs(learner.mean - [0, 1, 2])
    assert moved[1] > moved[0] > moved[2] > 0


# --- memory and temper ------------------------------------------------------------------------------------------


def test_memory_never_widens_beyond_the_prior_and_forgets_old_evidence():
    rows = Batch.from_rows([{0: 1.0}] * 3000, labels=[1, -1] * 1500)
    kept, faded = Marginal(2, dtype="float64"), Marginal(2, memory=0.1, dtype="float64")
    for learner in (kept, faded):
        learner.learn(rows)
    assert kept.variance[0] < 0.01 < faded.variance[0] < 1.0
    assert faded.variance[1] == 1.0
    much = Marginal(1, memory=1e6, dtype="float64")
    much.learn(rows)
    assert 0.5 < much.variance[0] <= 1.0


def test_predicting_widens_as_learning_would_but_keeps_nothing():
    learner = Marginal(1, memory=0.01, intercept=False, dtype="float64")
    learner.learn(Batch.from_rows([{0: 1.0}] * 50, labels=[1] * 50))
    stored = learner.variance[0]
    predicted = learner.predict(Batch.from_rows([{0: 1.0}] * 3)).variance
    np.testing.assert_allclose(predicted, stored * 1.01)
    assert learner.variance[0] == stored


# --- long streams -----------------------------------------------------------------------------------------------

MANY = 20_000_000
PIECE = 100_000


def long_run(learners: list[Marginal], row: dict[int, float], rate: float, examples: int = MANY) -> None:
    """Examples of one row, positive at the given rate, some at a time."""
    rng = np.random.default_rng(0)
    rows = Batch.from_arrays(
        np.arange(PIECE + 1) * len(row),
        np.tile(np.array(list(row), np.uint32), PIECE),
        np.tile(np.array(list(row.values()), np.float64), PIECE),
    )
    for _ in range(examples // PIECE):
        batch = rows.with_labels((rng.random(PIECE) < rate).astype(float))
        for learner in learners:
            learner.learn(batch)


@pytest.mark.parametrize("examples", [MANY // 4, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("shift", "gain", "rate"),
    [
        (0.0, 1e9 * 0.25, 0.1),  # half were clicks, then one in ten
        (math.log(0.02 / 0.98), 1e9 * 0.02 * 0.98, 0.05),  # one in fifty, then one in twenty
    ],
)
def test_an_intercept_that_has_seen_a_billion_examples_follows_a_shift_in_float32(shift, gain, rate, examples):
    learners = [Marginal(1, dtype=dtype) for dtype in ("float32", "float64")]
    for learner in learners:
        learner._arrays()["intercept"][...] = shift, gain  # as after 1e9 examples
    long_run(learners, {}, rate, examples)
    (mean32, variance32), (mean64, variance64) = (learner.intercept for learner in learners)
    sd = math.sqrt(variance64)
    print(f"moved {(mean64 - shift) / sd:.1f} sd; float32 off by {(mean32 - mean64) / sd:.5f} sd")
    assert abs(mean64 - shift) > 10 * sd
    assert abs(mean32 - mean64) < 0.1 * sd
    assert variance32 == pytest.approx(variance64, rel=1e-3)


@pytest.mark.long
def test_a_certain_prior_for_the_intercept_does_the_same():
    learners = [Marginal(1, dtype=dtype, intercept_variance=4e-9) for dtype in ("float32", "float64")]
    long_run(learners, {}, 0.2)
    (mean32, variance32), (mean64, variance64) = (learner.intercept for learner in learners)
    assert abs(mean32 - mean64) < 0.1 * math.sqrt(variance64)
    assert variance32 == pytest.approx(variance64, rel=1e-3)
    assert variance64 < 4e-9 * 0.999


@pytest.mark.long
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.003])
def test_a_feature_of_every_row_in_float32_stays_near_float64(rate):
    """Rounded to nearest it would be hundreds of sd away: by now a step is smaller than the mean's last place."""
    learners = [Marginal(1, dtype=dtype, intercept=False) for dtype in ("float32", "float64")]
    long_run(learners, {0: 1.0}, rate, MANY)
    near(*learners, rate)


@njit
def rounded_to_nearest(positive, state):
    """The rule for one feature of value 1 and nothing else, its state rounded to float32 after each example."""
    for row in range(positive.size):
        mean, gain = np.float64(state[0]), np.float64(state[1])
        y = 1.0 if positive[row] else -1.0
        tau = 1.0 / (1.0 + gain)
        q = 1.0 / (1.0 + math.exp(y * mean))
        t = tau * q / (1.0 + tau * q * (1.0 - q))
        q = 1.0 / (1.0 + math.exp(y * mean + t))
        state[0] = np.float32(mean + y * t)
        state[1] = np.float32(gain + q * (1.0 - q))


def test_rounding_to_nearest_would_lose_the_frequent_labels_small_steps():
    """What the kernels' rounding on average is for."""
    rate = 0.1
    state, rng = np.zeros(2, np.float32), np.random.default_rng(0)
    for _ in range(MANY // PIECE):
        rounded_to_nearest(rng.random(PIECE) < rate, state)
    sd = 1.0 / math.sqrt(1.0 + state[1])
    assert abs(state[0] - math.log(rate / (1 - rate))) > 100 * sd


@pytest.mark.parametrize(
    ("variant", "examples"),
    [
        ({"variance_update": "peak"}, MANY // 10),
        ({"mean_update": "newton"}, MANY // 20),
        pytest.param({"mean_update": "newton"}, MANY // 4, marks=pytest.mark.long),
    ],
)
def test_so_do_the_other_kernels_and_steps(variant, examples):
    learners = [Marginal(1, dtype=dtype, intercept=False, **variant) for dtype in ("float32", "float64")]
    long_run(learners, {0: 1.0}, 0.1, examples)
    near(*learners, 0.1)


def near(learner32, learner64, rate):
    mean32, mean64 = (float(learner.mean[0]) for learner in (learner32, learner64))
    variance32, variance64 = (float(learner.variance[0]) for learner in (learner32, learner64))
    sd = math.sqrt(variance64)
    assert abs(mean64 - math.log(rate / (1 - rate))) < 5 * sd
    assert abs(mean32 - mean64) < 0.1 * sd
    assert variance32 == pytest.approx(variance64, rel=1e-3)


# --- parameters -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"link": "cauchit"},
        {"mean_update": "bold"},
        {"variance_update": "none"},
        {"predictive": "exact"},
        {"prior_variance": 0.0},
        {"prior_variance": -1.0},
        {"prior_variance": np.inf},
        {"prior_variance": [1.0, 1.0]},
        {"prior_variance": [1.0, 0.0, 1.0]},
        {"prior_variance": np.ones((3, 1))},
        {"prior_variance": "wide"},
        {"prior_mean": np.nan},
        {"prior_mean": [0.0, np.inf, 0.0]},
        {"prior_mean": None},
        {"temper": 1.0},
        {"temper": (1.0,)},
        {"temper": (1.0, -1.0)},
        {"temper": (np.nan, 1.0)},
        {"memory": -0.1},
        {"memory": np.inf},
        {"intercept_variance": 0.0},
        {"intercept_variance": "wide"},
    ],
    ids=str,
)
def test_bad_parameters_are_refused_by_name(parameters):
    (name,) = parameters
    with pytest.raises(BadInput, match=name):
        Marginal(3, **parameters)


def test_a_prior_that_float32_cannot_hold_is_refused_with_the_way_out():
    with pytest.raises(BadInput, match="float64"):
        Marginal(3, prior_variance=1e-60)
    assert Marginal(3, prior_variance=1e-60, dtype="float64").variance[0] == pytest.approx(1e-60)


def test_the_intercepts_prior_is_at_least_three_and_at_least_the_widest_feature():
    assert Marginal(2).intercept == pytest.approx((0.0, 3.0))
    assert Marginal(2, prior_variance=[1.0, 50.0]).intercept == pytest.approx((0.0, 50.0))
    assert Marginal(2, intercept_variance=0.2, prior_variance=9.0).intercept == pytest.approx((0.0, 0.2))


# --- the learned scale ------------------------------------------------------------------------------------------


def stream(rows: int, seed: int) -> tuple[Batch, np.ndarray]:
    """Rows of 20 of 200 features, and their true weights, of variance 1."""
    rng = np.random.default_rng(seed)
    truth, X = rng.normal(size=200), sparse.csr_matrix((rng.random((rows, 200)) < 0.1) * 1.0)
    return Batch.from_csr(X, np.where(rng.random(rows) < expit(X @ truth), 1, -1)), truth


@dtypes
def test_a_learned_scale_repairs_a_prior_that_is_too_narrow(dtype):
    inside = {}
    for scale in ("fixed", "learned"):
        learner = Marginal(200, prior_variance=0.25, intercept=False, scale=scale, dtype=dtype)
        batch, truth = stream(30_000, seed=1)
        learner.learn(batch)
        inside[scale] = np.mean(np.abs(learner.mean - truth) <= 1.645 * np.sqrt(learner.variance))
    assert inside["fixed"] < 0.4
    assert 0.8 < inside["learned"] < 0.97


def test_the_scale_is_stored_with_the_model_and_only_if_it_is_learned():
    batch, _ = stream(3000, seed=2)
    half = np.arange(3000) < 1500
    whole, first, plain = Marginal(200, scale="learned"), Marginal(200, scale="learned"), Marginal(200)
    for learner in (whole, plain):
        learner.learn(batch)
    first.learn(batch.take(np.flatnonzero(half)))
    assert first.will_change_other_features(1500)  # the weights are folded at 2048
    assert not first.will_change_other_features(500)
    again = pickle.loads(pickle.dumps(first))
    again.learn(batch.take(np.flatnonzero(~half)))
    assert again.to_bytes() == whole.to_bytes()
    assert whole._scale_state[0, 0] != 0 != whole._scale_state[0, 2]
    assert "scale" not in plain.parameters
    assert "scale" not in plain._arrays()
    assert b"scale" not in plain.to_bytes()
    assert Marginal(200, scale="fixed").to_bytes() == Marginal(200).to_bytes()


def test_weights_of_a_learned_scale_do_not_add_up_and_need_a_prior_around_0():
    batch, _ = stream(100, seed=3)
    learners = [Marginal(200, scale="learned") for _ in range(2)]
    for learner in learners:
        learner.learn(batch)
    with pytest.raises(BadInput, match="cannot be combined"):
        learners[0].merge(learners[1])
    with pytest.raises(BadInput, match="cannot be combined"):
        _ = learners[0].sharding
    with pytest.raises(BadInput, match="needs prior_mean=0"):
        Marginal(3, scale="learned", prior_mean=[0.0, 1.0, 0.0])
    with pytest.raises(BadInput, match="scale is 'learnt'"):
        Marginal(3, scale="learnt")
