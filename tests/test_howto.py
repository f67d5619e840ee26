"""The how-to pages: what they say comes out, comes out."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bayou.cli import app

PAGES = Path(__file__).parent.parent / "docs" / "howto"
ROW = re.compile(r"\| ([^|]+) \| `bayou (train [^`]+)` \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \|")


def rows() -> list[tuple[str, ...]]:
    return ROW.findall((PAGES / "data-sets.md").read_text())


def test_the_page_has_the_sets_it_should() -> None:
    commands = " ".join(row[1] for row in rows())
    for name in ("a9a", "adult", "criteo", "nycflights13", "sms_spam", "talkingdata"):
        assert name in commands


def test_the_python_of_learning_from_files_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (PAGES / "train-from-files.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    names: dict = {}
    exec(block, names)
    assert len(names["p"]) == 2000
    assert names["p"][0] > 0.9 > 0.1 > names["p"][1]
    assert "site=a" in names["carried"].names.name_of(names["again"].touched)


def test_the_river_page_runs() -> None:
    pytest.importorskip("river", reason="river is not installed: pip install 'bayou[river]'")
    page = (PAGES / "river.md").read_text()
    names: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        exec(block, names)
    assert names["auc"].get() > 0.93
    assert names["one"].predict_proba_one(names["x"]) == names["many"].predict_proba_one(names["x"])
    assert names["segments"].get() > 0.7
    assert names["kept"].weights["site=a.com"] > 0 > names["kept"].weights["site=b.com"]


def test_the_compare_page_comes_out(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (PAGES / "compare.md").read_text()
    commands = re.findall(r"^bayou (.*)$", page, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["simulate", "compare"]
    for command in commands:
        said = CliRunner().invoke(app, shlex.split(command))
        assert said.exit_code == 0, said.output
    table = re.compile(r"^ *(\S+) +(0\.\d+) +(0\.\d+) +(0\.\d+) +(0\.\d+) ", re.MULTILINE)
    expected = {name: list(map(float, scores)) for name, *scores in table.findall(page)}
    found = {name: list(map(float, scores)) for name, *scores in table.findall(said.stdout)}
    assert len(found) == 4
    assert list(found) == list(expected)
    for name, scores in found.items():
        assert scores == pytest.approx(expected[name], abs=2e-5)  # the last digit shown, and rounding
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    assert (tmp_path / "curves.csv").read_text().startswith("learner,example,log_loss")


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_known_data_sets(data_directory, monkeypatch, row) -> None:
    _, command, examples, log_loss, auc = row
    monkeypatch.chdir(data_directory)
    said = CliRunner().invoke(app, [*shlex.split(command), "--json", "--quiet"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert found["examples"] == int(examples.replace(",", ""))
    assert found["log_loss"] == pytest.approx(float(log_loss), abs=2e-5)  # the last digit shown, and rounding
    assert found["auc"] == pytest.approx(float(auc), abs=2e-4)
