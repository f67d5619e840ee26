"""Low complexity approximate Bayesian logistic regression for sparse online learning: its tables and figures."""
