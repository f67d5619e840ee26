"""The command as a person meets it: help, version, exit codes, and the demo from end to end."""

import io
import re

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import bayou
from bayou import BadInput, BadModel
from bayou.cli import app
from bayou.cli.demo import narration, study
from bayou.learners import Bank

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def run(monkeypatch):
    # As wide as a terminal usually is: the tables must fit.
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


def test_demo_shows_a_table_and_writes_a_picture(run, tmp_path):
    picture = tmp_path / "demo.png"
    done = run("demo", "--examples", 3000, "--out", picture)
    assert done.exit_code == 0, done.output
    for name in ("Bank", "Marginal", "AdaGrad", "true weights"):
        assert re.search(rf"^ *{name} +0\.\d{{4}} +0\.\d{{4}} +\d+\.\d% +0\.\d{{4}} ", done.stdout, re.MULTILINE)
    for words in (
        "log loss",
        "examples/s",
        "surest",
        "least sure",
        "times seen",
        "inside their 90% intervals",
    ):
        assert words in done.stdout
    assert "…" not in done.stdout  # nothing was cut off
    assert str(picture) in done.stdout.replace("\n", "")
    content = picture.read_bytes()
    assert content.startswith(PNG)
    assert len(content) > 10_000


@pytest.mark.parametrize("head", [0, 16])
def test_weights_of_the_demo_are_contrasts_within_their_category(head):
    stream = bayou.simulate.longtail(n_categories=4, seed=1)
    bank, truth = Bank(stream.n_features, intercept=False, head=head), study._Truth(stream.weights)
    for batch in stream.batches(2000):
        bank.learn(batch)
        truth.learn(batch)
    weights = study._knowledge(bank, stream.weights, truth.seen)
    groups = study.category(np.arange(stream.n_features))
    own = np.flatnonzero(groups == 2)
    for feature in own:
        factors = (own == feature) - truth.seen[own] / 2000
        expected = bank.contrast(own, factors)
        assert weights.mean[feature] == pytest.approx(float(expected.mean), abs=1e-5)
        assert weights.sd[feature] == pytest.approx(float(expected.sd), rel=1e-5)
        assert weights.truth[feature] == pytest.approx(factors @ stream.weights[own])
    assert weights.n_joint == head
    console = Console(file=io.StringIO(), width=80)
    narration._say_how_honest(weights, console)
    text = " ".join(console.file.getvalue().split())
    assert ("the 16 most frequent features jointly" in text) == (head > 0)
    assert ("keeps no correlations" in text) == (head == 0)


@pytest.mark.long
def test_same_seed_same_demo(run, tmp_path):
    def numbers(seed):
        shown = run("demo", "--examples", 1000, "--seed", seed, "--out", tmp_path / "demo.png").stdout
        # Without examples/s, the last column, and the width it gives the table.
        return re.sub(r"[ ─]+", " ", re.sub(r"[\d,]+ *$", "", shown, flags=re.MULTILINE))

    assert numbers(1) == numbers(1)
    assert numbers(1) != numbers(2)


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"]])
def test_help(run, arguments):
    done = run(*arguments)
    assert done.exit_code == 0
    assert "Usage: " in done.stdout


def test_version(run):
    done = run("--version")
    assert done.exit_code == 0
    assert done.stdout == f"bayou {bayou.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [["no-such-command"], ["demo", "--examples", "many"], ["demo", "--examples", "3"], ["--nonsense"]],
)
def test_wrong_usage_exits_2(run, arguments):
    done = run(*arguments)
    assert done.exit_code == 2
    assert "Error" in done.stderr


@pytest.mark.parametrize("out", ["demo.doc", "no/such/folder/demo.png"])
def test_a_picture_that_cannot_be_written_is_said_before_the_work(run, tmp_path, out):
    done = run("demo", "--out", tmp_path / out)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "--out is" in done.stderr


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (BadInput("line 3: this is no number."), 1, "line 3: this is no number.\n"),
        (BadModel("the file is cut short."), 1, "the file is cut short.\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_are_one_sentence_and_an_exit_code(run, monkeypatch, tmp_path, error, code, said):
    def fail():
        raise error

    monkeypatch.setattr("bayou.cli.demo.study.warm_up", fail)
    done = run("demo", "--out", tmp_path / "demo.png")
    assert done.exit_code == code
    assert done.stderr == said
