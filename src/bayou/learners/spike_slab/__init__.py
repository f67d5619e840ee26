"""Sparse probit regression with an inclusion probability for every feature; see `learner`."""

from bayou.learners.spike_slab.learner import SpikeSlab

__all__ = ["SpikeSlab"]
