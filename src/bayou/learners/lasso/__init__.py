"""L1-penalized regression from quadratic sketches; the equations are in `learner`.

    problem     penalties, weights and the quadratic, shared by all algorithms
    expansion   reading examples into the quadratic
    sketch      the quadratic where it is too large for one matrix
    online      algorithm 2: a single pass
    multipass   section 5 and algorithm 3: several passes, with a certificate

The maximum under the penalty is found by `bayou.kernels.l1_solver`.
"""

from bayou.core.registry import Record
from bayou.learners.lasso.learner import Lasso

RECORD = Record(
    "lasso", "bayou.learners.lasso:Lasso", "LassoClassifier",
    dtype="float64", posterior=False, merge="exact", passes="multi",
    summary="L1-penalised regression from quadratic sketches: online, or exact in a few passes with a certificate",
    paper="quadratic-l1",
)  # fmt: skip

__all__ = ["Lasso"]
