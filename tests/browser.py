"""A real browser without a screen, spoken to over a pipe in Chromium's DevTools protocol. Needs nothing but Chromium.

with Browser() as browser:
    page = browser.open(path, width=390, dark=True)
    page.value("document.title"), page.console, page.requests
    page.picture("phone.png")
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0  # seconds for any one thing; a busy machine is not a failure


def find() -> str | None:
    """Where the browser is: what BAYOU_BROWSER names, or Chromium under one of its usual names."""
    named = os.environ.get("BAYOU_BROWSER")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Navigated(AssertionError):
    """The page went elsewhere, or was loaded again, before it could answer."""


class Browser:
    """One browser; `open` gives a page each."""

    def __init__(self) -> None:
        command = find()
        assert command is not None
        self._folder = tempfile.TemporaryDirectory()
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # The protocol wants file descriptors 3 and 4; what is there now is moved out of the way first.
        theirs_in, theirs_out = _moved_up(theirs_in), _moved_up(theirs_out)
        wired = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "browser"]
        self._process = subprocess.Popen(
            [*wired, command, *FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._last = 0
        self._rest = b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *unused: object) -> None:
        with contextlib.suppress(Exception):
            self.call("Browser.close")
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._folder.cleanup()

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Have something done; the answer."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._last:
                if "navigated" in answer.get("error", {}).get("message", ""):
                    raise Navigated(f"{method}: {answer['error']}")
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _next(self, deadline: float) -> dict[str, Any]:
        """The next message; what happened by itself is noted."""
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        plain = json.loads(message)
        if "method" in plain:
            self.events.append(plain)
        return plain

    def open(
        self, path: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False, phone: bool = False
    ) -> Page:
        """A file, or what is at an address, in a window of its own of that width."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        scale = 2 if phone else 1
        page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )
        page.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        page.prefer(dark, hover=not phone)
        address = path if isinstance(path, str) else path.resolve().as_uri()
        page.call("Page.navigate", url=address)
        page.wait("location.protocol !== 'about:' && document.readyState === 'complete'")
        return page


class Page:
    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def prefer(self, dark: bool, hover: bool = True) -> None:
        """A dark page or a light one; with a mouse or with a finger."""
        features = {
            "prefers-color-scheme": "dark" if dark else "light",
            "hover": "hover" if hover else "none",
            "pointer": "fine" if hover else "coarse",
        }
        self.call("Emulation.setEmulatedMedia", features=[{"name": k, "value": v} for k, v in features.items()])

    def value(self, expression: str) -> Any:
        """What a piece of JavaScript gives."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a piece of JavaScript is true, on this page or on the one that takes its place meanwhile."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(Navigated):
                if self.value(condition):
                    return
            assert time.monotonic() < deadline, f"{condition} never came true; the console says {self.console}"
            time.sleep(0.05)

    def move(self, x: float, y: float) -> None:
        """The mouse."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def _seen(self, method: str) -> list[dict[str, Any]]:
        events = self._browser.events
        return [e["params"] for e in events if e["method"] == method and e.get("sessionId") == self._session]

    @property
    def console(self) -> list[str]:
        """All that was complained about: by scripts, by the browser (a policy that was not kept), or by an error."""
        said = [
            " ".join(str(argument.get("value", argument.get("description"))) for argument in event["args"])
            for event in self._seen("Runtime.consoleAPICalled")
            if event["type"] in ("error", "warning", "assert")
        ]
        said += [event["entry"]["text"] for event in self._seen("Log.entryAdded")]
        return said + [str(event["exceptionDetails"]) for event in self._seen("Runtime.exceptionThrown")]

    @property
    def requests(self) -> list[str]:
        """Every address that was asked for."""
        return [event["request"]["url"] for event in self._seen("Network.requestWillBeSent")]

    def picture(self, path: Path, whole: bool = True) -> None:
        """A PNG file of the page: all of it, or what is in the window."""
        parameters: dict[str, Any] = {"captureBeyondViewport": whole}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            parameters["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **parameters)["data"]))

    def paper(self, path: Path) -> None:
        """A PDF file of the page, as printed."""
        Path(path).write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))


def _moved_up(handle: int) -> int:
    import fcntl

    high = fcntl.fcntl(handle, fcntl.F_DUPFD, 10)
    os.close(handle)
    return high
