"""Figure 5: values uniform in [0, 1]; and ten times as many features, of which ten times as many are active."""

from __future__ import annotations

from bayou.reproduce.experiment import Experiment, Options, Outcome
from bayou.reproduce.marginal_gaussian import methods, picture, study
from bayou.reproduce.marginal_gaussian.streams import Panel


def panels() -> list[Panel]:
    return [
        Panel(
            name="left: values in [0, 1]",
            title="nonbinary, d = 200, E[d_t] = 40, std 2",
            generator="nonbinary",
            settings={"n_features": 200, "active": 0.2, "weight_std": 2.0},
            n_features=200,
            methods=methods.figure_methods(2.0),
            active=40,
            examples=(300_000, 60_000),
        ),
        Panel(
            name="right: 200 of 2,000 active",
            title="binary, d = 2,000, E[d_t] = 200, std 2",
            generator="random",
            settings={"n_features": 2000, "active": 0.1, "weight_std": 2.0},
            n_features=2000,
            methods=methods.figure_methods(2.0),
            active=200,
            examples=(200_000, 30_000),
        ),
    ]


def run(options: Options) -> Outcome:
    return study.run(
        "figure5", "Figure 5: values in [0, 1]; many active features", panels(), options, picture.curves(1, 2),
        draws=(2, 3), minutes=RECORD.minutes,
    )  # fmt: skip


RECORD = Experiment(
    name="figure5",
    paper=methods.PAPER,
    what="regret over time; left: values uniform in [0, 1]; right: 200 of 2,000 features active",
    minutes=(0.2, 0.5),
    run=run,
)
