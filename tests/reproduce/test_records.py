"""The records of the tables and figures: every one is listed, under the name that finds it."""

import importlib
import inspect
import pkgutil

import pytest

from bayou import reproduce
from bayou.reproduce import marginal_gaussian, olss, oslog, quadratic_l1


def test_records_are_complete():
    found = reproduce.experiments()
    assert tuple(experiment.name for experiment in found) == reproduce.NAMES
    for experiment in found:
        assert 0 < experiment.minutes[0] <= experiment.minutes[1]


@pytest.mark.parametrize("paper", [marginal_gaussian, quadratic_l1, olss, oslog], ids=lambda paper: paper.PAPER)
def test_the_contents_of_a_paper_are_its_modules_that_run(paper):
    modules = {
        found.name: importlib.import_module(f"{paper.__name__}.{found.name}")
        for found in pkgutil.iter_modules(paper.__path__)
    }
    fills_a_report = {
        name
        for name, module in modules.items()
        if list(inspect.signature(getattr(module, "run", len)).parameters) == ["report"]
    }
    assert fills_a_report == set(paper.CONTENTS)
    assert set(paper.TAKE_DATA) <= fills_a_report
    for name in fills_a_report:
        assert reproduce.find(f"{paper.PREFIX}{name}").paper == paper.PAPER
