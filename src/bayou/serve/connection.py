"""Connections: limits and checks of what is read from the network, before any request reaches the app.

This is the only module that uses uvicorn's internals (tested with 0.54): `HttpToolsProtocol` has llhttp parse incoming
bytes, which calls `on_...` for each part of a message, and starts the app for each message whose head is complete.
Both buffer whatever they are sent, so this module limits what is buffered:

- heads (request line and headers) and trailers are bounded in bytes and lines, and checked when they are complete;
- bodies are bounded over all connections together (`Unfinished`);
- pipelined requests wait unparsed: a parsed one takes a hundred times its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bayou.serve.request_bodies import LONG_BODY_BYTES, Unfinished
from bayou.serve.responses import RequestError

# Limits of a request line with its headers, of trailers, and of the bytes between two chunks of a body.
MAX_HEAD_BYTES, MAX_HEADER_LINES = 64 << 10, 100
# Bytes passed to the parser at once, unless they are known to belong to a body.
PARSED_BYTES = 4 << 10
# Bytes of an incomplete body that are passed on at once.
STREAM_BODY_BYTES = 1 << 20
# Seconds before a refused connection is closed: closing it at once may lose the response.
LINGER_SECONDS = 0.5

# Headers that determine where a message goes and where it ends.
_FRAMING = frozenset((b"host", b"content-length", b"transfer-encoding"))
_TOO_LARGE = (
    f"the request line and the headers are too large; the limits are {MAX_HEAD_BYTES:,} bytes and "
    f"{MAX_HEADER_LINES} header lines."
)


class _Flow(FlowControl):
    """Flow control that pauses reading while bytes wait to be parsed."""

    unparsed = b""

    def resume_reading(self) -> None:
        if self.read_paused and not self.unparsed:
            super().resume_reading()


class Connection(HttpToolsProtocol):
    """Connection of a client. A malformed message gets its error response in order, which ends the connection.

    Args:
        unfinished: the bytes of all requests in progress.
        on_refused: called with each refused request that the app does not see.
    """

    flow: _Flow

    def __init__(self, unfinished: Unfinished, on_refused: Callable[[RequestError], None], **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._unfinished, self._on_refused = unfinished, on_refused
        # Start time of the connection or of the request being received; None while none is expected.
        self.since: float | None = None
        self._idle_since = 0.0  # when the last response was sent
        # State of the message being received.
        self._in_body = False
        self._idle_bytes = 0  # since the start of a message, a part of a body, or the end of a message
        self._body_bytes = 0  # still to be received, if known
        self._fault: RequestError | None = None  # why reading has stopped
        self._last_answer = b""  # sent once the requests before it are answered

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.flow = _Flow(transport)
        self.since = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        for cycle, _ in self.pipeline:  # these never start
            self._unfinished.release(cycle.scope)
        self.pipeline.clear()
        super().connection_lost(exc)

    # --- reading ------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._fault is not None:
            return
        if self.pipeline or self.flow.unparsed:
            self.flow.unparsed += data
            self.flow.pause_reading()
        elif len(data) <= PARSED_BYTES:
            self._parse(data)
        else:
            self._parse_slices(memoryview(data))

    def _parse_slices(self, data: memoryview) -> None:
        """Parse until a request has to wait for an earlier one."""
        start = 0
        while start < len(data) and self._fault is None and not self.transport.is_closing():
            if self.pipeline:
                self.flow.unparsed = bytes(data[start:])
                return
            stop = start + max(PARSED_BYTES, self._body_bytes)
            self._parse(data[start:stop])
            start = stop

    def _parse_waiting(self) -> None:
        """Continue parsing where requests had to wait."""
        data, self.flow.unparsed = self.flow.unparsed, b""
        if self.transport.is_closing():
            return
        if self.since is not None:
            self.since = self.loop.time()
        self._parse_slices(memoryview(data))
        if not self.pipeline and self._fault is None and len(self.cycle.body) <= STREAM_BODY_BYTES:
            self.flow.resume_reading()

    def _parse(self, data: bytes | memoryview) -> None:
        self._idle_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # no other protocol is supported: the response is the last one
            self.cycle.keep_alive = False
            self._fault = RequestError(400, "")
        except httptools.HttpParserError as error:
            self._refuse(self._fault or RequestError(400, f"this is not an HTTP request ({error})."))
        else:
            if self._idle_bytes > MAX_HEAD_BYTES:
                self._refuse(RequestError(431, _TOO_LARGE))

    # --- parts of a message -------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._body_bytes = 0
        self.since = self.loop.time()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MAX_HEADER_LINES:
            self._fail(RequestError(431, _TOO_LARGE))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check the head before the app is started."""
        parser, headers = self.parser, self.headers
        n_hosts, length, encoding = 0, b"0", b""
        for name, value in headers:
            if name in _FRAMING:
                if name == b"host":
                    n_hosts += 1
                elif name == b"content-length":
                    length = value
                else:
                    encoding += value.strip(b" \t").lower() + b";"
        self._body_bytes = int(length)
        version = parser.get_http_version()
        if n_hosts != 1 or encoding or version != "1.1" or parser.should_upgrade():
            self._check_framing(version, n_hosts, encoding)
        if self._idle_bytes > MAX_HEAD_BYTES - PARSED_BYTES:
            lines = sum(len(name) + len(value) + 4 for name, value in headers)
            if len(self.url) + lines > MAX_HEAD_BYTES:
                self._fail(RequestError(431, _TOO_LARGE))
        try:
            super().on_headers_complete()
        except (httptools.HttpParserError, AttributeError, UnicodeDecodeError):  # AttributeError: for CONNECT
            self._fail(RequestError(400, "the address of the request cannot be read."))
        self._in_body, self.headers = True, []  # trailers are counted but not kept

    def _check_framing(self, version: str, n_hosts: int, encoding: bytes) -> None:
        """Refuse a message that a proxy and this server could interpret differently."""
        if version not in ("1.0", "1.1"):
            self._fail(RequestError(400, f"HTTP/{version} is not supported; use HTTP/1.1 or HTTP/1.0."))
        if n_hosts > 1 or (n_hosts == 0 and version == "1.1"):
            self._fail(RequestError(400, f"a request must have one Host header; this one has {n_hosts or 'none'}."))
        if encoding and (version == "1.0" or encoding != b"chunked;"):
            self._fail(RequestError(400, "Transfer-Encoding must be `chunked`, given once, in HTTP/1.1."))
        if self.parser.should_upgrade() and (encoding or self._body_bytes):
            self._fail(RequestError(400, "a request for another protocol (Upgrade) must have no body."))

    def on_body(self, body: bytes) -> None:
        """Buffer a part of a body; the body is passed on when it is complete, or long."""
        cycle = self.cycle
        self._idle_bytes = 0
        self._body_bytes -= len(body)
        if cycle.response_complete:
            return
        cycle.body += body
        size = len(cycle.body)
        if size > LONG_BODY_BYTES:
            try:
                self._unfinished.add(cycle.scope, size if size - len(body) <= LONG_BODY_BYTES else len(body))
            except RequestError as refused:
                self._fail(refused)
        if size > STREAM_BODY_BYTES:
            self.flow.pause_reading()
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()
        self.since, self._in_body, self._idle_bytes = None, False, 0

    def on_response_complete(self) -> None:
        """Continue with waiting requests. Replaces uvicorn's method, which sets a timer after each response."""
        was_last = not self.pipeline
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if not was_last:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._last_answer:
            self._end(self._last_answer)
        else:
            self._idle_since = self.loop.time()
        if self.flow.unparsed and not self.pipeline:
            self.loop.call_soon(self._parse_waiting)

    # --- refusing -----------------------------------------------------------------------------------------------------

    def close_if_late(self, now: float, timeout: float) -> None:
        """End the connection if its request is not complete in time, or none came for `timeout_keep_alive` seconds."""
        if self._fault is not None or self.flow.unparsed:
            return
        if self.since is not None:
            if now - self.since > timeout:
                self._refuse(RequestError(408, "the request did not arrive in time."))
        elif now - self._idle_since > self.timeout_keep_alive and self.cycle.response_complete:
            self.transport.close()

    def _fail(self, refused: RequestError) -> NoReturn:
        """Abort parsing from within a callback; `_parse` then responds."""
        self._fault = refused
        raise refused

    def _refuse(self, refused: RequestError) -> None:
        """Respond to the message being received with an error, after those before it, and end the connection."""
        self._fault, self.since = refused, None
        self._on_refused(refused)
        answer, cycle = _answer(refused), self.cycle
        if self._in_body:  # the app may be waiting for the rest of the body
            if cycle.response_started:
                answer = b""
            cycle.disconnected, cycle.body = True, bytearray()
            cycle.message_event.set()
            if self.pipeline:  # it never starts
                self._unfinished.release(self.pipeline.popleft()[0].scope)
            else:
                self._end(answer)
                return
        elif cycle is None or cycle.response_complete:
            self._end(answer)
            return
        self._last_answer = answer
        self.flow.pause_reading()

    def _end(self, answer: bytes) -> None:
        """Send a last response, and close once the client has had time to read it; further input is ignored."""
        self.flow.unparsed = self._last_answer = b""
        if not answer:
            self.transport.close()
        elif not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.write_eof()
            self.flow.resume_reading()
            self.loop.call_later(LINGER_SECONDS, self.transport.close)


def _answer(refused: RequestError) -> bytes:
    body = refused.body()
    head = {**dict(refused.head), b"connection": b"close", b"content-length": b"%d" % len(body)}
    lines = b"".join(b"%s: %s\r\n" % header for header in head.items())
    return b"%s%s\r\n%s" % (STATUS_LINE[refused.status], lines, body)
