"""Numbers of the demo: predictors on one simulated stream, and the bank's weights afterwards."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from bayou import evaluate, report, simulate
from bayou.core.batch import Batch
from bayou.core.learner import Learner
from bayou.core.prediction import WeightView, WeightViewPart
from bayou.learners import AdaGrad, Bank, Marginal
from bayou.outputs.features import SeenFeatures, strengths_of
from bayou.recipe.feature_counts import FeatureMoments
from bayou.report import Recorder

# 131,070 features: a long tail that is still small enough for any machine.
N_CATEGORIES = 16
# Tuned for this stream: the best of nine rates from 0.1 to 2, by regret after 300,000 examples.
ADAGRAD_RATE = 0.6
# The half-width of a 90% interval of a normal distribution, in standard deviations.
NINETY = 1.6449
SHOWN = 8


@dataclass(frozen=True)
class DemoRun:
    """Evaluation and run time of one predictor."""

    name: str
    result: evaluate.Evaluation
    seconds: float  # spent in learn()


@dataclass(frozen=True)
class LearnedWeights:
    """Posterior and true value of each weight, relative to the average of its category.

    One feature of each category is always on. Add 1 to all weights of one category and take 1 from all of
    another, and no prediction changes: only differences within a category can be learned, from any data.
    """

    mean: np.ndarray
    sd: np.ndarray
    truth: np.ndarray
    seen: np.ndarray
    n_joint: int = 0  # features whose correlations the model keeps

    @property
    def inside(self) -> np.ndarray:
        """Mask of true weights that lie inside their 90% interval."""
        return np.abs(self.mean - self.truth) <= NINETY * self.sd

    def interval(self, feature: int) -> tuple[float, float]:
        half = NINETY * self.sd[feature]
        return self.mean[feature] - half, self.mean[feature] + half

    def surest(self, n: int = SHOWN) -> np.ndarray:
        return np.argsort(self.sd, kind="stable")[:n]

    def least_sure(self, n: int = SHOWN) -> np.ndarray:
        """Return the n features with the largest sd among those seen; the others still have the prior."""
        sd = np.where(self.seen > 0, self.sd, -1.0)
        return np.argsort(-sd, kind="stable")[:n]


@dataclass(frozen=True)
class Study:
    """Runs of all predictors on one stream, and what the bank has learned."""

    stream: simulate.Simulation
    truth: DemoRun
    bank: DemoRun
    marginal: DemoRun
    adagrad: DemoRun
    knowledge: LearnedWeights
    recorder: Recorder  # of the bank's run


class _Timed:
    """Learner that measures the time spent in it."""

    def __init__(self, learner: Any) -> None:
        self.learner, self.seconds = learner, 0.0

    def learn(self, batch: Batch) -> np.ndarray:
        start = time.perf_counter()
        probabilities = self.learner.learn(batch)
        self.seconds += time.perf_counter() - start
        return probabilities


class _Truth:
    """Predictor with the true weights, which also counts how often each feature occurs."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights, self.seen = weights, np.zeros(len(weights), np.int64)

    def learn(self, batch: Batch) -> np.ndarray:
        self.seen += np.bincount(batch.indices, minlength=len(self.seen))
        return 1.0 / (1.0 + np.exp(-(batch.to_csr(len(self.weights)) @ self.weights)))


def _learners(stream: simulate.Simulation) -> tuple[Bank, Marginal, AdaGrad]:
    # The categories already hold one feature that is always on: an intercept would be one too many.
    bank = Bank(stream.n_features, intercept=False, head="auto")
    marginal = Marginal(stream.n_features, prior_variance=stream.prior_variance, intercept=False)
    return bank, marginal, AdaGrad(stream.n_features, learning_rate=ADAGRAD_RATE, intercept=False)


def warm_up() -> None:
    """Compile and load every kernel, so that later timings measure learning alone."""
    stream = simulate.longtail(n_categories=2)
    for learner in _learners(stream):
        evaluate.progressive(learner, stream.batches(10), truth=stream.weights)


def run(n_examples: int, seed: int, console: Console) -> Study:
    """Run every predictor on the same stream, drawn anew for each of them from the same seed."""
    stream = simulate.longtail(n_categories=N_CATEGORIES, seed=seed)
    truth, (bank, marginal, adagrad) = _Truth(stream.weights), _learners(stream)
    recorder = Recorder(bank)
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def measure(name: str, learner: Any) -> DemoRun:
            return _run(name, learner, stream, n_examples, progress)

        return Study(
            stream,
            truth=measure("true weights", truth),
            bank=measure("Bank", recorder),
            marginal=measure("Marginal", marginal),
            adagrad=measure("AdaGrad", adagrad),
            knowledge=_knowledge(bank, stream.weights, truth.seen),
            recorder=recorder,
        )


def _run(name: str, learner: Any, stream: simulate.Simulation, n_examples: int, progress: Progress) -> DemoRun:
    task = progress.add_task(name, total=n_examples, loss="")

    def show(meter: evaluate.Meter) -> None:
        progress.update(task, completed=meter.examples, loss=f"log loss {meter.log_loss:.4f}")

    timed, batches = _Timed(learner), stream.batches(n_examples)
    if isinstance(learner, Recorder):
        batches = learner.split_at_recordings(batches)
    result = evaluate.progressive(timed, batches, truth=stream.weights, on_progress=show)
    return DemoRun(name, result, timed.seconds)


class _Names:
    """Names of the stream's features."""

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features

    def __len__(self) -> int:
        return self._n_features

    def name_of(self, features: np.ndarray) -> list[str]:
        return [feature_name(feature, group) for feature, group in zip(features, category(features), strict=True)]


def write_report(study: Study, path: Path) -> None:
    """Write the report of the bank's run, as `bayou train --report` does."""
    run = report.ReportedRun(study.recorder, study.bank.result, seconds=study.bank.seconds)
    data = report.DataFacts(names=_Names(study.stream.n_features))
    report.write(path, run, data, title="A simulated stream of clicks")


def feature_name(feature: int, group: int) -> str:
    return f"category {group}, no. {feature - (2**group - 2)}"


def category(features: np.ndarray) -> np.ndarray:
    """Return the category of each feature; category j = 1, 2, ... holds the 2^j features from 2^j - 2 on."""
    return np.log2(features + 2).astype(np.int64)


def _knowledge(learner: Learner, truth: np.ndarray, seen: np.ndarray) -> LearnedWeights:
    """Return each weight relative to its category's mean over the rows, with the sd of that difference."""
    features = np.arange(len(truth))
    groups, shares = category(features), seen / max(learner.examples, 1)
    moments, families = FeatureMoments(shares, shares, shares), [(f"{k}", "value") for k in range(groups[-1] + 1)]
    frame = SeenFeatures(features, [None] * len(truth), moments, groups, families, None)
    view = learner.weight_view(features)
    if (joint := view.joint) is None:  # lanes alone are viewed in units of the log-odds; the truth is a score
        weights = learner.weights_at(features)
        view = WeightView(weights.mean, 0.0, [WeightViewPart(1.0, weights, (0.0, 0.0))])
    stats = strengths_of(frame, view, zeros=False)
    centred_truth = truth - np.bincount(groups, truth * shares)[groups]
    assert stats.sd is not None
    return LearnedWeights(stats.mean, stats.sd, centred_truth, seen, 0 if joint is None else len(joint.positions))
