"""A copy made in parts while the learner goes on is what the learner was at the beginning."""

import numpy as np
import pytest

from bayou import Batch
from bayou.core import incremental_snapshot
from bayou.core.incremental_snapshot import IncrementalSnapshot
from bayou.learners import Bank, Classes, Marginal
from bayou.recipe.feature_counts import FeatureCounts
from bayou.recipe.feature_names import FeatureNames, NewNames
from bayou.recipe.recipe import Recipe


def batches(n, features, rng, n_classes=2):
    for _ in range(n):
        rows = [dict.fromkeys(rng.integers(features, size=5).tolist(), 1.0) for _ in range(20)]
        yield Batch.from_rows(rows, labels=rng.integers(n_classes, size=20))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(incremental_snapshot, "BLOCK_ROWS", 100)
    monkeypatch.setattr(incremental_snapshot, "MIN_INCREMENTAL_BYTES", 0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("features", [1500, 60])  # few of many rows touched, and all of few
def test_it_is_the_file_of_the_beginning(tmp_path, seed, features):
    rng = np.random.default_rng(seed)
    learner = Marginal(n_features=3000)
    for batch in batches(5, features, rng):
        learner.learn(batch)
    learner.save(tmp_path / "then")
    copy = IncrementalSnapshot(learner)
    stream = batches(1000, features, rng)
    while not copy.copy_some():
        for _ in range(rng.integers(3)):
            batch = next(stream)
            copy.before_learn(batch)
            learner.learn(batch)
    copy.save(tmp_path / "copied")
    assert (tmp_path / "copied").read_bytes() == (tmp_path / "then").read_bytes()
    assert learner.examples > 100
    copy.to_learner().save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "then").read_bytes()


def test_several_classes_are_copied_at_once(tmp_path):
    rng = np.random.default_rng(0)
    learner = Classes(n_features=500, learner="marginal")
    for batch in batches(3, 500, rng, 2):
        learner.learn(batch)
    learner.save(tmp_path / "then")
    copy = IncrementalSnapshot(learner)
    assert copy.done
    for batch in batches(3, 500, rng, 4):  # classes that are new
        copy.before_learn(batch)
        learner.learn(batch)
    copy.save(tmp_path / "copied")
    assert (tmp_path / "copied").read_bytes() == (tmp_path / "then").read_bytes()


def test_names_that_come_later_are_not_in_it(tmp_path):
    learner = Marginal(n_features=1024)
    learner.extras.recipe, learner.extras.names = Recipe(kind="rows", bits=10), FeatureNames(1024)
    learner.save(tmp_path / "then")
    copy = IncrementalSnapshot(learner)
    text = np.frombuffer(b"age", np.uint8)
    learner.extras.names.add(NewNames(np.uint32([7]), np.int32([[-1, -1, 0, 3]]), text, text, b"="))
    copy.save(tmp_path / "copied")
    assert (tmp_path / "copied").read_bytes() == (tmp_path / "then").read_bytes()


@pytest.mark.long
def test_a_bank_has_two_tables(tmp_path):
    rng = np.random.default_rng(0)
    learner = Bank(n_features=3000)
    for batch in batches(5, 3000, rng):
        learner.learn(batch)
    learner.save(tmp_path / "then")
    copy = IncrementalSnapshot(learner)
    stream = batches(1000, 3000, rng)
    while not copy.copy_some():
        batch = next(stream)
        copy.before_learn(batch)
        learner.learn(batch)
    copy.save(tmp_path / "copied")
    assert (tmp_path / "copied").read_bytes() == (tmp_path / "then").read_bytes()


def test_how_often_features_came_is_copied_last(tmp_path):
    learner = Marginal(n_features=1024)
    learner.extras.recipe, learner.extras.uses = Recipe(kind="rows", bits=10), FeatureCounts()
    batch = Batch.from_rows([{3: 1.0}, {3: 1.0, 7: 2.0}], labels=[1, 0])
    learner.extras.uses.count(batch)
    learner.save(tmp_path / "then")
    copy = IncrementalSnapshot(learner)
    assert not copy.uses_taken
    copy.copy_counts()
    learner.extras.uses.count(batch)
    copy.save(tmp_path / "copied")
    assert (tmp_path / "copied").read_bytes() == (tmp_path / "then").read_bytes()
