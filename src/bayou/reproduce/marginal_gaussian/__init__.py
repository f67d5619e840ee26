"""Low complexity approximate Bayesian logistic regression for sparse online learning: its tables and figures."""

PAPER, PREFIX = "marginal-gaussian", ""
# Of each table and figure: minutes of the quick and of the full run on two cores, and what is run.
CONTENTS = {
    "table1": (0.4, 4.0, "regret and time of all methods, 20 or 40 of 200 features active, weights of std 1; "
                         "--examples 10000000 is the table's longer half"),
    "montecarlo": (0.3, 5.0, "Table 1's rows VB-100 and VB-1000, beside Variational with 8 nodes: slow, so by itself"),
    "figure1": (0.4, 4.0, "regret over time, 20 or 40 of 200 features active, weights of std 1: all methods"),
    "figure2": (0.3, 1.0, "left: regret on a long tail of 8,388,606 features; "
                          "right, with --data FILE: loss on a Criteo file"),
    "figure3": (0.05, 0.05, "the logistic distribution beside the normal one of variance 8/pi; nothing is learned"),
    "figure4": (0.6, 4.0, "regret over time; 5, 20 or 40 of 200 features active, weights of std 1, 2 or 3"),
    "figure5": (0.2, 0.5, "regret over time; left: values uniform in [0, 1]; right: 200 of 2,000 features active"),
    "figure6": (0.2, 0.7, "regret over time; five features from each of 10 categories of 200, "
                          "picked evenly or by exp(-n/20)"),
    "uniform": (0.6, 4.0, "appendix E: as figure 4, true weights uniform in +-std sqrt(3)"),
    "groups": (0.2, 1.0, "section 4: several priors, each for a subset of 200 features"),
}  # fmt: skip
TAKE_DATA = ("figure2",)
