"""What the experiments of the online Bayesian lasso share: the regression sets, the rivals, and one run of each.

Every column and the labels are standardised by the whole set, so that a squared loss of 1 is that of knowing the mean
alone, and one learning rate or penalty means the same everywhere. Rows are shuffled by the draw's seed, but for the
bike rentals, which come in the order of time.
"""

from __future__ import annotations

import csv
import gzip
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.evaluate import progressive
from bayou.evaluate.regression import RegressionEvaluation
from bayou.learners import Gaussian, Shrinkage

PAPER = "oslog"
# River's Bayesian regression keeps a dictionary of pairs of features, whose updates take Python's time.
MOST_FOR_RIVERS_BAYES = 70
# Of a quick run: so many rows at most, and fewer of wide sets, whose steps take longer.
QUICK_ROWS, QUICK_WIDE_ROWS, WIDE = 400, 60, 200


@dataclass(frozen=True)
class Set:
    """A regression set: file (without its ending), what is predicted, columns that must not be known."""

    name: str
    file: str
    label: str | None = None  # of a table; svmlight files have theirs in front
    ignore: tuple[str, ...] = ()
    in_order: bool = False


SETS = (
    Set("diabetes", "diabetes.csv.gz", "target"),
    Set("diabetes, products", "diabetes_interactions.reg.svm.gz"),
    Set("prostate", "prostate.csv.gz", "lpsa", ("train",)),
    Set("ozone, products", "ozone_interactions.reg.svm.gz"),
    Set("housing, products", "housing_interactions.reg.svm.gz"),
    Set("permeability", "permeability.reg.svm.gz"),
    Set("wheat", "wheat_env1.reg.svm.gz"),
    Set("year of the song", "yearmsd.sample6k.reg.svm.gz"),
    Set("abalone", "abalone.csv.gz", "Rings"),
    Set("california", "california_housing.csv.gz", "medianHouseValue"),
    Set(
        "bike rentals",
        "bike_sharing_hourly.csv.gz",
        "cnt",
        ("instant", "dteday", "casual", "registered"),
        in_order=True,
    ),
)


def folder() -> Path | None:
    """Where the real data are: what BAYOU_DATA names, or ../shared/data."""
    named = os.environ.get("BAYOU_DATA")
    found = Path(named) if named else Path("..") / "shared" / "data"
    return found if (found / SETS[0].file).is_file() else None


def sets(say: Callable[[str], Any]) -> list[tuple[Set, np.ndarray, np.ndarray]]:
    """All sets, standardised; without the files the one that scikit-learn brings."""
    there = folder()
    if there is None:
        say("no real data (neither BAYOU_DATA nor ../shared/data holds them): on scikit-learn's diabetes alone")
        from sklearn.datasets import load_diabetes

        return [(SETS[0], *standardised(*load_diabetes(return_X_y=True, scaled=False)))]
    return [(one, *standardised(*_read(there, one))) for one in SETS]


