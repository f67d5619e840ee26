"""`bayou serve` under load, beside what it is compared with, all in one run on the loopback.

    python benchmarks/serve.py [--quick] [--only NAME ...]

Rates are per CPU second of the server, so that other work on the machine matters little; the load generator's share of
the CPU is stated. Parts: rates (single JSON rows, empty answers, river behind FastAPI), vw (its daemon), bodies (NDJSON
and VW text of 1,000 rows, beside `bayou predict` and `train`), tails (half load), snapshots (a bank of 2^22 weights),
ids (a million open rows), soak (a million rows with labels late, doubled, missing, out of order), kills (200 times).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
TICKS = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A server that is measured."""

    def __init__(self, *command: str, port: int) -> None:
        self.port = port
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self, path: str = "/readyz") -> None:
        for _ in range(1200):
            try:
                if self.get(path)[0] < 500:
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.1)
        raise SystemExit("the server does not start")

    def get(self, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def post(self, path: str, body) -> dict:
        return json.loads(self.get(path, "POST", json.dumps(body).encode())[1])

    @property
    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def memory(self) -> float:
        """Resident megabytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def load(self, path: str, file: Path | None = None, connections: int = 64, seconds: float = 3.0, **more) -> dict:
        """What comes of some load: answers per CPU second of the server, and the generator's CPU."""
        about = {"port": self.port, "path": path, "file": file and str(file), "connections": connections}
        before = self.cpu
        command = [sys.executable, str(HERE / "serve_load.py"), json.dumps(about | {"seconds": seconds} | more)]
        told = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        used = max(self.cpu - before, 1 / TICKS)
        share = told["cpu"] / (told["cpu"] + used)
        return told | {"per_cpu": told["answers"] / used, "rate": told["answers"] / seconds, "load_share": share}

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(120)


@contextmanager
def bayou_server(folder: Path, *options: str):
    port = free_port()
    command = (sys.executable, "-m", "bayou", "serve", "--data", str(folder), "--port", str(port), *options)
    server = Process(*command, port=port)
    try:
        server.wait()
        yield server
    finally:
        server.stop()


def row_of(rng: random.Random) -> dict:
    """Ten numbers and ten categories."""
    numbers = {f"num{k}": round(rng.gauss(0, 1), 3) for k in range(10)}
    return numbers | {f"cat{k}": f"v{rng.randrange(100)}" for k in range(10)}


def labelled(rng: random.Random, row: dict) -> dict:
    return row | {"label": int(row["num0"] + (row["cat0"] < "v5") + rng.gauss(0, 1) > 0.5)}


def as_vw(row: dict) -> str:
    label = f"{2 * row['label'] - 1} " if "label" in row else ""
    numbers = " ".join(f"{k}:{v}" for k, v in row.items() if k.startswith("num"))
    return f"{label}|n {numbers} |c " + " ".join(f"{k}={v}" for k, v in row.items() if k.startswith("cat"))


class Data:
    """The same rows in every form."""

    def __init__(self, folder: Path, n: int = 20_000) -> None:
        rng = random.Random(0)
        rows = [row_of(rng) for _ in range(n)]
        taught = [labelled(rng, row) for row in rows]

        def write(name: str, lines: list[str], bodies: int = 0) -> Path:
            path = folder / name
            parts = ["\n".join(lines[k : k + bodies]) for k in range(0, n, bodies)] if bodies else lines
            path.write_text(("\n%%\n" if bodies else "\n").join(parts) + ("" if bodies else "\n"))
            return path

        def as_json(some: list[dict]) -> list[str]:
            return [json.dumps(row, separators=(",", ":")) for row in some]

        self.rows, self.taught = write("rows.jsonl", as_json(rows)), write("taught.jsonl", as_json(taught))
        self.row_bodies = write("rows.bodies", as_json(rows), 1000)
        self.taught_bodies = write("taught.bodies", as_json(taught), 1000)
        self.vw, self.taught_vw = write("rows.vw", list(map(as_vw, rows))), write("taught.vw", list(map(as_vw, taught)))
        self.vw_bodies = write("vw.bodies", list(map(as_vw, rows)), 1000)
        self.taught_vw_bodies = write("taught_vw.bodies", list(map(as_vw, taught)), 1000)


def say(name: str, value: float, wanted: str = "") -> None:
    print(f"{name:<66}{value:>12,.3g}{wanted:>24}", flush=True)


def median(values: list[float]) -> float:
    return statistics.median(values)


# --- the parts --------------------------------------------------------------------------------------------------------


def rates(folder: Path, data: Data, rounds: int, seconds: float) -> None:
    """Single JSON rows, 64 connections."""
    found: dict[str, list[float]] = {name: [] for name in ("empty", "predict", "learn", "share")}
    with bayou_server(folder / "rates", "--learner", "bank", "--bits", "18") as server:
        for path, file in (("/predict", data.rows), ("/learn", data.taught)):
            server.load(path, file, seconds=1.0)
        for _ in range(rounds):
            for name, path, file in (
                ("empty", "/healthz", None), ("predict", "/predict", data.rows), ("learn", "/learn", data.taught),
            ):  # fmt: skip
                told = server.load(path, file, seconds=seconds)
                assert not told["refused"]
                found[name].append(told["per_cpu"])
                found["share"].append(told["load_share"])
    ours = {name: median(values) for name, values in found.items()}
    say("the load generator's share of the CPU", ours["share"])
    for name in ("empty", "predict", "learn"):
        say(f"{name}: answers per CPU second", ours[name])
    say("predict over empty", ours["predict"] / ours["empty"], "at least 0.6")
    say("learn, after fsync, over empty", ours["learn"] / ours["empty"], "at least 0.35")
    port = free_port()
    rival = Process(sys.executable, str(HERE / "serve_rivals.py"), "river", str(port), port=port)
    try:
        rival.wait("/docs")
        for name, path, file, wanted in (
            ("predict", "/predict", data.rows, "at least 2.5"), ("learn", "/learn", data.taught, "at least 1.5"),
        ):  # fmt: skip
            told = [rival.load(path, file, seconds=seconds)["per_cpu"] for _ in range(rounds)]
            say(f"river behind FastAPI, {name}: answers per CPU second", median(told))
            say(f"{name} over river's", ours[name] / median(told), wanted)
    finally:
        rival.stop()


def vw(folder: Path, data: Data, rounds: int, seconds: float) -> None:
    """VW's daemon on the same rows, one connection, line by line and in bundles of 1,000."""
    port = free_port()
    rival = Process(sys.executable, str(HERE / "serve_rivals.py"), "vw", str(port), port=port)
    try:
        lines = data.taught_vw.read_bytes().splitlines()
        time.sleep(3.0)
        for bundle in (1, 1000):
            try:
                say(f"vw --daemon, {bundle} lines at a time: lines per second", _vw_rate(port, lines, bundle, seconds))
            except OSError as error:
                print(f"vw --daemon does not answer ({error})")
                return
    finally:
        rival.stop()


def _vw_rate(port: int, lines: list[bytes], bundle: int, seconds: float) -> float:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as daemon:
        answers, sent, started = daemon.makefile("rb"), 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            some = [lines[(sent + k) % len(lines)] for k in range(bundle)]
            daemon.sendall(b"\n".join(some) + b"\n")
            for _ in range(bundle):
                if not answers.readline():
                    raise OSError("it closed the connection")
            sent += bundle
        return sent / (time.perf_counter() - started)


def bodies(folder: Path, data: Data, rounds: int, seconds: float) -> None:
    """Bodies of 1,000 rows, beside the commands on files of the same rows; both per CPU second."""
    from bayou import train
    from bayou.serve.service import new_learner

    lines = (data.rows, data.taught), (data.row_bodies, data.taught_bodies), "application/x-ndjson"
    text = (data.vw, data.taught_vw), (data.vw_bodies, data.taught_vw_bodies), "text/x-vw"
    for kind, (files, sent, content) in {"any names": lines, "table": lines, "VW": text}.items():
        model = folder / f"{kind.replace(chr(32), chr(95))}.bayou"
        if kind == "any names":
            new_learner("bank", [], 18, {}).save(model)
        else:
            label = {"label": "label"} if kind == "table" else {}
            train(str(files[1]), learner="bank", bits=18, model=model, **label)
        wanted = "at least 0.4" if kind == "VW" else "at least 0.8"
        with (
            bayou_server(folder / f"state-{model.stem}", "--model", str(model)) as server,
            commands(model, files) as ask,
        ):
            for k, (name, command) in enumerate((("predict", "predict"), ("learn", "train"))):
                rows = 1000 * server.load(f"/{name}", sent[k], 2, 1.0, type=content)["answers"]
                ask(command)
                found: list[tuple[float, float]] = []
                for _ in range(2 * rounds + 1):  # turn by turn: other work on the machine slows both
                    told = server.load(f"/{name}", sent[k], 2, seconds / 2, type=content)
                    assert not told["refused"]
                    rows += 1000 * told["answers"]
                    found.append((1000 * told["per_cpu"], ask(command)))
                ours, theirs = (median(list(rates)) for rates in zip(*found, strict=True))
                say(f"{content}, {kind}, {name}: rows per CPU second", ours)
                say(f"  over bayou {command} ({theirs:,.0f})", median([a / b for a, b in found]), wanted)
        log, body = next((folder / f"state-{model.stem}").rglob("log.sqlite")), sent[1].read_bytes()
        say("  bytes of the log a row", log.stat().st_size / rows)
        say("  bytes of a row as it was sent", len(body) / 1000 / len(body.split(b"\n%%\n")))


@contextmanager
def commands(model: Path, files: tuple[Path, Path]):
    """A process that does what `bayou predict` and `train` do, without their start: rows per CPU second of either."""
    code = """
import sys, bayou, resource, tempfile
from bayou.outputs import prediction_files, text
from bayou.runs.train import Training
model = sys.argv[1]
rows, taught = ([file] * 5 for file in sys.argv[2:])
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
def predict():
    n, told = 0, bayou.predict(rows, model=learner, horizon="next")
    started = cpu()
    with tempfile.NamedTemporaryFile(suffix=".csv") as place, text.output(place.name) as file:
        table = prediction_files.CsvPredictionWriter(file, told.columns, None)
        for part in told.parts():
            table.write(part)
            n += len(part)
        table.end()
    return n / (cpu() - started)
def train():
    training = Training(taught, resume=learner)
    started = cpu()
    run = training.run()
    return run.evaluation.examples / (cpu() - started)
learner = bayou.load(model)
for name in sys.stdin:
    print({"predict": predict, "train": train}[name.strip()](), flush=True)
"""
    command = [sys.executable, "-c", code, str(model), *map(str, files)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def ask(name: str) -> float:
            process.stdin.write(f"{name}\n")
            process.stdin.flush()
            return float(process.stdout.readline())

        yield ask
        process.stdin.close()


def tails(folder: Path, data: Data, rounds: int, seconds: float) -> None:
    """Half load: each connection pauses as long, in the mean, as makes half the rate of full load."""
    found: dict[str, list[float]] = {"empty": [], "predict": []}
    with bayou_server(folder / "tails", "--learner", "bank", "--bits", "18") as server:
        for _ in range(rounds):
            for name, path, file in (("empty", "/healthz", None), ("predict", "/predict", data.rows)):
                full = server.load(path, file, seconds=seconds)
                told = server.load(path, file, seconds=seconds, pause=2 * 64 / full["rate"])
                found[name].append(told["p99"])
                say(f"{name} at half load, {told['rate']:,.0f} a second: p50, ms", 1e3 * told["p50"])
                say(f"{name} at half load: p99, ms", 1e3 * told["p99"])
    say("p99 of predictions over that of empty answers", median(found["predict"]) / median(found["empty"]), "at most 3")


def snapshots(folder: Path, data: Data, rounds: int, seconds: float) -> None:
    """A bank of 2^22 weights, most of them touched, learning steadily: how long predictions wait meanwhile."""
    rng, lines, names = random.Random(1), data.rows.read_bytes().splitlines(), 4_000_000
    with bayou_server(
        folder / "snapshots", "--learner", "bank", "--bits", "22", "--snapshot-every", "1000000000"
    ) as server:
        for _ in range(40 if seconds > 1 else 5):  # touch the table
            wide = [
                {f"f{rng.randrange(names)}": 1.0 for _ in range(100)} | {"label": rng.randrange(2)} for _ in range(1000)
            ]
            server.get("/learn", "POST", json.dumps(wide).encode())
        stop = threading.Event()
        waits: list[tuple[float, float]] = []

        def made() -> bytes:
            return json.dumps(
                [{f"f{rng.randrange(names)}": 1.0 for _ in range(20)} | {"label": 1} for _ in range(20)]
            ).encode()

        sent = [made() for _ in range(500)]  # before: whoever measures must not be busy

        def learn() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            while not stop.is_set():
                connection.request("POST", "/learn", rng.choice(sent))
                connection.getresponse().read()

        def predict() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            while not stop.is_set():
                began = time.perf_counter()
                connection.request("POST", "/predict", lines[0])
                connection.getresponse().read()
                waits.append((began, time.perf_counter() - began))
                time.sleep(0.001)

        threads = [threading.Thread(target=work) for work in (learn, predict)]
        for thread in threads:
            thread.start()
        time.sleep(2.0)
        quiet = max(wait for _, wait in waits)
        worst, took = [], []
        for _ in range(rounds):
            began = time.perf_counter()
            assert server.get("/snapshot", "POST")[0] == 200
            ended = time.perf_counter()
            took.append(ended - began)
            worst.append(max(wait for at, wait in waits if began - 0.1 < at < ended))
        stop.set()
        for thread in threads:
            thread.join()
        files = sorted((folder / "snapshots/models/default/snapshots").iterdir())
        say("snapshot of a bank of 2^22 weights: megabytes", files[-1].stat().st_size / 2**20)
        say("  seconds it takes while learning goes on", median(took))
        say("  longest wait of a prediction before, ms", 1e3 * quiet)
        say("  longest wait of a prediction meanwhile, ms", 1e3 * max(worst), "at most 50")


def ids(folder: Path, data: Data, rounds: int, seconds: float) -> None:
    """A million rows that wait for their labels."""
    n = 1_000_000 if seconds > 1 else 20_000
    rng = random.Random(2)
    with bayou_server(folder / "ids", "--learner", "marginal", "--bits", "18") as server:
        rows = [row_of(rng) for _ in range(1000)]
        server.post("/predict", rows)
        server.post("/learn", [labelled(rng, row) for row in rows])
        before = server.memory
        for k in range(0, n, 1000):
            server.get("/predict", "POST", json.dumps([row | {"id": k + j} for j, row in enumerate(rows)]).encode())
        told = json.loads(server.get("/info")[1])
        assert told["labels"]["open"] == n, told["labels"]
        say(f"{n:,} open ids: megabytes above the model", server.memory - before, "at most 250")


def soak(folder: Path, data: Data, rounds: int, seconds: float) -> None:
    """Rows under ids, with labels late, doubled, missing, out of order: the model of the ordered log, flat memory."""
    n = 1_000_000 if seconds > 1 else 20_000
    rng, waiting, memory = random.Random(3), [], []
    state = folder / "soak"
    with bayou_server(
        state, "--learner", "marginal", "--bits", "18", "--default-label", "0", "--wait", "20s"
    ) as server:
        for k in range(0, n, 1000):
            rows = [row_of(rng) | {"id": k + j} for j in range(1000)]
            server.get("/predict", "POST", json.dumps(rows).encode())
            for row in rows:
                if rng.random() < 0.9:
                    waiting.append({"id": row["id"], "label": int(row["num0"] > 0)})
                    if rng.random() < 0.1:
                        waiting.append(waiting[-1])
                if rng.random() < 0.01:
                    waiting.append({"id": row["id"] + rng.randrange(2000), "label": 1})  # perhaps before its row
            rng.shuffle(waiting)
            told, waiting = waiting[5000:], waiting[:5000]
            if told:
                server.get("/label", "POST", json.dumps(told).encode())
            memory.append(server.memory)
        server.post("/label", waiting)
        time.sleep(22.0 if seconds > 1 else 1.0)
        counts = json.loads(server.get("/info")[1])
    print(f"labels: {counts['labels']['counts']}")
    say("resident memory after a tenth of the rows, MB", memory[len(memory) // 10])
    say("resident memory at the end, MB", memory[-1])
    subprocess.run(
        [sys.executable, "-m", "bayou", "replay", str(state), "--out", str(folder / "soak.bayou")], check=True
    )
    newest = sorted((state / "models/default/snapshots").iterdir())[-1]
    same = newest.read_bytes() == (folder / "soak.bayou").read_bytes()
    say(f"{n:,} rows: the log alone gives the same bytes (1: yes)", float(same), "1")


def kills(folder: Path, data: Data, rounds: int, seconds: float) -> None:
    """SIGKILL at random moments under load."""
    from tests.serve.killing import kill_again_and_again

    (folder / "kills").mkdir()
    told = kill_again_and_again(folder / "kills", 200 if seconds > 1 else 5, seed=7, clients=16)
    print(f"killed {told['kills']} times: {told}; nothing lost, nothing twice, the log alone gives the same bytes")


PARTS = {part.__name__: part for part in (rates, vw, bodies, tails, snapshots, ids, soak, kills)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with tempfile.TemporaryDirectory() as place:
        data = Data(Path(place))
        for name in asked.only:
            print(f"--- {name}: {PARTS[name].__doc__}")
            PARTS[name](Path(place), data, *((1, 0.5) if asked.quick else (3, 3.0)))


if __name__ == "__main__":
    main()
