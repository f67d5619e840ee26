"""The second paper's comparison: test AUC and F1 at every number of features, for spike and slab, FTRL and VW.

Each order of the training rows is learned once, as a stream, except for its last fifth, the validation rows: of all
models of a method with at most a given number of features, the best one on these rows is shown.
Settings are rho0 and tau0 for spike and slab; alpha and l1 for FTRL. Both are chosen for the measure that is shown. VW
is logistic regression on all features at its defaults, as in the paper; it is left out where it is not installed.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtr

from bayou.core.batch import Batch
from bayou.learners import FTRL, SpikeSlab
from bayou.plots import BLUE, GREY, ORANGE, SKY, grid
from bayou.reproduce.experiment import Report
from bayou.reproduce.olss.data import Problem, folder

PRIORS = (
    *(0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01, 5e-3, 2e-3),
    *(1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12, 1e-15, 1e-20, 1e-30),
)
ALPHAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
PENALTIES = tuple(float(l1) for l1 in np.round(np.geomspace(0.03, 300.0, 22), 3))
SIZES = (10, 20, 50, 100, 200, 500, 1000)
OURS, FULL, RIVAL, VW = "SpikeSlab", "SpikeSlab, all features", "FTRL", "VW, all features"
MEASURES = ("AUC", "F1")


@dataclass(frozen=True)
class Model:
    """Sparse model of one order, with its scores by measure on the validation rows and on each test."""

    problem: str
    method: str
    setting: str
    order: int
    size: int
    valid: dict[str, float]
    test: dict[str, dict[str, float]]
    seconds: float


def _worth(y: np.ndarray, probability: np.ndarray) -> dict[str, float]:
    from sklearn.metrics import f1_score, roc_auc_score

    two = y.any() and not y.all()
    return {
        "AUC": float(roc_auc_score(y, probability)) if two else float("nan"),
        "F1": float(f1_score(y, probability > 0.5, zero_division=0.0)),
    }


def models(problem: Problem, order: int, quick: bool) -> Iterable[Model]:
    """Yield the models of all settings of all methods on one order of the training rows."""
    rows = np.random.default_rng(order).permutation(len(problem.y))
    learned, validation = rows[: len(rows) * 4 // 5], rows[len(rows) * 4 // 5 :]
    X, y = problem.X[learned], problem.y[learned]
    weights = None if problem.weights is None else problem.weights[learned]
    batch = Batch.from_csr(X, y, weights)
    sets = [("valid", problem.X[validation], problem.y[validation]), *problem.tests]
    n = X.shape[1]

    def judged(method: str, setting: str, size: int, probability: Any, seconds: float) -> Model:
        worth = {name: _worth(truth, probability(Z)) for name, Z, truth in sets}
        return Model(problem.name, method, setting, order, size, worth.pop("valid"), worth, seconds)

    taus = (problem.usual_slab_variance,) if quick else problem.slab_variances
    for tau in taus:
        for prior in PRIORS[::4] if quick else PRIORS:
            learner = SpikeSlab(n, inclusion_prior=prior, slab_variance=tau)
            seconds = timed(learner, batch)
            weights_kept = np.where(learner.log_odds > 0, learner.mean, 0.0)
            bias, setting = learner.intercept[0], f"rho0 {prior:g}, tau0 {tau:g}"
            size = int(np.count_nonzero(learner.log_odds > 0))
            yield judged(OURS, setting, size, lambda Z, w=weights_kept, b=bias: ndtr(Z @ w + b), seconds)
            if prior == PRIORS[0]:
                yield judged(FULL, setting, n, lambda Z, one=learner: _full(one, Z), seconds)
    for alpha in ALPHAS[1::3] if quick else ALPHAS:
        for l1 in PENALTIES[::3] if quick else PENALTIES:
            rival = FTRL(n, alpha=alpha, l1=l1)
            seconds = timed(rival, batch)
            w, bias = rival.mean.astype(float), rival.intercept[0]
            yield judged(
                RIVAL, f"alpha {alpha:g}, l1 {l1:g}", int(np.count_nonzero(w)),
                lambda Z, w=w, b=bias: 1 / (1 + np.exp(-np.clip(Z @ w + b, -700, 700))), seconds,
            )  # fmt: skip
    if importlib.util.find_spec("vowpalwabbit") is not None:
        probabilities, seconds = _vw(X, y, weights, [Z for _, Z, _ in sets])
        by_rows = {id(Z): p for (_, Z, _), p in zip(sets, probabilities, strict=True)}
        yield judged(VW, "defaults", n, lambda Z: by_rows[id(Z)], seconds)


def timed(learner: Any, batch: Batch) -> float:
    """Return the seconds of CPU that learning a batch takes."""
    start = time.process_time()
    learner.learn(batch)
    return time.process_time() - start


def _full(learner: SpikeSlab, Z: csr_array) -> np.ndarray:
    mean, variance = Z @ learner.mean, Z.multiply(Z) @ learner.variance
    bias, bias_variance = learner.intercept
    return ndtr((mean + bias) / np.sqrt(1 + variance + bias_variance))


def _vw(X: csr_array, y: np.ndarray, weights: Any, test_sets: Sequence[csr_array]) -> tuple[list[np.ndarray], float]:
    """Return VW's probabilities on `test_sets` after one pass over X, and its seconds, which include reading text."""
    command = [sys.executable, "-P", "-m", "vowpalwabbit", "--quiet", "-b", "20"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _vw_text(folder / "train.vw", X, y, weights)
        start = time.perf_counter()
        learn = ["--loss_function", "logistic", "-d", str(folder / "train.vw"), "-f", str(folder / "m.vw")]
        subprocess.run([*command, *learn], check=True, capture_output=True)
        seconds = time.perf_counter() - start
        probabilities = []
        for Z in test_sets:
            _vw_text(folder / "test.vw", Z, None, None)
            ask = ["-t", "-i", str(folder / "m.vw"), "-d", str(folder / "test.vw"), "-p", str(folder / "p.txt")]
            subprocess.run([*command, *ask, "--link", "logistic"], check=True, capture_output=True)
            probabilities.append(np.loadtxt(folder / "p.txt", usecols=0, ndmin=1))
    return probabilities, seconds


def _vw_text(path: Path, X: csr_array, y: Any, weights: Any) -> None:
    with open(path, "w") as file:
        for row in range(X.shape[0]):
            span = slice(X.indptr[row], X.indptr[row + 1])
            label = "" if y is None else "1" if y[row] else "-1"
            weight = "" if weights is None else f" {weights[row]:g}"
            features = " ".join(f"{j}:{x:g}" for j, x in zip(X.indices[span], X.data[span], strict=True))
            file.write(f"{label}{weight} | {features}\n")


# --- results --------------------------------------------------------------------------------------------------------


def best(candidates: Sequence[Model], method: str, measure: str, order: int, size: int) -> Model | None:
    """Return the model of a method and order with 1 to `size` features that is best on the validation rows."""
    fitting = [m for m in candidates if m.method == method and m.order == order and 0 < m.size <= size]
    return max(fitting, key=lambda m: m.valid[measure], default=None)


def at_size(candidates: Sequence[Model], method: str, measure: str, size: int, test: str | None = None) -> np.ndarray:
    """Return the test score of the best model of each order, NaN where there is none; the mean of all tests if None."""
    worth = []
    for order in sorted({model.order for model in candidates}):
        model = best(candidates, method, measure, order, size)
        values = [] if model is None else [w[measure] for name, w in model.test.items() if test in (None, name)]
        worth.append(np.mean(values) if values else np.nan)
    return np.array(worth)


def everything(candidates: Sequence[Model], method: str, measure: str, test: str | None = None) -> np.ndarray:
    """Return the test score of each order for models of any size."""
    return at_size(candidates, method, measure, 1 << 62, test)


def add_table(report: Report, title: str, candidates: Sequence[Model], measure: str, tests: bool = False) -> None:
    """Add a table: problems (and tests) and methods down, numbers of features across; all features last."""
    rows = []
    for problem in dict.fromkeys(model.problem for model in candidates):
        subset = [model for model in candidates if model.problem == problem]
        for test in list(subset[0].test) if tests else [None]:
            name = problem if test is None else f"{problem}, {test}"
            for method, full in ((OURS, FULL), (RIVAL, None), ("VW", VW)):
                cells = [_cell(at_size(subset, method, measure, size, test)) for size in SIZES]
                rows.append((name, method, *cells, _cell(everything(subset, full, measure, test)) if full else "-"))
    columns = ("what", "method", *(f"{size:,}" for size in SIZES), "all")
    report.table(f"{title}: {measure} with at most this many features", columns, rows)


def _cell(values: np.ndarray) -> str:
    values = values[~np.isnan(values)]
    if not len(values):
        return "-"
    return f"{values.mean():.3f}" + (f"±{values.std():.3f}" if len(values) > 1 else "")


def add_seconds(report: Report, candidates: Sequence[Model]) -> None:
    """Add a table of the seconds of one pass: of CPU in memory for ours, of the clock from text for VW."""
    rows = []
    for problem in dict.fromkeys(model.problem for model in candidates):
        of_problem = [model for model in candidates if model.problem == problem]
        spent = [
            f"{np.median([m.seconds for m in of_problem if m.method == method]) * 1e3:.0f} ms" if any(
                m.method == method for m in of_problem
            ) else "-"
            for method in (OURS, RIVAL, VW)
        ]  # fmt: skip
        rows.append((problem, *spent))
    report.table("Time of one pass (VW: from text, start-up included)", ("what", OURS, RIVAL, "VW"), rows)


def write(report: Report, candidates: Sequence[Model]) -> None:
    """Write a CSV file of all models and their measures."""
    measured = [f"valid_{measure}" for measure in MEASURES]
    columns = ["problem", "method", "setting", "order", "size", "seconds", *measured, "test", *MEASURES]
    rows = [
        [
            m.problem, m.method, m.setting, m.order, m.size, f"{m.seconds:.6g}",
            *(f"{m.valid[k]:.6g}" for k in MEASURES), test, *(f"{worth[k]:.6g}" for k in MEASURES),
        ]
        for m in candidates
        for test, worth in m.test.items()
    ]  # fmt: skip
    report.csv(columns, rows, end="\n")


def run_all(report: Report, problems: Sequence[Problem]) -> list[Model]:
    """Learn every problem in every order and return the models."""
    orders = report.options.seeds(1, 3)
    all_models: list[Model] = []
    for problem, order in report.each(list(product(problems, orders))):
        if order == orders[0]:
            rows, features = problem.X.shape
            report.options.say(f"{problem.name}: {rows:,} rows, {features:,} features, {len(orders)} orders")
        all_models += models(problem, order, report.options.quick)
    return all_models


COLOURS = {OURS: BLUE, RIVAL: ORANGE, FULL: SKY, VW: GREY}


def panel(axes: Any, candidates: Sequence[Model], measure: str, test: str | None, title: str) -> None:
    """Draw the measure against the number of features: the mean over orders, and their spread as a band."""
    max_size = max((m.size for m in candidates if m.method in (OURS, RIVAL)), default=10)
    sizes = np.unique(np.geomspace(5, max(max_size, 10), 30).astype(int))
    for method in (RIVAL, OURS):
        worth = np.array([at_size(candidates, method, measure, int(size), test) for size in sizes])
        is_known = ~np.isnan(worth).any(axis=1)
        if is_known.any():
            mean, spread = worth[is_known].mean(axis=1), worth[is_known].std(axis=1)
            axes.plot(sizes[is_known], mean, color=COLOURS[method], linewidth=2.2, label=method)
            low, high = mean - spread, mean + spread
            axes.fill_between(sizes[is_known], low, high, color=COLOURS[method], alpha=0.15, linewidth=0)
    for method in (FULL, VW):
        worth = everything(candidates, method, measure, test)
        if len(worth) and not np.isnan(worth).any():
            axes.axhline(worth.mean(), color=COLOURS[method], linestyle=(0, (4, 2)), linewidth=1.4, label=method)
    axes.set(xscale="log", title=title, xlabel="features", ylabel=measure)
    grid(axes)


def legend(figure: Any, axes: Any) -> None:
    """Draw the legend of one panel below all of them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def report_later_periods(report: Report, title: str, problem: Callable[[Path], Problem]) -> None:
    """Report a figure of three later periods of a set in time order, which `problem` reads from the data folder."""
    all_models = run_all(report, [problem(folder(report.options.data))])
    tests = list(all_models[0].test)
    with report.picture(4.4 * len(tests), 4, pad=None) as figure:
        axes = figure.subplots(1, len(tests), squeeze=False)[0]
        for panel_axes, test in zip(axes, tests, strict=True):
            panel(panel_axes, all_models, "AUC", test, f"{all_models[0].problem}, {test}")
        legend(figure, axes[0])
    write(report, all_models)
    add_table(report, title, all_models, "AUC", tests=True)
    add_seconds(report, all_models)
