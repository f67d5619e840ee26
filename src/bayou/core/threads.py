"""Threads that learners work in besides their caller's. A process that was forked has none, and makes its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_here = threading.local()
_pools: dict[int, ThreadPoolExecutor] = {}


def follower() -> ThreadPoolExecutor:
    """A thread of the present one's own, in which what follows can be done in order."""
    if getattr(_here, "process", None) != os.getpid():
        _here.process, _here.pool = os.getpid(), ThreadPoolExecutor(1, "bayou-combination")
    return _here.pool


def all_done(work: Sequence[Callable[[], Any]], apart: bool) -> None:
    """Do all of the work, `apart` in several threads; nothing may depend on the order. The first error is raised.

    >>> done = []
    >>> all_done([lambda: done.append(1), lambda: done.append(2)], apart=True)
    >>> sorted(done)
    [1, 2]
    """
    if not apart or len(work) < 2 or _cores() < 2:
        for task in work:
            task()
        return
    # All come to an end before anything is raised: whoever called owns the arrays that they write into.
    futures = [_workers().submit(task) for task in work]
    errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None:
            raise error


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _workers() -> ThreadPoolExecutor:
    if os.getpid() not in _pools:
        _pools.clear()
        _pools[os.getpid()] = ThreadPoolExecutor(_cores(), "bayou-worker")
    return _pools[os.getpid()]
