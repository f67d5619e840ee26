"""Section 4: several priors, each governing a subset of the features. Marginal is given the prior of each feature."""

from __future__ import annotations

from bayou.reproduce.experiment import Report
from bayou.reproduce.marginal_gaussian import methods, picture, study
from bayou.reproduce.marginal_gaussian.streams import Panel

# Standard deviations of the true weights; each applies to an equal number of the 200 features.
GROUPS = ((0.5, 2.0), (0.5, 1.0, 2.0, 4.0))


def panels() -> list[Panel]:
    return [
        Panel(
            name="std " + " ".join(f"{std:g}" for std in stds),
            title=f"d = 200, E[d_t] = 20, {len(stds)} groups of std " + ", ".join(f"{std:g}" for std in stds),
            generator="groups",
            settings={"groups": tuple((200 // len(stds), std) for std in stds), "active": 0.1},
            n_features=200,
            methods=methods.figure_methods(0.0),
            active=20,
            examples=(1_000_000, 100_000),
        )
        for stds in GROUPS
    ]


def run(report: Report) -> None:
    study.run(report, "Section 4: several priors", panels(), picture.curves(1, 2), draws=(2, 3))
