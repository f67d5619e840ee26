"""The documentation site builds without a warning, says what the code says, and fetches nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from bayou.cli import app
from tests import browser

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("mkdocs", reason="the site is built with mkdocs: pip install '.[docs]'")
    pytest.importorskip("latex2mathml", reason="formulas are made with latex2mathml: pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    # Not --strict: with --quiet it counts no warning, and without it stops at those on docstrings, too (griffe).
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    said = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    warnings = [line for line in said.stderr.splitlines() if line.startswith("WARNING")]
    assert [line for line in warnings if "griffe" not in line] == []
    return folder


def test_nothing_is_fetched_from_anywhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 10
    for page in pages:
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(https?:[^\"' >]+)", text)
        fetched += re.findall(r"<link\b[^>]*rel=[\"']?stylesheet[^>]*href=[\"']?(https?:[^\"' >]+)", text)
        assert not fetched, page


def test_every_command_and_option_is_in_the_reference(site):
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    commands = typer.main.get_command(app).commands
    assert {"train", "predict", "demo"} <= set(commands)
    for name, command in commands.items():
        assert f"bayou {name}" in page
        for option in (option for p in command.params for option in p.opts if option.startswith("--")):
            assert option in page, (name, option)


def test_formulas_are_formulas(site):
    for page in (site / "math").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<math" in text
        assert not re.search(r"\$[^$\n<]+\$|\\frac|\\sqrt", text), page


def test_every_learner_has_its_mathematics():
    from bayou.core import registry

    pages = " ".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "math").glob("*.md")).lower()
    for record in registry.own_records():
        name = record.path.rpartition(":")[2].lower()
        assert f"# {name}" in pages or f"**{name}" in pages, name


@pytest.mark.skipif(
    browser.find() is None, reason="no browser: install Chromium, or name one in BAYOU_BROWSER, to open the pages in it"
)
@pytest.mark.parametrize("pages", ["index.html", pytest.param("**/*.html", marks=pytest.mark.long)])
@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_pages_open_in_a_browser_without_a_complaint_and_fit(site, width, pages):
    names = [str(page.relative_to(site)) for page in site.glob(pages) if page.name != "404.html"]
    assert names
    with browser.Browser() as chromium:
        for name in names:
            page = chromium.open(site / name, width=width, phone=width < 500)
            assert page.console == [], name
            assert page.value("document.documentElement.scrollWidth") == width, name
            broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
            assert page.value(broken) == [], name
