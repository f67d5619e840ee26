"""The server's face to the network: plain ASGI, a table of paths, JSON in and out, a sentence for every refusal."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from bayou.core.errors import BadInput, BadModel
from bayou.serve import answers, pages
from bayou.serve.bodies import (
    LONG,
    Refused,
    Unfinished,
    checked_id,
    decompressed,
    form_of,
    ids_of,
    known_ids,
    labels_of,
    lines_of,
)
from bayou.serve.exchange import Exchange
from bayou.serve.log import ARROW, JSON
from bayou.serve.messages import Messages
from bayou.serve.metrics import Metrics
from bayou.serve.openapi import MAX_FEATURES, MAX_LEVEL, MIN_LEVEL
from bayou.serve.owner import Owner
from bayou.serve.served import Served
from bayou.serve.telemetry import OTHER, Telemetry
from bayou.serve.tokens import READ, WRITE, Tokens
from bayou.serve.work import LABEL, LEARN, PREDICT, Work

# How often the live page hears of news, in seconds; and how many pages may listen.
BEAT, MOST_LISTENERS = 1.0, 100

_JSON = (b"content-type", b"application/json")
JSON_HEAD = [_JSON]
# What uvloop says of a client that did not wait for its answer.
_GONE = "the handler is closed"
# Headers that need a closer look.
_UNUSUAL = frozenset(
    (b"content-encoding", b"idempotency-key", b"transfer-encoding", b"expect", b"origin", b"sec-fetch-site")
)
_ORIGIN = re.compile(rb"https?://([^/?#@\s]+)")
# Whom browsers say that a request comes from: the server's own pages, or whoever typed the address.
_OWN_SITES = (None, b"same-origin", b"none")
PAGES = ("/", "/docs")
_LOOPBACK = re.compile(rb"(127(\.\d{1,3}){3}|localhost|\[::1\])(:\d+)?")
_USUAL_TYPES = frozenset((b"application/json", b"application/x-www-form-urlencoded"))
Handler = Callable[["Request", Served], Awaitable[tuple[int, bytes]]]
Send = Callable[[Any], Awaitable[None]]


class Request:
    """What a handler needs of a request."""

    __slots__ = ("body", "headers", "query", "receive", "scope", "send")

    def __init__(self, scope: Any, receive: Any, send: Send) -> None:
        self.scope, self.receive, self.send = scope, receive, send
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.query: dict[str, list[str]] = {}
        self.body = b""
        if scope["query_string"]:
            try:
                self.query = parse_qs(scope["query_string"].decode(), keep_blank_values=True)
            except UnicodeDecodeError:
                raise Refused(400, "the part of the address behind the question mark is no text.") from None

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    def asked(self, name: str) -> str | None:
        found = self.query.get(name)
        return None if found is None else found[-1]


class ClientGone(Exception):
    """The client closed the connection before its request was whole; there is nobody to answer."""


class App:
    """Routes requests to models.

    Attributes:
        unfinished: the bytes of all requests that are not answered yet.
    """

    def __init__(
        self,
        models: Mapping[str, Served],
        tokens: Tokens,
        single: str | None,
        port: int,
        telemetry: Telemetry,
        messages: Messages,
        max_unfinished: int,
    ) -> None:
        self.models, self.tokens, self.single = models, tokens, single
        self._telemetry, self._messages, self._exposed = telemetry, messages, Metrics(models, telemetry)
        names = ("127.0.0.1", "localhost", "[::1]")
        self._hosts = {f"{name}:{port}".encode() for name in names} | {name.encode() for name in names}
        self.unfinished = Unfinished(max_unfinished)
        self.ends = False  # once the server was told to stop: pages that listen are let go
        self._listeners = 0
        self._handlers: dict[str, tuple[str, str, Handler]] = {
            "predict": ("POST", READ, self._predict),
            "learn": ("POST", WRITE, self._learn),
            "label": ("POST", WRITE, self._label),
            "snapshot": ("POST", WRITE, self._snapshot),
            "features": ("GET", READ, self._features),
            "info": ("GET", READ, self._info),
        }
        self._own: dict[str, Callable[[Request], Awaitable[None]]] = {
            "/": self._page,
            "/docs": self._page,
            "/openapi.json": self._openapi,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/models": self._models,
            "/metrics": self._metrics,
        }
        # One row and no token is what most requests are.
        hot = single is not None and not tokens.needed
        self._hot = {"/predict": PREDICT, "/learn": LEARN} if hot else {}
        self._loop = asyncio.get_running_loop
        self._routes: dict[str, tuple[str, str | None]] = (
            {f"/{name}": (name, single) for name in self._handlers} if single is not None else {}
        )

    def __call__(self, scope: Any, receive: Any, send: Send) -> Awaitable[None]:
        if scope["type"] == "http":
            kind = self._hot.get(scope["path"])
            if kind is not None and scope["method"] == "POST" and not scope["query_string"]:
                return self._one_row(kind, scope, receive, send)
            return self._any(scope, receive, send)
        return _lifespan(receive, send)

    async def _any(self, scope: Any, receive: Any, send: Send) -> None:
        """Any request, and what is wrong with it."""
        exchange = Exchange(self._telemetry, self._messages, scope, receive, send, self._about(scope["path"]))
        send = exchange.send
        try:
            await self._route(scope, exchange.receive, send)
        except Refused as error:
            await self._refuse(send, error)
        except (BadInput, BadModel) as error:
            await self._refuse(send, Refused(422, str(error)))
        except ClientGone:
            pass
        except Exception as error:
            if isinstance(error, RuntimeError) and _GONE in str(error):
                return
            exchange.error = error
            await self._refuse(send, Refused(500, "bayou met what nobody foresaw; the server's terminal says more."))
        finally:
            self.unfinished.release(scope)

    async def _one_row(self, kind: int, scope: Any, receive: Any, send: Send) -> None:
        """The short way, for one JSON row about which there is nothing else to say; all others go the long one."""
        served = self.models[self.single or ""]
        owner, usual = served.owner, True
        for name, value in scope["headers"]:
            if (
                name in _UNUSUAL
                or (name == b"content-type" and value not in _USUAL_TYPES)
                or (name == b"host" and value not in self._hosts)
            ):
                usual = False
        if not usual or owner is None or served.state != "ready" or served.options.read_only:
            await self._any(scope, receive, send)
            return
        message = await receive()
        started = self._telemetry.clock()
        body = message.get("body", b"")
        if (
            message.get("more_body", True)
            or len(body) > LONG
            or not body.startswith(b"{")
            or b"\n" in body
            or b'"id"' in body
            or JSON not in owner.model.reading.forms
            or owner.broken is not None
            or len(owner.waiting) >= served.options.queue
        ):
            await self._any(scope, _again(message, receive), send)
            return
        work = Work(kind, JSON, (body,), True, self._loop().create_future())
        owner.submit(work)
        status, said = await work.future
        try:
            if status == 200:
                self._telemetry.count(scope["path"], served.name, 200, started)
                await send({"type": "http.response.start", "status": 200, "headers": [_JSON, _length(said)]})
                await send({"type": "http.response.body", "body": said})
            else:
                about = scope["path"], served.name
                exchange = Exchange(self._telemetry, self._messages, scope, receive, send, about)
                exchange.started = started
                head = JSON_HEAD if status != 503 else [_JSON, (b"retry-after", b"1")]
                await _respond(exchange.send, status, said, head)
        except RuntimeError as error:
            if _GONE not in str(error):
                raise

    def count_refused(self, refused: Refused) -> None:
        """Count and say a refusal by the connection, which nothing else here sees."""
        self._telemetry.count(OTHER, "", refused.status, self._telemetry.clock())
        self._messages.refused(refused.sentence, status=refused.status)

    async def _refuse(self, send: Send, error: Refused) -> None:
        head = [*JSON_HEAD, *error.headers]
        if error.status in (429, 503):
            head.append((b"retry-after", b"1"))
        if error.status == 401:
            head.append((b"www-authenticate", b"Bearer"))
        if error.status == 413:
            head.append((b"connection", b"close"))  # what is left of the body is not waited for
        await _respond(send, error.status, answers.error(error.sentence, error.rows), head)

    def _check_sender(self, scope: Any, headers: Mapping[bytes, bytes]) -> None:
        """Refuse what another site's page has a browser send: it would be let in because the browser is here."""
        host, origin = headers.get(b"host"), headers.get(b"origin")
        if origin is not None:
            match = _ORIGIN.fullmatch(origin)
            if match is None or host is None or match[1].lower() != host.lower():
                raise Refused(403, "a page of another site sent this; only the server's own pages may.")
        if headers.get(b"sec-fetch-site") not in _OWN_SITES and not _is_navigation(scope, headers):
            raise Refused(403, "a page of another site sent this; it may link to the server's own pages, and no more.")
        if not self.tokens.needed and host is not None and host not in self._hosts:
            known = _LOOPBACK.fullmatch(host)
            if known is None:
                raise Refused(403, "without tokens the server answers to this machine's own names alone (Host).")

    async def _route(self, scope: Any, receive: Any, send: Send) -> None:
        path = scope["path"]
        request = Request(scope, receive, send)
        self._check_sender(scope, request.headers)
        found: tuple[str, str | None] | None = self._routes.get(path)
        if found is None:
            own = self._own.get(path)
            if own is not None:
                self._method(scope, "GET")
                await own(request)
                return
            found = self._model_route(path)
        if found is None:
            where = "" if self.single is not None else f" Models are under /models/: {', '.join(self._names(request))}."
            raise Refused(404, f"there is nothing at this address; /docs shows what there is.{where}")
        name, model = found
        method, needed, handler = self._handlers.get(name, ("GET", READ, None))
        self._method(scope, method)
        self.tokens.check(request.headers.get(b"authorization"), needed)
        served = self.models.get(model or "")
        if served is None:  # whoever asks has a token
            raise Refused(404, f"there is no model of that name; there are: {', '.join(self.models)}.")
        if handler is None:
            await self._events(request, served)
            return
        if served.state != "ready" or served.owner is None:
            raise Refused(503, served.why)
        if method == "POST":
            request.body = await self._body(request, served)
        status, body = await handler(request, served)
        await _respond(send, status, body, JSON_HEAD if status != 503 else [*JSON_HEAD, (b"retry-after", b"1")])

    def _model_route(self, path: str) -> tuple[str, str | None] | None:
        """/models/NAME/WHAT, and for one model /events."""
        parts = path.split("/")
        if path == "/events" and self.single is not None:
            return "events", self.single
        if len(parts) == 4 and parts[1] == "models" and (parts[3] in self._handlers or parts[3] == "events"):
            return parts[3], parts[2]
        return None

    def _about(self, path: str) -> tuple[str, str]:
        """Return the route and the model that a request is counted under: names of the server's, never the client's."""
        if path in self._own:
            return path, ""
        found = self._routes.get(path) or self._model_route(path)
        if found is None:
            return OTHER, ""
        name, model = found
        return f"/{name}", model if model is not None and model in self.models else ""

    def _names(self, request: Request) -> list[str]:
        """The models' names, for those who may read."""
        return list(self.models) if self.tokens.may(request.headers.get(b"authorization"), READ) else []

    def _method(self, scope: Any, method: str) -> None:
        """Raise Refused if an address is asked in another way; HEAD asks for what GET says, without saying it."""
        allowed = ("GET", "HEAD") if method == "GET" else (method,)
        if scope["method"] not in allowed:
            raise Refused(
                405,
                f"this address takes {method}, not {scope['method'][:20]}.",
                headers=[(b"allow", ", ".join(allowed).encode())],
            )

    async def _body(self, request: Request, served: Served) -> bytes:
        """All of it, unless it is too large or does not come."""
        most = served.options.body
        declared = request.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > most:
            raise Refused(413, f"the body has {int(declared):,} bytes; at most {most:,} can be sent at once.")
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
            size += len(parts[-1])
            if size > most:
                raise Refused(413, f"the body has more than {most:,} bytes; send less at once.")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    # --- what changes or asks the model -------------------------------------------------------------------------------

    async def _predict(self, request: Request, served: Served) -> tuple[int, bytes]:
        def may_remember() -> None:
            if served.options.read_only:
                raise Refused(403, "this is a read-only replica: it predicts, and remembers nothing. Leave out the id.")
            self.tokens.check(request.headers.get(b"authorization"), WRITE)

        return await self._rows(request, served, self._work(PREDICT), may_remember)

    async def _learn(self, request: Request, served: Served) -> tuple[int, bytes]:
        self._writable(served)
        work = self._work(LEARN)
        key = request.header(b"idempotency-key") or request.asked("request")
        work.key = None if not key else checked_id(key)
        return await self._rows(request, served, work)

    def _writable(self, served: Served) -> None:
        if served.options.read_only:
            raise Refused(403, "this is a read-only replica; send what is to be learned to the server that it follows.")

    def _work(self, kind: int) -> Work:
        return Work(kind, JSON, (), True, self._loop().create_future())

    async def _rows(
        self, request: Request, served: Served, work: Work, may_remember: Callable[[], None] = lambda: None
    ) -> tuple[int, bytes]:
        """Have the rows of a request read, and done what it asks. `may_remember`: refuses it if there are ids."""
        owner = self._waited_for(served)
        options, reading = served.options, owner.model.reading
        work.form, in_lines = form_of(request.header(b"content-type"), reading.forms)
        reading.check_form(work.form)
        work.level = _level(request.asked("level"))
        body, encoding, form = request.body, request.header(b"content-encoding"), work.form

        def read() -> None:
            text = decompressed(body, encoding, options.body)
            if encoding:
                self.unfinished.add(request.scope, len(text))
            work.lines, work.single = lines_of(text, form, in_lines, options.rows)
            with_ids = None
            if len(text) > LONG or form == ARROW:
                work.read = reading.read(form, work.lines, work.kind == LEARN)
                with_ids = work.read.with_ids
                if work.read.n > options.rows:
                    raise Refused(413, f"the body has {work.read.n:,} rows; at most {options.rows:,} at once.")
            if not work.lines or work.lines == [b""]:
                raise Refused(422, "the body has no rows.")
            with_ids = not reading.has_id and (b'"id"' in text if with_ids is None else with_ids)
            if not ("id" in request.query or with_ids):
                return
            if work.kind == LEARN:
                work.known = known_ids(work.lines, request.asked("id"), form)
                return
            work.ids = ids_of(work.lines, request.asked("id"), form, work.single)
            if work.ids is not None:
                may_remember()

        if len(body) > LONG or encoding or form == ARROW:
            owner.submit(work, served.pool, read)
        else:
            read()
            owner.submit(work)
        return await work.future

    def _waited_for(self, served: Served) -> Owner:
        """Whose answer can be waited for."""
        owner = served.owner
        assert owner is not None
        if owner.broken is not None:
            raise Refused(503, owner.broken)
        if len(owner.waiting) >= served.options.queue:
            raise Refused(429, f"{served.options.queue:,} requests are waiting already; try again in a moment.")
        return owner

    async def _label(self, request: Request, served: Served) -> tuple[int, bytes]:
        self._writable(served)
        owner = self._waited_for(served)
        text = decompressed(request.body, request.header(b"content-encoding"), served.options.body)
        labels, single = labels_of(text, served.options.rows)
        if not labels:
            raise Refused(422, "the body has no labels.")
        bodies = [bytes(one.label) for one in labels]
        work = self._work(LABEL)
        work.lines, work.single = bodies, single
        work.ids = [checked_id(one.id) for one in labels]
        work.answer = [
            b'{"label":%s}' % body if one.weight == 1.0 else b'{"label":%s,"weight":%r}' % (body, one.weight)
            for body, one in zip(bodies, labels, strict=True)
        ]
        owner.submit(work)
        return await work.future

    async def _snapshot(self, request: Request, served: Served) -> tuple[int, bytes]:
        self._writable(served)
        version = await asyncio.wrap_future(served.snapshot())
        file = served.folder.snapshot(version).relative_to(served.folder.state)
        return 200, answers.encode({"version": version, "file": file.as_posix()})

    async def _features(self, request: Request, served: Served) -> tuple[int, bytes]:
        top = _whole("top", request.asked("top"), 50, MAX_FEATURES)
        return 200, answers.encode(await asyncio.wrap_future(served.features(top)))

    async def _info(self, request: Request, served: Served) -> tuple[int, bytes]:
        return 200, answers.encode(served.info())

    # --- what the server says of itself -------------------------------------------------------------------------------

    async def _events(self, request: Request, served: Served) -> None:
        """News of a model, again and again, until nobody listens."""
        if self._listeners >= MOST_LISTENERS:
            raise Refused(429, f"{MOST_LISTENERS} pages listen already.")
        if served.state != "ready":
            raise Refused(503, served.why)
        head = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        if request.scope["method"] == "HEAD":
            await _respond(request.send, 200, b"", head)
            return
        may_see_rows = self.tokens.may(request.headers.get(b"authorization"), WRITE)
        self.unfinished.release(request.scope)  # a body, if there is one, is not kept
        self._listeners += 1
        gone = asyncio.ensure_future(_until_gone(request.receive))
        try:
            await request.send({"type": "http.response.start", "status": 200, "headers": head})
            while not (gone.done() or self.ends) and served.state == "ready":
                picture = served.picture()
                if not may_see_rows:
                    picture["live"]["surprises"] = None
                data = b"data: %s\n\n" % answers.encode(picture)
                await request.send({"type": "http.response.body", "body": data, "more_body": True})
                await asyncio.wait([gone], timeout=BEAT)
            await request.send({"type": "http.response.body", "body": b""})
        finally:
            self._listeners -= 1
            gone.cancel()

    async def _page(self, request: Request) -> None:
        page = pages.live() if request.scope["path"] == "/" else pages.docs()
        await _respond(request.send, 200, page.text, page.head)

    async def _openapi(self, request: Request) -> None:
        text = pages.openapi(self._names(request), self.single is not None, self.tokens.needed)
        await _respond(request.send, 200, text, JSON_HEAD)

    async def _models(self, request: Request) -> None:
        self.tokens.check(request.headers.get(b"authorization"), READ)
        await _respond(request.send, 200, answers.encode({"models": list(self.models)}), JSON_HEAD)

    async def _healthz(self, request: Request) -> None:
        """Whether the process is of use: 503 once only a restart can help."""
        reasons = list(dict.fromkeys(served.broken for served in self.models.values() if served.broken))
        said: dict[str, Any] = {"alive": not reasons}
        if reasons and self.tokens.may(request.headers.get(b"authorization"), READ):
            said["reasons"] = reasons
        await _respond(request.send, 503 if reasons else 200, answers.encode(said), JSON_HEAD)

    async def _readyz(self, request: Request) -> None:
        """Whether all models predict and learn."""
        states = {name: served.condition for name, served in self.models.items()}
        ready = all(state == "ready" for state in states.values())
        said: dict[str, Any] = {"ready": ready}
        trusted = self.tokens.may(request.headers.get(b"authorization"), READ)  # names and places are not for everybody
        if trusted:
            said["models"] = states
        if trusted and not ready:
            said["reasons"] = list(dict.fromkeys(why for served in self.models.values() for why in served.reasons()))
        await _respond(request.send, 200 if ready else 503, answers.encode(said), JSON_HEAD)

    async def _metrics(self, request: Request) -> None:
        self.tokens.check(request.headers.get(b"authorization"), READ)
        text, kind = self._exposed.text()
        await _respond(request.send, 200, text, [(b"content-type", kind.encode())])


def _is_navigation(scope: Any, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser opens one of the pages, in a window of its own: somebody followed a link."""
    return (
        scope["path"] in PAGES
        and scope["method"] in ("GET", "HEAD")
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


async def _respond(send: Send, status: int, body: bytes, head: Sequence[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [*head, _length(body)]})
    await send({"type": "http.response.body", "body": body})


def _length(body: bytes) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % len(body)


def _again(message: Any, receive: Any) -> Callable[[], Awaitable[Any]]:
    """What receives a message that was looked at already, and then the others."""
    waiting = [message]

    async def receive_again() -> Any:
        return waiting.pop() if waiting else await receive()

    return receive_again


async def _until_gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _lifespan(receive: Any, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _level(text: str | None) -> float:
    if text is None:
        return 0.95
    try:
        level = float(text)
    except ValueError:
        level = 0.0
    if not MIN_LEVEL <= level <= MAX_LEVEL:
        raise Refused(422, f"level is a number between 0 and 1, from {MIN_LEVEL:f} to {MAX_LEVEL:f}, such as 0.9.")
    return level


def _whole(name: str, text: str | None, default: int, most: int) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 <= int(text) <= most):
        raise Refused(422, f"{name} is a whole number from 0 to {most:,}.")
    return int(text)
