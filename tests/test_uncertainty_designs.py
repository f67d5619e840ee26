"""The benchmark of intervals: its designs, the batch posterior that learners are compared with, and its measures."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit

from bayou.learners import Joint
from tests.reference.number_bank import Columns

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def designs(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import uncertainty_designs

    return uncertainty_designs


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import uncertainty_peers

    return uncertainty_peers


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import uncertainty

    return uncertainty


def one_hot_design(designs, seed=0, rows=400):
    """Two columns of three and four values, and one of real numbers."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(3, size=rows), rng.integers(4, size=rows)
    X = np.zeros((rows, 8))
    X[np.arange(rows), first] = X[np.arange(rows), 3 + second] = 1.0
    X[:, 7] = rng.normal(2.0, 0.5, rows)
    columns = np.array([1, 1, 1, 2, 2, 2, 2, 0], np.uint8)
    return designs.Design(sparse.csr_matrix(X), rng.normal(0, 1, 8), -0.5, columns, columns)


def test_the_batch_posterior_has_the_peak_and_the_curvature_of_the_posterior_density(designs, peers):
    problem = designs.draw_problem(one_hot_design(designs), 500, seed=1)
    posterior, variance = peers.batch_posterior(problem)
    precision = np.append(peers.prior_units(problem.X) / variance, peers.INTERCEPT_PRECISION)
    Z = np.c_[problem.X.toarray(), np.ones(500)]

    def loss(w):
        return np.logaddexp(0.0, -problem.y * (Z @ w)).sum() + 0.5 * precision @ w**2

    def slope(w):
        return -Z.T @ (problem.y * expit(-problem.y * (Z @ w))) + precision * w

    peak = minimize(loss, np.zeros(9), jac=slope, method="BFGS", options={"gtol": 1e-9}).x
    covariance = np.linalg.inv(approx_fprime(peak, slope))
    np.testing.assert_allclose(posterior.mean, peak[:8], atol=1e-5)
    np.testing.assert_allclose(posterior.variance, np.diag(covariance)[:8], rtol=1e-4)
    np.testing.assert_allclose(posterior.covariance(np.array([0, 5])), covariance[np.ix_([0, 5], [0, 5])], rtol=1e-3)
    later = np.c_[problem.later.toarray(), np.ones(designs.LATER_ROWS)]
    np.testing.assert_allclose(posterior.later[0], later @ peak, atol=1e-4)
    np.testing.assert_allclose(posterior.later[1], np.einsum("ij,jk,ik->i", later, covariance, later), rtol=1e-3)


def test_the_prior_variance_of_the_batch_posterior_is_where_mackays_rule_stands_still(designs, peers):
    problem = designs.draw_problem(one_hot_design(designs), 5000, seed=2)
    posterior, variance = peers.batch_posterior(problem)
    units, first = peers.prior_units(problem.X), peers.PRIOR_SCORE_VARIANCE / 3
    known = 1 - np.diag(posterior.covariance(np.arange(8))) * units / variance
    again = (peers.PSEUDO_COUNT * first + units @ posterior.mean**2) / (peers.PSEUDO_COUNT + known.sum())
    assert variance == pytest.approx(again, rel=peers.TOLERANCE)


def test_rows_that_come_again_are_counted_and_not_repeated(designs, peers):
    problem = designs.draw_problem(one_hot_design(designs, rows=40), 2000, seed=3)
    apart = peers.batch_posterior(problem._replace(rows=np.arange(2000)))[0]
    assert len(peers.distinct_rows(problem)[1]) <= 80
    np.testing.assert_allclose(peers.batch_posterior(problem)[0].mean, apart.mean, atol=1e-6)


