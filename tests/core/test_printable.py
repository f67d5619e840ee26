"""What users have named is shown as text, and gives a terminal no orders."""

import io
import json
import re
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli import app
from bayou.core.printable import printable

EVIL = "a\x1b]0;owned\x07b\x9b31m\u202eexe\u2066\x7f\r"
# Anything that does more than show itself, but for the end of a line, which bayou itself writes.
ORDERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def test_every_control_is_written_out_and_nothing_else_changes():
    controls = [*range(32), *range(127, 160), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
    for number in [*controls, 0xD800, 0xDCFF, 0xDFFF]:
        shown = printable(f"a{chr(number)}b")
        assert re.fullmatch(r"a\\(x[0-9a-f]{2}|u[0-9a-f]{4}|[ntr])b", shown), shown
    for text in ("", "plain", "größe=ü", "名前", "C:\\new", "emoji 👍🏽", "non\u00a0breaking", "$x^2$ [red]"):
        assert printable(text) == text
    assert printable(printable(EVIL)) == printable(EVIL)


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Path:
    """A table whose columns, cells and file have evil names, and a model of it."""
    folder = tmp_path_factory.mktemp("evil")
    rows = [{EVIL: f"{EVIL}{k % 3}", "n": k, "y": f"{EVIL}yes" if k % 2 else "no"} for k in range(60)]
    text = "".join(json.dumps(row) + "\n" for row in [*rows, {"y": EVIL, "n": 7}])
    (folder / f"{EVIL}.jsonl").write_text(text)
    (folder / "bad.jsonl").write_text(text + f"{{{EVIL}\n")
    (folder / "evil.csv").write_text(f"age,{EVIL.strip()}\n7,1\n{EVIL.strip()},0\n", newline="")
    (folder / "numbers.svm").write_text("1 1:1\n0 2:1\n" * 20)
    run = CliRunner().invoke(app, train(folder, "--report", str(folder / "r.html")))
    assert run.exit_code == 0, run.output
    return folder


def train(folder: Path, *more: str) -> list[str]:
    options = ["--label", "y", "--positive", f"{EVIL}yes", "--learner", "marginal", "--bits", "6"]
    return ["train", str(folder / f"{EVIL}.jsonl"), *options, "--model", str(folder / f"{EVIL}.bayou"), *more]


def commands(folder: Path) -> list[list[str]]:
    data, model = str(folder / f"{EVIL}.jsonl"), str(folder / f"{EVIL}.bayou")
    numbers = str(folder / "numbers.svm")
    return [
        train(folder),
        ["features", model],
        ["info", model],
        ["predict", data, "--model", model],
        ["predict", str(folder / "bad.jsonl"), "--model", model],
        ["predict", str(folder / "bad.jsonl"), "--model", model, "--on-error", "skip"],
        ["predict", data, "--model", model, "--out", str(folder / f"{EVIL}.csv")],
        ["select", data, "--label", "y", "--positive", f"{EVIL}yes", "--bits", "6"],
        ["train", data],
        ["train", data, "--label", EVIL],
        ["train", data, "--label", "y", "--numeric", EVIL],
        ["train", data, "--label", "y", "--cross", EVIL],
        ["train", str(folder / EVIL)],
        ["train", str(folder / "evil.csv"), "--label", EVIL.strip(), "--numeric", "age"],
        ["train", numbers, "--learner", EVIL],
        ["train", numbers, "--set", f"{EVIL}={EVIL}"],
        ["train", numbers, "--bits", EVIL],
        ["train", numbers, f"--{EVIL}"],
        ["train", numbers, "--model", f"{folder}/{EVIL}/m"],
        ["compare", numbers, "--learner", f"marginal:prior_variance={EVIL}"],
        ["simulate", EVIL, "--out", "-"],
        ["reproduce", EVIL],
        ["info", EVIL],
        ["\udcff\udcfe"],
        ["info", "\udcff.bayou"],
        [EVIL],
        [f"--{EVIL}"],
    ]


def test_no_command_prints_an_order(here):
    shown = []
    for command in commands(here):
        said = CliRunner().invoke(app, command)
        assert said.exit_code in (0, 1, 2), (command, said.output)
        found = ORDERS.search(said.output)
        assert found is None, (command, found, said.output)
        shown += ["\\x1b]0;owned" in said.output or "\\udcff" in said.output]
    assert sum(shown) >= len(shown) - 5  # a few have no name to print


def test_machines_get_the_characters_as_they_are(here):
    data, model = str(here / f"{EVIL}.jsonl"), str(here / f"{EVIL}.bayou")
    shown = json.loads(CliRunner().invoke(app, ["info", model, "--json"]).stdout)
    assert shown["file"] == model
    assert EVIL in [column["name"] for column in shown["recipe"]["columns"]]
    out = here / "features.csv"
    assert CliRunner().invoke(app, ["features", model, "--out", str(out)]).exit_code == 0
    assert f"{EVIL}={EVIL}1" in out.read_bytes().decode()
    again = CliRunner().invoke(app, [*train(here), "--json", "--quiet"])
    assert json.loads(again.stdout)["bad"] == [] or data in json.loads(again.stdout)["bad"][0]


def test_the_report_shows_them_as_text(here):
    page = (here / "r.html").read_text()
    assert "\\x1b]0;owned" in page
    assert ORDERS.search(page.replace("\t", " ").partition("<script")[0]) is None
    own = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.S)
    figures = own[1] if own else page
    assert not any(mark in figures for mark in ("\u202e", "\x9b", "\\u001b", "\\u202e\\"))


class Terminal(io.StringIO):
    """A standard error that somebody looks at."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_nor_does_the_line_of_progress_on_a_terminal(here, monkeypatch):
    from bayou.cli.terminal.progress_table import ProgressTable
    from bayou.runs.options import Note

    monkeypatch.setenv("TERM", "dumb")
    source = bayou.sources.open(str(here / "numbers.svm"), recipe={"bits": 4})
    with redirect_stderr(Terminal()) as terminal, ProgressTable(source) as watch:
        watch.say(Note(f"x{EVIL}[red]x"))
    assert "\\x1b]0;owned" in terminal.getvalue()
    assert "[red]x" in terminal.getvalue()
    assert "\x1b]0;" not in terminal.getvalue()
    assert "\u202e" not in terminal.getvalue()


def test_words_for_people_have_one_way_out():
    """A print of its own would show names as they are."""
    folder = Path(bayou.__file__).parent
    raw = re.compile(r"(?<![\w.])(print|typer\.s?echo|click\.s?echo|sys\.std(out|err)\.write)\(")
    for path in folder.rglob("*.py"):
        if path.name not in ("output.py", "compile_notices.py"):  # notices name nothing that users have named
            code = re.sub(r'""".*?"""', "", path.read_text(), flags=re.S)
            assert raw.search(code) is None, path
