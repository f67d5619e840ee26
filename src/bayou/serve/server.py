"""`bayou serve`: models in a folder, and a process that serves them on one port."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import ipaddress
import math
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner
from bayou.core.spelling import option
from bayou.core.storage import load
from bayou.serve.app import App
from bayou.serve.connection import Connection
from bayou.serve.messages import ERROR, WARNING, Messages
from bayou.serve.row_reader import RowReader
from bayou.serve.service import ModelService, ServeOptions
from bayou.serve.state_folder import DEFAULT, StateFolder, check_name, names_in
from bayou.serve.supervisor import Supervisor
from bayou.serve.telemetry import Telemetry
from bayou.serve.tokens import Tokens

if sys.platform != "win32":
    import resource

PORT, HOST = 8642, "127.0.0.1"
# Seconds that a connection may be idle between two requests: longer than clients keep theirs open.
IDLE_SECONDS = 75
# Seconds between two saves of the live page's history: a kill loses as much.
LOOK_SECONDS = 15.0
# Maximum number of open files of a model, and of the server itself: sockets, modules, ...
MODEL_FILES, SERVER_FILES = 5, 100
# Further open files for connections, if the system allows that many.
CONNECTION_FILES = 4096
# Seconds between two watchdog messages to a supervisor, and between two reports of suppressed messages.
WATCHDOG_SECONDS = 1.0
# Seconds that requests in progress have to finish when the server stops.
SHUTDOWN_SECONDS = 10

Start = Path | Callable[[], Learner]


class _Uvicorn(uvicorn.Server):
    """Uvicorn without signal handlers: `Server` handles signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Server:
    """Server of models on one port.

    Args:
        data: the folder for the state of the models.
        models: the initial state of each model, by name: a file, or a function that makes a learner. Models that the
            folder already holds continue from their state.
        tokens: the tokens and their scopes.
        host, port: the address; without tokens it must be on this machine. Port 0 is any free port.
        say: called with each line of a message.
        log_format: "text", sentences for people, or "json", an object per line.
    """

    def __init__(
        self,
        data: Path,
        models: Mapping[str, Start],
        options: ServeOptions | None = None,
        tokens: Tokens | None = None,
        host: str = HOST,
        port: int = PORT,
        say: Callable[[str], None] = print,
        log_format: str = "text",
    ) -> None:
        self.options, self.tokens = options or ServeOptions(), tokens or Tokens()
        self.telemetry = Telemetry()
        self.messages = Messages(say, log_format, self.telemetry.failed)
        self._say = self.messages.say
        if not self.tokens.needed and not _is_loopback(host):
            raise BadInput(
                f"{option('host', host)} can be reached from other machines, so a token file is needed: "
                f"{option('tokens', 'FILE')}, with lines such as `write TOKEN`. Without one, only this machine can "
                "reach the server."
            )
        names = list(dict.fromkeys([*map(check_name, models), *names_in(data)]))
        if not names and self.options.read_only:
            raise BadInput(
                f"{data}: there is no model to follow, or this user cannot read it; start the other server first, and "
                "follow it as the same user."
            )
        if not names:
            raise BadInput(
                f"there is no model to serve: give {option('model', 'FILE')}, or {option('learner', 'bank')} to start "
                "untrained."
            )
        _allow_files(len(names))
        self._folders = {name: StateFolder(data, name) for name in names}
        try:
            for name, folder in self._folders.items():
                self._prepare(folder, models.get(name))
            self._socket = _bound(host, port)
        except BaseException:  # it will not be: others may have them
            for folder in self._folders.values():
                folder.unlock()
            raise
        self.single = names[0] if len(names) == 1 else None
        self.models = {
            name: ModelService(folder, self.options, partial(self._say, model=name), self.telemetry)
            for name, folder in self._folders.items()
        }
        self.port = self._socket.getsockname()[1]
        self.app = App(
            self.models,
            self.tokens,
            self.single,
            self.telemetry,
            self.messages,
            self.options.max_unfinished,
        )
        url_host = f"[{host}]" if ":" in host else host
        self.url = f"http://{url_host}:{self.port}"
        config = uvicorn.Config(
            self.app,
            http=functools.partial(Connection, self.app.unfinished, self.app.count_refused),  # type: ignore[arg-type]
            interface="asgi3",
            lifespan="off",
            ws="none",
            proxy_headers=False,
            access_log=False,
            log_config=None,
            log_level="error",  # the app reports errors, and `messages` unexpected ones
            server_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            backlog=2048,
        )
        self._uvicorn, self._supervisor, self._is_ready = _Uvicorn(config), Supervisor(), False
        self.failed: list[BaseException] = []

    def _prepare(self, folder: StateFolder, start: Start | None) -> None:
        folder.check_base()
        if self.options.read_only:
            if not folder.exists:
                raise BadInput(f"{folder.path}: there is no model to follow; start a server that writes there first.")
            return
        if warning := folder.lock():
            self._say(f"{folder.name}: {warning}", level=WARNING)
        if start is None:
            return
        learner = load(start) if isinstance(start, Path) else start()
        if not folder.exists:
            self.options.default_label(RowReader(learner))
            folder.begin(learner)
        elif learner.name != (began := load(folder.base)).name:
            raise BadInput(
                f"{folder.path} was started with {began.name}, not {learner.name}; give another {option('data')}."
            )
        else:
            self._say(
                f"{folder.name}: continues with what is in {folder.path}; {option('model')} and "
                f"{option('learner')}, and what belongs to them, are for a new folder",
                model=folder.name,
            )

    def run(self) -> None:
        """Serve until SIGTERM or Ctrl-C; then write a last snapshot."""
        try:
            with self.messages.logged("uvicorn.error"), asyncio.Runner(loop_factory=_new_loop) as runner:
                runner.run(self._serve())
        finally:
            with _hangups_ignored():
                for served in self.models.values():
                    served.stop()
            self.messages.close()
        if self.failed:
            raise self.failed[0]

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for signal_number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(signal_number, self._told_to_stop)
            if hasattr(signal, "SIGHUP"):
                loop.add_signal_handler(signal.SIGHUP, self.reload)
        for served in self.models.values():
            threading.Thread(target=self._start, args=(served, loop), name="bayou-start", daemon=True).start()
        self._say(f"serving {', '.join(self.models)} at {self.url}; open it in a browser to watch, /docs to try it")
        if not self.tokens.needed:
            self._say(
                f"no {option('tokens')}: only this machine can reach it, and whoever does may do everything",
                level=WARNING,
            )
        loop.set_exception_handler(self._task_failed)
        timeout = self.options.timeout
        repeated = (
            (self._look_after_models, LOOK_SECONDS),
            (self._close_late, min(1.0, timeout / 4)),
            (self._report, WATCHDOG_SECONDS),
        )
        tasks = [asyncio.ensure_future(_repeat(action, seconds)) for action, seconds in repeated]
        await self._uvicorn.serve(sockets=[self._socket])
        for task in tasks:
            task.cancel()

    async def _look_after_models(self) -> None:
        """Save the live pages' history, in another thread because it writes files."""
        for served in self.models.values():
            try:
                await asyncio.to_thread(served.look_after)
            except Exception as error:  # affects the page alone; the next attempt may succeed
                self._say(f"{served.name}: the live page's numbers were not kept", level=WARNING, error=error)

    def _task_failed(self, loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
        self._say(str(about.get("message", "a task failed")), level=ERROR, error=about.get("exception"))

    async def _report(self) -> None:
        """Report suppressed messages; notify systemd when all models are ready, and regularly that none is broken."""
        self.messages.tick()
        if not self._is_ready and all(served.state == "ready" for served in self.models.values()):
            self._is_ready = True
            self._supervisor.tell("READY=1")
        if not any(served.broken for served in self.models.values()):
            self._supervisor.tell("WATCHDOG=1")

    async def _close_late(self) -> None:
        """Close connections whose requests do not arrive in time."""
        now = asyncio.get_running_loop().time()
        for connection in list(self._uvicorn.server_state.connections):
            connection.close_if_late(now, self.options.timeout)  # type: ignore[union-attr]

    def _start(self, served: ModelService, loop: asyncio.AbstractEventLoop) -> None:
        try:
            served.start(loop)
            about = f"version {served.model.version:,}, {served.model.learner.examples:,} examples learned"
            served.say(f"{served.name} is ready: {served.model.learner.name}, {about}")
            # What exists now is permanent: garbage collection need not visit it again.
            gc.collect()
            gc.freeze()
        except BaseException as error:
            self.failed.append(error)
            self._uvicorn.should_exit = True
            if not isinstance(error, BadInput | BadModel):
                raise

    def _told_to_stop(self) -> None:
        if self._uvicorn.should_exit:  # second signal
            self._uvicorn.force_exit = True
        self._supervisor.tell("STOPPING=1")
        last = "" if self.options.read_only else ", and a last snapshot written"
        self._say(f"stopping: what is under way is finished{last}")
        self.stop()

    def reload(self) -> None:
        """Reload the token file; an invalid one changes nothing."""
        if self.tokens.path is None:
            self._say(f"told to reload (SIGHUP): there is nothing to reload without {option('tokens')}")
            return
        try:
            self._say(f"told to reload (SIGHUP): {self.tokens.reload():,} tokens are known now")
        except BadInput as error:
            self._say(f"told to reload (SIGHUP): the tokens stay as they were: {error}")

    def stop(self) -> None:
        """Make `run` end. Thread-safe."""
        self.app.ends = self._uvicorn.should_exit = True


@contextlib.contextmanager
def _hangups_ignored() -> Iterator[None]:
    """Ignore SIGHUP after the loop has ended, while the last snapshots are being written."""
    if not hasattr(signal, "SIGHUP") or threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, previous)


