"""Which format data have: told by the name, or by how they begin."""

from __future__ import annotations

import re

from bayou.errors import BadInput

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

CRITEO_CELLS = 40
_NUMBER = rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_SVMLIGHT = re.compile(rb"\s*(%s)?(\s+qid:\S+)?(\s+\d+:%s)*\s*(#.*)?" % (_NUMBER, _NUMBER))
_CRITEO = re.compile(rb"[01](\t(-?\d+)?){13}(\t\w*){26}\r?")


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
    if _SVMLIGHT.fullmatch(first) and (b":" in first or len(lines) == 1):
        return "svmlight"
    if b"|" in first and b"," not in first and b"\t" not in first.partition(b"|")[0]:
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


def _by_suffix(name: str) -> str | None:
    parts = name.lower().rsplit("/", 1)[-1].split(".")
    while len(parts) > 1 and parts[-1] in ("gz", "zst", "gzip", "zstd"):
        parts.pop()
    return _BY_SUFFIX.get(parts[-1]) if len(parts) > 1 else None
