"""Figure 1: regret over time on the two streams of Table 1 (marginal-gaussian, section 4)."""

from __future__ import annotations

from bayou.reproduce.experiment import Report
from bayou.reproduce.marginal_gaussian import methods, picture, study
from bayou.reproduce.marginal_gaussian.streams import Method, Panel
from bayou.reproduce.marginal_gaussian.study import random_panel

MINUTE, HOUR = 60.0, 3600.0
MILLION = 1_000_000

# Table 1, by method: (r, seconds) at a million and at ten million examples, with 20 active features and with 40. The
# paper's Gauss is our newton, ApproxG our taylor; it says that both variance rules give the same results, and
# prints one number.
TABLE_1: dict[str, tuple[tuple[tuple[float, float], ...], ...]] = {
    "AdaGrad": (((117.6, 8), (135.9, 58)), ((246.3, 10), (219.88, 78))),
    "Moment probit": (((190.3, 6), (540.3, 45)), ((178.6, 7), (388.51, 53))),
    "Joint": (((78.02, 9), (82.54, 61)), ((97.52, 14), (109.16, 102))),
    "Marginal newton": (((77.66, 9), (93.85, 65)), ((91.5, 14), (144.28, 92))),
    "Marginal taylor": (((77.66, 9), (93.85, 65)), ((91.5, 12), (144.28, 92))),
    "VB-100": (
        ((144.22, 3 * MINUTE + 47), (649.57, 35 * MINUTE + 25)),
        ((202.9, 7 * MINUTE + 21), (1125.3, HOUR + 10 * MINUTE + 25)),
    ),
    "VB-1000": (((85.07, 35 * MINUTE + 16),), ((104.31, HOUR + 11 * MINUTE + 1),)),
}
# Table 1's VB is compared with the best setting of our grid, in which 8 nodes of quadrature replace the samples.
TABLE_1["Variational"] = TABLE_1["VB-1000"]
# By the mean number of active features: {method: {examples: (r, seconds)}}.
PRINTED = {
    active: {
        method: dict(zip((MILLION, 10 * MILLION), printed[k], strict=False)) for method, printed in TABLE_1.items()
    }
    for k, active in enumerate((20, 40))
}

ALL = (
    methods.NEWTON, methods.TAYLOR, methods.NEWTON_PEAK, methods.TAYLOR_PEAK, methods.BEST_PRIOR, methods.JOINT,
    methods.MOMENT_PROBIT, methods.MOMENT_STEP, methods.MOMENT_EXACT, methods.VARIATIONAL,
    methods.ADAGRAD, methods.BANK,
)  # fmt: skip


def panels(methods: tuple[Method, ...] = ALL, examples: tuple[int, int] = (MILLION, 100_000)) -> list[Panel]:
    """Return the two streams of Table 1: 200 features, 20 or 40 active on average, true weights of std 1."""
    return [
        random_panel(
            f"{active} active", f"d = 200, E[d_t] = {active}, std 1",
            active=active, std=1.0, examples=examples, methods=methods, paper=PRINTED[active],
        )
        for active in (20, 40)
    ]  # fmt: skip


def run(report: Report) -> None:
    study.run(report, "Figure 1: regret on the streams of Table 1", panels(), picture.curves(1, 2), draws=(2, 5))
