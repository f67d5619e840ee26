"""Appendix E: figure 4 with true weights that are uniformly distributed around 0, with the same variances."""

from __future__ import annotations

from bayou.reproduce.experiment import Report
from bayou.reproduce.marginal_gaussian import figure4, picture, study
from bayou.reproduce.marginal_gaussian.streams import Panel


def panels() -> list[Panel]:
    return figure4.panels("uniform")


def run(report: Report) -> None:
    study.run(
        report, "Appendix E: as figure 4, weights uniformly distributed", panels(), picture.curves(3, 3), draws=(2, 3)
    )
