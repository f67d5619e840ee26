"""Shared code of the three ensembles (bank, classes, number bank); each combines its members by evidence.

shares      fixed share and Bayes' rule, and the constants of both
stackers    the common part of all Bayesian stackers: priors, memory, resulting coefficients
delayed     rows predicted before their block was learned, and the expected loss on later rows
learner     the base class: a learner with a second combination, for when it has stopped learning
"""
