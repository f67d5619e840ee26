"""Runs: each command's work as a function with a typed result, used by both Python and the command line.

    train     learn from data, with checkpoints, held-out examples and a report (`bayou.train`)
    predict   predict data with a model, as Arrow tables (`bayou.predict`)
    compare   compare several learners in one pass over the data
    select    select the features that matter, for models of several sizes
    merge     several models into one

Nothing here prints: messages go to callbacks and results.
"""
