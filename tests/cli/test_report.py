"""`--report`: the page that `bayou train`, `bayou compare` and `bayou demo` write."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli import app


def run(*arguments, code: int = 0):
    said = CliRunner().invoke(app, [*map(str, arguments)])
    assert said.exit_code == code, said.output
    return said


def words(path) -> str:
    """The page's text, without what scripts and styles say."""
    page = re.sub(r"<(script|style)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def figures(path) -> dict:
    (found,) = re.findall(r'id="figures">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    return {figure["key"]: figure["views"] for figure in json.loads(found)}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """2,000 rows of a CSV file, with a column named as nobody should name one, and a bad line."""
    rng = np.random.default_rng(0)
    site, hour = rng.integers(0, 5, 2000), rng.integers(0, 24, 2000)
    clicked = rng.random(2000) < 1 / (1 + np.exp(2.0 - site))
    lines = [f"{c:d},s{s},{h}" for c, s, h in zip(clicked, site, hour, strict=True)]
    path = tmp_path_factory.mktemp("data") / "clicks.csv"
    path.write_text("\n".join(["clicked,<b>site</b>,hour", *lines, "what,is,this"]) + "\n")
    return path


def test_train_writes_a_report_that_says_what_it_printed(table, tmp_path) -> None:
    report = tmp_path / "r.html"
    said = run("train", table, "--label", "clicked", "--report", report, "--holdout", "0.1", "--json", "--quiet")
    found, shown = json.loads(said.stdout), words(report)
    assert f"the report is in {report}" in said.stderr
    assert "clicks.csv" in shown
    assert f"After 1,800 examples the log loss is {found['log_loss']:.3f}" in shown
    assert "On 200 examples that were held out (the last 10%) the finished model has" in shown
    assert f"the finished model has {found['holdout']['log_loss']:.3f}" in shown
    assert f"AUC {found['auc']:.3f}" in shown
    assert "skipped lines 1 " in shown
    assert "clicks.csv:2002:" in shown
    assert "&lt;b&gt;site&lt;/b&gt;=s4" in shown
    assert "lanes" in figures(report)


def test_a_report_changes_no_bit_of_what_is_learned(table, tmp_path) -> None:
    for name, more in (("with", ["--report", tmp_path / "r.html"]), ("without", [])):
        run("train", table, "--label", "clicked", "--model", tmp_path / f"{name}.bayou", "--passes", "2", *more)
    one, other = (bayou.load(tmp_path / f"{name}.bayou") for name in ("with", "without"))
    assert one._arrays()["state"].tobytes() == other._arrays()["state"].tobytes()
    assert one.parts() == other.parts()
    assert one.extras.counters == other.extras.counters


def test_rows_that_the_learner_refuses_are_told_of(tmp_path) -> None:
    rows = ["1 1:1", "-1 2:1", "1 1:9e11", "1 3:1"]
    (tmp_path / "x.svm").write_text("\n".join(rows))
    wide = ["--bits", "4", "--learner", "marginal", "--set", "prior_variance=1e8"]
    run("train", tmp_path / "x.svm", *wide, "--report", tmp_path / "r.html")
    assert "skipped lines 1 " in words(tmp_path / "r.html")
    assert "line 3: " in words(tmp_path / "r.html")


def test_a_learner_of_numbers_gets_one(tmp_path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{3 * a - b + rng.normal():.3f} 1:{a:.3f} 2:{b:.3f}" for a, b in rng.normal(size=(500, 2))]
    (tmp_path / "x.svm").write_text("\n".join(lines))
    said = run(
        "train", tmp_path / "x.svm", "--learner", "gaussian", "--report", tmp_path / "r.html", "--json", "--quiet"
    )
    assert f"the squared loss is {json.loads(said.stdout)['squared_loss']:.3f}" in words(tmp_path / "r.html")
    assert "predicted" in figures(tmp_path / "r.html")


def test_compare_shows_all_of_them_and_the_best_in_full(table, tmp_path) -> None:
    report = tmp_path / "r.html"
    learners = ["--learner", "bank", "--learner", "marginal:prior_variance=.001", "--learner", "adagrad"]
    said = run("compare", table, "--label", "clicked", *learners, "--report", report, "--json", "--quiet")
    losses = {entry["learner"]: entry["log_loss"] for entry in json.loads(said.stdout)["learners"]}
    best = min(losses, key=lambda name: losses[name])
    assert f"{best} did best" in words(report)
    for name, loss in losses.items():
        assert f"{name} {loss:.5f}" in words(report)
    assert {"compared", "loss", "features"} <= set(figures(report))
    plain = run("compare", table, "--label", "clicked", *learners, "--json", "--quiet")
    assert {entry["learner"]: entry["log_loss"] for entry in json.loads(plain.stdout)["learners"]} == losses


@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize(
    ("path", "sentence"), [("x.csv", "must end in .html"), ("no/folder/x.html", "there is no folder")]
)
def test_a_page_that_can_have_no_place_is_said_before_the_work(table, tmp_path, command, path, sentence) -> None:
    said = run(command, table, "--label", "clicked", "--report", tmp_path / path, code=2)
    assert sentence in said.stderr
    assert said.stdout == ""


def test_a_page_that_cannot_be_written_loses_nothing_else(table, tmp_path, monkeypatch) -> None:
    def full(*unused, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bayou.report.page.whole_file", full)
    model = tmp_path / "m.bayou"
    said = run("train", table, "--label", "clicked", "--report", tmp_path / "r.html", "--model", model, code=1)
    assert "the report could not be written" in said.stderr
    assert "log loss" in said.stdout
    assert bayou.load(model).examples == 2000


def test_the_demo_writes_one_and_names_it(tmp_path) -> None:
    said = run("demo", "--examples", 2000, "--out", tmp_path / "demo.png")
    report = tmp_path / "demo.html"
    assert str(report) in said.stdout.replace("\n", "")
    assert "A simulated stream of clicks" in words(report)
    assert re.search(r"category \d+, no\. \d+", words(report))
