"""The package itself: what an import costs, which names it has, that its docstrings tell the truth."""

import doctest
import importlib
import pkgutil
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

import bayou

HEAVY = ["numpy", "scipy", "numba", "sklearn", "pyarrow", "matplotlib", "pandas"]
# Importing bayou.__main__ would run the command.
MODULES = ["bayou", *(found.name for found in pkgutil.walk_packages(bayou.__path__, "bayou."))]
MODULES = [name for name in MODULES if not name.endswith("__main__")]


def loaded_after(statement: str) -> set[str]:
    """The modules a fresh interpreter holds after the statement."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import bayou", "import bayou.cli.commands"])
def test_import_loads_nothing_heavy(statement):
    assert loaded_after(statement).isdisjoint(HEAVY)


def test_help_loads_nothing_heavy():
    run = "import sys, bayou.cli\nsys.argv[1:] = ['--help']\ntry: bayou.cli.main()\nexcept SystemExit: pass"
    assert loaded_after(run).isdisjoint(HEAVY)


def test_version_is_the_installed_one():
    assert bayou.__version__ == version("bayou")


def test_command_is_installed():
    (command,) = entry_points(group="console_scripts", name="bayou")
    assert command.value == "bayou.cli:main"


@pytest.mark.parametrize("name", bayou.__all__)
def test_every_public_name_resolves(name):
    assert getattr(bayou, name) is not None
    assert name in dir(bayou)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'swamp'"):
        bayou.swamp  # noqa: B018


def test_types_are_shipped():
    assert (Path(bayou.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    for extra, package in {"river": "river", "spark": "pyspark"}.items():
        if name.startswith(f"bayou.{extra}"):
            pytest.importorskip(package, reason=f"{package} is not installed: pip install 'bayou[{extra}]'")
    assert doctest.testmod(importlib.import_module(name)).failed == 0
