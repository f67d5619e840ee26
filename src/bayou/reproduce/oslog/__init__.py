"""The online Bayesian lasso: the evaluation that its paper leaves open."""

PAPER = "oslog"
PREFIX = "oslog-"
CONTENTS = ("regression", "bound", "figure1")
