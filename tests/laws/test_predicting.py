"""A prediction is what `learn` would have answered, and making it changes nothing."""

import numpy as np
from hypothesis import given

from tests.laws.cases import anew, bits, every, few, same, streams


@every
@few
@given(batch=streams)
def test_learn_answers_what_predict_would_have(case, batch):
    batch = case.taught(batch)
    learner = case.new()
    for i in range(len(batch)):
        row = batch[i : i + 1]
        predicted = learner.predict(row).expected
        assert same(predicted, learner.learn(row))


@every
def test_observe_tells_all_that_predict_would_have(case):
    learner, twin = case.new(), case.new()
    batch = case.stream(28)
    told = learner.observe(batch)
    names = ["expected", "mean"] + ["variance"] * case.record.posterior + ["noise"] * case.regresses
    for row in range(len(batch)):
        before = twin.predict(batch[row : row + 1])
        for name in names:
            tolerance = 1e-12 if name == "variance" else 0.0  # solutions of several rows at once may round otherwise
            now, then = getattr(told, name)[row], getattr(before, name)[0]
            np.testing.assert_allclose(now[: len(then)] if case.many else now, then, rtol=tolerance)
        twin.learn(batch[row : row + 1])


@every
@few
@given(batch=streams)
def test_predictions_do_not_depend_on_their_neighbours(case, batch):
    batch = case.taught(batch)
    learner = case.new()
    learner.learn(case.stream(3))
    together = learner.predict(batch)
    for i in range(len(batch)):
        alone = learner.predict(anew(batch, slice(i, i + 1)))
        assert np.array_equal(alone.expected[0], together.expected[i])
        assert np.array_equal(alone.mean[0], together.mean[i])


@every
@given(batch=streams)
@few
def test_predict_changes_nothing(case, batch):
    batch = case.taught(batch)
    learner = case.new()
    learner.learn(case.stream(5))
    before = bits(learner)
    learner.predict(batch)
    if case.record.posterior:
        learner.sample(batch, 2)
    assert bits(learner) == before
