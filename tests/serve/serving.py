"""Servers on a free port, in this process or in one of their own, for tests."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx

from bayou.serve.live_stats import Clock
from bayou.serve.server import Server
from bayou.serve.service import ServeOptions, new_learner


def learner(name="marginal", bits=12, **recipe):
    return lambda: new_learner(name, [], bits, recipe)


class FakeClock:
    """Time that passes when a test says so. `jump` steps the wall clock alone."""

    def __init__(self) -> None:
        self.elapsed, self.jump = 0.0, 0.0
        self.clock = Clock(lambda: 500.0 + self.elapsed, lambda: 1_000_000.0 + self.elapsed + self.jump)

    def advance(self, seconds: float) -> None:
        self.elapsed += seconds


def token_file(folder: Path, *lines: str) -> Path:
    """A file of tokens, such as "read ...", that is accepted."""
    path = folder / "tokens"
    path.write_text("\n".join(lines))
    path.chmod(0o600)
    return path


class Running:
    """A server that runs in a thread, a client for it, and what it said."""

    def __init__(self, state: Path, models=None, *, tokens=None, ready=True, **options) -> None:
        self.said: list[str] = []
        self.server = Server(
            state, {"default": learner()} if models is None else models, ServeOptions(**options), tokens, port=0,
            say=self.said.append,
        )  # fmt: skip
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        self.client = httpx.Client(base_url=self.server.url, timeout=60.0)
        if ready:
            self.wait()

    def _run(self) -> None:
        try:
            self.server.run()
        except BaseException as error:
            self.error = error

    def wait(self) -> None:
        until = time.monotonic() + 120
        while self.thread.is_alive() and time.monotonic() < until:
            with contextlib.suppress(httpx.TransportError):
                if self.client.get("/readyz").status_code == 200:
                    return
            time.sleep(0.01)
        raise AssertionError(f"the server is not ready: {self.error} {self.said}")

    @property
    def served(self):
        return next(iter(self.server.models.values()))

    def post(self, path, body, **more):
        """POST something: bytes as they are, anything else as JSON."""
        how = {"content": body} if isinstance(body, bytes) else {"json": body}
        return self.client.post(path, **how, **more)

    def stop(self) -> None:
        self.client.close()
        self.server.stop()
        self.thread.join(60)
        assert not self.thread.is_alive()


@contextlib.contextmanager
def running(state, models=None, **options):
    server = Running(state, models, **options)
    try:
        yield server
    finally:
        server.stop()


class Process:
    """A server in a process of its own, whose memory can be measured."""

    def __init__(self, folder: Path, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [sys.executable, "-m", "bayou", "serve", "--learner", "marginal", "--bits", "12"]
        command += ["--data", str(folder), "--port", str(self.port), *options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 120
        while self.get("/readyz") != 200:
            assert self._process.poll() is None, "the server has stopped"
            assert time.monotonic() < until, "the server is not ready"
            time.sleep(0.02)

    def get(self, path: str) -> int | None:
        """The status of an answer, None without one."""
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=60).status_code
        return None

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def memory(self, peak: bool = False) -> int:
        """Resident bytes, or the most that they have been since the last call of `forget_peak`."""
        name = "VmHWM:" if peak else "VmRSS:"
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))

    def forget_peak(self) -> int:
        """Begin to look for a peak; the resident bytes now."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")
        return self.memory()

    def stop(self) -> None:
        self._process.terminate()
        assert self._process.wait(60) == 0


@contextlib.contextmanager
def process(folder, *options):
    started = Process(folder, *options)
    try:
        yield started
    finally:
        started.stop()


def answers(connection: socket.socket) -> list[tuple[int, dict[str, str], bytes]]:
    """All answers that come on a connection until it is closed: status, headers, body."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            received += part
    found = []
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", 0))
        found.append((int(status.split()[1]), headers, received[:length]))
        received = received[length:]
    return found
