"""Shrinkage: the corrected algorithm, its limit the lasso, its posterior, its screening, what the paper got wrong."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_svmlight_file
from sklearn.linear_model import Lasso
from sklearn.preprocessing import scale

from bayou import BadInput, Batch
from bayou.learners import Shrinkage
from bayou.learners.shrinkage.equations import FEW
from tests.reference import shrinkage as reference_shrinkage


def dense(seed, rows=60, width=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, width)) * (rng.random((rows, width)) < 0.7) + 0.3
    y = X @ (rng.normal(size=width) * (rng.random(width) < 0.5)) + 7.0 + 0.5 * rng.normal(size=rows)
    return X, y, rng.choice([0.0, 0.4, 1.0, 3.0], rows)


def sparse_model(n, rows, seed=0):
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(rows, n)), np.zeros(n)
    w[rng.choice(n, 10, replace=False)] = 2.0 * rng.normal(size=10)
    return X, X @ w + rng.normal(size=rows)


ARGUMENTS = {
    "default": ({}, {}),
    "column": ({"centring": False}, {"intercept": "column"}),
    "bare": ({"intercept": False}, {"intercept": None}),
    "iterated": ({"iterations": 4, "tolerance": 0.0}, {"iterations": 4}),
    "ramp": ({"ramp": 30, "penalty": 5.0, "floor": 1e-4}, {"ramp": 30, "penalty": 5.0, "floor": 1e-4}),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("ours", "theirs"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_it_equals_the_reference(ours, theirs, seed):
    X, y, weights = dense(seed)
    learner, slow = Shrinkage(6, **{"penalty": 1.0, **ours}), reference_shrinkage.Shrinkage(6, **theirs)
    told = learner.observe(Batch.from_csr(X, y, weights))
    expected = np.array([slow.learn(*row) for row in zip(X, y, weights, strict=True)]).T
    for found, there in zip((told.mean, told.variance, told.noise), expected, strict=True):
        np.testing.assert_allclose(found, there, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(learner.mean, slow.w[:6], rtol=1e-9, atol=1e-10)
    mean, spread = slow.predict(np.zeros(6))
    if learner.parameters["intercept"]:
        np.testing.assert_allclose(learner.intercept, (mean, slow.noise * spread), rtol=1e-8)


def test_predictions_are_those_of_gaussian_conditioning():
    """Weights N(0, s D/a), labels N(x'w, s): condition the joint Gaussian of all labels on those that were seen."""
    X, y, _ = dense(3, rows=25)
    s = 0.7
    learner = Shrinkage(6, intercept=False, noise_variance=s, penalty=2.0)
    learner.learn(Batch.from_csr(X[:20], y[:20]))
    prior = s / 2.0 * np.diag(learner._vectors[2, :6])  # d of the last solution
    seen = X[:20] @ prior @ X[:20].T + s * np.eye(20)
    across = X[20:] @ prior @ X[:20].T
    mean = across @ np.linalg.solve(seen, y[:20])
    variance = np.diag(X[20:] @ prior @ X[20:].T - across @ np.linalg.solve(seen, across.T))
    said = learner.predict(Batch.from_csr(X[20:]))
    np.testing.assert_allclose(said.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(said.variance, variance, rtol=1e-8)
    posterior = prior - prior @ X[:20].T @ np.linalg.solve(seen, X[:20] @ prior)
    np.testing.assert_allclose(learner.variance, np.diag(posterior), rtol=1e-8)


# --- the lasso --------------------------------------------------------------------------------------------------


def lasso_set(name, folder):
    """Standardised columns, each once, and labels."""
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
    elif name == "prostate":
        table = np.genfromtxt(folder / "prostate.csv.gz", delimiter=",", skip_header=1, usecols=range(9))
        X, y = table[:, :8], table[:, 8]
    else:
        X, y = load_svmlight_file(str(folder / f"{name}.reg.svm.gz"), zero_based=False)
        X = X.toarray()
    X = scale(X[:, X.std(axis=0) > 1e-12])
    once = np.unique(np.round(X * np.sign(X[0]), 9), axis=1, return_index=True)[1]
    return X[:, np.sort(once)], scale(y)


SETS = ["diabetes", "prostate", "housing_interactions", "permeability"]
SETS.append(pytest.param("ozone_interactions", marks=pytest.mark.long))


@pytest.mark.parametrize("name", SETS)
def test_settled_weights_are_the_lassos(name, data_directory):
    X, y = lasso_set(name, data_directory)
    n = X.shape[1]
    penalty = 0.1 * np.abs(X.T @ y).max()
    theirs = Lasso(alpha=penalty / len(y), fit_intercept=False, tol=1e-14, max_iter=10**6).fit(X, y).coef_
    learner = Shrinkage(n, penalty=penalty, floor=1e-10, tolerance=1e-13, intercept=False, screening=1e-12)
    learner.learn(Batch.from_csr(X, y))
    learner.iterate_to_convergence()
    np.testing.assert_allclose(learner.mean, theirs, rtol=0, atol=1e-8)
    np.testing.assert_allclose(learner.lasso(), theirs, rtol=0, atol=1e-9)

    def objective(w):
        return np.sum((y - X @ w) ** 2) + 2 * penalty * np.abs(w).sum()

    assert objective(learner.mean) == pytest.approx(objective(theirs), rel=1e-10)
    assert np.count_nonzero(learner.mean) == np.count_nonzero(theirs) < n


def test_centring_is_the_lassos_intercept():
    X, y = load_diabetes(return_X_y=True)
    X = scale(X) + 3.0
    learner = Shrinkage(10, penalty=2000.0)
    learner.learn(Batch.from_csr(X, y))
    theirs = Lasso(alpha=2000.0 / len(y), tol=1e-12, max_iter=10**5).fit(X, y)
    np.testing.assert_allclose(learner.lasso(), theirs.coef_, atol=1e-7)


# --- what the paper leaves open ---------------------------------------------------------------------------------


def test_features_that_come_late_are_learned():
    """As printed, a feature that is 0 in the first example would stay 0 forever."""
    rng = np.random.default_rng(0)
    X = (rng.random((400, 6)) < 0.5).astype(float)
    X[:200, 3:] = 0.0
    w = np.array([1.0, -2.0, 0.0, 3.0, -1.0, 0.0])
    learner = Shrinkage(6, penalty=1.0)
    learner.learn(Batch.from_csr(X, X @ w + 0.1 * rng.normal(size=400)))
    np.testing.assert_allclose(learner.mean, w, atol=0.1)


@pytest.mark.parametrize("first", [([1.0, 2.0, 0.0], 0.0), ([0.0, 0.0, 0.0], 5.0), ([0.0, 0.0, 0.0], 0.0)])
def test_a_first_label_of_zero_or_an_empty_first_row_does_no_harm(first):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    y = X @ [2.0, 0.0, -1.0] + 0.1 * rng.normal(size=300)
    learner = Shrinkage(3, intercept=False)
    learner.learn(Batch.from_csr(np.array([first[0]]), np.array([first[1]])))
    learner.learn(Batch.from_csr(X, y))
    np.testing.assert_allclose(learner.mean, [2.0, 0.0, -1.0], atol=0.05)


def test_the_first_prediction_is_nothing_not_the_sum_of_features():
    assert Shrinkage(3).learn(Batch.from_rows([{0: 1.0, 1: 5.0}], labels=[2.0])).tolist() == [0.0]


def test_a_column_that_is_always_the_same_is_left_to_the_intercept():
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=200), np.full(200, 4.0)])
    learner = Shrinkage(2, penalty=0.1)
    learner.learn(Batch.from_csr(X, 3.0 * X[:, 0] + 10.0))
    assert learner.mean[1] == 0.0
    assert learner.predict(Batch.from_csr(X[:1])).mean[0] == pytest.approx(3.0 * X[0, 0] + 10.0, abs=0.01)


