"""The peers for numbers. Each is a function from rows and labels to predictions, each made before its row is learned.

    VW             15: learning rate .1 .5 2 8 32, power_t .5 .25 0 (adaptive, normalised, invariant), and --coin
    SGDRegressor   42: eta0 .0003 .001 .003 .01 .03 .1 .3, power_t 0 .25 .5; columns as they are, and standardised
    AdaGrad        12: rate .01 .03 .1 .3 1 3; columns as they are, and standardised
    least squares  28: recursive, full covariance, prior variance .001 .01 .1 1 10 100 1000, forgetting 1 .9999 .999
                   .99; columns standardised; up to 170 columns, or 700 rows
    river           2: LinearRegression and BayesianLinearRegression at their defaults; up to 5,000 rows and 20 columns
    VW quantile     5: for pinball losses, --loss_function quantile, learning rate .1 .5 2 8 32

All of them are given labels standardised in hindsight, and some columns likewise; the bank is given neither. What they
say is cut to the range of labels so far, as the bank does by itself and VW by its own rule.
A label that is NaN is predicted and not learned from.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import njit
from scipy import sparse

MOST_COLUMNS, FEW_ROWS = 170, 700


@dataclass(frozen=True)
class Setting:
    """One peer with one setting; `fits` tells whether rows and columns are few enough."""

    family: str
    name: str
    run: Callable[[sparse.csr_matrix, np.ndarray], np.ndarray]
    fits: Callable[[int, int], bool] = lambda rows, columns: True


# --- Vowpal Wabbit --------------------------------------------------------------------------------------------------


def vw_text(X: sparse.csr_matrix, y: np.ndarray) -> str:
    lines = []
    for row, label in enumerate(y.tolist()):
        begin, end = X.indptr[row], X.indptr[row + 1]
        cells = zip(X.indices[begin:end].tolist(), X.data[begin:end].tolist(), strict=True)
        said = "" if math.isnan(label) else f"{label:.9g}"
        lines.append(f"{said} | " + " ".join(f"{i}:{x:.9g}" for i, x in cells))
    return "\n".join(lines) + "\n"


_written: dict[int, str] = {}


def vw(*options: str) -> Callable:
    def run(X, y) -> np.ndarray:
        bits = str(max(18, math.ceil(math.log2(X.shape[1])) + 2))
        key = hash((X.shape, X.data.tobytes(), y.tobytes()))
        if key not in _written:
            _written.clear()
            _written[key] = vw_text(X, y)
        with tempfile.TemporaryDirectory() as folder:
            text, out = Path(folder) / "rows", Path(folder) / "predictions"
            text.write_text(_written[key])
            command = [sys.executable, "-m", "vowpalwabbit", "--quiet", "-b", bits, "-d", str(text), "-p", str(out)]
            subprocess.run([*command, *options], check=True)
            return np.loadtxt(out, ndmin=1)

    return run


# --- gradients ------------------------------------------------------------------------------------------------------


def standardised(X: sparse.csr_matrix) -> sparse.csr_matrix:
    """Columns less their means over their deviations if that leaves them dense anyway, else over their deviations."""
    mean = np.asarray(X.mean(0)).ravel()
    square = np.asarray(X.multiply(X).mean(0)).ravel()
    sd = np.sqrt(np.maximum(square - mean**2, 1e-12 * np.maximum(square, 1e-300)))
    if X.nnz > 0.3 * X.shape[0] * X.shape[1]:
        return sparse.csr_matrix((X.toarray() - mean) / sd)
    return (X @ sparse.diags(1.0 / sd)).tocsr()


def sgd(eta0: float, power: float, scale: bool) -> Callable:
    """SGDRegressor, whose rule is written out here, as it cannot predict between the rows of one call."""

    def run(X, y) -> np.ndarray:
        from sklearn.linear_model import SGDRegressor

        X = standardised(X) if scale else X
        few = X[:50]
        few.indices, few.indptr = few.indices.astype(np.int32), few.indptr.astype(np.int32)
        model = SGDRegressor(eta0=eta0, power_t=power, shuffle=False).partial_fit(few, y[:50])
        _, w = _sgd(few.indptr, few.indices, few.data, y[:50], X.shape[1], eta0, power)
        size = np.abs(model.coef_).max()
        if size < 1e6 and not np.abs(model.coef_ - w).max() <= 1e-6 * size:
            raise RuntimeError("the SGD written out here is no longer what scikit-learn does")
        return _sgd(X.indptr, X.indices, X.data, y, X.shape[1], eta0, power)[0]

    return run


@njit(cache=True, error_model="numpy")
def _sgd(indptr, indices, values, y, d, eta0, power):
    alpha, limit = 1e-4, 1e12
    w, scale, intercept, said, learned = np.zeros(d), 1.0, 0.0, np.empty(y.size), 0
    for row in range(y.size):
        score = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            score += w[indices[k]] * values[k]
        said[row] = score * scale + intercept
        if math.isnan(y[row]):
            continue
        learned += 1
        rate = eta0 / learned**power
        step = -rate * max(min(said[row] - y[row], limit), -limit)
        scale *= max(0.0, 1.0 - rate * alpha)
        if scale < 1e-9:
            w *= scale
            scale = 1.0
        for k in range(indptr[row], indptr[row + 1]):
            w[indices[k]] += values[k] * (step / scale)
        intercept += 0.01 * step
    return said, w * scale


def adagrad(rate: float, scale: bool) -> Callable:
    def run(X, y) -> np.ndarray:
        X = standardised(X) if scale else X
        return _adagrad(X.indptr, X.indices, X.data, y, X.shape[1], rate)

    return run


@njit(cache=True, error_model="numpy")
def _adagrad(indptr, indices, values, y, d, rate):
    w, squares, said = np.zeros(d + 1), np.full(d + 1, 1e-12), np.empty(y.size)
    for row in range(y.size):
        begin, size = indptr[row], indptr[row + 1] - indptr[row]
        score = w[d]
        for k in range(begin, begin + size):
            score += w[indices[k]] * values[k]
        said[row] = score
        if math.isnan(y[row]):
            continue
        for k in range(size + 1):
            i, x = (indices[begin + k], values[begin + k]) if k < size else (d, 1.0)
            gradient = (score - y[row]) * x
            squares[i] += gradient * gradient
            w[i] -= rate * gradient / math.sqrt(squares[i])
    return said


# --- recursive least squares ----------------------------------------------------------------------------------------


def least_squares(prior: float, keep: float) -> Callable:
    def run(X, y) -> np.ndarray:
        return _least_squares(np.column_stack([standardised(X).toarray(), np.ones(X.shape[0])]), y, prior, keep)

    return run


@njit(cache=True, error_model="numpy")
def _least_squares(X, y, prior, keep):
    n, d = X.shape
    w, P, said = np.zeros(d), np.eye(d) * prior, np.empty(n)
    P[d - 1, d - 1] = 1e3
    for row in range(n):
        x = X[row]
        said[row] = w @ x
        if math.isnan(y[row]):
            continue
        along = P @ x
        whole = keep + along @ x
        w += along * ((y[row] - said[row]) / whole)
        for i in range(d):
            f = along[i] / whole
            for j in range(d):
                P[i, j] = (P[i, j] - f * along[j]) / keep
    return said


# --- river ----------------------------------------------------------------------------------------------------------


def river(name: str) -> Callable:
    def run(X, y) -> np.ndarray:
        from river import linear_model, preprocessing

        model = preprocessing.StandardScaler() | getattr(linear_model, name)()
        said = np.empty(len(y))
        for row, (cells, label) in enumerate(zip(X.toarray().tolist(), y.tolist(), strict=True)):
            x = dict(enumerate(cells))
            said[row] = model.predict_one(x)
            if not math.isnan(label):
                model.learn_one(x, label)
        return said

    return run


# --- all of them ----------------------------------------------------------------------------------------------------


def settings() -> list[Setting]:
    rates = (".1", ".5", "2", "8", "32")
    found = [
        Setting("VW", f"-l {rate} --power_t {power}", vw("-l", rate, "--power_t", power))
        for power in (".5", ".25", "0")
        for rate in rates
    ]
    found.append(Setting("VW", "--coin", vw("--coin")))
    for scale in (False, True):
        how = " standardised" * scale
        found += [
            Setting("SGDRegressor", f"eta0 {eta0} power_t {power}{how}", sgd(eta0, power, scale))
            for eta0 in (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
            for power in (0.0, 0.25, 0.5)
        ]
        found += [Setting("AdaGrad", f"rate {r}{how}", adagrad(r, scale)) for r in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)]

    def small(rows: int, columns: int) -> bool:
        return columns <= MOST_COLUMNS or rows <= FEW_ROWS

    found += [
        Setting("least squares", f"prior {prior:g} keep {keep:g}", least_squares(prior, keep), small)
        for prior in (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
        for keep in (1.0, 0.9999, 0.999, 0.99)
    ]
    names = ("LinearRegression", "BayesianLinearRegression")
    return found + [
        Setting("river", name, river(name), lambda rows, columns: rows <= 5000 and columns <= 20) for name in names
    ]


def quantiles(share: float) -> list[Setting]:
    options = ("--loss_function", "quantile", "--quantile_tau", f"{share:g}")
    return [Setting("VW quantile", f"-l {rate}", vw(*options, "-l", rate)) for rate in (".1", ".5", "2", "8", "32")]
