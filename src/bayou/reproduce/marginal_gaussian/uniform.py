"""Appendix E: as figure 4, with true weights that are uniformly distributed around 0, of the same variances."""

from __future__ import annotations

from bayou.reproduce.experiment import Experiment, Options, Outcome
from bayou.reproduce.marginal_gaussian import figure4, methods, picture, study


def run(options: Options) -> Outcome:
    return study.run(
        "uniform", "Appendix E: as figure 4, weights uniformly distributed", figure4.panels("uniform"), options,
        picture.curves(3, 3), draws=(2, 3), minutes=RECORD.minutes,
    )  # fmt: skip


RECORD = Experiment(
    name="uniform",
    paper=methods.PAPER,
    what="appendix E: as figure 4, true weights uniform in +-std sqrt(3)",
    minutes=(0.6, 4.0),
    run=run,
)
