"""Joint answers to the reference with either covariance, keeps its factor sound, and shows what it claims."""

import copy
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit, logit

import bayou
from bayou import BadInput, BadModel, Batch, evaluate, simulate
from bayou.learners import Marginal
from bayou.learners.joint.learner import MOST_BYTES, Joint
from bayou.learners.joint.peak import newton_peak, taylor_peak
from tests.reference.joint import JointReference, joint_peak, joint_taylor

WIDTH = 12
mean_updates = pytest.mark.parametrize("mean_update", ["newton", "taylor"])
covariances = pytest.mark.parametrize("covariance", ["diagonal", "full"])


def matrix(rng, rows: int, low: float, high: float, density: float = 0.35) -> sparse.csr_array:
    """Values of sizes 10^low to 10^high; some rows are empty, some have a single feature, some all."""
    X = sparse.random_array((rows, WIDTH), density=density, rng=rng, format="csr")
    whole = sparse.csr_array(np.ones((rows // 4, WIDTH)))
    single = sparse.random_array((rows // 4, WIDTH), density=1 / WIDTH, rng=rng, format="csr")
    stacked = sparse.vstack([X, whole, single]).tocsr()
    stacked.data = rng.choice([-1.0, 1.0], stacked.nnz) * 10 ** rng.uniform(low, high, stacked.nnz)
    return stacked[rng.permutation(stacked.shape[0])]


def compare(learner: Joint, slow: JointReference, X, y, weights, tolerance: float) -> None:
    """Learn, predict, and look inside; differences are measured in the priors' standard deviations."""
    p = learner.learn(Batch.from_csr(X, y, weights))
    np.testing.assert_allclose(p, slow.learn(X, y, weights), rtol=tolerance, atol=tolerance)
    sd = np.sqrt(np.broadcast_to(learner.parameters["prior_variance"], WIDTH))
    assert (np.abs(learner.mean - slow.mean) <= tolerance * (sd + np.abs(slow.mean))).all()
    np.testing.assert_allclose(learner.variance, slow.variance, rtol=tolerance)
    np.testing.assert_allclose(learner.intercept, slow.intercept, rtol=tolerance, atol=tolerance)
    if slow.full:
        size = np.sqrt(np.diag(slow.covariance))
        np.testing.assert_allclose(
            learner.covariance_matrix() / np.outer(size, size), slow.covariance / np.outer(size, size), atol=tolerance
        )
    found, (probability, mean, variance) = learner.predict(Batch.from_csr(X)), slow.predict(X)
    np.testing.assert_allclose(found.probability, probability, rtol=tolerance, atol=tolerance)
    assert (np.abs(found.mean - mean) <= tolerance * (1.0 + np.sqrt(variance) + np.abs(X) @ np.abs(slow.mean))).all()
    np.testing.assert_allclose(found.variance, variance, rtol=tolerance)


# --- against the reference --------------------------------------------------------------------------------------

OPTIONS = {
    "plain": {},
    "bare": {"intercept": False},
    "wide": {"prior_variance": 30.0},
    "narrow": {"prior_variance": 1e-6},
    "off": {"prior_mean": -1.5, "prior_variance": 0.5, "intercept_variance": 0.1},
    "arrays": {"prior_mean": np.linspace(-2, 2, WIDTH), "prior_variance": np.logspace(-2, 2, WIDTH)},
}


@covariances
@mean_updates
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_every_variant_equals_the_reference(covariance, mean_update, option, weighted):
    arguments = {"covariance": covariance, "mean_update": mean_update} | OPTIONS[option]
    for seed, (low, high) in enumerate([(-1, 0.5), (0, 0)]):
        rng = np.random.default_rng(seed)
        X = matrix(rng, 24, low, high)
        y = rng.choice([-1.0, 1.0], X.shape[0])
        weights = 10 ** rng.uniform(-2, 0.5, X.shape[0]) if weighted else None
        compare(Joint(WIDTH, dtype="float64", **arguments), JointReference(WIDTH, **arguments), X, y, weights, 1e-9)


@mean_updates
@pytest.mark.parametrize("batch_size", [2, 5, 60])
@pytest.mark.parametrize("option", ["plain", "bare", "off", "arrays"])
def test_mini_batches_equal_the_reference(mean_update, batch_size, option):
    arguments = {"covariance": "full", "mean_update": mean_update, "batch_size": batch_size} | OPTIONS[option]
    rng = np.random.default_rng(batch_size)
    X = matrix(rng, 30, -1, 0.3)
    y = rng.choice([-1.0, 1.0], X.shape[0])
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], X.shape[0])
    learner, slow = Joint(WIDTH, **arguments), JointReference(WIDTH, **arguments)
    compare(learner, slow, X, y, weights, 1e-9)
    learner.end_pass()
    slow.finish()
    compare(learner, slow, X[:1], y[:1], np.zeros(1), 1e-9)


@settings(max_examples=200)
@given(a0=st.floats(-300, 300), tau=st.floats(-12, 12).map(lambda e: 10**e))
def test_the_peak_is_the_references(a0, tau):
    a = joint_peak(a0, tau)
    q, r = newton_peak(a0, tau)
    # The reference knows a to a last place or two of a0, and q changes by as much, relatively.
    rough = 1e-10 + 1e-14 * abs(a0)
    assert q == pytest.approx(expit(-a), rel=rough)
    assert r == pytest.approx(expit(a) * expit(-a), rel=rough)
    pull, r = taylor_peak(a0, tau)
    a = joint_taylor(a0, tau)
    assert a0 + tau * pull == pytest.approx(a, rel=1e-12, abs=1e-12)
    assert r == pytest.approx(expit(a) * expit(-a), rel=1e-10 + 1e-13 * abs(a), abs=1e-300)


@pytest.mark.parametrize("a0", [-1e75, -1e15, -700.0, 0.0, 1e15])
@pytest.mark.parametrize("tau", [0.0, 1e-300, 3.0, 1e10, 1e30, 1e150])
def test_the_peak_at_the_ends_of_the_scale(a0, tau):
    q, r = newton_peak(a0, tau)
    assert 0.0 <= q <= 1.0
    assert 0.0 <= r <= 0.25
    if tau > 1.0 and a0 <= 0.0:  # solved for a from q: a - a0 = tau q
        expected = joint_peak(a0, tau) if a0 > -1e9 else math.nan
        assert math.isnan(expected) or q == pytest.approx(expit(-expected), rel=1e-9)
        assert tau * q <= max(-a0, 0.0) * (1 + 1e-12) + max(math.log(tau), 1.0) + 5.0


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), prior_variance=st.floats(-3, 3).map(lambda e: 10**e), intercept=st.booleans())
@mean_updates
def test_extreme_single_steps_equal_the_reference(seed, prior_variance, intercept, mean_update):
    """Values from 1e-6 to 1e3, weights from 0.01 to 1000: each row from the prior, so that only the step can differ."""
    rng = np.random.default_rng(seed)
    X = matrix(rng, 8, -6, 3)
    y = rng.choice([-1.0, 1.0], X.shape[0])
    weights = 10 ** rng.uniform(-2, 3, X.shape[0])
    arguments = {"prior_variance": prior_variance, "prior_mean": rng.normal(), "intercept": intercept}
    arguments["mean_update"] = mean_update
    for row in range(X.shape[0]):
        learner, slow = Joint(WIDTH, dtype="float64", **arguments), JointReference(WIDTH, **arguments)
        learner.learn(Batch.from_csr(X[[row]], y[[row]], weights[[row]]))
        slow.learn(X[[row]], y[[row]], weights[[row]])
        size = math.sqrt(prior_variance) + np.abs(slow.mean)
        # A label's score of -1e6 is known to 1e-10, and S(-a) no better.
        assert (np.abs(learner.mean - slow.mean) <= 1e-9 * size * (1 + np.abs(X[[row]]).sum() * 1e-3)).all()
        np.testing.assert_allclose(learner.variance, slow.variance, rtol=1e-8)


@covariances
def test_float32_stays_near_float64(covariance):
    rng = np.random.default_rng(4)
    X = matrix(rng, 40, -0.5, 0.5)
    batch = Batch.from_csr(X, rng.choice([-1.0, 1.0], X.shape[0]))
    narrow, wide = (Joint(WIDTH, covariance=covariance, dtype=dtype) for dtype in ("float32", "float64"))
    np.testing.assert_allclose(narrow.learn(batch), wide.learn(batch), atol=1e-4)
    np.testing.assert_allclose(narrow.mean, wide.mean, atol=1e-4)
    np.testing.assert_allclose(narrow.variance, wide.variance, rtol=1e-4)


def test_a_sparse_row_of_a_full_covariance_is_the_same_row_written_densely():
    """One is multiplied entry by entry, the other eight at a time: the rows only differ in features of a tiny value."""
    width = 40
    rng = np.random.default_rng(5)
    learner = Joint(width, covariance="full")
    learner.learn(Batch.from_csr(rng.normal(size=(50, width)), rng.choice([-1.0, 1.0], 50)))
    sparsely = {3: 1.5, 17: -0.3, 38: 2.0}
    densely = dict.fromkeys(range(width), 1e-30) | sparsely
    predicted = learner.predict(Batch.from_rows([sparsely, densely]))
    np.testing.assert_allclose(predicted.mean[0], predicted.mean[1], rtol=1e-12)
    np.testing.assert_allclose(predicted.variance[0], predicted.variance[1], rtol=1e-12)


# --- traps ------------------------------------------------------------------------------------------------------


def test_taylor_overshoots_with_a_wide_prior_and_newton_does_not():
    """The numbers of the module's docstring: 20 features of variance 100, believed at -1/2, and a positive label."""
    row, scores = Batch.from_rows([dict.fromkeys(range(20), 1.0)], labels=[1]), {}
    for mean_update in ("newton", "taylor"):
        learner = Joint(20, mean_update=mean_update, prior_mean=-0.5, prior_variance=100.0, intercept=False)
        learner.learn(row)
        scores[mean_update] = learner.predict(row).mean[0]
    assert scores["newton"] == pytest.approx(4.9, abs=0.05)
    assert scores["taylor"] == pytest.approx(1823, abs=1)


def test_the_factor_stays_positive_where_subtracting_from_the_covariance_does_not():
    """Nearly equal rows with a wide prior: (46) as printed loses a variance that is a difference of large numbers."""
    rng = np.random.default_rng(6)
    rows = 1e4 * (1.0 + 1e-3 * rng.normal(size=(60, 6)))
    y = rng.choice([-1.0, 1.0], 60)
    arguments = {"covariance": "full", "mean_update": "taylor", "prior_variance": 1e9, "intercept": False}
    learner, slow = Joint(6, **arguments), JointReference(6, **arguments)
    learner.learn(Batch.from_csr(rows, y))
    slow.learn(sparse.csr_array(rows), y)
    assert np.linalg.eigvalsh(slow.covariance).min() < 0
    assert np.linalg.eigvalsh(learner.covariance_matrix()).min() > 0
    assert (learner.predict(Batch.from_csr(rows)).variance > 0).all()


@mean_updates
def test_mini_batches_are_counted_by_examples_and_saved(mean_update, tmp_path):
    rng = np.random.default_rng(7)
    batch = Batch.from_csr(rng.normal(size=(23, WIDTH)), rng.choice([-1.0, 1.0], 23))
    arguments = {"covariance": "full", "mean_update": mean_update, "batch_size": 8}
    whole, cut = Joint(WIDTH, **arguments), Joint(WIDTH, **arguments)
    expected = whole.learn(batch)
    answered = [cut.learn(batch[:5])]
    before = cut.mean
    assert (before == 0).all()  # nothing of an unfinished mini-batch is used
    cut.save(tmp_path / "inside.bayou")
    cut = bayou.load(tmp_path / "inside.bayou")
    answered += [cut.learn(batch[5:7]), cut.learn(batch[7:8])]
    assert (cut.mean != 0).all()
    answered.append(cut.learn(batch[8:]))
    assert np.concatenate(answered).tobytes() == expected.tobytes()
    assert cut.covariance_matrix().tobytes() == whole.covariance_matrix().tobytes()
    whole.end_pass()
    assert not np.array_equal(whole.mean, cut.mean)
    finished = whole.mean
    whole.end_pass()  # nothing waits any more
    assert whole.mean.tobytes() == finished.tobytes()
    with pytest.raises(BadInput, match="snapshot"):
        whole.snapshot().end_pass()


def test_wrong_arguments_are_refused_with_a_sentence():
    with pytest.raises(BadInput, match="batch_size is 3; only covariance"):
        Joint(5, batch_size=3)
    with pytest.raises(BadInput, match="batch_size is 0"):
        Joint(5, covariance="full", batch_size=0)
    with pytest.raises(BadInput, match=r"full covariance of 30000 features takes 6\.7 GB; it may take 4 GB"):
        Joint(30_000, covariance="full")
    with pytest.raises(BadInput, match="covariance is 'banded'"):
        Joint(5, covariance="banded")
    with pytest.raises(BadInput, match="mean_update is 'auto'"):
        Joint(5, mean_update="auto")
    assert Joint(23_000, covariance="full").nbytes <= MOST_BYTES  # its pages are not touched


# --- what full covariance is for --------------------------------------------------------------------------------


def learned(seed: int = 8, **arguments) -> Joint:
    rng = np.random.default_rng(seed)
    learner = Joint(6, covariance="full", **arguments)
    learner.learn(Batch.from_csr(rng.normal(size=(40, 6)), rng.choice([-1.0, 1.0], 40)))
    return learner


@pytest.mark.parametrize("intercept", [True, False])
def test_draws_have_the_full_posteriors_mean_and_covariance(intercept):
    learner, n = learned(intercept=intercept), 20_000
    rows = Batch.from_csr(0.3 * np.random.default_rng(9).normal(size=(5, 6)))
    X = np.column_stack([rows.to_csr(6).toarray(), np.ones(5)])[:, : 6 + intercept]
    drawn = logit(learner.sample(rows, n, seed=1))
    predicted, covariance = learner.predict(rows), X @ learner.covariance_matrix() @ X.T
    np.testing.assert_allclose(np.diag(covariance), predicted.variance, rtol=1e-10)
    assert (np.abs(drawn.mean(axis=0) - predicted.mean) < 4.5 * np.sqrt(predicted.variance / n)).all()
    scale = np.sqrt(np.outer(predicted.variance, predicted.variance))
    assert (np.abs(np.cov(drawn.T) - covariance) < 4.5 * math.sqrt(2 / n) * scale).all()


def test_what_never_met_is_not_correlated_and_what_met_is():
    learner = Joint(4, covariance="full", intercept=False)
    learner.learn(Batch.from_rows([{0: 1.0, 1: 1.0}, {2: 1.0}], labels=[1, -1]))
    covariance = learner.covariance_matrix()
    assert covariance[0, 1] < 0
    assert (covariance[2, [0, 1, 3]] == 0).all()
    before = learner.mean
    learner.learn(Batch.from_rows([{0: 1.0}], labels=[1]))
    assert learner.mean[0] > before[0]
    assert learner.mean[1] < before[1]  # more of the praise goes to the first
    assert learner.mean[2:].tobytes() == before[2:].tobytes()
    assert learner.touched.tolist() == [0, 1, 2]


def test_merging_adds_precision_matrices():
    base = learned(1)
    heirs = [copy.deepcopy(base), copy.deepcopy(base)]
    for seed, heir in enumerate(heirs):
        rng = np.random.default_rng(20 + seed)
        heir.learn(Batch.from_csr(rng.normal(size=(30, 6)), rng.choice([-1.0, 1.0], 30)))
    merged = heirs[0].merge(heirs[1], base=base)
    precisions = [np.linalg.inv(m.covariance_matrix()) for m in (*heirs, base)]
    whole = precisions[0] + precisions[1] - precisions[2]
    np.testing.assert_allclose(np.linalg.inv(merged.covariance_matrix()), whole, rtol=1e-8, atol=1e-8)
    means = [np.append(m.mean, m.intercept[0]) for m in (*heirs, base)]
    moved = sum(s * p @ m for s, p, m in zip((1, 1, -1), precisions, means, strict=True))
    np.testing.assert_allclose(np.append(merged.mean, merged.intercept[0]), np.linalg.solve(whole, moved), atol=1e-9)


def test_what_waits_is_learned_before_a_merge_and_a_base_must_be_finished():
    a, b = learned(1, batch_size=7), learned(2, batch_size=7)
    finished = [copy.deepcopy(a), copy.deepcopy(b)]
    for learner in finished:
        learner.end_pass()
    assert not np.array_equal(a.mean, finished[0].mean)
    merged, expected = a.merge(b), finished[0].merge(finished[1])
    assert merged.mean.tobytes() == expected.mean.tobytes()
    assert merged.covariance_matrix().tobytes() == expected.covariance_matrix().tobytes()
    heirs = [copy.deepcopy(a), copy.deepcopy(a)]
    with pytest.raises(BadModel, match="inside a mini-batch"):
        heirs[0].merge(heirs[1], base=a)


# --- regret -----------------------------------------------------------------------------------------------------


def test_on_a_dense_stream_full_covariance_beats_marginal_and_diagonal():
    """20 of 50 features active: co-occurrences repeat, and only a full covariance remembers them. It is not always so:
    with 40 of 200 and 30,000 examples Marginal is a little better.
    """
    stream = simulate.random(n_features=50, active=0.4, seed=0)
    regret = [
        evaluate.progressive(learner, stream.batches(50_000), truth=stream.weights).normalized_regret
        for learner in (
            Joint(50, covariance="full", intercept=False),
            Marginal(50, intercept=False),
            Joint(50, prior_variance=8.0, intercept=False),
        )
    ]
    assert regret[0] < min(regret[1:])
