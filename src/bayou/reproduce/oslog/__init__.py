"""The online Bayesian lasso: the evaluation that its paper leaves open."""
