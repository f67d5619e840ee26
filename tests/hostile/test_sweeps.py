"""The sweeps in short: one round of each, the same in every run. `python benchmarks/hostile.py` goes on for longer."""

import importlib

import pytest

from tests.hostile import kills, models
from tests.hostile.commands import WORKS
from tests.hostile.counts import Counts


def found(counts: Counts) -> str:
    assert sum(counts.tried.values()) > 0
    return "\n\n".join(counts.findings[:10])


@pytest.mark.parametrize("name", ["formats", "models"])
def test_nothing_is_found_in_a_round(name):
    assert found(importlib.import_module(f"tests.hostile.{name}").attack(0, seed=0)) == ""


def test_a_killed_training_loses_nothing_that_was_said_to_be_saved():
    assert found(kills.attack(0, seed=0, works=WORKS[:1])) == ""


@pytest.mark.long
@pytest.mark.parametrize("name", ["misuse", "bounds", "kills", "disks"])
def test_nothing_is_found_in_a_long_round(name):
    assert found(importlib.import_module(f"tests.hostile.{name}").attack(0, seed=0)) == ""


@pytest.mark.parametrize("spoil", [lambda content: content[:-1], lambda content: content[:40] + b"x" + content[41:]])
def test_a_sweep_would_notice(spoil, tmp_path, monkeypatch):
    """The models sweep finds a reader that takes whatever it is given."""
    path = tmp_path / "m.bayou"
    learner = models.learners()["marginal"]
    learner.save(path)
    path.write_bytes(spoil(path.read_bytes()))
    monkeypatch.setattr(models.bayou, "load", lambda path: models.learners()["adagrad"])
    assert "not the model that was written" in models._wrong(path, models.bits(learner))
