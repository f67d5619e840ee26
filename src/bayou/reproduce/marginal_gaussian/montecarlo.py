"""Table 1's rows VB-100 and VB-1000: variational Bayes with samples instead of nodes. Separate because it is slow."""

from __future__ import annotations

from bayou.reproduce.experiment import Report
from bayou.reproduce.marginal_gaussian import figure1, methods, picture, study
from bayou.reproduce.marginal_gaussian.streams import Panel

WHO = (methods.TAYLOR, methods.VARIATIONAL, methods.VB_100, methods.VB_1000)


def panels() -> list[Panel]:
    return figure1.panels(WHO, (1_000_000, 5_000))


def run(report: Report) -> None:
    study.run(report, "Table 1, variational Bayes by samples", panels(), picture.curves(1, 2), draws=(2, 1))
