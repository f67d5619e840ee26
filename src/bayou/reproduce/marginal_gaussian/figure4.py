"""Figure 4: nine streams, by how many features are active and how large the true weights are (appendix E)."""

from __future__ import annotations

from bayou.reproduce.experiment import Report
from bayou.reproduce.marginal_gaussian import picture, study
from bayou.reproduce.marginal_gaussian.study import Panel, random_panel


def panels(weights: str = "normal") -> list[Panel]:
    """Return the panels, a row per number of active features, a column per standard deviation of the true weights."""
    return [
        random_panel(
            f"{active} active, std {std}", f"d = 200, E[d_t] = {active}, std {std}",
            active=active, std=std, examples=(1_000_000, 100_000), weights=weights,
        )
        for active in (5, 20, 40)
        for std in (1, 2, 3)
    ]  # fmt: skip


def run(report: Report) -> None:
    study.run(report, "Figure 4: random binary features", panels(), picture.curves(3, 3), draws=(2, 3))