def test_units_of_the_prior_are_those_of_the_regression_banks_reference(peers):
    """But for features of one single value, whose unit is that value's square."""
    rng = np.random.default_rng(4)
    X = np.c_[rng.random(60) < 0.4, rng.normal(3, 0.1, 60), 5 * (rng.random(60) < 0.1) * rng.normal(0, 1, 60)]
    columns = Columns(3)
    for row in X:
        columns.count(row)
    expected = columns.spread() / columns.unit**2
    expected[0] = 1.0
    np.testing.assert_allclose(peers.prior_units(sparse.csr_matrix(X)), expected)


def test_a_seed_draws_the_same_problem_again_and_another_one_another(designs):
    design = one_hot_design(designs)
    first, again, other = (designs.draw_problem(design, 300, seed=seed) for seed in (5, 5, 6))
    assert (first.X != again.X).nnz == 0
    np.testing.assert_array_equal(first.y, again.y)
    assert (first.rows != other.rows).any()
    assert first.X.shape == (300, 8)
    assert first.later.shape == (designs.LATER_ROWS, 8)
    rate = expit(first.later_scores).mean()
    assert (designs.draw_problem(design, 20_000, seed=7).y > 0).mean() == pytest.approx(rate, abs=0.02)


def test_the_truth_of_a_set_is_the_same_whenever_it_is_fitted(designs, data_directory, tmp_path):
    one, two = (designs.load_design("mushrooms", data_directory, tmp_path / name) for name in ("one", "two"))
    np.testing.assert_array_equal(one.weights, two.weights)
    assert one.intercept == two.intercept
    assert one.X.shape == (6513, 117)  # features that no row has are left out
    assert len(np.unique(one.columns)) == 22
    each = [one.weights[one.columns == column].sum() for column in np.unique(one.columns)]
    assert np.abs(each).max() < 1e-4  # with a value in every row, the level of a column belongs to the intercept


def test_only_the_most_frequent_features_are_kept(designs):
    X = sparse.csr_matrix(np.array([[1.0, 0.0, 2.0, 0.0], [1.0, 3.0, 0.0, 0.0], [0.0, 4.0, 0.0, 0.0]]))
    few, kept = designs.frequent_features(X, 2)
    assert kept.tolist() == [0, 1]
    assert few.toarray().tolist() == [[1, 0], [1, 3], [0, 4]]
    assert designs.frequent_features(X, None)[1].tolist() == [0, 1, 2]


def test_contrasts_have_the_variance_of_the_joint_posterior(designs, peers, script):
    problem = designs.draw_problem(one_hot_design(designs), 600, seed=8)
    rng = np.random.default_rng(9)
    root = rng.normal(0, 0.1, (8, 8))
    covariance = root @ root.T
    posterior = peers.Posterior(
        np.zeros(8), np.diag(covariance), lambda indices: covariance[np.ix_(indices, indices)], (np.zeros(1),) * 2
    )
    assert script.contrasted_columns(problem.columns, problem.uses >= script.MIN_USES) == [1, 2]
    error, variance = script.contrast_errors(np.arange(3), problem.uses, posterior, posterior.mean - problem.weights)
    p = problem.uses[:3] / problem.uses[:3].sum()
    c = np.array([1 - p[0], -p[1], -p[2]])
    assert error[0] == pytest.approx(-c @ problem.weights[:3])
    assert variance[0] == pytest.approx(c @ covariance[:3, :3] @ c)


def test_results_of_an_earlier_run_are_used_again(designs, script, tmp_path, monkeypatch):
    monkeypatch.setitem(script.__dict__, "load_design", lambda name, *where: one_hot_design(designs))
    path = tmp_path / "runs.json"
    common = ["uncertainty.py", "--designs", "a9a", "--rows", "200", "--json", str(path), "--cache", str(tmp_path)]
    monkeypatch.setattr("sys.argv", [*common, "--seeds", "1", "--only", "Marginal"])
    script.main()
    (first,) = json.loads(path.read_text())["runs"]
    monkeypatch.setattr("sys.argv", [*common, "--seeds", "2", "--only", "Marginal", "--reuse", str(path)])
    script.main()
    runs = json.loads(path.read_text())["runs"]
    assert runs[0] == first  # with the seconds that it took then
    assert [run["seed"] for run in runs] == [0, 1]
    assert set(first) >= {"weights", "contrasts", "scores"}


