"""Jobs shared among processes, the longest first, with reports of how far they are."""

from __future__ import annotations

import math
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import Any, Protocol, TypeVar

from bayou.core.children import safe_environment

Result_co = TypeVar("Result_co", covariant=True)

# Seconds between two looks at how far the processes are.
SELDOM = 0.2
# The work done is set to this when the rest is no longer wanted.
STOP = -math.inf

_done: Any = None


class Job(Protocol[Result_co]):
    """What one process does at a time. It must be picklable."""

    @property
    def work(self) -> float:
        """How much it is, in any unit that all jobs share."""

    def run(self, on_work: Callable[[float], Any]) -> Sequence[Result_co]:
        """Do it, and call `on_work` with each part of the work that is done."""


def run_all(jobs: Sequence[Job[Result_co]], processes: int, watch: Callable[[float, float], Any]) -> list[Result_co]:
    """The results of all jobs, in the jobs' order, whatever the number of processes."""
    total = sum(job.work for job in jobs)
    if min(processes, len(jobs)) <= 1:
        return _one_after_another(jobs, total, watch)
    with safe_environment():
        return _in_processes(jobs, processes, total, watch)


def _in_processes(
    jobs: Sequence[Job[Result_co]], processes: int, total: float, watch: Callable[[float, float], Any]
) -> list[Result_co]:
    # Spawned: a forked copy of a process with threads can hang.
    context = multiprocessing.get_context("spawn")
    done = context.Value("d", 0.0)
    order = sorted(range(len(jobs)), key=lambda k: -jobs[k].work)
    with ProcessPoolExecutor(min(processes, len(jobs)), context, _start, (done,)) as pool:
        try:
            futures = {k: pool.submit(_run, jobs[k]) for k in order}
            waiting = set(futures.values())
            while waiting:
                finished, waiting = wait(waiting, timeout=SELDOM, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()  # what went wrong there goes wrong here
                watch(done.value, total)
        except BaseException:
            done.value = STOP
            pool.shutdown(cancel_futures=True)
            raise
        return [result for k in range(len(jobs)) for result in futures[k].result()]


def _one_after_another(
    jobs: Sequence[Job[Result_co]], total: float, watch: Callable[[float, float], Any]
) -> list[Result_co]:
    done = 0.0
    found: list[Result_co] = []

    def add(work: float) -> None:
        nonlocal done
        done += work
        watch(done, total)

    for job in jobs:
        found += job.run(add)
    return found


def _start(done: Any) -> None:
    global _done
    _done = done
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that started this one


class _Stopped(Exception):
    """The result is no longer wanted."""


def _run(job: Job[Result_co]) -> Sequence[Result_co]:
    def add(work: float) -> None:
        with _done.get_lock():
            if _done.value == STOP:
                raise _Stopped
            _done.value += work

    return job.run(add)
