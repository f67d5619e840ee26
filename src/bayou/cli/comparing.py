"""One run of `bayou compare`: several learners over one reading of a source."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bayou.cli.options import bytes_in_words
from bayou.cli.watch import free_memory
from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.evaluate.classification import Meter
from bayou.sources import Source, spare_cores

if TYPE_CHECKING:
    from bayou.report import Recorder


@dataclass
class Entrant:
    """A learner that takes part, and how it does."""

    spec: str  # as it was asked for, "marginal:prior_variance=.1"
    learner: Learner
    chosen: dict[str, Any]  # the parameters that were set
    meter: Meter = field(default_factory=Meter)
    seconds: float = 0.0  # its own, spent learning and predicting
    recorder: Recorder | None = None  # for a report

    @property
    def dtype(self) -> str:
        return str(self.learner.parameters["dtype"])

    @property
    def size(self) -> int:
        """Bytes that the weights it has touched take."""
        return self.learner.nbytes_for(len(self.learner.touched))

    def learn(self, batch: Batch) -> None:
        # The thread's own time: that of the others, who share the cores, is not this learner's.
        start = time.thread_time()
        probability = (self.recorder or self.learner).learn(batch)
        self.seconds += time.thread_time() - start
        self.meter.add(probability, batch.labels, batch.weights, nonzeros=batch.counted_nonzeros)


@dataclass
class Outcome:
    """How a comparison went."""

    entrants: list[Entrant]
    skipped: int
    bad: list[str]
    folded: int
    seconds: float  # of the whole run, reading and all
    signal: int | None

    @property
    def ranked(self) -> list[Entrant]:
        """By log loss, the lowest first."""
        return sorted(self.entrants, key=lambda entrant: entrant.meter.log_loss or 0.0)

    def as_dict(self) -> dict[str, Any]:
        first = self.entrants[0].meter
        learners = []
        for entrant in self.entrants:
            scores = entrant.meter.result().as_dict()
            for shared in ("examples", "nonzeros", "skipped"):
                del scores[shared]
            learners.append(
                {
                    "learner": entrant.spec,
                    "name": entrant.learner.name,
                    "parameters": entrant.chosen,
                    **scores,
                    "seconds": entrant.seconds,
                    "bytes": entrant.size,
                }
            )
        return {
            "examples": first.examples,
            "nonzeros": int(first.nonzeros),
            "skipped": self.skipped,
            "folded": self.folded,
            "bad": self.bad,
            "seconds": self.seconds,
            "interrupted": self.signal is not None,
            "learners": learners,
        }


class Shows(Protocol):
    """Somebody who shows how it goes."""

    def __enter__(self) -> Shows: ...

    def __exit__(self, *unused: object) -> None: ...

    def update(self) -> None: ...


def widest(learners: Sequence[Learner]) -> str:
    """The type of values that loses nothing for any of them."""
    return max(str(learner.parameters["dtype"]) for learner in learners)  # as it happens, "float64" > "float32"


def grow(entrants: Sequence[Entrant], source: Source) -> None:
    """Give every learner the weights that the data need, if they fit, and have the kernels loaded."""
    n = source.recipe.n_features
    size, free = sum(entrant.learner.nbytes_for(n) for entrant in entrants), free_memory()
    if free is not None and size > free:
        raise BadInput(
            f"{n:,} weights for each of {len(entrants)} learners take {bytes_in_words(size)} of memory; "
            f"{bytes_in_words(free)} are free. Use fewer --bits, or compare fewer learners."
        )
    names = ", ".join(entrant.spec for entrant in entrants)
    print(f"{names}: {n:,} weights each, up to {bytes_in_words(size)} of memory", file=sys.stderr)
    peek = source.peek()[:64]
    nothing = np.zeros(len(peek))
    for entrant in entrants:
        entrant.learner = type(entrant.learner)(n_features=n, **entrant.chosen)
        with suppress(BadInput):  # it will be said when these rows come
            entrant.learn(peek.with_labels(peek.labels, nothing).astype(entrant.dtype))
        entrant.meter, entrant.seconds = Meter(), 0.0


def record(entrants: Sequence[Entrant]) -> None:
    """Have every learner remembered, for a report."""
    from bayou.report import Recorder

    for entrant in entrants:
        entrant.recorder = Recorder(entrant.learner)


def write_report(path: Path, outcome: Outcome, source: Source, files: list[str]) -> None:
    from bayou.report import Data, Run, write

    runs = [
        Run(entrant.recorder, entrant.meter.result(), seconds=entrant.seconds, spec=entrant.spec)
        for entrant in outcome.entrants
        if entrant.recorder is not None
    ]
    write(path, runs, Data.of(source, files, outcome.skipped, outcome.bad))
    print(f"the report is in {path}", file=sys.stderr)


def _cut(entrants: Sequence[Entrant], source: Source) -> Iterable[Batch]:
    """The source's batches; where there are recorders, in parts that end where these want to look."""
    recorders = [entrant.recorder for entrant in entrants if entrant.recorder is not None]
    return recorders[0].cut(source, recorders[1:]) if recorders else source


