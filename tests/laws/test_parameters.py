"""Parameters make the same learner again, and say the same thing in their special and general forms."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bayou.core import registry
from bayou.learners import bank
from tests.laws.cases import VARIANTS, WIDTH, bits, every, stream

# Pairs of arguments that say the same thing, the second in its general form.
SAYS_THE_SAME: dict[str, dict[str, Callable[[int], tuple[dict[str, Any], dict[str, Any]]]]] = {
    "marginal": {
        "prior variances": lambda n: ({"prior_variance": 2.3}, {"prior_variance": np.full(n, 2.3)}),
        "prior means": lambda n: ({"prior_mean": 0.7}, {"prior_mean": np.full(n, 0.7)}),
        "no temper": lambda n: ({}, {"temper": (1.0, 1.0)}),
        "no memory": lambda n: ({}, {"memory": 0.0}),
        "intercept variance": lambda n: ({}, {"intercept_variance": 3.0}),
    },
    "joint": {
        "prior variances": lambda n: ({"prior_variance": 2.3}, {"prior_variance": np.full(n, 2.3)}),
        "prior means": lambda n: ({"prior_mean": 0.7}, {"prior_mean": np.full(n, 0.7)}),
        "intercept variance": lambda n: ({}, {"intercept_variance": 3.0}),
        "full prior variances": lambda n: (
            {"covariance": "full", "prior_variance": 2.3},
            {"covariance": "full", "prior_variance": np.full(n, 2.3)},
        ),
        "batches of one": lambda n: ({"covariance": "full"}, {"covariance": "full", "batch_size": 1}),
    },
    "moment": {
        "prior variances": lambda n: ({"prior_variance": 2.3}, {"prior_variance": np.full(n, 2.3)}),
        "prior means": lambda n: ({"prior_mean": 0.7}, {"prior_mean": np.full(n, 0.7)}),
        "intercept variance": lambda n: ({}, {"intercept_variance": 3.0}),
    },
    "variational": {
        "prior variances": lambda n: ({"prior_variance": 2.3}, {"prior_variance": np.full(n, 2.3)}),
        "points": lambda n: ({}, {"n_points": 8}),
    },
    "gaussian": {
        "prior variances": lambda n: ({"prior_variance": 2.3}, {"prior_variance": np.full(n, 2.3)}),
        "prior means": lambda n: ({"prior_mean": 0.7}, {"prior_mean": np.full(n, 0.7)}),
        "intercept variance": lambda n: ({}, {"intercept_variance": 1e6}),
    },
    "adagrad": {"no l2": lambda n: ({}, {"l2": 0.0})},
    "spike-slab": {
        "always fresh": lambda n: ({}, {"refresh_every": 1, "batch_size": 1}),
        "intercept variance": lambda n: ({}, {"intercept_variance": 3.0}),
    },
    "ftrl": {"no penalties": lambda n: ({}, {"l1": 0.0, "l2": 0.0})},
    "bank": {"lanes of the preset": lambda n: ({}, {"lanes": list(bank.PRESETS["slim"])})},
}


@every
def test_parameters_make_the_same_learner_again(case):
    learner = case.new()
    learner.learn(case.stream(20))
    twin = type(learner)(**learner.parameters)
    twin.learn(case.stream(20))
    assert bits(twin) == bits(learner)
    assert type(learner).__name__ in repr(learner)


@every
def test_the_callers_arrays_may_change_afterwards(case):
    arguments = VARIANTS.get(case.record.name, {"default": lambda n: {}})[case.variant](WIDTH)
    learner = case.record.load()(n_features=WIDTH, dtype=case.dtype, **arguments)
    before = bits(learner)
    for value in arguments.values():
        if isinstance(value, np.ndarray):
            value[:] = 7
    assert bits(learner) == before


@pytest.mark.parametrize(
    ("name", "pair", "dtype"),
    [
        (name, pair, dtype)
        for name, pairs in SAYS_THE_SAME.items()
        for pair in pairs
        for dtype in ("float32", "float64")
    ],
)
def test_a_special_case_equals_its_general_form(name, pair, dtype):
    special, general = (
        registry.find(name).load()(n_features=WIDTH, dtype=dtype, **arguments)
        for arguments in SAYS_THE_SAME[name][pair](WIDTH)
    )
    for seed in range(5):
        assert special.learn(stream(seed)).tobytes() == general.learn(stream(seed)).tobytes()
    assert bits(special)[1]["state"] == bits(general)[1]["state"]
    assert special.intercept == general.intercept
    assert special.mean.tobytes() == general.mean.tobytes()
