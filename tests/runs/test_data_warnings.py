"""What is no error, but should be known: copies of the label, weights that are all 0, two ways to write a negative."""

import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from bayou import Batch, train
from bayou.cli import app
from bayou.runs.compare import compare
from bayou.runs.data_warnings import _telling

OPTIONS = {"label": "y", "learner": "marginal", "bits": 14}


def table(n=300, **columns):
    rng = np.random.default_rng(0)
    label = rng.random(n) < 0.4
    made = {name: make(label, rng) for name, make in columns.items()}
    return pa.table({"y": label.astype(int), "noise": rng.integers(0, 5, n), "level": rng.normal(size=n), **made})


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda y, rng: y.astype(int), True),  # the label itself
        (lambda y, rng: np.where(y, "sold", "open"), True),
        (lambda y, rng: 2.0 * y - 1.0, True),
        (lambda y, rng: np.where(y, rng.choice(["a", "b"], len(y)), None), True),  # where it is there at all
        (lambda y, rng: np.where(np.arange(len(y)) == 7, ~y, y).astype(int), False),  # all but one
        (lambda y, rng: np.arange(len(y)).astype(str), False),  # a number for each row tells nothing
    ],
)
def test_a_column_that_alone_tells_the_label_is_named(make, named):
    run = train(table(copy=make), **OPTIONS)
    assert any(remark.startswith("column 'copy' alone tells the label;") for remark in run.warnings) is named
    assert sum("tells the label" in remark for remark in run.warnings) == named
    assert run.as_dict()["remarks"] == run.warnings


@pytest.mark.parametrize("name", ["a=b", "a < b", "copy hour", "="])
def test_a_column_is_told_whatever_stands_in_its_name(name):
    run = train(table(**{name: lambda y, rng: np.where(y, "s", "o")}), **OPTIONS)
    assert run.warnings[0].startswith(f"column {name!r} alone tells the label;")


def test_a_table_of_ids_says_that_there_is_nothing_to_learn_from():
    rows = pa.table({"name": [f"n{k}" for k in range(100)], "y": [0, 1] * 50})
    assert any(note.startswith("no column gives a feature") for note in train(rows, **OPTIONS).notes)


def test_several_columns_are_named_and_features_without_columns_too(tmp_path):
    run = train(table(one=lambda y, rng: y.astype(int), two=lambda y, rng: ~y), **OPTIONS)
    assert run.warnings[0].startswith("column 'one', column 'two' each tell the label alone;")
    path = tmp_path / "x.svm"
    path.write_text("1 3:1 7:1\n-1 3:1\n" * 40)
    assert train(path, learner="marginal", bits=4).warnings[0].startswith("feature 7 alone tells the label;")


def test_a_perfect_auc_is_remarked_where_no_column_can_be_named():
    late = table(n=6000, copy=lambda y, rng: np.where((np.arange(len(y)) == 7) ^ y, "a", "b"))
    (remark,) = train(late, **OPTIONS).warnings
    assert remark.startswith("an AUC of 1.000")
    assert train(table(), **OPTIONS).warnings == []


def test_weights_that_are_all_zero_are_remarked():
    weighed = table(w=lambda y, rng: np.zeros(len(y)), copy=lambda y, rng: y.astype(int))
    run = train(weighed, weight="w", **OPTIONS)
    assert run.learner.examples == 0
    assert run.warnings == ["all examples have the weight 0: nothing was learned; check what weight= names"]


def test_numbers_are_not_asked_what_tells_them():
    assert train(table(copy=lambda y, rng: y.astype(int)), **{**OPTIONS, "learner": "gaussian"}).warnings == []


def test_negatives_written_both_ways_are_all_learned_and_it_is_said_once(tmp_path):
    rng = np.random.default_rng(1)
    lines = {way: [f"{rng.choice(['1', way])} {k}:1" for k in rng.integers(0, 5, 500)] for way in ("0", "-1")}
    files = [tmp_path / "a.svm", tmp_path / "b.svm"]
    for path, way in zip(files, lines, strict=True):
        path.write_text("\n".join(lines[way]) + "\n")
    plain = tmp_path / "plain.svm"
    plain.write_text("\n".join(line.replace("-1 ", "0 ") for way in lines.values() for line in way) + "\n")
    options = {"learner": "marginal", "bits": 4}
    run, expected = train(list(map(str, files)), **options), train(plain, **options)
    assert (run.skipped, run.evaluation.examples) == (0, 1000)
    assert run.learner.intercept == expected.learner.intercept
    assert ["both 0 and -1" in remark for remark in run.warnings] == [True]
    assert expected.warnings == []
    assert len(compare(list(map(str, files)), ["marginal"], bits=4).warnings) == 1


def test_remarks_are_printed_and_stand_in_the_report(tmp_path):
    path = tmp_path / "x.svm"
    path.write_text("1 3:1 7:1\n-1 3:1\n" * 40)
    command = ["train", str(path), "--learner", "marginal", "--bits", "4"]
    done = CliRunner().invoke(app, [*command, "--report", str(tmp_path / "r.html")])
    assert "feature 7 alone tells the label;" in done.stderr
    assert "Feature 7 alone tells the label;" in (tmp_path / "r.html").read_text()
    assert len(json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)["remarks"]) == 1


@pytest.mark.parametrize("spoiled", [False, True])
def test_of_several_classes_a_column_tells_the_label_if_each_value_has_one(spoiled):
    """A single value tells one class from the rest, which is not the label."""
    label = np.arange(120) % 3
    X = np.eye(3)[label] if not spoiled else np.eye(3)[np.where(np.arange(120) == 7, 0, label)]
    source = SimpleNamespace(extras=SimpleNamespace(names=None), recipe=SimpleNamespace(columns=None))
    one_column = SimpleNamespace(
        extras=SimpleNamespace(names=SimpleNamespace(name_of=lambda features: [f"kind={k}" for k in features])),
        recipe=SimpleNamespace(columns=[SimpleNamespace(name="kind")]),
    )
    batch = Batch.from_csr(X, label)
    assert _telling(batch, source) == []
    assert _telling(batch, one_column) == ([] if spoiled else ["column 'kind'"])
