"""However a command ends: a sentence and an exit code, and a traceback only for those who ask for one."""

import importlib
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli import app
from bayou.learners import FTRL

# What each command calls first of what does its work; where that breaks, nothing in the command was prepared for it.
FIRST_STEPS = {
    "train": ("train x.svm --bits 4", "bayou.sources.open"),
    "look": ("look x.csv", "bayou.sources.open"),
    "compare": ("compare x.svm --bits 4", "bayou.sources.open"),
    "predict": ("predict x.svm --model m.bayou", "bayou.sources.open"),
    "select": ("select x.svm --bits 4", "bayou.sources.open"),
    "features": ("features m.bayou", "bayou.core.extras.Extras.of"),
    "info": ("info m.bayou", "bayou.core.extras.Extras.of"),
    "merge": ("merge m.bayou n.bayou --out o.bayou", "bayou.core.learner.Learner.merge"),
    "simulate": ("simulate random --examples 10 --out -", "bayou.outputs.text.output"),
    "reproduce": ("reproduce table1 --quick", "bayou.reproduce.find"),
    "demo": ("demo", "bayou.cli.demo.study.run"),
    "warm": ("warm", "bayou.runs.warmup.run_all"),
    "serve": ("serve --learner marginal --data state --port 0", "bayou.serve.server.Server"),
    "replay": ("replay state --out o.bayou", "bayou.serve.state_folder.replayed"),
}
BROKEN = [
    (KeyError("no\x1b[31mbody"), 70, "KeyError: 'no\\x1b[31mbody'). This is a bug in bayou"),
    (AssertionError(), 70, "(AssertionError). This is a bug in bayou"),
    (RuntimeError("one\ntwo"), 70, "(RuntimeError: one). This is a bug"),
    (MemoryError("Unable to allocate 3 TiB"), 1, "not enough memory"),
    (OSError(5, "Input/output error", "x\x07.svm"), 1, "x\\x07.svm: the system refuses (Input/output error)"),
    (KeyboardInterrupt(), 130, ""),
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BAYOU_DEBUG", raising=False)
    monkeypatch.setattr("bayou.cli.demo.study.warm_up", lambda: None)
    (tmp_path / "x.svm").write_text("1 1:1\n0 2:1\n" * 10)
    for name in ("m.bayou", "n.bayou"):
        FTRL(8).save(name)
    return tmp_path


def broken(monkeypatch, place: str, error: BaseException) -> None:
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(place, fail)


def said(*arguments: str):
    done = CliRunner().invoke(app, list(arguments))
    assert isinstance(done.exception, SystemExit | None), done.exception  # anything else would be a traceback
    return done


def test_every_command_is_tried():
    assert {command.callback.__name__ for command in app.registered_commands} == set(FIRST_STEPS)


@pytest.mark.parametrize("command", FIRST_STEPS)
@pytest.mark.parametrize(("error", "code", "words"), BROKEN, ids=[type(row[0]).__name__ for row in BROKEN])
def test_an_unexpected_error_is_a_sentence(here, monkeypatch, command, error, code, words):
    line, place = FIRST_STEPS[command]
    importlib.import_module(place.rpartition(".")[0].partition(".Extras")[0].partition(".Learner")[0])
    broken(monkeypatch, place, error)
    done = said(*line.split())
    assert done.exit_code == code, done.output
    assert words in done.stderr
    assert "Traceback" not in done.output
    assert re.fullmatch(r"(.*[.;]\n|.*memory\n|compiling .*\n)*", done.stderr), done.stderr
    assert not (here / "o.bayou").exists()


def test_a_traceback_is_shown_to_those_who_ask(here, monkeypatch):
    broken(monkeypatch, "bayou.core.extras.Extras.of", KeyError("no\x1b[31mbody"))
    for arguments, environment in ((["--debug"], {}), ([], {"BAYOU_DEBUG": "1"})):
        done = CliRunner(env=environment).invoke(app, [*arguments, "info", "m.bayou"])
        assert done.exit_code == 70
        assert "Traceback (most recent call last):\n" in done.stderr
        assert "in info\n" in done.stderr
        assert "\x1b" not in done.output
    assert "Traceback" not in said("info", "m.bayou").output  # asked for once is not asked for ever


def test_an_error_that_was_foreseen_can_be_traced_as_well(here):
    done = said("--debug", "info", "nosuch")
    assert done.exit_code == 1
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("nosuch: there is no such model file; `bayou train --model` or `save` writes one.\n")


def test_models_that_do_not_fit_into_memory_are_named(here, monkeypatch):
    broken(monkeypatch, "bayou.core.learner.Learner.merge", MemoryError("Unable to allocate 3 TiB"))
    done = said("merge", "m.bayou", "n.bayou", "--out", "o.bayou")
    assert done.exit_code == 1
    assert done.stderr == "m.bayou and n.bayou: there is not enough memory to merge them (Unable to allocate 3 TiB).\n"
    with pytest.raises(bayou.BadModel, match="not enough memory"):
        importlib.import_module("bayou.runs.merge").merge(["m.bayou", "n.bayou"])


def test_help_and_no_command_at_all_are_as_they_were(here):
    assert "[OPTIONS] COMMAND [ARGS]...\n\n  Learn sparse" in said("--help").stdout
    nothing = said()
    assert "\n  Example:\n" in nothing.output
    assert "\\n" not in nothing.output


STUCK = """
import threading
from bayou import cli
from bayou.cli import exit_codes
threading.Thread(target=threading.Event().wait).start()  # as one that was being started when Ctrl-C came
def command():
    print("so far")
    raise KeyboardInterrupt
cli.app = lambda **how: exit_codes.exit_code(command)
cli.main()
"""


def test_a_command_that_was_interrupted_waits_for_no_thread():
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "so far\n")
