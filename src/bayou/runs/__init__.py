"""Runs: the work behind each command as a function with a typed result, for Python and the command line alike.

    train     learn from data, with checkpoints, held-out examples and a report (`bayou.train`)
    predict   predict data with a model, as Arrow tables (`bayou.predict`)
    compare   compare several learners in one reading of the data
    select    select the features that matter, for models of several sizes
    merge     several models into one

Nothing here prints: messages go to callbacks and into the results.
"""
