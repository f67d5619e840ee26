"""Learning in rounds (`bayou.rounds`) with several processes on this machine: `bayou train --processes N`.

This process cuts the text into blocks and hands them out in turn to N - 1 workers and to itself; each parses its blocks
and learns them with the lanes alone. The result depends on the data and on N, not on timing.

    base        the first rows, learned in this process
    rounds      each at least as large as all rows before it; blocks go to the processes in turn
    last rows   held out: the combination is relearned on them, and the lanes learn them, too
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa

from bayou import rounds, sources
from bayou.core.batch import Batch
from bayou.core.children import own_python
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.spelling import as_flags, flags_are_spoken, option
from bayou.core.threads import SerialExecutor
from bayou.kernels.parse_text import PADDING
from bayou.sources import Source
from bayou.sources.reading.parallel_map import ParallelMap
from bayou.sources.rejected_rows import RejectedRows
from bayou.sources.source import UnparsedBlock

# With fewer rows a single process is as fast.
MIN_PROCESS_ROWS = 400_000
# Rows to learn in this process first; this takes about as long as the workers need to start.
BASE_FRACTION_MIN_MAX = rounds.Amount(0.025, rounds.MIN_SHARD_ROWS, 400_000)
# The loss from learning shards independently grows with their number, so with few processes a round may be larger: up
# to ROUND_GROWTH / processes times as large as all rows before it.
ROUND_GROWTH = 6
# The most messages queued for a worker.
MAX_QUEUED_BLOCKS = 4

Blocks = Iterator[UnparsedBlock]


def estimate_rows(source: Source) -> tuple[float, str]:
    """Return the expected number of rows, from the first block, and why not to use processes ("" if they pay)."""
    if not source.in_blocks:
        return 0.0, "other processes take blocks of text from files"
    blocks = source.blocks()
    first = next(blocks, None)
    cast(Any, blocks).close()
    expected = 0.0 if first is None else len(source.read(first)) / max(first.done, 1e-9)
    is_too_few = expected < MIN_PROCESS_ROWS
    reason = f"of about {expected:,.0f} rows, fewer than {MIN_PROCESS_ROWS:,}, others would learn too little"
    return expected, reason if is_too_few else ""


class ProcessDriver(rounds.Driver):
    """Driver that learns a source in several processes, this one included. A round's rows are an iterator of blocks.

    Attributes:
        rows: number of rows learned so far.
        read: number of rows of this pass that were processed, learned or rejected: a prefix of the data.
        on_round: called with a message about each round.
    """

    def __init__(
        self, learner: Learner, source: Source, refused: RejectedRows, expected: float, processes: int
    ) -> None:
        super().__init__(learner)
        self._source, self._refused, self._processes, self._expected = source, refused, processes, expected
        # The fraction of the data to learn in rounds.
        self._end = 1.0 - rounds.HOLDOUT_FRACTION_MIN_MAX.of(expected) / expected
        self._stopped: Any = False  # becomes true once the run must stop
        self._behind: Batch | None = None  # rows of a round's last block to hold out
        self._held: list[Batch] = []
        self._own: rounds.Shard | None = None  # shard of this process; None if the base has changed since
        self._others: list[Worker] = []
        self._before = self._done = 0.0  # fractions of the data before and after the last block
        self.rows = self.read = 0
        self.on_round: Callable[[str], object] = lambda sentence: None

    def first_pass(self, learn: Callable[[Batch], None], stopped: object, on_block: Callable[[], None]) -> None:
        """Learn the base with `learn`, then the rounds; hold out the last rows. Call `on_block` after each block."""
        self._stopped, n_before_run = stopped, self.learner.examples
        enough = 0 if n_before_run >= BASE_FRACTION_MIN_MAX.low else int(BASE_FRACTION_MIN_MAX.of(self._expected))
        blocks, base = self._blocks(on_block), 0
        while base < enough and (block := next(blocks, None)) is not None:
            batch = self._taken(block)
            learn(batch)
            base += len(batch)
        self.rows += base
        end = self._end
        while not stopped and self._done < end:
            n_before = max(n_before_run / self._expected + self._done, 1e-6)
            upto = rounds.round_stop(self._done, n_before * max(ROUND_GROWTH / self._processes, 1.0), end)
            shards = rounds.shard_count((upto - self._done) * self._expected, self._processes)
            learned = self.rows
            self.learn_round(self._until(blocks, upto), shards)
            self.on_round(f"{self.rows - learned:,} rows in {shards} process{'es' * (shards > 1)}")
            self._held += [] if self._behind is None else self._accepted_rows(self._behind)
        self._hold_out(blocks)

    def next_pass(self, stopped: object, on_block: Callable[[], None]) -> None:
        """Learn all rows but those held out once more: each counts half, and so does everything learned before."""
        self._invalidate_base()
        self._stopped, self._before, self._done, self.read = stopped, 0.0, 0.0, 0
        self.learn_round(self._until(self._blocks(on_block), self._end), self._processes, is_repeated=True)

    def finish(self, on_told: Callable[[Batch, np.ndarray], object]) -> None:
        """Learn the held-out rows, and relearn the combination from the lanes' predictions of them."""
        if self._held:  # empty if no rows are left after the rounds
            rounds.learn_held_out(self.learner, self._held, on_told)
            self.rows += sum(map(len, self._held))

    @contextmanager
    def processes(self, options: dict[str, Any]) -> Iterator[None]:
        """Start the workers, which read data with these options; stop them at the end of the block."""
        first = {"options": options, "dtype": self.learner.parameters["dtype"], "flags": flags_are_spoken()}
        try:
            for _ in range(self._processes - 1):
                self._others.append(Worker(first))
            yield
        finally:
            for worker in self._others:
                worker.close()

    # --- rounds -------------------------------------------------------------------------------------------------

    def _taken(self, block: UnparsedBlock) -> Batch:
        """Read the rows of a block in this process, and count them."""
        batch = self._source.read(block)
        self.read += len(batch)
        return batch

    def _blocks(self, on_block: Callable[[], None]) -> Blocks:
        """Yield all blocks in order; another thread cuts and decompresses them ahead."""
        read_ahead = ParallelMap(self._source.blocks(), lambda block: block, help=False)
        try:
            for block in read_ahead:
                self._before, self._done = self._done, block.done
                yield block
                on_block()
        finally:
            read_ahead.close()

    def _until(self, blocks: Blocks, fraction: float) -> Blocks:
        while self._done < fraction and (block := next(blocks, None)) is not None:
            yield block

    def _learn_alone(self, rows: Blocks, weight: float) -> None:
        for block in rows:
            self._learn(block, partial(rounds.learn_mergeable, self.learner, weight=weight))
            if self._stopped:
                break
        self._invalidate_base()

    def _sum_gains(self, rows: Blocks, shards: int, weight: float) -> pa.Table:
        own_shard, workers = self._own or rounds.Shard(self.learner), self._others[: shards - 1]
        self._own, model = own_shard, None
        for shard_number, worker in enumerate(workers, 1):
            if worker.stale:
                model = rounds.to_bytes(self.learner) if model is None else model
                worker.send("base", model)
            worker.send("round", shard_number, weight)
        for shard_number, block in enumerate(rows):
            if shard_number % shards and self._done <= self._end:
                workers[shard_number % shards - 1].send("block", block)
            else:
                self._learn(block, partial(own_shard.learn, weight=weight))
            if self._stopped:
                break
        for worker in workers:
            worker.send("gain")
        gains = [own_shard.gain(0)]
        for worker in workers:
            table, on_block, refused = worker.receive()
            gains.append(table)
            self._source.add_counts(on_block)
            self._refused.add_counts(*refused)
            self.rows += on_block["rows"] - refused[0]
            self.read += on_block["rows"]
        return rounds.add(gains)

    def _join(self, summed: pa.Table, shards: int) -> None:
        own_shard, workers = cast(rounds.Shard, self._own), self._others[: shards - 1]
        # number of workers that need the sum for the next round
        goes_on = len(workers) if self._done < self._end and not self._stopped else 0
        for worker in workers[:goes_on]:
            worker.send("apply", summed, shards)
        for worker in self._others[goes_on:]:
            worker.stale = True
        own_shard.apply(summed, shards)

    def _learn(self, block: UnparsedBlock, learn: Callable[[Batch], None]) -> None:
        """Learn a block in this process; set aside its rows beyond the end of the rounds, as blocks may be long."""
        batch, self._behind = self._taken(block), None
        if self._done > self._end:
            n_rows = int(len(batch) * max(self._end - self._before, 0.0) / (self._done - self._before))
            batch, self._behind = batch[:n_rows], batch[n_rows:]
        self.rows += sum(len(chunk) for _, chunk, _ in self._refused.accepted(batch, learn))

    def _invalidate_base(self) -> None:
        """Discard the own shard and mark the workers' bases as stale, because the base has changed."""
        self._own = None
        for worker in self._others:
            worker.stale = True

    def _hold_out(self, blocks: Blocks) -> None:
        """Hold out the remaining rows; if the run was stopped, only as many as the combination needs."""
        enough, n_held_out = rounds.HOLDOUT_FRACTION_MIN_MAX.low if self._stopped else np.inf, sum(map(len, self._held))
        while n_held_out < enough and (block := next(blocks, None)) is not None:
            self._held += self._accepted_rows(self._taken(block))
            n_held_out = sum(map(len, self._held))

    def _accepted_rows(self, rows: Batch) -> list[Batch]:
        """Return the rows that the learner accepts, in chunks."""
        return [chunk for _, chunk, _ in self._refused.accepted(rows, self.learner.check) if len(chunk)]


