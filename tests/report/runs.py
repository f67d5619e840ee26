"""Runs to make reports of: an ordinary one, and what people do to a program."""

import numpy as np

from bayou import Batch, evaluate, simulate
from bayou.learners import AdaGrad, Bank, Classes, Gaussian, Marginal
from bayou.recipe.feature_names import FeatureNames, NewNames
from bayou.report import DataFacts, Recorder, ReportedRun

# A name as nobody should have one.
NASTY = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>&lt;b&gt;\"'%{x}{{ 7*7 }}"


def names(n_features: int) -> FeatureNames:
    """Every feature has a name, each nastier than the other."""
    kept = FeatureNames(n_features)
    for k in range(n_features):
        text = np.frombuffer(f"f{k}={NASTY}".encode(), np.uint8)
        kept.add(NewNames(np.uint32([k]), np.array([[-1, -1, 0, text.size]]), text, text, b"="))
    return kept


def run(learner, batches, **more) -> ReportedRun:
    recorder = Recorder(learner)
    return ReportedRun(recorder, evaluate.progressive(recorder, recorder.split_at_recordings(batches)), **more)


def ordinary(rows: int = 4000, learner=None) -> tuple[ReportedRun, DataFacts]:
    """The bank on a simulated stream, with names, tags and bad lines of an enemy."""
    stream = simulate.random(n_features=40, active=0.2)
    batches = list(stream.batches(rows))
    for batch in batches:
        batch.tags = [NASTY] * len(batch)
        batch.positions = np.arange(len(batch))
    data = DataFacts(
        files=[f"{NASTY}.csv"],
        lines=rows + 2,
        skipped=2,
        bad_lines=[f"x.csv:3:1: expected a number, not {NASTY}.", "x.csv:9: nothing."],
        names=names(40),
        hashed=True,
    )
    return run(learner or Bank(40), batches, seconds=1.5), data


def rows(labels, weights=None) -> Batch:
    return Batch.from_rows([{k % 3: 1.0, 3: 0.5} for k in range(len(labels))], labels=labels, weights=weights)


class Selecting(Marginal):
    """A learner that knows which features are needed."""

    @property
    def inclusion(self) -> np.ndarray:
        return np.linspace(0.0, 1.0, self.n_features)


def classes(n_classes: int = 3, n: int = 1500, learner: str = "marginal", **more) -> tuple[ReportedRun, DataFacts]:
    """Several classes with names of an enemy; class k goes with feature k."""
    rng = np.random.default_rng(0)
    kind = np.minimum(rng.geometric(1.2 / n_classes, n) - 1, n_classes - 1)
    shown = np.where(rng.random(n) < 0.75, kind, rng.integers(0, n_classes, n))
    X = np.column_stack([np.eye(n_classes)[shown], rng.normal(size=n)])
    model = Classes(n_features=n_classes + 1, learner=learner, **more)
    called = [f"{NASTY}{k}" for k in range(n_classes)]
    return run(model, [Batch.from_csr(X, kind)], seconds=1.0), DataFacts(names=names(n_classes + 1), classes=called)


def far_out(n: int = 1500, learner=None) -> ReportedRun:
    """Numbers, a few of which are far from all others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=n) + 10.0
    y[n // 4 :: n // 6] *= [1e4, -1e4, 1e4, 1e4, -1e4][: len(y[n // 4 :: n // 6])]
    return run(learner or Gaussian(4), [Batch.from_csr(X, y)])


ODD = {
    "one class": lambda: run(Classes(n_features=4, learner="marginal"), [rows([7] * 50)]),
    "three rows of two classes": lambda: run(Classes(n_features=4, learner="marginal"), [rows([3, 5, 3])]),
    "no class": lambda: run(Classes(n_features=4, learner="marginal"), []),
    "classes without a posterior": lambda: run(Classes(n_features=4, learner="ftrl"), [rows([1, 0, 2] * 50)]),
    "many classes": lambda: classes(60, 600)[0],
    "one number": lambda: run(Gaussian(4), [rows([3.0])]),
    "numbers far out": far_out,
    "always the same number": lambda: run(Gaussian(4), [rows([2.5] * 100)]),
    "three rows": lambda: run(Bank(4), [rows([1, 0, 1])]),
    "one row": lambda: run(Marginal(4), [rows([1])]),
    "no row": lambda: run(Marginal(4), []),
    "all weights 0": lambda: run(Bank(4), [rows([1, 0], [0.0, 0.0])]),
    "all positive": lambda: run(Bank(4), [rows([1] * 500)]),
    "all negative": lambda: run(Marginal(4, link="probit"), [rows([-1] * 500)]),
    "rows without features": lambda: run(Bank(4), [Batch.from_rows([{}] * 50, labels=[1, 0] * 25)]),
    "no posterior": lambda: run(AdaGrad(4), [rows([1, 0, 0, 1] * 100)]),
    "no intercept": lambda: run(Marginal(4, intercept=False, temper=(0.5, 0.2)), [rows([1, 0, 0, 1] * 100)]),
    "weights": lambda: run(Bank(4), [rows([1, 0, 0, 1] * 100, np.tile([0.0, 1e-3, 7.0, 1.0], 100))]),
    "inclusion": lambda: run(Selecting(4), [rows([1, 0, 0, 1] * 100)]),
    "a lane was dropped": lambda: run(
        Bank(4, preset="wide", narrowing=True), [rows(np.random.default_rng(0).integers(0, 2, 5000))]
    ),
    "own lanes": lambda: run(Bank(4, lanes=[{"prior_variance": 1.0}], combine="share"), [rows([1, 0] * 100)]),
}
