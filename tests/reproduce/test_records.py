"""The records of the tables and figures: every one is listed, under the name that finds it."""

import importlib
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
def test_the_contents_of_a_paper_are_its_modules_with_a_record(paper):
    modules = {found.name for found in pkgutil.iter_modules(paper.__path__)}
    runs = {name: getattr(importlib.import_module(f"{paper.__name__}.{name}"), "run", None) for name in modules}
    records = {name for name, run in runs.items() if isinstance(run, reproduce.Experiment)}
    assert records == set(paper.CONTENTS)
    for name in records:
        assert reproduce.find(f"{paper.PREFIX}{name}").paper == paper.PAPER