# --- a worker: its handle, and its own process -----------------------------------------------------------------------


class Worker:
    """A worker process, and a thread that sends it messages.

    Attributes:
        stale: whether its base differs from that of this process.
    """

    def __init__(self, first: dict[str, Any]) -> None:
        self._process = own_python("from bayou.rounds.processes import work; work()", pipes=True)
        self._sender = SerialExecutor("sender", MAX_QUEUED_BLOCKS)
        self.stale = True
        self.send("begin", first)

    def send(self, name: str, *arguments: Any) -> None:
        self.stale = self.stale and name != "base"
        self._sender.submit(_put, self._process.stdin, (name, *arguments))

    def receive(self) -> Any:
        """Return the worker's answer, or raise the exception that it raised."""
        try:
            answer = pickle.load(cast(Any, self._process.stdout))  # of our own process
        except (EOFError, OSError, pickle.UnpicklingError):
            code = self._process.wait()
            raise BadInput(f"a worker process exited with code {code}; use fewer {option('processes')}.") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Terminate the worker, then stop the thread (which could otherwise block forever writing to it)."""
        self._process.terminate()
        self._process.wait()
        self._sender.__exit__()


def _put(file: Any, message: tuple[Any, ...]) -> None:
    """Write a message. A worker reads the bytes of a block from its file itself, unless that is compressed."""
    if message[0] == "block":
        unparsed = message[1]
        n_bytes = unparsed.block.size + PADDING if unparsed.block.offset is None else 0
        message = "block", unparsed.with_text(unparsed.block.data[:n_bytes])
    with suppress(OSError):  # the worker has exited; `receive` reports it
        pickle.dump(message, file, 5)
        file.flush()


def work() -> None:
    """Run a worker process: execute the messages from standard input, answer on standard output."""
    from bayou.kernels.numba_private import without_blas

    on_block, requests = sys.stdout.buffer, sys.stdin.buffer
    sys.stdout = sys.stderr  # nothing else that is printed may be taken for an answer
    with without_blas(), suppress(EOFError, BrokenPipeError):  # the parent process has ended
        _, first = pickle.load(requests)  # of our own process
        with as_flags(first.pop("flags")):
            worker = _WorkerLoop(**first)
            while True:
                name, *arguments = pickle.load(requests)
                answer = worker.do(name, *arguments)
                if answer is not None:
                    pickle.dump(answer, on_block, 5)
                    on_block.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), on_block.fileno())  # for the flush when Python exits


class _WorkerLoop:
    """State of a worker: its shard of the model, and a source that reads blocks."""

    def __init__(self, options: dict[str, Any], dtype: str) -> None:
        self._options, self._dtype = options, dtype
        self._failed: Exception | None = None

    def do(self, name: str, *arguments: Any) -> Any:
        """Execute one message; an exception is kept, and returned when "gain" asks for an answer."""
        try:
            if self._failed is None:
                return getattr(self, f"_{name}")(*arguments)
        except Exception as error:
            self._failed = error
        return self._failed if name == "gain" else None

    def _base(self, model: bytes) -> None:
        self._shard = rounds.Shard(rounds.from_bytes(model))
        self._source = sources.open(extras=self._shard.part.extras, threads=0, **self._options)
        self._source.fit_recipe()
        self._source.read_as(self._dtype, self._shard.part.wants_groups)
        self._source.label_for(self._shard.part)

    def _round(self, task_index: int, weight: float) -> None:
        self._number, self._weight = task_index, weight
        self._source.reset_counts()
        self._refused = RejectedRows(self._source)

    def _block(self, unparsed: UnparsedBlock) -> None:
        batch = self._source.read(unparsed)
        for _ in self._refused.accepted(batch, partial(self._shard.learn, weight=self._weight)):
            pass

    def _gain(self) -> tuple[pa.Table, dict[str, Any], tuple[int, list[str]]]:
        refused = self._refused.count, self._refused.sentences
        return self._shard.gain(self._number), self._source.pass_counts(), refused

    def _apply(self, summed: pa.Table, weight: float) -> None:
        self._shard.apply(summed, weight)
