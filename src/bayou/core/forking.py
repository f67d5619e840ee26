"""Fork safety: a child process inherits the locks of learners, but not the threads that hold them.

Before a fork the locks of all learners are acquired, which waits for their current batches, so that the child gets
consistent state. A learner for which that takes too long raises BadInput when the child uses it.
"""

from __future__ import annotations

import os
import time
import weakref
from typing import Any

from bayou.core.errors import BadInput
from bayou.kernels.numba_private import global_compiler_lock

# Seconds that a fork waits for learners, in total.
PATIENCE = 10.0

_alive: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_at_rest: list[Any] = []


def watch(learner: Any) -> None:
    """Register a learner whose `_lock` must be acquired before this process forks."""
    _alive[id(learner)] = learner


class _TornLock:
    """Replacement for the lock of a learner that was forked in the middle of a batch; acquiring it raises BadInput."""

    def __enter__(self) -> None:
        raise BadInput(
            "this process was forked while another thread was learning, so its copy of the learner is torn. Fork "
            "earlier, or give the process a snapshot, a copy or a model file."
        )

    def __exit__(self, *unused: object) -> None:
        pass


def _before() -> None:
    until = time.monotonic() + PATIENCE
    for reference in _alive.valuerefs():  # a list: other threads may create learners meanwhile
        learner = reference()
        if learner is None or isinstance(learner._lock, _TornLock):
            continue
        if learner._lock.acquire(timeout=max(until - time.monotonic(), 0.0)):
            _at_rest.append(learner)
    global_compiler_lock.acquire()  # after the learners: a learning thread may have to compile


def _after_in_parent() -> None:
    global_compiler_lock.release()
    while _at_rest:
        _at_rest.pop()._lock.release()


def _after_in_child() -> None:
    global_compiler_lock.release()
    at_rest = {id(learner) for learner in _at_rest}
    for reference in _alive.valuerefs():
        learner = reference()
        if learner is not None:
            # The fork may have happened inside a `with` of this thread, which releases its own acquisition.
            if id(learner) in at_rest:
                learner._lock.release()
            else:
                learner._lock = _TornLock()
    _at_rest.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
