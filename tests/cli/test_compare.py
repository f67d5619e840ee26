"""`bayou compare`: the command as people run it."""

import csv
import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from bayou.cli import app
from bayou.learners import AdaGrad, Marginal


def run(*arguments, code: int = 0):
    said = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    assert said.exit_code == code, said.output
    return said


def results(*arguments) -> dict:
    return json.loads(run(*arguments, "--json", "--quiet").stdout)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """2,000 examples of 30 features as svmlight text."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=30)
    lines = []
    for _ in range(2000):
        features = np.sort(rng.choice(30, 5, replace=False))
        values = rng.normal(1, 0.3, 5).round(3)
        positive = rng.random() < 1 / (1 + np.exp(-weights[features] @ values))
        pairs = (f" {k}:{v}" for k, v in zip(features, values, strict=True))
        lines.append(("1" if positive else "-1") + "".join(pairs))
    path = tmp_path_factory.mktemp("data") / "x.svm"
    path.write_text("\n".join(lines) + "\n")
    return path


SPECS = ("bank", "marginal", "marginal:prior_variance=.1,temper=.3,.1", "adagrad:dtype=float64")
LEARNERS = [word for spec in SPECS for word in ("--learner", spec)]


def test_the_table(data):
    said = run(data, "--bits", "8", *LEARNERS)
    head, *rows = said.stdout.splitlines()
    assert head.split("  ")[0] == "learner"
    for column in ("log loss", "AUC", "calibration error", "seconds", "model size"):
        assert column in head
    assert {row.split()[0] for row in rows} == set(SPECS)
    losses = [float(row.split()[1]) for row in rows]
    assert losses == sorted(losses)
    assert "256 weights each" in said.stderr
    assert "log loss after" in said.stderr
    assert "2,000 examples, 5.0 features each" in said.stderr
    assert "log loss after" not in run(data, "--bits", "8", "--learner", "marginal", "--quiet").stderr


def test_each_does_what_it_does_alone(data):
    found = results(data, "--bits", "8", *LEARNERS)
    assert (found["examples"], found["nonzeros"], found["skipped"]) == (2000, 10000, 0)
    assert [learner["learner"] for learner in found["learners"]] == list(SPECS)
    for learner in found["learners"]:
        settings = {k: ",".join(map(str, v)) if isinstance(v, list) else v for k, v in learner["parameters"].items()}
        words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        arguments = ["train", str(data), "--bits", "8", "--learner", learner["name"], *words, "--json", "--quiet"]
        alone = json.loads(CliRunner().invoke(app, arguments).stdout)
        for score in ("log_loss", "auc", "accuracy", "brier", "calibration_error"):
            assert learner[score] == alone[score], (learner["learner"], score)
        assert learner["seconds"] >= 0
        assert learner["bytes"] > 0


def test_model_sizes_are_those_of_touched_weights(data):
    found = results(data, "--bits", "20", "--learner", "marginal", "--learner", "adagrad")
    sizes = {learner["name"]: learner["bytes"] for learner in found["learners"]}
    assert sizes["marginal"] == Marginal(30).nbytes
    assert sizes["adagrad"] == AdaGrad(30).nbytes


def test_default_learners(data):
    found = results(data, "--bits", "8")
    assert [learner["name"] for learner in found["learners"]] == ["bank", "marginal", "adagrad"]


def test_curves(data, tmp_path):
    run(data, "--bits", "8", *LEARNERS, "--csv", tmp_path / "c.csv", "--out", tmp_path / "c.png", "--quiet")
    rows = list(csv.DictReader((tmp_path / "c.csv").read_text().splitlines()))
    assert {row["learner"] for row in rows} == set(SPECS)
    found = {learner["learner"]: learner for learner in results(data, "--bits", "8", *LEARNERS)["learners"]}
    for spec in SPECS:
        own = [row for row in rows if row["learner"] == spec]
        assert [int(own[0]["example"]), int(own[-1]["example"])] == [1, 2000]
        assert float(own[-1]["log_loss"]) == found[spec]["log_loss"]
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_few_examples(tmp_path):
    (tmp_path / "few.svm").write_text("1 1:1\n-1 2:1\n")
    run(tmp_path / "few.svm", "--bits", "4", "--learner", "marginal", "--out", tmp_path / "c.svg", "--quiet")
    assert "marginal" in (tmp_path / "c.svg").read_text()


def test_bad_lines_are_skipped_for_all(data, tmp_path):
    lines = data.read_text().splitlines()
    spoiled = [*lines[:700], "1 what:ever", *lines[700:900], "1 3:1e11", *lines[900:]]
    (tmp_path / "spoiled.svm").write_text("\n".join(spoiled) + "\n")
    # A prior so wide that only these two refuse the large value.
    learners = [*LEARNERS, "--learner", "marginal:prior_variance=1e9"]
    clean = results(data, "--bits", "8", *learners)
    found = results(tmp_path / "spoiled.svm", "--bits", "8", *learners)
    assert (found["examples"], found["skipped"]) == (2000, 2)
    assert "spoiled.svm:701" in found["bad"][0]
    assert "line 902: marginal:prior_variance=1e9" in found["bad"][1]
    for a, b in zip(found["learners"], clean["learners"], strict=True):
        # How far ahead a row was predicted depends on the rows at hand, which the refused one divides.
        assert a["later_loss"]["expected"] == pytest.approx(b["later_loss"]["expected"], rel=0.1)
        assert {**a, "seconds": 0, "later_loss": 0} == {**b, "seconds": 0, "later_loss": 0}
    assert "2 bad lines were skipped, for all alike" in run(tmp_path / "spoiled.svm", "--bits", "8", *learners).stderr
    said = run(tmp_path / "spoiled.svm", "--bits", "8", *learners, "--on-error", "raise", code=1)
    assert "spoiled.svm:701" in said.stderr
    (tmp_path / "large.svm").write_text("\n".join([*lines[:5], "1 3:1e11"]) + "\n")
    said = run(tmp_path / "large.svm", "--bits", "8", *learners, "--on-error", "raise", code=1)
    assert "line 6: marginal:prior_variance=1e9" in said.stderr


@pytest.mark.long
def test_data_options_are_those_of_train(tmp_path):
    rows = [f"{'yes' if k % 3 else 'no'},{k % 7},site{k % 3},0.5" for k in range(300)]
    (tmp_path / "t.csv").write_text("\n".join(["bought,age,site,w", *rows]) + "\n")
    options = ["--label", "bought", "--positive", "yes", "--ignore", "age", "--weight", "w", "--bits", "10"]
    found = results(tmp_path / "t.csv", *options, "--learner", "marginal")
    train = [str(tmp_path / "t.csv"), *options, "--learner", "marginal", "--json", "--quiet"]
    alone = json.loads(CliRunner().invoke(app, ["train", *train]).stdout)
    assert found["learners"][0]["log_loss"] == alone["log_loss"]
    assert found["examples"] == alone["examples"] == 300


def options_of(command: str) -> dict[str, tuple]:
    found = typer.main.get_command(app).commands[command].params
    return {option.name: (option.opts, option.help, option.default) for option in found}


def test_shared_options_say_the_same():
    train, compare = options_of("train"), options_of("compare")
    shared = (train.keys() & compare.keys()) - {"learner"}
    assert {"data", "bits", "label", "cross", "negative_rate", "on_error", "threads"} <= shared
    for name in shared:
        assert train[name] == compare[name]
    assert compare.keys() - shared == {"learner", "out", "csv"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--learner", "margnal"], "there is no learner called 'margnal'; there are: bank"),
        (["--learner", "marginal:prior=1"], "there is no parameter 'prior'; there are: link"),
        (["--learner", "marginal:n_features=1"], "there is no parameter 'n_features'"),
        (["--learner", "marginal:prior_variance=-1"], "--learner marginal:prior_variance=-1: prior_variance is -1"),
        (["--learner", "marginal:prior_variance"], "expected name=value"),
        (["--learner", "marginal", "--learner", "marginal"], "marginal is given twice"),
        (["--out", "c.bmp"], "its name must end in one of .png"),
        (["--out", "/nowhere/c.png"], "there is no folder /nowhere"),
        (["--csv", "/nowhere/c.csv"], "there is no folder /nowhere"),
        (["--cross", "a"], "--cross is 'a'"),
        (["--bits", "31", "--learner", "bank"], "Use a smaller --bits"),
    ],
)
def test_wrong_usage_is_exit_code_2(data, monkeypatch, arguments, said):
    monkeypatch.setattr("bayou.runs.memory.free_memory", lambda: 10**9)
    assert said in run(data, *arguments, code=2).stderr


def test_no_data(tmp_path):
    assert "nothing.svm" in run(tmp_path / "nothing.svm", code=2).stderr
    (tmp_path / "bad.svm").write_text("what ever\nis this\n")
    said = run(tmp_path / "bad.svm", "--bits", "4", "--learner", "marginal", "--format", "svmlight", code=1)
    assert "none of the 2 lines could be learned from" in said.stderr


def test_later_rows_and_late_labels(tmp_path):
    """Labels in turns: the next is easily told, later ones are not; and all is learned, however late."""
    rng = np.random.default_rng(0)
    (tmp_path / "x.svm").write_text("".join(f"{k % 2} {rng.integers(5)}:1\n" for k in range(6000)))
    said = run(tmp_path / "x.svm", "--bits", "4", "--learner", "bank", "--quiet")
    assert "last half  later rows" in said.stdout
    assert "labels alternate more than by chance" in said.stderr
    (bank,) = results(tmp_path / "x.svm", "--bits", "4", "--learner", "bank")["learners"]
    assert bank["later_loss"]["learned"] < 0.68 < 0.69 < bank["later_loss"]["expected"]
    (late,) = results(tmp_path / "x.svm", "--bits", "4", "--learner", "bank", "--delay", "777")["learners"]
    assert late["log_loss"] > 0.69
    assert late["bytes"] == bank["bytes"]
