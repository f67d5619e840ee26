"""Low complexity approximate Bayesian logistic regression for sparse online learning: its tables and figures."""

PAPER = "marginal-gaussian"
PREFIX = ""  # of the names that the command has for them
CONTENTS = (
    "table1", "montecarlo", "figure1", "figure2", "figure3", "figure4", "figure5", "figure6", "uniform", "groups",
)  # fmt: skip
