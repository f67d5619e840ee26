"""`bayou select`: sizes asked for, models that are worth what is said of them."""

import csv
import json

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.metrics import log_loss, roc_auc_score
from typer.testing import CliRunner

from bayou.cli import app


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def rows():
    """4,000 rows of 60 indicators, of which the first 12 matter."""
    rng = np.random.default_rng(0)
    X = rng.random((4000, 60)) < 0.2
    w = np.where(np.arange(60) < 12, np.linspace(0.4, 1.6, 60) * rng.choice([-1, 1], 60), 0.0)
    return X, rng.random(4000) < ndtr(X @ w)


@pytest.fixture(scope="module")
def data(rows, tmp_path_factory):
    X, y = rows
    path = tmp_path_factory.mktemp("select") / "rows.svm"
    lines = [f"{int(label)} {' '.join(f'{k}:1' for k in np.flatnonzero(x))}" for x, label in zip(X, y, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_sizes_are_what_was_asked_for_and_worth_what_is_said(run, data, rows, tmp_path):
    done = run("select", data, "--bits", 6, "--sizes", "8,3", "--json", "--out", tmp_path / "f.csv")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["examples"], found["held_out"]) == (4000, 400)
    assert [one["size"] for one in found["sizes"]] == [3, 8]
    with open(tmp_path / "f.csv") as file:
        features = list(csv.DictReader(file))
    X, y = (array[9::10] for array in rows)  # every tenth is held out
    for one in found["sizes"]:
        chosen = [row for row in features if int(row["size"]) == one["size"]]
        assert len(chosen) == one["size"] + 1
        weights = {row["feature"]: float(row["weight"]) for row in chosen}
        score = weights.pop("(intercept)") + sum(X[:, int(k)] * w for k, w in weights.items())
        assert all(int(k) < 12 for k in weights)
        assert one["log_loss"] == pytest.approx(log_loss(y, ndtr(score)), rel=1e-5)
        assert one["auc"] == pytest.approx(roc_auc_score(y, score), abs=1e-3)
    sizes = [point["size"] for point in found["path"]]
    assert sizes == sorted(sizes, reverse=True)
    assert found["sizes"][1]["auc"] > found["sizes"][0]["auc"] > 0.6


def test_people_get_a_table_and_a_picture(run, data, tmp_path):
    done = run("select", data, "--bits", 6, "--sizes", "5", "--picture", tmp_path / "p.png")
    assert done.exit_code == 0, done.output
    assert done.stdout.split()[:6] == ["size", "log", "loss", "AUC", "inclusion", "prior"]
    assert done.stdout.splitlines()[1].split()[0] == "5"
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_more_than_there_are_is_said(run, data):
    done = run("select", data, "--bits", 6, "--sizes", "1000")
    assert done.exit_code == 0
    assert "features were found to matter; 1,000 were wanted" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sizes", "many"], "expected whole numbers"),
        (["--sizes", "0"], "expected whole numbers"),
        (["--out", "f.txt"], "must end in .csv"),
        (["--picture", "p.pdf"], "must end in .png"),
        (["--out", "-", "--json"], "use one of them"),
        (["--set", "inclusion_prior=0.1"], "there is no parameter"),
        (["--set", "slab_variance=0"], "slab_variance"),
    ],
)
def test_wrong_usage_exits_2(run, data, arguments, said):
    done = run("select", data, *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def test_too_few_examples_are_said(run, tmp_path):
    (tmp_path / "few.svm").write_text("1 1:1\n0 2:1\n")
    done = run("select", tmp_path / "few.svm", "--bits", 4)
    assert done.exit_code == 1
    assert "too few for a holdout" in done.stderr


@pytest.mark.filterwarnings("error")
def test_a_picture_of_nothing_selected_is_drawn(run, tmp_path):
    (tmp_path / "alike.svm").write_text("1 1:1\n0 1:1\n" * 12)
    done = run("select", tmp_path / "alike.svm", "--bits", 4, "--picture", tmp_path / "p.png")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "p.png").exists()