def test_a_true_posterior_holds_nine_in_ten(script):
    rng = np.random.default_rng(10)
    variance = rng.gamma(1.0, 1.0, 20_000)
    covered, error, deviations = script.summary(rng.normal(0, np.sqrt(variance)), variance)
    assert covered == pytest.approx(0.9, abs=0.01)
    assert error == pytest.approx(1.0, abs=0.03)
    assert deviations == pytest.approx(1.0, abs=0.02)


def test_a_learner_that_knows_covariances_is_asked_for_them(designs, peers):
    problem = designs.draw_problem(one_hot_design(designs), 300, seed=11)
    posterior = peers.learn_joint(problem)
    indices = np.array([0, 1, 2])
    together = posterior.covariance(indices)
    assert np.linalg.det(together) < 0.9 * np.diag(together).prod()
    np.testing.assert_allclose(np.diag(together), posterior.variance[indices])

    class Knowing(Joint):
        def covariance(self, indices):
            return np.full((len(indices), len(indices)), 7.0)

    assert (peers.covariance_of(Knowing(8), np.ones(8), indices) == 7.0).all()


def test_bayesianbandits_agrees_with_the_batch_posterior_on_one_block(designs, peers):
    pytest.importorskip("bayesianbandits")
    problem = designs.draw_problem(one_hot_design(designs), peers.GLM_ROWS, seed=12)
    theirs = peers.fit_bayesian_glm(problem)
    X, y, counts = peers.distinct_rows(problem)
    X = sparse.hstack([X, np.ones((X.shape[0], 1))], format="csr")
    precision = np.r_[np.ones(8), peers.INTERCEPT_PRECISION]
    peak = peers.fit_peak(X, y, counts, precision, None)
    np.testing.assert_allclose(theirs.mean, peak[:8], atol=1e-3)
    variance = np.diag(peers.laplace_covariance(X, counts, precision, peak))[:8]
    np.testing.assert_allclose(theirs.variance, variance, rtol=1e-3)


def test_published_tables_are_read_as_they_were_written(script, tmp_path):
    runs = [
        {"problem": problem, "rows": rows, "seed": seed, "contender": contender, quantity: [0.125 * seed, 2.5, 1.0]}
        for problem, rows in (("a9a", 100_000), ("200/5/1/100k", 100_000), ("jump 0.5", 50_000))
        for contender in ("bank, head 256", "Joint, full")
        for quantity in ("weights", "scores")
        for seed in (2, 4)
        if (problem, contender) != ("a9a", "Joint, full")
    ]
    tables = [script.table_of(runs, group, name) for group in script.groups_of(runs) for name in ("weights", "scores")]
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n"
        + "\n\n".join(f"{title.capitalize()}:\n\n{script.quality.markdown(lines)}" for title, lines in tables)
    )
    read = script.read_tables(page)
    assert len(read) == 5
    for run in read:
        assert run["weights"] == run["scores"] == [0.375, 2.5]
        assert (run["problem"], run["rows"]) in {(known["problem"], known["rows"]) for known in runs}
    assert not any((run["problem"], run["contender"]) == ("a9a", "Joint, full") for run in read)


@pytest.mark.parametrize(("name", "is_linear"), [("walk 1", True), ("jump 0.5", True), ("pairs 0.3", False)])
def test_misfits_end_with_the_weights_and_scores_of_later_rows(designs, name, is_linear):
    problem = designs.draw_misfit(*designs.MISFITS[name], seed=3)
    linear = problem.later @ problem.weights
    assert np.allclose(linear, problem.later_scores) == is_linear
    start, end = (
        np.mean(problem.y[part] * (problem.X @ problem.weights)[part]) for part in (slice(5000), slice(-5000, None))
    )
    assert (end > 1.3 * start) == is_linear  # the last weights are not those of the first rows
