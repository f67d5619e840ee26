"""Processes that are forked while other threads learn: the child has their locks, but not the threads that hold them.

Before a fork all learners come to rest, between two batches, so that the child has whole ones. A learner for which that
takes too long is, in the child, no learner: it says so when it is used.
"""

from __future__ import annotations

import os
import time
import weakref
from typing import Any

from bayou.core.errors import BadInput
from bayou.kernels.numba_private import global_compiler_lock

# How many seconds a fork waits for learners.
PATIENCE = 10.0

_alive: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_at_rest: list[Any] = []


def watch(learner: Any) -> None:
    """Have a learner, whose lock is `_lock`, at rest when this process is forked."""
    _alive[id(learner)] = learner


class _TornLock:
    """In the place of the lock of a learner that was forked in the middle of a batch."""

    def __enter__(self) -> None:
        raise BadInput(
            "this process was forked while another thread was learning: here the learner is torn. Fork before, or give "
            "the process a snapshot, a copy or a model file."
        )

    def __exit__(self, *unused: object) -> None:
        pass


def _before() -> None:
    until = time.monotonic() + PATIENCE
    for reference in _alive.valuerefs():  # a list: other threads may make learners meanwhile
        learner = reference()
        if learner is None or isinstance(learner._lock, _TornLock):
            continue
        if learner._lock.acquire(timeout=max(until - time.monotonic(), 0.0)):
            _at_rest.append(learner)
    global_compiler_lock.acquire()  # after the learners: whoever learns may have to compile


def _after_in_parent() -> None:
    global_compiler_lock.release()
    while _at_rest:
        _at_rest.pop()._lock.release()


def _after_in_child() -> None:
    global_compiler_lock.release()
    whole = {id(learner) for learner in _at_rest}
    for reference in _alive.valuerefs():
        learner = reference()
        if learner is not None:
            # The fork may have come within a `with` of this thread, which lets go of what it took.
            if id(learner) in whole:
                learner._lock.release()
            else:
                learner._lock = _TornLock()
    _at_rest.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
