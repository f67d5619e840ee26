"""Request bodies: format, decompression, rows, ids and late labels."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from bayou.core.arrow import pa
from bayou.serve.log import ARROW, JSON, VW
from bayou.serve.responses import RequestError
from bayou.sources.formats.registry import with_bodies

TYPES = {kind: body.code for body in with_bodies() for kind in (*body.media_types, *body.other_types)}
# JSON content types with a value in each line.
_LINES = {kind for kind, code in TYPES.items() if code == JSON} - {"application/json"}
# Content types of clients that set none.
_ANY = {"", "application/x-www-form-urlencoded", "application/octet-stream", "text/plain"}
MAX_ID_BYTES = 256
# Bodies longer than this are read by another thread.
LONG_BODY_BYTES = 64 << 10

_raw_list = msgspec.json.Decoder(list[msgspec.Raw])


class Unfinished:
    """Count of the bytes of all requests in progress, with a limit.

    The bytes of a request are stored in its scope. Bodies of at most `LONG_BODY_BYTES` bytes are not counted.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.n_bytes = max_bytes, 0
        self._lock = threading.Lock()

    def add(self, scope: Any, n_bytes: int) -> None:
        """Count bytes of a request in progress; raise RequestError if there are too many in total."""
        with self._lock:
            counted = scope.get("unfinished", 0)
            if counted is None:  # answered
                return
            if self.n_bytes + n_bytes > self.max_bytes:
                raise RequestError(
                    503,
                    f"unanswered requests hold {self.n_bytes:,} bytes; the limit for all clients together is "
                    f"{self.max_bytes:,}. Try again in a moment.",
                )
            self.n_bytes += n_bytes
            scope["unfinished"] = counted + n_bytes

    def release(self, scope: Any) -> None:
        """Remove the bytes of a request that was answered, or never will be."""
        with self._lock:
            self.n_bytes -= scope.get("unfinished") or 0
            scope["unfinished"] = None


class _Id(msgspec.Struct):
    id: Any = None


class LateLabel(msgspec.Struct):
    """Label that arrives after its row."""

    id: str | int
    label: msgspec.Raw
    weight: float = 1.0

    @property
    def body(self) -> bytes:
        """The label with its weight as JSON, as it is logged."""
        weight = b"" if self.weight == 1.0 else b',"weight":%r' % self.weight
        return b'{"label":%s%s}' % (bytes(self.label), weight)


_id_of = msgspec.json.Decoder(_Id)
_labels = msgspec.json.Decoder(list[LateLabel])
_label = msgspec.json.Decoder(LateLabel)


