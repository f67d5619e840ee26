"""Figure 6: categorical features, drawn uniformly or with exponentially decreasing probabilities."""

from __future__ import annotations

from bayou.reproduce.experiment import Report
from bayou.reproduce.marginal_gaussian import methods, picture, study
from bayou.reproduce.marginal_gaussian.streams import Panel


def panels() -> list[Panel]:
    shape = {"n_categories": 10, "category_size": 200, "picked": 5, "weight_std": 2.0}
    sides = (("left: evenly", "evenly", None), ("right: exp(-n/20)", "by exp(-n/20)", 20.0))
    return [
        Panel(
            name=name,
            title=f"10 categories of 200, 5 of each, {drawing}",
            generator="categorical",
            settings={**shape, "decay": decay},
            n_features=2000,
            methods=methods.figure_methods(2.0),
            active=50,
            examples=(300_000, 60_000),
        )
        for name, drawing, decay in sides
    ]


def run(report: Report) -> None:
    study.run(report, "Figure 6: categorical features", panels(), picture.curves(1, 2), draws=(2, 3))
