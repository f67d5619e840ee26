"""`bayou reproduce`: every table and figure runs end to end, and what is printed is what the files hold."""

import csv
import importlib
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from bayou import reproduce
from bayou.cli import app
from bayou.reproduce.marginal_gaussian import figure2
from bayou.reproduce.marginal_gaussian.results import CURVE_COLUMNS, SUMMARY_COLUMNS

PNG = b"\x89PNG\r\n\x1a\n"
STREAMS = [name for name in reproduce.NAMES if name != "figure3" and not name.startswith(("l1", "olss", "oslog"))]
TINY = ("--examples", 300, "--jobs", 1)


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, ["reproduce", *(str(a) for a in arguments)])


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("arguments", [(), ("list",)])
def test_the_list_shows_everything_and_how_long_it_takes(run, arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    for experiment in reproduce.experiments():
        (line,) = [line for line in lines if line.split()[:1] == [experiment.name]]
        assert experiment.paper in line
        assert re.search(r"(seconds|minute)", line)


MANY = ("figure4", "uniform")  # of nine streams each
SLOW = (*MANY, "figure2", "table1")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long if n in SLOW else ()) for n in STREAMS])
def test_runs_end_to_end(run, tmp_path, name):
    draws = 1 if name in MANY else 2
    done = run(name, *TINY, "--seeds", draws, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{name}-summary.csv", f"{name}.csv", f"{name}.png"]
    assert (tmp_path / f"{name}.png").read_bytes().startswith(PNG)
    assert f"{draws} draw" in done.stderr  # how much, before it is done
    curves, summary = rows_of(tmp_path / f"{name}.csv"), rows_of(tmp_path / f"{name}-summary.csv")
    assert tuple(curves[0]) == CURVE_COLUMNS
    assert tuple(summary[0]) == SUMMARY_COLUMNS
    panels = reproduce_panels(name)
    assert [(row["panel"], row["method"]) for row in summary] == [
        (panel.name, method.name) for panel in panels for method in panel.methods
    ]
    # What is printed is what the files hold: of the curves shown, the mean and spread of the last points.
    printed = re.sub(r"[^\S\n]+", " ", done.stdout)
    for row in summary:
        last = [
            float(point["normalized_regret"])
            for point in curves
            if point["shown"] == "1" and point["example"] == "300"
            and (point["panel"], point["method"]) == (row["panel"], row["method"])
        ]  # fmt: skip
        assert len(last) == draws
        assert np.mean(last) == pytest.approx(float(row["r"]), rel=1e-12)
        assert np.std(last) == pytest.approx(float(row["r_std"]), rel=1e-9)
        spread = f" {float(row['r_std']):.2f}" if draws > 1 else ""
        numbers = f"{float(row['r']):.2f}{spread} {float(row['ratio']):.3f} "
        assert re.search(f" {re.escape(row['method'])} .*{re.escape(numbers)}", printed)


def reproduce_panels(name):
    module = "figure1" if name == "table1" else name
    return importlib.import_module(f"bayou.reproduce.marginal_gaussian.{module}").panels()


def test_table_1_prints_the_papers_numbers(run, tmp_path):
    done = run("table1", *TINY, "--seeds", 1, "--out", tmp_path)
    for number in ("77.66", "91.50", "78.02", "97.52", "190.30", "178.60", "117.60", "246.30"):
        assert number in done.stdout
    assert "not comparable" in done.stdout
    rows = {(row["panel"], row["method"]): row for row in rows_of(tmp_path / "table1-summary.csv")}
    assert float(rows["40 active", "Joint"]["paper_r"]) == 97.52
    assert float(rows["40 active", "Joint"]["paper_seconds"]) == 14


def test_figure_3(run, tmp_path):
    assert run("figure3", "--out", tmp_path).exit_code == 0
    assert (tmp_path / "figure3.png").read_bytes().startswith(PNG)
    rows = rows_of(tmp_path / "figure3.csv")
    differences = np.array([abs(float(row["cdf_difference"])) for row in rows])
    assert 0.017 < differences.max() < 0.02  # the paper's bound
    by_x = {float(row["x"]): row for row in rows}
    assert float(by_x[0.0]["logistic_pdf"]) == 0.25
    assert float(by_x[0.0]["normal_pdf"]) == pytest.approx(0.25, rel=1e-12)


def criteo_line(generator):
    label = generator.integers(2)
    numbers = generator.integers(0, 50, 13)
    names = generator.integers(0, 8, 26)
    return "\t".join([str(label), *(str(n) for n in numbers), *(f"{n:08x}" for n in names)])


@pytest.mark.long
def test_figure_2_takes_a_criteo_file(run, tmp_path, monkeypatch):
    monkeypatch.setattr(figure2, "BITS", 12)  # thirty learners of four million weights take their time
    generator = np.random.default_rng(3)
    data = tmp_path / "criteo.tsv"
    data.write_text("".join(criteo_line(generator) + "\n" for _ in range(400)))
    out = tmp_path / "out"
    done = run("figure2", *TINY, "--seeds", 1, "--data", data, "--out", out)
    assert done.exit_code == 0, done.output
    assert "Figure 2 right: loss over 400 examples" in done.stdout
    mine = [row for row in rows_of(out / "figure2.csv") if row["panel"] == "right: file"]
    final = {row["method"]: float(row["loss"]) / 400 for row in mine if row["shown"] == "1" and row["example"] == "400"}
    assert set(final) == {method.name for method in figure2.FILE_METHODS}
    for method, loss in final.items():
        relative = 100 * (loss / final["AdaGrad"] - 1)
        assert re.search(rf"{method}  .*{loss:.4f} +{re.escape(f'{relative:+.2f}')}%", done.stdout)
    # The best of a grid is the one with the least loss.
    rates = [float(row["loss"]) / 400 for row in mine if row["method"] == "AdaGrad" and row["example"] == "400"]
    assert min(rates) == final["AdaGrad"]
    assert len(rates) > 3


def test_the_same_seed_gives_the_same_curves(run, tmp_path):
    def curves(name, seed):
        done = run("groups", "--examples", 300, "--seeds", 1, "--seed", seed, "--jobs", 1, "--out", tmp_path / name)
        assert done.exit_code == 0, done.output
        return (tmp_path / name / "groups.csv").read_bytes()

    first = curves("a", 4)
    assert curves("b", 4) == first
    assert curves("c", 5) != first


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["figure9"], "there is no table or figure called 'figure9'; there are: table1,"),
        (["list", "table1"], "list cannot be combined with names"),
        (["table1", "--out", "no/such/folder"], "there is no folder"),
        (["table1", "--data", "f.tsv"], "--data is for figure2"),
    ],
)
def test_wrong_usage_is_a_sentence_and_exit_code_2(run, arguments, said):
    done = run(*arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_a_file_cannot_be_the_folder(run, tmp_path):
    (tmp_path / "taken").write_text("mine")
    done = run("table1", "--out", tmp_path / "taken")
    assert done.exit_code == 2
    assert "which is a file" in done.stderr
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_file_of_data_that_is_not_there(run, tmp_path):
    done = run("figure2", "--data", tmp_path / "none.tsv", "--out", tmp_path / "out")
    assert done.exit_code in (1, 2)
    assert "none.tsv" in done.stderr
