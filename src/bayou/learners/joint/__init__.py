"""Gaussian weights updated together; see `learner`."""

from bayou.learners.joint.learner import Joint

__all__ = ["Joint"]
