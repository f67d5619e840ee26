"""Pythons that bayou starts import nothing from the current folder, nor from relative entries of PYTHONPATH."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import bayou
from bayou.core import children
from bayou.learners import Lasso
from bayou.reproduce import jobs
from bayou.reproduce.marginal_gaussian.streams import Method, Panel, PanelDraw
from bayou.rounds import exact_shards as shards
from bayou.runs import warmup

HOME = str(Path(bayou.__file__).parents[1])
# What is imported sooner or later, in this process or in others.
NAMES = ("numpy", "random", "queue", "bayou", "pyarrow", "scipy", "pickle")
# As an installed command is started: from a folder that is not the current one.
COMMAND = "from bayou.cli import main\nmain()\n"


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    """The current folder: it has modules of many names, each of which says that it was run."""
    (tmp_path / "data").mkdir()
    for name in NAMES:
        (tmp_path / "data" / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')\n")
    monkeypatch.chdir(tmp_path / "data")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return tmp_path / "data"


def ran(data: Path) -> str:
    place = data.parent / "ran"
    return place.read_text() if place.exists() else ""


def command(data: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (data.parent / "bin").mkdir()
    (data.parent / "bin" / "bayou").write_text(COMMAND)
    run = [sys.executable, str(data.parent / "bin" / "bayou"), *arguments]
    return subprocess.run(run, env={**os.environ, **environment}, cwd=data, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("path", ["", ".", "{home}:.", "{home}::", "../data", "{home}"])
def test_a_process_of_bayou_imports_nothing_from_the_current_folder(data, monkeypatch, path):
    monkeypatch.setenv("PYTHONPATH", path.format(home=HOME).replace(":", os.pathsep))
    monkeypatch.setattr(sys, "path", ["", str(data), ".", *sys.path])
    code = "import sys, numpy, random, queue, bayou.core.batch; print(sys.path)"
    process = children.own_python(code, pipes=True)
    said, _ = process.communicate()
    assert process.returncode == 0
    assert ran(data) == ""
    assert HOME in said.decode()
    assert str(data) not in said.decode()


def test_folders_with_absolute_names_stay(data, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(data), "."]))
    monkeypatch.setattr(sys, "path", ["", str(data), "/another"])
    assert children.import_path() == [str(data), "/another"]
    monkeypatch.setenv("PYTHONPATH", "..")
    monkeypatch.setattr(sys, "path", [str(data), str(data.parent), "/another"])
    assert children.import_path() == ["/another"]
    monkeypatch.setattr(children, "HOME", str(data.parent))  # bayou itself lies there
    assert children.import_path() == [str(data.parent), "/another"]


def test_the_environment_is_as_it_was_afterwards(data, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([".", "/another", ""]))
    with children.safe_environment():
        assert (os.environ["PYTHONPATH"], os.environ["PYTHONSAFEPATH"]) == ("/another", "1")
    assert os.environ["PYTHONPATH"] == os.pathsep.join([".", "/another", ""])
    assert "PYTHONSAFEPATH" not in os.environ


def test_processes_that_compile_ahead_are_safe(data):
    done = []
    warmup.run_all(["learner adagrad"], done.append)
    assert done[-1] == 1
    assert ran(data) == ""


def test_processes_of_experiments_are_safe(data):
    methods = (Method("AdaGrad", "AdaGrad", {}, "learning_rate", (0.1,)),)
    panel = Panel("tiny", "tiny", "random", {"n_features": 20, "active": 0.5}, 20, methods, 10, (1, 1))
    draws = [PanelDraw(panel, seed, 100) for seed in range(2)]
    assert len(jobs.run_all(draws, 2, lambda share: None)) == 2
    assert ran(data) == ""


def test_processes_that_read_shards_are_safe(data, tmp_path):
    files = []
    for k in range(2):
        files.append([str(tmp_path / f"{k}.svm")])
        Path(files[-1][0]).write_text("".join(f"{i % 2} {1 + i % 7}:1\n" for i in range(100)))
    learner = Lasso(1 << 8, algorithm="multipass", penalty=5.0)
    shards.train(learner, files, recipe={"bits": 8})
    assert learner.examples == 200
    assert ran(data) == ""


@pytest.mark.parametrize("path", [None, "{home}:.", "{home}:", "{home}:../data"])
def test_the_command_imports_nothing_from_the_current_folder(data, path):
    environment = {} if path is None else {"PYTHONPATH": path.format(home=HOME).replace(":", os.pathsep)}
    done = command(data, "simulate", "random", "--examples", "20", "--seed", "1", "--out", "a.svm", **environment)
    assert done.returncode == 0, done.stderr
    assert ran(data) == ""
    assert (data / "a.svm").stat().st_size > 0


def test_as_a_module_it_imports_nothing_more_from_there(data):
    (data / "bayou.py").unlink()  # Python would take that one for the module
    run = [sys.executable, "-m", "bayou", "simulate", "random", "--examples", "20", "--out", "a.svm"]
    subprocess.run(run, check=True, capture_output=True)
    assert ran(data) == ""


@pytest.mark.long
@pytest.mark.parametrize("path", [None, "{home}:."])
def test_training_in_two_processes_works_beside_any_module(data, path, tmp_path):
    """From no compiled kernel: other processes compile, and others learn."""
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    if path is not None:
        environment["PYTHONPATH"] = path.format(home=HOME).replace(":", os.pathsep)
    (data / "a.svm").write_text("".join(f"{k % 2} {1 + k % 97}:1 {200 + k % 89}:1\n" for k in range(450_000)))
    options = ("--learner", "adagrad", "--processes", "2", "--bits", "10", "--model", "m.bayou")
    done = command(data, "train", "a.svm", *options, **environment)
    assert done.returncode == 0, done.stderr
    assert "rows in 2 processes" in done.stdout + done.stderr
    assert ran(data) == ""
