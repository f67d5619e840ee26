"""The threat model names a test for what it states, and those tests exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "SECURITY.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and line != "| statement | test |"]


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file, name):
    assert name in functions(file)


@pytest.mark.parametrize("row", ROWS)
def test_a_statement_names_its_test_unless_it_is_a_warning(row):
    """Warnings are in bold: what somebody can do after all."""
    statement, tests = row.removeprefix("| ").removesuffix("|").rstrip().rsplit(" |", 1)
    assert "::" in tests or "**" in statement
