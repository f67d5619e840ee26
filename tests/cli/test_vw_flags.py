"""Vowpal Wabbit's flags on train and predict: they mean what they mean there, or a sentence says what to write."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli import app, vw_flags
from bayou.cli.usage import BadUsage
from bayou.core.storage import load

LINES = "".join(
    f"{1 if (u + a) % 2 else -1} {1 + u % 2} 'row{u}{a}|user u{u} age:{u / 4} |ad a{a} |site s{u % 3}\n"
    for u in range(12)
    for a in range(5)
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in a folder with a file of VW text: (exit code, what it printed, what it said)."""
    monkeypatch.chdir(tmp_path)
    Path("d.vw").write_text(LINES)

    def run(line: str):
        said = CliRunner().invoke(app, shlex.split(line))
        return said.exit_code, said.stdout, said.stderr

    return run


def test_a_command_of_vowpal_wabbit_trains_the_same_model(run):
    theirs = (
        "train -d d.vw -b 12 -q ua -qs: --cubic=uas --ignore s --noconstant --loss_function logistic -f a.bayou "
        "--passes 2"
    )
    ours = (
        "train d.vw --bits 12 --interactions ua --interactions s: --interactions uas --ignore s --set intercept=false "
        "--task binary --model b.bayou --passes 2"
    )
    for line in (theirs, ours):
        code, _, said = run(f"{line} --learner marginal --quiet")
        assert code == 0, said
    a, b = load("a.bayou"), load("b.bayou")
    assert a.mean.tobytes() == b.mean.tobytes()
    assert a.extras.recipe == b.extras.recipe
    assert a.extras.recipe.interactions == ("ua", "s:", "uas")
    assert not a.parameters["intercept"]


def test_a_model_goes_on_and_predicts_by_their_flags(run):
    assert run("train -d d.vw -f a.bayou --learner marginal --bits 10 -q ua --quiet")[0] == 0
    assert run("train d.vw -i a.bayou -f b.bayou --quiet")[0] == 0
    assert load("b.bayou").examples == 2 * load("a.bayou").examples == 120
    assert run("predict -t -d d.vw -i b.bayou -p p.csv")[0] == 0
    assert run("predict d.vw --model b.bayou --out q.csv")[0] == 0
    assert Path("p.csv").read_text() == Path("q.csv").read_text()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train -d d.vw -c", "-c is Vowpal Wabbit's: bayou needs no cache"),
        ("train -d d.vw -l 0.5", "--learner adagrad --set learning_rate=0.5"),
        ("train -d d.vw -i m.bayou -t", "bayou predict d.vw --model m.bayou."),
        ("train -d d.vw -f m.bayou -p p.txt", "then bayou predict d.vw --model m.bayou --out"),
        ("train -d d.vw --loss_function hinge", "logistic (--task binary) and squared"),
        ("train -d d.vw --loss_function quantile", "--quantiles .1,.5,.9"),
        ("train -d d.vw -f m.bayou --invert_hash h", "bayou features m.bayou --index --out h.csv"),
        ("train -d d.vw --l1 1e-6 --l2=0.1", "--learner ftrl"),
        ("train -d d.vw --bfgs", "--learner adagrad"),
        ("train -d", "-d needs a value"),
        ("train -d d.vw -q a --quiet", "first letters of two to 8 namespaces"),
        ("train -d d.vw --ignore user", "reads user as u, s, e, r"),
        ("train -d d.vw --cross a,b,c,d", "expected two or three columns"),
        ("predict -d d.vw -i m.bayou -q ua", "-q is Vowpal Wabbit's: the model keeps this"),
        ("predict -d d.vw -i m.bayou -f n.bayou", "bayou train d.vw --resume m.bayou --model n.bayou"),
    ],
)
def test_what_to_write_instead_is_said(run, line, words):
    code, _, said = run(line)
    assert code == 2, said
    assert words in said
    assert said.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["d.vw"]


def test_what_belongs_to_another_option_is_left_alone():
    own = {"--label": True, "--positive": True, "--quiet": False}
    args = ["a.csv", "--label", "-d", "--quiet", "-d", "b.csv", "--positive", "-b", "--", "-t"]
    expected = ["a.csv", "--label", "-d", "--quiet", "b.csv", "--positive", "-b", "--", "-t"]
    assert vw_flags.translate_flags(vw_flags.TRAIN, args, own) == expected


