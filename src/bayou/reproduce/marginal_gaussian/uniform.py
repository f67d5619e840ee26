"""Appendix E: figure 4 with true weights that are uniformly distributed around 0, with the same variances."""

from __future__ import annotations

from bayou.reproduce.marginal_gaussian import figure4
from bayou.reproduce.marginal_gaussian.streams import Panel
from bayou.reproduce.marginal_gaussian.study import simulated


def panels() -> list[Panel]:
    return figure4.panels("uniform")


run = simulated(
    __name__, "Appendix E: as figure 4, weights uniformly distributed", panels, grid=(3, 3),
    draws=(2, 3), minutes=(0.6, 4.0),
    what="appendix E: as figure 4, true weights uniform in +-std sqrt(3)",
)  # fmt: skip
