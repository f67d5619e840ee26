"""A batch is its rows, one after another, wherever it is cut."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou import BadInput
from bayou.core.batch import Example
from tests.laws.cases import WIDTH, anew, bits, every, few, over, plain, same, streams, together


@every
@few
@given(batch=streams, cuts=st.lists(st.integers(0, 40)))
def test_a_batch_is_its_rows_one_after_another(case, batch, cuts):
    batch = case.taught(batch)
    whole, by_row, by_piece = case.new(), case.new(), case.new()
    expected = whole.learn(batch)
    rows = [by_row.learn(anew(batch, slice(i, i + 1))) for i in range(len(batch))]
    edges = [0, *sorted(min(cut, len(batch)) for cut in cuts), len(batch)]
    pieces = [by_piece.learn(batch[a:b]) for a, b in itertools.pairwise(edges)]
    assert together(rows).tobytes() == expected.tobytes()
    assert together(pieces).tobytes() == expected.tobytes()
    assert bits(by_row, by_row=True) == bits(by_piece, by_row=True) == bits(whole, by_row=True)


@every
@few
@given(batch=streams)
def test_a_row_alone_is_a_batch_of_one(case, batch):
    learner, by_row = case.new(), case.new()
    for i in range(len(batch)):
        part = anew(batch, slice(i, i + 1))
        values = part.values.astype(case.dtype)
        extent = part.nonzeros, part.max_abs_value, part.is_all_ones
        row = Example(part.indices.copy(), values.copy(), *extent, part.max_index)
        alone = case.taught(part)
        alone = alone.with_labels(np.maximum(alone.labels, 0.0) if case.record.task == "binary" else alone.labels)
        values.flags.writeable = False  # as all of a batch
        alone.values = values
        expected = learner.learn(alone)[0]
        assert same(np.asarray(by_row.learn_example(row, alone.labels[0], 0.0)), expected)
        assert same(np.asarray(by_row.learn_example(row, alone.labels[0], float(alone.weights[0]))), expected)
    assert bits(by_row) == bits(learner)


@plain
def test_a_row_alone_is_refused_as_in_a_batch(case):
    learner = case.new()
    learner.learn(case.stream(5))
    before, values = bits(learner), np.ones(1, case.dtype)
    row = Example(np.array([WIDTH], np.uint32), values, 1, 1.0, True, WIDTH)
    with pytest.raises(BadInput, match="out of range"):
        learner.learn_example(row, True)
    far = row._replace(indices=np.array([0], np.uint32), values=values * 1e30, max_abs_value=1e30, max_index=0)
    if case.dtype == "float32":
        with pytest.raises(BadInput, match="too large"):
            learner.learn_example(far, False)
    fine = row._replace(indices=np.array([0], np.uint32), max_index=0)
    with pytest.raises(BadInput, match="weight"):
        learner.learn_example(fine, True, -1.0)
    with pytest.raises(BadInput, match="snapshot"):
        learner.snapshot().learn_example(fine, True)
    assert bits(learner) == before
    assert np.array_equal(learner.snapshot().learn_example(fine, True, 0.0), learner.predict(fine.batch()).expected[0])


@every
def test_a_batch_too_long_to_be_learned_at_once_is_cut_without_a_trace(case, monkeypatch):
    batch = case.stream(26)
    whole, cut = case.new(), case.new()
    p = whole.learn(batch)
    monkeypatch.setattr("bayou.core.learner.LEARN_CHUNK_ROWS", 7)
    assert (cut.learn(batch) == p).all()
    assert bits(whole, by_row=True) == bits(cut, by_row=True)


@over(lambda case: case.immediate)
def test_end_pass_of_a_one_pass_learner_does_nothing(case):
    learner = case.new()
    learner.learn(case.stream(5))
    before = bits(learner, by_row=True)
    if case.record.passes == "single":
        assert learner.end_pass() is False
        assert bits(learner, by_row=True) == before
