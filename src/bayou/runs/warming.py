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
from typing import TYPE_CHECKING, Any

import numpy as np

from bayou.core import registry
from bayou.core.batch import Batch
from bayou.core.children import own_python
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.evaluate.meters import meter_for
from bayou.evaluate.progressive import predict_then_learn
from bayou.kernels import cache
from bayou.outputs.prediction_files import Part
from bayou.outputs.prediction_table import prediction_table
from bayou.outputs.text import csv, fragments
from bayou.recipe.feature_counts import Uses
from bayou.sources.formats import registry as formats

if TYPE_CHECKING:
    from bayou.sources import Source

# How many rows of the data a learner is tried on.
TRIED_ROWS = 64


def learner(name: str) -> str:
    """The task of a learner."""
    return f"learner {name}"


def usual_tasks() -> list[str]:
    """What most people need: the default learner and every format."""
    return [learner(registry.DEFAULT), *(f"read {record.name}" for record in formats.RECORDS if record.samples)]


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


# --- what is compiled -------------------------------------------------------------------------------------------------


def toy_rows(learner: Learner) -> Batch:
    """Return two rows that a learner takes, with labels 1 and 0."""
    indices = np.array([0, 1, 2, 0, 3, 4]) % learner.n_features
    values = np.array([1, 0.5, 1, 2, 1, 0.25], learner.parameters["dtype"])
    groups = np.ones(6, np.uint8) if learner.wants_groups else None
    return Batch.from_arrays(np.array([0, 3, 6]), indices, values, np.array([1.0, 0.0]), groups=groups)


def training(learner: Learner, source: Source) -> None:
    """Load or compile what training uses, by learning the first few rows with weight 0. Changes nothing.

    Several classes have nothing to learn with before the first one is met, so a learner like theirs tries it.
    """
    first = source.peek()
    learner.touch(first.indices)  # meanwhile memory is made ready for them, if they need much
    rows = first[:TRIED_ROWS]
    weights = np.zeros(len(rows))
    if learner.record.task == "multiclass" and not learner.examples:
        learner, weights = learner.record.toy(learner.parameters, learner.n_features), np.ones(len(rows))
    with suppress(BadInput):  # it will be said when these rows come
        learning(learner, rows.with_labels(rows.labels, weights))


def learning(learner: Learner, rows: Batch) -> None:
    """Load or compile what learning rows uses, and scoring their predictions."""
    predict_then_learn(learner, rows).score(meter_for(learner.record.task))


def writing(learner: Learner, predicted: Any, part: Part) -> None:
    """Load or compile what writing predictions uses, and scoring them."""
    csv(part.rows.numbers, fragments(part.texts_behind(False)), fragments(part.texts()))
    meter_for(learner.record.task).add_prediction(predicted, np.ones(len(part)))


def _learn(name: str) -> None:
    made = registry.find(name).toy()
    made.compile_last_kernels()  # first: the process that waits for them begins with the others
    rows = toy_rows(made)
    learning(made, rows)
    Uses().count(rows)
    predicted = made.predict(rows, horizon="later")
    writing(made, predicted, Part(prediction_table(made, predicted)))


def _read(format: str) -> None:
    from bayou import sources

    record = formats.find(format)
    recipe = {"label": "clicked"} if record.kinds[0] == "table" else None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"toy.{format}"
        for sample in record.samples() if record.samples else ():
            path.write_bytes(sample)
            for _ in sources.open(str(path), format=format, recipe=recipe, threads=0, groups=True):
                pass
