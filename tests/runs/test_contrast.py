"""Linear combinations of weights, by index and by name."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtri

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
    assert total.sd**2 == pytest.approx(covariance.sum())
    assert difference.sd**2 > 1.5 * total.sd**2
    assert alone.contrast([0, 1], [1, -1]).sd ** 2 == pytest.approx(alone.variance.sum())
    assert alone.covariance([1, 1])[0, 1] == alone.variance[1]


def test_a_contrast_by_name_agrees_with_that_by_index():
    rows = pa.table({"day": ["Mon", "Sun", "Tue", "Sun"] * 50, "clicked": [1, 0, 0, 0] * 50})
    learner = bayou.train(rows, label="clicked", learner="marginal", bits=10).learner
    listed = bayou.features(learner, index=True)
    index = dict(zip(listed["feature"].to_pylist(), listed["index"].to_pylist(), strict=True))
    found = bayou.contrast(learner, {"day=Mon": 1, "day=Sun": -1}, level=0.9)
    assert found == learner.contrast([index["day=Mon"], index["day=Sun"]], [1, -1], level=0.9)
    low, high = learner.weights_at([index["day=Mon"], index["day=Sun"]]).mean @ [1, -1] + ndtri([0.05, 0.95]) * found.sd
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.low > 0


def test_contrasts_that_cannot_be_are_refused():
    learner = pair(Marginal(2))
    with pytest.raises(bayou.BadInput, match="one finite weight per feature"):
        learner.contrast([0, 1], [1])
    with pytest.raises(bayou.BadInput, match="has not seen the feature 'day=Mon'"):
        bayou.contrast(learner, {"day=Mon": 1})
    with pytest.raises(bayou.NoPosterior):
        pair(FTRL(2)).covariance([0])
    with pytest.raises(bayou.NoPosterior):
        pair(FTRL(2)).contrast([0], [1])
    with pytest.raises(bayou.BadInput, match=r"level is 1\.5"):
        learner.contrast([0], [1], level=1.5)
    with pytest.raises(bayou.NoPosterior, match="no posterior"):
        bayou.contrast(pair(FTRL(2)), {"0": 1, "1": -1})


def test_a_diagonal_covariance_needs_no_matrix_of_all_weights():
    learner = pair(Joint(2**22))
    np.testing.assert_array_equal(learner.covariance([0, 9]), np.diag(learner.weights_at([0, 9]).variance))


@pytest.mark.parametrize("intercept", [True, False])
def test_joint_shows_the_contrasts_of_its_full_covariance(intercept):
    rows = pa.table({"day": ["Mon", "Sun", "Tue", "Sun"] * 50, "clicked": [1, 0, 0, 0] * 50})
    settings = {"covariance": "full", "intercept": intercept}
    learner = bayou.train(rows, label="clicked", learner="joint", settings=settings, bits=6).learner
    shares, shown = {"day=Mon": 0.25, "day=Sun": 0.5, "day=Tue": 0.25}, bayou.features(learner).to_pylist()
    for row in shown[intercept:]:
        factors = {name: (name == row["feature"]) - share for name, share in shares.items()}
        expected = bayou.contrast(learner, factors)
        assert (row["mean"], row["sd"]) == pytest.approx((expected.mean, expected.sd), rel=1e-5)
    joint = bayou.posterior(learner)
    assert joint["feature"].to_pylist()[intercept:] == sorted(shares, key=joint["feature"].to_pylist().index)
    covariance = np.array(joint["covariance"].to_pylist())
    index = [64 if k is None else k for k in joint["index"].to_pylist()]
    np.testing.assert_allclose(covariance, learner.covariance_matrix()[np.ix_(index, index)], rtol=1e-12)
