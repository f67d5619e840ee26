"""Figure 4: nine streams, by how many features are active and how large the true weights are (appendix E)."""

from __future__ import annotations

from bayou.reproduce.marginal_gaussian import methods
from bayou.reproduce.marginal_gaussian.streams import Panel
from bayou.reproduce.marginal_gaussian.study import simulated


def panels(weights: str = "normal") -> list[Panel]:
    """A row for each number of active features, a column for each standard deviation of the true weights."""
    return [
        Panel(
            name=f"{active} active, std {std}",
            title=f"d = 200, E[d_t] = {active}, std {std}",
            generator="random",
            settings={"n_features": 200, "active": active / 200, "weight_std": float(std), "weights": weights},
            n_features=200,
            methods=methods.figure_methods(std),
            active=active,
            examples=(1_000_000, 100_000),
        )
        for active in (5, 20, 40)
        for std in (1, 2, 3)
    ]


RECORD = simulated(
    "figure4", "Figure 4: random binary features", panels, grid=(3, 3),
    draws=(2, 3), minutes=(0.6, 4.0),
    what="regret over time; 5, 20 or 40 of 200 features active, weights of std 1, 2 or 3",
)  # fmt: skip
