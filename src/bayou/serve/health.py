"""Health of a served model in sentences, the most serious first.

    failing   data are lost, or requests refused    red
    warning   works, but needs attention            orange
    idle      no requests, and none expected        gray
    healthy                                         green

The levels are those of `LEVELS`, and classes of the page's style sheet.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from bayou.serve.live_stats import RATE_SECONDS, LiveStats

LEVELS = ("failing", "warning", "idle", "healthy")
# Free bytes of the disk below which there is a warning.
LOW_DISK = 256 << 20
# Labels are slow if they take SLOW times as long as usual and SLOW_SECONDS more, and missing if none came for MISSING
# times the usual delay and at least MISSING_SECONDS.
SLOW, SLOW_SECONDS, MISSING, MISSING_SECONDS = 3.0, 60.0, 10.0, 300.0
# Seconds between two reports of a problem that lasts.
REPEAT_SECONDS = 60.0
_UNITS = ((86400.0, "day"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


class LastingProblem:
    """Problem that is reported at once, then once a minute while it lasts, and when it is over.

    A problem that comes and goes within a minute is reported once.

    Args:
        say: called with a sentence and its `level`.
        over: the sentence that reports its end.

    Attributes:
        text: the current problem; "" if there is none.
    """

    def __init__(self, say: Callable[..., object], over: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._say, self._over, self._monotonic = say, over, monotonic
        self.text = ""
        self._reported_at, self._is_reported = -math.inf, False

    def update(self, text: str) -> None:
        """Set the current problem, "" for none, and report it if that is due."""
        self.text = text
        if not text:
            if self._is_reported:
                self._is_reported = False
                self._say(self._over, level="info")
        elif self._monotonic() - self._reported_at >= REPEAT_SECONDS:
            self._reported_at, self._is_reported = self._monotonic(), True
            self._say(text, level="error")


class Finding(NamedTuple):
    """Observation about a served model. `since` is a monotonic time, if known more precisely than when it was found."""

    level: str
    text: str
    since: float | None = None


class Health:
    """Tracker of findings and of the time since which each holds."""

    def __init__(self, live: LiveStats) -> None:
        self._live = live
        self._healthy_since = live.clock.monotonic()
        self._since: dict[str, float] = {}  # by text, without the numbers in it

    def status(self, live_status: Mapping[str, Any]) -> dict[str, Any]:
        """Return the most serious finding with its level, text and start; `also` holds the others."""
        clock = self._live.clock
        now = clock.monotonic()
        current = sorted(findings(live_status, now), key=lambda finding: LEVELS.index(finding.level))
        self._since = {_plain(finding.text): self._since.get(_plain(finding.text), now) for finding in current}
        if any(finding.level in ("failing", "warning") for finding in current):
            self._healthy_since = now
        else:
            current.append(Finding("healthy", "Healthy", self._healthy_since))
        since = [self._since[_plain(finding.text)] if finding.since is None else finding.since for finding in current]
        results = [
            finding._replace(since=start + clock.wall() - now)._asdict()
            for finding, start in zip(current, since, strict=True)
        ]
        return {**results[0], "also": results[1:]}


def findings(live_status: Mapping[str, Any], now: float) -> Iterator[Finding]:
    """Yield the findings about a live status (`ModelService.live_status`), in no particular order."""
    live, server = live_status["live"], live_status["server"]
    for sentence in server["alarms"]:
        yield Finding("failing", sentence[:1].upper() + sentence[1:])
    for text in (
        *_about_load(server),
        *_about_labels(live["delay"], live_status.get("labels"), live["idle"]),
        *_about_losses(live),
    ):
        yield Finding("warning", text)
    yield from _about_traffic(live, server["requests_per_second"], now)


def _about_losses(live: Mapping[str, Any]) -> Iterator[str]:
    if (drift := live["drift"]) is not None and drift["alarm"]:
        yield (
            f"The data drift: a model that had stopped learning would have lost {drift['gap']:.3g} more per row in the "
            f"last hour (± {drift['error']:.2g}, on {drift['rows']:,} rows). Keep labels coming."
        )
    if (base := live["base"]) is not None and base["alarm"]:
        yield (
            f"The model predicts worse than one that ignores the rows: a mean loss of {live['loss_hour']:.3g} in the "
            f"last hour, against {base['loss']:.3g}."
        )


def _about_load(server: Mapping[str, Any]) -> Iterator[str]:
    free, queue, limit = server["disk_free"], server["queue"], server["queue_limit"]
    if free is not None and free < LOW_DISK and not server["alarms"]:
        free_space = f"{free / 2**20:,.0f} MB are free" if free >= 2 << 20 else "less than 2 MB are free"
        yield f"The disk of the log is nearly full: {free_space}."
    if queue >= limit / 2:
        yield f"{queue:,} requests are waiting for the model; from {limit:,} on, new ones are refused."
    errors = {int(status): count for status, count in server["refused"].items()}.get(500, 0)
    if errors:
        yield f"{errors:,} requests of the last hour failed with a server error (500)."


def _about_labels(
    delay: Mapping[str, float | None], labels: Mapping[str, Any] | None, idle: float | None
) -> Iterator[str]:
    recent, usual, silent = delay["recent"], delay["usual"], delay["silent"]
    if usual is None or labels is None or idle is None or idle >= RATE_SECONDS:
        return
    if recent is None and labels["open"] and silent is not None and silent > max(MISSING * usual, MISSING_SECONDS):
        yield f"No labels for {duration(silent)}; they usually arrive {duration(usual)} after their row."
    if recent is not None and recent > max(SLOW * usual, usual + SLOW_SECONDS):
        yield f"Labels arrive {duration(recent)} after their row; usually {duration(usual)}."


def _about_traffic(live: Mapping[str, Any], requests: float, now: float) -> Iterator[Finding]:
    idle = live["up"] if live["idle"] is None else live["idle"]
    if idle < RATE_SECONDS:
        return
    if requests:
        level, text = "warning", f"Requests arrive, but no row was predicted or learned for {duration(idle)}."
    elif live["idle"] is None:
        level, text = "idle", "No requests since the server started"
    elif live["steady"]:
        level, text = "warning", f"No requests for {duration(idle)}. Before that they arrived steadily."
    else:
        level, text = "idle", f"No requests for {duration(idle)}"
    yield Finding(level, text, now - idle)


def duration(seconds: float) -> str:
    """Return a time in words, with at most two units.

    >>> duration(312), duration(11520), duration(0.02), duration(200000)
    ('5 min', '3 h 12 min', '0.02 s', '2 days 7 h')
    """
    if seconds < 1.0:
        return f"{seconds:.2g} s"
    for k, (unit, name) in enumerate(_UNITS):
        count = int(seconds // unit)
        if not count:
            continue
        text = f"{count} {name}{'s' if name == 'day' and count > 1 else ''}"
        remainder = int(seconds % unit // _UNITS[k + 1][0]) if unit > 60.0 else 0
        return text + (f" {remainder} {_UNITS[k + 1][1]}" if remainder else "")
    return "0 s"


def _plain(text: str) -> str:
    return re.sub(r"[\d.,]+", "#", text)
