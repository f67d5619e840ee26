"""The Python reference of the site: every public name is on one of its pages, documented, with an example."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import bayou
from bayou import estimators, evaluate, learners, report, simulate, sources

PAGES = sorted((Path(__file__).parent.parent / "docs" / "reference").glob("*.md"))
# Names of things that are neither functions nor classes, and speak for themselves.
PLAIN = {"BATCH_SIZE", "FORMATS", "GENERATORS", "__version__"}
# Modules that need a package which not everybody has.
EXTRAS = {"bayou.river": "river", "bayou.spark": "pyspark"}


def on_the_pages() -> list[str]:
    return [name for page in PAGES for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M)]


def found(path: str):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def public_names() -> list[tuple[str, object]]:
    names = [(name, getattr(bayou, name)) for name in dir(bayou)]
    for module in (estimators, evaluate, learners, report, simulate, sources):
        names += [(name, getattr(module, name)) for name in module.__all__]
    return [(name, thing) for name, thing in names if name not in PLAIN and not inspect.ismodule(thing)]


def test_every_public_name_is_on_a_page():
    shown = {id(found(path)) for path in on_the_pages() if not path.startswith(tuple(EXTRAS))}
    assert [name for name, thing in public_names() if id(thing) not in shown] == []


@pytest.mark.parametrize("path", on_the_pages())
def test_what_is_on_a_page_is_documented_with_types_and_an_example(path):
    for prefix, package in EXTRAS.items():
        if path.startswith(prefix):
            extra = prefix.removeprefix("bayou.")
            pytest.importorskip(package, reason=f"{package} is not installed: pip install 'bayou[{extra}]'")
    thing = found(path)
    assert ">>>" in (inspect.getdoc(thing) or ""), "no example"
    call = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing)
    untyped = [
        parameter.name
        for parameter in call.parameters.values()
        if parameter.annotation is parameter.empty and parameter.name not in ("self", "args", "kwargs")
    ]
    assert untyped == []