def test_a_penalty_that_is_not_given_is_in_units_of_the_labels():
    X, y, weights = dense(5)
    one, other = Shrinkage(6, floor=1e-9), Shrinkage(6, floor=1e-6)
    small, large = one.learn(Batch.from_csr(X, y, weights)), other.learn(Batch.from_csr(X, 1000.0 * y, weights))
    deviation = np.sqrt(np.cov(y, aweights=weights, ddof=0))
    assert one.penalty_at(200) == pytest.approx(3.0 * deviation)
    np.testing.assert_allclose(large[50:], 1000.0 * small[50:], rtol=5e-3)  # but for where it starts
    assert Shrinkage(6).penalty_at(0) == 1.0


@pytest.mark.parametrize("bounded", [True, False])
def test_more_features_than_rows_do_not_say_what_no_label_ever_was(bounded):
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(40, 30)) * 10.0 ** rng.uniform(-2, 4, 30), rng.normal(size=40)
    learner = Shrinkage(30, penalty=1.0, bounded=bounded)
    said = learner.learn(Batch.from_csr(X, y))[1:]
    low, high = np.minimum.accumulate(y)[:-1], np.maximum.accumulate(y)[:-1]
    assert ((low <= said) & (said <= high)).all() == bounded


def test_the_papers_noise_is_four_times_the_largest_label_squared():
    learner = Shrinkage(2, noise_variance="paper")
    assert learner.noise == 1.0
    learner.learn(Batch.from_rows([{0: 1.0}, {1: 1.0}], labels=[-3.0, 2.0]))
    assert learner.noise == 36.0


