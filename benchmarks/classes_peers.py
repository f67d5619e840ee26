"""The peers for several classes. Each is a function from rows and class numbers to probabilities made before learning.

    VW            11: --oaa K --probabilities, learning rate .5 2 8 32 128 by power_t .5 0, and --coin
    softmax       12: one multinomial regression by SGD (rates .01 .03 .1 .3 1) and by AdaGrad (.02 .05 .1 .2 .4 .8 1.6)
    scikit-learn   4: LogisticRegression with C .1 1 10, fitted again whenever the rows have doubled (sets of up to
                      BATCH_WEIGHTS weights); SGDClassifier (log_loss, one against the rest), which learns 64 rows
                      after it has predicted them
    river          2: SoftmaxRegression and OneVsRest(LogisticRegression) behind a StandardScaler where numbers are raw;
                      sets of up to RIVER_VALUES values times classes

On raw numbers (covtype, digits, abalone) softmax and scikit-learn are given columns divided by their root mean square,
known in hindsight.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import njit
from scipy import sparse

RIVER_VALUES, BATCH_WEIGHTS = 500_000, 100_000
BLOCK = 64


@dataclass(frozen=True)
class Setting:
    family: str
    name: str
    run: Callable[[sparse.csr_matrix, np.ndarray, Path], np.ndarray]


def write_vw(X, y, path: Path) -> None:
    with path.open("w") as file:
        for row, label in enumerate(y):
            begin, end = X.indptr[row], X.indptr[row + 1]
            cells = zip(X.indices[begin:end].tolist(), X.data[begin:end].tolist(), strict=True)
            file.write(f"{label + 1} | " + " ".join(f"{i}:{x:.9g}" for i, x in cells) + "\n")


def vw_command(n_classes: int, n_features: int, text: Path, *options: str) -> list[str]:
    bits = max(18, math.ceil(math.log2(n_features * n_classes)) + 1)
    command = [sys.executable, "-m", "vowpalwabbit", "--oaa", str(n_classes), "--probabilities", "--quiet"]
    return [*command, "--loss_function", "logistic", "-b", str(bits), "-d", str(text), *options]


def vw(*options: str) -> Callable:
    def run(X, y, text: Path) -> np.ndarray:
        n_classes = int(y.max()) + 1
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "chances"
            subprocess.run([*vw_command(n_classes, X.shape[1], text, *options), "-p", str(out)], check=True)
            lines = out.read_text().splitlines()
        cells = [[float(cell.rpartition(":")[2]) for cell in line.split()[:n_classes]] for line in lines if line]
        return np.array(cells)

    return run


def scaled(X) -> sparse.csr_matrix:
    """Columns by their root mean square, where values are no indicators and no tf-idf."""
    if X.data.max() <= 1.0 and X.data.min() >= 0.0:
        return X
    sizes = np.sqrt(np.asarray(X.multiply(X).mean(axis=0)).ravel())
    return sparse.csr_matrix(X @ sparse.diags(1.0 / np.where(sizes > 0, sizes, 1.0)))


@njit(cache=True, error_model="numpy")
def _softmax(indptr, indices, values, y, n_features, n_classes, rate, adaptive):
    """Multinomial regression by gradient steps; the intercept, at index n_features, is learned as any weight."""
    W, G = np.zeros((n_features + 1, n_classes)), np.zeros((n_features + 1, n_classes))
    chances = np.empty((y.size, n_classes))
    score = np.empty(n_classes)
    for row in range(y.size):
        begin, end = indptr[row], indptr[row + 1]
        score[:] = W[n_features]
        for k in range(begin, end):
            score += values[k] * W[indices[k]]
        score -= score.max()
        p = np.exp(score)
        p /= p.sum()
        chances[row] = p
        p[y[row]] -= 1.0
        for k in range(begin, end + 1):
            i, x = (indices[k], values[k]) if k < end else (n_features, 1.0)
            for c in range(n_classes):
                g = x * p[c]
                if adaptive:
                    G[i, c] += g * g
                    g /= math.sqrt(G[i, c]) + 1e-12
                W[i, c] -= rate * g
    return chances


def softmax(rate: float, adaptive: bool) -> Callable:
    def run(X, y, text: Path) -> np.ndarray:
        X = scaled(X)
        return _softmax(X.indptr, X.indices, X.data, y, X.shape[1], int(y.max()) + 1, rate, adaptive)

    return run


def _spread(n_classes: int, known: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Chances of the classes met so far as chances of all; what was never met gets a little."""
    chances = np.full((len(p), n_classes), 1e-3 / n_classes)
    chances[:, known] += (1.0 - 1e-3) * p
    return chances / chances.sum(axis=1, keepdims=True)


