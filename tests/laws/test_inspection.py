"""What a learner shows of itself: copies, of the right type, of what it uses."""

import numpy as np
import pytest

from bayou import Batch, NoPosterior
from tests.laws.cases import WIDTH, bits, every, linear, without_posterior


@every
def test_what_a_learner_shows_are_copies(case):
    learner = case.new()
    learner.learn(case.stream(18))
    before = bits(learner)
    learner.mean[:] = 7
    learner.parameters["dtype"] = "float16"
    for value in learner.parameters.values():
        if isinstance(value, np.ndarray | list):
            try:
                value[0] = 7
            except ValueError:
                assert not value.flags.writeable
    if case.record.posterior:
        learner.variance[:] = 7
        learner.predict(case.stream(18)).variance[:] = 7
    learner.predict(case.stream(18)).mean[:] = 7
    assert isinstance(learner.intercept, tuple)
    assert bits(learner) == before


@linear
def test_mean_variance_and_intercept_say_what_predict_uses(case):
    learner = case.new()
    learner.learn(case.stream(19))
    one_each = Batch.from_csr(np.eye(WIDTH))
    predicted = learner.predict(one_each)
    np.testing.assert_allclose(predicted.mean, learner.mean + learner.intercept[0], rtol=1e-5, atol=1e-5)
    if case.record.posterior and not learner.parameters.get("memory"):
        np.testing.assert_allclose(predicted.variance, learner.variance + learner.intercept[1], rtol=1e-5)


@every
def test_weights_have_the_type_of_the_state(case):
    learner = case.new()
    learner.learn(case.stream(19))
    assert learner.mean.dtype == case.dtype
    if case.record.posterior:
        assert learner.variance.dtype == case.dtype


@without_posterior
def test_without_a_posterior_uncertainty_is_refused_with_a_sentence(case):
    learner = case.new()
    learner.learn(case.stream(21))
    prediction = learner.predict(case.stream(21))
    for ask in (
        lambda: learner.variance,
        lambda: prediction.variance,
        lambda: learner.sample(case.stream(21), 3),
        lambda: learner.snapshot().variance,
    ):
        with pytest.raises(NoPosterior, match=rf"{case.record.name} has no posterior"):
            ask()
