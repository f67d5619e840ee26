"""The patterns of style that a machine can see: how docstrings open."""

import ast
import re
from pathlib import Path

import pytest

import bayou

SOURCES = Path(bayou.__file__).parent
# A docstring opens with a verb or a noun phrase that can be understood without its caller.
RELATIVE = re.compile(r"(What|Of|Those|The same|Who|Whom|Whose|Whoever|As|How) ")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def relative_openings(text: str) -> list[str]:
    """Return the first lines of docstrings that open with a relative clause, with the lines that they are in."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED)]
    openings = [(node.body[0].lineno, doc.split("\n")[0]) for node in nodes if (doc := ast.get_docstring(node))]
    return [f"{line}: {opening}" for line, opening in openings if RELATIVE.match(opening)]


def test_relative_clauses_are_found():
    text = '"""Of three."""\ndef f():\n    """Return 1."""\ndef g():\n    """What it gained."""\n'
    assert relative_openings(text) == ["1: Of three.", "5: What it gained."]


@pytest.mark.parametrize("package", sorted({path.name for path in SOURCES.iterdir() if path.suffix != ".html"}))
def test_docstrings_open_with_a_verb_or_a_noun(package):
    paths = [SOURCES / package] if package.endswith(".py") else sorted((SOURCES / package).rglob("*.py"))
    found = [f"{path.relative_to(SOURCES)}:{line}" for path in paths for line in relative_openings(path.read_text())]
    assert found == []
