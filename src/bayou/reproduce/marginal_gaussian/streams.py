"""Panels of figures and tables: a stream and the methods that are compared on it.

A method is a learner with all its settings but one; the values of that one are its grid. Every learner of every grid
learns each batch as it is drawn, so a stream is drawn once, however many learners there are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayou import evaluate, learners, simulate
from bayou.core import links
from bayou.core.batch import Batch
from bayou.evaluate.binary import Meter

# Marks grids whose values are multiples of the true prior variance, not values of a parameter of the learner.
PRIOR = "prior"


@dataclass(frozen=True)
class Method:
    """Learner and the grid of one of its parameters.

    Attributes:
        name: its name in tables and pictures.
        learner: the class in bayou.learners.
        settings: the parameters that are fixed.
        varied: the parameter whose values are tried: PRIOR, or one of the learner's own.
        values: the grid.
    """

    name: str
    learner: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    varied: str | None = None
    values: tuple[float, ...] = ()

    def contestants(self, n_features: int, true_prior: Any, intercept: bool) -> list[Contestant]:
        """Return a new learner for every value of the grid."""
        make = getattr(learners, self.learner)
        fixed = {"intercept": intercept, **self.settings}
        if self.varied is None:
            return [Contestant(self.name, "", make(n_features, **fixed))]
        entrants = []
        for value in self.values:
            name, setting = self.varied, value
            text = f"{name.replace('_', ' ')} {value:g}"
            if name == PRIOR:
                name, setting = "prior_variance", value * true_prior
                text = f"prior {setting:g}" if np.ndim(setting) == 0 else f"prior x {value:g}"
            entrants.append(Contestant(self.name, text, make(n_features, **fixed, **{name: setting})))
        return entrants


@dataclass(frozen=True)
class Contestant:
    """Learner at one setting of a method."""

    method: str
    setting: str
    learner: Any


@dataclass(frozen=True)
class Panel:
    """Stream, the methods compared on it, and the paper's numbers.

    Attributes:
        name: its name in files and tables; title: in the picture.
        generator: the name of a stream in bayou.simulate; settings: its parameters.
        n_features: d.
        methods: the methods compared.
        active: approximate number of features of an example, for estimating the work.
        examples: the numbers of examples of the full and of the quick run.
        paper: the paper's numbers, by method: {examples: (r, seconds or None)}.
    """

    name: str
    title: str
    generator: str
    settings: Mapping[str, Any]
    n_features: int
    methods: tuple[Method, ...]
    active: float
    examples: tuple[int, int]
    paper: Mapping[str, Mapping[int, tuple[float, float | None]]] = field(default_factory=dict)

    def stream(self, seed: int) -> simulate.Simulation:
        return simulate.GENERATORS[self.generator](seed=seed, **self.settings)

    def n_examples(self, quick: bool, requested: int | None) -> int:
        return requested or self.examples[1 if quick else 0]


@dataclass(frozen=True)
class Trace:
    """Curve of one learner over one draw of a stream.

    Attributes:
        example, loss, regret: number of examples, summed log loss and regret so far; regret is None without a truth.
        seconds: CPU time to draw the stream, learn it and score it, as if this learner had run alone.
    """

    panel: str
    method: str
    setting: str
    draw: int
    example: np.ndarray
    loss: np.ndarray
    regret: np.ndarray | None
    seconds: float

    @property
    def normalized(self) -> np.ndarray:
        """Return r_t = R_t / ln t, which is NaN at t = 1."""
        assert self.regret is not None
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.example > 1, self.regret / np.log(self.example), np.nan)


def one_pass(
    contestants: list[Contestant],
    batches: Iterable[Batch],
    *,
    panel: str,
    draw: int = 0,
    truth: np.ndarray | None = None,
    link: str = "logistic",
    on_batch: Callable[[int], Any] = lambda examples: None,
) -> list[Trace]:
    """Run all contestants over the stream once: each predicts every batch and then learns it."""
    meters = [Meter(regret=truth is not None) for _ in contestants]
    spent = np.zeros(len(contestants))
    shared, clock = 0.0, time.thread_time()
    for batch in batches:
        losses = None
        if truth is not None:
            losses = evaluate.comparator_losses(batch, truth, 0.0, links.link_code(link))
        time_now = time.thread_time()
        shared, clock = shared + time_now - clock, time_now
        for k, contestant in enumerate(contestants):
            probabilities = contestant.learner.learn(batch)
            meters[k].add(probabilities, batch.labels, batch.weights, comparator_losses=losses, nonzeros=batch.nonzeros)
            time_now = time.thread_time()
            spent[k], clock = spent[k] + time_now - clock, time_now
        on_batch(len(batch))
    traces = []
    for contestant, meter, seconds in zip(contestants, meters, spent, strict=True):
        curve = meter.curve()  # `result` would also compute AUC and more, which are not needed here
        traces.append(
            Trace(
                panel, contestant.method, contestant.setting, draw,
                curve["example"], curve["cumulative_loss"], curve.get("regret"), shared + float(seconds),
            )
        )  # fmt: skip
    return traces


@dataclass(frozen=True)
class PanelDraw:
    """Job of one process: one draw of one panel."""

    panel: Panel
    seed: int
    examples: int

    @property
    def work(self) -> float:
        return self.examples * self.panel.active * sum(max(1, len(method.values)) for method in self.panel.methods)

    def run(self, on_work: Callable[[float], Any] = lambda work: None) -> list[Trace]:
        stream = self.panel.stream(self.seed)
        contestants = [
            contestant
            for method in self.panel.methods
            for contestant in method.contestants(stream.n_features, stream.prior_variance, intercept=False)
        ]
        self._warm_up(stream)
        return one_pass(
            contestants,
            stream.batches(self.examples),
            panel=self.panel.name,
            draw=self.seed,
            truth=stream.weights,
            link=stream.link,
            on_batch=lambda examples: on_work(self.work * examples / self.examples),
        )

    def _warm_up(self, stream: simulate.Simulation) -> None:
        """Compile all kernels before timing starts, by drawing one example and learning a small stream."""
        for _ in stream.batches(1):
            pass
        small = simulate.random(n_features=16, active=0.5)
        once = [method.contestants(16, 1.0, intercept=False)[0] for method in self.panel.methods]
        one_pass(once, small.batches(16), panel="", truth=small.weights)
