"""The speed card: is the working tree as fast as another commit? CPU time, before and after in turns.

    python benchmarks/card.py --base COMMIT [--turns 9] [--limit 1.05] [--only PATTERN] [--json card.json] [--cold]

Learning from each kind of data and in memory, predicting, several classes, numbers, a row trained in a process of its
own, a request of a server, and `bayou --help`. In each turn both sides start a process and do one job after another
alternately, so that what else the machine does is shared; every job is done once on few rows first. CPU time is that
of all threads. The ratio is the median of the turns' ratios; the exit code is 1 if one is above --limit.

`--cold` measures one number instead: a first training by the bank with no compiled kernel at all, with the processes
that it starts. It takes a minute for each turn and side (3 turns if --turns is not given).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fnmatch
import http.client
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import commit_inputs
import numpy as np
import side_environments

HERE = Path(__file__).resolve().parent
FIELDS, N_ROWS, N_TABLE = 39, 60_000, 30_000
# Weights of what learns in memory, from a table far larger than any cache; and of all else, where a small table leaves
# less to chance (which pages the system has ready).
LARGE_BITS, BITS = 22, 18
FEW = 500  # rows of the files that jobs are warmed up with
REQUESTS = 400
TABLE_ROWS = 3000  # different ones; a table repeats them in another order


# ------------------------------------------------------------------------------------------------------- the data


def write_data(folder: Path) -> None:
    """Write what is learned from, each file also with few rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    offsets, indices, values, labels = clicks(N_ROWS)
    np.savez(folder / "clicks.npz", offsets=offsets, indices=indices, values=values, labels=labels)
    tokens = [f"{index}:1" for index in indices.tolist()]
    lines = [f"{int(y)} {' '.join(tokens[k * FIELDS : (k + 1) * FIELDS])}\n" for k, y in enumerate(labels.tolist())]
    rows = commit_inputs.table(TABLE_ROWS, seed=1)
    order = np.random.default_rng(5).integers(0, TABLE_ROWS, N_TABLE)
    for name, n, m in (("all", N_ROWS, N_TABLE), ("few", FEW, FEW)):
        (folder / f"{name}.svm").write_text("".join(lines[:n]))
        some = [rows[k] for k in order[:m]]
        (folder / f"{name}.csv").write_text(commit_inputs.delimited(some, ","))
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(commit_inputs.present(row))}\n" for row in some))
        pq.write_table(pa.Table.from_pylist(some), folder / f"{name}.parquet")
    (folder / "one.csv").write_text("size,city,y\n1,oslo,1\n")


