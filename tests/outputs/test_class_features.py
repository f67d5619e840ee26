"""Weights of several classes: against the same in dense NumPy."""

import numpy as np
import pytest

from bayou.learners import Classes
from bayou.outputs.class_features import ClassStrengths
from bayou.outputs.features import feature_strengths
from tests.outputs.wines import NAMES, trained


@pytest.fixture(scope="module")
def model():
    return trained()


def test_a_class_is_shown_against_the_average_one(model):
    shown = ClassStrengths(model)
    assert sorted(shown.names) == sorted(NAMES)
    each = []
    for learner in model.learners:
        learner.extras = model.extras
        each.append(feature_strengths(learner))  # centred, against the rest
    means, variances = np.array([one.mean for one in each]), np.array([one.sd for one in each]) ** 2
    contrast = np.eye(3) - 1 / 3
    for k in range(3):
        own = shown.of(k)
        np.testing.assert_allclose(own.mean, contrast[k] @ means, atol=1e-12)
        np.testing.assert_allclose(own.sd**2, contrast[k] ** 2 @ variances, rtol=1e-9)
        assert own.intercept == pytest.approx(contrast[k] @ [one.intercept for one in each])
        assert own.intercept_sd**2 == pytest.approx(contrast[k] ** 2 @ [one.intercept_sd**2 for one in each])
        assert own.moments.seen @ own.mean == pytest.approx(0.0, abs=1e-6)  # centred still
    np.testing.assert_allclose(sum(shown.of(k).mean for k in range(3)), 0.0, atol=1e-12)
    pinot = shown.of(shown.names.index("pinot"))
    assert pinot.name(int(pinot.mean.argmax())) == "region=baden"
    assert [column.name for column in pinot.columns()] == ["region"]


def test_learners_without_a_posterior_have_no_sd():
    shown = ClassStrengths(trained("ftrl")).of(0)
    assert shown.sd is None
    assert np.isnan(shown.intercept_sd)
    assert shown.families[0].complete


def test_before_the_first_class_there_is_nothing_to_show():
    shown = ClassStrengths(Classes(n_features=4, learner="marginal"))
    assert len(shown) == 0
    assert shown.features.tolist() == []
