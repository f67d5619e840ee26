"""The methods of marginal-gaussian, section 4 and appendix D, with the grids their settings are chosen from.

The paper's names: Gauss is Marginal with Newton's mean, ApproxG (Gauss Approx) with Taylor's; L is the laplace variance
and G the peak's. DimGauss is Joint, ADF is Moment, VB is Variational, SGD is AdaGrad. Grids of priors are multiples of
the true variance.

The paper does not specify its ADF. Its regret grows like that of a probit model on logistic labels: "Moment probit".
"Moment probit step" makes the same updates and predicts with the sigmoid, (8); "Moment exact" updates and predicts
under the sigmoid.
"""

from __future__ import annotations

from bayou.reproduce.marginal_gaussian.streams import PRIOR, Method

MATCHED: dict = {"varied": PRIOR, "values": (1.0,)}

MARGINAL = Method("Marginal", "Marginal", **MATCHED)
NEWTON = Method("Marginal newton", "Marginal", {"mean_update": "newton"}, **MATCHED)
TAYLOR = Method("Marginal taylor", "Marginal", {"mean_update": "taylor"}, **MATCHED)
NEWTON_PEAK = Method(
    "Marginal newton, peak", "Marginal", {"mean_update": "newton", "variance_update": "peak"}, **MATCHED
)
TAYLOR_PEAK = Method(
    "Marginal taylor, peak", "Marginal", {"mean_update": "taylor", "variance_update": "peak"}, **MATCHED
)
BEST_PRIOR = Method("Marginal, best prior", "Marginal", {}, PRIOR, (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0))
PRIOR_ONE = Method("Marginal, prior 1", "Marginal", {"prior_variance": 1.0})

JOINT = Method(
    "Joint", "Joint", {}, PRIOR, (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 20.0, 40.0, 60.0, 100.0, 200.0)
)
# A probit model matches the sigmoid's with weights sqrt(pi/8) times as large: variances are in these units.
MOMENT_PROBIT = Method(
    "Moment probit", "Moment", {"link": "probit", "expectation": "probit"}, PRIOR, (0.1, 0.16, 0.22, 0.28, 0.4, 0.6)
)
MOMENT_STEP = Method("Moment probit step", "Moment", {"expectation": "probit"}, PRIOR, (0.5, 0.7, 1.0, 1.5, 2.0))
MOMENT_EXACT = Method("Moment exact", "Moment", {"expectation": "exact"}, **MATCHED)
VARIATIONAL = Method("Variational", "Variational", {"expectation": "quadrature", "n_points": 8}, **MATCHED)
VB_100 = Method("VB-100", "Variational", {"expectation": "monte-carlo", "n_points": 100}, **MATCHED)
VB_1000 = Method("VB-1000", "Variational", {"expectation": "monte-carlo", "n_points": 1000}, **MATCHED)
ADAGRAD = Method("AdaGrad", "AdaGrad", {}, "learning_rate", (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5))
BANK = Method("Bank", "Bank")

# Methods that Algorithm 1 outperforms according to the paper; the exact Moment and the bank are not in it.
RIVALS = ("Joint", "Moment probit", "Variational", "AdaGrad")


def figure_methods(std: float) -> tuple[Method, ...]:
    """Return the methods that the figures compare; prior 1 shows the cost of a prior that does not match."""
    narrow = () if std == 1.0 else (PRIOR_ONE,)
    return (MARGINAL, *narrow, JOINT, MOMENT_PROBIT, MOMENT_STEP, MOMENT_EXACT, ADAGRAD, BANK)
