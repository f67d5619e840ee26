"""What the three ensembles (bank, classes, number bank) share; each combines its members by evidence.

shares      fixed share and Bayes' rule, the constants of both
stackers    what all Bayesian stackers have in common: priors, memory, the coefficients that they come to
delayed     rows predicted before their block was learned, and what later rows are expected to cost
learner     the base class: a learner with a second combination, for when it has stopped learning
"""
