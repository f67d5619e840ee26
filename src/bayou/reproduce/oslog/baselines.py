"""Shrinkage and its rivals: `learn(batch)` returns the mean predicted for each example before it was learned."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.evaluate import progressive
from bayou.evaluate.regression import RegressionEvaluation
from bayou.learners import Gaussian, Shrinkage
from bayou.reproduce.oslog.datasets import RegressionSet

# River's Bayesian regression keeps a dictionary of feature pairs, which is updated in pure Python.
MOST_FOR_RIVERS_BAYES = 70


class OnlineRidge:
    """Online ridge regression by recursive least squares; the intercept is practically not penalized."""

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
    """Wrapper of scikit-learn's SGDRegressor, one example at a time."""

    def __init__(self, n_features: int, eta0: float = 0.01) -> None:
        from sklearn.linear_model import SGDRegressor

        self._model = SGDRegressor(eta0=eta0).partial_fit(np.zeros((1, n_features)), [0.0])

    def learn(self, batch: Batch) -> np.ndarray:
        rows = batch.to_csr(self._model.n_features_in_).toarray()
        means = np.empty(len(batch))
        for k, y in enumerate(batch.labels):  # type: ignore[arg-type]
            means[k] = self._model.predict(rows[k : k + 1])[0]
            self._model.partial_fit(rows[k : k + 1], [y])
        # It can diverge; a prediction that is not finite counts as a very bad one.
        return np.clip(np.nan_to_num(means, nan=1e6), -1e6, 1e6)


class River:
    """Wrapper of a river regressor (`predict_one`, `learn_one`)."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def learn(self, batch: Batch) -> np.ndarray:
        means = np.empty(len(batch))
        for k, y in enumerate(batch.labels):  # type: ignore[arg-type]
            span = slice(batch.indptr[k], batch.indptr[k + 1])
            x = dict(zip(batch.indices[span].tolist(), batch.values[span].tolist(), strict=True))
            means[k] = self._model.predict_one(x)
            self._model.learn_one(x, float(y))
        return np.clip(np.nan_to_num(means, nan=1e6), -1e6, 1e6)


@dataclass(frozen=True)
class Baseline:
    """Learner, made by `make(n_features, setting)`, and the settings to try, its default first."""

    name: str
    make: Callable[[int, Any], Any]
    settings: tuple[Any, ...]
    most_features: int | None = None


def methods() -> tuple[list[Baseline], str | None]:
    """Return our methods, then the others, and a sentence if river is not installed."""
    baselines = [
        Baseline("Shrinkage", lambda n, a: Shrinkage(n, penalty=a, bounded=False), (1.0, 0.01, 0.1, 10.0, 100.0)),
        Baseline("Gaussian", lambda n, v: Gaussian(n, prior_variance=v, bounded=False), (1.0, 1e-4, 1e-3, 1e-2, 0.1)),
        Baseline("online ridge", lambda n, a: OnlineRidge(n, a), (1.0, 0.01, 0.1, 10.0, 100.0)),
        Baseline("SGDRegressor", lambda n, r: ScikitLearnSGD(n, r), (0.01, 1e-4, 1e-3, 0.1)),
    ]
    try:
        from river import linear_model, optim
    except ImportError:
        return baselines, "river is not installed: its two regressors are skipped (pip install river)."

    def linear(n: int, rate: float) -> River:
        return River(linear_model.LinearRegression(optimizer=optim.SGD(rate), intercept_lr=rate))

    def bayesian(n: int, setting: None) -> River:
        return River(linear_model.BayesianLinearRegression())

    baselines.append(Baseline("river linear", linear, (0.01, 1e-4, 1e-3, 0.1)))
    baselines.append(Baseline("river Bayesian", bayesian, (None,), MOST_FOR_RIVERS_BAYES))
    return baselines, None


@dataclass(frozen=True)
class BaselineRun:
    """Run of one learner over one draw of one set."""

    set: str
    method: str
    setting: Any
    default: bool
    draw: int
    result: RegressionEvaluation
    seconds: float


def run_one(
    dataset: RegressionSet, method: Baseline, setting: Any, X: np.ndarray, y: np.ndarray, draw: int, truth: Any
) -> BaselineRun:
    """Run a learner over all rows, predicting each before learning it."""
    learner = method.make(X.shape[1], setting)
    start = time.perf_counter()
    result = progressive(learner, Batch.from_csr(X, y), truth=truth, task="regression")
    default = setting == method.settings[0]
    return BaselineRun(dataset.name, method.name, setting, default, draw, result, time.perf_counter() - start)


def mean_loss(runs: Iterable[BaselineRun]) -> float:
    return float(np.mean([run.result.squared_loss for run in runs]))


def chosen(runs: Sequence[BaselineRun], set_name: str, method: str, best: bool) -> list[BaselineRun]:
    """Return the runs of a method on a set, at its default or at the setting with the smallest mean loss, if any."""
    method_runs = [run for run in runs if (run.set, run.method) == (set_name, method)]
    if not best or not method_runs:
        return [run for run in method_runs if run.default]
    by_setting: dict[Any, list[BaselineRun]] = {}
    for run in method_runs:
        by_setting.setdefault(run.setting, []).append(run)
    return min(by_setting.values(), key=mean_loss)
