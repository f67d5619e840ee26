"""Nothing becomes non-finite, whatever values, weights and priors come."""

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from bayou import BadInput, Batch
from bayou.core.validation import LARGEST_TARGET, LIMIT
from tests.laws.cases import WIDTH, certainty, every, fewest, seeds


def largest_allowed(learner: Any, batch: Batch) -> float:
    """What the learner says values may reach, when some are too large."""
    with pytest.raises(BadInput, match="too large") as refusal:
        learner.learn(batch)
    said = re.search(r"may reach ([0-9.]+e[+-][0-9]+)", str(refusal.value))
    assert said, refusal.value
    return float(said[1]) * 0.95  # it is said to two digits


def nasty(learner: Any, seed: int, rows: int) -> Batch:
    """Rows of values from 1e-30 up to the largest allowed, with weights up to 1e6."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.geometric(0.3, rows), WIDTH)
    n = lengths.sum()
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([rng.permutation(WIDTH)[:length] for length in lengths])
    labels = rng.choice([-1.0, 1.0], rows)
    if learner.record.task == "regression":
        labels *= 10 ** rng.uniform(-30, math.log10(LARGEST_TARGET[learner.parameters["dtype"]]) - 1e-9, rows)
    weights = np.where(rng.random(rows) < 0.5, 1.0, 10 ** rng.uniform(-6, 6, rows))
    longest, heaviest = int(lengths.max()), max(float(weights.max()), 1.0)
    worst = np.full(longest, LIMIT[learner.parameters["dtype"]])
    top = largest_allowed(learner, Batch.from_arrays([0, longest], np.arange(longest), worst, [1], [heaviest]))
    # Shorter rows, and lighter ones, may have larger values.
    top = np.repeat(top * np.sqrt((1 + longest) / (1 + lengths)) * heaviest / np.maximum(weights, 1.0), lengths)
    sizes = 10 ** np.where(rng.random(n) < 0.5, rng.uniform(-30, np.log10(top), n), rng.uniform(-3, 3, n))
    sizes = np.minimum(np.where(rng.random(n) < 0.2, top, sizes), top)
    return Batch.from_arrays(indptr, indices, sizes * rng.choice([-1.0, 1.0], n), labels, weights)


_NASTY_GAUSSIAN = {
    "prior_variance": st.floats(-6, 6).map(lambda e: 10**e),
    "prior_mean": st.floats(-1e6, 1e6),
    "intercept_variance": st.floats(-6, 6).map(lambda e: 10**e),
}
NASTY_PRIORS = {
    "moment": st.fixed_dictionaries({}, optional=_NASTY_GAUSSIAN),
    "variational": st.fixed_dictionaries({}, optional=_NASTY_GAUSSIAN),
    "gaussian": st.fixed_dictionaries({"noise_variance": st.none() | st.just(4.0)}, optional=_NASTY_GAUSSIAN),
    "marginal": st.fixed_dictionaries(
        {},
        optional={
            "prior_variance": st.floats(-6, 6).map(lambda e: 10**e),
            "prior_mean": st.floats(-1e6, 1e6),
            "intercept_variance": st.floats(-6, 6).map(lambda e: 10**e),
            "temper": st.sampled_from([(0.0, 0.0), (1.0, 1.0), (5.0, 0.1)]),
            "memory": st.sampled_from([0.0, 0.1, 1e3]),
        },
    ),
    "joint": st.fixed_dictionaries(
        {},
        optional={
            "prior_variance": st.floats(-6, 6).map(lambda e: 10**e),
            "prior_mean": st.floats(-1e6, 1e6),
            "intercept_variance": st.floats(-6, 6).map(lambda e: 10**e),
        },
    ),
    "spike-slab": st.fixed_dictionaries(
        {},
        optional={
            "inclusion_prior": st.sampled_from([1e-30, 1e-20, 0.5, 0.999999]),
            "slab_variance": st.floats(-6, 6).map(lambda e: 10**e),
            "intercept_variance": st.floats(-6, 6).map(lambda e: 10**e),
        },
    ),
    "ftrl": st.fixed_dictionaries(
        {},
        optional={
            "alpha": st.floats(1e-6, 1e6),
            "beta": st.sampled_from([0.0, 1e-6, 1e6]),
            "l1": st.sampled_from([0.0, 1.0, 1e15]),
            "l2": st.sampled_from([0.0, 1.0, 1e15]),
        },
    ),
    "lasso": st.fixed_dictionaries({}, optional={"slack": st.floats(0.01, 1.0), "tolerance": st.floats(1e-12, 0.1)}),
    "adagrad": st.fixed_dictionaries({}, optional={"learning_rate": st.floats(1e-6, 1e6), "l2": st.floats(0, 1e6)}),
}


@every
@settings(fewest, phases=[Phase.generate])  # a smaller stream would not say more
@given(data=st.data(), seed=seeds)
def test_nothing_becomes_non_finite_whatever_comes(case, data, seed):
    prior = data.draw(NASTY_PRIORS.get(case.record.name, st.just({})))
    if case.variant.endswith("per-feature"):
        prior = {name: value for name, value in prior.items() if not name.startswith("prior")}
    if case.variant == "scaled":
        prior.pop("prior_mean", None)
    learner = case.new(**prior)
    fresh = learner.snapshot()
    for k in range(4):
        batch = nasty(learner, seed + k, 250)
        p = learner.learn(batch)
        assert case.sensible(p)
        assert all(np.isfinite(array).all() for array in learner._arrays().values())
        assert np.isfinite(learner.mean).all()
        predicted = learner.predict(batch)
        assert np.isfinite(predicted.expected).all()
        assert np.isfinite(predicted.mean).all()
        if case.regresses:
            assert (np.isfinite(predicted.noise) & (predicted.noise > 0)).all()
        if case.record.posterior:
            assert (np.isfinite(predicted.variance) & (predicted.variance >= 0)).all()
            assert (np.isfinite(learner.variance) & (learner.variance >= 0)).all()
            assert np.all(learner.intercept[1] >= 0)
            # What a mixture believes may widen, as its parts can disagree; and so may a prior that is made of the data,
            # or one that a learned factor multiplies.
            if case.record.linear and not case.record.dense and case.variant != "scaled":
                (variance, of_intercept), (most, most_of_intercept) = certainty(learner), certainty(fresh)
                assert (variance <= most * (1 + 1e-6)).all()
                assert of_intercept <= most_of_intercept * (1 + 1e-6)
