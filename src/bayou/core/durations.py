"""Durations as options write them: 90s, 30min, 12h, 7d."""

from __future__ import annotations

import re

UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "minutes": 60.0, "h": 3600.0, "d": 86400.0}
EXAMPLES = "90s, 30min, 12h or 7d"


def seconds_of(text: str) -> float | None:
    """Return the seconds of a duration with its unit; None if it is not a valid duration, or 0.

    >>> seconds_of("90s"), seconds_of("1.5 h"), seconds_of("90"), seconds_of("0s")
    (90.0, 5400.0, None, None)
    """
    match = re.fullmatch(rf"(\d+(?:\.\d*)?|\.\d+)\s*({'|'.join(UNITS)})", text.strip(), re.ASCII)
    return None if match is None else float(match[1]) * UNITS[match[2]] or None
