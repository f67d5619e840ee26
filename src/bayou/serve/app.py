"""HTTP application: plain ASGI, a table of routes, JSON in and out, a sentence for every error."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from bayou.core.errors import BadInput, BadModel
from bayou.serve import request_bodies as bodies
from bayou.serve.http_request import HttpRequest, Response
from bayou.serve.log import ARROW, JSON
from bayou.serve.messages import Messages
from bayou.serve.metrics import Metrics
from bayou.serve.model_requests import LABEL_REQUEST, LEARN_REQUEST, PREDICT, ModelRequest
from bayou.serve.openapi import MAX_FEATURES, MAX_LEVEL, MIN_LEVEL, description
from bayou.serve.owner import Owner
from bayou.serve.pages import page
from bayou.serve.responses import JSON_HEAD, RequestError, encode
from bayou.serve.service import ModelService
from bayou.serve.telemetry import OTHER, Telemetry
from bayou.serve.tokens import READ, WRITE, Tokens

# Seconds between two events for the live page, and the maximum number of event streams.
EVENT_SECONDS, MAX_EVENT_STREAMS = 1.0, 100

# Headers that rule out the fast path.
_UNUSUAL = frozenset(
    (b"content-encoding", b"idempotency-key", b"transfer-encoding", b"expect", b"origin", b"sec-fetch-site")
)
_ORIGIN = re.compile(rb"https?://([^/?#@\s]+)")
# Values of Sec-Fetch-Site that are allowed: no such header, the server's own pages, addresses typed by the user.
_OWN_SITES = (None, b"same-origin", b"none")
_PAGES = {"/": "live", "/docs": "docs"}
_LOOPBACK = re.compile(rb"(127(\.\d{1,3}){3}|localhost|\[::1\])(:\d+)?")
_USUAL_TYPES = frozenset((b"application/json", b"application/x-www-form-urlencoded"))
Send = Callable[[Any], Awaitable[None]]


class Route(NamedTuple):
    """Handling of an address.

    Attributes:
        needed: the scope that a token needs; None if the route is public.
        handler: called with the request, and the model if the route has one; returns None if it responded itself.
    """

    method: str
    needed: str | None
    handler: Callable[..., Awaitable[Response | None]]


class App:
    """ASGI application that routes requests to models.

    Attributes:
        unfinished: the bytes of all requests in progress.
    """

    def __init__(
        self,
        models: Mapping[str, ModelService],
        tokens: Tokens,
        single: str | None,
        telemetry: Telemetry,
        messages: Messages,
        max_unfinished: int,
    ) -> None:
        self.models, self.tokens, self.single = models, tokens, single
        self._telemetry, self._messages, self._exposed = telemetry, messages, Metrics(models, telemetry)
        self.unfinished = bodies.Unfinished(max_unfinished)
        self.ends = False  # set when the server stops: event streams end
        self._listeners = 0
        # Routes of a model (also at the root if there is only one), and of the server.
        self._of_model = {
            "predict": Route("POST", READ, self._predict),
            "learn": Route("POST", WRITE, self._learn),
            "label": Route("POST", WRITE, self._label),
            "snapshot": Route("POST", WRITE, self._snapshot),
            "features": Route("GET", READ, self._features),
            "info": Route("GET", READ, self._info),
            "events": Route("GET", READ, self._events),
        }
        self._of_server = {
            "/": Route("GET", None, self._page),
            "/docs": Route("GET", None, self._page),
            "/openapi.json": Route("GET", None, self._openapi),
            "/healthz": Route("GET", None, self._healthz),
            "/readyz": Route("GET", None, self._readyz),
            "/models": Route("GET", READ, self._models),
            "/metrics": Route("GET", READ, self._metrics),
        }
        # Fast path for the most frequent requests: one row and no token.
        hot = single is not None and not tokens.needed
        self._hot = {"/predict": PREDICT, "/learn": LEARN_REQUEST} if hot else {}
        self._loop = asyncio.get_running_loop

    def __call__(self, scope: Any, receive: Any, send: Send) -> Awaitable[None]:
        kind = self._hot.get(scope["path"])
        if kind is not None and scope["method"] == "POST" and not scope["query_string"]:
            return self._handle_single_row(kind, scope, receive, send)
        return self._handle(scope, receive, send)

    async def _handle(self, scope: Any, receive: Any, send: Send) -> None:
        """Answer any request, with an error response if it fails."""
        counted, route, model = self._find(scope["path"])
        about = counted, model if model is not None and model in self.models else ""  # never a name from the client
        request = HttpRequest(self._telemetry, self._messages, scope, receive, send, about)
        try:
            response = await self._response(request, route, model)
            if response is not None:
                await request.respond(*response)
        except (BadInput, BadModel) as error:
            await request.fail(RequestError(422, str(error)))
        except Exception as error:
            await request.fail(error)
        finally:
            self.unfinished.release(scope)

    async def _handle_single_row(self, kind: int, scope: Any, receive: Any, send: Send) -> None:
        """Answer a request of one plain JSON row by the fast path; pass all others to `_handle`."""
        served = self.models[self.single or ""]
        owner, usual = served.owner, True
        for name, value in scope["headers"]:
            if (
                name in _UNUSUAL
                or (name == b"content-type" and value not in _USUAL_TYPES)
                or (name == b"host" and not _LOOPBACK.fullmatch(value))
            ):
                usual = False
        if not usual or owner is None or served.state != "ready" or served.options.read_only:
            await self._handle(scope, receive, send)
            return
        message = await receive()
        started = self._telemetry.clock()
        body = message.get("body", b"")
        if (
            message.get("more_body", True)
            or len(body) > bodies.LONG_BODY_BYTES
            or not body.startswith(b"{")
            or b"\n" in body
            or b'"id"' in body
            or JSON not in owner.model.reading.forms
            or owner.broken is not None
            or len(owner.waiting) >= served.options.max_waiting
        ):
            await self._handle(scope, _again(message, receive), send)
            return
        work = ModelRequest(kind, JSON, (body,), True, self._loop().create_future())
        owner.submit(work)
        about = scope["path"], served.name
        try:
            answer = await work.future
            self._telemetry.count(*about, 200, started)
            head = [*JSON_HEAD, (b"content-length", b"%d" % len(answer))]
            await send({"type": "http.response.start", "status": 200, "headers": head})
            await send({"type": "http.response.body", "body": answer})
        except Exception as error:
            request = HttpRequest(self._telemetry, self._messages, scope, receive, send, about)
            request.started = started
            await request.fail(error)

    def count_refused(self, refused: RequestError) -> None:
        """Count and report a request refused by the connection, which no handler sees."""
        self._telemetry.count(OTHER, "", refused.status, self._telemetry.clock())
        self._messages.refused(refused.sentence, refused.status)

    # --- routing ------------------------------------------------------------------------------------------------------

    def _find(self, path: str) -> tuple[str, Route | None, str | None]:
        """Return the name under which requests to an address are counted, its route, and its model, if any."""
        if path in self._of_server:
            return path, self._of_server[path], None
        segments = path.split("/")
        if self.single is not None and len(segments) == 2:
            segments[1:1] = ["models", self.single]
        if len(segments) == 4 and segments[1] == "models" and segments[3] in self._of_model:
            return f"/{segments[3]}", self._of_model[segments[3]], segments[2]
        return OTHER, None, None

    async def _response(self, request: HttpRequest, route: Route | None, model: str | None) -> Response | None:
        self._check_sender(request)
        if route is None:
            hint = "" if self.single is not None else f" Models are under /models/: {', '.join(self._names(request))}."
            raise RequestError(404, f"nothing is served at this address; /docs shows what is.{hint}")
        allowed = ("GET", "HEAD") if route.method == "GET" else (route.method,)
        if request.method not in allowed:  # HEAD is GET without the body
            allow = b"allow", ", ".join(allowed).encode()
            raise RequestError(405, f"this address accepts {route.method}, not {request.method[:20]}.", head=[allow])
        if route.needed is not None:
            self.tokens.check(request.headers.get(b"authorization"), route.needed)
        if model is None:
            return await route.handler(request)
        served = self.models.get(model)
        if served is None:  # the client has a token
            raise RequestError(404, f"there is no model of that name; there are: {', '.join(self.models)}.")
        if served.state != "ready" or served.owner is None:
            raise RequestError(503, served.why)
        if route.method == "POST":
            await request.read_body(served.options.max_body)
        if route.needed == WRITE and served.options.read_only:
            raise RequestError(403, "this is a read-only replica; send rows and labels to the server that it follows.")
        return await route.handler(request, served)

    def _check_sender(self, request: HttpRequest) -> None:
        """Raise RequestError if a page of another site made a browser, perhaps on this machine, send this request."""
        headers = request.headers
        host, origin = headers.get(b"host"), headers.get(b"origin")
        if origin is not None:
            match = _ORIGIN.fullmatch(origin)
            if match is None or host is None or match[1].lower() != host.lower():
                raise RequestError(403, "another site's page sent this; only the server's own pages may.")
        if headers.get(b"sec-fetch-site") not in _OWN_SITES and not _is_navigation(request):
            raise RequestError(403, "another site's page sent this; it may only link to the server's own pages.")
        if not self.tokens.needed and host is not None and not _LOOPBACK.fullmatch(host):
            raise RequestError(403, "without tokens the server accepts only this machine's own names (Host).")

    def _is_trusted(self, request: HttpRequest, scope: str = READ) -> bool:
        """Return whether the client's token grants `scope`. Model names and paths are shown only to such clients."""
        return self.tokens.may(request.headers.get(b"authorization"), scope)

    def _names(self, request: HttpRequest) -> list[str]:
        """Return the models' names if the client may read them."""
        return list(self.models) if self._is_trusted(request) else []

    # --- requests to a model ------------------------------------------------------------------------------------------

    async def _predict(self, request: HttpRequest, served: ModelService) -> Response:
        return await self._rows(request, served, self._work(PREDICT))

    async def _learn(self, request: HttpRequest, served: ModelService) -> Response:
        work = self._work(LEARN_REQUEST)
        key = request.header(b"idempotency-key") or request.parameter("request")
        work.key = None if not key else bodies.checked_id(key)
        return await self._rows(request, served, work)

    def _work(self, kind: int) -> ModelRequest:
        return ModelRequest(kind, JSON, (), True, self._loop().create_future())

    async def _rows(self, request: HttpRequest, served: ModelService, work: ModelRequest) -> Response:
        """Read the rows of a request and submit it."""
        owner = _available_owner(served)
        options, reading = served.options, owner.model.reading
        work.body_format, in_lines = bodies.detect_body_format(request.header(b"content-type"), reading.forms)
        reading.check_form(work.body_format)
        work.level = _level(request.parameter("level"))
        body, encoding, body_format = request.body, request.header(b"content-encoding"), work.body_format
        given_id = request.parameter("id")

        def read() -> None:
            text = bodies.decompressed(body, encoding, options.max_body)
            if encoding:
                self.unfinished.add(request.scope, len(text))
            work.lines, work.single = bodies.lines_of(text, body_format, in_lines, options.max_rows)
            if not work.lines or work.lines == [b""]:
                raise RequestError(422, "the body has no rows.")
            with_ids = None
            if len(text) > bodies.LONG_BODY_BYTES or body_format == ARROW:
                work.read = reading.read(body_format, work.lines, work.kind == LEARN_REQUEST)
                with_ids = work.read.with_ids
                if work.read.n > options.max_rows:
                    raise RequestError(413, f"the body has {work.read.n:,} rows; the limit is {options.max_rows:,}.")
            with_ids = not reading.has_id and (b'"id"' in text if with_ids is None else with_ids)
            if given_id is None and not with_ids:
                return
            if work.kind == LEARN_REQUEST:
                work.row_ids = bodies.row_ids(work.lines, given_id, body_format)
                return
            work.ids = bodies.ids_to_remember(work.lines, given_id, body_format, work.single)
            if work.ids is not None and options.read_only:
                raise RequestError(
                    403, "this is a read-only replica, which predicts but remembers nothing. Omit the id."
                )
            if work.ids is not None:
                self.tokens.check(request.headers.get(b"authorization"), WRITE)

        if len(body) > bodies.LONG_BODY_BYTES or encoding or body_format == ARROW:
            owner.submit(work, served.pool, read)
        else:
            read()
            owner.submit(work)
        return Response(await work.future)

    async def _label(self, request: HttpRequest, served: ModelService) -> Response:
        owner = _available_owner(served)
        text = bodies.decompressed(request.body, request.header(b"content-encoding"), served.options.max_body)
        labels, single = bodies.labels_of(text, served.options.max_rows)
        if not labels:
            raise RequestError(422, "the body has no labels.")
        work = self._work(LABEL_REQUEST)
        work.lines, work.single = [label.body for label in labels], single
        work.ids = [bodies.checked_id(label.id) for label in labels]
        owner.submit(work)
        return Response(await work.future)

    async def _snapshot(self, request: HttpRequest, served: ModelService) -> Response:
        version = await asyncio.wrap_future(served.snapshot())
        file = served.folder.snapshot(version).relative_to(served.folder.state)
        return Response(encode({"version": version, "file": file.as_posix()}))

    async def _features(self, request: HttpRequest, served: ModelService) -> Response:
        top = _whole_number("top", request.parameter("top"), 50, MAX_FEATURES)
        return Response(encode(await served.features(top)))

    async def _info(self, request: HttpRequest, served: ModelService) -> Response:
        return Response(encode(served.info()))

    async def _events(self, request: HttpRequest, served: ModelService) -> Response | None:
        """Send the live status repeatedly until the client disconnects."""
        if self._listeners >= MAX_EVENT_STREAMS:
            raise RequestError(429, f"{MAX_EVENT_STREAMS} pages are already listening.")
        head = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"))
        if request.method == "HEAD":
            return Response(b"", head)
        may_see_rows = self._is_trusted(request, WRITE)
        self.unfinished.release(request.scope)  # a body, if any, is not kept
        self._listeners += 1
        disconnect = asyncio.ensure_future(_until_gone(request.receive))
        try:
            await request.begin(200, head)
            while not (disconnect.done() or self.ends) and served.state == "ready":
                live_status = served.live_status()
                if not may_see_rows:
                    live_status["live"]["surprises"] = None
                data = b"data: %s\n\n" % encode(live_status)
                await request.send({"type": "http.response.body", "body": data, "more_body": True})
                await asyncio.wait([disconnect], timeout=EVENT_SECONDS)
            await request.send({"type": "http.response.body", "body": b""})
        finally:
            self._listeners -= 1
            disconnect.cancel()
        return None

    # --- status of the server -----------------------------------------------------------------------------------------

    async def _page(self, request: HttpRequest) -> Response:
        return page(_PAGES[request.path])

    async def _openapi(self, request: HttpRequest) -> Response:
        return Response(encode(description(self._names(request), self.single is not None, self.tokens.needed)))

    async def _models(self, request: HttpRequest) -> Response:
        return Response(encode({"models": list(self.models)}))

    async def _healthz(self, request: HttpRequest) -> Response:
        """Return 503 once only a restart can help."""
        reasons = [served.broken for served in self.models.values() if served.broken]
        return self._verdict(request, {"alive": not reasons}, reasons)

    async def _readyz(self, request: HttpRequest) -> Response:
        """Return 200 if all models predict and learn."""
        reasons = [reason for served in self.models.values() for reason in served.reasons()]
        verdict: dict[str, Any] = {"ready": not reasons}
        if self._is_trusted(request):
            verdict["models"] = {name: served.condition for name, served in self.models.items()}
        return self._verdict(request, verdict, reasons)

    def _verdict(self, request: HttpRequest, verdict: dict[str, Any], reasons: list[str]) -> Response:
        """Return 200 without reasons, else 503, with the reasons if the client may read them."""
        if reasons and self._is_trusted(request):
            verdict["reasons"] = list(dict.fromkeys(reasons))
        return Response(encode(verdict), status=503 if reasons else 200)

    async def _metrics(self, request: HttpRequest) -> Response:
        text, kind = self._exposed.text()
        return Response(text, ((b"content-type", kind.encode()),))


