"""Load for a server: connections that send one request after another. Run by `benchmarks/serve.py` as a process.

    python serve_load.py '{"port": 8642, "path": "/predict", "file": "rows.jsonl", "connections": 64, "seconds": 3}'

`file` has a body in each line, or bodies separated by lines of `%%`; without it requests are empty. With `pause` each
connection waits at random between two requests, that many seconds in the mean. Prints what came of it as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
import time
from pathlib import Path

import uvloop


class Load(asyncio.Protocol):
    """One connection."""

    def __init__(self, run: Run) -> None:
        self._run, self._got, self._size = run, b"", 0

    def connection_made(self, transport) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        now = time.perf_counter()
        if now > self._run.ends:
            self._transport.close()
            return
        self._got, self._size, self._sent = b"", 0, now
        self._transport.write(self._run.request())

    def data_received(self, data: bytes) -> None:
        self._got = self._got + data if self._got else data
        if not self._size:
            head = self._got.find(b"\r\n\r\n")
            if head < 0:
                return
            place = self._got.lower().find(b"content-length: ", 0, head) + 16
            self._size = head + 4 + int(self._got[place : self._got.find(b"\r", place)])
            self._run.refused += not self._got.startswith(b"HTTP/1.1 200")
        if len(self._got) >= self._size:
            self._run.times.append(time.perf_counter() - self._sent)
            if self._run.pause:
                self._run.loop.call_later(random.expovariate(1.0 / self._run.pause), self._next)
            else:
                self._next()


class Run:
    """What all connections share."""

    def __init__(self, about: dict) -> None:
        self.about, self.pause = about, about.get("pause", 0.0)
        self.times: list[float] = []
        self.refused = self._sent = 0
        path = about["path"].encode()
        if about.get("file"):
            data = Path(about["file"]).read_bytes()
            bodies = data.split(b"\n%%\n") if b"\n%%\n" in data else data.splitlines()
            kind = about.get("type", "application/json").encode()
            head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s"
            self._requests = [head % (path, kind, len(body), body) for body in bodies]
        else:
            self._requests = [b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path]

    def request(self) -> bytes:
        self._sent += 1
        return self._requests[self._sent % len(self._requests)]

    async def go(self) -> None:
        self.loop, seconds = asyncio.get_running_loop(), self.about["seconds"]
        self.ends = time.perf_counter() + seconds
        made = [self.loop.create_connection(lambda: Load(self), "127.0.0.1", self.about["port"])]
        made += [
            self.loop.create_connection(lambda: Load(self), "127.0.0.1", self.about["port"])
            for _ in range(self.about["connections"] - 1)
        ]
        await asyncio.gather(*made)
        await asyncio.sleep(seconds + 0.3)


def main() -> None:
    run = Run(json.loads(sys.argv[1]))
    uvloop.run(run.go())
    times, used = sorted(run.times) or [0.0], resource.getrusage(resource.RUSAGE_SELF)
    told = {"answers": len(run.times), "refused": run.refused, "cpu": used.ru_utime + used.ru_stime}
    told |= {f"p{share:g}": times[int(share / 100 * (len(times) - 1))] for share in (50, 99, 100)}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
