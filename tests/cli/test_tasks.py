"""What there is to predict, through the commands: two classes, several, numbers; decided from the labels."""

import csv
import io
import json

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from bayou import BadInput, load, predict
from bayou.cli import app


def run(*arguments, code=0):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done


def table(path, rows, head="size,colour,kind"):
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.fixture(scope="module")
def wines(tmp_path_factory):
    kinds = [("small", "red", "merlot"), ("small", "white", "riesling"), ("large", "red", "cabernet, old")]
    rows = [(size, colour, f'"{kind}"') for size, colour, kind in kinds] * 40
    return table(tmp_path_factory.mktemp("wines") / "wines.csv", rows)


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_three_labels_are_three_classes(wines, tmp_path):
    model = tmp_path / "m.bayou"
    said = run("train", wines, "--label", "kind", "--learner", "marginal", "--bits", 8, "--model", model)
    assert "is one of 3 classes (merlot, riesling, cabernet, old); --positive NAME separates one from" in said.stderr
    assert "log loss" in said.stdout
    learner = load(model)
    assert (learner.name, learner.parameters["learner"]) == ("classes", "marginal")
    assert learner.extras.classes == ["merlot", "riesling", "cabernet, old"]
    said = run("predict", wines, "--model", model)
    rows = rows_of(said.stdout)
    assert [row["class"] for row in rows[:3]] == ["merlot", "riesling", "cabernet, old"]
    assert list(rows[0]) == ["class", "probability", "low", "high", *(f"P({k})" for k in learner.extras.classes)]
    assert sum(float(rows[0][f"P({kind})"]) for kind in learner.extras.classes) == pytest.approx(1.0, abs=1e-6)
    assert rows[0]["probability"] == rows[0]["P(merlot)"]
    assert "accuracy 1.00000" in said.stderr
    run("predict", wines, "--model", model, "--out", tmp_path / "p.parquet")
    whole = pq.read_table(tmp_path / "p.parquet")
    assert whole["class"].to_pylist() == [row["class"] for row in rows]
    # An unknown label is no error where nothing is learned; without labels there is nothing to score.
    other = table(tmp_path / "o.csv", [("small", "red", "pinot"), ("large", "red", "")])
    assert [row["class"] for row in rows_of(run("predict", other, "--model", model).stdout)] == [
        "merlot",
        "cabernet, old",
    ]


def test_a_learner_without_a_posterior_tells_classes_apart(wines, tmp_path):
    run("train", wines, "--label", "kind", "--learner", "adagrad", "--bits", 8, "--model", tmp_path / "m.bayou")
    rows = rows_of(run("predict", wines, "--model", tmp_path / "m.bayou").stdout)
    assert list(rows[0]) == ["class", "probability", "P(merlot)", "P(riesling)", "P(cabernet, old)"]
    assert rows[1]["class"] == "riesling"


def test_columns_are_kept_beside_predictions(wines, tmp_path):
    model = tmp_path / "m.bayou"
    run("train", wines, "--label", "kind", "--learner", "marginal", "--bits", 8, "--model", model)
    narrow, wide = (rows_of(run("predict", wines, "--model", model, "--keep", "kind,size", "--level", level).stdout)
                    for level in (0.5, 0.99))  # fmt: skip
    assert list(narrow[0])[:4] == ["kind", "size", "class", "probability"]
    assert [row["kind"] for row in narrow[:3]] == [row["class"] for row in narrow[:3]]
    assert all(float(a["high"]) < float(b["high"]) for a, b in zip(narrow, wide, strict=True))
    run("predict", wines, "--model", model, "--keep", "kind", "--keep", "size", "--out", tmp_path / "p.parquet")
    whole = pq.read_table(tmp_path / "p.parquet")
    assert whole.column_names[:3] == ["kind", "size", "class"]
    assert whole["kind"].to_pylist() == [row["kind"] for row in narrow]
    assert "keep names the column 'nope'" in run("predict", wines, "--model", model, "--keep", "nope", code=2).stderr
    assert "between 0 and 1" in run("predict", wines, "--model", model, "--level", 2, code=2).stderr


