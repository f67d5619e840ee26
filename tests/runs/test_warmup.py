"""Kernels ahead of time: tasks leave nothing to compile, other processes run them, and nothing depends on it."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli import app
from bayou.core import registry
from bayou.kernels import cache
from bayou.runs import warmup

# Learns from a file and predicts it; says which kernels were compiled.
TRAIN = """
import json, sys
from numba.core import event
import bayou
from bayou.outputs.text import csv
from bayou.runs import warmup
warmup.ahead = __import__("contextlib").nullcontext
with event.install_recorder("numba:compile") as compiled:
    label = {} if sys.argv[1].endswith(("svm", "vw")) else {"label": "y"}
    run = bayou.train(sys.argv[1], learner=sys.argv[2], **label)
    bayou.predict(sys.argv[1], model=run.learner).to_arrow()
print(json.dumps(sorted({e.data["dispatcher"].__name__ for _, e in compiled.buffer if e.is_start})))
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("rows")
    rows = [(k % 7 + 0.5, "oslo" if k % 3 else "rome", k % 2) for k in range(50)]
    lines = {
        "svmlight": ("svm", [f"{y} 1:{size} 7:1" for size, _, y in rows]),
        "vw": ("vw", [f"{2 * y - 1} |a size:{size} {city}" for size, city, y in rows]),
        "csv": ("csv", ["size,city,y", *(f"{size},{city},{y}" for size, city, y in rows)]),
        "jsonl": ("jsonl", [json.dumps({"size": size, "city": city, "y": y}) for size, city, y in rows]),
    }
    found = {}
    for name, (ending, text) in lines.items():
        found[name] = str(folder / f"rows.{ending}")
        Path(found[name]).write_text("\n".join(text) + "\n")
    found["parquet"] = str(folder / "rows.parquet")
    pq.write_table(pa.table(dict(zip(("size", "city", "y"), zip(*rows, strict=True), strict=True))), found["parquet"])
    return found


@pytest.mark.long
@pytest.mark.parametrize("learner", ["bank", "marginal", "gaussian"])
def test_tasks_leave_nothing_to_compile(files, learner, tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    tasks = [warmup.learner(learner), *(task for task in warmup.default_tasks() if task.startswith("read "))]
    main = [sys.executable, "-c", "from bayou.runs.warmup import main; main()"]
    subprocess.run([*main, *tasks], env=env, check=True)
    for path in files.values():
        done = subprocess.run(
            [sys.executable, "-c", TRAIN, path, learner], env=env, capture_output=True, text=True, check=True
        )
        assert json.loads(done.stdout) == [], path


def test_every_task_is_there():
    assert warmup.default_tasks()[0] == "learner bank"
    assert {f"learner {record.name}" for record in registry.own_records()} < set(warmup.all_tasks())
    assert set(warmup.default_tasks()) < set(warmup.all_tasks())


def test_what_was_run_is_warm(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "places", lambda: [tmp_path])
    monkeypatch.setattr(cache, "writable", lambda: tmp_path)
    assert not warmup.is_warm("learner adagrad")
    warmup.run("learner adagrad")
    assert warmup.is_warm("learner adagrad")


def test_another_process_runs_what_is_cold_and_ends_with_a_failure(tmp_path, monkeypatch):
    started = []

    def worker(tasks):
        started.append((tasks, subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])))
        return started[-1][1]

    monkeypatch.setattr(warmup, "_worker", worker)
    monkeypatch.setattr(warmup, "available_cores", lambda: 2)
    monkeypatch.setattr(warmup, "is_warm", lambda task: task == "read csv")
    with pytest.raises(KeyError), warmup.ahead("read csv", "learner a", "learner b"):
        raise KeyError
    assert [tasks for tasks, _ in started] == [["learner a", "learner b"]]
    assert started[0][1].wait(10) != 0
    with warmup.ahead("read csv"):
        pass
    assert len(started) == 1


def test_without_other_processes_it_works_all_the_same(monkeypatch):
    def worker(tasks):
        raise OSError("no more processes")

    monkeypatch.setattr(warmup, "_worker", worker)
    monkeypatch.setattr(warmup, "is_warm", lambda task: False)
    table = pa.table({"x": np.arange(20.0), "y": [0, 1] * 10})
    assert bayou.train(table, label="y", learner="adagrad").evaluation.examples == 20


def test_the_command_runs_what_is_cold(monkeypatch):
    ran = []
    monkeypatch.setattr(warmup, "run_all", lambda tasks, show: ran.append(tasks))
    monkeypatch.setattr(warmup, "is_warm", lambda task: task != "read vw")
    done = CliRunner().invoke(app, ["warm"])
    assert done.exit_code == 0, done.output
    assert ran == [["read vw"]]
    assert "1 of 6 tasks: read vw" in done.output
    assert str(cache.writable()) in done.output


def test_processes_run_all_tasks(monkeypatch):
    done = []
    worker = partial(subprocess.Popen, stdin=subprocess.DEVNULL)
    monkeypatch.setattr(warmup, "_worker", lambda tasks: worker([sys.executable, "-c", "pass"]))
    warmup.run_all(["a", "b", "c"], done.append)
    assert done[-1] == 3
    monkeypatch.setattr(
        warmup, "_worker", lambda tasks: subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])
    )
    with pytest.raises(bayou.BadInput, match="could not be compiled"):
        warmup.run_all(["a"], done.append)
