"""What is written takes the place of nothing that is read, nor of anything else that is written."""

import os
import shlex
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import bayou
from bayou import BadInput
from bayou.cli import app
from bayou.learners import FTRL

ROWS = "".join(f"{k % 2} {k % 5}:1 {5 + k % 3}:1\n" for k in range(40))

# (command, the option that is refused): each would write over what it reads, or one thing over another.
REFUSED = [
    ("train x.svm --model x.svm", "--model"),
    ("train x.svm --model ./x.svm", "--model"),
    ("train {here}/x.svm --model x.svm", "--model"),
    ("train x.svm --model soft", "--model"),
    ("train x.svm --model hard", "--model"),
    ("train soft --model x.svm", "--model"),
    ("train y.svm 'x.s?m' --model sub/../x.svm", "--model"),
    ("train page.html --report page.html", "--report"),
    ("train x.svm --model new.html --report new.html", "--report"),
    ("train x.svm --model new.html --report ./new.html", "--report"),
    ("train x.svm --resume page.html --report page.html", "--report"),
    ("train x.svm --like page.html --report page.html", "--report"),
    ("predict b.csv --model m.bayou --out b.csv", "--out"),
    ("predict b.csv --model m.csv --out m.csv", "--out"),
    ("compare b.csv --csv b.csv", "--csv"),
    ("compare b.csv --csv new.svg --out new.svg", "--csv"),
    ("compare page.html --report page.html", "--report"),
    ("select b.csv --out b.csv", "--out"),
    ("select b.png --picture b.png", "--picture"),
    ("features m.csv --out m.csv", "--out"),
    ("features m.json --selected --out m.json", "--out"),
    ("merge m.bayou m.csv --out m.csv", "--out"),
    ("merge m.bayou m.json --base m.csv --out m.csv", "--out"),
    ("simulate random --out new.svm --truth new.svm", "--truth"),
    ("simulate random --out - --truth -", "--truth"),
    ("reproduce figure2 --data b.csv --out .", "--out"),
]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("x.svm", "y.svm", "b.csv", "b.png", "page.html"):
        Path(name).write_text(ROWS)
    learner = FTRL(8)
    for name in ("m.bayou", "m.csv", "m.json"):
        learner.save(name)
    Path("soft").symlink_to("x.svm")
    os.link("x.svm", "hard")
    Path("sub").mkdir()
    return tmp_path


@pytest.mark.parametrize(("command", "option"), REFUSED)
def test_an_output_in_the_place_of_another_file_is_refused_before_anything_is_read(here, monkeypatch, command, option):
    def unread(*arguments, **options):
        raise AssertionError("something was read")

    for reader in ("bayou.sources.open", "bayou.core.model_file.open_lazily", "bayou.simulate.GENERATORS"):
        monkeypatch.setattr(reader, unread)
    before = {path: path.read_bytes() for path in here.iterdir() if path.is_file()}
    said = CliRunner().invoke(app, shlex.split(command.format(here=here)))
    assert said.exit_code == 2, said.output
    assert said.stderr.startswith(f"{option} is ")
    assert said.stderr.endswith(".\n")
    assert said.stdout == ""
    assert {path: path.read_bytes() for path in here.iterdir() if path.is_file()} == before


def test_standard_input_from_a_file_counts_as_that_file(here):
    with open("x.svm") as file:
        kept = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            with pytest.raises(BadInput, match="which is also read"):
                bayou.train("-", format="svmlight", model="x.svm")
        finally:
            os.dup2(kept, 0)
            os.close(kept)


def test_python_is_held_to_it_as_well(here):
    for data in ("x.svm", Path("x.svm"), ["y.svm", "hard"], Path().glob("*.svm"), "*.svm"):
        with pytest.raises(BadInput, match=r"model= is x\.svm, which is also read"):
            bayou.train(data, model="x.svm")
    assert Path("x.svm").read_text() == ROWS


def test_a_model_may_be_resumed_in_its_own_place(here):
    options = {"learner": "ftrl", "bits": 4}
    bayou.train("x.svm", model="a.bayou", **options)
    bayou.train("y.svm", resume="a.bayou", model="a.bayou")
    assert bayou.load("a.bayou").examples == 80
    bayou.train("y.svm", like="a.bayou", model="a.bayou")
    assert bayou.load("a.bayou").examples == 40


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="needs /dev/null")
def test_devices_may_be_named_more_than_once(here):
    table = pa.table({"site": ["a", "b"] * 20, "y": [1, 0] * 20})
    Path("null.html").symlink_to("/dev/null")
    run = bayou.train(table, label="y", learner="ftrl", bits=4, model="/dev/null", report="null.html")
    assert run.evaluation.examples == 40


@pytest.mark.parametrize(
    ("command", "size", "code", "words"),
    [
        # Long only with what is put around it while the file is written.
        ("train x.svm --model {}", 245, 2, "--model is"),
        ("train x.svm --model {}", 5000, 2, "--model is"),
        ("merge m.bayou m.csv --out {}", 5000, 2, "--out is"),
        ("simulate random --out {}", 5000, 2, "--out is"),
        ("reproduce table1 --out {}", 5000, 2, "--out is"),
        ("merge m.bayou {} --out o", 5000, 1, "no such model file"),
        ("info {}", 5000, 1, "no such model file"),
    ],
)
def test_a_name_that_is_too_long_is_said_before_the_work(here, command, size, code, words):
    said = CliRunner().invoke(app, command.format("x" * size).split())
    assert said.exit_code == code, said.output
    assert words in said.stderr
    assert ("File name too long" in said.stderr) == (code == 2)
