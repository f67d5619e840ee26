"""The how-to pages: their code runs, and what they say comes out, comes out."""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli import app
from tests import howto

LONG = {"bandit", "select-features", "serve", "spark", "text"}
PAGES = Path(__file__).parent.parent / "docs" / "howto"
ROW = re.compile(r"\| ([^|]+) \| `bayou (train [^`]+)` \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \|")


def pages_with_code() -> list[howto.Page]:
    return [page for page in map(howto.read, sorted(PAGES.glob("*.md"))) if page.blocks]


def _param(page: howto.Page):
    """Some pages take half a minute."""
    return pytest.param(page, id=str(page), marks=[pytest.mark.long] if page.path.stem in LONG else [])


@pytest.mark.parametrize("in_bash", [False, pytest.param(True, marks=pytest.mark.long)], ids=["", "in bash"])
@pytest.mark.parametrize("page", [_param(page) for page in pages_with_code()])
def test_page(page, in_bash, tmp_path, monkeypatch, request):
    if any(block.kind == "sh" for block in page.blocks) and shutil.which("bash") is None:
        pytest.skip("there is no bash here to run the page's commands")
    for name in page.packages:
        pytest.importorskip(name, reason=f"the page needs the package {name}, which is not installed")
    for name in page.programs:
        if shutil.which(name) is None:
            pytest.skip(f"the page needs the program {name}, which is not here")
    for name in page.data:
        here = request.getfixturevalue("data_directory") / name
        if not here.exists():
            pytest.skip(f"no real data: {here} is not there")
        (tmp_path / name).symlink_to(here)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names = howto.run(page, in_bash)
    if page.path.stem in FURTHER:
        FURTHER[page.path.stem](page, names)


def river_learns(page: howto.Page, names: dict[str, Any]) -> None:
    assert names["auc"].get() > 0.93
    assert names["one"].predict_proba_one(names["x"]) == names["many"].predict_proba_one(names["x"])
    assert names["segments"].get() > 0.7
    assert names["kept"].weights["site=a.com"] > 0 > names["kept"].weights["site=b.com"]


def compare_prints_its_table(page: howto.Page, names: dict[str, Any]) -> None:
    table = re.compile(r"^ *(\S+) +(0\.\d+) +(0\.\d+) +(0\.\d+) +(0\.\d+) ", re.MULTILINE)
    expected, found = (
        {name: list(map(float, scores)) for name, *scores in table.findall(text)}
        for text in (page.path.read_text(encoding="utf-8"), page.blocks[-1].printed)
    )
    assert len(found) == 4
    assert list(found) == list(expected)
    for name, scores in found.items():
        assert scores == pytest.approx(expected[name], abs=2e-5)  # the last digit shown, and rounding
    assert Path("curves.png").stat().st_size > 10_000
    assert Path("curves.csv").read_text().startswith("learner,example,log_loss")


def the_right_features_are_selected(page: howto.Page, names: dict[str, Any]) -> None:
    assert names["piped"][0].get_support(indices=True).tolist() == [3, 7]
    assert {row["feature"] for row in json.loads(Path("small.json").read_text())["features"]} == {"3", "7"}


# What must have come of a page beyond what it shows.
FURTHER = {
    "river": river_learns,
    "compare": compare_prints_its_table,
    "select-features": the_right_features_are_selected,
}


def test_further_checks_are_of_pages_that_are_there():
    assert set(FURTHER) <= {page.path.stem for page in pages_with_code()}


def test_pages_have_no_code_that_is_passed_over():
    """A fence that is indented, or has a kind with other words, would be overlooked."""
    for path in PAGES.glob("*.md"):
        text = path.read_text(encoding="utf-8")
        fences = re.findall(r"^[ \t]*```(?:python|sh|text|bash|console).*$", text, re.MULTILINE)
        known = re.findall(r"^```(?:python|sh|text)$", text, re.MULTILINE)
        assert fences == known, path.name
        assert text.count("<!-- not run") == len(re.findall(r"^<!-- not run: .+ -->\n```", text, re.MULTILINE)), (
            path.name
        )


def test_local_links_of_pages_lead_somewhere():
    for path in PAGES.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert (PAGES / target).exists(), f"{path.name}: {target}"


# --- the runner -----------------------------------------------------------------------------------------------------


def write(folder: Path, text: str) -> howto.Page:
    path = folder / "page.md"
    path.write_text(text, encoding="utf-8")
    return howto.read(path)


def test_blocks_run_in_order_in_one_namespace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = write(
        tmp_path,
        "```python\nx = 2\nopen('two', 'w').write('2')\n```\n\n```sh\ncat two\n```\n```text\n2\n```\n"
        "```python\nprint(x + 1)\n```\nwhich is\n```text\n3\n```\n",
    )
    assert howto.run(page)["x"] == 2


