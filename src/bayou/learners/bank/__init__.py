"""The bank: several priors learned side by side and combined by evidence; the equations are in `learner`.

learner         `Bank`, with the equations
presets         the settings of a lane, what to change for a new one, and sets of lanes to choose from
lanes           the lanes: state, predictions and updates
row_scaling     layout of a row for the lanes
priors          learned priors, and evidence that fades
groups          groups of features, and the prior of each
updates         updates of a lane from a label
head            a joint posterior of the features used most; head_kernels, head_matrix, head_merging, head_shards
pairs           lanes of pairs of features: crosses, factors; pair_merging, pair_explanations
dropping        dropping outputs that do not pay off
running         running rows through lanes and combinations
combination     the combination of the lanes: for the next row, and for rows after learning has stopped
combination_kernels   its three levels, for a tile of rows
linearization   the weights that a bank shows
sampling        draws of weights
merging         merging several banks into one
shards          a bank as a shard
recombining     relearning the combination of lanes that were learned in shards
inspection      settings and statistics of each part
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
    passes="discounted",
)

__all__ = ["PRESETS", "RECORD", "Bank", "Lane", "OutputInfo"]
