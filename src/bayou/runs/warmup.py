"""Compilation of kernels ahead of time and in parallel, for `bayou warm` and for first runs.

A task runs a small part of bayou on toy data, so that its kernels are compiled and cached:

    learner bank    learning and predicting with a learner
    read csv        reading a format

Other processes run tasks (`ahead`) while this one reads the data; a process that needs a kernel which another one is
compiling waits for it (`kernels.cache`). Warming is optional, and results do not depend on it.
"""

from __future__ import annotations

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
from bayou.core.state import touch
from bayou.core.threads import available_cores
from bayou.evaluate.meters import meter_for
from bayou.evaluate.progressive import predict_then_learn
from bayou.kernels import cache
from bayou.outputs.prediction_files import PredictionChunk
from bayou.outputs.prediction_table import prediction_table
from bayou.outputs.text import csv, csv_fragments
from bayou.recipe.feature_counts import FeatureCounts
from bayou.sources.formats import registry as formats

if TYPE_CHECKING:
    from bayou.sources import Source

# Number of rows of the data that a learner is tried on.
TRIED_ROWS = 64


def learner(name: str) -> str:
    """Return the name of the task that compiles a learner."""
    return f"learner {name}"


def default_tasks() -> list[str]:
    """Return the tasks that most users need: the default learner and every format."""
    return [learner(registry.DEFAULT), *(f"read {record.name}" for record in formats.RECORDS if record.samples)]


def all_tasks() -> list[str]:
    """Return the tasks of every built-in learner and every format."""
    return [*map(learner, (record.name for record in registry.own_records())), *default_tasks()[1:]]


def run(task: str) -> None:
    """Run a task, which compiles and caches its kernels, or loads them."""
    kind, _, name = task.partition(" ")
    {"learner": _learn, "read": _read}[kind](name)
    if folder := cache.writable():
        (folder / _mark(task)).touch()


def is_warm(task: str) -> bool:
    """Return whether the task was run with the current source code, in this or another process."""
    return any((folder / _mark(task)).exists() for folder in cache.places())


@contextmanager
def ahead(*tasks: str) -> Iterator[None]:
    """Start processes that run the tasks that are not warm yet, leaving one core free.

    They end when their tasks are done, or are terminated if the block raises.
    """
    cold = [task for task in tasks if not is_warm(task)]
    n_workers = min(available_cores() - 1, len(cold)) if cache.writable() and sys.executable else 0
    workers = []
    with suppress(OSError):  # no more processes allowed: then this one compiles everything
        workers = [_worker(cold[first::n_workers]) for first in range(n_workers)]
    for worker in workers:
        threading.Thread(target=worker.wait, daemon=True).start()
    try:
        yield
    except BaseException:
        for worker in workers:
            worker.terminate()
        raise


def run_all(tasks: Sequence[str], on_progress: Callable[[int], object]) -> None:
    """Run tasks in as many processes as there are cores. Call `on_progress` with the number of finished ones."""
    waiting, done = list(tasks), 0
    working: list[subprocess.Popen[bytes]] = []
    try:
        while waiting or working:
            while waiting and len(working) < available_cores():
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
    """Run the tasks named by the command-line arguments, as the main function of a separate process."""
    from bayou.kernels.numba_private import without_blas

    with without_blas():
        for task in sys.argv[1:]:
            run(task)


def _worker(tasks: list[str]) -> subprocess.Popen[bytes]:
    return own_python("from bayou.runs.warmup import main; main()", *tasks)


def _mark(task: str) -> str:
    """Return the name of the empty file that marks the task as run."""
    return f"{task.replace(' ', '-')}.warm"


# --- what is compiled -------------------------------------------------------------------------------------------------


def toy_rows(learner: Learner) -> Batch:
    """Return two rows that suit the learner, with labels 1 and 0."""
    indices = np.array([0, 1, 2, 0, 3, 4]) % learner.n_features
    values = np.array([1, 0.5, 1, 2, 1, 0.25], learner.parameters["dtype"])
    groups = np.ones(6, np.uint8) if learner.wants_groups else None
    return Batch.from_arrays(np.array([0, 3, 6]), indices, values, np.array([1.0, 0.0]), groups=groups)


def training(learner: Learner, source: Source) -> None:
    """Load or compile the kernels of training by learning the first rows with weight 0. Does not change the learner.

    A multiclass learner that has not seen a class yet has no learners to try, so a toy learner of its kind is used.
    """
    first = source.peek()
    touch(learner, first.indices)  # prepares memory for them meanwhile, if they need much
    rows = first[:TRIED_ROWS]
    weights = np.zeros(len(rows))
    if learner.record.task == "multiclass" and not learner.examples:
        learner, weights = learner.record.toy(learner.parameters, learner.n_features), np.ones(len(rows))
    with suppress(BadInput):  # reported when these rows are learned
        learning(learner, rows.with_labels(rows.labels, weights))


def learning(learner: Learner, rows: Batch) -> None:
    """Load or compile the kernels that learn rows and score their predictions."""
    predict_then_learn(learner, rows).score(meter_for(learner.record.task))


def writing(learner: Learner, predicted: Any, chunk: PredictionChunk) -> None:
    """Load or compile the kernels that write and score predictions."""
    csv(chunk.rows.numbers, csv_fragments(chunk.trailing_text_columns(False)), csv_fragments(chunk.texts()))
    meter_for(learner.record.task).add_prediction(predicted, np.ones(len(chunk)))


def _learn(name: str) -> None:
    made = registry.find(name).toy()
    made.compile_last_kernels()  # first: the process that waits for these kernels starts with the others
    rows = toy_rows(made)
    learning(made, rows)
    FeatureCounts().count(rows)
    predicted = made.predict(rows, horizon="later")
    writing(made, predicted, PredictionChunk(prediction_table(made, predicted)))


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
