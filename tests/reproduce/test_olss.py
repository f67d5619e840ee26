"""The second paper's figures: sets are cut as they should be, and models are compared fairly."""

import csv
import gzip
import json

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import ndtr
from typer.testing import CliRunner

from bayou.cli import app
from bayou.core.errors import BadInput
from bayou.reproduce.olss import comparison, data
from bayou.reproduce.olss.comparison import FULL, OURS, RIVAL, Model

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def folder(tmp_path):
    """Small files of the names and columns of the real ones."""
    rng = np.random.default_rng(0)

    def texts(name, label_of):
        with gzip.open(tmp_path / name, "wt") as file:
            for k in range(300):
                words = [f"word{j}" for j in rng.integers(0, 60, 12)]
                label = "word1" in words or "word2" in words
                row = {"text": " ".join(words), "label": label_of(label), "split": "train" if k < 200 else "test"}
                file.write(json.dumps(row) + "\n")

    texts("reuters21578_modapte.jsonl.gz", lambda label: ["acq", "earn", "grain", "money-fx"] if label else [])
    texts("newsgroups20_bydate.jsonl.gz", lambda label: "comp.graphics" if label else "rec.autos")
    with gzip.open(tmp_path / "nycflights13.csv.gz", "wt") as file:
        file.write("arr_delay,carrier,flight,tailnum,origin,dest,hour,time_hour\n")
        for k in range(400):
            carrier = "UA" if rng.random() < 0.5 else "AA"
            late = "" if k == 7 else 30 if (carrier == "UA") ^ (rng.random() < 0.2) else 0
            day = f"2013-{1 + k // 40:02d}-{1 + k % 28:02d}T10:00:00Z"
            file.write(f"{late},{carrier},{k % 9},N{k % 30},JFK,D{k % 5},{k % 24},{day}\n")
    with gzip.open(tmp_path / "talkingdata.sample100k.csv.gz", "wt") as file:
        file.write("ip,app,device,os,channel,click_time,attributed_time,is_attributed\n")
        for k in range(400):
            app_ = int(rng.integers(4))
            file.write(
                f"{k % 50},{app_},1,{k % 6},{k % 7},2017-11-06 16:{k // 60:02d}:{k % 60:02d},,{int(app_ == 1)}\n"
            )
    for name in (
        "criteo.train10k",
        "criteo.test10k",
        "frappe.train58k",
        "frappe.test29k",
        "ipinyou.train",
        "ipinyou.test",
    ):
        with gzip.open(tmp_path / f"{name}.svm.gz", "wt") as file:
            for _ in range(200):
                first = int(rng.integers(1, 9))
                file.write(f"{1 if first == 2 else -1} {first}:1 {int(rng.integers(9, 30))}:1\n")
    return tmp_path


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, ["reproduce", *(str(a) for a in arguments)])


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_runs_end_to_end(run, folder, tmp_path, number, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)  # without VW
    out = tmp_path / "out"
    name = f"olss-figure{number}"
    done = run(name, "--quick", "--data", folder, "--out", out)
    assert done.exit_code == 0, done.output
    assert (out / f"{name}.png").read_bytes().startswith(PNG)
    with open(out / f"{name}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert f"Figure {number}" in done.stdout
    if number in (2, 3, 4):  # what is printed is what the file holds
        assert {row["method"] for row in rows} == {OURS, RIVAL, FULL}
        assert all(0 <= float(row["AUC"]) <= 1 for row in rows)
        problem = rows[0]["problem"]
        some = [
            row for row in rows if (row["problem"], row["method"]) == (problem, OURS) and 0 < int(row["size"]) <= 1000
        ]
        chosen = max(some, key=lambda row: float(row["valid_AUC"]))
        tests = [float(row["AUC"]) for row in some if row["setting"] == chosen["setting"]]
        assert f"{tests[0] if number < 4 else np.mean(tests):.3f}" in done.stdout


def test_without_data_a_sentence_says_where_to_put_them(run, tmp_path, monkeypatch):
    monkeypatch.setenv("BAYOU_DATA", str(tmp_path / "nowhere"))
    done = run("olss-figure1", "--out", tmp_path)
    assert done.exit_code == 1
    assert "--data FOLDER" in done.stderr
    monkeypatch.setenv("BAYOU_DATA", str(tmp_path))
    assert "has no file reuters" in run("olss-figure1", "--out", tmp_path).stderr


def test_the_tests_are_later_and_hold_no_feature_that_was_not_learned(folder):
    flights = data.flights(folder)
    assert flights.X.shape[0] == 199  # of 399 that arrived
    assert [X.shape[1] for _, X, _ in flights.tests] == [flights.X.shape[1]] * 3
    assert len(flights.groups) == flights.X.shape[1]
    assert (flights.X.sum(axis=0) > 0).all()
    np.testing.assert_array_equal(flights.X.sum(axis=1), 9)  # one value of each of nine columns
    assert flights.tests[0][1].sum(axis=1).max() <= 9


def test_restored_counts_are_those_of_all_rows(folder):
    problem = data.ipinyou(folder)
    fewer = data.fewer_negatives(problem, 0.25)
    assert fewer.y.sum() == problem.y.sum()
    assert fewer.weights[~fewer.y].sum() == pytest.approx((~problem.y).sum(), rel=0.35)
    assert len(fewer.y) < len(problem.y)


def model(method, size, valid, test, order=0):
    return Model("p", method, f"{size}", order, size, {"AUC": valid, "F1": 0.0}, {"t": {"AUC": test, "F1": 0.0}}, 1.0)


def test_models_are_chosen_on_validation_rows_among_those_that_are_small_enough():
    found = [
        model(OURS, 5, 0.8, 0.7),
        model(OURS, 9, 0.9, 0.6),
        model(OURS, 50, 0.95, 0.99),
        model(OURS, 0, 1.0, 1.0),  # an intercept alone is no model
        model(RIVAL, 8, 0.99, 0.9),
        model(OURS, 7, 0.5, 0.5, order=1),
    ]
    np.testing.assert_array_equal(comparison.at_size(found, OURS, "AUC", 10), [0.6, 0.5])
    np.testing.assert_array_equal(comparison.at_size(found, OURS, "AUC", 6), [0.7, np.nan])
    np.testing.assert_array_equal(comparison.at_size(found, RIVAL, "AUC", 10), [0.9, np.nan])


def test_a_set_with_a_clear_signal_is_learned_by_both():
    rng = np.random.default_rng(0)
    X = csr_array(rng.random((1500, 40)) < 0.2, dtype=float)
    y = rng.random(1500) < ndtr(X @ np.where(np.arange(40) < 4, 2.0, 0.0) - 1.5)
    problem = data.Problem("p", X[:1000], y[:1000], (("test", X[1000:], y[1000:]),), (0.3, 1.0, 3.0))
    found = list(comparison.models(problem, 0, quick=True))
    for method in (OURS, RIVAL):
        assert comparison.at_size(found, method, "AUC", 10)[0] > 0.8
    assert comparison.everything(found, FULL, "AUC")[0] > 0.8


def test_a_folder_that_is_none_is_refused():
    with pytest.raises(BadInput, match="not a folder"):
        data.folder(["/no/such/folder"])
