"""The bank: several priors learned side by side and combined by evidence; the equations are in `learner`.

presets         what a lane is, and which there are
lanes           what lanes believe, what they say of a row, what they learn of it
rows            how a row is laid out for them
priors          priors that are learned, evidence that fades
groups          of what columns features are
steps           what a label tells a lane
combination     what is made of all they say: for the next row, and for rows after learning has stopped
combination_kernels   its three levels, for a tile of rows
weights         the weights that a bank shows
draws           and those that it draws
merging         one bank out of two
inspection      what it tells of its parts
"""

from bayou.core.registry import Record
from bayou.learners.bank.inspection import OutputInfo
from bayou.learners.bank.learner import Bank
from bayou.learners.bank.presets import PRESETS, Lane

RECORD = Record(
    name="bank",
    path="bayou.learners.bank:Bank",
    estimator="BankClassifier",
    summary="several priors side by side, combined by evidence: nothing to tune",
    paper="none: ours",
    linear=False,
    sharding=True,
)

__all__ = ["PRESETS", "RECORD", "Bank", "Lane", "OutputInfo"]
