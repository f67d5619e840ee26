"""Table 1's rows VB-100 and VB-1000: variational Bayes with samples instead of nodes. Slow, so by itself."""

from __future__ import annotations

from bayou.reproduce.experiment import Experiment, Options, Outcome
from bayou.reproduce.marginal_gaussian import figure1, methods, picture, study

WHO = (methods.TAYLOR, methods.VARIATIONAL, methods.VB_100, methods.VB_1000)


def run(options: Options) -> Outcome:
    return study.run(
        "montecarlo", "Table 1, variational Bayes by samples", figure1.panels(WHO, (1_000_000, 5_000)), options,
        picture.curves(1, 2), draws=(2, 1), minutes=RECORD.minutes,
    )  # fmt: skip


RECORD = Experiment(
    name="montecarlo",
    paper=methods.PAPER,
    what="Table 1's rows VB-100 and VB-1000, beside Variational with 8 nodes: slow, so by itself",
    minutes=(0.3, 5.0),
    run=run,
)
