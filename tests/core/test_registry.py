"""The registry: one record per learner drives everything, so every record must be true."""

import importlib
import inspect
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

import bayou
from bayou import BadInput
from bayou.core import registry
from bayou.core.learner import Learner
from bayou.core.registry import Record
from bayou.core.sharding import ShardingLearner

every = pytest.mark.parametrize("record", registry.records().values(), ids=lambda record: record.name)


@pytest.fixture
def installed(monkeypatch):
    """Make some entry points of the group bayou.learners look installed."""

    def install(**values: str) -> None:
        entries = EntryPoints(EntryPoint(name, value, "bayou.learners") for name, value in values.items())
        monkeypatch.setattr("importlib.metadata.entry_points", lambda **params: entries.select(**params))
        registry.records.cache_clear()

    yield install
    monkeypatch.undo()
    registry.records.cache_clear()


THEIRS = Record("theirs", "tests.core.test_registry:Theirs", None, "a third party's", "none", posterior=False)
IMPOSTOR = Record("marginal", "tests.core.test_registry:Theirs", None, "takes our name", "none")


class Theirs(Learner):
    name = "theirs"


def test_names_are_the_keys_the_default_first():
    first, *others = registry.records()
    assert first == registry.DEFAULT
    assert len(others) == 13
    assert others == sorted(others)
    for name, record in registry.records().items():
        assert record.name == name == record.load().name
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)


@every
def test_a_record_fits_its_learner(record):
    learner = record.load()
    assert issubclass(learner, Learner)
    assert record.summary
    assert record.paper
    hints = get_type_hints(Record)
    for field in ("task", "dtype", "merge", "passes"):
        assert getattr(record, field) in hints[field].__args__
    arguments = inspect.signature(learner).parameters
    assert {"n_features", "dtype", "intercept"} <= set(arguments)
    assert arguments["intercept"].default is True
    made = learner(n_features=3)
    assert made.record is registry.find(record.name)
    assert made.mean.dtype == record.dtype
    if record.posterior:
        assert made.variance.shape[-1] == 3


@every
@pytest.mark.parametrize("dtype", ["float32", "float64", np.float32, np.dtype("float64")])
def test_every_learner_takes_both_types_and_no_intercept(record, dtype):
    made = record.load()(n_features=4, dtype=dtype, intercept=False)
    assert made.mean.dtype == dtype
    assert not np.any(made.intercept)
    assert made.n_features == 4


@every
def test_parameters_never_share_a_name_with_an_attribute(record):
    """Except those that a learner shows under the same name with the same meaning."""
    shared = set(inspect.signature(record.load()).parameters) & set(dir(record.load()))
    # what lanes were asked for, and how they are doing; the kind of covariance, and that of some weights
    assert shared <= {"n_features", "intercept", "lanes", "covariance"}


@every
def test_every_record_has_its_estimator(record):
    if record.estimator is not None:
        estimators = importlib.import_module("bayou.estimators")
        assert inspect.isclass(getattr(estimators, record.estimator))
        assert record.estimator in estimators.__all__
        assert getattr(bayou, record.estimator) is getattr(estimators, record.estimator)
        assert registry.by_estimator(record.estimator) is record


@every
def test_learners_are_importable_by_their_class_name(record):
    learners = importlib.import_module("bayou.learners")
    name = record.path.rpartition(":")[2]
    assert getattr(learners, name) is record.load()


def test_unknown_class_names_are_attribute_errors():
    learners = importlib.import_module("bayou.learners")
    with pytest.raises(AttributeError, match="Swamp"):
        learners.Swamp  # noqa: B018


def test_an_unknown_name_is_answered_with_the_names_there_are():
    with pytest.raises(
        BadInput,
        match=r"no learner called 'swamp'; there are: bank, adagrad, classes, forest, ftrl, gaussian, joint, lasso",
    ):
        registry.find("swamp")


def test_records_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        registry.find("marginal").merge = "exact"


def test_finding_a_learner_loads_no_other():
    for asked in ("registry.find('ftrl')", "bayou.learners.FTRL", "registry.by_class('FTRL')", "registry.Record"):
        code = f"import bayou; from bayou import registry; {asked}; import sys; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        loaded = {name for name in done.stdout.split() if name.startswith("bayou.learners.")}
        loaded -= {name for name in loaded if name.startswith("bayou.learners.bases")}
        assert loaded == ({"bayou.learners.ftrl"} if "registry.Record" != asked else set()), asked


def test_asking_for_an_unknown_attribute_of_the_package_loads_nothing_heavy():
    code = "import bayou, sys; hasattr(bayou, 'SwampClassifier'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"numpy", "numba", "sklearn"}.isdisjoint(done.stdout.split())


def test_type_checkers_are_told_of_every_learner():
    source = Path(importlib.import_module("bayou.learners").__file__).read_text()
    told = re.findall(r"^    from (bayou\.learners\.\w+) import (\w+) as \2$", source, re.MULTILINE)
    assert sorted(told) == sorted(tuple(record.path.split(":")) for record in registry.own_records())


def test_third_parties_add_learners_by_entry_point(installed):
    installed(theirs="tests.core.test_registry:THEIRS")
    assert list(registry.records())[-1] == "theirs"
    assert registry.find("theirs").summary == "a third party's"
    assert registry.find("theirs").load().name == "theirs"


def test_third_parties_cannot_take_our_names(installed):
    installed(marginal="tests.core.test_registry:IMPOSTOR")
    assert registry.find("marginal").estimator == "MarginalClassifier"
    assert registry.records()["marginal"] is registry.find("marginal")


def test_finding_our_own_needs_no_look_at_what_is_installed(installed):
    installed(broken="no_such_module:RECORD")
    assert registry.find("adagrad").name == "adagrad"


def test_the_table_in_the_docs_is_the_registrys():
    page = (Path(__file__).parents[2] / "docs" / "learners.md").read_text()
    assert registry.as_table() in page


def test_a_broken_plugin_is_named_and_left_out(installed):
    installed(broken="no_such_module:RECORD", text="tests.core.test_registry:__doc__")
    with (
        pytest.warns(UserWarning, match="'broken'.*cannot be loaded"),
        pytest.warns(UserWarning, match="'text'.*not a bayou.registry.Record"),
    ):
        found = registry.records()
    assert "marginal" in found
    assert not {"broken", "text"} & set(found)


def test_records_say_which_learners_can_be_trained_in_shards():
    for record in registry.own_records():
        assert record.sharding == issubclass(record.load(), ShardingLearner), record.name
