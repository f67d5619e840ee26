"""Service of one model from start to stop: its folder, log, threads and snapshots."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import shutil
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner
from bayou.core.printable import shorten
from bayou.core.spelling import option
from bayou.core.storage import load
from bayou.outputs.feature_table import feature_table, shown_intercept
from bayou.recipe.feature_counts import FeatureCounts
from bayou.recipe.feature_names import FeatureNames
from bayou.runs import warmup
from bayou.serve.health import Health, LastingProblem
from bayou.serve.label_joins import LABEL_WAIT_SECONDS, MAX_PENDING_ROWS, LabelJoins
from bayou.serve.live_stats import LiveStats, load_history, save_history
from bayou.serve.log import Log
from bayou.serve.log_writer import GONE
from bayou.serve.owner import Owner
from bayou.serve.responses import PredictionResponse, RequestError
from bayou.serve.row_reader import RowReader
from bayou.serve.served_model import ServedModel
from bayou.serve.snapshot_queue import Snapshot
from bayou.serve.state_folder import StateFolder
from bayou.serve.telemetry import Telemetry
from bayou.serve.writers import differences, this_writer

# After a snapshot the next one waits this many times as long as it took, which bounds the cost of snapshots.
SNAPSHOT_PAUSE_RATIO = 50.0
# Maximum number of seconds to wait for a copy of the model.
COPY_SECONDS = 600.0
# Seconds between two checks of a replica for a newer snapshot.
REPLICA_POLL_SECONDS = 1.0
# An entry dated this many seconds ahead of the clock was written while a clock was wrong.
MAX_LEAD_SECONDS = 60.0


@dataclass(frozen=True)
class ServeOptions:
    """Options of the server.

    Attributes:
        snapshot_every: minimum number of examples between two snapshots; see also `SNAPSHOT_PAUSE_RATIO`.
        wait: seconds that a row waits for its label; default: the label of rows whose label does not arrive, or None.
        open_rows: the maximum number of rows that wait for labels.
        read_only: follow the snapshots of another server.
        max_body, max_rows, max_waiting: maximum bytes and rows of a request, and maximum number of waiting requests.
        max_unfinished: maximum bytes of all requests in progress.
        timeout: seconds in which a request must have been received.
    """

    snapshot_every: int = 100_000
    wait: float = LABEL_WAIT_SECONDS
    default: Any = None
    open_rows: int = MAX_PENDING_ROWS
    read_only: bool = False
    max_body: int = 32 << 20
    max_rows: int = 100_000
    max_waiting: int = 4096
    max_unfinished: int = 256 << 20
    timeout: float = 30.0

    def default_label(self, reading: RowReader) -> bytes | None:
        """Return the default label as JSON, if there is one; raise BadInput if the model cannot learn it."""
        if self.default is None:
            return None
        label = json.dumps({"label": self.default}).encode()
        if bad := reading.check_labels([label]):
            raise BadInput(f"{option('default_label', self.default)}: {bad[0]}")
        return label


class ModelService:
    """Service of one model: its folder, log, threads and snapshots.

    Attributes:
        state: "starting", "ready", "failed" or "stopped"; why: the reason, as a sentence.
    """

    def __init__(
        self, folder: StateFolder, options: ServeOptions, say: Callable[..., None], telemetry: Telemetry
    ) -> None:
        self.folder, self.options, self.say, self.name = folder, options, say, folder.name
        self.telemetry = telemetry
        self.state, self.why = "starting", "the model is being loaded; try again in a moment."
        self.live = LiveStats()
        self.health, self._delays_seen = Health(self.live), 0
        self.owner: Owner | None = None
        self.pool = ThreadPoolExecutor(1, f"bayou-read-{folder.name}")
        self._writing: ThreadPoolExecutor = ThreadPoolExecutor(1, f"bayou-write-{folder.name}")
        self.log: Log | None = None
        self.snapshot_version, self.snapshot_at, self.snapshot_seconds = 0, 0.0, 0.0
        self.snapshot_failures = 0
        self._broken_trouble = LastingProblem(self._say_local, "")
        self._full_trouble = LastingProblem(self._say_local, "the log can be written again")
        self._snapshot_trouble = LastingProblem(self._say_local, "snapshots are written again")
        self._follow_trouble = LastingProblem(self._say_local, "a newer snapshot was read")
        self._snapshot_examples, self._snapshot_next = 0, 0.0
        self.log_checked, self.log_damage = 0, ""
        self._ends = threading.Event()

    @property
    def model(self) -> ServedModel:
        assert self.owner is not None
        return self.owner.model

    @property
    def ids(self) -> LabelJoins | None:
        """Label joins; None for a replica."""
        return None if self.log is None else self.log.ids

    def _say_local(self, text: str, level: str = "info", error: BaseException | None = None) -> None:
        self.say(f"{self.name}: {text}", level=level, error=error)

    # --- starting -----------------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Load the newest snapshot and learn the log's entries after it. Slow: run it in a separate thread."""
        try:
            (self._run_replica if self.options.read_only else self._run_primary)(loop)
        except (BadInput, BadModel) as error:
            self.state, self.why = "failed", str(error)
            raise

    def _run_primary(self, loop: asyncio.AbstractEventLoop) -> None:
        log = self.log = Log(self.folder.path)
        assert log.ids is not None
        log.ids.wait, log.ids.most_open = self.options.wait, self.options.open_rows
        self._note_writer(log)
        sentences: list[str] = []
        model = self.folder.load(log, sentences)
        for sentence in sentences:
            self.say(sentence, level="warning")
        self.snapshot_version = checked = model.version
        self.snapshot_at = _written_at(self.folder.snapshot(checked)) if checked else 0.0
        self._snapshot_examples = model.learner.examples  # so that a server that is often killed writes one, too
        log.ids.default = self.options.default_label(model.reading)
        n_missing, reported_at = log.last - model.version, time.monotonic()
        if n_missing:
            self._say_local(f"learning {n_missing:,} entries of the log that are newer than the snapshot")
        for unit in log.units(after=model.version):
            model.replay(log, unit)
            if time.monotonic() - reported_at > 5.0:
                reported_at = time.monotonic()
                self._say_local(f"{log.last - model.version:,} entries to go")
        warm_up(model)
        history, trouble = load_history(self.folder.path)
        if history is not None:
            self.live.restore(history, model.learner.examples)
        elif trouble:
            self._say_local(trouble)
        self._own(model, loop)
        self.state, self.why = "ready", ""
        threading.Thread(target=self._check_log, args=(checked,), name="bayou-check", daemon=True).start()

    def _own(self, model: ServedModel, loop: asyncio.AbstractEventLoop) -> None:
        """Start the owner thread of the model."""
        self.owner = owner = Owner(model, self.log, loop, self.live, self.telemetry.times[self.name])
        owner.on_examples, owner.on_error = self._learned, self._failed("the model is out of order")
        if owner.log_writer is not None:
            owner.log_writer.on_look = self._look_at_log
            owner.log_writer.on_error = self._failed("the log's thread failed")
        owner.start()

    def _failed(self, event: str) -> Callable[[BaseException], None]:
        """Return a function that reports an error of a thread."""
        return lambda error: self._say_local(f"{event} ({type(error).__name__}: {error})", "error", error)

    def _note_writer(self, log: Log) -> None:
        """Report anything unusual about a log that is continued."""
        if log.clock.lead > MAX_LEAD_SECONDS:
            self._say_local(
                f"the last entry of the log is dated {log.clock.lead / 3600:,.1f} hours ahead of this machine's clock; "
                "one of the two is wrong. Waits go on from that date, and run at half speed until the clock is there",
                level="warning",
            )
        writers, writer = log.writers, this_writer()
        if log.sign(writer) and writers and (change := differences(writers[-1][1], writer)):
            self._say_local(
                f"the log was written by {change}; a replay gives the same model, byte for byte, where nothing differs",
                level="warning",
            )

    def _check_log(self, until: int) -> None:
        """Check the log entries that the start did not read, and report damage."""
        if self.log is None or not until:
            return
        log = self.log.reader()
        try:
            for unit in log.units(until=until):
                self.log_checked = unit[-1].sequence
                if self._ends.wait(0.0005):
                    return
        except BadModel as error:
            self.log_damage = str(error)
            self._say_local(self.log_damage, level="error")
        finally:
            log.close()

    def _run_replica(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve the newest snapshot of another server, and newer ones as they appear."""
        self.snapshot_version = -1
        self._load_newest(loop)
        threading.Thread(target=self._watch, args=(loop,), name="bayou-follow", daemon=True).start()

    def _load_newest(self, loop: asyncio.AbstractEventLoop) -> None:
        newest = max(self.folder.versions(), default=0)
        if newest <= self.snapshot_version:
            return
        path = self.folder.snapshot(newest) if newest else self.folder.base
        model = ServedModel(load(path), newest)
        warm_up(model)
        if self.owner is None:
            self._own(model, loop)
        else:
            self.owner.model = model
        self.snapshot_version, self.state, self.why = newest, "ready", ""
        self.snapshot_at = _written_at(path)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._ends.wait(REPLICA_POLL_SECONDS):
            try:
                self._load_newest(loop)
                self._follow_trouble.update("")
            except BadModel as error:
                self._follow_trouble.update(f"the newest snapshot cannot be read: {error}")

    # --- snapshots and features ---------------------------------------------------------------------------------------

    def _learned(self, examples: int) -> None:
        """Begin a snapshot if one is due. Called in the owner's thread, after a unit."""
        enough = examples - self._snapshot_examples >= self.options.snapshot_every
        if enough and time.monotonic() >= self._snapshot_next:
            self._snapshot_examples, self._snapshot_next = examples, math.inf
            self.snapshot()

    def snapshot(self) -> Future[int]:
        """Write a snapshot of the model; the future gets its version."""
        if self._log_is_gone:  # another server may use its place
            refused: Future[int] = Future()
            refused.set_exception(RequestError(503, f"no snapshot was written: {GONE}"))
            return refused
        assert self.owner is not None
        return self._writing.submit(self._write, self.owner.copy(), time.monotonic())

    async def features(self, top: int) -> dict[str, Any]:
        """Return the largest weights by name, from a snapshot, so that no request has to wait."""
        assert self.owner is not None
        copied, version = await asyncio.wrap_future(self.owner.copy())
        run = asyncio.get_running_loop().run_in_executor
        return await run(self.pool, lambda: largest(copied.to_learner(), top) | {"version": version})

    def _write(self, snapshot: Future[Snapshot], requested_at: float) -> int:
        copied, version = snapshot.result(timeout=COPY_SECONDS)
        started = time.monotonic()
        try:
            if version > self.snapshot_version or not self.folder.snapshot(version).exists():
                self.folder.write(copied, version)
                self.snapshot_version, self.snapshot_at = version, time.time()
                self.snapshot_seconds = time.monotonic() - started
            self._snapshot_trouble.update("")
            return version
        except BaseException as error:
            self.snapshot_failures += 1
            reason = str(error) if isinstance(error, BadModel) else f"{type(error).__name__}: {error}"
            self._snapshot_trouble.update(f"no snapshot can be written: {reason}")
            if isinstance(error, BadModel):
                raise RequestError(503, self._without_paths(f"no snapshot: {reason}")) from None
            raise
        finally:
            now = time.monotonic()
            self._snapshot_next = now + SNAPSHOT_PAUSE_RATIO * (now - requested_at)

    def info(self) -> dict[str, Any]:
        """Return facts about the model that are available without waiting for its thread."""
        model, learner = self.model, self.model.learner
        attached = learner.extras.to_json()
        classes = attached.get("classes")
        facts = {
            "name": self.name,
            "state": self.condition,
            "alarms": self.alarms(),
            "version": model.version,
            "learner": learner.name,
            "task": learner.record.task,
            "parameters": {k: "array" if isinstance(v, np.ndarray) else v for k, v in learner.parameters.items()},
            "examples": learner.examples,
            "weights": learner.n_features,
            "counters": model.counters.to_json(),
            "recipe": attached.get("recipe"),
            "classes": None if classes is None else list(map(shorten, classes)),
            "reads": model.reading.kind,
            "label": model.reading.label,
            "read_only": self.options.read_only,
            "snapshot": {"version": max(self.snapshot_version, 0), "written": self.snapshot_at or None},
        }
        if self.log is not None and (ids := self.ids) is not None:
            damage = self._without_paths(self.log_damage)
            facts["log"] = {"entries": self.log.last, "checked": self.log_checked, "damage": damage or None}
            facts["labels"] = {
                "open": ids.n_pending, "early": ids.n_early, "wait": ids.wait, "default": self.options.default,
                "counts": dict(ids.counts),
            }  # fmt: skip
        return facts

    def live_status(self) -> dict[str, Any]:
        """Return the data of the live page."""
        delays = {} if self.ids is None else self.ids.delay_quantiles()
        shares = {f"p{percent}": delay for percent, delay in delays.items()}
        status = {**self.info(), "live": self.live.live_status() | {"delays": shares or None}, "server": self._server()}
        return status | {"status": self.health.status(status), "now": self.live.clock.wall()}

    def _server(self) -> dict[str, Any]:
        """Return the state of the process around the model."""
        now, version = time.time(), max(self.snapshot_version, 0)
        oldest = None if self.ids is None else self.ids.oldest_pending()
        return {
            **self.telemetry.summary(self.name),
            "queue": 0 if self.owner is None else len(self.owner.waiting),
            "queue_limit": self.options.max_waiting,
            "disk_free": self.disk_free(),
            "log_bytes": self.log_bytes,
            "snapshot": {"version": version, "age": max(now - self.snapshot_at, 0.0) if version else None},
            "oldest_row": None if oldest is None else max(now - oldest, 0.0),
            "alarms": self.alarms(),
        }

    def look_after(self) -> None:
        """Record health and label delays, and save the history of the live page to a file."""
        if self.state != "ready":
            return
        if self.ids is not None:
            seen, delays = self.ids.delayed, self.ids.delays
            self.live.joined(delays[-(seen - self._delays_seen) :] if seen > self._delays_seen else ())
            self._delays_seen = seen
        self.live_status()
        self._keep_history()

    def _keep_history(self) -> None:
        if self.log is None or self._log_is_gone:
            return  # a replica never writes to the folder, nor a server that may have lost it
        with contextlib.suppress(OSError):  # problems of the disk are reported for the log, which matters more
            save_history(self.folder.path, self.live.history())

    # --- health -------------------------------------------------------------------------------------------------------

    def alarms(self) -> list[str]:
        """Return a sentence for each current problem."""
        local = self._snapshot_trouble.text, self._follow_trouble.text, self.log_damage
        return self._problems() + [self._without_paths(sentence) for sentence in local if sentence]

    def reasons(self) -> list[str]:
        """Return why the model does not predict and learn; empty if it does both."""
        return self._problems() if self.state == "ready" else [self._without_paths(self.why)]

    @property
    def condition(self) -> str:
        """State in a word; for a model that is ready, "ready", "full" or "broken", by whether it can learn."""
        if self.state != "ready":
            return self.state
        return "broken" if self.broken else "full" if self._no_room else "ready"

    def _problems(self) -> list[str]:
        return [sentence for sentence in (self.broken, self._no_room) if sentence]

    @property
    def broken(self) -> str:
        """Problem of the model or its log that only a restart can solve; "" if there is none."""
        return self._without_paths((self.owner.broken if self.owner is not None else None) or self.log_broken)

    @property
    def log_broken(self) -> str:
        """Reason why the log cannot be written any more; "" if it can, and for a replica, which has none."""
        return "" if self.owner is None or self.owner.log_writer is None else self.owner.log_writer.broken

    @property
    def _no_room(self) -> str:
        return "" if self.owner is None or self.owner.log_writer is None else self.owner.log_writer.no_room

    @property
    def _log_is_gone(self) -> bool:
        return self.log_broken == GONE or (self.log is not None and self.log.is_gone())

    @property
    def log_writable(self) -> bool:
        """True if the model is not broken and the log's last write did not fail; a replica has no log that could."""
        return not self._problems()

    @property
    def log_bytes(self) -> int | None:
        return None if self.log is None else self.log.size_bytes()

    def _look_at_log(self) -> None:
        """Report problems of the log. Called in the log's thread, about once a second."""
        is_new = self.log_broken and not self._broken_trouble.text
        self._broken_trouble.update(self.log_broken)
        self._full_trouble.update(self._no_room)
        if is_new and not self._log_is_gone:
            self.snapshot()  # the model in memory may be all that is left

    def _without_paths(self, text: str) -> str:
        """Return a sentence without the paths of the state, for clients."""
        return text.replace(f"{self.folder.path}{os.sep}", "")

    def disk_free(self) -> int | None:
        """Return the free space, in bytes, of the disk that holds the state; None if it is unknown."""
        try:
            return shutil.disk_usage(self.folder.path).free
        except OSError:
            return None

    # --- the end ------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Finish work in progress, write a last snapshot and close. This is slow."""
        self._ends.set()
        owner = self.owner
        if owner is not None:
            learns = owner.is_alive() and owner.broken is None and self.log is not None
            last = self.snapshot() if learns and self.model.version != self.snapshot_version else None
            owner.close()
            if last is not None:
                self._report_last(last)
            owner.join(timeout=60.0)
        if self.state == "ready":
            self._keep_history()
        self._writing.shutdown()
        self.pool.shutdown(cancel_futures=True)
        if self.log is not None:
            self.log.close()
        self.folder.unlock()
        self.state, self.why = "stopped", "the server is stopping."

    def _report_last(self, snapshot: Future[int]) -> None:
        """Wait for the last snapshot, and report it."""
        try:
            self._say_local(f"a snapshot of entry {snapshot.result(timeout=COPY_SECONDS):,} was written")
        except Exception as error:
            consequence = "the log has everything"
            if self._log_is_gone or self.log_broken or self.log_damage:
                consequence = f"what was learned after entry {max(self.snapshot_version, 0):,} is in no snapshot"
            self._say_local(f"no last snapshot ({error}); {consequence}")


def _written_at(path: Path) -> float:
    """Return a file's modification time, in unix time; 0 if the file is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def warm_up(model: ServedModel) -> None:
    """Load or compile the kernels before the first request, with rows that are not learned.

    Kernels that run only when a row is learned are run on another learner of the same kind.
    """
    learner, reading = model.learner, model.reading
    dtype = str(learner.parameters["dtype"])
    with contextlib.suppress(BadInput):
        toy = learner.record.toy(learner.parameters)
        toy.observe(warmup.toy_rows(toy))
    rows = warmup.toy_rows(learner).with_labels(np.ones(2), np.zeros(2))
    prediction = model.of_full_stream(learner.observe(rows))
    for horizon in ("next", "later"):
        with contextlib.suppress(BadInput), warnings.catch_warnings(action="ignore"):
            prediction = learner.predict(rows, horizon=horizon)
    PredictionResponse(learner, [prediction], 0.95).json()
    FeatureCounts().count(
        Batch.from_rows([{0: 1.0}, {0: 2.0}], labels=[1.0, 1.0]).astype(dtype)
    )  # its table grows, too
    if learner.record.task != "multiclass":
        learner.weights_at([0])
    learner.parts()
    for line, learns in product(reading.samples, (True, False)):
        for names in reading.read(reading.forms[0], [line], learns).names:
            FeatureNames(learner.n_features).add(names)


def largest(learner: Learner, top: int) -> dict[str, Any]:
    """Return the largest weights, by name."""
    if learner.record.task == "multiclass":
        raise BadInput("each class has weights of its own; write a snapshot (POST /snapshot), and ask that in Python.")
    table = feature_table(learner, top=top)
    assert table.strengths is not None
    listed = table.rows[len(table.rows) - table.n_listed :]  # without the intercept
    features = [{"feature": shorten(name)} | dict(zip(("mean", "sd"), cells, strict=False)) for name, *cells in listed]
    intercept = shown_intercept(learner, table.strengths)["mean"]
    return {"features": features, "intercept": intercept, "touched": table.n_seen}


def new_learner(name: str, settings: list[str], bits: int, recipe: dict[str, Any]) -> Learner:
    """Return an untrained learner that takes any JSON row."""
    from bayou.core import registry
    from bayou.core.extras import Extras
    from bayou.recipe.recipe import Recipe
    from bayou.runs import memory
    from bayou.runs.learner_choice import start_from
    from bayou.runs.learner_specs import task_of

    recipe = {"task": "binary"} | recipe if task_of(registry.find(name)) == "auto" else dict(recipe)
    start = start_from(name, settings, None, None, recipe)
    kind = Recipe(kind="rows", bits=bits, **recipe)
    spec = start.spec_for(kind.task)
    memory.check(spec.build(1), kind.n_features)
    learner = spec.build(kind.n_features)
    learner.extras = Extras.new(kind)
    return learner


def state_path(path: str) -> Path:
    """Return the folder for the state, which need not exist."""
    state = Path(path)
    if os.path.exists(state) and not os.path.isdir(state):
        raise BadInput(f"{path} is a file; {option('data')} names a folder.")
    return state
