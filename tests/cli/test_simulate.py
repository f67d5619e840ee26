"""`bayou simulate`: the stream that was asked for, in a file that is whole."""

import gzip
import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from bayou import simulate, sources
from bayou.cli import app
from bayou.cli.simulate import KINDS
from bayou.outputs import text as write


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


def test_the_command_knows_every_generator():
    assert KINDS == tuple(simulate.GENERATORS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_holds_the_stream(run, tmp_path, kind):
    out, truth = tmp_path / "f.svm", tmp_path / "t.npz"
    done = run("simulate", kind, "--examples", 300, "--seed", 4, "--out", out, "--truth", truth)
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    assert "300 examples" in done.stderr
    stream = simulate.GENERATORS[kind](seed=4)
    assert out.read_bytes() == b"".join(write.svmlight(batch).tobytes() for batch in stream.batches(300))
    kept = np.load(truth)
    assert kept["weights"].tobytes() == stream.weights.tobytes()
    assert (str(kept["name"]), str(kept["link"]), int(kept["seed"])) == (kind, "logistic", 4)


def test_more_than_one_block_keeps_its_order(run, tmp_path):
    settings = ["--set", "n_features=20", "--set", "active=.3"]
    assert run("simulate", "nonbinary", "--examples", 30_000, *settings, "--out", tmp_path / "f.svm").exit_code == 0
    stream = simulate.nonbinary(n_features=20, active=0.3)
    expected = b"".join(write.svmlight(batch).tobytes() for batch in stream.batches(30_000))
    assert (tmp_path / "f.svm").read_bytes() == expected


def test_settings_reach_the_generator(run, tmp_path):
    settings = ["groups=3:0.5,2:4", "active=1", "link=probit", "weights=uniform"]
    flags = [part for setting in settings for part in ("--set", setting)]
    done = run(
        "simulate", "groups", "--examples", 9, *flags, "--out", tmp_path / "f.svm", "--truth", tmp_path / "t.npz"
    )
    assert done.exit_code == 0, done.output
    kept = np.load(tmp_path / "t.npz")
    assert kept["prior_variance"].tolist() == [0.25] * 3 + [16.0] * 2
    assert str(kept["link"]) == "probit"
    (batch,) = sources.open(tmp_path / "f.svm")
    assert batch.nonzeros == 9 * 5


def test_standard_output_and_compressed_files_hold_the_same(run, tmp_path):
    for name in ("f.svm", "f.svm.gz"):
        assert run("simulate", "random", "--examples", 50, "--out", tmp_path / name).exit_code == 0
    text = (tmp_path / "f.svm").read_bytes()
    assert run("simulate", "random", "--examples", 50, "--out", "-").stdout_bytes == text
    assert gzip.decompress((tmp_path / "f.svm.gz").read_bytes()) == text
    assert run("simulate", "random", "--examples", 0, "--out", "-").stdout_bytes == b""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["swamp"], "there is no stream called 'swamp'; there are: random, nonbinary"),
        (["random", "--set", "activ=.3"], "no parameter 'activ'; there are: n_features, active, weight_std"),
        (["random", "--set", "active=7"], "active is 7"),
        (["random", "--set", "active"], "expected name=value"),
        (["random", "--set", "seed=3"], "no parameter 'seed'"),
        (["groups", "--set", "groups=7"], "pairs"),
        (["random", "--examples", "-3"], "--examples"),
    ],
)
def test_wrong_usage_is_said_and_exits_2(run, tmp_path, arguments, said):
    done = run("simulate", *arguments, "--out", tmp_path / "f.svm")
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there_is_said_before_the_work(run, tmp_path):
    done = run("simulate", "random", "--out", tmp_path / "no" / "f.svm")
    assert done.exit_code == 2
    assert "there is no folder" in done.stderr
    done = run("simulate", "random", "--out", tmp_path)
    assert done.exit_code == 2
    assert "no file can be written there" in done.stderr


def test_a_pipe_that_closes_early_is_no_error():
    command = f"{sys.executable} -m bayou simulate random --examples 200000 --out - | head -n 2"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 2
    # A slow machine may say how far it is; nobody may complain.
    assert not any(word in done.stderr.lower() for word in ("error", "traceback", "broken", "pipe"))
