"""Passes over several shards in parallel, for learners whose merge is exact.

Each shard is learned by a copy of the learner, and the copies are merged. Up to rounding, the result is that of one
learner that learns all shards one after another.

    one_pass    shards in memory, one thread each (kernels release the GIL)
    train       files, one process each, so that parsing runs in parallel as well
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

from bayou.core.batch import Batch
from bayou.core.checks import check_int
from bayou.core.children import safe_environment
from bayou.core.errors import BadInput
from bayou.core.learner import Learner, adopt_state

_Learner = TypeVar("_Learner", bound=Learner)


def one_pass(learner: Learner, shards: Sequence[Iterable[Batch]]) -> bool:
    """Learn one pass over all shards, call `end_pass`, and return whether the learner has converged.

    >>> from bayou import simulate
    >>> from bayou.learners import Lasso
    >>> parts = [list(simulate.random(n_features=20).batches(500, start=start)) for start in (0, 500)]
    >>> learner = Lasso(20, algorithm="multipass", penalty=5.0)
    >>> any(one_pass(learner, parts) for _ in range(30))
    True
    """
    if len(shards) == 1:
        for batch in shards[0]:
            learner.learn(batch)
        return learner.end_pass()
    _check(learner)
    with ThreadPoolExecutor(len(shards)) as pool:
        return _gathered(learner, pool, _read, [(copy.copy(learner), shard) for shard in shards])


def train(
    learner: _Learner,
    files: Sequence[Sequence[str]],
    *,
    passes: int = 1,
    after_pass: Callable[[_Learner], Any] = lambda learner: None,
    **options: Any,
) -> bool:
    """Learn passes over files until the learner has converged, and return whether it has.

    Args:
        learner: updated in place; its merge must be exact (`Record.merge`).
        files: one list of files for each process. They are read with the learner's own recipe if it has one.
        passes: the maximal number of passes.
        after_pass: called with the learner after each pass.
        options: options for `bayou.sources.open`, the same for all files.

    Each process is a fresh interpreter, so scripts must call this under `if __name__ == "__main__":`.

    >>> from bayou.learners import Lasso
    >>> learner = Lasso(1 << 20, algorithm="reduced", penalty=10.0)
    >>> train(learner, [["part1.svm"], ["part2.svm"]], passes=30, recipe={"bits": 20})  # doctest: +SKIP
    True
    """
    _check(learner)
    passes = check_int("passes", passes, 1)
    # A fresh interpreter each: forking a process that has threads is not safe.
    with safe_environment(), ProcessPoolExecutor(len(files), mp_context=get_context("spawn")) as pool:
        for _ in range(passes):
            converged = _gathered(learner, pool, _read_files, [(learner, list(group), options) for group in files])
            after_pass(learner)
            if converged:
                return True
    return False


def _gathered(learner: Learner, pool: Executor, read: Callable[..., Learner], work: list[tuple[Any, ...]]) -> bool:
    shard_learners = list(pool.map(read, *zip(*work, strict=True)))
    merged = shard_learners[0]
    for learner_of_shard in shard_learners[1:]:
        merged = merged.merge(learner_of_shard, base=learner)
    adopt_state(learner, merged)
    return learner.end_pass()


def _read(learner: Learner, shard: Iterable[Batch]) -> Learner:
    for batch in shard:
        learner.learn(batch)
    return learner


def _read_files(learner: Learner, files: list[str], options: dict[str, Any]) -> Learner:
    from bayou import sources

    extras = learner.extras if learner.extras.recipe else None
    return _read(learner, sources.open(files, extras=extras, threads=1, **options))


def _check(learner: Learner) -> None:
    if learner.record.merge != "exact" or learner.record.passes != "multi":
        raise BadInput(f"{learner.name} does not gather passes that add up; train it on one stream.")
