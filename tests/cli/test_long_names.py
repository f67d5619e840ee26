"""Names of columns, values and classes can be of any length: people see 300 characters of each, files have them all."""

import csv
import random
import re

import pytest
from typer.testing import CliRunner

from bayou.cli import app

LONG = re.compile("c{301}|v{301}|k{301}")
COLUMN, VALUE, CLASS = "c" * 2000, "v" * 2000, "k" * 2000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of two classes and one of three, each with its report."""
    folder, rng = tmp_path_factory.mktemp("long"), random.Random(0)
    tables = {"two": ("0", "1"), "three": (CLASS, "r", "t")}
    for name, labels in tables.items():
        with (folder / f"{name}.csv").open("w") as file:
            file.write(f"label,site,{COLUMN}\n")
            for _ in range(600):
                site, other = rng.choice((VALUE, "b", "d")), rng.choice((VALUE, "y"))
                label = labels[0] if site == "b" and rng.random() < 0.8 else rng.choice(labels)
                file.write(f"{label},{site},{other}\n")
        run("train", folder / f"{name}.csv", "--model", folder / f"{name}.bayou", "--report", folder / f"{name}.html",
            *(() if name == "three" else ("--learner", "marginal")))  # fmt: skip
    return folder


def run(*arguments) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("model", ["two", "three"])
@pytest.mark.parametrize("command", [["features"], ["features", "--by", "column"], ["info"]])
def test_the_terminal_shows_300_characters_of_a_name(folder, model, command):
    shown = run(command[0], folder / f"{model}.bayou", *command[1:])
    assert re.search("(c{300}|v{300}|k{300})…", shown)
    assert not LONG.search(shown)


@pytest.mark.parametrize("model", ["two", "three"])
def test_the_report_shows_300_characters_of_a_name(folder, model):
    shown = (folder / f"{model}.html").read_text(encoding="utf-8")
    assert "…" in shown
    assert not LONG.search(shown)


def test_files_have_all_of_a_name(folder):
    run("features", folder / "two.bayou", "--out", folder / "features.csv")
    with (folder / "features.csv").open(newline="") as file:
        names = [row["feature"] for row in csv.DictReader(file)]
    assert f"{COLUMN}={VALUE}" in names
