"""A slow, obvious parser of tables in plain Python: what the kernels answer to.

Cells are found by regular expressions, features by the rules of `Recipe` and `Column`, one cell at a time, with a
hash of its own. Nothing here is shared with the fast path but the fitted recipe.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import re
from typing import NamedTuple

QUOTED_BYTES = 1 << 20
MISSING_IN_ANY_CASE = ("na", "n/a", "nan", "null", "none", "-", "?", "unknown", "\\n")
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

_QUOTED = re.compile(rb'"((?:[^"]|"")*+)"')
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(rb"[+-]?\d+")
_WORD = re.compile(r"\w+")
_DATE = re.compile(
    r"(\d{4})([-/])(\d\d)\2(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,]\d*)?)?(?:[Zz]|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)
_SIGNS = rb"[$% \t\x80-\xff]*"
_GROUPED = {
    "point": re.compile(
        _SIGNS + rb"([+-]?)" + _SIGNS + rb"(\d{1,3}(?:[, ']\d{3})+|\d*)(\.\d*)?([eE][+-]?\d+)?" + _SIGNS
    ),
    "comma": re.compile(
        _SIGNS + rb"([+-]?)" + _SIGNS + rb"(\d{1,3}(?:[. ']\d{3})+|\d*)(,\d*)?([eE][+-]?\d+)?" + _SIGNS
    ),
}


class Row(NamedTuple):
    """An example: its features in order, its label and weight, and the line it began in."""

    features: list[tuple[int, float]]
    label: float
    weight: float
    line: int


class BadCell(Exception):
    pass


def with_grams(words: list[str], ngrams: int, characters: int) -> list[str]:
    """Words, their runs of up to `ngrams`, and each one's runs of so many characters, its ends among them."""
    found = ["_".join(words[k : k + n]) for n in range(1, ngrams + 1) for k in range(len(words) - n + 1)]
    if characters:
        marked = [f"_{word}_" for word in words]
        found += ["·" + word[k : k + characters] for word in marked for k in range(len(word) - characters + 1)]
    return found


# --- text into cells ------------------------------------------------------------------------------------------------


def split(text: bytes, delimiter: bytes, width: int) -> tuple[list[tuple[int, list[bytes]]], int]:
    """([(line, cells) of each row], bad rows) of a text that ends in a newline."""
    rows, bad, at, line = [], 0, 0, 0
    while at < len(text):
        behind_line = text.index(b"\n", at) + 1
        if text[at:behind_line] not in (b"\n", b"\r\n"):
            found = _row(text, at, delimiter, width)
            if found is not None:
                cells, behind = found
                rows.append((line, cells))
                line += text.count(b"\n", at, behind)
                at = behind
                continue
            bad += 1
        at = behind_line
        line += 1
    return rows, bad


def _row(text: bytes, at: int, delimiter: bytes, width: int) -> tuple[list[bytes], int] | None:
    """(cells, where the row ends), or None if it is bad."""
    cells = []
    while len(cells) < width:
        if text[at : at + 1] == b'"':
            quoted = _QUOTED.match(text, at)
            if quoted is None or quoted.end() - 1 >= at + 1 + QUOTED_BYTES:
                return None
            cells.append(quoted[1].replace(b'""', b'"'))
            at = quoted.end()
            if text[at : at + 2] == b"\r\n":
                at += 1
        else:
            end = re.compile(b"[" + re.escape(delimiter) + b"\n]").search(text, at).start()
            cell = text[at:end]
            if text[end : end + 1] == b"\n":
                cell = cell.removesuffix(b"\r")
            cells.append(cell)
            at = end
        if text[at : at + 1] == b"\n":
            return (cells, at + 1) if len(cells) == width else None
        if text[at : at + 1] != delimiter:
            return None
        at += 1
    return None


# --- cells into features --------------------------------------------------------------------------------------------