async def _repeat(action: Callable[[], Awaitable[None]], seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        await action()


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop if it is installed, else the standard one."""
    try:
        import uvloop
    except ModuleNotFoundError:  # on Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def models_of(texts: Sequence[str]) -> dict[str, Start]:
    """Parse the values of --model: FILE or NAME=FILE."""
    models: dict[str, Start] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or "/" in name or Path(text).is_file():
            name, path = DEFAULT, text
        if name in models:
            raise BadInput(
                f"{option('model')} {text}: there are two models called {name!r}; use {option('model', 'NAME=FILE')}."
            )
        models[check_name(name)] = Path(path)
    return models


def _allow_files(n_models: int) -> None:
    """Raise the limit of open files to what the models need, or BadInput if the system refuses."""
    if sys.platform == "win32":
        return
    needed = MODEL_FILES * n_models + SERVER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = math.inf if hard == resource.RLIM_INFINITY else hard
    if needed > allowed:
        raise BadInput(
            f"{n_models:,} models need {needed:,} open files, and the system allows {hard:,}: raise that with "
            f"`ulimit -n {needed}` (LimitNOFILE= in a systemd unit), or serve fewer models."
        )
    requested = int(min(needed + CONNECTION_FILES, allowed))
    if soft != resource.RLIM_INFINITY and soft < requested:
        resource.setrlimit(resource.RLIMIT_NOFILE, (requested, hard))


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, proto)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise BadInput(
            f"cannot listen on {host}:{port} ({error.strerror or error}); choose another {option('port')}."
        ) from None
    return made
