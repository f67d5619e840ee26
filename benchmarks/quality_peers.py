"""The peers. Each is a function from rows and labels to logits, each made before its example is learned from.

    VW          15: learning rate .1 .5 2 8 32, power_t .5 .25 0; else its defaults (adaptive, normalised, invariant)
    AdaGrad      7: learning rate .005 .05 .1 .2 .4 .8 1.6; bayou's own
    FTRL       120: alpha .005 .02 .05 .1 .2 .5 1 2 5 10, beta .001 .01 .1 1, l1 0 .3 1 (McMahan et al. 2013)
    scikit-learn 5: SGDClassifier(loss="log_loss") at its defaults, and with constant rates .01 .1 1 10
    VW --coin, river's LogisticRegression and AdPredictor: at their defaults, not tuned

The grids reach beyond the best settings on most sets: a coarser one, with rates up to 8, beta from .01 and l1
up to .3, would have flattered the bank by 3% on two sets. FTRL's l2 is left out: on thirteen sets it gained nothing
over l1 and beta.

SGDClassifier cannot predict between the rows of one call, and a call per row costs a hundred times the row itself. So
its rule is written out here, with the same roundings: after any of the streams its weights are bit for bit those of
SGDClassifier.partial_fit. Each run compares the two after 200 rows and fails if they differ; not after all rows,
because large rates are chaotic, and a difference in the last bit on another machine would grow.
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

# All logits are clipped here before they are scored: a wrong probability of 1e-13 costs 30.
SUREST = 30.0


@dataclass(frozen=True)
class Setting:
    """One peer with one setting. `run` gives the logits of all rows; it may use files next to `text`, the VW rows."""

    family: str
    name: str
    run: Callable[[object, np.ndarray, Path], np.ndarray]
    default: bool = False


# --- Vowpal Wabbit --------------------------------------------------------------------------------------------------


def write_vw(X, y, path: Path) -> None:
    """Rows as VW text. Names that are numbers are columns; values with nine digits, which hold a float32 exactly."""
    with path.open("w") as file:
        for row, label in enumerate(y):
            begin, end = X.indptr[row], X.indptr[row + 1]
            cells = zip(X.indices[begin:end].tolist(), X.data[begin:end].tolist(), strict=True)
            file.write(f"{int(label)} | " + " ".join(f"{i}:{x:.9g}" for i, x in cells) + "\n")


def vw(*options: str) -> Callable:
    def run(X, y, text: Path) -> np.ndarray:
        # Room for the constant and no more collisions than the rows already have.
        bits = str(max(18, math.ceil(math.log2(X.shape[1])) + 2))
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "logits"
            command = [sys.executable, "-m", "vowpalwabbit", "--loss_function", "logistic", "--quiet", "-b", bits]
            subprocess.run([*command, "-d", str(text), "-p", str(out), *options], check=True)
            return np.loadtxt(out, ndmin=1)

    return run


# --- AdaGrad --------------------------------------------------------------------------------------------------------


def adagrad(rate: float) -> Callable:
    def run(X, y, text: Path) -> np.ndarray:
        from bayou import Batch
        from bayou.learners import AdaGrad

        p = AdaGrad(X.shape[1], learning_rate=rate, dtype="float64").learn(Batch.from_csr(X, y))
        return logit(p)

    return run


def logit(p) -> np.ndarray:
    """The logit of probabilities; one that rounded to 0 or 1 is at the end of the scale."""
    with np.errstate(divide="ignore"):
        return np.clip(np.log(p) - np.log1p(-p), -SUREST, SUREST)


# --- FTRL-proximal --------------------------------------------------------------------------------------------------


def ftrl(alpha: float, beta: float, l1: float, l2: float = 0.0) -> Callable:
    def run(X, y, text: Path) -> np.ndarray:
        return _ftrl(X.indptr, X.indices, X.data, y, X.shape[1], alpha, beta, l1, l2)

    return run


@njit(cache=True, error_model="numpy")
def _ftrl(indptr, indices, values, y, d, alpha, beta, l1, l2):
    """McMahan et al. 2013, algorithm 1. The intercept, at index d, is not penalised."""
    z, n = np.zeros(d + 1), np.zeros(d + 1)
    longest = 0
    for row in range(y.size):
        longest = max(longest, indptr[row + 1] - indptr[row])
    w, logits = np.zeros(longest + 1), np.empty(y.size)
    for row in range(y.size):
        begin, size = indptr[row], indptr[row + 1] - indptr[row]
        score = 0.0
        for k in range(size + 1):
            i = indices[begin + k] if k < size else d
            ridge, lasso = (l2, l1) if k < size else (0.0, 0.0)
            w[k] = 0.0
            if abs(z[i]) > lasso:
                rate = (beta + math.sqrt(n[i])) / alpha + ridge
                w[k] = -(z[i] - math.copysign(lasso, z[i])) / rate
            score += w[k] * (values[begin + k] if k < size else 1.0)
        logits[row] = score
        residual = -y[row] / (1.0 + math.exp(min(y[row] * score, 700.0)))
        for k in range(size + 1):
            i = indices[begin + k] if k < size else d
            g = residual * (values[begin + k] if k < size else 1.0)
            sigma = (math.sqrt(n[i] + g * g) - math.sqrt(n[i])) / alpha
            z[i] += g - sigma * w[k]
            n[i] += g * g
    return logits


# --- scikit-learn ---------------------------------------------------------------------------------------------------


def sgd(rate: float | None) -> Callable:
    """SGDClassifier(loss="log_loss") with a constant rate, or with its default one that falls like 1/t."""

    def run(X, y, text: Path) -> np.ndarray:
        from sklearn.linear_model import SGDClassifier

        how = {} if rate is None else {"learning_rate": "constant", "eta0": rate}
        model = SGDClassifier(loss="log_loss", shuffle=False, **how)
        few = X[:200]
        few.indices, few.indptr = few.indices.astype(np.int32), few.indptr.astype(np.int32)
        model.partial_fit(few, y[:200], classes=[-1.0, 1.0])
        _, w, intercept = _sgd(few.indptr, few.indices, few.data, y[:200], X.shape[1], model.alpha, rate or 0.0)
        gap = max(np.abs(model.coef_[0] - w).max(), abs(model.intercept_[0] - intercept))
        if not gap <= 1e-6 * np.abs(model.coef_).max():
            raise RuntimeError("the SGD written out here is no longer what scikit-learn does")
        logits, _, _ = _sgd(X.indptr, X.indices, X.data, y, X.shape[1], model.alpha, rate or 0.0)
        return logits

    return run


@njit(cache=True, error_model="numpy")
def _gradient(score, positive):
    """p - [y = 1], rounded as scikit-learn rounds it."""
    if score <= -37.0:
        return math.exp(score) - positive
    decay = math.exp(-score)
    return ((1.0 - positive) - positive * decay) / (1.0 + decay)


@njit(cache=True, error_model="numpy")
def _sgd(indptr, indices, values, y, d, alpha, constant):
    """scikit-learn's plain SGD on the log loss with an l2 penalty. The weights are `scale` times w."""
    w, scale, intercept = np.zeros(d), 1.0, 0.0
    first = math.sqrt(1.0 / math.sqrt(alpha))  # a typical weight, which sets the first rate
    t0 = 1.0 / (first * alpha)
    logits = np.empty(y.size)
    for row in range(y.size):
        begin, end = indptr[row], indptr[row + 1]
        score = 0.0
        for k in range(begin, end):
            score += w[indices[k]] * values[k]
        score = score * scale + intercept
        logits[row] = score
        rate = constant if constant > 0.0 else 1.0 / (alpha * (t0 + row))
        step = -rate * _gradient(score, 1.0 if y[row] > 0.0 else 0.0)
        scale *= max(0.0, 1.0 - rate * alpha)
        if scale < 1e-9:
            for i in range(d):
                w[i] *= scale
            scale = 1.0
        for k in range(begin, end):
            w[indices[k]] += values[k] * (step / scale)
        intercept += 0.01 * step  # on sparse rows the intercept learns a hundred times slower
    return logits, w * scale, intercept