@pytest.mark.parametrize("in_bash", [False, True])
def test_lines_of_a_block_are_run_one_after_another(tmp_path, monkeypatch, in_bash):
    monkeypatch.chdir(tmp_path)
    code = "bayou --version > said.txt\ncat said.txt\nbayou --version  # once more\necho 'two\nlines' | wc -l\n"
    said = f"bayou {bayou.__version__}\n"
    howto.run(write(tmp_path, f"```sh\n{code}```\n```text\n{said}{said}2\n```\n"), in_bash)
    code = code.replace("two\n", "two, ")
    howto.run(write(tmp_path, f"```sh\n{code}```\n```text\n{said}{said}1\n```\n"), in_bash)
    with pytest.raises(AssertionError, match=r"page\.md, line 2: exit code 1"):
        howto.run(write(tmp_path, "```sh\nbayou info nothing.bayou\n```\n"), in_bash)


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ("bayou info m.bayou", True),
        ("bayou train a.svm --set alpha=.1  # some words", True),
        ("bayou train a.svm > said.txt", True),
        ("bayou info m.bayou | head -n 3", False),
        ("bayou train '*.svm'", False),
        ("bayou info $model", False),
        ("bayou info m && echo done", False),
        ("echo done", False),
    ],
)
def test_what_is_run_without_bash(line, plain):
    assert bool(howto.PLAIN.fullmatch(line)) is plain


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```\n```text\n2\n```\n",
        "```sh\necho one\n```\n```text\ntwo\n```\n",
        "```sh\nfalse\necho on\n```\n",
        "```sh\nfalse | cat\n```\n",
        "```sh\npython -c 'import sys; sys.exit(3)'\n```\n",
    ],
)
def test_a_page_that_is_wrong_fails(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match=r"page\.md, line 2"):
        howto.run(write(tmp_path, text))


def test_commands_are_run_by_this_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "python -c 'import bayou, sys; print(sys.prefix, bayou.__file__)'"
    howto.run(write(tmp_path, f"```sh\n{code}\n```\n```text\n{sys.prefix} {bayou.__file__}\n```\n"))


def test_an_output_of_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match="line 2: no code"):
        write(tmp_path, "```text\n2\n```\n")
    with pytest.raises(ValueError, match="line 6: no code"):
        write(tmp_path, "<!-- not run: why -->\n```sh\nls\n```\n```text\n2\n```\n")


def test_what_is_not_to_be_run_is_not_run(tmp_path):
    page = write(tmp_path, "<!-- not run: yours -->\n```sh\nfalse\n```\n```\nplain\n```\n")
    assert page.blocks == []


def test_a_page_says_what_it_needs(tmp_path):
    needs = ["data: a.csv b.svm", "packages: river", "programs: java", "data: c.svm"]
    page = write(tmp_path, "\n".join(f"<!-- {need} -->" for need in needs))
    assert page.data == ["a.csv", "b.svm", "c.svm"]
    assert (page.packages, page.programs) == (["river"], ["java"])


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("log loss   0.47", "log loss 0.4682"),
        ("0.468", "0.467"),  # rounding may fall on either side
        ("1,234 rows in ... s", "1,234 rows in 0.8 s"),
        ("first\n...\nlast", "first\n1\n2\nlast"),
        ("first\n...\nlast", "first\nlast"),
        ("1.2e-05 [a] (b)?", "1.1e-05 [a] (b)?"),
        ("-0.00", "0.00"),
        ("2^22, 5.", "2^22, 5."),
    ],
)
def test_outputs_that_agree(shown, printed):
    assert howto.difference(shown, printed) is None


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("log loss 0.47", "log loss 0.49"),
        ("log loss 0.47", "log-loss 0.47"),
        ("1,234", "1,235"),
        ("1,234", "1234.5"),
        ("12", "112"),
        ("first\n...\nlast", "first\nlast but one"),
        ("in ... s", "in 2\nand 3 s"),
        ("1.2e-05", "1.4e-05"),
        ("0.5", "-0.5"),
        ("a", "a\nb"),
        ("0.5", "nan"),
    ],
)
def test_outputs_that_do_not(shown, printed):
    assert howto.difference(shown, printed) is not None


# --- the page of known data sets ------------------------------------------------------------------------------------


def rows() -> list[tuple[str, ...]]:
    return ROW.findall((PAGES / "data-sets.md").read_text())


def test_the_page_has_the_sets_it_should() -> None:
    commands = " ".join(row[1] for row in rows())
    for name in ("a9a", "adult", "criteo", "nycflights13", "sms_spam", "talkingdata"):
        assert name in commands


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_known_data_sets(data_directory, monkeypatch, row) -> None:
    _, command, examples, log_loss, auc = row
    monkeypatch.chdir(data_directory)
    said = CliRunner().invoke(app, [*shlex.split(command), "--json", "--quiet"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert found["examples"] == int(examples.replace(",", ""))
    assert found["log_loss"] == pytest.approx(float(log_loss), abs=2e-5)  # the last digit shown, and rounding
    assert found["auc"] == pytest.approx(float(auc), abs=2e-4)


def test_the_walk_through_a_kernel_quotes_the_kernel():
    page = (PAGES / "how-a-kernel-is-built.md").read_text(encoding="utf-8")
    source = Path(bayou.__file__).parent / "learners" / "marginal.py"
    lines = {line.strip() for line in source.read_text(encoding="utf-8").splitlines()}
    quoted = re.findall(r"<!-- not run: quoted from the source -->\n```python\n(.*?)```", page, re.DOTALL)
    assert len(quoted) > 5
    assert [line for block in quoted for line in block.splitlines() if line.strip() not in lines] == []
