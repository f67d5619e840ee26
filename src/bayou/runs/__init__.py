"""Runs: what the commands do, without a terminal; each a function with a typed result, for Python as for the command.

    train     learn from data, with checkpoints, held-out examples, a report (`bayou.train`)
    predict   a model's predictions of data, as Arrow tables (`bayou.predict`)
    compare   several learners over one reading of the data
    select    the features that matter, for models of several sizes
    merge     one model of several

Nothing here prints: what there is to say goes to callbacks and into the results.
"""