# --- river ----------------------------------------------------------------------------------------------------------


def river(name: str) -> Callable:
    def run(X, y, text: Path) -> np.ndarray:
        from river import linear_model

        model = getattr(linear_model, name)()
        p = np.empty(len(y))
        for row, label in enumerate(y):
            begin, end = X.indptr[row], X.indptr[row + 1]
            x = dict(zip(X.indices[begin:end].tolist(), X.data[begin:end].tolist(), strict=True))
            p[row] = model.predict_proba_one(x)[True]
            model.learn_one(x, bool(label > 0))
        return logit(p)

    return run


# --- all of them ----------------------------------------------------------------------------------------------------


def settings() -> list[Setting]:
    found = [
        Setting("VW", f"-l {rate} --power_t {power}", vw("-l", rate, "--power_t", power), (rate, power) == (".5", ".5"))
        for power in (".5", ".25", "0")
        for rate in (".1", ".5", "2", "8", "32")
    ]
    found += [Setting("AdaGrad", f"rate {r}", adagrad(r), r == 0.1) for r in (0.005, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)]
    found += [
        Setting("FTRL", f"alpha {alpha} beta {beta} l1 {l1}", ftrl(alpha, beta, l1), (alpha, beta, l1) == (0.1, 1, 0))
        for alpha in (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
        for beta in (0.001, 0.01, 0.1, 1)
        for l1 in (0, 0.3, 1)
    ]
    found += [
        Setting("scikit-learn SGD", f"rate {r or '1/t'}", sgd(r), r is None) for r in (None, 0.01, 0.1, 1.0, 10.0)
    ]
    found.append(Setting("VW --coin", "", vw("--coin"), True))
    found += [Setting(f"river {name}", "", river(name), True) for name in ("LogisticRegression", "AdPredictor")]
    return found


# --- a stack of them ------------------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy")
def stack(logits, y):
    """Bayesian logistic regression with full covariance on the logits of some peers (one column each) and a constant.

    It starts from their mean, with coefficients N(0, 1) around that and a constant N(0, .01), and learns by moment
    matching. The priors are those of the bank's stackers, so that the peers are combined no worse than its lanes.
    """
    n, K = logits.shape
    mean, cov = np.zeros(K + 1), np.zeros((K + 1, K + 1))
    cov[0, 0] = 0.01
    for k in range(K):
        cov[k + 1, k + 1] = 1.0
    f, direction, out = np.empty(K + 1), np.empty(K + 1), np.empty(n)
    f[0] = 1.0
    for row in range(n):
        m, s = 0.0, 0.0
        for k in range(K):
            f[k + 1] = min(max(logits[row, k], -15.0), 15.0)
            m += f[k + 1] / K
        for a in range(K + 1):
            m += mean[a] * f[a]
            direction[a] = 0.0
            for b in range(K + 1):
                direction[a] += cov[a, b] * f[b]
            s += direction[a] * f[a]
        g = 1.0 / (1.0 + math.pi / 8.0 * s)
        z = y[row] * m * math.sqrt(g)
        out[row] = m * math.sqrt(g)
        q = 1.0 / (1.0 + math.exp(min(z, 700.0)))
        fall = g * q * (1.0 - q)
        fall = min(fall, 2.0 * fall / (1.0 + 2.0 * s * fall))
        for a in range(K + 1):
            mean[a] += direction[a] * y[row] * math.sqrt(g) * q
            for b in range(K + 1):
                cov[a, b] -= fall * direction[a] * direction[b]
    return out
