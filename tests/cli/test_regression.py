"""The command on labels that are numbers: train, predict, features, info and merge, whatever the format."""

import csv
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli import app

ROWS = 400


def run(*arguments, code: int = 0):
    said = CliRunner().invoke(app, [*map(str, arguments)])
    assert said.exit_code == code, said.output
    return said


@pytest.fixture(scope="module")
def numbers():
    """(colour of each row, label): what a colour is worth, plus noise."""
    rng = np.random.default_rng(0)
    colours = rng.integers(3, size=ROWS)
    return colours, np.round(np.array([10.0, 20.0, 60.0])[colours] + rng.normal(size=ROWS), 4)


def line(kind: str, colour: int, label: float) -> str:
    name = ["red", "green", "blue"][colour]
    return {
        "svm": f"{label} {colour}:1",
        "vw": f"{label} |c {name}",
        "csv": f"{name},{label}",
        "jsonl": json.dumps({"colour": name, "price": label}),
    }[kind]


@pytest.fixture(params=["svm", "vw", "csv", "jsonl"])
def data(request, tmp_path, numbers):
    path = tmp_path / f"x.{request.param}"
    head = ["colour,price"] if request.param == "csv" else []
    path.write_text("\n".join(head + [line(request.param, *row) for row in zip(*numbers, strict=True)]) + "\n")
    return path


def trained(data, model, *more):
    label = ("--label", "price") if data.suffix in (".csv", ".jsonl") else ()
    return run("train", data, "--learner", "gaussian", "--bits", 12, "--model", model, *label, *more)


def test_numbers_are_learned_and_predicted_from_every_format(data, tmp_path, numbers):
    model = tmp_path / "m.bayou"
    told = json.loads(trained(data, model, "--json", "--quiet").stdout)
    names = {"examples", "nonzeros", "skipped", "squared_loss", "r2", "r2_final", "mean_absolute_error", "coverage"}
    assert names | {"seconds"} <= set(told)
    assert told["examples"] == ROWS
    assert told["skipped"] == 0
    assert told["r2"] > 0.95
    assert 0.8 < told["coverage"] <= 1.0
    learner = bayou.load(model)
    assert learner.negative_label is None

    said = run("predict", data, "--model", model)
    header, *rows = csv.reader(io.StringIO(said.stdout))
    assert header == ["mean", "variance", "low", "high"]
    mean, variance, low, high = np.array(rows, float).T
    labels = numbers[1]
    assert np.abs(mean - labels).mean() < 1.5
    room = 1.959964 * np.sqrt(variance + learner.noise)
    np.testing.assert_allclose(high - mean, room, rtol=1e-4)
    np.testing.assert_allclose(mean - low, room, rtol=1e-4)
    assert "squared loss" in said.stderr
    assert "in 90% intervals" in said.stderr

    shown = run("features", model, "--top", 3).stdout.split("\n")
    assert shown[0].split() == ["feature", "mean", "sd"]
    assert len(shown) == 6  # three, the intercept, the head, and an end
    assert "a number to be predicted" in run("info", model).stdout
    assert "squared loss" in run("info", model).stdout


@pytest.mark.parametrize("data", ["csv"], indirect=True)
def test_resuming_merging_and_holding_out(data, tmp_path):
    one, two, both = (tmp_path / name for name in ("a.bayou", "b.bayou", "c.bayou"))
    assert "held-out R2 over the running mean" in trained(data, one, "--holdout", 0.2).stdout
    run("train", data, "--resume", one, "--model", two)
    assert bayou.load(two).examples == 320 + ROWS
    trained(data, two)
    run("train", data, "--like", two, "--model", one)
    run("merge", one, two, "--out", both)
    merged = bayou.load(both)
    assert merged.examples == 2 * ROWS
    assert merged.extras.counters.mean_loss == pytest.approx(
        np.mean([bayou.load(path).extras.counters.mean_loss for path in (one, two)])
    )


@pytest.mark.parametrize("option", [("--positive", 1), ("--label-above", 5), ("--negative-rate", 0.5)])
def test_what_is_for_classes_is_refused(option, tmp_path):
    path = tmp_path / "x.svm"
    path.write_text("1.5 1:1\n")
    said = run("train", path, "--learner", "gaussian", *option, code=2)
    assert f"{option[0]} is for two classes, but gaussian predicts numbers" in said.output


def test_labels_that_are_no_numbers_are_named(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,label\nu,1.5\nv,much\nw,2\n")
    said = run("train", path, "--learner", "gaussian", "--bits", 8)
    assert "x.csv:3:3: expected a label, a number, in column label, not 'much'." in said.stderr
    path.write_text("a,label\nu,little\nv,much\nw,2\n")
    said = run("train", path, "--learner", "gaussian", "--bits", 8, code=2)
    assert "column 'label', holds 'little', but regression predicts numbers" in said.output


def test_a_classifier_still_wants_classes(tmp_path):
    path = tmp_path / "x.svm"
    path.write_text("1.5 1:1\n2 1:1\n7 1:1\n")
    said = run("train", path, "--learner", "marginal", code=2).output
    assert "the label is a number, but marginal predicts classes; use --learner bank" in said


@pytest.mark.long
def test_a_learner_that_needs_linear_algebra_gets_it(tmp_path):
    """In a process of its own: the command starts without it."""
    path, model = tmp_path / "x.csv", tmp_path / "m.bayou"
    path.write_text("a,b,label\n" + "".join(f"{k % 7},{k % 3},{2 * (k % 7) + 1}.5\n" for k in range(100)))
    bayou_ = [sys.executable, "-m", "bayou"]
    options = ["--learner", "shrinkage", "--bits", "4", "--bins", "0", "--exact", "--model", model, "--json"]
    said = subprocess.run([*bayou_, "train", path, *options], capture_output=True, text=True, check=True)
    assert json.loads(said.stdout)["r2"] > 0.5
    said = subprocess.run([*bayou_, "predict", path, "--model", model], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("mean,variance,low,high")
    assert len(said.stdout.splitlines()) == 101
    wide = subprocess.run([*bayou_, "train", path, "--learner", "shrinkage"], capture_output=True, text=True)
    assert wide.returncode == 2
    assert "4,194,304 weights of a shrinkage take 281 TB of memory" in wide.stderr
