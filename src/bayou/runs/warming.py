"""Kernels compiled ahead of time, and at the same time: `bayou warm`, and what a first run does.

A task runs a small part of bayou on toy data, so that its kernels are compiled and kept:

    learner bank    learning and predicting with a learner
    read csv        reading a format

Other processes run tasks (`ahead`) while this one reads the data; whichever needs a kernel that another one compiles
waits for it (`kernels.cache`). Results do not depend on it, and nothing needs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bayou.core import registry
from bayou.core.children import own_python
from bayou.core.errors import BadInput
from bayou.kernels import cache
from bayou.sources.formats import registry as formats


def learner(name: str) -> str:
    """The task of a learner."""
    return f"learner {name}"


def usual_tasks() -> list[str]:
    """What most people need: the default learner and every format."""
    return [learner(registry.DEFAULT), *(f"read {record.name}" for record in formats.RECORDS if record.samples())]


def all_tasks() -> list[str]:
    """Every learner of bayou's own, and every format."""
    return [*map(learner, (record.name for record in registry.own_records())), *usual_tasks()[1:]]


def run(task: str) -> None:
    """Have the kernels of a task compiled and kept, or loaded."""
    what, _, name = task.partition(" ")
    {"learner": _learn, "read": _read}[what](name)
    if place := cache.writable():
        (place / _mark(task)).touch()


def is_warm(task: str) -> bool:
    """Whether the task was run, here or in another process, with these sources."""
    return any((place / _mark(task)).exists() for place in cache.places())


@contextmanager
def ahead(*tasks: str) -> Iterator[None]:
    """Other processes begin to run those of the tasks that nobody has run yet: one for each core but this one's.

    They end by themselves, but if what is within fails, with it.
    """
    cold = [task for task in tasks if not is_warm(task)]
    spare = min(_cores() - 1, len(cold)) if cache.writable() and sys.executable else 0
    workers = []
    with suppress(OSError):  # no more processes here: then this one compiles all
        workers = [_worker(cold[first::spare]) for first in range(spare)]
    for worker in workers:
        threading.Thread(target=worker.wait, daemon=True).start()
    try:
        yield
    except BaseException:
        for worker in workers:
            worker.terminate()
        raise


def run_all(tasks: Sequence[str], on_progress: Callable[[int], object]) -> None:
    """Run tasks in as many processes as there are cores. `on_progress` is told how many are done."""
    waiting, done = list(tasks), 0
    working: list[subprocess.Popen[bytes]] = []
    try:
        while waiting or working:
            while waiting and len(working) < _cores():
                working.append(_worker([waiting.pop(0)]))
            with suppress(subprocess.TimeoutExpired):
                working[0].wait(0.1)
            ended = [worker for worker in working if worker.poll() is not None]
            if any(worker.returncode for worker in ended):
                raise BadInput("a kernel could not be compiled; `bayou --debug train` with your data says why.")
            working = [worker for worker in working if worker not in ended]
            done += len(ended)
            on_progress(done)
    finally:
        for worker in working:
            worker.terminate()
            worker.wait()


def main() -> None:
    """In a process of its own: run the tasks that the arguments name."""
    from bayou.kernels.startup import without_blas

    with without_blas():
        for task in sys.argv[1:]:
            run(task)


def _worker(tasks: list[str]) -> subprocess.Popen[bytes]:
    return own_python("from bayou.runs.warming import main; main()", *tasks)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _mark(task: str) -> str:
    """The name of an empty file that says that the task was run."""
    return f"{task.replace(' ', '-')}.warm"


# --- toys -------------------------------------------------------------------------------------------------------------


def _learn(name: str) -> None:
    import numpy as np

    from bayou.core.batch import Batch
    from bayou.evaluate.progressive import predict_then_learn
    from bayou.evaluate.regression import meter_for
    from bayou.learners.bank import Bank
    from bayou.outputs.prediction_table import prediction_table
    from bayou.outputs.text import csv
    from bayou.recipe.feature_counts import Uses

    record = registry.find(name)
    made = record.load()(n_features=8, dtype=record.dtype)
    if isinstance(made, Bank):
        made.warm_up_combination()  # first: whoever waits for the bank begins with its lanes
    values = np.array([1, 0.5, 1, 2, 1, 0.25], made.parameters["dtype"])
    indices, labels = np.array([0, 1, 2, 0, 3, 4]), np.array([1.0, 0.0])
    groups = np.ones(6, np.uint8) if made.wants_groups else None
    rows = Batch.from_arrays(np.array([0, 3, 6]), indices, values, labels, groups=groups)
    predict_then_learn(made, rows).score(meter_for(record.task))
    Uses().count(rows)
    predicted = made.predict(rows, horizon="later")
    told = prediction_table(made, predicted)
    csv(told.numbers, first=told.classes or None)
    meter_for(record.task).add_prediction(predicted, labels)


def _read(format: str) -> None:
    from bayou import sources

    record = formats.find(format)
    recipe = {"label": "clicked"} if record.kinds[0] == "table" else None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"toy.{format}"
        for sample in record.samples():
            path.write_bytes(sample)
            for _ in sources.open(str(path), format=format, recipe=recipe, threads=0, groups=True):
                pass
