"""A server in this process, on a free port, for tests."""

import contextlib
import threading
import time
from pathlib import Path

import httpx

from bayou.serve.live import Clock
from bayou.serve.served import Options, new_learner
from bayou.serve.server import Server


def learner(name="marginal", bits=12, **recipe):
    return lambda: new_learner(name, [], bits, recipe)


class FakeClock:
    """Time that passes when a test says so. `jump` steps the wall clock alone."""

    def __init__(self) -> None:
        self.elapsed, self.jump = 0.0, 0.0
        self.clock = Clock(lambda: 500.0 + self.elapsed, lambda: 1_000_000.0 + self.elapsed + self.jump)

    def advance(self, seconds: float) -> None:
        self.elapsed += seconds


class Running:
    """A server that runs in a thread, a client for it, and what it said."""

    def __init__(self, state: Path, models=None, *, tokens=None, ready=True, **options) -> None:
        self.said: list[str] = []
        self.server = Server(
            state, {"default": learner()} if models is None else models, Options(**options), tokens, port=0,
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
