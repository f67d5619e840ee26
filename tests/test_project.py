"""Pages and scripts around the code: lengths, titles, install commands, workflows, versions, the picture."""

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import bayou

yaml = pytest.importorskip("yaml", reason="workflows are read with PyYAML: pip install '.[docs]'")

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*DOCS, ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)

# How a sentence begins that needs its context to be understood.
DANGLING = re.compile(r"(What|Of|Those|The same|Who|Whoever|As|That which)\b")


def page_ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize(
    ("name", "most"),
    [("docs/benchmarks.md", 250), ("docs/explanation/bank.md", 150), ("CHANGELOG.md", 80), ("README.md", 90)],
)
def test_pages_that_tend_to_grow_stay_short(name, most):
    assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) <= most


def imported_names() -> set[tuple[str, str, str]]:
    """The script, module and name of each name that a benchmark imports from bayou."""
    return {
        (script.name, node.module, name.name)
        for script in (ROOT / "benchmarks").glob("*.py")
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bayou"
        for name in node.names
    }


def test_benchmarks_import_names_that_are_there():
    names = imported_names()
    assert len({script for script, _, _ in names}) > 20
    lost = [
        f"{script}: {module}.{name}"
        for script, module, name in sorted(names)
        if not hasattr(importlib.import_module(module), name) and not importlib.util.find_spec(f"{module}.{name}")
    ]
    assert lost == []


def headings_and_first_lines(text: str) -> list[str]:
    """The headings of a page, and the line that its first paragraph begins with."""
    text = re.sub(r"<!--.*?-->", "", CODE.sub("", text), flags=re.DOTALL)
    headings = re.findall(r"^#{1,3} (.+)$", text, re.MULTILINE)
    paragraphs = [line for line in text.splitlines() if line.strip() and not line.startswith(("#", "!", "|"))]
    return headings + paragraphs[:1]


@pytest.mark.parametrize("path", PAGES, ids=page_ids)
def test_titles_and_first_lines_stand_on_their_own(path):
    lines = headings_and_first_lines(path.read_text(encoding="utf-8"))
    assert [line for line in lines if DANGLING.match(line)] == []


@pytest.mark.parametrize("line", ["# What can go wrong", "## Of the classes", "Those who wait for a copy."])
def test_a_line_that_dangles_is_found(line):
    assert any(DANGLING.match(found) for found in headings_and_first_lines(f"# Title\n\n{line}\n"))


@pytest.mark.parametrize("path", PAGES, ids=page_ids)
def test_no_page_installs_a_package_that_cannot_be_had(path):
    installed = re.findall(r"pip3? install ([^\n`&|;]*)", path.read_text(encoding="utf-8"))
    named = [arguments for arguments in installed if re.search(r"(?<![\w.-])bayou\b", arguments)]
    assert named == []


def steps_of(workflow: Path) -> list[tuple[str, dict]]:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [(name, step) for name, job in jobs.items() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=page_ids)
def test_every_step_of_a_workflow_calls_a_script_that_ci_run_calls(workflow):
    called_by_run = set(re.findall(r"^step (\.ci/\S+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    commands = [step["run"] for _, step in steps_of(workflow) if "run" in step]
    assert commands
    for command in commands:
        script = command.split()[0]
        assert script in called_by_run, command
        assert "\n" not in command.strip(), "a step is one call"
    assert all("uses" in step or "run" in step for _, step in steps_of(workflow))


def test_scripts_of_ci_run_exist_and_can_be_executed():
    scripts = set(re.findall(r"^step (\.ci/\S+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    assert {".ci/test", ".ci/long", ".ci/lint", ".ci/demo", ".ci/wheel", ".ci/other-pythons"} <= scripts
    for script in scripts:
        path = ROOT / script
        assert path.stat().st_mode & 0o111, script
        assert path.read_text().startswith("#!/usr/bin/env bash\n# "), script
        assert subprocess.run(["bash", "-n", path]).returncode == 0, script


def test_workflows_run_the_pythons_that_the_package_names():
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    named = {line.rsplit(" ", 1)[1] for line in classifiers if re.search(r"Python :: 3\.\d+$", line)}
    matrix = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]["test"]["strategy"]["matrix"]
    assert set(matrix["python"]) == named
    assert {os.split("-")[0] for os in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == bayou.__version__
    assert {"cff-version", "title", "message", "authors", "license"} <= set(citation)


def test_templates_are_what_github_reads():
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        template = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.name != "config.yml":
            assert {"name", "description", "body"} <= set(template), path
            assert all({"type", "attributes"} <= set(field) for field in template["body"]), path
    assert (ROOT / ".github" / "pull_request_template.md").exists()
    assert re.search(r"^\* +@", (ROOT / ".github" / "CODEOWNERS").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"])
def test_links_of_root_pages_lead_to_files(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (ROOT / target).exists(), target


def picture_module():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import architecture_picture
    finally:
        sys.path.pop(0)
    return architecture_picture


def test_the_picture_has_the_layers_of_the_import_contract_in_their_order():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [[name.strip() for name in layer.split("|")] for layer in contracts[0]["layers"]]
    drawn = [names for names, _, _ in picture_module().LAYERS]
    assert [sorted(names) for names in drawn] == [sorted(names) for names in layers if names != ["__main__"]]


def test_the_picture_is_the_one_that_its_script_draws():
    drawing = picture_module()
    assert drawing.PICTURE.read_text(encoding="utf-8") == drawing.picture(), "run docs/architecture_picture.py"


def test_the_picture_names_code_that_is_there():
    for where, _, _ in picture_module().STEPS:
        assert (ROOT / "src" / "bayou" / where).exists(), where


def test_the_picture_has_the_steps_of_the_list():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = re.split(r"^\d+\. ", text.partition("## Life of a row")[2].partition("\n## ")[0], flags=re.MULTILINE)[1:]
    drawn = [where for where, _, _ in picture_module().STEPS]
    assert len(drawn) == len(steps)
    assert [where for where, step in zip(drawn, steps, strict=True) if where not in step] == []


def test_paths_that_the_architecture_names_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`([a-z_]+/[a-z_/]+\.py)(?:: [\w.]+)?`", text))
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / "src" / "bayou" / path).exists()] == []
