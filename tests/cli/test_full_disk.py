"""Files on a disk that is full: an output is whole or not there, and the command says it."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from bayou import simulate
from bayou.cli import app
from bayou.outputs import text as write

resource = pytest.importorskip("resource")

TRAIN = ["--bits", "12", "--quiet"]
SEVERAL = [part for variance in (1, 2, 3) for part in ("--learner", f"marginal:prior_variance={variance}")]
# The command's arguments, and the end of the output's name; each output is larger than a page of memory.
OUTPUTS = {
    "predictions": (["predict", "{data}", "--model", "{model}", "--out"], "p.csv"),
    "predictions, gzip": (["predict", "{data}", "--model", "{model}", "--out"], "p.csv.gz"),
    "predictions, zstd": (["predict", "{data}", "--model", "{model}", "--out"], "p.csv.zst"),
    "predictions, Parquet": (["predict", "{data}", "--model", "{model}", "--out"], "p.parquet"),
    "model": (["train", "{data}", "--learner", "marginal", *TRAIN, "--model"], "m.bayou"),
    "report": (["train", "{data}", "--learner", "marginal", *TRAIN, "--report"], "r.html"),
    "curves": (["compare", "{data}", *SEVERAL, *TRAIN, "--csv"], "c.csv"),
    "picture": (["compare", "{data}", "--learner", "marginal", *TRAIN, "--out"], "c.png"),
    "drawing": (["compare", "{data}", "--learner", "marginal", *TRAIN, "--out"], "c.svg"),
    "plain model": (["features", "{sparse}", "--selected", "--out"], "s.csv"),
    "examples": (["simulate", "random", "--examples", "500", "--out"], "e.svm"),
    "examples, zstd": (["simulate", "random", "--examples", "500", "--out"], "e.svm.zst"),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (batch,) = simulate.random(n_features=2000, seed=1).batches(600)
    found = {"data": folder / "data.svm", "model": folder / "m.bayou", "sparse": folder / "s.bayou"}
    found["data"].write_bytes(write.svmlight(batch).tobytes())
    for name, learner in (("model", "marginal"), ("sparse", "ftrl")):
        done = command(["train", "{data}", "--learner", learner, *TRAIN, "--model"], found, found[name])
        assert done.exit_code == 0, done.output
    return found


def command(arguments, places, out):
    return CliRunner().invoke(app, [*(argument.format(**places) for argument in arguments), str(out)])


@contextmanager
def no_file_larger_than(size):
    """For any process: what would make a file larger is written in part, and refused when there is no part left."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory):
    """A file system with room for one page."""
    folder = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no small file system can be mounted here; it takes root's rights")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_output_that_lacks_one_byte_is_not_there(places, tmp_path, output):
    arguments, name = OUTPUTS[output]
    path = tmp_path / name
    assert command(arguments, places, path).exit_code == 0
    size = path.stat().st_size - 100 * (output == "report")  # which tells times
    path.write_text("old")
    with no_file_larger_than(size - 1):
        done = command(arguments, places, path)
    assert done.exit_code == 1, done.output
    assert "could not be written" in done.stderr
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.long
@pytest.mark.parametrize("output", OUTPUTS)
def test_an_output_for_which_the_disk_is_too_small_is_not_there(places, small_disk, output):
    arguments, name = OUTPUTS[output]
    done = command(arguments, places, small_disk / name)
    assert done.exit_code == 1, done.output
    assert "could not be written" in done.stderr
    assert os.listdir(small_disk) == []


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_cut_short_is_an_error(places, tmp_path, unbuffered):
    line = "ulimit -f 2; exec {} -m bayou predict {} --model {} > {}"
    done = subprocess.run(
        ["bash", "-c", line.format(sys.executable, places["data"], places["model"], tmp_path / "p.csv")],
        # A file of bytecode would be cut short, too, and read by later tests.
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "standard output could not be written" in done.stderr
