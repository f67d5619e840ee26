"""Work done ahead by other threads, with results in order.

While the caller learns from one block the next ones are parsed; if the block that the caller needs next is not ready,
the caller parses one itself instead of waiting. Results and their order do not depend on the number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from bayou.core.errors import BadInput
from bayou.core.threads import lower_thread_priority

# Tasks per thread that are in progress, or done and not yet taken.
TASKS_PER_THREAD = 2

FORKED = (
    "this process was forked while these data were being read, and it lacks the threads that read them; open them "
    "again in this process."
)

Task = TypeVar("Task")
Result = TypeVar("Result")


class _Failed:
    """Error in place of a result, raised when the result is due."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class ParallelMap(Iterator[Result], Generic[Task, Result]):
    """Iterator over `work(task)` of each task, in order, computed ahead by other threads.

    Tasks are taken from their iterator by one thread at a time. With `help` the caller also runs a task if the result
    it needs is not ready, so that no core is idle while there is work. With `threads` = 0 it is a plain loop.
    """

    def __init__(
        self, tasks: Iterable[Task], work: Callable[[Task], Result], threads: int = 1, help: bool = True
    ) -> None:
        self._tasks, self._work = iter(tasks), work
        self._help = help or not threads
        self._taking = threading.Lock()
        self._changed = threading.Condition()
        self._results: dict[int, Any] = {}
        self._taken = self._given = 0
        self._ended = self._closed = False
        self._most = TASKS_PER_THREAD * (threads + 1)
        self._process = os.getpid()
        self._threads = [threading.Thread(target=self._run, daemon=True, name="bayou-ahead") for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _do_one(self) -> bool:
        """Run the next task; return False if there is none."""
        with self._taking:
            if self._ended or self._closed:
                return False
            index = self._taken
            try:
                task = next(self._tasks)
            except StopIteration:
                self._ended = True
                return False
            except BaseException as error:
                self._put(index, _Failed(error))
                self._taken += 1
                self._ended = True
                return False
            self._taken += 1
        try:
            result: Any = self._work(task)
        except BaseException as error:
            result = _Failed(error)
        self._put(index, result)
        return True

    def _put(self, index: int, result: Any) -> None:
        with self._changed:
            self._results[index] = result
            self._changed.notify_all()

    def _run(self) -> None:
        lower_thread_priority()
        took_task = True
        while took_task:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._taken - self._given < self._most)
            took_task = self._do_one()
        with self._changed:
            self._changed.notify_all()

    def __next__(self) -> Result:
        if self._threads and self._process != os.getpid():
            raise BadInput(FORKED)
        while True:
            with self._changed:
                if self._given in self._results and not self._closed:
                    result = self._results.pop(self._given)
                    self._given += 1
                    self._changed.notify_all()
                    break
                if self._closed or (self._ended and self._given == self._taken):
                    raise StopIteration
                if not self._can_run_task():
                    self._changed.wait(0.5)  # with a timeout, so that an interrupt gets through
                    continue
            self._do_one()
        if isinstance(result, _Failed):
            self.close()
            raise result.error
        return result

    def _can_run_task(self) -> bool:
        """Return whether the caller can run a task instead of waiting."""
        n_pending = self._taken - self._given
        return self._help and not self._ended and n_pending < self._most and not self._taking.locked()

    def stop(self) -> None:
        """Yield no more results. Takes no lock, so that a signal handler may call it."""
        self._closed = True

    def close(self) -> None:
        """Stop taking tasks; tasks in progress are finished, and their results dropped."""
        if self._process != os.getpid():
            return  # in a forked process, locks may be held by threads that do not exist
        with self._changed:
            self._closed = True
            self._results.clear()
            self._changed.notify_all()
        if self._taking.acquire(blocking=False):  # otherwise the thread that takes a task notices
            try:
                getattr(self._tasks, "close", lambda: None)()
            finally:
                self._taking.release()