def logistic_regression(C: float) -> Callable:
    def run(X, y, text: Path) -> np.ndarray:
        from sklearn.linear_model import LogisticRegression

        X, n_classes = scaled(X), int(y.max()) + 1
        chances = np.full((len(y), n_classes), 1.0 / n_classes)
        start = 64
        while start < len(y):
            end = min(2 * start, len(y))
            if len(np.unique(y[:start])) > 1:
                with warnings.catch_warnings(action="ignore"):  # 200 steps are enough for a peer
                    model = LogisticRegression(C=C, max_iter=200).fit(X[:start], y[:start])
                chances[start:end] = _spread(n_classes, model.classes_, model.predict_proba(X[start:end]))
            start = end
        return chances

    return run


def sgd_in_blocks(X, y, text: Path) -> np.ndarray:
    from sklearn.linear_model import SGDClassifier

    X, n_classes = scaled(X), int(y.max()) + 1
    model = SGDClassifier(loss="log_loss", random_state=0)
    chances = np.full((len(y), n_classes), 1.0 / n_classes)
    for start in range(0, len(y), BLOCK):
        rows = slice(start, start + BLOCK)
        if start:
            chances[rows] = _spread(n_classes, np.arange(n_classes), model.predict_proba(X[rows]))
        model.partial_fit(X[rows], y[rows], classes=np.arange(n_classes))
    return chances


def river(kind: str) -> Callable:
    def run(X, y, text: Path) -> np.ndarray:
        from river import linear_model, multiclass, preprocessing

        inner = (
            linear_model.SoftmaxRegression()
            if kind == "softmax"
            else multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
        )
        model = preprocessing.StandardScaler() | inner if scaled(X) is not X else inner
        n_classes = int(y.max()) + 1
        chances = np.full((len(y), n_classes), 1e-3 / n_classes)
        for row, label in enumerate(y.tolist()):
            begin, end = X.indptr[row], X.indptr[row + 1]
            x = dict(zip(X.indices[begin:end].tolist(), X.data[begin:end].tolist(), strict=True))
            for k, p in model.predict_proba_one(x).items():
                chances[row, k] += p
            model.learn_one(x, label)
        return chances / chances.sum(axis=1, keepdims=True)

    return run


def takes_too_long(setting: Setting, X, n_classes: int) -> bool:
    if setting.name.startswith("LogisticRegression"):
        return X.shape[1] * n_classes > BATCH_WEIGHTS
    return setting.family == "river" and X.nnz * n_classes > RIVER_VALUES


def settings() -> list[Setting]:
    found = [
        Setting("VW", f"-l {rate} --power_t {power}", vw("-l", rate, "--power_t", power))
        for rate in ("0.5", "2", "8", "32", "128")
        for power in ("0.5", "0")
    ]
    found.append(Setting("VW", "--coin", vw("--coin")))
    found += [Setting("softmax", f"SGD {rate:g}", softmax(rate, False)) for rate in (0.01, 0.03, 0.1, 0.3, 1.0)]
    found += [
        Setting("softmax", f"AdaGrad {rate:g}", softmax(rate, True)) for rate in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
    ]
    found += [Setting("scikit-learn", f"LogisticRegression C={C:g}", logistic_regression(C)) for C in (0.1, 1.0, 10.0)]
    found.append(Setting("scikit-learn", "SGDClassifier", sgd_in_blocks))
    found += [Setting("river", name, river(name)) for name in ("softmax", "one against rest")]
    return found
