"""Labels: negatives are -1 or 0, one way through the stream; a regressor is asked for numbers."""

import copy

import numpy as np
import pytest

import bayou
from bayou import BadInput, Batch, WrongTask
from bayou.core import registry
from tests.laws.cases import (
    ROWS,
    WIDTH,
    bits,
    classifiers,
    over,
    stream,
)


@classifiers
def test_labels_zero_and_one_equal_minus_one_and_one(case):
    batch = case.stream(11)
    signed, counted = case.new(), case.new()
    p = signed.learn(batch)
    q = counted.learn(batch.with_labels((batch.labels + 1) / 2))
    assert p.tobytes() == q.tobytes()
    assert bits(signed)[1] == bits(counted)[1]


@classifiers
def test_negative_labels_are_written_one_way_through_the_whole_stream(case, tmp_path):
    learner = case.new()
    learner.learn(Batch.from_rows(ROWS, labels=[1, 1, 1, 1]))  # says nothing about negatives
    learner.learn(Batch.from_rows(ROWS, labels=[1, 0, 1, 0]))
    learner.save(tmp_path / "zeros.bayou")
    for resumed in (learner, bayou.load(tmp_path / "zeros.bayou"), copy.deepcopy(learner)):
        before = bits(resumed)
        with pytest.raises(BadInput, match="both -1 and 0"):
            resumed.learn(Batch.from_rows(ROWS, labels=[1, 1, 1, -1]))
        assert bits(resumed) == before
        resumed.learn(Batch.from_rows(ROWS, labels=[1, 1, 1, 0]))


@over(lambda case: case.regresses)
def test_a_regressor_is_asked_for_numbers_and_a_classifier_for_probabilities(case):
    learner, classifier = case.new(), registry.find("marginal").load()(n_features=WIDTH)
    learner.learn(case.stream(21))
    said = learner.predict(case.stream(21))
    assert (said.noise > 0).all()
    # What it answers with may be cut to the labels so far.
    assert said.expected.tobytes() == np.clip(said.mean, said.expected.min(), said.expected.max()).tobytes()
    if "bounded" in learner.parameters:
        plain = case.new(bounded=False)
        plain.learn(case.stream(21))
        said = plain.predict(case.stream(21))
        assert said.expected.tobytes() == said.mean.tobytes()
    with pytest.raises(WrongTask, match=rf"{case.record.name} predicts numbers"):
        said.probability  # noqa: B018
    with pytest.raises(WrongTask, match="marginal predicts classes"):
        classifier.predict(stream(21)).noise  # noqa: B018
