"""HTTP requests from arrival to the first byte of the response: counted, and if refused, reported under an id."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from bayou.serve.messages import Messages
from bayou.serve.responses import JSON_HEAD, Head, RequestError
from bayou.serve.telemetry import OTHER, PROBES, Telemetry

# Request ids given by a client or a proxy that are safe to log and to send back.
_GIVEN_ID = re.compile(rb"[!-~]{1,128}")
# uvloop's message for a client that did not wait for its response.
_GONE = "the handler is closed"


class ClientGone(Exception):
    """Raised when the client closed the connection before its request was complete: it gets no response."""


class Response(NamedTuple):
    """Body, headers and status of a response."""

    body: bytes
    head: Head = JSON_HEAD
    status: int = 200


class HttpRequest:
    """Request of a client, with methods to respond to it.

    Attributes:
        route, model: the labels it is counted under; model is "" if it concerns none.
        started: when the last byte of the request arrived, by the clock of the telemetry.
        body: the body, once it was read.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        messages: Messages,
        scope: Any,
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
        about: tuple[str, str] = (OTHER, ""),
    ) -> None:
        self._telemetry, self._messages = telemetry, messages
        self.scope, self._receive, self.send = scope, receive, send
        self.path, self.method = scope.get("path", ""), scope.get("method", "")
        self.route, self.model = about
        self.started = telemetry.clock()
        self.body = b""

    # --- reading ------------------------------------------------------------------------------------------------------

    @cached_property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.scope["headers"])

    @cached_property
    def query(self) -> dict[str, list[str]]:
        try:
            return parse_qs(self.scope["query_string"].decode(), keep_blank_values=True)
        except UnicodeDecodeError:
            raise RequestError(400, "the query string of the address is not valid text.") from None

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    def parameter(self, name: str) -> str | None:
        """Return the last value of a query parameter, None without one."""
        values = self.query.get(name)
        return None if values is None else values[-1]

    async def receive(self) -> Any:
        """Return the next message from the client. The time that a client takes to send its body is not measured."""
        message = await self._receive()
        if not message.get("more_body", False):
            self.started = self._telemetry.clock()
        return message

    async def read_body(self, max_bytes: int) -> None:
        """Read the complete body; raise RequestError if it is too large, ClientGone if it does not arrive."""
        declared = self.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > max_bytes:
            raise RequestError(413, f"the body has {int(declared):,} bytes; the limit is {max_bytes:,}.")
        chunks: list[bytes] = []
        n_bytes, has_more = 0, True
        while has_more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunks.append(message.get("body", b""))
            has_more = message.get("more_body", False)
            n_bytes += len(chunks[-1])
            if n_bytes > max_bytes:
                raise RequestError(413, f"the body has more than {max_bytes:,} bytes; send less at once.")
        self.body = chunks[0] if len(chunks) == 1 else b"".join(chunks)

    # --- answering ----------------------------------------------------------------------------------------------------

    async def begin(self, status: int, head: Head) -> None:
        """Send the head of a response, and count the request."""
        self._telemetry.count(self.route, self.model, status, self.started)
        await self.send({"type": "http.response.start", "status": status, "headers": list(head)})

    async def respond(self, body: bytes, head: Head = JSON_HEAD, status: int = 200) -> None:
        """Send a response."""
        await self.begin(status, (*head, (b"content-length", b"%d" % len(body))))
        await self.send({"type": "http.response.body", "body": body})

    async def fail(self, error: Exception) -> None:
        """Respond with an error and report its sentence, without headers, body or address."""
        if isinstance(error, ClientGone) or (isinstance(error, RuntimeError) and _GONE in str(error)):
            return
        refused = error
        if not isinstance(refused, RequestError):
            refused = RequestError(500, "Unexpected error, a bug in bayou; the server's terminal says more.")
        head = refused.head
        if self.route not in PROBES:
            given_id = self.headers.get(b"x-request-id", b"")
            request_id = given_id.decode() if _GIVEN_ID.fullmatch(given_id) else secrets.token_hex(8)
            head = (*head, (b"x-request-id", request_id.encode()))
            unexpected, about = None if error is refused else error, (self.method, self.route, self.model, request_id)
            self._messages.refused(refused.sentence, refused.status, unexpected, *about)
        await self.respond(refused.body(), head, refused.status)