def detect_body_format(content_type: str, forms: tuple[int, ...]) -> tuple[int, bool]:
    """Return the format of a body, and whether each line is a JSON value."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in _ANY:
        return forms[0], False
    if kind not in TYPES:
        raise RequestError(415, f"Content-Type {kind!r} is not supported; use one of: {', '.join(TYPES)}.")
    return TYPES[kind], kind in _LINES


def decompressed(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Return the decompressed body; raise RequestError if it has more bytes than allowed."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "zstd"):
        raise RequestError(415, f"Content-Encoding {encoding!r} is not supported; use gzip or zstd.")
    try:
        with pa.CompressedInputStream(pa.py_buffer(body), encoding) as stream:
            chunks, size = [], 0
            while chunk := stream.read(1 << 20):
                chunks.append(chunk)
                size += len(chunk)
                if size > max_bytes:
                    raise RequestError(
                        413, f"the body is larger than {max_bytes:,} bytes when decompressed; send less."
                    )
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise RequestError(400, f"the body is not what its Content-Encoding says ({encoding}): {reason}.") from None
    return b"".join(chunks)


def lines_of(body: bytes, body_format: int, lines: bool, max_rows: int) -> tuple[Sequence[bytes], bool]:
    """Return the rows of a body, one per line, and whether it is a single row and not a list."""
    if body_format == ARROW:
        return [body], False
    if body_format == JSON and not lines:
        text = body.strip()
        if text.startswith(b"["):
            return _counted(_rows_in(text), max_rows), False
        return [text.replace(b"\n", b" ").replace(b"\r", b" ")], True
    rows = [line for line in body.split(b"\n") if line and not line.isspace()]
    return _counted(rows, max_rows), body_format != JSON and len(rows) == 1


def _rows_in(text: bytes) -> list[bytes]:
    """Return the rows of a JSON list, one in each line."""
    try:
        return [bytes(row).replace(b"\n", b" ") for row in _raw_list.decode(text)]
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        rows = _by_python(text)  # which also takes NaN
        if not isinstance(rows, list):
            raise RequestError(422, f"the body is not a list of JSON rows: {error}.") from None
        return [as_json(row) for row in rows]


def _by_python(text: bytes) -> Any:
    """Return JSON as Python reads it, with NaN and lone surrogates, as row readers do; None if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def as_json(row: Any) -> bytes:
    """Return a row as a line of JSON."""
    return json.dumps(row, default=str, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _counted(rows: list[bytes], max_rows: int) -> list[bytes]:
    if len(rows) > max_rows:
        raise RequestError(413, f"the body has {len(rows):,} rows; the limit is {max_rows:,}.")
    return rows


def ids_to_remember(
    lines: Sequence[bytes], given_id: str | None, body_format: int, single: bool
) -> list[str | None] | None:
    """Return the ids under which rows are to be stored; None if there are none."""
    if given_id is not None:
        if len(lines) != 1:
            raise RequestError(422, "?id= is for one row; give each of several rows a field `id`.")
        if body_format not in (JSON, VW):
            raise RequestError(422, "rows are remembered as JSON or VW text; send this one so.")
        return [checked_id(given_id)]
    if body_format != JSON:
        return None
    ids: list[str | None] = []
    for index, key in enumerate(_keys_in(lines)):
        try:
            ids.append(None if key is None else checked_id(key))
        except RequestError as error:
            raise RequestError(422, error.sentence, {index: error.sentence} if not single else None) from None
    return ids if any(key is not None for key in ids) else None


def row_ids(lines: Sequence[bytes], given_id: str | None, body_format: int) -> list[str]:
    """Return the ids that labeled rows have, without invalid ones."""
    keys = [given_id] if given_id is not None else _keys_in(lines) if body_format == JSON else ()
    ids = []
    for key in keys:
        with suppress(RequestError):
            ids.append(checked_id(key))
    return ids


def _keys_in(lines: Sequence[bytes]) -> Iterator[Any]:
    """Yield the id of each JSON row, None without one."""
    for line in lines:
        key = None
        if b'"id"' in line:
            try:
                key = _id_of.decode(line).id
            except (msgspec.DecodeError, ValueError, RecursionError):
                row = _by_python(line)  # None if it is not a row, and will be refused as such
                key = row.get("id") if isinstance(row, dict) else None
        yield key


def checked_id(key: Any) -> str:
    """Return an id as text."""
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise RequestError(422, "an id must be text or a whole number.")
    text = str(key)
    if not 0 < len(text.encode("utf-8", "surrogatepass")) <= MAX_ID_BYTES:
        raise RequestError(422, f"an id must have 1 to {MAX_ID_BYTES} bytes.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RequestError(422, "an id must be valid Unicode text.") from None
    return text


def labels_of(body: bytes, max_labels: int) -> tuple[list[LateLabel], bool]:
    """Return late labels, and whether the body is a single one and not a list."""
    text = body.strip()
    single = not text.startswith(b"[")
    try:
        labels = [_label.decode(text)] if single else _labels.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise RequestError(422, f'expected {{"id": ..., "label": ...}}, or a list of such: {error}.') from None
    if len(labels) > max_labels:
        raise RequestError(413, f"the body has {len(labels):,} labels; the limit is {max_labels:,}.")
    bad = {k: "a weight must be from 0 to 1,000,000." for k, label in enumerate(labels) if not 0 <= label.weight <= 1e6}
    if bad:
        raise RequestError(422, next(iter(bad.values())), None if single else bad)
    return labels, single