def test_going_on_with_classes_is_one_run(wines, tmp_path):
    """A class that joins later is numbered as in one run; the model of two runs has the bits of one."""
    lines = wines.read_text().splitlines()
    head, rows = lines[0], [line for line in lines[1:] if "riesling" not in line] + lines[1:]
    parts = [tmp_path / "1.csv", tmp_path / "2.csv", tmp_path / "all.csv"]
    for path, some in zip(parts, (rows[:50], rows[50:], rows), strict=True):
        path.write_text("\n".join([head, *some]) + "\n")
    options = ["--learner", "marginal", "--model", tmp_path / "m.bayou"]
    once = ["--label", "kind", "--bits", 8, "--task", "multiclass"]
    run("train", parts[0], *once, *options)
    run("train", parts[1], "--resume", tmp_path / "m.bayou", *options)
    run("train", parts[2], *once, "--learner", "marginal", "--model", tmp_path / "one.bayou")
    two, one = load(tmp_path / "m.bayou"), load(tmp_path / "one.bayou")
    assert two.extras.classes == one.extras.classes == ["merlot", "cabernet, old", "riesling"]
    assert {k: a.tobytes() for k, a in two._arrays().items()} == {k: a.tobytes() for k, a in one._arrays().items()}
    said = run("train", parts[1], "--resume", tmp_path / "m.bayou", "--learner", "adagrad", code=1)
    assert "is a classes model; it cannot continue as adagrad" in said.stderr


def test_one_class_against_the_rest_and_two_texts(wines, tmp_path):
    model = tmp_path / "m.bayou"
    options = ["--learner", "marginal", "--bits", 8, "--model", model]
    run("train", wines, "--label", "kind", "--positive", "merlot", *options)
    assert load(model).name == "marginal"
    said = run("train", wines, "--label", "colour", "--ignore", "kind", *options)
    assert "the label, column 'colour', is white (positive) or red; --positive red reverses this" in said.stderr
    assert (load(model).extras.recipe.negative, load(model).extras.recipe.positive) == ("red", "white")
    assert "'red'" in run("info", model).stdout


def test_numbers_have_quantiles(tmp_path):
    path = table(tmp_path / "x.csv", [(k % 7, k % 3, 1.5 * (k % 7) - k % 3) for k in range(300)], "a,b,y")
    model = tmp_path / "m.bayou"
    said = run("train", path, "--bits", 8, "--model", model, "--json")
    assert json.loads(said.stdout)["r2"] > 0.9
    assert "column 'y', is a number, and predicted as one; --task multiclass" in said.stderr
    assert load(model).name == "number-bank"
    rows = rows_of(run("predict", path, "--model", model, "--quantiles", ".1,.5,.9").stdout)
    for row in rows:
        assert float(row["q0.1"]) < float(row["q0.5"]) == float(row["mean"]) < float(row["q0.9"])
    said = run("predict", path, "--model", model, "--quantiles", "10,90", code=2).stderr
    assert said == "--quantiles has 10; give numbers between 0 and 1, such as .1,.9.\n"
    for share in (10, 0.0, 1, float("nan"), "x", True):
        with pytest.raises(BadInput, match=r"quantiles= has \S+; give numbers between 0 and 1"):
            predict(path, model=model, quantiles=[0.5, share])
    assert "expected probabilities" in run("predict", path, "--model", model, "--quantiles", "x", code=2).stderr
    said = run("train", path, "--bits", 8, "--learner", "gaussian", "--task", "binary", code=2)
    assert "--task binary was given, but gaussian is for regression" in said.stderr


def test_quantiles_are_of_numbers(wines, tmp_path):
    run("train", wines, "--label", "kind", "--learner", "marginal", "--bits", 8, "--model", tmp_path / "m.bayou")
    said = run("predict", wines, "--model", tmp_path / "m.bayou", "--quantiles", ".5", code=2)
    assert "--quantiles need numbers" in said.stderr
    said = run("select", wines, "--label", "kind", code=2)
    assert "several classes; specify the positive class with --positive" in said.stderr


def test_classes_are_compared(wines, tmp_path):
    said = run("compare", wines, "--label", "kind", "--bits", 8, "--learner", "marginal", "--learner", "adagrad",
               "--out", tmp_path / "c.png", "--csv", tmp_path / "c.csv")  # fmt: skip
    assert "mean AUC" in said.stdout
    assert {row["learner"] for row in rows_of((tmp_path / "c.csv").read_text())} == {"marginal", "adagrad"}
    assert (tmp_path / "c.png").stat().st_size > 5000


def test_labels_in_vw_text_are_classes(tmp_path):
    path = tmp_path / "x.vw"
    path.write_text("".join(f"{k % 3 + 1} 1.0 row{k}|a f{k % 3} g\n" for k in range(60)))
    said = run("train", path, "--learner", "marginal", "--bits", 8, "--model", tmp_path / "m.bayou")
    assert "the label is one of 3 classes (1, 2, 3)" in said.stderr
    assert "--task regression predicts the number" in said.stderr
    rows = rows_of(run("predict", path, "--model", tmp_path / "m.bayou").stdout)
    assert [row["class"] for row in rows[:3]] == ["1", "2", "3"]
    assert rows[0]["tag"] == "row0"
