"""Detection of formats by the first line, for files whose name has no known suffix."""

from __future__ import annotations

import re
from typing import NamedTuple

from bayou.core.errors import BadInput

# No text can match these in two ways: backtracking over a long line that is not svmlight would take forever.
_NUMBER = rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_SVMLIGHT = re.compile(rb"(?:%s)?(?:\s+qid:\S+)?(?:\s+\d+:%s)*\s*(?:#.*)?" % (_NUMBER, _NUMBER))
_BEGUN = re.compile(rb"\d*:?[-+.\deE]*")  # a feature that may be cut off
_VW = re.compile(rb" *(?:%s +){0,2}(?:'[^ |]*)?\|" % _NUMBER)  # up to the first bar
_CRITEO = re.compile(rb"[01](\t(-?\d+)?){13}(\t\w*){26}\r?")
_PARQUET = b"PAR1"

# Bytes that do not occur in text; a file with at least _SEVERAL of them, and a fraction of _SHARE, is binary.
_CONTROL = bytes({*range(32)} - set(b"\t\n\v\f\r\x1b"))
_SEVERAL, _SHARE = 16, 0.03


class Head(NamedTuple):
    """The beginning of a file or stream."""

    start: bytes
    first: bytes  # the first line that is not blank
    alone: bool  # whether it is the only such line
    ended: bool  # whether there is a newline

    @classmethod
    def of(cls, start: bytes) -> Head:
        lines = [line for line in start.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
        return cls(start, lines[0] if lines else b"", len(lines) == 1, b"\n" in start)


def never(head: Head) -> bool:
    """Return False, for formats that cannot be detected from the data."""
    return False


def is_parquet(head: Head) -> bool:
    return head.start.startswith(_PARQUET)


def is_criteo(head: Head) -> bool:
    return _CRITEO.fullmatch(head.first) is not None


def is_jsonl(head: Head) -> bool:
    return head.first.lstrip().startswith(b"{")


def is_svmlight(head: Head) -> bool:
    """Return whether the first line is svmlight.

    If it is the only line it may be a label alone; if it is cut off, only the text up to its last blank must match.

    >>> is_svmlight(Head.of(b"1 3:1 12")), is_svmlight(Head.of(b"1 3:1 12 \\n"))
    (True, False)
    """
    line = head.first.lstrip()
    if _SVMLIGHT.fullmatch(line):
        return b":" in line or head.alone
    complete, _, unfinished = line.rpartition(b" ")
    return not head.ended and b":" in complete and bool(_BEGUN.fullmatch(unfinished) and _SVMLIGHT.fullmatch(complete))


def is_vw(head: Head) -> bool:
    line = head.first
    bare = b"|" in line and b"," not in line and b"\t" not in line.partition(b"|")[0]
    return not is_jsonl(head) and (_VW.match(line) is not None or bare)


def is_tsv(head: Head) -> bool:
    return not is_jsonl(head) and b"\t" in head.first


def is_csv(head: Head) -> bool:
    return not is_jsonl(head) and b"\t" not in head.first and (b"," in head.first or b";" in head.first)


def check_text(name: str, start: bytes) -> None:
    """Raise BadInput for data that are neither text nor Parquet, instead of reporting each line as bad."""
    n_control = len(start) - len(start.translate(None, _CONTROL))
    if start.startswith(_PARQUET) or n_control < max(_SEVERAL, _SHARE * len(start)):
        return
    problem = "is a binary file, not text; save the data as CSV, Parquet, JSON lines, svmlight or VW text"
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        problem = "is UTF-16 text; save it as UTF-8"
    elif start.startswith(b"PK"):
        problem = "is a zip archive or an Excel sheet; unpack it, or save it as CSV"
    raise BadInput(f"{name} {problem}.")
