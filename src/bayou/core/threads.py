"""Tools for threads, and the map of threads that live for a run. A forked process starts its own.

Training (`runs/train.py`):

    the caller          hands out blocks, settles names and labels in the order of the stream, predicts and learns: the
                        lanes, every table of weights; parses a block itself where it would wait
    bayou-ahead         parses the next blocks (`sources/reading/parallel_map.py: ParallelMap`); one or several
    bayou-scoring       scores predictions, counts features, and runs the bank's combination, all behind the caller
                        (`runs/train.py`: a `SerialExecutor` that `Learner.observe` gets)
    bayou-following     the same for a batch that `Learner.learn` cuts into chunks (`core/learner.py`)
    bayou-combination   the same for a bank that was given neither: `pipeline_executor`, one for each calling thread
    bayou-worker        classes of a multiclass learner, lanes of pairs, prior groups, side by side: `run_all`
    bayou-writer        writes predictions (`outputs/prediction_files.py`)

`runs/compare.py` learns each entrant in a thread of a pool; each worker process of `rounds/processes.py` has a thread
that sends it blocks; `kernels/huge_pages.py` fills the huge pages of a table in a thread that ends on its own.

The server (`serve/`); the last seven exist once for each model:

    the main thread     network: connections, requests, responses (`server.py`, `app.py`)
    bayou-messages      writes messages for operators (`messages.py`)
    bayou-start         opens the state folder, replays the log and warms up (`service.py`); ends then
    bayou-check         compares the older entries of the log with their checksums (`service.py`); ends then
    bayou-read-NAME     parses rows of large requests (`service.py`: `pool`)
    bayou-model         owns the model: checks rows, learns, predicts (`owner.py: Owner`); no other thread touches it
    bayou-log           writes the log, one transaction for all that is queued (`log_writer.py: LogWriter`)
    bayou-write-NAME    saves snapshots that the owner has made (`service.py`)
    bayou-follow        on a replica: looks for new snapshots of the primary (`service.py`)

A run's result depends on none of this: each thread gets its work in the order of the stream, or its work has no order.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any, Self

# Minimum number of workers, even with fewer cores: with three tasks on two cores none waits for another to end.
MIN_WORKERS = 3
# Increment of the nice value of threads that give way.
NICENESS_STEP = 5

_here = threading.local()
_pools: dict[int, ThreadPoolExecutor] = {}


def lower_thread_priority() -> None:
    """Lower the priority of the current thread, so that it does not take a core from the thread it works for.

    Does nothing except on Linux, where each thread has its own priority.
    """
    if sys.platform == "linux":
        thread_id = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread_id, os.getpriority(os.PRIO_PROCESS, thread_id) + NICENESS_STEP)


class _InlineExecutor(Executor):
    """Executor that runs each task in `submit`."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


@contextmanager
def with_io_threads() -> Iterator[None]:
    """Declare that reader and writer threads run alongside the current one inside the block."""
    before, _here.accompanied = getattr(_here, "accompanied", False), True
    try:
        yield
    finally:
        _here.accompanied = before


def pipeline_executor() -> Executor:
    """Return an executor for deferred work of the current thread: a dedicated thread, which runs tasks in order.

    If several threads are busy and no core is free, return an executor that runs tasks immediately.
    """
    crowded = getattr(_here, "accompanied", False) and available_cores() <= MIN_WORKERS
    if getattr(_here, "one_of_many", False) or crowded:
        return _InlineExecutor()
    if getattr(_here, "process", None) != os.getpid():
        _here.process, _here.pool = os.getpid(), ThreadPoolExecutor(1, "bayou-combination")
    return _here.pool


