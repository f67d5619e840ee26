"""Multiclass: a learner for each class against the rest, and a stack that all share; the equations are in `learner`.

class_labels    labels of classes, and the class of each row
compact_index   rows of features in the learners' tables
stack_inputs    the stack on the outputs of all learners
stacker         one of its stackers
parallel        running a stack, in threads
running         running rows through learners and stacks
sampling        probabilities under drawn weights
members         the learners of the classes
new_classes     turning a binary learner into a multiclass one
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
    passes="discounted",
)

__all__ = ["RECORD", "Classes"]
