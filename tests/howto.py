"""Runs the code of a page, block by block, and holds it to what the page says comes out.

    ```python      runs in one namespace with the page's other Python
    ```sh          runs in bash, up to the first command that fails
    ```text        what the block just before it prints on standard output

All in the order of the page, in one folder that is empty at first. White space in an output does not matter; `...`
stands for anything in a line and, alone in one, for any lines. Whole numbers must be equal; others may differ by one in
the last digit that the page shows. Markers:

    <!-- data: adult.csv.gz w8a.train.svm.gz -->    the page reads these real data sets; they are put into the folder
    <!-- packages: river -->                        the page needs these packages, which not everybody has
    <!-- programs: java -->                         and these programs
    <!-- not run: the reason -->                    the next block is not run
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import bayou
from bayou.cli import app

FENCE = re.compile(
    r"^(?:<!-- not run: (?P<why>.+?) -->\n)?```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
NEEDS = re.compile(r"^<!-- (data|packages|programs): (.+?) -->$", re.MULTILINE)
# A `bayou` command without quotes, pipes and patterns; its output may go to a file.
PLAIN = re.compile(r"bayou (?P<arguments>[\w .,:=#-]+?)(?: > (?P<file>[\w.-]+))?")
SINGLE = re.compile(r"(?:(?:[^'\"\n\\]|'[^'\n]*'|\"[^\"\n]*\")*\n)*")  # every line is complete in itself
NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?"
TOKEN = re.compile(
    rf"(?P<lines>^\.\.\.$\n?)|(?P<rest>\.\.\.)|(?P<number>{NUMBER})|(?P<space>\s+)|(?P<other>.)", re.MULTILINE
)


@dataclass
class Block:
    """Code of a page that is run, what the page says it prints, and what it printed."""

    kind: str
    code: str
    line: int
    output: str | None = None
    printed: str = ""


@dataclass(frozen=True)
class Page:
    path: Path
    blocks: list[Block]
    data: list[str]  # names of real data sets
    packages: list[str]
    programs: list[str]

    def __str__(self) -> str:
        return self.path.stem


def read(path: Path) -> Page:
    """The blocks of a page, in order."""
    text = path.read_text(encoding="utf-8")
    blocks: list[Block] = []
    before: Block | None = None  # whose output a text block would be
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        kind, code = found["kind"], found["code"]
        if kind == "text" and found["why"] is None:
            if before is None:
                raise ValueError(f"{path.name}, line {line}: no code that is run comes just before this output.")
            before.output = code
        before = None
        if kind in ("python", "sh") and found["why"] is None:
            before = Block(kind, code, line)
            blocks.append(before)
    needs: dict[str, list[str]] = {"data": [], "packages": [], "programs": []}
    for kind, names in NEEDS.findall(text):
        needs[kind] += names.split()
    return Page(path, blocks, **needs)


def run(page: Page, in_bash: bool = False) -> dict[str, Any]:
    """Run a page in the present folder; what its Python has named. AssertionError where something else comes out.

    Lines of plain `bayou` commands are run in this process, which starts none and loads nothing again; `in_bash` runs
    all as a reader would.
    """
    names: dict[str, Any] = {"__name__": "page"}
    for block in page.blocks:
        where = f"{page.path.name}, line {block.line}"
        # A file of its own: tracebacks show the line, and Numba caches kernels beside their source.
        source = Path(".blocks", f"{page.path.stem}_{block.line}.{block.kind}").absolute()
        source.parent.mkdir(exist_ok=True)
        source.write_text(block.code, encoding="utf-8")
        if block.kind == "python":
            block.printed = _python(source, names)
        elif in_bash or not SINGLE.fullmatch(block.code):
            block.printed = _bash(block.code, where)
        else:
            block.printed = "".join(_line(line, where) for line in block.code.splitlines())
        if block.output is not None:
            complaint = difference(block.output, block.printed)
            assert complaint is None, (
                f"{where}: {complaint}\n--- the page says\n{block.output}--- it printed\n{block.printed}"
            )
    return names


def _python(source: Path, names: dict[str, Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(source.read_text(encoding="utf-8"), str(source), "exec"), names)
    return printed.getvalue()


def _line(line: str, where: str) -> str:
    """What a line prints that stands by itself."""
    plain = PLAIN.fullmatch(line)
    if plain is None:
        return _bash(line, where)
    said = CliRunner().invoke(app, shlex.split(plain["arguments"], comments=True))
    assert said.exit_code == 0, f"{where}: exit code {said.exit_code}\n{said.output}"
    if plain["file"] is None:
        return said.stdout
    Path(plain["file"]).write_text(said.stdout, encoding="utf-8")
    return ""


def _bash(code: str, where: str) -> str:
    first = {"PATH": Path(sys.executable).parent, "PYTHONPATH": Path(bayou.__file__).parents[1]}
    environment = os.environ | {
        name: os.pathsep.join([str(folder), os.environ.get(name, "")]).rstrip(os.pathsep)
        for name, folder in first.items()
    }
    said = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, f"{where}: exit code {said.returncode}\n{said.stdout}{said.stderr}"
    return said.stdout


def difference(shown: str, printed: str) -> str | None:
    """Why this is not the output that a page shows; None if it is."""
    pattern, numbers = [], []
    for kind, text in _tokens(shown.strip()):
        if kind == "number":
            numbers.append(text)
        pattern.append({"lines": r"(?s:.*?)", "rest": ".*?", "number": f"({NUMBER})", "space": r"\s+"}.get(kind, text))
    # Where lines may be anything, so may be the white space around them.
    whole = "".join(pattern).replace(r"\s+(?s:.*?)", r"\s*(?s:.*?)")
    found = re.fullmatch(whole, printed.strip())
    if found is None:
        return "other words come out"
    for said, is_ in zip(numbers, found.groups(), strict=True):
        if abs(_value(is_) - _value(said)) > _last_place(said) * 1.0001:
            return f"{said} is {is_}"
    return None


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    for token in TOKEN.finditer(text):
        assert token.lastgroup is not None
        yield token.lastgroup, re.escape(token.group()) if token.lastgroup == "other" else token.group()


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _last_place(number: str) -> float:
    """What one in the last digit shown is worth; 0 of whole numbers."""
    mantissa, _, exponent = number.partition("e")
    _, point, decimals = mantissa.partition(".")
    return 10.0 ** (int(exponent or 0) - len(decimals)) if point or exponent else 0.0