def murmur3(text: bytes, seed: int = 0) -> int:
    """MurmurHash3, x86, 32 bits."""

    def scramble(k: int) -> int:
        k = k * 0xCC9E2D51 & 0xFFFFFFFF
        k = (k << 15 | k >> 17) & 0xFFFFFFFF
        return k * 0x1B873593 & 0xFFFFFFFF

    h = seed
    whole = len(text) // 4 * 4
    for at in range(0, whole, 4):
        h ^= scramble(int.from_bytes(text[at : at + 4], "little"))
        h = (h << 13 | h >> 19) & 0xFFFFFFFF
        h = (h * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= scramble(int.from_bytes(text[whole:], "little"))
    h ^= len(text)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16


def says_missing(cell: bytes, recipe) -> bool:
    text = cell.strip(b" \t").decode("latin-1")
    own = [mark.strip(" \t").encode().lower().decode("latin-1") for mark in recipe.missing]
    usual = () if "" in recipe.missing else MISSING_IN_ANY_CASE
    return text.encode("latin-1").lower().decode("latin-1") in ("", *own, *usual)


def number(cell: bytes, recipe) -> float | None:
    """The number in a cell, None if it is missing."""
    cell = cell.strip(b" \t")
    plain = cell
    if recipe.decimal == "comma" and _NUMBER.fullmatch(cell):
        plain = b""
    if _NUMBER.fullmatch(plain) and not math.isinf(float(plain)):
        return float(plain)
    if says_missing(cell, recipe):
        return None
    found = _GROUPED[recipe.decimal].fullmatch(cell) if recipe.decimal else None
    if found is None:
        raise BadCell
    sign, whole, fraction, exponent = found.groups(b"")
    digits = re.sub(rb"[^\d]", b"", whole)
    text = sign + digits + fraction.replace(b",", b".") + exponent
    if not _NUMBER.fullmatch(text) or math.isinf(float(text)):
        raise BadCell
    return float(text)


def number_text(x: float) -> bytes:
    """How a number is always written: by nine digits, if it is not whole."""
    if x.is_integer() and abs(x) < 2**53:
        return b"%d" % int(x)
    mantissa, exponent = f"{x:.8e}".split("e")
    if -5 <= int(exponent) <= 8:
        return f"{x:.{8 - int(exponent)}f}".rstrip("0").rstrip(".").encode()
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}".encode()


def point(cell: bytes, recipe) -> datetime.datetime | None:
    """The point in time in a cell, None if it is missing."""
    text = cell.strip(b" \t").decode("latin-1")
    found = _DATE.fullmatch(text)
    try:
        if found is not None:
            year, _, *others = found.groups("0")
            month, day, hour, minute, second = map(int, others)
            return datetime.datetime(int(year), month, day, hour, minute, min(second, 59 if second == 60 else second))
        x = number(cell, recipe)
        if x is None:
            return None
        if 10_000_000 <= x < 100_000_000 and x.is_integer() and 1900 <= x // 10_000 < 2200:
            with contextlib.suppress(ValueError):
                return datetime.datetime(int(x) // 10_000, int(x) // 100 % 100, int(x) % 100)
        for _ in range(3):
            x = x / 1000 if abs(x) >= 1e11 else x
        return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=math.floor(x))
    except (ValueError, OverflowError):
        raise BadCell from None


def part(name: str, when: datetime.datetime | None) -> int:
    """Which value of a part of a date."""
    if when is None:
        return {"hour": 24, "weekday": 7, "month": 12, "weekend hour": 48}[name]
    weekend = when.weekday() >= 5
    return {
        "hour": when.hour,
        "weekday": when.weekday(),
        "month": when.month - 1,
        "weekend hour": when.hour + 24 * weekend,
    }[name]


def level(knots, levels, x: float) -> float:
    """How far up its slope a number is, from 0 to 1."""
    if x < knots[0]:
        return levels[0]
    k = max(k for k in range(len(knots)) if knots[k] <= x)
    if k == len(knots) - 1:
        return levels[-1]
    return levels[k] + (x - knots[k]) * ((levels[k + 1] - levels[k]) / (knots[k + 1] - knots[k]))


def whole_text(cell: bytes) -> bytes | None:
    """How a whole number is always written, None if the cell is not one."""
    cell = cell.strip(b" \t")
    if _WHOLE.fullmatch(cell):
        return b"%d" % int(cell)
    if _NUMBER.fullmatch(cell) and float(cell).is_integer() and abs(float(cell)) < 2**53:
        return b"%d" % int(float(cell))
    return None


