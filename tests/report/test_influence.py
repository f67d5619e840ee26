"""Which features carry the score, against the same in dense NumPy."""

import numpy as np
import pytest

from bayou import Batch
from bayou.learners import AdaGrad, Marginal
from bayou.report import DataFacts, Recorder, ReportedRun
from bayou.report.facts import RunFacts


@pytest.fixture(scope="module")
def trained():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 12)) * (rng.random((1500, 12)) < np.linspace(0.05, 1, 12))
    X[:, 11] = 2.0  # always the same: it moves nothing
    y = (rng.random(1500) < 1 / (1 + np.exp(-X @ rng.normal(size=12)))).astype(float)
    weights = rng.choice([1.0, 2.5], 1500)
    recorder = Recorder(Marginal(20))
    recorder.learn(Batch.from_csr(X, y, weights))
    return X, weights, recorder


def facts_of(recorder, names=None):
    """Of a run whose rows all count."""
    facts = RunFacts(ReportedRun(recorder, None), DataFacts(names=names))
    facts.__dict__["second_half"] = recorder.sample()
    return facts


def test_a_features_share_is_its_part_of_the_scores_variance(trained) -> None:
    X, weights, recorder = trained
    found = facts_of(recorder).strengths
    mean = recorder.learner.mean.astype(float)[:12]
    centre = np.average(X, axis=0, weights=weights)
    carried = mean**2 * np.average((X - centre) ** 2, axis=0, weights=weights)
    assert np.array_equal(found.features, np.arange(12))
    assert found.share == pytest.approx(carried / carried.sum(), abs=1e-6)
    assert found.share[11] == pytest.approx(0.0, abs=1e-9)
    assert found.seen == pytest.approx(np.average(X != 0, axis=0, weights=weights))


def test_the_first_are_the_largest_and_have_names(trained) -> None:
    _, _, recorder = trained

    class Names:
        def name_of(self, indices):
            return [f"<b>{k}" if k % 2 else None for k in indices.tolist()]

    found = facts_of(recorder, Names()).strengths
    top = found.top(5, "share")
    assert np.array_equal(top, np.argsort(-found.share)[:5])  # all twelve features were seen
    assert [found.name(k, "feature ") for k in top] == [f"<b>{k}" if k % 2 else f"feature {k}" for k in top]
    assert found.sd[top] == pytest.approx(np.sqrt(recorder.learner.variance[top]))
    assert len(found.top(50, "share")) <= 12


def test_the_least_known_features_of_a_row(trained) -> None:
    _, _, recorder = trained
    found = facts_of(recorder)
    variance = recorder.learner.variance
    row = np.array([1, 3, 8], np.uint32), np.array([1.0, 1.0, 9.0])
    order = sorted((1, 3, 8), key=lambda k: -variance[k] * (81.0 if k == 8 else 1.0))
    assert found.uncertain_features(row, 2) == [f"feature {k}" for k in order[:2]]
    assert found.uncertain_features(None, 2) == []


def test_without_a_posterior_there_is_no_surety() -> None:
    recorder = Recorder(AdaGrad(8))
    recorder.learn(Batch.from_rows([{0: 1.0}, {1: 1.0}], labels=[1, 0]))
    found = facts_of(recorder)
    assert found.strengths.sd is None
    assert len(found.strengths.top(3, "z")) == 0
    assert found.uncertain_features((np.array([0]), np.array([1.0])), 3) == []


def test_a_learner_that_saw_nothing_has_nothing_to_show() -> None:
    recorder = Recorder(Marginal(8))
    assert len(facts_of(recorder).strengths.top(10, "share")) == 0
