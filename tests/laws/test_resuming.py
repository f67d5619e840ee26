"""A learner that comes from a file, a pickle or a copy goes on exactly."""

import copy
import pickle

import pytest
from hypothesis import given

import bayou
from bayou import Batch
from tests.laws.cases import (
    VARIANTS,
    apart,
    bits,
    every,
    few,
    streams,
)


@every
@few
@given(first=streams, second=streams)
def test_resuming_from_a_file_is_exact(case, first, second, tmp_path_factory):
    first = case.taught(first)
    second = case.taught(second)
    path = tmp_path_factory.mktemp("resume") / "half.bayou"
    learner = case.new()
    learner.learn(first)
    learner.save(path)
    twins = [bayou.load(path), pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner), copy.copy(learner)]
    before = bits(learner)
    expected = learner.learn(second)
    for twin in twins:
        assert type(twin) is type(learner)
        assert bits(twin) == before
        assert twin.learn(second).tobytes() == expected.tobytes()
        assert bits(twin) == bits(learner)


@apart
def test_a_pickle_of_a_large_table_holds_what_was_touched(case):
    if "per-feature" in case.variant:
        pytest.skip("its prior is as large as the table")
    arguments = VARIANTS.get(case.record.name, {"default": lambda n: {}})[case.variant](1 << 20)
    learner = case.record.load()(n_features=1 << 20, dtype=case.dtype, **arguments)
    learner.learn(Batch.from_rows([{7: 1.0, 1 << 19: 2.0}], labels=[1]))
    parts = len(learner.learners) if case.many else 1
    # Combinations and an automatic head take 50 kB at most, whatever the table; one of its columns takes 8 MB.
    assert len(pickle.dumps(learner)) < 64_000 * parts
    assert bits(pickle.loads(pickle.dumps(learner))) == bits(learner)
