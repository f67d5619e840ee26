"""Figure 5: values uniform in [0, 1]; and ten times as many features, of which ten times as many are active."""

from __future__ import annotations

from bayou.reproduce.marginal_gaussian import methods
from bayou.reproduce.marginal_gaussian.streams import Panel
from bayou.reproduce.marginal_gaussian.study import simulated


def panels() -> list[Panel]:
    return [
        _panel("left: values in [0, 1]", "nonbinary", 200, 40, (300_000, 60_000)),
        _panel("right: 200 of 2,000 active", "binary", 2000, 200, (200_000, 30_000)),
    ]


def _panel(name: str, kind: str, d: int, active: int, examples: tuple[int, int]) -> Panel:
    return Panel(
        name=name,
        title=f"{kind}, d = {d:,}, E[d_t] = {active}, std 2",
        generator="nonbinary" if kind == "nonbinary" else "random",
        settings={"n_features": d, "active": active / d, "weight_std": 2.0},
        n_features=d,
        methods=methods.figure_methods(2.0),
        active=active,
        examples=examples,
    )


RECORD = simulated(
    "figure5", "Figure 5: values in [0, 1]; many active features", panels, grid=(1, 2),
    draws=(2, 3), minutes=(0.2, 0.5),
    what="regret over time; left: values uniform in [0, 1]; right: 200 of 2,000 features active",
)  # fmt: skip
