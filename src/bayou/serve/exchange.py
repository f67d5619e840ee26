"""A request from its arrival to the first byte of its answer: counted, and where it is refused said under an id."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from bayou.serve.messages import Messages
from bayou.serve.telemetry import OTHER, PROBES, Telemetry

# An id that a client or a proxy gave, if it is fit to be said and sent back.
_GIVEN_ID = re.compile(rb"[!-~]{1,128}")


class _Refusal(msgspec.Struct):
    error: str = ""


_refusal = msgspec.json.Decoder(_Refusal)


class Exchange:
    """What the application receives and sends for one request.

    Attributes:
        started: when the last of the request came in, by the clock of the telemetry.
        route, model: what it is counted under; model "" if it is about none.
        error: of a failure nobody foresaw.
    """

    __slots__ = (
        *("_id", "_messages", "_receive", "_refused", "_scope", "_send", "_telemetry"),
        *("error", "model", "route", "started"),
    )

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
        self._scope, self._receive, self._send = scope, receive, send
        self.route, self.model = about
        self.started = telemetry.clock()
        self.error: BaseException | None = None
        self._refused, self._id = 0, ""

    async def receive(self) -> Any:
        """Return the next message from the client. The time that a client takes to send its body is not counted."""
        message = await self._receive()
        if not message.get("more_body", False):
            self.started = self._telemetry.clock()
        return message

    async def send(self, message: Any) -> None:
        """Send a message to the client; count the request when its answer begins."""
        if message["type"] == "http.response.start":
            status = message["status"]
            self._telemetry.count(self.route, self.model, status, self.started)
            if status >= 400 and self.route not in PROBES:
                self._refused, self._id = status, self._request_id()
                head = [*message["headers"], (b"x-request-id", self._id.encode())]
                message = {**message, "headers": head}
        elif self._refused:
            self._say(message.get("body", b""))
        await self._send(message)

    def _request_id(self) -> str:
        given = next((value for name, value in self._scope["headers"] if name == b"x-request-id"), b"")
        return given.decode() if _GIVEN_ID.fullmatch(given) else secrets.token_hex(8)

    def _say(self, body: bytes) -> None:
        """Say why it was refused. Neither its headers nor its body nor its address are said."""
        try:
            sentence = _refusal.decode(body).error
        except msgspec.DecodeError:  # of an answer to HEAD
            sentence = ""
        self._messages.refused(
            sentence,
            status=self._refused,
            method=self._scope["method"],
            route=self.route,
            model=self.model,
            request_id=self._id,
            error=self.error,
        )
        self._refused = 0
