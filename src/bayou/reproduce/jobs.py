"""Jobs run in several processes, the longest first, with progress reports."""

from __future__ import annotations

import math
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import Any

from bayou.core.children import safe_environment
from bayou.reproduce.marginal_gaussian.streams import PanelDraw, Trace

# Seconds between two progress reports.
SELDOM = 0.2
# The shared count of work done is set to this to cancel the remaining jobs.
STOP = -math.inf

_done: Any = None


def run_all(jobs: Sequence[PanelDraw], processes: int, watch: Callable[[float], Any]) -> list[Trace]:
    """Run all jobs and return their results, in the order of the jobs whatever the number of processes."""
    total = sum(job.work for job in jobs)
    if min(processes, len(jobs)) <= 1:
        return _one_after_another(jobs, total, watch)
    with safe_environment():
        return _in_processes(jobs, processes, total, watch)


def _in_processes(
    jobs: Sequence[PanelDraw], processes: int, total: float, watch: Callable[[float], Any]
) -> list[Trace]:
    # Spawn: a fork of a process with threads can hang.
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
                    future.result()  # re-raises the exception of the worker
                watch(done.value / total)
        except BaseException:
            done.value = STOP
            pool.shutdown(cancel_futures=True)
            raise
        return [result for k in range(len(jobs)) for result in futures[k].result()]


def _one_after_another(jobs: Sequence[PanelDraw], total: float, watch: Callable[[float], Any]) -> list[Trace]:
    done = 0.0
    results: list[Trace] = []

    def add(work: float) -> None:
        nonlocal done
        done += work
        watch(done / total)

    for job in jobs:
        results += job.run(add)
    return results


def _start(done: Any) -> None:
    global _done
    _done = done
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # interrupts are handled by the parent process


class _Stopped(Exception):
    """The remaining jobs were cancelled."""


def _run(job: PanelDraw) -> Sequence[Trace]:
    def add(work: float) -> None:
        with _done.get_lock():
            if _done.value == STOP:
                raise _Stopped
            _done.value += work

    return job.run(add)
