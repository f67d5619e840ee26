"""Several classes: a learner for each against the rest, and a stack that all share; the equations are in `learner`.

labels      which classes there are, and which rows are theirs
table       where the weights of a feature stand
stack       what is made of what all learners say
combining   and how, in threads
running     rows through learners and stacks
draws       probabilities under drawn weights
members     the learners of the classes
extending   classes for a learner of two
"""

from bayou.core.registry import Record
from bayou.learners.classes.learner import Classes

RECORD = Record(
    name="classes",
    path="bayou.learners.classes:Classes",
    estimator=None,
    summary="several classes: a bank, or another learner, for each against the rest, under a shared softmax",
    paper="none: ours",
    task="multiclass",
    linear=False,
    merge="refused",
)

__all__ = ["RECORD", "Classes"]
