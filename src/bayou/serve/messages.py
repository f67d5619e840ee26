"""Messages of the server to its operator: sentences for people, or one JSON object per line for machines.

Refused requests are reported, too, but only some each second: clients must not be able to fill a disk, and a pipe that
is not read must not delay a request. The rest is counted, and the count is reported.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from bayou.core.printable import printable

INFO, WARNING, ERROR = "info", "warning", "error"
# Maximum number of refused requests reported per second and status.
MAX_REFUSALS_PER_SECOND = 10
# Maximum number of refusals that wait to be written.
MAX_BACKLOG = 1000
# Maximum number of characters of a sentence, which can quote what a client sent.
MAX_SENTENCE = 300


def _as_text(record: dict[str, Any]) -> str:
    lines = [record["message"], *record.get("traceback", "").splitlines()]
    if "request_id" in record:
        lines[0] += f" (request {record['request_id']})"
    return "\n".join(lines)


FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {"text": _as_text, "json": json.dumps}


class Messages:
    """Message log of a server.

    Args:
        write: called with each line, by one thread at a time.
        log_format: one of FORMATS.
        on_error: called with the sentence of each message of level ERROR.
    """

    def __init__(
        self,
        write: Callable[[str], Any],
        log_format: str = "text",
        on_error: Callable[[str], Any] = lambda sentence: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._write, self._format, self._on_error, self._clock = write, FORMATS[log_format], on_error, clock
        self._lock = threading.Lock()
        self._second = 0
        self._reported: Counter[int] = Counter()  # refused requests of this second, by status
        self._suppressed: Counter[int] = Counter()
        self._backlog: queue.Queue[dict[str, Any] | None] = queue.Queue(MAX_BACKLOG)
        self._writer = threading.Thread(target=self._write_backlog, name="bayou-messages", daemon=True)
        self._writer.start()

    def say(self, text: str, *, level: str = INFO, error: BaseException | None = None, **about: str | None) -> None:
        """Write a message now, `about` a model or a request. With `error`, its traceback follows."""
        self._write_record(self._record(text, level, error, **about))

    def refused(
        self,
        sentence: str,
        status: int,
        error: BaseException | None = None,
        method: str | None = None,
        route: str | None = None,
        model: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """Report a refused request soon, unless many of this status were reported this second. Never blocks."""
        self.tick()
        self._reported[status] += 1
        if self._reported[status] > MAX_REFUSALS_PER_SECOND:
            self._suppressed[status] += 1
            return
        if len(sentence) > MAX_SENTENCE:
            sentence = sentence[:MAX_SENTENCE] + "…"
        request = f"{method} {route}{f' of {model}' if model else ''}" if method else "a request"
        text = f"{request} was refused with {status}: {sentence}"
        about = {"status": status, "method": method, "route": route}
        level = ERROR if error is not None else WARNING
        self._later(self._record(text, level, error, model=model or None, request_id=request_id, **about), status)

    def tick(self) -> None:
        """Report how many refusals of past seconds were suppressed. For the thread that calls `refused`."""
        second = int(self._clock())
        if second != self._second:
            self._second = second
            self._reported.clear()
            for record in self._counts():
                self._later(record, record["status"], record["suppressed"])

    def close(self) -> None:
        """Write the waiting messages, unless that takes longer than a second or two."""
        with contextlib.suppress(queue.Full):
            self._backlog.put(None, timeout=1.0)
            self._writer.join(timeout=1.0)
        if not self._writer.is_alive():
            for record in self._counts():
                self._write_record(record)

    @contextlib.contextmanager
    def uncaught(self) -> Iterator[None]:
        """Redirect warnings, and errors that end a thread, to these messages. Affects the whole process."""
        hooks = threading.excepthook, warnings.showwarning

        def of_thread(args: threading.ExceptHookArgs) -> None:
            name = args.thread.name if args.thread is not None else "?"
            text = f"the thread {name} has ended ({args.exc_type.__name__}: {args.exc_value})"
            self.say(text, level=ERROR, error=args.exc_value)

        def of_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            self.say(f"{category.__name__}: {message}", level=WARNING)

        threading.excepthook, warnings.showwarning = of_thread, of_warning
        try:
            yield
        finally:
            threading.excepthook, warnings.showwarning = hooks

    @contextlib.contextmanager
    def logged(self, logger: str) -> Iterator[None]:
        """Redirect the errors that a library logs to these messages."""
        handler = logging.Handler(logging.ERROR)
        handler.emit = lambda record: self.say(  # type: ignore[method-assign]
            record.getMessage().strip(), level=ERROR, error=record.exc_info[1] if record.exc_info else None
        )
        logging.getLogger(logger).addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger(logger).removeHandler(handler)

    # --- writing ------------------------------------------------------------------------------------------------------

    def _record(self, text: str, level: str, error: BaseException | None = None, **about: Any) -> dict[str, Any]:
        timestamp = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        record = {"time": timestamp.replace("+00:00", "Z"), "level": level, "message": printable(text)}
        record |= {name: value for name, value in about.items() if value is not None}
        if error is not None:
            lines = "".join(traceback.format_exception(error)).splitlines()
            record["traceback"] = "\n".join(map(printable, lines))
        if level == ERROR:
            self._on_error(record["message"])
        return record

    def _counts(self) -> list[dict[str, Any]]:
        """Return the counts of suppressed messages as records, and reset the counts."""
        suppressed, self._suppressed = self._suppressed, Counter()
        return [
            self._record(
                f"{count:,} more {'request was' if count == 1 else 'requests were'} refused with {status}",
                WARNING,
                status=status,
                suppressed=count,
            )
            for status, count in sorted(suppressed.items())
        ]

    def _write_record(self, record: dict[str, Any]) -> None:
        lines = self._format(record).split("\n")
        with self._lock:
            for line in lines:
                self._write(line)

    def _later(self, record: dict[str, Any], status: int, count: int = 1) -> None:
        """Pass a record to the writer thread, or count it if that thread is far behind."""
        try:
            self._backlog.put_nowait(record)
        except queue.Full:
            self._suppressed[status] += count

    def _write_backlog(self) -> None:
        while (record := self._backlog.get()) is not None:
            with contextlib.suppress(OSError, ValueError):  # the terminal is gone
                self._write_record(record)
