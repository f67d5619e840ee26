"""Sparse probit regression with an inclusion probability for every feature; see `learner`."""

from bayou.core.registry import Record
from bayou.learners.spike_slab.learner import SpikeSlab

RECORD = Record(
    "spike-slab", "bayou.learners.spike_slab:SpikeSlab", "SpikeSlabClassifier",
    dtype="float64", linear=False, passes="multi",
    summary="selects features: each has a probability to matter; expectation propagation on a stream",
    paper="olss, sections II, III; olss-slides",
)  # fmt: skip

__all__ = ["SpikeSlab"]
