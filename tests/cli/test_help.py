"""The help of every command, as a newcomer reads it: what it is for, and a line to try."""

import re
import shlex

import pytest
import typer
from typer.testing import CliRunner

from bayou.cli import app

GROUP = typer.main.get_command(app)


def help_of(*names: str) -> str:
    said = CliRunner().invoke(app, [*names, "--help"])
    assert said.exit_code == 0, said.output
    return said.stdout


def example_in(text: str) -> list[str]:
    found = re.search(r"^ +Example:\n\n +bayou (.+)\n\n", text, re.MULTILINE)
    assert found, text
    return shlex.split(found[1])


def test_the_help_of_all_has_an_example():
    assert example_in(help_of())[0] in GROUP.commands


@pytest.mark.parametrize("name", GROUP.commands)
def test_every_command_has_an_example_of_itself_that_it_understands(name):
    first, *arguments = example_in(help_of(name))
    assert first == name
    assert GROUP.commands[name].make_context(name, arguments).params  # an option that is not there would be refused


@pytest.mark.parametrize("name", GROUP.commands)
def test_the_list_of_commands_says_in_whole_what_each_is_for(name):
    (line,) = re.findall(rf"^  {name} +(.+)$", help_of(), re.MULTILINE)
    assert line.endswith(".")
    assert not line.endswith("...")


@pytest.mark.parametrize("name", GROUP.commands)
def test_every_option_says_what_it_is(name):
    for parameter in GROUP.commands[name].params:
        assert parameter.help, parameter.name
