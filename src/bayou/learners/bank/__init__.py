"""The bank: several priors learned side by side and combined by evidence; see `learner`."""

from bayou.core.registry import Record
from bayou.learners.bank.learner import PRESETS, Bank, Lane, Output

RECORD = Record(
    name="bank",
    path="bayou.learners.bank:Bank",
    estimator="BankClassifier",
    summary="several priors side by side, combined by evidence: nothing to tune",
    paper="none: ours",
    linear=False,
)

__all__ = ["PRESETS", "Bank", "Lane", "Output"]
