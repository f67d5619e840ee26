"""The bank: several priors learned side by side and combined by evidence; see `learner`."""

from bayou.learners.bank.learner import PRESETS, Bank, Lane, Output

__all__ = ["PRESETS", "Bank", "Lane", "Output"]