class SerialExecutor:
    """Executor with one thread, which runs tasks in order while the caller continues.

    At most `max_pending` tasks are pending; `submit` waits for a free slot. An error in a task is raised by a later
    `submit`, or by `drain_and_raise`. Leaving the `with` block waits for all tasks.

    >>> done = []
    >>> with SerialExecutor("counting", max_pending=2) as turn:
    ...     for k in range(3):
    ...         turn.submit(done.append, k)
    ...     turn.drain_and_raise()
    >>> done
    [0, 1, 2]
    """

    def __init__(self, name: str, max_pending: int) -> None:
        self._name, self._room = f"bayou-{name}", threading.Semaphore(max_pending)
        self._work: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
        self._submit_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = False
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._submit_lock:
            self._work.put(None)
            thread, self._ended = self._thread, True
        if thread is not None:
            thread.join()

    def submit(self, work: Callable[..., Any], *args: Any) -> None:
        self._room.acquire()
        if self._error is not None:
            self._room.release()
            self._raise()
        with self._submit_lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._work.put((work, *args))

    def drain_and_raise(self) -> None:
        """Wait until all tasks given so far are done, and raise the first error of a task."""
        self.drain()
        self._raise()

    def drain(self) -> None:
        """Wait until all tasks given so far are done; errors are left to a later `submit` or `drain_and_raise`."""
        done = threading.Event()
        self._room.acquire()
        with self._submit_lock:
            thread, ended = self._thread, self._ended
            if thread is not None and not ended:
                self._work.put((done.set,))
        if thread is None or ended:
            self._room.release()
        if thread is not None:
            thread.join() if ended else done.wait()

    def _run(self) -> None:
        lower_thread_priority()
        while work := self._work.get():
            try:
                work[0](*work[1:])
            except BaseException as error:
                self._error = self._error or error
            del work  # release its arguments
            self._room.release()

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


class WorkQueue:
    """Tasks for a `SerialExecutor` that `flush` hands over as one: the cost of a handover does not depend on the work.

    >>> done = []
    >>> with SerialExecutor("later", max_pending=2) as turn:
    ...     some = WorkQueue(turn)
    ...     some.submit(done.append, 1)
    ...     some.submit(done.append, 2)
    ...     some.flush()
    >>> done
    [1, 2]
    """

    def __init__(self, turn: SerialExecutor) -> None:
        self._turn = turn
        self._work: list[tuple[Any, ...]] = []

    def submit(self, *work: Any) -> None:
        self._work.append(work)

    def flush(self) -> None:
        if self._work:
            work, self._work = self._work, []
            self._turn.submit(_do_all, work)

    def drain(self) -> None:
        """Hand over the tasks, and wait until these and all earlier ones are done."""
        self.flush()
        self._turn.drain()


def _do_all(work: Sequence[tuple[Any, ...]]) -> None:
    for submit, *args in work:
        submit(*args)


class DrainingLock:
    """Reentrant lock that drains deferred work: `acquire` returns once the work left by the last holder is done.

    >>> guard, done = DrainingLock(), []
    >>> with SerialExecutor("later", max_pending=2) as turn:
    ...     with guard.pipelined(turn):
    ...         turn.submit(done.append, "later")
    ...     with guard:
    ...         done
    ['later']
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._executor: SerialExecutor | None = None

    def acquire(self, timeout: float = -1.0) -> bool:
        taken = self._lock.acquire(timeout=timeout)
        if taken and self._executor is not None:
            self._executor.drain()
            self._executor = None
        return taken

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    @contextmanager
    def pipelined(self, behind: SerialExecutor | None) -> Iterator[None]:
        """Hold the lock without waiting for work in `behind`, and possibly defer more to it; None: defer none."""
        with self._lock:
            if self._executor is not behind and self._executor is not None:
                self._executor.drain()
            try:
                yield
            finally:
                self._executor = behind


def run_all(work: Sequence[Callable[[], Any]], parallel: bool) -> None:
    """Run all tasks, in several threads if `parallel`, in any order, and raise the first error.

    >>> done = []
    >>> run_all([lambda: done.append(1), lambda: done.append(2)], parallel=True)
    >>> sorted(done)
    [1, 2]
    """
    # A worker must not wait for other workers: none might be left to run its tasks.
    if not parallel or len(work) < 2 or available_cores() < 2 or getattr(_here, "one_of_many", False):
        for task in work:
            task()
        return
    futures = [_workers().submit(task) for task in work]
    try:
        wait(futures)
    finally:  # also when interrupted: the tasks write into arrays of the caller
        wait(futures)
    for future in futures:
        future.result()


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _workers() -> ThreadPoolExecutor:
    if os.getpid() not in _pools:
        _pools.clear()
        _pools[os.getpid()] = ThreadPoolExecutor(
            max(available_cores(), MIN_WORKERS), "bayou-worker", _mark_worker_thread
        )
    return _pools[os.getpid()]


def _mark_worker_thread() -> None:
    _here.one_of_many = True
