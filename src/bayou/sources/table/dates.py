"""Kernels that parse dates and times and extract their parts (hour, weekday, month, weekend hour).

A time is a number of seconds since the beginning of 1970, in local (wall-clock) time. A time zone after it (Z, +02:00)
is ignored: the hour is the one that is written.
"""

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.parse_text import load_uint8
from bayou.recipe.recipe import DATE_PARTS

DAY, HOUR = 86_400, 3_600
# Numbers below this are seconds; larger ones are milliseconds, microseconds or nanoseconds.
_SECONDS = 1e11
# The last second of the year 9999, and the first of the year 1.
_LAST, _FIRST = 253_402_300_799.0, -62_135_596_800.0
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

PARTS = list(DATE_PARTS)
# The parts of a date:
#     HOURS         the hour of the day
#     WEEKDAY       the day of the week
#     MONTH         the month
#     WEEKEND_HOUR  the hour, with weekends and working days distinguished
HOURS, WEEKDAY, MONTH, WEEKEND_HOUR = range(len(PARTS))


def names_of_parts(column: str, part: str) -> list[str]:
    """Return the feature names of a part, that of a missing date last.

    >>> names_of_parts("time", "weekday")[:2], names_of_parts("time", "weekend hour")[23:26]
    (['time weekday=Mon', 'time weekday=Tue'], ['time workday hour=23', 'time weekend hour=0', 'time weekend hour=1'])
    """
    if part == "weekend hour":
        names = [f"{column} {day} hour={hour}" for day in ("workday", "weekend") for hour in range(24)]
    else:
        called = {"weekday": _WEEKDAYS, "month": _MONTHS}.get(part, range(24))
        names = [f"{column} {part}={value}" for value in called]
    return [*names, f"{column} {part}="]


@kernel
def _digits(at, count):
    """Return the number made of `count` digits, or -1 if a byte is not a digit."""
    value = 0
    for k in range(count):
        byte = load_uint8(at + k)
        if not 48 <= byte <= 57:
            return -1
        value = 10 * value + byte - 48
    return value


@kernel
def days_from(year, month, day):
    """Return the days from 1970 to a date. Years begin in March here, so that the leap day comes last."""
    year -= month <= 2
    month = (month + 9) % 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 719_469


@kernel
def _is_date(year, month, day):
    leap = month == 2 and (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))
    longest = 28 if month == 2 else 30 + ((month + (month >> 3)) & 1)
    return 1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= longest + leap


@kernel
def read_date(at, end):
    """Parse a date or time from a cell without surrounding blanks and return its seconds, or NaN if it is neither.

    A date is 2013-01-31 or 2013/01/31. A time follows after T or a blank: 10:30 or 10:30:15.25, with or without a zone.
    """
    if (
        end - at < 10
        or (load_uint8(at + 4) != 45 and load_uint8(at + 4) != 47)
        or load_uint8(at + 7) != load_uint8(at + 4)
    ):
        return np.nan
    year, month, day = _digits(at, 4), _digits(at + 5, 2), _digits(at + 8, 2)
    if not _is_date(year, month, day):
        return np.nan
    seconds = DAY * days_from(year, month, day)
    at += 10
    if at == end:
        return float(seconds)
    if end - at < 6 or (load_uint8(at) != 32 and load_uint8(at) | 32 != 116) or load_uint8(at + 3) != 58:
        return np.nan
    hour, minute, second = _digits(at + 1, 2), _digits(at + 4, 2), 0
    at += 6
    if at < end and load_uint8(at) == 58:
        second = _digits(at + 1, 2) if end - at > 2 else -1
        at += 3
        if at < end and (load_uint8(at) == 46 or load_uint8(at) == 44):
            at += 1
            while at < end and 48 <= load_uint8(at) <= 57:
                at += 1
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second <= 60 and at <= end and _is_zone(at, end)):
        return np.nan
    return float(seconds + HOUR * hour + 60 * minute + min(second, 59))


@kernel
def _is_zone(at, end):
    """Return whether the text is a time zone: empty, Z, or a sign and hours, with or without minutes."""
    size = end - at
    if size == 0 or (size == 1 and load_uint8(at) | 32 == 122):
        return True
    if size < 3 or (load_uint8(at) != 43 and load_uint8(at) != 45) or _digits(at + 1, 2) < 0:
        return False
    if size == 3:
        return True
    colon = size == 6 and load_uint8(at + 3) == 58
    return (size == 5 or colon) and _digits(at + 3 + colon, 2) >= 0


@kernel
def seconds_of(x):
    """Return the time that a number stands for, or NaN: 20130131, or seconds (milliseconds, ...) since 1970."""
    if 10_000_000 <= x < 100_000_000 and x == np.floor(x):
        whole = np.int64(x)
        year, month, day = whole // 10_000, whole // 100 % 100, whole % 100
        if 1900 <= year < 2200 and _is_date(year, month, day):
            return float(DAY * days_from(year, month, day))
    for _ in range(3):
        if abs(x) >= _SECONDS:
            x /= 1000
    return np.floor(x) if _FIRST <= x <= _LAST else np.nan


@kernel
def part_of(part, seconds):
    """Return the value of one part (hour, weekday, ...) of a time."""
    days = np.int64(np.floor(seconds / DAY))
    weekday = (days + 3) % 7
    hour = (np.int64(seconds) - DAY * days) // HOUR
    if part == HOURS:
        return hour
    if part == WEEKDAY:
        return weekday
    if part == WEEKEND_HOUR:
        return hour + 24 * (weekday >= 5)
    # Day within the 146,097 days of four centuries, then within the year, which begins in March.
    days = (days + 719_468) % 146_097
    year = (days - days // 1460 + days // 36_524 - days // 146_096) // 365
    days -= 365 * year + year // 4 - year // 100
    return ((5 * days + 2) // 153 + 2) % 12


@kernel
def parts_of(part, times, in_seconds, values):
    """Write `part_of` of each time to `values`, -1 where it is NaN. If not `in_seconds`, `seconds_of` is first."""
    for k in range(values.size):
        seconds = times[k] if in_seconds else seconds_of(times[k])
        values[k] = -1 if np.isnan(seconds) else part_of(part, seconds)
