"""The thread that owns a model: predictions, learning and copies happen here and nowhere else, one after another.

    request ──▶ incoming ──▶ read, checked ──▶ predicted ──────────────────────────▶ answer
                                  └──▶ log (`committer`) ──▶ committed ──▶ learned ──▶ answer

What has queued up meanwhile is done as one batch. Rows are read and checked before they are logged, logged before they
are learned, and learned before anybody is told, in the order of the log: so a prediction knows everything that was
acknowledged before it was asked, and waits for no disk. Long work is done in pieces, with predictions between them.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.serve import answers
from bayou.serve.answers import Refused
from bayou.serve.committer import Committer
from bayou.serve.copies import Copies, Copy
from bayou.serve.live import LOOKED_AT, Live
from bayou.serve.log import ARROW, Item, Log
from bayou.serve.model import PIECE, LiveModel, losses_of, pieces
from bayou.serve.reading import Read
from bayou.serve.telemetry import Times
from bayou.serve.work import LABEL, LEARN, PREDICT, Unit, Work, in_order

# Weights are looked at so often, in seconds, for the live page.
LOOK = 5.0


class Owner(threading.Thread):
    """The thread of one model.

    Attributes:
        model: what it owns.
        live: what is watched of it.
        broken: why nothing works any more, if that is so.
        on_error: called with an error that nobody foresaw, which ends the thread.
    """

    def __init__(
        self, model: LiveModel, log: Log | None, loop: asyncio.AbstractEventLoop, live: Live, times: Times
    ) -> None:
        super().__init__(name="bayou-model", daemon=True)
        self.model, self.live, self._loop, self._times = model, live, loop, times
        self.broken: str | None = None
        self._incoming: deque[Work] = deque()
        self._committed: deque[Unit] = deque()
        self._applying: Iterator[None] | None = None
        self._long: deque[Iterator[None]] = deque()
        self._copies = Copies()
        self._answers: list[tuple[asyncio.Future[bytes], bytes | Exception]] = []
        self.waiting: set[asyncio.Future[Any]] = set()  # of the loop's thread
        self._asleep, self._bell = False, threading.Lock()
        self._bell.acquire()
        self._ends = False
        self._looked = 0.0
        self.on_examples: Callable[[int], None] = lambda examples: None
        self.on_error: Callable[[BaseException], None] = traceback.print_exception
        self.committer = None if log is None else Committer(log, times, self._take_back)

    # --- for other threads --------------------------------------------------------------------------------------------

    def submit(self, work: Work, pool: Executor | None = None, read: Callable[[], None] | None = None) -> None:
        """Queue a request; its future gets the response. In the loop's thread. With a pool, `read` runs there first."""
        self.waiting.add(work.future)
        work.submitted = time.perf_counter()
        if pool is None or read is None:
            self._incoming.append(work)
            self._wake()
        else:
            pool.submit(self._read, work, read)

    def _read(self, work: Work, read: Callable[[], None]) -> None:
        """Read a request in the pool's thread; one that cannot be read never reaches the model."""
        try:
            read()
        except Exception as error:
            self._loop.call_soon_threadsafe(self._deliver, [(work.future, error)])
            return
        self._incoming.append(work)
        self._wake()

    def copy(self) -> Future[Copy]:
        """Return a copy of what the model is by then, in a moment, with its version."""
        future = self._copies.ask()
        self._wake()
        return future

    def end(self) -> None:
        """Do all that is under way, and stop."""
        self._ends = True
        self._wake()

    def replace(self, model: LiveModel) -> None:
        """Predict with another model from now on; for a replica."""
        self.model = model

    def _take_back(self, committed: Sequence[Unit]) -> None:
        self._committed.extend(committed)
        self._wake()

    def _wake(self) -> None:
        if self._asleep:
            self._asleep = False
            with contextlib.suppress(RuntimeError):  # somebody else has rung
                self._bell.release()

    def _break(self, why: str) -> None:
        self.broken = f"the model is out of order: {why}. What was acknowledged is in the log; start the server again."

    # --- the loop -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.committer is not None:
            self.committer.start()
        super().start()

    def run(self) -> None:
        try:
            while not self._over():
                self._step()
        except Exception as error:
            self.on_error(error)
            self._break(f"{type(error).__name__}: {error}")
        self._refuse_all()

    def _over(self) -> bool:
        """Return whether the thread must end, or should and has nothing left to do."""
        if self.broken is not None:
            return True
        busy = self._incoming or self._committed or self._applying or self._long or self._copies
        if not self._ends or busy or self._answers:
            return False
        if self.committer is not None and self.committer.is_alive():
            self.committer.end()
            self.committer.join()
            return not self._committed
        return True

    def _step(self) -> None:
        works = [self._incoming.popleft() for _ in range(min(len(self._incoming), PIECE))]
        if works:
            self._times["queue"].observe(time.perf_counter() - works[0].submitted)
            self._take(works)
        busy = self._advance_units() | self._advance_long()
        busy |= self._copies.advance(self.model, self._applying is None)
        if self._answers:
            told, self._answers = self._answers, []
            self._loop.call_soon_threadsafe(self._deliver, told)
        if not (works or busy or self._incoming or self._committed):
            self._look()
            self._sleep(0.2)

    def _sleep(self, seconds: float) -> None:
        self._asleep = True
        if not (self._incoming or self._committed or self._copies or self._ends):
            self._bell.acquire(timeout=seconds)
        self._asleep = False

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked > LOOK:
            self._looked = now
            self.live.look_at_weights(self.model.learner)

    def _refuse_all(self) -> None:
        """Refuse all requests that still wait."""
        self._copies.end(self._why_not)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, self._answers, True)

    @property
    def _why_not(self) -> str:
        return self.broken or "the server stops; try again in a moment."

    def _deliver(self, told: Sequence[tuple[asyncio.Future[Any], Any]], over: bool = False) -> None:
        """Set the result or the error of each pending future. In the loop's thread."""
        for future, answer in told:
            self.waiting.discard(future)
            if not future.done():
                (future.set_exception if isinstance(answer, Exception) else future.set_result)(answer)
        if over:
            self._deliver([(future, Refused(503, self._why_not)) for future in list(self.waiting)])

    def _say(self, work: Work, answer: bytes | Refused) -> None:
        self._answers.append((work.future, answer))

    # --- what comes in ------------------------------------------------------------------------------------------------

    def _take(self, works: Sequence[Work]) -> None:
        """Concurrent requests have no order among them: predictions first, then rows with labels, then labels."""
        kinds: tuple[list[Work], ...] = ([], [], [])
        for work in works:
            kinds[work.kind].append(work)
        for some in _alike(kinds[PREDICT]):
            if some[0].read is not None:
                self._long.append(self._predict_long(some[0]))
            else:
                self._predict(some)
        for some in _alike(kinds[LEARN]):
            self._learn(some)
        if kinds[LABEL]:
            self._label(kinds[LABEL])

    def _readable(self, works: list[Work], learns: bool) -> tuple[list[Work], Read | None]:
        """Return the requests whose rows are all valid, and those rows; refuse the others."""
        if works[0].read is not None:
            read = works[0].read
            return ([], None) if self._refused(works[0], read.bad) else (works, read)
        lines = [line for work in works for line in work.lines]
        read = self.model.reading.read(works[0].form, lines, learns)
        if not read.bad:
            return works, read
        good = self._good(works, read.bad)
        # Again, so that nothing of the others (their names, say) is left in it.
        return self._readable(good, learns) if good else ([], None)

    def _refused(self, work: Work, bad: dict[int, str]) -> bool:
        if bad:
            n = work.read.n if work.read is not None else len(work.lines)
            done = "predicted" if work.kind == PREDICT else "learned"
            rows = f"{len(bad):,} of {n:,} rows are bad; nothing was {done}." if not work.single else ""
            self._say(work, Refused(422, rows or next(iter(bad.values())), bad))
        return bool(bad)

    def _predict(self, works: list[Work]) -> None:
        works, read = self._readable(works, learns=False)
        if read is None:
            return
        told = self.model.predict(read.batch)
        by_level = {level: self._said(told, level) for level in {work.level for work in works}}
        version, first = self.model.version, 0
        remembered: list[Work] = []
        for work in works:
            if work.single and work.ids is None:
                self._say(work, answers.single(by_level[work.level].rows[first], version))
                first += 1
                continue
            said, last = by_level[work.level], first + len(work.lines)
            if work.ids is not None:
                work.answer = said.rows[first:last]
                remembered.append(work)
            else:
                self._say(work, said.answer(first, last, version))
            first = last
        if remembered:
            self._log_rows(remembered)

    def _predict_long(self, work: Work) -> Iterator[None]:
        """Predict a request of many rows in chunks."""
        _, read = self._readable([work], learns=False)
        if read is None:
            return
        rows: list[answers.Row] = []
        parts: list[bytes] = []
        for number, piece in enumerate(pieces(read.batch)):
            if number:
                yield
            said = self._said(self.model.predict(piece), work.level)
            if work.ids is not None or work.single:
                rows += said.rows
            else:
                parts.append(said.json())
        if work.ids is not None:
            work.answer = rows
            self._log_rows([work])
        elif work.single:
            self._say(work, answers.single(rows[0], self.model.version))
        else:
            self._say(work, answers.several(parts, self.model.version))

    def _said(self, told: Any, level: float) -> answers.Said:
        said = answers.Said(self.model.learner, [told], level)
        self.live.predicted(len(told.expected), said.sd)
        return said

    # --- to the log ---------------------------------------------------------------------------------------------------

    def _put(self, unit: Unit) -> None:
        assert self.committer is not None
        if unit.items:
            self.committer.put(unit)

    def _learn(self, works: list[Work]) -> None:
        works, read = self._readable(in_order(works), learns=True)
        if read is not None:
            self._put(Unit.to_learn(works, read))

    def _label(self, works: list[Work]) -> None:
        bad = self.model.reading.check_labels([line for work in works for line in work.lines])
        self._put(Unit.of_labels(self._good(works, bad)))

    def _log_rows(self, works: list[Work]) -> None:
        check = self.model.reading.check_rows
        good = [work for work in works if not self._refused(work, check(work.form, work.lines))]
        self._put(Unit.to_remember(good))

    def _good(self, works: Sequence[Work], bad: dict[int, str]) -> list[Work]:
        """Return the requests without bad rows (numbered over all requests); refuse the others."""
        good, first = [], 0
        for work in works:
            last = first + len(work.lines)
            own = {row - first: why for row, why in bad.items() if first <= row < last} if bad else {}
            if not self._refused(work, own):
                good.append(work)
            first = last
        return good

    # --- from the log -------------------------------------------------------------------------------------------------

    def _advance_units(self) -> bool:
        """Learn committed units in order, in chunks, for some milliseconds."""
        busy, ends = False, time.perf_counter() + 0.005
        while (self._applying or self._committed) and time.perf_counter() < ends:
            busy = True
            if self._applying is None:
                self._applying = self._apply(self._committed.popleft())
            if next(self._applying, self) is self:
                self._applying = None
        return busy

    def _apply(self, unit: Unit) -> Iterator[None]:
        if unit.failed is not None:
            for work, _ in unit.works:
                self._say(work, Refused(503, unit.failed))
            return
        read, lines = self._rows_of(unit)
        version = max((item.n for item in unit.items if item.outcome != "duplicate"), default=0)
        if read is not None:
            done = 0
            try:
                later = self._later_losses(read.batch)
                for piece, told, losses in self.model.learn(read, version, self._copies.before):
                    unit.told.append(told)
                    part = None if later is None else later[done : done + len(piece)]
                    self._watch(piece, told, losses, part, lines, done)
                    done += len(piece)
                    yield
            except BadInput as error:  # the learner refuses the unit whole, and will do so again when the log is read
                for work, _ in unit.works:
                    self._say(work, Refused(422, str(error)))
                self.model.version = max(self.model.version, version)
                return
            self.on_examples(self.model.learner.examples)
        self.model.version = max(self.model.version, version)
        self._answer(unit)

    def _rows_of(self, unit: Unit) -> tuple[Read | None, Sequence[bytes]]:
        """Return the rows that a unit has to learn, parsed and as they were sent."""
        reading = self.model.reading
        if unit.read is not None:
            kept = [work for work, items in unit.works if not items[0].outcome]
            lines = kept[0].lines if len(kept) == 1 else [line for work in kept for line in work.lines]
            if len(kept) < len(unit.works):
                unit.read = reading.read(unit.items[0].form, lines, learns=True) if kept else None
            return unit.read, () if unit.items[0].form == ARROW else lines
        rows = [row for item in unit.items for row in item.learns]
        return (reading.joined_rows(rows), [row for _, row, _ in rows]) if rows else (None, ())

    def _later_losses(self, batch: Batch) -> np.ndarray | None:
        """Return the losses of the frozen model on the first rows of some units, None for other units."""
        learner = self.model.learner
        if not self.live.asks_later() or learner.record.task == "multiclass":
            return None
        batch = batch[:LOOKED_AT]
        if not learner.tells_later_apart:
            return None
        told = learner.predict(batch, horizon="later").of_data_as_learned()
        return losses_of(told, batch, learner.record.task)

    def _watch(
        self, piece: Batch, told: Any, losses: np.ndarray, later: Any, lines: Sequence[bytes], first: int
    ) -> None:
        task = self.model.learner.record.task
        self.live.learned(piece, told, losses, later, task, self.model.counters)
        worst = int(losses.argmax())
        loss = float(losses[worst])
        if lines and task != "multiclass" and self.live.surprises(loss):
            label, expected = float(np.asarray(piece.labels)[worst]), float(told.expected[worst])
            self.live.surprising(loss, lines[first + worst], label, expected)

    def _answer(self, unit: Unit) -> None:
        """Set the response of every request of a unit."""
        version, first = self.model.version, 0
        if unit.read is None or not unit.told:
            for work, items in unit.works:
                self._answer_joined(work, items)
            return
        told = [self.model.of_full_stream(part) for part in unit.told]
        levels = {work.level for work, _ in unit.works}
        by_level = {level: answers.Said(self.model.learner, told, level) for level in levels}
        for work, items in unit.works:
            if items[0].outcome:
                self._say(work, answers.duplicate(version))
                continue
            said, last = by_level[work.level], first + (unit.read.n if work.read is not None else len(work.lines))
            self._say(work, said.answer(first, last, version, work.single))
            first = last

    def _answer_joined(self, work: Work, items: Sequence[Item]) -> None:
        version = self.model.version
        if work.kind == PREDICT:
            outcomes = iter(items)
            for key, row in zip(work.ids or (), work.answer, strict=True):
                if key is not None and (outcome := next(outcomes).outcome):
                    row["remembered"] = outcome
            self._say(work, answers.of_rows(work.answer, version, work.single))
        elif work.kind == LABEL:
            told = [{"id": item.key, "outcome": item.outcome} for item in items]
            said = {**told[0], "version": version} if work.single else {"labels": told, "version": version}
            self._say(work, answers.encode(said))
        else:  # a request that was learned before
            self._say(work, answers.duplicate(version))

    # --- long work ----------------------------------------------------------------------------------------------------

    def _advance_long(self) -> bool:
        if self._long:
            task = self._long.popleft()
            if next(task, self) is not self:
                self._long.append(task)
            return True
        return False


def _alike(works: list[Work]) -> Iterator[list[Work]]:
    """Yield groups of requests that can be read as one; a long one is a group of its own."""
    some: list[Work] = []
    for work in works:
        if some and (work.read is not None or some[0].read is not None or work.form != some[0].form):
            yield some
            some = []
        some.append(work)
    if some:
        yield some
