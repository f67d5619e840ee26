"""Linear combinations of weights, by index and by name."""

import numpy as np
import pyarrow as pa
import pytest

import bayou
from bayou import Batch
from bayou.learners import FTRL, Joint, Marginal


def pair(learner):
    """Two features that always come together, one with a third of the labels of the other kind."""
    learner.learn(Batch.from_rows([{0: 1.0, 1: 1.0}] * 30, labels=[1, 1, 0] * 10))
    return learner


def test_a_contrast_takes_correlations_into_account():
    joint, alone = pair(Joint(2, covariance="full")), pair(Marginal(2))
    covariance = joint.covariance([0, 1])
    np.testing.assert_allclose(np.diag(covariance), joint.variance, rtol=1e-5)
    assert covariance[0, 1] < -0.1
    total, difference = joint.contrast([0, 1], [1, 1]), joint.contrast([0, 1], [1, -1])
    assert total.mean == pytest.approx(joint.mean.sum())
    assert total.variance == pytest.approx(covariance.sum())
    assert difference.variance > 1.5 * total.variance
    assert alone.contrast([0, 1], [1, -1]).variance == pytest.approx(alone.variance.sum())
    assert alone.covariance([1, 1])[0, 1] == alone.variance[1]


def test_a_contrast_by_name_agrees_with_that_by_index():
    rows = pa.table({"day": ["Mon", "Sun", "Tue", "Sun"] * 50, "clicked": [1, 0, 0, 0] * 50})
    learner = bayou.train(rows, label="clicked", learner="marginal", bits=10).learner
    listed = bayou.features(learner, index=True)
    index = dict(zip(listed["feature"].to_pylist(), listed["index"].to_pylist(), strict=True))
    found = bayou.contrast(learner, {"day=Mon": 1, "day=Sun": -1}, level=0.9)
    expected = learner.contrast([index["day=Mon"], index["day=Sun"]], [1, -1])
    assert found.mean == pytest.approx(float(expected.mean))
    assert (found.low, found.high) == pytest.approx(expected.interval(0.9))
    assert found.low > 0


def test_contrasts_that_cannot_be_are_refused():
    learner = pair(Marginal(2))
    with pytest.raises(bayou.BadInput, match="as many finite weights"):
        learner.contrast([0, 1], [1])
    with pytest.raises(bayou.BadInput, match="has not seen the feature 'day=Mon'"):
        bayou.contrast(learner, {"day=Mon": 1})
    with pytest.raises(bayou.NoPosterior):
        pair(FTRL(2)).covariance([0])
    with pytest.raises(bayou.NoPosterior, match="no variances"):
        bayou.contrast(pair(FTRL(2)), {"0": 1, "1": -1})
