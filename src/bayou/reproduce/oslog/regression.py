"""The evaluation that the online Bayesian lasso's paper leaves for the future: eleven sets, against the usual rivals.

Every example is predicted before it is learned. Regret is measured against the best fixed weights in hindsight (least
squares with an intercept), and 90 % intervals are counted. Every method runs at its default and at the best of a few
settings, chosen in hindsight.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.evaluate.hindsight import least_squares
from bayou.plots import BLUE, GOLD, GREEN, ORANGE, PALE, PINK, PURPLE
from bayou.reproduce.experiment import Experiment, Findings, Options, TextTable, in_words
from bayou.reproduce.files import drawn, write_csv
from bayou.reproduce.oslog import PAPER, rivals, sets
from bayou.reproduce.oslog.rivals import RivalRun, chosen, mean_loss

COLUMNS = (
    "set", "features", "method", "setting", "default", "draw", "examples", "squared_loss", "r2", "regret",
    "hindsight_loss", "coverage", "seconds",
)  # fmt: skip
OURS = "Shrinkage"
COLOURS = {
    "Shrinkage": BLUE, "Gaussian": PINK, "online ridge": GREEN, "SGDRegressor": ORANGE,
    "river linear": PURPLE, "river Bayesian": GOLD,
}  # fmt: skip
COVERED = (0.85, 0.95)


def run(options: Options) -> Findings:
    methods, word = rivals.methods()
    seeds = options.seeds(1, 1)
    options.say(f"oslog-regression: {in_words(RECORD.minutes[0 if options.quick else 1])}")
    loaded = sets.load(options.say)
    runs, hindsight, shapes = [], {}, {}
    work = [(one, X, y, seed) for one, X, y in loaded for seed in seeds]
    for done, (one, X, y, seed) in enumerate(work):
        options.watch(done, len(work))
        X, y = sets.draw_of(one, X, y, seed, options.quick, options.examples)
        best = least_squares([Batch.from_csr(X, y)], X.shape[1], intercept=True)
        hindsight[one.name, seed], shapes[one.name] = best.loss / len(y), X.shape
        for method in methods:
            if method.most_features is None or X.shape[1] <= method.most_features:
                runs += [rivals.run_one(one, method, value, X, y, seed, best) for value in method.settings]
    names = [one.name for one, _, _ in loaded]
    who = [method.name for method in methods]
    files = (_write(options.out, runs, hindsight, shapes), draw(options.out, names, who, runs))
    rest = (names, who, runs, hindsight, shapes)
    tables = [losses("at their defaults", False, *rest), losses("at the best of a few settings", True, *rest)]
    tables.append(coverage(names, runs))
    notes = [*_notes(names, who, runs), *([word] if word else [])]
    return Findings(tuple(tables), tuple(notes), files)


def losses(
    title: str,
    best: bool,
    names: Sequence[str],
    who: Sequence[str],
    runs: Sequence[RivalRun],
    hindsight: dict[Any, float],
    shapes: dict[str, Any],
) -> TextTable:
    """Mean progressive squared loss of everyone on every set, and of the best fixed weights in hindsight."""
    rows = []
    for name in names:
        cells = []
        for method in who:
            found = chosen(runs, name, method, best)
            loss = mean_loss(found) if found else np.nan
            text = "-" if not found else f"{loss:.4f}" if loss < 100 else "explodes"
            cells.append(text + (f" ({found[0].setting:g})" if found and best and method != "river Bayesian" else ""))
        fixed = np.mean([loss for (of, _), loss in hindsight.items() if of == name])
        rows.append((name, f"{shapes[name][0]:,} x {shapes[name][1]:,}", *cells, f"{fixed:.4f}"))
    head = ("stream", "size", *who, "hindsight")
    return TextTable(f"Progressive squared loss, labels of variance 1; {title}", head, tuple(rows))


def coverage(names: Sequence[str], runs: Sequence[RivalRun]) -> TextTable:
    """Share of labels within their 90 % predictive interval."""
    rows = []
    for name in names:
        cells = []
        for method in (OURS, "Gaussian"):
            for best in (False, True):
                found = chosen(runs, name, method, best)
                cells.append(f"{np.mean([run.result.coverage for run in found]):.3f}")
        rows.append((name, *cells))
    head = ("stream", "Shrinkage", "best penalty", "Gaussian", "best prior")
    return TextTable("Labels within 90 % intervals predicted for them", head, tuple(rows))


def _notes(names: Sequence[str], who: Sequence[str], runs: Sequence[RivalRun]) -> list[str]:
    said = []
    for best, how in ((False, "at the defaults"), (True, "at the best settings")):
        parts = []
        for rival in who:
            pairs = [[chosen(runs, name, of, best) for of in (OURS, rival)] for name in names]
            pairs = [pair for pair in pairs if all(pair)]
            wins = sum(mean_loss(ours) < mean_loss(theirs) for ours, theirs in pairs)
            if rival != OURS:
                parts.append(f"{rival} {wins} of {len(pairs)}")
        said.append(f"Shrinkage has the lower loss {how}, against " + ", ".join(parts) + ".")
    shares = [np.mean([run.result.coverage for run in chosen(runs, name, OURS, False)]) for name in names]
    inside = sum(COVERED[0] <= share <= COVERED[1] for share in shares)
    said.append(f"Its 90 % intervals cover 85 to 95 % on {inside} of {len(names)} sets at the default penalty.")
    return said


def _write(folder: Path, runs: Sequence[RivalRun], hindsight: dict[Any, float], shapes: dict[str, Any]) -> Path:
    rows = []
    for run in runs:
        of = run.result
        head = (run.set, shapes[run.set][1], run.method, run.setting, int(run.default), run.draw, of.examples)
        rows.append((
            *head, of.squared_loss, of.r2, of.regret, hindsight[run.set, run.draw], of.coverage, run.seconds,
        ))  # fmt: skip
    return write_csv(folder, "oslog-regression", COLUMNS, rows)


def draw(folder: Path, names: Sequence[str], who: Sequence[str], runs: Sequence[RivalRun]) -> Path:
    """Regret per example over time, of each at its best setting; a panel for each set."""
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    with drawn(folder, "oslog-regression", 3.6 * columns + 1, 2.8 * rows + 0.8) as figure:
        axes = figure.subplots(rows, columns, squeeze=False)
        for one in axes.flat[len(names) :]:
            one.set_axis_off()
        for one, name in zip(axes.flat, names, strict=False):
            ends = []
            for method in who:
                found = chosen(runs, name, method, best=True)
                if not found:
                    continue
                curve = found[0].result.curve
                height = curve["regret"] / curve["example"]
                one.plot(curve["example"], height, color=COLOURS[method], linewidth=1.8, label=method)
                ends.append(height[-1])
            one.set_xscale("log")
            one.set_ylim(0, max(4 * min(ends), 0.1))
            one.set_title(name)
            one.grid(axis="y", color=PALE)
            one.set_axisbelow(True)
        for one in axes[:, 0]:
            one.set_ylabel("regret / t")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return folder / "oslog-regression.png"


RECORD = Experiment(
    "oslog-regression", PAPER, run=run, minutes=(1.0, 12.0),
    what="progressive squared loss, regret and coverage on eleven regression sets, against ridge, SGD and river",
)  # fmt: skip
