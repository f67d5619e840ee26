"""The forest: interactions of any order, above a base learner, in one pass; `learner` says what it is.

codes       bytes for the cells of a table's columns
tree        growing one tree, and finding rows in trees
ring        the rolling forest: trees refitted in turn on the newest rows
stacking    the live answer, the answer for later rows, and the evidence
schedule    when forests begin, and when they are dropped
learner     the learner
"""

from bayou.core.registry import Record
from bayou.learners.forest.codes import Cuts
from bayou.learners.forest.learner import Forest

RECORD = Record(
    name="forest",
    path="bayou.learners.forest:Forest",
    estimator=None,
    summary="rolling boosted trees over the cells of a table, above a bank or another learner; for batches with codes",
    paper="none: ours",
    posterior=False,
    linear=False,
    merge="refused",
    passes="discounted",
)

__all__ = ["RECORD", "Cuts", "Forest"]