def hashes(column, cell: bytes, recipe) -> list[tuple[int, float]]:
    """(hash, value) of the features that a column makes of a cell."""
    seed = murmur3(column.name.encode())

    def named(text: bytes) -> tuple[int, float]:
        return murmur3(text, seed), 1.0

    if column.role == "category":
        return [named(cell)]
    if column.role == "flag":
        return [named(cell.lower() if cell.lower() in (b"true", b"false") else cell)]
    if column.role == "code":
        text = whole_text(cell)
        if text is None:
            text = b"" if says_missing(cell, recipe) else cell.strip(b" \t")
        return [named(text)]
    if column.role == "text":
        words = with_grams(_WORD.findall(cell.decode("utf-8", "replace").lower()), recipe.ngrams, recipe.char_ngrams)
        return [named(word.encode()) for word in dict.fromkeys(words)]
    try:
        x = when = None
        if column.role == "date":
            when = point(cell, recipe)
        else:
            x = number(cell, recipe)
            x = None if x in [float(mark) for mark in recipe.missing if _NUMBER.fullmatch(mark.encode())] else x
    except BadCell:
        pass
    if column.role == "date":
        return [named(b"\x00%b%d" % (name.encode(), part(name, when))) for name in column.parts]
    if x is None:
        return [named(b"")]
    slope = []
    if column.knots:
        slope += [(seed, math.sqrt(3.0) * (2.0 * level(column.knots, column.levels, x) - 1.0))]
    if column.raw_knots:
        value = math.sqrt(3.0) * (2.0 * level(column.raw_knots, column.raw_levels, x) - 1.0)
        slope += [(murmur3(b"\x00raw", seed), value)]
    if column.role == "values":
        return [named(number_text(x)), *slope]
    if column.role == "numeric":
        return [(seed, min(max((x - column.centre) / column.scale, -5.0), 5.0))]
    features = [named(b"\x00bin%d" % sum(edge <= x for edge in column.edges))]
    if column.role == "whole":
        text = whole_text(cell)
        if text is None and x.is_integer() and abs(x) < 2**53:
            text = number_text(x)
        features += [] if text is None else [named(text)]
    return features + slope


def label_of(recipe, cell: bytes) -> float:
    cell = cell.strip(b" \t")
    if recipe.positive is not None:
        if not cell:
            raise BadCell
        try:
            same = number(cell, recipe) == float(recipe.positive)
        except (BadCell, ValueError):
            same = False
        return 1.0 if same or cell == recipe.positive.strip(" \t").encode() else -1.0
    if recipe.label_above is None and cell.lower() in (b"true", b"false"):
        return float(cell.lower() == b"true")
    x = number(cell, recipe)
    if x is None or abs(x) > 1e12:
        raise BadCell
    return x


def example(recipe, names, pairs, cells: list[bytes], line: int) -> Row:
    """A row of cells as an example; raises BadCell. pairs: the columns (by name), two or more, that are crossed."""
    by_name = dict(zip(names, cells, strict=True))
    label, weight, features = math.nan, 1.0, {}
    for column in recipe.columns:
        cell = by_name.get(column.name, b"")
        if column.role == "label":
            label = label_of(recipe, cell)
        elif column.role == "weight":
            weight = number(cell, recipe)
            if weight is None or not 0 <= weight <= 1e6:
                raise BadCell
        elif column.role not in ("ignored", "id"):
            features[column.name] = hashes(column, cell, recipe)
    every = [one for some in features.values() for one in some]
    for names_ in pairs:
        made = features[names_[0]]
        for name in names_[1:]:
            made = [((a * 16777619 & 0xFFFFFFFF) ^ b, x * y) for a, x in made for b, y in features[name]]
        every += made
    return Row([(h % recipe.n_features, x) for h, x in every], label, weight, line)


def parse(recipe, names, text: bytes, delimiter: bytes = b",", pairs=()) -> tuple[list[Row], int]:
    """(examples, bad rows) of a text without its header."""
    rows, bad = split(text, delimiter, len(names))
    good = []
    for line, cells in rows:
        try:
            good.append(example(recipe, names, pairs, cells, line))
        except BadCell:
            bad += 1
    return good, bad
