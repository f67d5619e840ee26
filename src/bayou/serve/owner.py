"""Owner thread of a model: predictions, learning and snapshots happen only here, one after another.

    request ──▶ incoming ──▶ read, checked ──▶ predicted ──────────────────────────▶ answer
                                  └──▶ log (`log_writer`) ──▶ committed ──▶ learned ──▶ answer

Queued requests are processed as one batch. Rows are read and checked before they are logged, logged before they are
learned, and learned before they are acknowledged, in the order of the log: so a prediction reflects everything that was
acknowledged before it was requested, and never waits for the disk. Long work is split into chunks, with predictions
between them.
"""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from itertools import groupby
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.core.learner import distinguishes_horizons
from bayou.serve import responses
from bayou.serve.label_joins import KIND_ROW, LABEL
from bayou.serve.live_stats import SAMPLED_ROWS, LiveStats
from bayou.serve.log import ARROW, Log, PendingEntry
from bayou.serve.log_writer import LogWriter
from bayou.serve.model_requests import LABEL_REQUEST, LEARN_REQUEST, PREDICT, LearningUnit, ModelRequest
from bayou.serve.responses import RequestError
from bayou.serve.row_reader import ParsedRows
from bayou.serve.served_model import CHUNK_ROWS, ServedModel, losses_of, pieces
from bayou.serve.snapshot_queue import Snapshot, SnapshotQueue
from bayou.serve.telemetry import Times

# Seconds between two samples of the weights for the live page.
WEIGHT_SAMPLE_SECONDS = 5.0


