"""`bayou look`, and what train, info and the report say of a table's columns: decided before anything is learned."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli import app
from bayou.cli.terminal import columns
from bayou.recipe.recipe import Column
from tests.dirty_flights import dirty_flights


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    path = tmp_path_factory.mktemp("look") / "flights.csv"
    dirty_flights(1_500).assign(year=2013).to_csv(path, index=False)
    return str(path)


def said(*arguments: str):
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return done


DECIDED = {
    "booking": ("id", ""),
    "departs": ("date", "hour, weekday, month, weekend hour"),
    "carrier": ("category", "values"),
    "flight": ("whole", "20 bins, values, slope"),
    "tailnum": ("category", "values"),
    "origin": ("category", "values"),
    "dest": ("category", "values"),
    "miles": ("whole", "20 bins, values, slope"),
    "fare": ("bins", "20 bins, slope"),
    "seats": ("values", "values, slope"),
    "remark": ("category", "values"),
    "refund": ("category", "values"),
    "late": ("label", ""),
    "year": ("values", "values"),
}


def test_train_warns_of_labels_in_runs_once(tmp_path):
    path = tmp_path / "sorted.csv"
    pd.DataFrame({"x": range(400), "y": [k // 40 % 2 for k in range(400)]}).to_csv(path, index=False)
    assert "the label comes in runs (10 runs of equal labels" in said("look", str(path), "--label", "y").stderr
    done = said("train", str(path), "--label", "y", "--learner", "marginal", "--bits", "10")
    assert done.stderr.count("runs of equal labels") == 1
    assert "labels come in longer runs than by chance (10 runs" in done.stderr


def test_look_decides_and_learns_nothing(flights):
    done = said("look", flights, "--label", "late", "--json")
    found = json.loads(done.stdout)
    assert {column["name"]: (column["role"], column["gives"]) for column in found["columns"]} == DECIDED
    by_name = {column["name"]: column for column in found["columns"]}
    assert 0.02 < by_name["miles"]["missing"] < 0.05
    assert "cells are not ('" in by_name["miles"]["why"]
    assert by_name["carrier"]["examples"]
    remarks = " ".join(found["remarks"])
    assert "column 'refund': it alone predicts the label (AUC 1.0000)" in remarks
    assert "column 'year': it is constant so far" in remarks
    table = said("look", flights, "--label", "late")
    first, *lines = table.stdout.splitlines()
    assert first.split() == ["column", "role", "gives", "missing", "why"]
    assert [line.split()[0] for line in lines[:-1]] == list(DECIDED)
    assert lines[-1].endswith("features a row")
    assert max(map(len, lines)) <= columns.WIDTH
    assert "AUC 1.0000" in table.stderr


def test_look_needs_no_label_and_takes_the_options_of_train(flights):
    found = json.loads(said("look", flights, "--json", "--category", "booking", "--ignore", "refund,year").stdout)
    roles = {column["name"]: column["role"] for column in found["columns"]}
    assert [roles[name] for name in ("booking", "refund", "late")] == ["category", "ignored", "values"]
    assert found["remarks"] == []


def test_dates_marks_and_decimals_can_be_told(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "day;price;y\n" + "".join(f"202401{k % 28 + 1:02};{k}.{k}00,5 €;{k % 2}\n" for k in range(1, 9)) + "x;n.a.;1\n"
    )
    plain = json.loads(said("look", str(path), "--json").stdout)["columns"]
    assert [column["role"] for column in plain[:2]] == ["category", "category"]
    told = said(
        "look", str(path), "--date", "day", "--decimal", "comma", "--missing", "n.a.", "--missing", "x", "--json"
    )
    day, price, _ = json.loads(told.stdout)["columns"]
    assert (day["role"], day["gives"], day["missing"]) == ("date", "weekday, month", 1 / 9)
    assert (price["role"], price["knots"][0], price["missing"]) == ("values", 1100.5, 1 / 9)


def test_a_label_that_is_an_id_is_remarked_on(tmp_path):
    frame = pd.DataFrame({"x": [k % 7 for k in range(200)], "name": [f"n{k}" for k in range(200)], "n": range(200)})
    for label in ("name", "n"):
        (remark,) = bayou.look(frame, label=label).warnings
        assert remark == f"column {label!r}: 200 different labels in 200 rows: is it an id?"


def test_data_without_columns_are_not_looked_at(tmp_path):
    (tmp_path / "x.svm").write_text("1 1:1\n0 2:1\n")
    done = CliRunner().invoke(app, ["look", str(tmp_path / "x.svm")])
    assert done.exit_code in (1, 2)
    assert "svmlight text, which has no columns" in done.stderr


def test_train_says_what_was_decided_before_it_learns(flights, tmp_path):
    model, report = str(tmp_path / "m.bayou"), tmp_path / "r.html"
    line = ["train", flights, "--label", "late", "--learner", "marginal", "--bits", "12", "--model", model]
    done = said(*line, "--report", str(report))
    lines = done.stderr.splitlines()
    begin = next(k for k, text in enumerate(lines) if text.startswith("column "))
    assert [text.split()[0] for text in lines[begin + 1 : begin + 1 + len(DECIDED)]] == list(DECIDED)
    assert any(text.startswith("column 'refund': it alone predicts the label") for text in lines[: begin + 20])
    # ... and what was not a number in all of the rows, with the first few places
    (odd,) = [text for text in lines if "in column 'miles' are not numbers, treated as missing: " in text]
    assert f"{flights}:" in odd
    assert " mi'" in odd
    info = said("info", model).stdout
    assert "departs: date" in info
    assert "1,500 different values in 1,500 rows" in info
    page = report.read_text()
    assert "What its columns were taken for" in page
    assert "1,500 different values in 1,500 rows" in page
    quiet = said(*line, "--quiet").stderr
    assert "column " not in quiet.partition("cells in column")[0]
    # A model that goes on has decided before.
    again = said("train", flights, "--resume", model, "--model", model).stderr
    assert not any(text.startswith("column ") and " role " in text for text in again.splitlines())


def test_predict_says_which_cells_were_no_numbers(flights, tmp_path):
    model = bayou.train(flights, label="late", learner="marginal", bits=12).learner
    model.save(tmp_path / "m.bayou")
    new = tmp_path / "new.csv"
    names = "departs,carrier,flight,tailnum,origin,dest,miles,fare,seats,remark,refund,year"
    rows = ["2013-05-05 10:00,UA,1,N1,EWR,D1,12 mi,60,50,,no,2013", "soon,UA,1,N1,EWR,D1,12,60,50,,no,2013"]
    new.write_text("\n".join([names, *rows]))
    done = said("predict", str(new), "--model", str(tmp_path / "m.bayou"))
    assert len(done.stdout.splitlines()) == 3
    assert f"a cell in column 'miles' is not a number, treated as missing: {new}:2:33: '12 mi'" in done.stderr
    assert f"a cell in column 'departs' is not a date, treated as missing: {new}:3:1: 'soon'" in done.stderr


def test_a_wide_table_is_shown_in_part():
    many = [Column(f"c{k}", "category", why="texts") for k in range(40)]
    assert len(columns.table(many)) == 41
    assert columns.short_table(many)[-1] == "and 20 more columns; bayou look shows all"
    assert len(columns.short_table(many[:30])) == 31
