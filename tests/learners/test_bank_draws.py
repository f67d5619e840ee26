"""Draws from a bank: one lane's weights each, by its evidence, as the reference has it."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, logit

from bayou import BankClassifier, Batch
from bayou.kernels.random import CHOICE, INTERCEPT, choices, keyed, normal, unit
from bayou.learners.bank import Bank, Lane, dropping
from bayou.learners.bank.sampling import lanes_to_draw
from tests.learners.test_bank import STREAMS, WIDTH, examples, rivals
from tests.reference.bank import BankReference

KINDS = {
    "slim": {},
    "wide": {"preset": "wide"},
    "bare": {"intercept": False},
    "tempered": {"lanes": [Lane(temper=(0.3, 0.1), second=0.2), Lane(memory=0.1, normalise=True), Lane(rate=0.5)]},
    "AdaGrad": {"lanes": [Lane(rate=0.5), Lane(rate=0.1)]},
    "second output": {
        "lanes": [Lane(second=0.1), Lane(2.0, temper=(2.0, 1.0)), Lane(10.0, scale=True, normalise=True)]
    },
}
purposes = pytest.mark.parametrize("purpose", ["choose", "interval"])


def taken_by_reference(slow: BankReference, seed: int, draw: int) -> int:
    """The lane of a draw: where a number from 0 to 1 falls."""
    chances = slow.lanes_to_draw()
    at = unit(np.uint64(keyed(np.uint64(seed), draw, CHOICE)))
    return list(chances)[int(np.searchsorted(np.cumsum(list(chances.values()))[:-1], at, side="right"))]


@purposes
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", ["usual", "indicators, then near 1"])
def test_draws_equal_the_reference(kind, stream, purpose):
    X, y, weights = examples(3, 40, **STREAMS[stream])
    fast, slow = rivals(**KINDS[kind])
    fast.learn(Batch.from_csr(X, y, weights))
    slow.learn(X, y, weights)
    rows = sparse.csr_array(X[:10] * 0.01)
    drawn = fast.sample(Batch.from_csr(rows), 30, 7, purpose)
    for draw, found in enumerate(drawn):
        keys = [*map(np.uint64, range(WIDTH)), INTERCEPT]
        normals = np.array([normal(np.uint64(7), draw, key) for key in keys])
        w = slow.drawn(taken_by_reference(slow, 7, draw), normals, purpose)
        score = rows @ w[:-1] + (w[-1] if slow.has_intercept else 0.0)
        np.testing.assert_allclose(found, expit(score), rtol=1e-6, atol=1e-12)


def test_lanes_are_taken_as_often_as_their_evidence_says():
    X, y, _ = examples(4, 25, **STREAMS["usual"])
    fast, slow = rivals()
    fast.learn(Batch.from_csr(X, y))
    slow.learn(X, y)
    numbers, chances = lanes_to_draw(fast._lanes, fast._combination)
    assert dict(zip(numbers.tolist(), chances, strict=True)) == pytest.approx(slow.lanes_to_draw())
    assert np.sort(chances)[-2] > 0.01  # more than one has a chance
    shares = np.bincount(choices(np.uint64(1), chances, 20_000), minlength=3) / 20_000
    np.testing.assert_allclose(shares, chances, atol=4 * np.sqrt(0.25 / 20_000))


@purposes
def test_scores_of_draws_have_the_mean_and_variance_of_the_mixture(purpose):
    """By the law of total variance over lanes, whose scores are N(m, share s)."""
    X, y, _ = examples(5, 30, sizes=(0, 0), ones=30, lengths=(7, 9))
    lanes = [Lane(0.3), Lane(3.0)]
    fast = Bank(WIDTH, lanes=lanes, combine="share", dtype="float64", head=0)
    each = [Bank(WIDTH, lanes=[lane], combine="share", dtype="float64", head=0) for lane in lanes]
    for learner in (fast, *each):
        learner.learn(Batch.from_csr(X, y))
    rows = Batch.from_csr(X[:5] * 0.3)
    said, n = [learner.predict(rows) for learner in each], 20_000
    log_evidence = np.array([-30 * learner.levels["bank"]["loss"] for learner in each])
    chances = np.exp(log_evidence) / np.exp(log_evidence).sum()
    share = 0.5 if purpose == "choose" else 1.0
    mean = sum(p * one.mean for p, one in zip(chances, said, strict=True))
    variance = sum(p * (share * one.variance + (one.mean - mean) ** 2) for p, one in zip(chances, said, strict=True))
    drawn = logit(fast.sample(rows, n, 3, purpose))
    assert (np.abs(drawn.mean(axis=0) - mean) < 4 * np.sqrt(variance / n)).all()
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.06)


def test_a_lane_that_rests_is_never_drawn(monkeypatch):
    monkeypatch.setattr(dropping, "NARROWING", {30: 2})
    learner = Bank(WIDTH, narrowing=True, dtype="float64", head=0)
    X, y, _ = examples(0, 60, **STREAMS["usual"])
    learner.learn(Batch.from_csr(X, y))
    kept = {k for k, (lane, output) in enumerate(zip(learner._outputs, learner.lanes, strict=True)) if output.kept}
    numbers, _ = lanes_to_draw(learner._lanes, learner._combination)
    assert set(numbers.tolist()) <= {learner._outputs[k][0] for k in kept}
    assert np.isfinite(learner.sample(Batch.from_csr(X), 5)).all()


def test_a_classifier_draws_narrower_to_choose():
    X, y, _ = examples(1, 50, sizes=(0, 0), ones=50, lengths=(7, 9))
    model, rows = BankClassifier().fit(X, y), X[:3] * 0.3
    narrow, whole = (logit(model.sample_proba(rows, 500, 0, purpose)[:, :, 1]) for purpose in ("choose", "interval"))
    assert np.array_equal(logit(model.sample_proba(rows, 500, 0)[:, :, 1]), narrow)
    assert (narrow.var(axis=0) < 0.8 * whole.var(axis=0)).all()