def compare(entrants: list[Entrant], source: Source, board: Shows) -> Outcome:
    """Have all learn from every batch, side by side. They stay in step, so that one batch is in memory at a time."""
    refused: list[str] = []
    n_refused = 0
    start = time.perf_counter()
    with _interrupts(source) as caught, ThreadPoolExecutor(min(len(entrants), spare_cores() + 1)) as pool, board:
        for batch in _cut(entrants, source):
            batch, more = _accepted(batch, entrants, source.skips)
            n_refused += len(more)
            refused += more[: 5 - len(refused)] if len(refused) < 5 else []
            cast = {dtype: batch.astype(dtype) for dtype in {entrant.dtype for entrant in entrants}}
            for done in [pool.submit(entrant.learn, cast[entrant.dtype]) for entrant in entrants]:
                done.result()
            board.update()
            if caught:
                break
    skipped = source.skipped + n_refused
    if not caught:
        source.check_learned(refused, n_refused)
    return Outcome(
        entrants,
        skipped=skipped,
        bad=(source.bad + refused)[:20],
        folded=source.folded,
        seconds=time.perf_counter() - start,
        signal=caught[0] if caught else None,
    )


def _accepted(batch: Batch, entrants: Sequence[Entrant], skips: bool) -> tuple[Batch, list[str]]:
    """The rows that no learner refuses, and why the others were: what one cannot learn is not asked of the rest."""
    wrong: dict[int, str] = {}
    for entrant in entrants:
        for row, why in _refusals(entrant.learner, batch, 0):
            line = "" if batch.positions is None else f"line {batch.positions[row]}: "
            wrong.setdefault(row, f"{line}{entrant.spec}: {why}")
    if not wrong:
        return batch, []
    if not skips:
        raise BadInput(wrong[min(wrong)])
    kept = [row for row in range(len(batch)) if row not in wrong]
    return batch.take(kept), [wrong[row] for row in sorted(wrong)]


def _refusals(learner: Learner, batch: Batch, first: int) -> Iterator[tuple[int, str]]:
    """Which rows a learner refuses, and why; nothing is learned. Half by half, since most batches have none."""
    try:
        learner.check(batch)
    except BadInput as error:
        if len(batch) == 1:
            yield first, str(error)
            return
        half = len(batch) // 2
        yield from _refusals(learner, batch[:half], first)
        yield from _refusals(learner, batch[half:], first + half)


@contextmanager
def _interrupts(source: Source) -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM end the run after the present batch, with what there is by then; a second one, at once."""
    caught: list[int] = []

    def stop(number: int, _frame: Any) -> None:
        caught.append(number)
        source.stop()
        for kind, old in before.items():
            signal.signal(kind, old)

    try:
        before = {kind: signal.signal(kind, stop) for kind in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: somebody else's business
        yield caught
        return
    try:
        yield caught
    finally:
        for kind, old in before.items():
            signal.signal(kind, old)
