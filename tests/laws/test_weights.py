"""Weights of examples: 0 is nothing, 1 is no weight, and a huge one is survived or refused."""

import numpy as np
import pytest
from hypothesis import given

from bayou import BadInput, Batch
from tests.laws.cases import Case, bits, every, few, streams


@every
def test_weight_zero_predicts_and_changes_nothing(case):
    learner = case.new()
    learner.learn(case.stream(8))
    batch = case.stream(9)
    before, expected = bits(learner), learner.predict(batch).expected
    answered = learner.learn(batch.with_labels(batch.labels, weights=np.zeros(len(batch))))
    assert answered.tobytes() == expected.tobytes()
    assert bits(learner) == before


@every
def test_weight_zero_changes_nothing_in_a_fresh_learner_either(case):
    learner = case.new()
    before = bits(learner)
    learner.learn(Batch.from_rows([{0: 1.0}], labels=[0], weights=[0.0]))
    assert bits(learner) == before
    learner.learn(Batch.from_rows([{0: 1.0}], labels=[-1]))  # so the other way to write a negative is still open


@every
@few
@given(batch=streams)
def test_examples_of_weight_zero_are_as_good_as_absent(case, batch):
    batch = case.taught(batch)
    learner, other = case.new(), case.new()
    learner.learn(batch)
    other.learn(batch.take(batch.weights > 0))
    header, arrays = bits(learner)
    assert (header["examples"], arrays) == (other.examples, bits(other)[1])
    assert learner.examples == np.count_nonzero(batch.weights)


@every
def test_a_weight_too_small_for_the_state_is_a_weight_of_zero_in_any_cut(case):
    batch = case.stream(23)
    batch = batch.with_labels(batch.labels, np.where(np.arange(len(batch)) % 2, 1.0, 1e-60))
    whole, cut = case.new(), case.new()
    whole.learn(batch)
    for row in range(len(batch)):
        cut.learn(batch[row : row + 1])
    assert bits(whole, by_row=True) == bits(cut, by_row=True)


@every
def test_weight_one_is_no_weight(case):
    batch = case.stream(10, weighted=False)
    learner, other = case.new(), case.new()
    learner.learn(batch)
    other.learn(batch.with_labels(batch.labels, weights=np.ones(len(batch))))
    assert bits(learner) == bits(other)


@every
@pytest.mark.parametrize("row", [{}, {0: 1e-3}], ids=["empty row", "small value"])
def test_a_huge_weight_is_survived_or_refused(case, row):
    for weight in (1e6, 1e40, 1e300):
        survives_or_refuses(case, weight, row)


def survives_or_refuses(case: Case, weight: float, row: dict[int, float]) -> None:
    learner = case.new()
    learner.learn(case.stream(17))
    before = bits(learner)
    refusal = ""
    try:
        p = learner.learn(Batch.from_rows([row] * 4, labels=[1, -1, 1, 1], weights=[weight] * 4))
    except BadInput as error:
        refusal = str(error)
    if refusal:
        assert "weight" in refusal  # it says which number to change
        assert bits(learner) == before
    else:
        assert np.isfinite(p).all()
        assert all(np.isfinite(array).all() for array in learner._arrays().values())
