"""What the tables and figures of quadratic-l1 share: its data, its algorithms pass by pass, pictures, files.

The paper's batch solvers (BBR for logistic, EM for probit) are replaced by ours run to a violation of 1e-9 of the
penalty. All tables penalise the intercept, as the paper does. L1 norms are of the difference from the batch solution.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.learners.lasso import Lasso
from bayou.reproduce.experiment import Options, written
from bayou.reproduce.marginal_gaussian import picture
from bayou.reproduce.quadratic_l1 import stems

PAPER = "quadratic-l1"
# Table 1's true weights: the intercept, then ten features of which three are redundant.
TRUTH = np.array([0.259, 0.761, -0.360, 0.876, 0.913, -0.302, -0.820, 0.0, 0.0, 0.0, -0.319])
EXACT = 1e-9
MOST_PASSES = 200
COLOURS = ("#1f6f8b", "#d9662b", "#3f8f4f", "#8a4f9e", "#c9a227", "#d14f7a", "#7fb2c4", "#16495c", "#8a8a8a", "#a07f10")


# --- data -----------------------------------------------------------------------------------------------------------


def simulated(seed: int, rows: int, link: str = "logistic", variance: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Features without the intercept, and labels in {0, 1}, as section 7 has them."""
    generator = np.random.default_rng(seed)
    X = np.sqrt(variance) * generator.normal(size=(rows, len(TRUTH) - 1))
    noise = generator.logistic(size=rows) if link == "logistic" else generator.normal(size=rows)
    return X, (X @ TRUTH[1:] + TRUTH[0] + noise > 0).astype(float)


def documents(options: Options, name: str) -> list[dict[str, Any]]:
    """The objects of a .jsonl.gz file: one of --data, or in the folder BAYOU_DATA or ../shared/data."""
    given = [Path(file) for file in options.data if Path(file).name == name]
    folders = [Path(folder) for folder in (os.environ.get("BAYOU_DATA"), "../shared/data") if folder]
    found = next((path for path in given + [folder / name for folder in folders] if path.is_file()), None)
    if found is None:
        raise BadInput(
            f"{name} is not there: name it with --data FILE, or set BAYOU_DATA to the folder that holds it "
            "(docs/howto/data-sets.md says what it is)."
        )
    with gzip.open(found, "rt") as file:
        return [json.loads(line) for line in file]


def reuters(options: Options, topic: str = "earn") -> tuple[Any, np.ndarray, list[str]]:
    """Raw counts of stems in the ModApte training documents, whether each is of the topic, and the stems."""
    from sklearn.feature_extraction.text import CountVectorizer

    train = [one for one in documents(options, "reuters21578_modapte.jsonl.gz") if one["split"] == "train"]
    if options.quick:
        train = train[:3000]
    counter = CountVectorizer(analyzer=stems.words, dtype=np.float64)
    X = counter.fit_transform([one["text"] for one in train])
    return X, np.array([float(topic in one["label"]) for one in train]), counter.get_feature_names_out().tolist()


# --- algorithms -----------------------------------------------------------------------------------------------------


def weights_of(learner: Lasso) -> np.ndarray:
    """The intercept first, as the paper's tables have it."""
    return np.append(learner.intercept[0], learner.mean)


def passes(batch: Batch, width: int, algorithm: str, penalty: float, **more: Any) -> Iterator[Lasso]:
    """A learner after each pass, until it has converged."""
    learner = Lasso(width, algorithm=algorithm, penalty=penalty, penalize_intercept=True, **more)
    for _ in range(MOST_PASSES):
        learner.learn(batch)
        done = learner.end_pass()
        yield learner
        if done:
            return


def solved(batch: Batch, width: int, penalty: float, algorithm: str = "multipass", **more: Any) -> Lasso:
    """The batch solution."""
    *_, last = passes(batch, width, algorithm, penalty, tolerance=EXACT, **more)
    return last


def online(batch: Batch, width: int, penalty: float, **more: Any) -> Lasso:
    learner = Lasso(width, penalty=penalty, penalize_intercept=True, **more)
    learner.learn(batch)
    learner.end_pass()
    return learner


def gaps(batch: Batch, width: int, algorithm: str, penalty: float, exact: np.ndarray, **more: Any) -> list[float]:
    """The L1 distance from the batch solution after each pass."""
    found = passes(batch, width, algorithm, penalty, tolerance=EXACT, **more)
    return [float(np.abs(weights_of(one) - exact).sum()) for one in found]


def after(gaps: Sequence[float], z: int) -> float:
    """The gap after z passes, or the last one if there were fewer."""
    return gaps[min(z, len(gaps)) - 1]


# --- files and pictures ---------------------------------------------------------------------------------------------


def shown(gap: float) -> str:
    """
    >>> shown(28.2904), shown(0.0472), shown(3e-4), shown(2e-12)
    ('28.290', '0.047', '3.0e-04', '0')
    """
    if gap < 1e-6:
        return "0"
    return f"{gap:.3f}" if gap >= 0.001 else f"{gap:.1e}"


def write_csv(options: Options, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    with written(options.out, f"{name}.csv") as path, open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([repr(value) if isinstance(value, float) else value for value in row] for row in rows)
    return options.out / f"{name}.csv"


def draw(
    options: Options,
    name: str,
    panels: Mapping[str, Mapping[str, tuple[Any, Any]]],
    labels: tuple[str, str],
    *,
    logarithmic: str = "y",
    marks: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> Path:
    """Curves in panels side by side; `marks` are the paper's numbers, as (x, y) by panel."""
    with rc_context(picture.STYLE):
        figure = Figure(
            figsize=(5.2 * len(panels) + 0.8, 4.4), dpi=110, layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
        )
        each = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, curves) in zip(each, panels.items(), strict=True):
            for number, (label, (x, y)) in enumerate(curves.items()):
                colour = COLOURS[number % len(COLOURS)]
                axes.plot(x, y, color=colour, linewidth=2, marker="o", markersize=3.5, label=label)
            if marks and title in marks:
                axes.plot(
                    *zip(*marks[title], strict=True), "D", markersize=7, color=picture.INK, markerfacecolor="none",
                    label="the paper",
                )  # fmt: skip
            if "y" in logarithmic:
                axes.set_yscale("log")
            if "x" in logarithmic:
                axes.set_xscale("log")
            axes.grid(axis="y", color=picture.PALE)
            axes.set_axisbelow(True)
            axes.set_title(title)
            axes.set_xlabel(labels[0])
            axes.legend(frameon=False, fontsize=8.5)
        each[0].set_ylabel(labels[1])
        with written(options.out, f"{name}.png") as path:
            figure.savefig(path, format="png")
    return options.out / f"{name}.png"