class Owner(threading.Thread):
    """Owner thread of one model.

    Attributes:
        model: the model that it owns; another thread may replace that of a replica.
        live: the live statistics of the model.
        broken: the reason why the thread can do no more work, if any.
        on_error: called with an unexpected error, which ends the thread.
    """

    def __init__(
        self, model: ServedModel, log: Log | None, loop: asyncio.AbstractEventLoop, live: LiveStats, times: Times
    ) -> None:
        super().__init__(name="bayou-model", daemon=True)
        self.model, self.live, self._loop, self._times = model, live, loop, times
        self.broken: str | None = None
        self._incoming: deque[ModelRequest] = deque()
        self._committed: deque[LearningUnit] = deque()
        self._applying: Iterator[None] | None = None
        self._long: deque[Iterator[None]] = deque()
        self._copies = SnapshotQueue()
        self._responses: list[tuple[asyncio.Future[bytes], bytes | Exception]] = []
        self.waiting: set[asyncio.Future[Any]] = set()  # used in the loop's thread only
        self._awake = threading.Event()
        self._stop_requested = False
        self._looked = 0.0
        self.on_examples: Callable[[int], None] = lambda examples: None
        self.on_error: Callable[[BaseException], None] = traceback.print_exception
        self.log_writer = None if log is None else LogWriter(log, times, self._on_committed)

    # --- for other threads --------------------------------------------------------------------------------------------

    def submit(self, work: ModelRequest, pool: Executor | None = None, read: Callable[[], None] | None = None) -> None:
        """Queue a request, whose future gets the response. For the loop's thread. `read` runs first, in the pool."""
        self.waiting.add(work.future)
        work.submitted = time.perf_counter()
        if pool is None or read is None:
            self._incoming.append(work)
            self._wake()
        else:
            pool.submit(self._read, work, read)

    def _read(self, work: ModelRequest, read: Callable[[], None]) -> None:
        """Read a request in the pool's thread; one that cannot be read is refused there."""
        try:
            read()
        except Exception as error:
            self._loop.call_soon_threadsafe(self._deliver, [(work.future, error)])
            return
        self._incoming.append(work)
        self._wake()

    def copy(self) -> Future[Snapshot]:
        """Return a future snapshot of the model, with its version."""
        future = self._copies.request()
        self._wake()
        return future

    def close(self) -> None:
        """Finish all queued work, then stop."""
        self._stop_requested = True
        self._wake()

    def _on_committed(self, committed: Sequence[LearningUnit]) -> None:
        self._committed.extend(committed)
        self._wake()

    def _wake(self) -> None:
        if not self._awake.is_set():  # setting it takes longer
            self._awake.set()

    # --- the loop -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.log_writer is not None:
            self.log_writer.start()
        super().start()

    def run(self) -> None:
        try:
            while not self._should_exit():
                self._step()
        except Exception as error:
            self.on_error(error)
            self.broken = (
                f"the model is out of order: {type(error).__name__}: {error}. What was acknowledged is in the log; "
                "start the server again."
            )
        self._refuse_all()

    def _should_exit(self) -> bool:
        """Return whether the thread must end, or should and has nothing left to do."""
        if self.broken is not None:
            return True
        busy = self._incoming or self._committed or self._applying or self._long or self._copies
        if not self._stop_requested or busy or self._responses:
            return False
        if self.log_writer is not None and self.log_writer.is_alive():
            self.log_writer.close()
            self.log_writer.join()
            return not self._committed
        return True

    def _step(self) -> None:
        requests = [self._incoming.popleft() for _ in range(min(len(self._incoming), CHUNK_ROWS))]
        if requests:
            self._times["queue"].observe(time.perf_counter() - requests[0].submitted)
            self._take_requests(requests)
        busy = self._advance_units() | self._advance_long()
        busy |= self._copies.advance(self.model, self._applying is None)
        if self._responses:
            predictions, self._responses = self._responses, []
            self._loop.call_soon_threadsafe(self._deliver, predictions)
        if not (requests or busy or self._incoming or self._committed):
            self._sample_weights()
            self._sleep(0.2)

    def _sleep(self, seconds: float) -> None:
        self._awake.clear()
        if not (self._incoming or self._committed or self._copies or self._stop_requested):
            self._awake.wait(seconds)

    def _sample_weights(self) -> None:
        now = time.monotonic()
        if now - self._looked > WEIGHT_SAMPLE_SECONDS:
            self._looked = now
            self.live.track_weights(self.model.learner)

    def _refuse_all(self) -> None:
        """Refuse all requests that still wait."""
        self._copies.close(self._why_not)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, self._responses, True)

    @property
    def _why_not(self) -> str:
        return self.broken or "the server is stopping; try again in a moment."

    def _deliver(self, predictions: Sequence[tuple[asyncio.Future[Any], Any]], over: bool = False) -> None:
        """Set the result or the error of each pending future. In the loop's thread."""
        for future, answer in predictions:
            self.waiting.discard(future)
            if not future.done():
                (future.set_exception if isinstance(answer, Exception) else future.set_result)(answer)
        if over:
            self._deliver([(future, RequestError(503, self._why_not)) for future in list(self.waiting)])

    def _set_response(self, work: ModelRequest, answer: bytes | RequestError) -> None:
        self._responses.append((work.future, answer))

    # --- what comes in ------------------------------------------------------------------------------------------------

    def _take_requests(self, requests: Sequence[ModelRequest]) -> None:
        """Process concurrent requests, which have no order: predictions first, then rows with labels, then labels."""
        kinds: tuple[list[ModelRequest], ...] = ([], [], [])
        for work in requests:
            kinds[work.kind].append(work)
        for group in _alike(kinds[PREDICT]):
            if group[0].read is not None:
                self._long.append(self._predict_long(group[0]))
            else:
                self._predict(group)
        for group in _alike(kinds[LEARN_REQUEST]):
            self._learn(group)
        if kinds[LABEL_REQUEST]:
            self._label(kinds[LABEL_REQUEST])

    def _readable(self, requests: list[ModelRequest], learns: bool) -> tuple[list[ModelRequest], ParsedRows | None]:
        """Return the requests whose rows are all valid, and those rows; refuse the others."""
        if requests[0].read is not None:
            read = requests[0].read
            return ([], None) if self._refused(requests[0], read.bad_rows) else (requests, read)
        lines = [line for work in requests for line in work.lines]
        read = self.model.reading.read(requests[0].body_format, lines, learns)
        if not read.bad_rows:
            return requests, read
        valid = self._split_valid(requests, read.bad_rows)
        # Read again, so that nothing of the refused requests (such as feature names) remains.
        return self._readable(valid, learns) if valid else ([], None)

    def _refused(self, work: ModelRequest, bad: dict[int, str]) -> bool:
        if bad:
            done = "predicted" if work.kind == PREDICT else "learned"
            rows = f"{len(bad):,} of {work.n_rows:,} rows are bad; nothing was {done}." if not work.single else ""
            self._set_response(work, RequestError(422, rows or next(iter(bad.values())), bad))
        return bool(bad)

    def _predict(self, requests: list[ModelRequest]) -> None:
        requests, read = self._readable(requests, learns=False)
        if read is None:
            return
        predictions = self.model.predict(read.batch)
        by_level = {level: self._response_for(predictions, level) for level in {work.level for work in requests}}
        version, first = self.model.version, 0
        remembered: list[ModelRequest] = []
        for work in requests:
            response, last = by_level[work.level], first + work.n_rows
            if work.ids is not None:
                work.response = response.rows[first:last]
                remembered.append(work)
            else:
                self._set_response(work, response.answer(first, last, version, work.single))
            first = last
        if remembered:
            self._log_rows(remembered)

    def _predict_long(self, work: ModelRequest) -> Iterator[None]:
        """Predict a request of many rows in chunks."""
        _, read = self._readable([work], learns=False)
        if read is None:
            return
        rows: list[responses.RowResponse] = []
        chunks: list[bytes] = []
        for index, chunk in enumerate(pieces(read.batch)):
            if index:
                yield
            response = self._response_for(self.model.predict(chunk), work.level)
            if work.ids is not None or work.single:
                rows += response.rows
            else:
                chunks.append(response.json())
        if work.ids is not None:
            work.response = rows
            self._log_rows([work])
        elif work.single:
            self._set_response(work, responses.single(rows[0], self.model.version))
        else:
            self._set_response(work, responses.several(chunks, self.model.version))

    def _response_for(self, predictions: Any, level: float) -> responses.PredictionResponse:
        response = responses.PredictionResponse(self.model.learner, [predictions], level)
        self.live.predicted(len(predictions.expected), response.sd)
        return response

    # --- to the log ---------------------------------------------------------------------------------------------------

    def _put(self, unit: LearningUnit) -> None:
        assert self.log_writer is not None
        if unit.items:
            self.log_writer.submit(unit)

    def _learn(self, requests: list[ModelRequest]) -> None:
        requests, read = self._readable(sorted(requests, key=lambda work: work.key is not None), learns=True)
        if read is not None:
            self._put(LearningUnit.to_learn(requests, read))

    def _label(self, requests: list[ModelRequest]) -> None:
        bad = self.model.reading.check_labels([line for work in requests for line in work.lines])
        self._put(LearningUnit.of_ids(LABEL, self._split_valid(requests, bad)))

    def _log_rows(self, requests: list[ModelRequest]) -> None:
        check = self.model.reading.check_rows
        valid = [work for work in requests if not self._refused(work, check(work.body_format, work.lines))]
        self._put(LearningUnit.of_ids(KIND_ROW, valid))

    def _split_valid(self, requests: Sequence[ModelRequest], bad: dict[int, str]) -> list[ModelRequest]:
        """Return the requests without bad rows (numbered over all requests); refuse the others."""
        valid, first = [], 0
        for work in requests:
            last = first + work.n_rows
            bad_of_request = {row - first: reason for row, reason in bad.items() if first <= row < last} if bad else {}
            if not self._refused(work, bad_of_request):
                valid.append(work)
            first = last
        return valid

    # --- from the log -------------------------------------------------------------------------------------------------

    def _advance_units(self) -> bool:
        """Learn committed units in order, in chunks, for a few milliseconds."""
        busy, ends = False, time.perf_counter() + 0.005
        while (self._applying or self._committed) and time.perf_counter() < ends:
            busy = True
            if self._applying is None:
                self._applying = self._apply(self._committed.popleft())
            if next(self._applying, self) is self:
                self._applying = None
        return busy

    def _apply(self, unit: LearningUnit) -> Iterator[None]:
        if unit.failed is not None:
            for work, _ in unit.requests:
                self._set_response(work, RequestError(503, unit.failed))
            return
        read, lines = self._rows_of(unit)
        version = max((item.sequence for item in unit.items if item.outcome != "duplicate"), default=0)
        if read is not None:
            done = 0
            try:
                later_losses = self._later_losses(read.batch)
                for chunk, predictions, losses in self.model.learn(read, version, self._copies.before_learn):
                    unit.predictions.append(predictions)
                    losses_of_chunk = None if later_losses is None else later_losses[done : done + len(chunk)]
                    self._watch(chunk, predictions, losses, losses_of_chunk, lines, done)
                    done += len(chunk)
                    yield
            except BadInput as error:  # the learner rejects the whole unit, as it will on replay
                for work, _ in unit.requests:
                    self._set_response(work, RequestError(422, str(error)))
                self.model.version = max(self.model.version, version)
                return
            self.on_examples(self.model.learner.examples)
        self.model.version = max(self.model.version, version)
        self._answer(unit)

    def _rows_of(self, unit: LearningUnit) -> tuple[ParsedRows | None, Sequence[bytes]]:
        """Return the rows that a unit has to learn, parsed and as they were sent."""
        reading = self.model.reading
        if unit.read is not None:
            new = [work for work, items in unit.requests if not items[0].outcome]
            lines = new[0].lines if len(new) == 1 else [line for work in new for line in work.lines]
            if len(new) < len(unit.requests):
                unit.read = reading.read(unit.items[0].form, lines, learns=True) if new else None
            return unit.read, () if unit.items[0].form == ARROW else lines
        rows = [row for item in unit.items for row in item.rows_to_learn]
        return (reading.rows_with_labels(rows), [row for _, row, _ in rows]) if rows else (None, ())

    def _later_losses(self, batch: Batch) -> np.ndarray | None:
        """Return the losses of the frozen model on the first rows of some units, None for other units."""
        learner = self.model.learner
        if not self.live.should_measure_later() or learner.record.task == "multiclass":
            return None
        batch = batch[:SAMPLED_ROWS]
        if not distinguishes_horizons(learner):
            return None
        predictions = learner.predict(batch, horizon="later").without_sampling_correction()
        return losses_of(predictions, batch, learner.record.task)

    def _watch(
        self, chunk: Batch, predictions: Any, losses: np.ndarray, later_losses: Any, lines: Sequence[bytes], first: int
    ) -> None:
        task = self.model.learner.record.task
        self.live.learned(chunk, predictions, losses, later_losses, task, self.model.counters)
        worst = int(losses.argmax())
        loss = float(losses[worst])
        if lines and task != "multiclass" and self.live.surprises(loss):
            label, expected = float(np.asarray(chunk.labels)[worst]), float(predictions.expected[worst])
            self.live.add_surprise(loss, lines[first + worst], label, expected)

    def _answer(self, unit: LearningUnit) -> None:
        """Set the response of every request of a unit."""
        version, first = self.model.version, 0
        if unit.read is None or not unit.predictions:
            for work, items in unit.requests:
                self._answer_joined(work, items)
            return
        predictions = [self.model.of_full_stream(prediction) for prediction in unit.predictions]
        levels = {work.level for work, _ in unit.requests}
        by_level = {level: responses.PredictionResponse(self.model.learner, predictions, level) for level in levels}
        for work, items in unit.requests:
            if items[0].outcome:
                self._set_response(work, responses.duplicate(version))
                continue
            response, last = by_level[work.level], first + work.n_rows
            self._set_response(work, response.answer(first, last, version, work.single))
            first = last

    def _answer_joined(self, work: ModelRequest, items: Sequence[PendingEntry]) -> None:
        version = self.model.version
        if work.kind == PREDICT:
            outcomes = iter(items)
            for key, row in zip(work.ids or (), work.response, strict=True):
                if key is not None and (outcome := next(outcomes).outcome):
                    row["remembered"] = outcome
            self._set_response(work, responses.of_rows(work.response, version, work.single))
        elif work.kind == LABEL_REQUEST:
            predictions = [{"id": item.key, "outcome": item.outcome} for item in items]
            content = (
                {**predictions[0], "version": version} if work.single else {"labels": predictions, "version": version}
            )
            self._set_response(work, responses.encode(content))
        else:  # a duplicate request
            self._set_response(work, responses.duplicate(version))

    # --- long work ----------------------------------------------------------------------------------------------------

    def _advance_long(self) -> bool:
        if not self._long:
            return False
        task = self._long.popleft()
        if next(task, self) is not self:
            self._long.append(task)
        return True


def _alike(requests: Sequence[ModelRequest]) -> Iterator[list[ModelRequest]]:
    """Yield groups of requests that can be read as one; each long request is a separate group."""
    for _, group in groupby(requests, key=lambda work: work.body_format if work.read is None else work):
        yield list(group)
