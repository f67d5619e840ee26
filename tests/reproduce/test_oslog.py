"""`bayou reproduce oslog-…`: what is printed is what the files hold, with the real sets and without."""

import csv

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

from bayou import Batch
from bayou.cli import app
from bayou.reproduce.oslog import baselines, datasets
from bayou.reproduce.oslog import bound as oslog_bound

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("BAYOU_DATA", str(tmp_path / "nowhere"))
    return lambda *arguments: CliRunner().invoke(app, ["reproduce", *map(str, arguments), "--out", str(tmp_path)])


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_without_the_data_it_says_so_and_takes_diabetes(run, tmp_path):
    done = run("oslog-regression", "--examples", 100)
    assert done.exit_code == 0, done.output
    assert "using only scikit-learn's diabetes" in done.stderr
    rows = rows_of(tmp_path / "oslog-regression.csv")
    assert {row["set"] for row in rows} == {"diabetes"}
    assert {row["examples"] for row in rows} == {"100"}
    for method in ("Shrinkage", "Gaussian", "online ridge", "SGDRegressor"):
        (default,) = [row for row in rows if row["method"] == method and row["default"] == "1"]
        assert f"{float(default['squared_loss']):.4f}" in done.stdout
        least = min(float(row["squared_loss"]) for row in rows if row["method"] == method)
        assert f"{least:.4f} (" in done.stdout
        expected = float(default["squared_loss"]) - float(default["hindsight_loss"])
        assert float(default["regret"]) == pytest.approx(100 * expected)
    assert (tmp_path / "oslog-regression.png").read_bytes().startswith(PNG)


def test_the_bound_is_shown_where_it_fails(run, tmp_path):
    done = run("oslog-bound", "--quick", "--examples", 100)
    assert done.exit_code == 0, done.output
    *_, printed, floored = rows_of(tmp_path / "oslog-bound.csv")
    # SPEC 6: x = y = 1, a = 100, 300 steps
    assert float(printed["loss"]) == pytest.approx(271.7, abs=0.05)
    assert float(printed["theorem_2"]) == pytest.approx(99.4, abs=0.05)
    assert float(floored["loss"]) > float(floored["theorem_2"])
    assert done.stdout.count("FAILS") == 2


def test_the_bound_has_the_best_penalised_weights_in_it():
    """The infimum is a ridge regression in the units of D, found by scikit-learn."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=40)
    learner = oslog_bound.Shrinkage(3, penalty=2.0, intercept=False, bounded=False)
    learner.learn(Batch.from_csr(X[:-1], y[:-1]))
    d = np.abs(learner.mean)
    ridge = Ridge(alpha=2.0, fit_intercept=False).fit(X * np.sqrt(d), y).coef_
    least = np.sum((y - X * np.sqrt(d) @ ridge) ** 2) + 2.0 * ridge @ ridge
    largest = np.abs(y).max()
    det = np.linalg.slogdet((X.T @ X + 2.0 * np.diag(1 / d)) / (8 * largest**2))[1]
    bound = least + largest**2 * (6 * np.log(16 * largest**2 / (2.0 * np.sqrt(np.pi))) + det)
    assert oslog_bound.measure("", X, y, 2.0).theorem_2 == pytest.approx(bound, rel=1e-9)


def test_figure_1_is_drawn_and_the_kink_is_where_they_differ(run, tmp_path):
    done = run("oslog-figure1")
    assert done.exit_code == 0, done.output
    rows = rows_of(tmp_path / "oslog-figure1.csv")
    off = [abs(float(row["square_with_floor"]) - float(row["l1"])) for row in rows]
    assert abs(int(np.argmax(off)) - 100) <= 2
    assert (tmp_path / "oslog-figure1.png").read_bytes().startswith(PNG)


def test_online_ridge_is_ridge_regression_of_what_was_seen():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 4))
    y = X @ rng.normal(size=4) + 2.0
    means = baselines.OnlineRidge(4, l2=3.0).learn(Batch.from_csr(X, y))
    expected = Ridge(alpha=3.0).fit(X[:-1], y[:-1]).predict(X[-1:])
    assert means[-1] == pytest.approx(expected[0], rel=1e-4)


def test_every_set_is_read_and_standardised(data_directory, monkeypatch):
    monkeypatch.setenv("BAYOU_DATA", str(data_directory))
    found = datasets.load(lambda sentence: None)
    assert [one.name for one, _, _ in found] == [one.name for one in datasets.SETS]
    for _, X, y in found:
        assert np.isfinite(X).all()
        np.testing.assert_allclose(X.var(axis=0), 1.0)
        assert (abs(y.mean()), y.var()) == (pytest.approx(0, abs=1e-9), pytest.approx(1.0))
