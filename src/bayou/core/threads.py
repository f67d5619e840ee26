"""Threads that learners work in besides their caller's. A process that was forked has none, and makes its own."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any, Self

# So many work at once even on fewer cores: of three tasks on two cores none waits for another to end.
LEAST_WORKERS = 3

_here = threading.local()
_pools: dict[int, ThreadPoolExecutor] = {}


class _AtOnce(Executor):
    """Does what it is given before it answers."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def follower() -> Executor:
    """A thread of the present one's own, in which what follows can be done in order.

    Where several threads are at work, there is no core left for it: then it is done at once.
    """
    if getattr(_here, "one_of_many", False):
        return _AtOnce()
    if getattr(_here, "process", None) != os.getpid():
        _here.process, _here.pool = os.getpid(), ThreadPoolExecutor(1, "bayou-combination")
    return _here.pool


class InTurn:
    """Work that a thread of its own does, in order, while whoever brings it goes on.

    No more than `most` wait for it. What fails there is raised by a later `do`, or by `wait`. Behind the `with` nothing
    is done any more.

    >>> done = []
    >>> with InTurn("counting", most=2) as turn:
    ...     for k in range(3):
    ...         turn.do(done.append, k)
    ...     turn.wait()
    >>> done
    [0, 1, 2]
    """

    def __init__(self, name: str, most: int) -> None:
        self._thread, self._most = ThreadPoolExecutor(1, f"bayou-{name}"), most
        self._waiting: deque[Future[Any]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def do(self, work: Callable[..., Any], *args: Any) -> None:
        self._waiting.append(self._thread.submit(work, *args))
        self.wait(self._most)

    def wait(self, but: int = 0) -> None:
        """Until all is done but so much."""
        while len(self._waiting) > but:
            self._waiting.popleft().result()


def all_done(work: Sequence[Callable[[], Any]], apart: bool) -> None:
    """Do all of the work, `apart` in several threads; nothing may depend on the order. The first error is raised.

    >>> done = []
    >>> all_done([lambda: done.append(1), lambda: done.append(2)], apart=True)
    >>> sorted(done)
    [1, 2]
    """
    # One of those threads must not wait for them: there might be none left to do its work.
    if not apart or len(work) < 2 or _cores() < 2 or getattr(_here, "one_of_many", False):
        for task in work:
            task()
        return
    futures = [_workers().submit(task) for task in work]
    try:
        wait(futures)
    finally:  # also when interrupted: whoever called owns the arrays that they write into
        wait(futures)
    for future in futures:
        future.result()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _workers() -> ThreadPoolExecutor:
    if os.getpid() not in _pools:
        _pools.clear()
        _pools[os.getpid()] = ThreadPoolExecutor(max(_cores(), LEAST_WORKERS), "bayou-worker", _is_one_of_many)
    return _pools[os.getpid()]


def _is_one_of_many() -> None:
    _here.one_of_many = True
