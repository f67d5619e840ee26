"""How text of each format begins. Of a file whose name says nothing, the first line decides."""

from __future__ import annotations

import re
from typing import NamedTuple

from bayou.core.errors import BadInput

# No text can match these in two ways, or a long line that is no svmlight would take forever to be found out.
_NUMBER = rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_SVMLIGHT = re.compile(rb"(?:%s)?(?:\s+qid:\S+)?(?:\s+\d+:%s)*\s*(?:#.*)?" % (_NUMBER, _NUMBER))
_BEGUN = re.compile(rb"\d*:?[-+.\deE]*")  # a feature that may not be there to its end
_VW = re.compile(rb" *(?:%s +){0,2}(?:'[^ |]*)?\|" % _NUMBER)  # whatever follows the bar
_CRITEO = re.compile(rb"[01](\t(-?\d+)?){13}(\t\w*){26}\r?")
_PARQUET = b"PAR1"

# Bytes that text does not have; a file with several of them, and more than a few in a hundred, is none.
_CONTROL = bytes({*range(32)} - set(b"\t\n\v\f\r\x1b"))
_SEVERAL, _SHARE = 16, 0.03


class Head(NamedTuple):
    """The beginning of some data."""

    start: bytes
    first: bytes  # the first line that is not blank
    alone: bool  # whether there is no other such line
    ended: bool  # whether a line ends

    @classmethod
    def of(cls, start: bytes) -> Head:
        lines = [line for line in start.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
        return cls(start, lines[0] if lines else b"", len(lines) == 1, b"\n" in start)


def never(head: Head) -> bool:
    """Return False: no beginning tells this format."""
    return False


def is_parquet(head: Head) -> bool:
    return head.start.startswith(_PARQUET)


def is_criteo(head: Head) -> bool:
    return _CRITEO.fullmatch(head.first) is not None


def is_jsonl(head: Head) -> bool:
    return head.first.lstrip().startswith(b"{")


def is_svmlight(head: Head) -> bool:
    """Return whether a line is svmlight; the only one may be a label, and one without an end is judged up to its last
    blank.

    >>> is_svmlight(Head.of(b"1 3:1 12")), is_svmlight(Head.of(b"1 3:1 12 \\n"))
    (True, False)
    """
    line = head.first.lstrip()
    if _SVMLIGHT.fullmatch(line):
        return b":" in line or head.alone
    before, _, begun = line.rpartition(b" ")
    return not head.ended and b":" in before and bool(_BEGUN.fullmatch(begun) and _SVMLIGHT.fullmatch(before))


def is_vw(head: Head) -> bool:
    line = head.first
    bare = b"|" in line and b"," not in line and b"\t" not in line.partition(b"|")[0]
    return not is_jsonl(head) and (_VW.match(line) is not None or bare)


def is_tsv(head: Head) -> bool:
    return not is_jsonl(head) and b"\t" in head.first


def is_csv(head: Head) -> bool:
    return not is_jsonl(head) and b"\t" not in head.first and (b"," in head.first or b";" in head.first)


def check_text(name: str, start: bytes) -> None:
    """Raise BadInput for what is neither text nor Parquet, before each of its lines is found to be bad."""
    strange = len(start) - len(start.translate(None, _CONTROL))
    if start.startswith(_PARQUET) or strange < max(_SEVERAL, _SHARE * len(start)):
        return
    what = "is a binary file, not text; save the data as CSV, Parquet, JSON lines, svmlight or VW text"
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        what = "is UTF-16 text; save it as UTF-8"
    elif start.startswith(b"PK"):
        what = "is a zip archive or an Excel sheet; unpack it, or save it as CSV"
    raise BadInput(f"{name} {what}.")
