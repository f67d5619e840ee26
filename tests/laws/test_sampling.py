"""Draws of weights: keyed by seed, draw and feature, with the mean and spread of the posterior."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit, ndtri

from bayou import BadInput, Batch
from tests.laws.cases import WIDTH, anew, few, over, streams, with_posterior


def scores(learner: Any, batch: Batch, n_draws: int, seed: int = 0) -> np.ndarray:
    drawn = learner.sample(batch, n_draws, seed)
    if learner.record.task == "regression":
        return drawn
    return (ndtri if learner.parameters.get("link") == "probit" else logit)(drawn)


@with_posterior
@few
@given(batch=streams, seed=st.integers(0, 2**63), cut=st.integers(0, 40))
def test_a_draw_depends_on_seed_draw_and_feature_alone(case, batch, seed, cut):
    batch = case.taught(batch)
    learner = case.new()
    learner.learn(case.stream(22))
    whole = learner.sample(batch, 3, seed)
    assert whole.shape[:2] == (3, len(batch))
    parts = [learner.sample(batch[:cut], 3, seed), learner.sample(batch[cut:], 3, seed)]
    assert np.concatenate(parts, axis=1).tobytes() == whole.tobytes()
    assert learner.sample(batch, 2, seed).tobytes() == whole[:2].tobytes()
    order = np.random.default_rng(0).permutation(len(batch))
    shuffled = [learner.sample(anew(batch, slice(i, i + 1)), 3, seed)[:, 0] for i in order]
    for i, draws in zip(order, shuffled, strict=True):
        assert draws.tobytes() == np.ascontiguousarray(whole[:, i]).tobytes()


@over(lambda case: case.record.posterior and case.apart and case.record.name not in ("bank", "classes"))  # of lanes
def test_draws_have_the_posteriors_mean_and_spread(case):
    learner = case.new()
    learner.learn(case.stream(23))
    n = 4000
    x = 0.1 / np.maximum(1.0, np.sqrt(learner.variance.astype(float)))  # no score where a probability rounds to 1
    one_each = Batch.from_rows([{i: x[i]} for i in range(WIDTH)])
    drawn = scores(learner, one_each, n, seed=1)
    mean = learner.intercept[0] + x * learner.mean
    variance = learner.intercept[1] + x**2 * learner.variance
    # 4.5 standard errors: of 24 features none should stray so far, and the seed is fixed
    assert (np.abs(drawn.mean(axis=0) - mean) < 4.5 * np.sqrt(variance / n)).all()
    assert (np.abs(drawn.var(axis=0) / variance - 1) < 4.5 * math.sqrt(2 / n)).all()
    assert not np.array_equal(drawn, scores(learner, one_each, n, seed=2))


@over(lambda case: case.record.posterior and not case.many)
def test_a_draw_is_one_weight_vector_for_all_rows(case):
    learner = case.new()
    learner.learn(case.stream(24))
    none, first, second, both = scores(learner, Batch.from_rows([{}, {0: 0.3}, {1: -0.2}, {0: 0.3, 1: -0.2}]), 50).T
    # A probability near 1 tells little of its score.
    largest = np.max(np.abs([none, first, second, both]), axis=0)
    told = largest < 34.0
    assert told.any()
    assert (np.abs(first + second - none - both)[told] <= 1e-8 + 1e-15 * np.exp(largest[told])).all()
    if not learner.parameters["intercept"]:
        assert (none == 0).all()
    else:
        assert none.std() > 0


@over(lambda case: case.record.posterior and case.record.name not in ("bank", "classes"))
def test_draws_of_all_but_the_bank_are_the_same_for_either_purpose(case):
    learner = case.new()
    learner.learn(case.stream(25))
    drawn = [learner.sample(case.stream(26), 3, 1, purpose) for purpose in ("choose", "interval")]
    assert np.array_equal(*drawn)


@with_posterior
def test_a_bad_number_of_draws_or_seed_is_refused(case):
    learner = case.new()
    for n_draws, seed in [(0, 0), (-1, 0), (1.5, 0), (1, -1), (1, 0.5), (1, 2**64)]:
        with pytest.raises(BadInput):
            learner.sample(Batch.from_rows([{}]), n_draws, seed)
    with pytest.raises(BadInput, match=r"purpose is 'intervals'; .* Did you mean interval"):
        learner.sample(Batch.from_rows([{}]), 1, 0, "intervals")
