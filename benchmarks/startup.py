"""The first minute, and every start after it: python benchmarks/startup.py [--kernels] [--json startup.json]

First a session as a new user has it: the demo, a first training, a first prediction, a first fit of a float64 matrix,
from no compiled kernel at all.
Then each command by itself, cold (no compiled kernel) and warm (the median of five). Wall time, and CPU seconds of the
process and of all that it starts: a cold start compiles on all cores.

`--kernels` compiles in one process and lists the kernels by the seconds that each takes, with what it calls.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gzip
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import quality_sets
from quality import markdown, plain

COMMAND = [sys.executable, "-m", "bayou"]
FIT = "import numpy as np, bayou; bayou.BankClassifier().fit(np.eye(4), [0, 1, 0, 1])"
# Says which kernels a command compiled, and how long each took; what a kernel calls is counted with it.
RECORD = """
import json, os, sys, time
from numba.core import event
from bayou.kernels.compiling import Kernel
class Listener(event.Listener):
    began, took = [], {}
    def on_start(self, told):
        self.began.append(time.process_time())
    def on_end(self, told):
        kernel, began = told.data["dispatcher"], self.began.pop()
        if isinstance(kernel, Kernel):
            name = f"{kernel.__module__}.{kernel.__name__}".removeprefix("bayou.")
            self.took[name] = self.took.get(name, 0.0) + time.process_time() - began
event.register("numba:compile", Listener())
from bayou.cli import main
try:
    main()
finally:
    with open(os.environ["RECORDED"], "w") as file:
        json.dump(Listener.took, file)
"""


def data(folder: Path, source: Path | None) -> dict[str, list[str]]:
    """A small file of each format, and the options to learn from it."""
    rows = [(k % 7 + 0.5, "oslo" if k % 3 else "rome", k % 2) for k in range(200)]
    lines = {
        "svm": "".join(f"{y} 1:{size} 7:1\n" for size, _, y in rows),
        "vw": "".join(f"{2 * y - 1} |a size:{size} {city}\n" for size, city, y in rows),
        "csv": "size,city,y\n" + "".join(f"{size},{city},{y}\n" for size, city, y in rows),
        "jsonl": "".join(json.dumps({"size": size, "city": city, "y": y}) + "\n" for size, city, y in rows),
    }
    found = {}
    for name, text in lines.items():
        (folder / f"rows.{name}").write_text(text)
        found[name] = [str(folder / f"rows.{name}"), *([] if name in ("svm", "vw") else ["--label", "y"])]
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(
        pa.table(dict(zip(("size", "city", "y"), zip(*rows, strict=True), strict=True))), folder / "r.parquet"
    )
    found["parquet"] = [str(folder / "r.parquet"), "--label", "y"]
    if source is not None and (source / "adult.csv.gz").exists():
        with gzip.open(source / "adult.csv.gz", "rb") as packed:
            (folder / "adult.csv").write_bytes(packed.read())
        found["adult.csv"] = [str(folder / "adult.csv"), "--label", "income", "--positive", ">50K"]
    (folder / "one.csv").write_text("size,city,y\n1,oslo,1\n")
    found["a CSV of one row"] = [str(folder / "one.csv"), "--label", "y"]
    return found


def measure(command: list[str], folder: Path, cache: Path) -> tuple[float, float]:
    """Wall time and CPU seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    subprocess.run(command, cwd=folder, env=env, capture_output=True, check=True)
    wall = time.perf_counter() - start
    with contextlib.suppress(ChildProcessError):
        while True:  # processes that compile what comes next, and that the command did not wait for
            os.waitpid(-1, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table(commands: dict[str, list[str]], folder: Path) -> list[list[str]]:
    lines = [["", "cold, wall", "cold, CPU", "warm, wall", "warm, CPU"]]
    for name, command in commands.items():
        with tempfile.TemporaryDirectory() as cache:
            cold = measure(command, folder, Path(cache))
            again = [measure(command, folder, Path(cache)) for _ in range(5)]
        warm = [statistics.median(each) for each in zip(*again, strict=True)]
        lines.append([name, *(f"{seconds:.2f}" for seconds in (*cold, *warm))])
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def session(commands: dict[str, list[str]], names: list[str], folder: Path) -> list[list[str]]:
    """One after another, from no compiled kernel at all."""
    with tempfile.TemporaryDirectory() as cache:
        took = {name: measure(commands[name], folder, Path(cache)) for name in names}
    return [["", "wall", "CPU"], *([name, *(f"{seconds:.2f}" for seconds in both)] for name, both in took.items())]


def kernels(command: list[str], folder: Path) -> list[list[str]]:
    with tempfile.TemporaryDirectory() as cache:
        recorded = Path(cache) / "recorded.json"
        env = {**os.environ, "NUMBA_CACHE_DIR": cache, "RECORDED": str(recorded)}
        if hasattr(os, "sched_setaffinity"):  # one core: no other process compiles
            command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]
        subprocess.run(command, cwd=folder, env=env, capture_output=True, check=False)
        took = json.loads(recorded.read_text())
    lines = [[f"{len(took)} kernels", "CPU seconds"], ["all", f"{sum(took.values()):.2f}"]]
    return [*lines, *([name, f"{seconds:.2f}"] for name, seconds in sorted(took.items(), key=lambda item: -item[1]))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--data", type=Path, default=quality_sets.data_folder())
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # commands start as users' do, whose modules are compiled
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: to be told what orphans took
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = data(folder, options.data)
        trained = files.get("adult.csv", files["csv"])
        model = [*trained, "--model", "m.bayou"]
        commands = {"bayou --help": [*COMMAND, "--help"], "bayou demo": [*COMMAND, "demo"]}
        commands |= {f"bayou train, {name}": [*COMMAND, "train", *given] for name, given in files.items()}
        commands["a first training"] = [*COMMAND, "train", *model]
        subprocess.run(commands["a first training"], cwd=folder, capture_output=True, check=True)
        commands["bayou predict"] = [*COMMAND, "predict", trained[0], "--model", "m.bayou", "--out", "p.csv"]
        commands["bayou features"] = [*COMMAND, "features", "m.bayou"]
        commands["BankClassifier().fit"] = [sys.executable, "-c", FIT]
        if options.kernels:
            for name in ("a first training", "bayou demo"):
                print(f"\n{name}\n\n{plain(kernels([sys.executable, '-c', RECORD, *commands[name][3:]], folder))}")
            return
        first = ["bayou demo", "a first training", "bayou predict", "BankClassifier().fit"]
        tables = {
            "A first session, one after another": session(commands, first, folder),
            "Each by itself": table({name: command for name, command in commands.items() if name != first[1]}, folder),
        }
    for title, lines in tables.items():
        print(f"\n{title}\n\n{plain(lines)}")
    if options.json:
        options.json.write_text(json.dumps(tables, indent=1))
    if options.markdown:
        parts = [f"### {title}\n\n{markdown(lines)}" for title, lines in tables.items()]
        options.markdown.write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