# --- screening --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [5.0, 30.0])
@pytest.mark.parametrize("centring", [True, False])
def test_screening_stays_on_the_exact_trajectory(penalty, centring):
    n = 3 * FEW
    X, y = sparse_model(n, 150)
    exact = Shrinkage(n, penalty=penalty, screening=0.0, centring=centring)
    screened = Shrinkage(n, penalty=penalty, centring=centring)
    fewest = n
    for row in range(150):
        batch = Batch.from_csr(X[row : row + 1], y[row : row + 1])
        told, expected = screened.observe(batch), exact.observe(batch)
        assert np.abs(screened.mean - exact.mean).max() < 1e-4
        assert told.noise[0] == pytest.approx(expected.noise[0], rel=0.02)
        fewest = min(fewest, len(screened._factor.exact))
    assert fewest < n / 4  # so there was something to leave out


def test_a_tighter_bound_is_kept():
    n = 3 * FEW
    X, y = sparse_model(n, 80)
    exact = Shrinkage(n, penalty=20.0, screening=0.0)
    exact.learn(Batch.from_csr(X, y))
    off = []
    for bound in (1e-3, 1e-6, 1e-10):
        learner = Shrinkage(n, penalty=20.0, screening=bound)
        learner.learn(Batch.from_csr(X, y))
        off.append(np.abs(learner.mean - exact.mean).max())
    assert off[0] > off[1] > off[2]
    assert off[2] < 1e-8


def test_screened_learning_resumes_and_is_cut_without_a_trace(tmp_path):
    import bayou

    n = 2 * FEW
    X, y = sparse_model(n, 40)
    whole, cut = Shrinkage(n, penalty=10.0), Shrinkage(n, penalty=10.0)
    expected = whole.observe(Batch.from_csr(X, y))
    first = cut.observe(Batch.from_csr(X[:17], y[:17]))
    cut.save(tmp_path / "m.bayou")
    second = bayou.load(tmp_path / "m.bayou").observe(Batch.from_csr(X[17:], y[17:]))
    for name in ("mean", "variance", "noise"):
        both = np.concatenate([getattr(first, name), getattr(second, name)])
        assert both.tobytes() == getattr(expected, name).tobytes()


# --- posterior, sizes, parameters -------------------------------------------------------------------------------


def test_draws_have_the_posteriors_mean_and_correlations():
    X, y, _ = dense(5)
    learner = Shrinkage(6)
    learner.learn(Batch.from_csr(X, y))
    rows = Batch.from_csr(X[:8])
    drawn, said = learner.sample(rows, 20_000, seed=1), learner.predict(rows)
    np.testing.assert_allclose(drawn.mean(axis=0), said.mean, atol=5 * np.sqrt(said.variance.max() / 20_000))
    np.testing.assert_allclose(drawn.var(axis=0), said.variance, rtol=0.05)


def test_intervals_cover():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1500, 8))
    y = X @ [3.0, -2.0, 1.0, 0, 0, 0, 0, 0] - 50.0 + 2.0 * rng.normal(size=1500)
    learner = Shrinkage(8)
    told = learner.observe(Batch.from_csr(X, y))
    inside = np.abs(y - told.mean) <= 1.6449 * np.sqrt(told.variance + told.noise)
    assert 0.88 < inside.mean() < 0.93
    assert learner.noise == pytest.approx(4.0, rel=0.1)


def test_sizes_that_do_not_fit_are_refused_with_the_number():
    with pytest.raises(BadInput, match=r"shrinkage with 100000 features takes 149\.0 GB; it may take 4 GB"):
        Shrinkage(100_000)


@pytest.mark.parametrize(
    ("name", "value"),
    [("penalty", 0.0), ("iterations", 0), ("tolerance", -1.0), ("floor", 0.0), ("noise_variance", "much"),
     ("ramp", -1), ("screening", 0.5), ("centring", 1)],
)  # fmt: skip
def test_bad_parameters_are_refused_by_name(name, value):
    with pytest.raises(BadInput, match=name):
        Shrinkage(3, **{name: value})


def test_a_snapshot_does_not_settle():
    learner = Shrinkage(3)
    assert learner.iterate_to_convergence() == 0  # nothing was seen
    with pytest.raises(BadInput, match="snapshot"):
        learner.snapshot().iterate_to_convergence()
