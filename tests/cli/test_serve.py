"""`bayou serve` and `bayou replay`: what they are told wrongly is said before anything is made."""

import pytest
from typer.testing import CliRunner

from bayou.cli import app


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("serve --data state", "there is no model to serve: give --model FILE, or --learner bank"),
        ("serve --data state --learner marginal --model m.bayou", "give one of them"),
        ("serve --data state --model m.bayou --bits 5", "are for --learner"),
        ("serve --data state --learner marginal --wait soon", "--wait is soon; expected a time such as 90s"),
        ("serve --data state --learner marginal --host 0.0.0.0", "a token file is needed"),
        ("serve --data state --learner nobody", "there is no learner called 'nobody'"),
        ("serve --data state --read-only --learner marginal", "leave --model and --learner out"),
        ("serve --data state --model a/b=m.bayou", "there is no such model file"),
        ("serve --data state --model x=m.bayou --model x=n.bayou", "there are two models called 'x'"),
        ("serve --data state --learner marginal --tokens nosuch", "the tokens cannot be read"),
        ("replay state --out m.bayou", "no server has stored anything here"),
    ],
)
def test_wrong_usage_is_a_sentence(tmp_path, monkeypatch, line, words):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, line.split())
    assert done.exit_code in (1, 2), done.output
    assert words in done.stderr
    assert not (tmp_path / "m.bayou").exists()
    assert not list(tmp_path.glob("state/models/*/base.bayou"))