def _read(there: Path, one: Set) -> tuple[np.ndarray, np.ndarray]:
    if one.label is None:
        from sklearn.datasets import load_svmlight_file

        X, y = load_svmlight_file(str(there / one.file), zero_based=False)
        return X.toarray(), y
    with gzip.open(there / one.file, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = []
    for name in rows[0]:
        if name not in (one.label, *one.ignore):
            cells = [row[name] for row in rows]
            try:
                columns.append(np.array(cells, float)[:, None])
            except ValueError:  # names: an indicator each
                columns.append((np.array(cells)[:, None] == np.unique(cells)).astype(float))
    return np.hstack(columns), np.array([float(row[one.label]) for row in rows])


def standardised(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns that vary, and labels, with mean 0 and variance 1."""
    X = X[:, X.std(axis=0) > 1e-12]
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def draw_of(
    one: Set, X: np.ndarray, y: np.ndarray, seed: int, quick: bool, examples: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """The rows in this draw's order, or the first of them."""
    order = np.arange(len(y)) if one.in_order else np.random.default_rng(seed).permutation(len(y))
    most = (QUICK_ROWS if X.shape[1] <= WIDE else QUICK_WIDE_ROWS) if quick else len(y)
    order = order[: min(most, examples or most)]
    return X[order], y[order]


# --- the rivals: `learn(batch)` gives each example's mean from before it was learned from -----------------------


class OnlineRidge:
    """Ridge regression after every example, its inverse updated (recursive least squares); the intercept is free."""

    def __init__(self, n_features: int, l2: float = 1.0) -> None:
        self._covariance = np.eye(n_features + 1) / l2
        self._covariance[-1, -1] = 1e6
        self._weights = np.zeros(n_features + 1)

    def learn(self, batch: Batch) -> np.ndarray:
        rows = np.ones((len(batch), len(self._weights)))
        rows[:, :-1] = batch.to_csr(len(self._weights) - 1).toarray()
        means = np.empty(len(batch))
        for k, (x, y) in enumerate(zip(rows, batch.labels, strict=True)):  # type: ignore[arg-type]
            means[k] = self._weights @ x
            gain = self._covariance @ x
            spread = 1.0 + x @ gain
            self._weights += gain * ((y - means[k]) / spread)
            self._covariance -= np.outer(gain, gain / spread)
        return means


class ScikitLearnSGD:
    """scikit-learn's SGDRegressor, an example at a time."""

    def __init__(self, n_features: int, eta0: float = 0.01) -> None:
        from sklearn.linear_model import SGDRegressor

        self._model = SGDRegressor(eta0=eta0).partial_fit(np.zeros((1, n_features)), [0.0])

    def learn(self, batch: Batch) -> np.ndarray:
        rows = batch.to_csr(self._model.n_features_in_).toarray()
        means = np.empty(len(batch))
        for k, y in enumerate(batch.labels):  # type: ignore[arg-type]
            means[k] = self._model.predict(rows[k : k + 1])[0]
            self._model.partial_fit(rows[k : k + 1], [y])
        # It can explode; what is no number any more counts as a very bad prediction.
        return np.clip(np.nan_to_num(means, nan=1e6), -1e6, 1e6)


class River:
    """A river regressor: `predict_one`, `learn_one`."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def learn(self, batch: Batch) -> np.ndarray:
        means = np.empty(len(batch))
        for k, y in enumerate(batch.labels):  # type: ignore[arg-type]
            part = slice(batch.indptr[k], batch.indptr[k + 1])
            x = dict(zip(batch.indices[part].tolist(), batch.values[part].tolist(), strict=True))
            means[k] = self._model.predict_one(x)
            self._model.learn_one(x, float(y))
        return np.clip(np.nan_to_num(means, nan=1e6), -1e6, 1e6)


def _rivers_linear(rate: float) -> River:
    from river import linear_model, optim

    return River(linear_model.LinearRegression(optimizer=optim.SGD(rate), intercept_lr=rate))


def _rivers_bayes() -> River:
    from river import linear_model

    return River(linear_model.BayesianLinearRegression())


@dataclass(frozen=True)
class Method:
    """A learner and the settings tried; the first is its default. `make(n_features, setting)`."""

    name: str
    make: Callable[[int, Any], Any]
    settings: tuple[Any, ...]
    knob: str
    most_features: int | None = None


def methods() -> tuple[list[Method], str | None]:
    """Ours, then the others; and a word if river is not there."""
    found = [
        Method("Shrinkage", lambda n, a: Shrinkage(n, penalty=a), (1.0, 0.01, 0.1, 10.0, 100.0), "penalty"),
        Method("Gaussian", lambda n, v: Gaussian(n, prior_variance=v), (1.0, 1e-4, 1e-3, 1e-2, 0.1), "prior"),
        Method("online ridge", lambda n, a: OnlineRidge(n, a), (1.0, 0.01, 0.1, 10.0, 100.0), "l2"),
        Method("SGDRegressor", lambda n, r: ScikitLearnSGD(n, r), (0.01, 1e-4, 1e-3, 0.1), "eta0"),
    ]
    try:
        import river  # noqa: F401
    except ImportError:
        return found, "river is not installed: its two regressors are left out (pip install river)."
    found.append(Method("river linear", lambda n, r: _rivers_linear(r), (0.01, 1e-4, 1e-3, 0.1), "rate"))
    found.append(Method("river Bayesian", lambda n, _: _rivers_bayes(), (None,), "", MOST_FOR_RIVERS_BAYES))
    return found, None


@dataclass(frozen=True)
class Run:
    """One learner over one draw of one set."""

    set: str
    method: str
    setting: Any
    default: bool
    draw: int
    result: RegressionEvaluation
    seconds: float


def run_one(one: Set, method: Method, setting: Any, X: np.ndarray, y: np.ndarray, draw: int, truth: Any) -> Run:
    """Predict, then learn, over all rows."""
    learner = method.make(X.shape[1], setting)
    start = time.perf_counter()
    result = progressive(learner, Batch.from_csr(X, y), truth=truth, task="regress")
    default = setting == method.settings[0]
    return Run(one.name, method.name, setting, default, draw, result, time.perf_counter() - start)


def mean_loss(runs: Iterable[Run]) -> float:
    return float(np.mean([run.result.squared_loss for run in runs]))


def chosen(runs: Sequence[Run], set_name: str, method: str, best: bool) -> list[Run]:
    """All draws of a method on a set, at its default or at the setting with the least mean loss; may be none."""
    mine = [run for run in runs if (run.set, run.method) == (set_name, method)]
    if not best or not mine:
        return [run for run in mine if run.default]
    by_setting: dict[Any, list[Run]] = {}
    for run in mine:
        by_setting.setdefault(run.setting, []).append(run)
    return min(by_setting.values(), key=mean_loss)
