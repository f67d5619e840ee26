"""A server that is killed again and again under load: whatever it has acknowledged must be there, and once.

Run as a script this is the process that servers are forked from, so that a start takes no second: it reads
`PORT STATE` from its standard input, forks a server, and prints its process id.
"""

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

BITS = 12
SNAPSHOT_EVERY = 150


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Forks:
    """Starts servers and kills them."""

    def __init__(self, state: Path) -> None:
        self.state, self.port, self.pid = state, free_port(), 0
        self._mother = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip

    def start(self) -> None:
        self._mother.stdin.write(f"{self.port} {self.state}\n")
        self._mother.stdin.flush()
        self.pid = int(self._mother.stdout.readline())
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                if call(self.port, "GET", "/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.005)
        raise AssertionError("the server does not start")

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)
        assert self._mother.stdout.readline().strip() == f"gone {self.pid}"

    def close(self) -> None:
        self._mother.stdin.close()
        self._mother.wait(120)
        self._mother.stdout.close()


def call(port: int, method: str, path: str, body=None, connection=None):
    """(status, answer) of one request."""
    own = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        own.request(method, path, None if body is None else json.dumps(body))
        answer = own.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(str(error)) from error
    finally:
        if connection is None:
            own.close()


def insist(port: int, path: str, body=None):
    """`call` as a client does that got no answer in time: it asks again, under the same request id."""
    for _ in range(4):
        try:
            return call(port, "POST", path, body)
        except OSError:
            continue
    return call(port, "POST", path, body)


@dataclass
class Told:
    """What clients sent, and what they were told: by row, whether it was acknowledged."""

    sent: dict[str, dict] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    labels: dict[str, int] = field(default_factory=dict)  # of rows whose label was acknowledged
    answers: int = 0  # that said so
    lock: threading.Lock = field(default_factory=threading.Lock)

    def wait_for(self, answers: int) -> None:
        until = time.monotonic() + 60
        while self.answers < answers:
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.001)


def load(port: int, told: Told, seed: int, stop: threading.Event) -> None:
    """Send rows, one after another, until the server is gone: some with labels, some whose labels come later."""
    rng, connection = random.Random(seed), http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        while not stop.is_set():
            name = f"{rng.getrandbits(64):016x}"
            row = {"name": name, "a": rng.random(), "b": f"v{rng.randrange(20)}"}
            if rng.random() < 0.5:
                body = [row | {"label": rng.randrange(2)}, {"twin": name, "label": 1}] if rng.random() < 0.3 else (
                    row | {"label": rng.randrange(2)}
                )  # fmt: skip
                with told.lock:
                    told.sent[name] = body
                if call(port, "POST", f"/learn?request={name}", body, connection)[0] == 200:
                    with told.lock:
                        told.acknowledged.add(name)
                        told.answers += 1
            else:
                if call(port, "POST", "/predict", row | {"id": name}, connection)[0] != 200:
                    continue
                for _ in range(rng.choice((1, 1, 2))):  # twice, at times
                    status, said = call(port, "POST", "/label", {"id": name, "label": 1}, connection)
                    if status == 200:
                        with told.lock:
                            told.labels[name] = told.labels.get(name, 0) + 1
                            told.answers += 1
                        assert said["outcome"] in ("joined", "duplicate"), said
    except OSError:
        pass
    finally:
        connection.close()


def learned_in(state: Path) -> tuple[Counter, object]:
    """How often each row was learned, by the log; and the model that it makes."""
    from bayou.serve.label_joins import LEARN
    from bayou.serve.log import Log
    from bayou.serve.state_folder import StateFolder, replayed

    log = Log(StateFolder(state, "default").path, write=False)
    seen: Counter = Counter()
    for unit in log.units():
        for entry in unit:
            if entry.kind == LEARN:
                lines = entry.body.split(b"\n")
            else:
                lines = [row for _, row, _ in log.rows_learned_by(entry)]
            for line in lines:
                row = json.loads(line)
                seen[row.get("name") or "twin " + row["twin"]] += 1
    log.close()
    return seen, replayed(state)


def kill_again_and_again(folder: Path, kills: int, seed: int = 0, clients: int = 4) -> dict[str, int]:
    """Kill a server so often under load, then look at what is left; counts of what was tried."""
    state, rng, told = folder / "state", random.Random(seed), Told()
    forks = Forks(state)
    try:
        for _ in range(kills):
            forks.start()
            stop = threading.Event()
            seeds = [rng.getrandbits(32) for _ in range(clients)]
            threads = [threading.Thread(target=load, args=(forks.port, told, one, stop)) for one in seeds]
            for thread in threads:
                thread.start()
            # So many answers and a moment: at a start at times, and as much load on a slow machine as on a fast one.
            told.wait_for(told.answers + rng.choice((0, rng.randrange(100))))
            time.sleep(rng.uniform(0.0, 0.02))
            forks.kill()
            stop.set()
            for thread in threads:
                thread.join()
        forks.start()
        again = [name for name in told.sent if name not in told.acknowledged]
        for name in again:  # whoever got no answer asks again, and is not learned twice
            assert insist(forks.port, f"/learn?request={name}", told.sent[name])[0] == 200
        version = insist(forks.port, "/snapshot")[1]["version"]
        forks.kill(signal.SIGTERM)
    finally:
        forks.close()
    seen, model = learned_in(state)
    lost = [name for name in (*told.sent, *told.labels) if not seen[name]]
    assert lost == []
    assert [name for name, count in seen.items() if count > 1] == []
    assert model.learner.examples == sum(seen.values())
    assert model.version == version
    model.copy().save(folder / "replayed.bayou")
    written = state / "models/default/snapshots" / f"{version:012d}.bayou"
    assert (folder / "replayed.bayou").read_bytes() == written.read_bytes()
    return {
        "kills": kills,
        "acknowledged": told.answers,
        "asked again": len(again),
        "learned": sum(seen.values()),
    }


def main() -> None:
    from bayou.serve.served_model import ServedModel
    from bayou.serve.server import Server
    from bayou.serve.service import ServeOptions, new_learner, warm_up

    def made():
        return new_learner("marginal", [], BITS, {})

    warm_up(ServedModel(made()))
    for line in sys.stdin:
        port, state = line.split()
        child = os.fork()
        if child == 0:
            # A port that connections were killed on may be taken for a moment.
            until = time.monotonic() + 10
            while True:
                try:
                    server = Server(
                        Path(state), {"default": made}, ServeOptions(snapshot_every=SNAPSHOT_EVERY), None,
                        port=int(port), say=lambda text: None,
                    )  # fmt: skip
                    break
                except ValueError:
                    if time.monotonic() > until:
                        os._exit(1)
                    time.sleep(0.01)
            server.run()
            os._exit(0)
        print(child, flush=True)
        os.waitpid(child, 0)
        print(f"gone {child}", flush=True)


if __name__ == "__main__":
    main()