def test_flags_are_no_other_options_of_the_commands():
    """What is translated would never reach an option of that name."""
    import typer

    commands = typer.main.get_command(app).commands
    for name, flags in (("train", vw_flags.TRAIN), ("predict", vw_flags.PREDICT)):
        own = {option for parameter in commands[name].params for option in parameter.opts}
        assert not own & {option for flag in flags for option in flag.names}


def test_how_much_crosses_make_of_a_row_is_said_before_the_first(run):
    code, _, said = run("train d.vw --learner marginal --bits 10 -q ua")
    assert code == 0
    assert said.index("up to 65,536 features; a line of more is skipped") < said.index("weights, up to")
    Path("d.csv").write_text("y,a,b,c\n" + "1,u,v,w\n0,x,y,z\n" * 20)
    code, _, said = run("train d.csv --label y --learner marginal --bits 10 --cross * --cross a,b,c")
    assert code == 0, said
    assert "crosses give a row 4 features or more; a row of more than 65,536 is skipped" in said


@pytest.mark.parametrize("more", ["", "--by z"])
def test_features_have_the_numbers_of_vowpal_wabbit(run, more):
    pytest.importorskip("vowpalwabbit")
    assert run("train -d d.vw -b 18 -q ua -f m.bayou --learner marginal --quiet")[0] == 0
    code, _, said = run(f"features m.bayou --index --top 1000 --out f.json {more}")
    assert code == 0, said
    ours = {row["feature"]: row["index"] for row in json.loads(Path("f.json").read_text())}
    assert ours.pop("(intercept)") is None
    command = [sys.executable, "-m", "vowpalwabbit", "-d", "d.vw", "-b", "18", "-q", "ua", "--invert_hash", "h.txt"]
    subprocess.run([*command, "--quiet"], check=True)
    found = (line.rsplit(":", 2) for line in Path("h.txt").read_text().splitlines() if "^" in line)
    theirs = {name.replace("*", " & "): int(index) for name, index, _ in found}
    assert ours == theirs


def test_index_is_not_about_columns(run):
    assert run("train d.vw -b 10 -f m.bayou --learner marginal --quiet")[0] == 0
    assert run("features m.bayou --index --by column")[0] == 2


def test_from_python_interactions_are_an_option_like_others(run):
    learner = bayou.train("d.vw", learner="marginal", bits=10, interactions=["ua"]).learner
    assert learner.extras.recipe.interactions == ("ua",)


def test_features_of_svmlight_are_crossed_by_ranges(run):
    Path("d.svm").write_text(
        "".join(f"{1 if i == j else -1} {i + 1}:1 {j + 11}:1\n" for i in range(4) for j in range(4))
    )
    code, _, said = run("train d.svm d.svm --ranges a=1-10,b=11-20 -q ab -b 12 -f m.bayou --learner marginal --quiet")
    assert code == 0, said
    _, shown, _ = run("features m.bayou --top 4")
    assert "a^1 & b^11" in shown
    code, _, said = run("train d.svm --ranges a=1 -q ab")
    assert code == 2
    assert "such as a=1-10" in said


def test_the_page_has_the_commonest_flags_and_what_is_said_of_one():
    page = (Path(__file__).parents[2] / "docs" / "howto" / "vowpal-wabbit.md").read_text(encoding="utf-8")
    table = "".join(line for line in page.splitlines() if line.startswith("| "))
    for flag in [
        "-d",
        "-q",
        "-c",
        "-b",
        "-l",
        "--passes",
        "--loss_function",
        "-f",
        "-i",
        "-t",
        "-p",
        "--ignore",
        "--noconstant",
        "--cubic",
        "--interactions",
    ]:
        assert f"`{flag}" in table
    with pytest.raises(BadUsage) as said:
        vw_flags.translate_flags(vw_flags.TRAIN, ["-l", "0.5"], {})
    assert str(said.value) in " ".join(page.split())


def test_info_tells_what_is_crossed_and_left_out(run):
    assert (
        run("train -d d.vw -b 10 -q ua --cross user,ad,site --ignore s -f m.bayou --learner marginal --quiet")[0] == 0
    )
    _, shown, _ = run("info m.bayou")
    for words in (
        "crosses of user and ad and site",
        "crosses of first letters ua",
        "without namespaces that begin with s",
    ):
        assert words in shown
