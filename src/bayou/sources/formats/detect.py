"""Which format data have: told by the name, or by how they begin."""

from __future__ import annotations

import re

from bayou.core.errors import BadInput

FORMATS = ("auto", "svmlight", "vw", "csv", "tsv", "criteo", "parquet", "jsonl")

_BY_SUFFIX = {
    "svm": "svmlight",
    "svmlight": "svmlight",
    "libsvm": "svmlight",
    "vw": "vw",
    "csv": "csv",
    "tsv": "tsv",
    "parquet": "parquet",
    "pq": "parquet",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
}
# The kind of recipe that each format goes with.
KIND = {"svmlight": "svmlight", "vw": "vw"} | dict.fromkeys(
    ("csv", "tsv", "criteo", "parquet", "jsonl", "arrow"), "table"
)

# No text can match these in two ways, or a long line that is no svmlight would take forever to be found out.
_NUMBER = rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_SVMLIGHT = re.compile(rb"(?:%s)?(?:\s+qid:\S+)?(?:\s+\d+:%s)*\s*(?:#.*)?" % (_NUMBER, _NUMBER))
_BEGUN = re.compile(rb"\d*:?[-+.\deE]*")  # a feature that may not be there to its end
_VW = re.compile(rb" *(?:%s +){0,2}(?:'[^ |]*)?\|" % _NUMBER)  # whatever follows the bar
_CRITEO = re.compile(rb"[01](\t(-?\d+)?){13}(\t\w*){26}\r?")


# Bytes that text does not have; a file with several of them, and more than a few in a hundred, is none.
_CONTROL = bytes({*range(32)} - set(b"\t\n\v\f\r\x1b"))
_SEVERAL, _SHARE = 16, 0.03


def check_text(name: str, head: bytes) -> None:
    """Refuse what is neither text nor Parquet, before each of its lines is found to be bad."""
    strange = len(head) - len(head.translate(None, _CONTROL))
    if head.startswith(b"PAR1") or strange < max(_SEVERAL, _SHARE * len(head)):
        return
    what = "is a binary file, not text; save the data as CSV, Parquet, JSON lines, svmlight or VW text"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        what = "is UTF-16 text; save it as UTF-8"
    elif head.startswith(b"PK"):
        what = "is a zip archive or an Excel sheet; unpack it, or save it as CSV"
    raise BadInput(f"{name} {what}.")


def detect(name: str, head: bytes) -> str:
    """The format of a file whose text begins with `head`."""
    if head.startswith(b"PAR1"):
        return "parquet"
    lines = [line for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    first = lines[0] if lines else b""
    if _CRITEO.fullmatch(first):  # whatever its name: the layout has no header, so it cannot be read as a plain table
        return "criteo"
    by_name = _by_suffix(name)
    if by_name is not None:
        return by_name
    if first.lstrip().startswith(b"{"):
        return "jsonl"
    if _is_svmlight(first, alone=len(lines) == 1, ended=b"\n" in head):
        return "svmlight"
    if _VW.match(first) or (b"|" in first and b"," not in first and b"\t" not in first.partition(b"|")[0]):
        return "vw"
    if b"\t" in first:
        return "tsv"
    if b"," in first or b";" in first:
        return "csv"
    if not first:
        return "svmlight"  # an empty file has no examples in any format
    raise BadInput(
        f"{name}: the format cannot be told from the beginning of the data; say it with --format "
        f"({', '.join(FORMATS[1:])})."
    )


def _is_svmlight(line: bytes, alone: bool, ended: bool) -> bool:
    """Whether a line is svmlight; the only line may be a label, and one without an end is judged up to its last blank.

    >>> _is_svmlight(b"1 3:1 12", alone=True, ended=False), _is_svmlight(b"1 3:1 12", alone=True, ended=True)
    (True, False)
    """
    line = line.lstrip()
    if _SVMLIGHT.fullmatch(line):
        return b":" in line or alone
    before, _, begun = line.rpartition(b" ")
    return not ended and b":" in before and bool(_BEGUN.fullmatch(begun) and _SVMLIGHT.fullmatch(before))


def _by_suffix(name: str) -> str | None:
    parts = name.lower().rsplit("/", 1)[-1].split(".")
    while len(parts) > 1 and parts[-1] in ("gz", "zst", "gzip", "zstd"):
        parts.pop()
    return _BY_SUFFIX.get(parts[-1]) if len(parts) > 1 else None