def _available_owner(served: ModelService) -> Owner:
    """Return the model's owner; raise RequestError if it cannot take a request now."""
    owner = served.owner
    assert owner is not None
    if owner.broken is not None:
        raise RequestError(503, owner.broken)
    if len(owner.waiting) >= served.options.max_waiting:
        raise RequestError(429, f"{served.options.max_waiting:,} requests are waiting already; try again in a moment.")
    return owner


def _is_navigation(request: HttpRequest) -> bool:
    """Return whether a browser navigates to one of the pages, as after a click on a link."""
    return (
        request.path in _PAGES
        and request.method in ("GET", "HEAD")
        and request.headers.get(b"sec-fetch-mode") == b"navigate"
        and request.headers.get(b"sec-fetch-dest") == b"document"
    )


def _again(message: Any, receive: Any) -> Callable[[], Awaitable[Any]]:
    """Return a `receive` that first returns a message already read, then the following ones."""
    waiting = [message]

    async def receive_again() -> Any:
        return waiting.pop() if waiting else await receive()

    return receive_again


async def _until_gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _level(text: str | None) -> float:
    if text is None:
        return 0.95
    try:
        level = float(text)
    except ValueError:
        level = 0.0
    if not MIN_LEVEL <= level <= MAX_LEVEL:
        raise RequestError(422, f"level is a number between 0 and 1, from {MIN_LEVEL:f} to {MAX_LEVEL:f}, such as 0.9.")
    return level


def _whole_number(name: str, text: str | None, default: int, max_value: int) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 <= int(text) <= max_value):
        raise RequestError(422, f"{name} is a whole number from 0 to {max_value:,}.")
    return int(text)
