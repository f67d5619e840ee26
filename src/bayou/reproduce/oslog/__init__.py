"""The online Bayesian lasso: the evaluation that its paper leaves open."""

PAPER, PREFIX = "oslog", "oslog-"
CONTENTS = {
    "regression": (1.0, 12.0, "progressive squared loss, regret and coverage on eleven regression sets, "
                              "against ridge, SGD and river"),
    "bound": (0.3, 3.0, "the paper's bound on the loss beside the loss, on eleven regression sets, "
                        "and a case in which it is false"),
    "figure1": (0.05, 0.05, "the weighted square beside |w|, whose place it takes; nothing is learned"),
}  # fmt: skip
TAKE_DATA = ()