def clicks(n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return CSR rows of 39 fields, each of which follows Zipf's law, over 2^22 columns, and labels."""
    rng = np.random.default_rng(0)
    chances = np.cumsum(1.0 / np.arange(1, 2**LARGE_BITS // FIELDS) ** 1.1)
    ranks = np.searchsorted(chances, rng.random((n_rows, FIELDS)) * chances[-1]).astype(np.int64)
    indices = (ranks * FIELDS + np.arange(FIELDS)).astype(np.int32)  # each field has columns of its own
    score = rng.normal(0, 0.5, 2**LARGE_BITS)[indices].sum(axis=1) - 1.0
    labels = np.where(rng.random(n_rows) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
    indices = np.sort(indices, axis=1).ravel()
    return np.arange(0, n_rows * FIELDS + 1, FIELDS), indices, np.ones(indices.size), labels


# ----------------------------------------------------------------------------------- one side, in its own process


class Jobs:
    """What is measured. Each job takes whether it is to be done on few rows, and returns the seconds it took."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server: subprocess.Popen[bytes] | None = None
        self._now: dict[str, Any] = {}
        table = {"learner": "bank", "ignore": ["kind", "size", "w"], "label": "y"}
        several = {"learner": "bank", "ignore": ["y", "size", "w"], "label": "kind", "task": "multiclass"}
        numbers = {"learner": "bank", "ignore": ["y", "kind", "w"], "label": "size", "task": "regression"}
        self.jobs: dict[str, Callable[[bool], float]] = {
            "marginal, svmlight text": self._training("svm", 3, learner="marginal"),
            "bank, svmlight text": self._training("svm", 2, learner="bank"),
            "bank, CSV": self._training("csv", 2, **table),
            "bank, JSON lines": self._training("jsonl", 1, **table),
            "bank, Parquet": self._training("parquet", 2, **table),
            "marginal, in memory": self._learning("Marginal", 20),
            "bank, in memory": self._learning("Bank", 5),
            "predict, CSV": self._predicting(5, table),
            "several classes, CSV": self._training("csv", 1, **several),
            "numbers, CSV": self._training("csv", 1, **numbers),
            "a row trained, process": self._process("train", str(folder / "one.csv"), "--label", "y", "--quiet"),
            "a row predicted, server": self._serving,
            "bayou --help, process": self._process("--help"),
        }

    def _training(self, suffix: str, times: int, **options: Any) -> Callable[[bool], float]:
        def job(few: bool) -> float:
            import bayou

            path = self.folder / f"{'few' if few else 'all'}.{suffix}"
            return seconds(lambda: bayou.train(str(path), bits=BITS, **options), 1 if few else times)

        return job

    def _learning(self, name: str, times: int) -> Callable[[bool], float]:
        def job(few: bool) -> float:
            import scipy.sparse as sp

            import bayou

            if "batch" not in self._now:
                with np.load(self.folder / "clicks.npz") as data:
                    arrays = data["values"], data["indices"], data["offsets"]
                    X = sp.csr_matrix(arrays, shape=(data["labels"].size, 2**LARGE_BITS))
                    self._now["batch"] = bayou.Batch.from_csr(X, data["labels"])
            batch = self._now["batch"]
            learner = getattr(bayou.learners, name)(2**LARGE_BITS)
            learner.learn(batch)  # the table is in memory
            return 0.0 if few else seconds(lambda: learner.learn(batch), times)

        return job

    def _predicting(self, times: int, options: dict[str, Any]) -> Callable[[bool], float]:
        def job(few: bool) -> float:
            import bayou

            model = self.folder / f"{os.getpid()}.bayou"
            if not model.exists():
                bayou.train(str(self.folder / "few.csv"), bits=BITS, model=model, **options)
            path = self.folder / f"{'few' if few else 'all'}.csv"
            return seconds(lambda: bayou.predict(str(path), model=model).to_arrow(), 1 if few else times)

        return job

    def _process(self, *arguments: str) -> Callable[[bool], float]:
        def job(few: bool) -> float:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-m", "bayou", *arguments], capture_output=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        return job

    def _serving(self, few: bool) -> float:
        if self._server is None:
            self._start_server()
        assert self._server is not None
        clock = (~self._server.pid << 3) | 2  # Linux: the CPU time of another process
        before, connection = time.clock_gettime(clock), self._now["connection"]
        for k in range(FEW if few else REQUESTS):
            connection.request("POST", "/predict", json.dumps({"age": k % 90, "site": f"s{k % 40}.com"}))
            connection.getresponse().read()
        return (time.clock_gettime(clock) - before) / REQUESTS

    def _start_server(self) -> None:
        log, state = (self.folder / f"{os.getpid()}.{name}" for name in ("log", "state"))
        command = [sys.executable, "-m", "bayou", "serve", "--learner", "bank", "--bits", "18", "--port", "0"]
        with log.open("wb") as file:
            self._server = subprocess.Popen([*command, "--data", str(state)], stdout=file, stderr=file)
        for _ in range(1200):
            if found := re.search(r"http://([\w.]+):(\d+)", log.read_text()):
                connection = http.client.HTTPConnection(found[1], int(found[2]), timeout=120)
                connection.request("GET", "/readyz")
                response = connection.getresponse()
                response.read()
                if response.status == 200:
                    self._now["connection"] = connection
                    return
            if self._server.poll() is not None:
                break
            time.sleep(0.05)
        sys.exit(f"the server did not start: {log.read_text()}")

    def close(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGTERM)
            self._server.wait(120)


def seconds(work: Callable[[], Any], times: int) -> float:
    """Return the mean CPU time of all threads; what is quick is done several times."""
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


def work_off(folder: Path) -> None:
    """Do the jobs whose names come on standard input, one a line, and say how long each took."""
    jobs = Jobs(folder)
    try:
        for line in sys.stdin:
            name = line.rstrip("\n")
            jobs.jobs[name](True)
            print(jobs.jobs[name](False), flush=True)
    finally:
        jobs.close()


# ---------------------------------------------------------------------------------------------------- before and after


class Side:
    """One side's process of one turn."""

    def __init__(self, python: Path | str, folder: Path) -> None:
        command = [str(python), str(HERE / "card.py"), "--worker", str(folder)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process: Any = subprocess.Popen(command, text=True, env=side_environments.variables(), **pipes)

    def measure(self, name: str) -> float:
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{' '.join(self._process.args)} ended while it did: {name}")
        return float(line)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def in_turns(sides: list[Path | str], names: list[str], turns: int) -> dict[str, list[list[float]]]:
    """Return for each job the seconds of every turn, for either side."""
    found: dict[str, list[list[float]]] = {name: [[], []] for name in names}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_data(folder)
        for turn in range(turns):
            running = [Side(python, folder) for python in sides]
            for name in names:
                for which in (0, 1) if turn % 2 == 0 else (1, 0):
                    found[name][which].append(running[which].measure(name))
            for side in running:
                side.close()
            print(f"turn {turn + 1} of {turns}", file=sys.stderr, flush=True)
    return found


def cold(sides: list[Path | str], turns: int) -> dict[str, list[list[float]]]:
    """Return the CPU seconds of a first training that has no compiled kernel, with all that it starts."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: to be told what orphans took
    took: list[list[float]] = [[], []]
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "rows.csv"
        path.write_text(commit_inputs.delimited(commit_inputs.table(FEW, seed=1), ","))
        for turn in range(turns):
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                with tempfile.TemporaryDirectory() as kernels:
                    env = side_environments.variables() | {"NUMBA_CACHE_DIR": kernels}
                    before = resource.getrusage(resource.RUSAGE_CHILDREN)
                    command = [sides[which], "-m", "bayou", "train", path, "--label", "y", "--ignore", "kind,size,w"]
                    subprocess.run(command, env=env, capture_output=True, check=True)
                    with contextlib.suppress(ChildProcessError):
                        while True:
                            os.waitpid(-1, 0)
                    after = resource.getrusage(resource.RUSAGE_CHILDREN)
                took[which].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            print(f"turn {turn + 1} of {turns}", file=sys.stderr, flush=True)
    return {"a first training, cold": took}


def summary(base: list[float], own: list[float]) -> dict[str, float]:
    ratios = sorted(b / a for a, b in zip(base, own, strict=True))
    return {
        "base": statistics.median(base),
        "own": statistics.median(own),
        "ratio": statistics.median(ratios),
        "lowest": ratios[0],
        "highest": ratios[-1],
    }


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        return work_off(Path(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--base", metavar="COMMIT", help="the commit to compare with; it is installed once")
    which.add_argument("--no-install", metavar="PYTHON", help="compare with the bayou of this Python")
    parser.add_argument("--sources", type=Path, default=HERE.parent / "src", help="in the place of the working tree")
    parser.add_argument("--turns", type=int, help="9 if not given")
    parser.add_argument("--limit", type=float, default=1.05, help="the highest ratio that is well")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="numbers, as in 'bank*'")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here, too")
    parser.add_argument("--cold", action="store_true", help="a first training with no compiled kernel, instead")
    options = parser.parse_args()
    base = options.no_install or side_environments.install_commit(options.base)
    sides = [base, side_environments.install_sources(options.sources)]
    if options.cold:
        measured = cold(sides, options.turns or 3)
    else:
        names = [name for name in Jobs(Path()).jobs if fnmatch.fnmatchcase(name, options.only)]
        measured = in_turns(sides, names, options.turns or 9)
    card = {name: summary(*both) for name, both in measured.items()}
    print(f"{'CPU milliseconds':28} {'base':>10} {'own':>10} {'ratio':>7}   lowest to highest")
    for name, one in card.items():
        shown = f"{one['base'] * 1e3:>10.3f} {one['own'] * 1e3:>10.3f} {one['ratio']:>7.3f}"
        slower = "  SLOWER" if one["ratio"] > options.limit else ""
        print(f"{name:28} {shown}   {one['lowest']:.3f} to {one['highest']:.3f}{slower}")
    if options.json:
        options.json.write_text(json.dumps({"base": options.base or str(base), "numbers": card}, indent=1))
    sys.exit(any(one["ratio"] > options.limit for one in card.values()))


if __name__ == "__main__":
    main()
