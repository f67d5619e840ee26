"""What all learners say of their own state; the laws are in test_laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayou
from bayou import Batch, registry

every = pytest.mark.parametrize("kind", [record.load() for record in registry.records().values()])


@every
@given(features=st.sets(st.integers(0, 4999), max_size=20))
def test_touched_are_the_features_that_were_learned_from(kind, features):
    learner = kind(n_features=5000)
    learner.learn(Batch.from_rows([{feature: 1.0} for feature in sorted(features)], labels=[1] * len(features)))
    learner.learn(Batch.from_rows([{1: 1.0, 2: 1.0}], labels=[1], weights=[0.0]))  # weight 0 touches nothing
    assert learner.touched.tolist() == sorted(features)


@every
def test_one_feature_is_not_mistaken_for_the_intercept(kind):
    learner = kind(n_features=1)
    learner.learn(Batch.from_rows([{}], labels=[1]))
    assert learner.touched.tolist() == []


@every
def test_size_and_negative_label(kind, tmp_path):
    learner = kind(n_features=1 << 20)
    assert learner.negative_label is None
    learner.learn(Batch.from_rows([{3: 1.0}, {4: 1.0}], labels=[1, 0]))
    assert learner.negative_label == 0
    assert learner.nbytes >= learner.n_features * np.dtype(learner.parameters["dtype"]).itemsize
    learner.save(tmp_path / "m.bayou")
    assert (tmp_path / "m.bayou").stat().st_size < 10_000 < learner.nbytes
    assert bayou.load(tmp_path / "m.bayou").nbytes == learner.nbytes
