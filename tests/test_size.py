"""How large the sources are, package by package, and that they stay within their budget."""

import io
import tokenize
from collections import Counter
from pathlib import Path

import pytest

import bayou

SOURCES = Path(bayou.__file__).parent
# Lines of code that all sources may have; comments and docstrings are free.
MAX_CODE_LINES = 43_700
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def count_code_lines(text: str) -> int:
    """Return how many lines hold a token other than a comment or a docstring, by Python's own tokenizer.

    A string that begins a statement counts as a docstring.
    """
    lines: set[int] = set()
    begins_statement = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            begins_statement = True
        if token.type in _NO_CODE or (token.type == tokenize.STRING and begins_statement):
            continue
        begins_statement = False
        lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def count_lines() -> tuple[Counter[str], Counter[str]]:
    """Return the lines of code and all lines of each package; of modules beside them as one."""
    code: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for path in sorted(SOURCES.rglob("*.py")):
        inside = path.relative_to(SOURCES)
        package = f"{inside.parts[0]}/" if len(inside.parts) > 1 else "*.py"
        text = path.read_text(encoding="utf-8")
        code[package] += count_code_lines(text)
        total[package] += text.count("\n")
    return code, total


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ('"""A docstring\nof two lines."""\n\nx = 1  # a comment\n', 1),
        ('def f():\n    """Return 2."""\n    # why\n    return (\n        2\n    )\n', 4),
        ('x = """a\nb\n"""\n', 3),
        ("x = [\n    1,\n\n    # a comment\n    2,\n]\n", 4),
    ],
)
def test_lines_of_code_hold_a_token_that_is_no_comment_or_docstring(text, expected):
    assert count_code_lines(text) == expected


def test_sources_are_within_their_budget(record_property):
    code, total = count_lines()
    table = [f"{'package':12} {'code':>8} {'all lines':>10}"]
    table += [f"{name:12} {code[name]:>8,} {total[name]:>10,}" for name in sorted(code)]
    table += [f"{'src/bayou':12} {code.total():>8,} {total.total():>10,}   at most {MAX_CODE_LINES:,} lines of code"]
    record_property("printed", table)  # tests/conftest.py prints it at the end
    assert code.total() <= MAX_CODE_LINES
