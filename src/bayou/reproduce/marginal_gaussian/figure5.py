"""Figure 5: values uniform in [0, 1]; and indicators with 10 times as many features, 10 times as many active."""

from __future__ import annotations

from bayou.reproduce.experiment import Report
from bayou.reproduce.marginal_gaussian import picture, study
from bayou.reproduce.marginal_gaussian.study import Panel, random_panel


def panels() -> list[Panel]:
    return [
        random_panel(
            "left: values in [0, 1]", "nonbinary, d = 200, E[d_t] = 40, std 2",
            active=40, std=2.0, examples=(300_000, 60_000), generator="nonbinary",
        ),
        random_panel(
            "right: 200 of 2,000 active", "binary, d = 2,000, E[d_t] = 200, std 2",
            n_features=2000, active=200, std=2.0, examples=(200_000, 30_000),
        ),
    ]  # fmt: skip


def run(report: Report) -> None:
    study.run(report, "Figure 5: values in [0, 1]; many active features", panels(), picture.curves(1, 2), draws=(2, 3))
