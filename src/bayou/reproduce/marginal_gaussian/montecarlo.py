"""Table 1's rows VB-100 and VB-1000: variational Bayes with samples instead of nodes. Separate because it is slow."""

from __future__ import annotations

from bayou.reproduce.marginal_gaussian import figure1, methods
from bayou.reproduce.marginal_gaussian.streams import Panel
from bayou.reproduce.marginal_gaussian.study import simulated

WHO = (methods.TAYLOR, methods.VARIATIONAL, methods.VB_100, methods.VB_1000)


def panels() -> list[Panel]:
    return figure1.panels(WHO, (1_000_000, 5_000))


run = simulated(
    __name__, "Table 1, variational Bayes by samples", panels, grid=(1, 2),
    draws=(2, 1), minutes=(0.3, 5.0),
    what="Table 1's rows VB-100 and VB-1000, beside Variational with 8 nodes: slow, so by itself",
)  # fmt: skip
